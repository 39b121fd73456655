import unittest

from numbers_tools import is_even


class NumbersTest(unittest.TestCase):
    def test_even(self):
        self.assertTrue(is_even(4))
        self.assertFalse(is_even(5))


if __name__ == "__main__":
    unittest.main()
