"""Numbers of matches in all lanes at once: what is added is read before anything is written, so that LLVM makes one
vector of it.

A lane with more than TOO_MANY matches has TOO_MANY + 1. The first lane has the most: where a product of it is too
large, all lanes have TOO_MANY + 1.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.layout import TOO_MANY
from ceql.engine.groups.layout import LANES
from ceql.jit import Array, Word, inlined

Lanes = tuple[Word, Word, Word, Word, Word, Word, Word, Word]
assert LANES == 8  # which is written out here
_MOST = np.int64(TOO_MANY + 1)


@inlined
def same(number: Word) -> Lanes:
    """The same number in all lanes."""
    return number, number, number, number, number, number, number, number


@inlined
def lanes_of(sums: Array, n: int) -> Lanes:
    return sums[n, 0], sums[n, 1], sums[n, 2], sums[n, 3], sums[n, 4], sums[n, 5], sums[n, 6], sums[n, 7]


@inlined
def put(sums: Array, n: int, a: Lanes) -> None:
    sums[n, 0], sums[n, 1], sums[n, 2], sums[n, 3] = a[0], a[1], a[2], a[3]
    sums[n, 4], sums[n, 5], sums[n, 6], sums[n, 7] = a[4], a[5], a[6], a[7]


@inlined
def _sum(a: Word, b: Word) -> Word:
    return min(a + b, _MOST)


@inlined
def plus(a: Lanes, b: Lanes) -> Lanes:
    return (
        _sum(a[0], b[0]), _sum(a[1], b[1]), _sum(a[2], b[2]), _sum(a[3], b[3]),
        _sum(a[4], b[4]), _sum(a[5], b[5]), _sum(a[6], b[6]), _sum(a[7], b[7]),
    )  # fmt: skip


@inlined
def times(a: Lanes, b: Lanes) -> Lanes:
    if np.float64(a[0]) * np.float64(b[0]) > TOO_MANY:
        return same(np.int64(TOO_MANY + 1))
    return a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3], a[4] * b[4], a[5] * b[5], a[6] * b[6], a[7] * b[7]


@inlined
def only_if(a: Lanes, holds: bool) -> Lanes:
    """These numbers or none, without a branch."""
    mask = -np.int64(holds)
    return a[0] & mask, a[1] & mask, a[2] & mask, a[3] & mask, a[4] & mask, a[5] & mask, a[6] & mask, a[7] & mask
