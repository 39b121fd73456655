import unittest

from prices import total


class Total(unittest.TestCase):
    def test_all_prices_are_added(self):
        self.assertEqual(total([3, 4, 5]), 12)

    def test_the_discount_is_in_percent(self):
        self.assertEqual(total([100, 100], discount=25), 150)


if __name__ == "__main__":
    unittest.main()
