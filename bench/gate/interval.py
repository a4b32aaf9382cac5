"""Decides from pairs of times whether one tree is slower than the other.

The median of the pairs' ratios has an interval that makes no assumption about noise: between two of the ordered ratios,
chosen by the binomial distribution, since each ratio is above the true median with probability one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

CONFIDENCE = 0.99
FEWEST = 8  # ratios from which an interval of this confidence can be told


@dataclass(frozen=True)
class Interval:
    """The median of some ratios, and where the true one lies with `CONFIDENCE`."""

    low: float
    median: float
    high: float

    def exceeds(self, limit: float) -> bool:
        return self.low > limit

    def decides(self, limit: float) -> bool:
        """True if the limit is outside, so that more ratios would hardly change the answer."""
        return self.exceeds(limit) or self.high < limit

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def interval(ratios: Sequence[float]) -> Interval:
    """The interval of at least `FEWEST` ratios."""
    if len(ratios) < FEWEST:
        raise ValueError(f"{len(ratios)} ratios tell nothing; at least {FEWEST} are needed")
    ordered = sorted(ratios)
    left_out = _left_out(len(ordered))
    return Interval(ordered[left_out], median(ordered), ordered[-1 - left_out])


def _left_out(count: int) -> int:
    """How many ratios at each end the interval may leave out."""
    tail, left_out = 1, 0  # of 2**count equally likely ways to lie below or above the median
    while 2 * tail <= (1 - CONFIDENCE) * 2**count:
        left_out += 1
        tail += comb(count, left_out)
    return left_out - 1
