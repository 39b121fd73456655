import unittest

from numbers_tools import clamp, is_even


class NumbersTest(unittest.TestCase):
    def test_even(self):
        self.assertTrue(is_even(4))
        self.assertFalse(is_even(5))

    def test_clamp(self):
        self.assertEqual(clamp(-1, 0, 10), 0)
        self.assertEqual(clamp(11, 0, 10), 10)
        self.assertEqual(clamp(5, 0, 10), 5)


if __name__ == "__main__":
    unittest.main()
