import unittest

import calc


class MeanTests(unittest.TestCase):
    def test_two(self):
        """The mean of two numbers lies between them."""
        self.assertEqual(calc.mean([1, 3]), 2)

    def test_largest(self):
        """The largest number is found."""
        self.assertEqual(calc.largest([1, 3, 2]), 3)
