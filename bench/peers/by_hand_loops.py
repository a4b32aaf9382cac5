"""The loops that one would write by hand in Numba, each for one query: what ceql's times are held against.

They are what an hour of work gives: nested loops over the window that give up early, with running sums in place of the
innermost loop. They keep no index over the events, except for `rises_at`, which a wide window leaves no other choice.
Each takes the events as arrays: `kind`, the number of the type (0 for A, 1 for B, ...), `price` and `k`.

`count_...` give the number of matches, `list_...` their positions, a row for each match, in no particular order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
Array = np.ndarray[Any, np.dtype[Any]]

A, B, C, D = range(4)


def compiled(function: F) -> F:
    """Compiled by Numba, once for all processes."""
    return cast(F, numba.njit(cache=True)(function))


@compiled
def count_rising(kind: Array, price: Array, first: float, second: float, window: int) -> int:
    """A ; B ; C, where B costs more than A + `first` and C more than B + `second`."""
    total = 0
    ends = np.empty(window + 1, np.int64)  # for each A before this B that is cheap enough: the last place of its window
    for b in range(len(kind)):
        if kind[b] != B:
            continue
        found = 0
        for a in range(max(0, b - window), b):
            if price[b] > price[a] + first and kind[a] == A:
                ends[found] = a + window
                found += 1
        if not found:
            continue
        gone = 0
        least = price[b] + second
        for c in range(b + 1, min(len(kind), ends[found - 1] + 1)):
            while ends[gone] < c:
                gone += 1
            if price[c] > least and kind[c] == C:
                total += found - gone
    return total


@compiled
def list_rising(kind: Array, price: Array, first: float, second: float, window: int) -> Array:
    """The matches of `count_rising`."""
    rows = np.empty((1024, 3), np.int64)
    size = 0
    starts = np.empty(window + 1, np.int64)
    for b in range(len(kind)):
        if kind[b] != B:
            continue
        found = 0
        for a in range(max(0, b - window), b):
            if price[b] > price[a] + first and kind[a] == A:
                starts[found] = a
                found += 1
        if not found:
            continue
        gone = 0
        least = price[b] + second
        for c in range(b + 1, min(len(kind), starts[found - 1] + window + 1)):
            while starts[gone] + window < c:
                gone += 1
            if price[c] > least and kind[c] == C:
                while size + found > len(rows):
                    rows = np.concatenate((rows, np.empty_like(rows)))
                for at in range(gone, found):
                    rows[size, 0], rows[size, 1], rows[size, 2] = starts[at], b, c
                    size += 1
    return rows[:size]


@compiled
def count_drop(kind: Array, price: Array, k: Array, fall: float, window: int) -> int:
    """A ; B ; C, where C has the k of A and costs less than A - `fall`; B is free, so that running sums count it."""
    total = 0
    before = np.empty(len(kind), np.int64)  # events B up to and with each place
    found = 0
    for c in range(len(kind)):
        found += kind[c] == B
        before[c] = found
        if kind[c] != C:
            continue
        for a in range(max(0, c - window), c):
            if price[c] < price[a] - fall and k[a] == k[c] and kind[a] == A:
                total += found - before[a]
    return total


@compiled
def list_drop(kind: Array, price: Array, k: Array, fall: float, window: int) -> Array:
    """The matches of `count_drop`."""
    rows = np.empty((1024, 3), np.int64)
    size = 0
    starts = np.empty(window + 1, np.int64)
    for c in range(len(kind)):
        if kind[c] != C:
            continue
        found = 0
        for a in range(max(0, c - window), c):
            if price[c] < price[a] - fall and k[a] == k[c] and kind[a] == A:
                starts[found] = a
                found += 1
        for at in range(found):
            while size + window > len(rows):
                rows = np.concatenate((rows, np.empty_like(rows)))
            for b in range(starts[at] + 1, c):
                if kind[b] == B:
                    rows[size, 0], rows[size, 1], rows[size, 2] = starts[at], b, c
                    size += 1
    return rows[:size]


@compiled
def count_four(kind: Array, price: Array, rise: float, window: int) -> int:
    """A ; B ; C ; D, where B costs more than A + `rise`, C more than B + `rise`, and D less than A."""
    total = 0
    after = np.zeros(window + 2, np.int64)  # for each place after A: the events D from there on that are cheap enough
    for a in range(len(kind)):
        if kind[a] != A:
            continue
        end = min(len(kind), a + window + 1)
        found = 0
        for d in range(end - 1, a, -1):
            found += (kind[d] == D) & (price[d] < price[a])
            after[d - a] = found
        if not found:
            continue
        for b in range(a + 1, end):
            if kind[b] == B and price[b] > price[a] + rise and after[b - a]:
                least = price[b] + rise
                for c in range(b + 1, end):
                    if price[c] > least and kind[c] == C:
                        total += after[c - a]
    return total


@compiled
def count_rising_runs(price: Array, window: int) -> int:
    """A ; A+, each dearer than the one before it in the match; every event is an A."""
    total = 0
    above = np.empty(window + 1)  # prices after the first event that are above it
    runs = np.empty(window + 1, np.int64)  # matches that end there
    for a in range(len(price)):
        size = 0
        for b in range(a + 1, min(len(price), a + window + 1)):
            if price[b] > price[a]:
                ways = 1
                for at in range(size):
                    if above[at] < price[b]:
                        ways += runs[at]
                above[size] = price[b]
                runs[size] = ways
                size += 1
                total += ways
    return total


@compiled
def _raise(tree: Array, place: int, value: int) -> None:
    """A tree of maxima over beginnings of a row, as Fenwick's of sums: those up to `place` and beyond get `value`."""
    while place < len(tree):
        if tree[place] < value:
            tree[place] = value
        place += place & -place


@compiled
def _greatest(tree: Array, place: int) -> int:
    """The greatest value at the first `place` places."""
    best = -1
    while place > 0:
        best = max(best, tree[place])
        place -= place & -place
    return best


@compiled
def _rises_at(kind: Array, rank: Array, below_a: Array, below_b: Array, window: int) -> int:
    """`below_a`, `below_b`: how many events are so cheap that this one may follow them as B, as C."""
    latest_a, latest_start = np.full(len(kind) + 1, -1), np.full(len(kind) + 1, -1)
    total = 0
    for at in range(len(kind)):
        if kind[at] == A:
            _raise(latest_a, rank[at] + 1, at)
        elif kind[at] == B:
            start = _greatest(latest_a, below_a[at])
            if start >= 0:
                _raise(latest_start, rank[at] + 1, start)
        elif kind[at] == C:
            start = _greatest(latest_start, below_b[at])
            total += start >= 0 and at - start <= window
    return total


def rises_at(kind: Array, price: Array, first: float, second: float, window: int) -> int:
    """At how many events `count_rising` has matches: of each B, and of each C, the latest start is enough.

    A tree over the prices finds it, in time that does not depend on the window.
    """
    order = np.argsort(price, kind="stable")
    rank = np.empty(len(price), np.int64)
    rank[order] = np.arange(len(price))
    below_a = np.searchsorted(price[order] + first, price)
    below_b = np.searchsorted(price[order] + second, price)
    return int(_rises_at(kind, rank, below_a, below_b, window))
