"""What merging and gaps promise."""

from __future__ import annotations

import unittest

from intervals import free, merge


class Merge(unittest.TestCase):
    """Busy times become one where they overlap or touch."""

    def test_overlapping_ones_become_one(self) -> None:
        self.assertEqual(merge([(60, 120), (90, 150)]), [(60, 150)])

    def test_touching_ones_become_one(self) -> None:
        self.assertEqual(merge([(60, 90), (90, 120)]), [(60, 120)])

    def test_order_does_not_matter(self) -> None:
        self.assertEqual(merge([(200, 210), (10, 20)]), [(10, 20), (200, 210)])


class Free(unittest.TestCase):
    """Gaps are what is left of the day."""

    def test_gaps_lie_between_the_busy_times(self) -> None:
        self.assertEqual(free([(60, 120), (180, 240)], (0, 300)), [(0, 60), (120, 180), (240, 300)])


if __name__ == "__main__":
    unittest.main()
