"""Totals over the matches of a position that has more of them than are worth enumerating.

A machine whose caller only wants totals has a `Summing`. When a position has so many matches that enumeration would
hand them out in blocks, the machine has it add them up over the graph instead.

Without a window, what is below a node never changes, so what earlier positions found is kept. With one, each position
looks at its own live nodes. A collection renumbers the nodes; then all is found anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, A
from ceql.engine.common.limits import out_of_memory
from ceql.engine.common.sums import Floats, Weights, Wholes
from ceql.jit import Array

Weigh = Callable[[Array, Array], Weights]
"""Returns the weights of the events at these positions, with these labels."""
FindTotals = Callable[[Array, Weights, Floats | None, Wholes | None, int, bool], None]
"""Finds the totals of nodes inside a window; the last argument says whether sizes are logarithms."""

QUOTA = 1 << 12
"""A position with more matches than this is added up over the graph."""
_LARGE = 1e300  # floats beyond this are taken for infinite
_BITS = 30  # that each prime is certain to tell
_FIRST_PRIME = (1 << 31) - 1


class Ended(NamedTuple):
    """A position whose matches are to be added up."""

    roots: Array
    """Those inside the window."""
    bound: int
    end: int
    partition: int
    time: int


class Found(NamedTuple):
    """The totals of one position."""

    end: int
    partition: int
    time: int
    whole: list[int]
    """The number of matches, then the sums of weights."""
    real: list[float]
    code: list[int]


class Summing:
    """Adds up the matches of positions, for one machine."""

    def __init__(self, weigh: Weigh, whole: int, real: int, code: int) -> None:
        self._weigh = weigh
        self._widths = whole, real, code
        self._weights = Weights(np.zeros((0, whole), np.int64), np.zeros((0, real)), np.zeros((0, code), np.int64))
        self._floats = _floats(0, *self._widths)
        self._wholes = Wholes(np.zeros((0, 1 + whole, 0), np.int64), np.zeros(0, np.int64))
        self._product, self._parts = 1, list[int]()  # of the primes: what puts numbers together
        self._logs = False
        self._at = -1  # how often nodes were renumbered before
        self._weighed = self._sized = self._summed = 0  # the nodes of which all is known
        self._found: list[Found] = []

    def anew(self) -> Summing:
        """The same for another machine."""
        return Summing(self._weigh, *self._widths)

    def take(self) -> list[Found]:
        """What was found since this was last asked."""
        found, self._found = self._found, []
        return found

    def add(
        self,
        nodes: Array,
        used: int,
        renumbered: int,
        ended: list[Ended],
        live_of: Callable[[Ended], Array] | None,
        run: FindTotals,
        memory: int,
    ) -> None:
        """Add up the matches of positions.

        `live_of` lists the nodes that a position reaches, children before parents; None if nothing expires, so that
        what is below a node is always the same. `renumbered` is how often nodes were renumbered so far.
        """
        if renumbered != self._at:
            self._at = renumbered
            self._weighed = self._sized = self._summed = 0
        self._make_room(len(nodes), memory)
        self._weigh_new(nodes, used)
        if live_of is None:
            self._add_together(ended, None, used, run, memory)
        else:
            for one in ended:
                self._add_together([one], live_of(one), used, run, memory)

    def _add_together(self, ended: list[Ended], live: Array | None, used: int, run: FindTotals, memory: int) -> None:
        roots = np.concatenate([one.roots for one in ended])
        begins = np.cumsum([0, *(len(one.roots) for one in ended[:-1])])
        bound = ended[0].bound
        bits = self._size(live, used, roots, begins, bound, run)
        self._count_primes(bits, memory)
        run(self._todo(live, self._summed, used), self._weights, None, self._wholes, bound, self._logs)
        self._summed = used if live is None else 0
        remainders = np.add.reduceat(self._wholes.sums[roots], begins)
        real = np.add.reduceat(self._floats.real[roots], begins)
        code = np.maximum.reduceat(self._floats.code[roots], begins)
        for k, one in enumerate(ended):
            whole = [self._number(row) for row in remainders[k].tolist()]
            self._found.append(Found(one.end, one.partition, one.time, whole, real[k].tolist(), code[k].tolist()))

    @staticmethod
    def _todo(live: Array | None, known: int, used: int) -> Array:
        return live if live is not None else np.arange(known, used, dtype=np.int64)

    def _make_room(self, capacity: int, memory: int) -> None:
        if len(self._weights.whole) >= capacity:
            return
        self._check(capacity, len(self._wholes.primes), memory)
        self._weights = Weights(*(_longer(array, capacity) for array in self._weights))
        self._floats = Floats(*(_longer(array, capacity) for array in self._floats))
        self._wholes = self._wholes._replace(sums=_longer(self._wholes.sums, capacity))

    def _check(self, capacity: int, primes: int, memory: int) -> None:
        whole, real, code = self._widths
        if 8 * capacity * (2 * (whole + real + code) + 1 + (1 + whole) * primes) > memory:
            raise out_of_memory(memory)

    def _weigh_new(self, nodes: Array, used: int) -> None:
        """What the events of nodes weigh that are new since the last time."""
        kind = nodes[self._weighed : used, KIND]
        fresh = self._weighed + np.flatnonzero((kind >= 0) & (kind < BOTTOM))  # others have no event
        if len(fresh) and any(self._widths):
            for own, given in zip(self._weights, self._weigh(nodes[fresh, A], nodes[fresh, KIND]), strict=True):
                own[fresh] = given
        self._weighed = used

    def _size(self, live: Array | None, used: int, roots: Array, begins: Array, bound: int, run: FindTotals) -> float:
        """The bits of the greatest number to come, at the most; all floats are known after it."""
        while True:
            run(self._todo(live, self._sized, used), self._weights, self._floats, None, bound, self._logs)
            self._sized = used if live is None else 0
            size = self._floats.size[roots]
            if self._logs:
                return float(np.logaddexp2.reduceat(size, begins).max())
            most = float(np.add.reduceat(size, begins).max())
            if most < _LARGE:
                return math.log2(max(most, 1.0))
            self._logs = True
            self._sized = 0

    def _count_primes(self, bits: float, memory: int) -> None:
        """Have as many primes as tell numbers of so many bits apart, and their signs."""
        needed = math.ceil((max(bits, 0.0) * (1 + 1e-9) + 3) / _BITS)  # a margin above what floats round
        count = len(self._wholes.primes)
        if needed <= count:
            return
        count, capacity = max(needed, 2 * count), len(self._wholes.sums)
        self._check(capacity, count, memory)
        primes = [_FIRST_PRIME]
        while len(primes) < count:
            primes.append(prime_below(primes[-1]))
        self._wholes = Wholes(np.zeros((capacity, 1 + self._widths[0], count), np.int64), np.array(primes, np.int64))
        self._summed = 0
        self._product = math.prod(primes)
        self._parts = [self._product // p * pow(self._product // p, -1, p) for p in primes]

    def _number(self, remainders: list[int]) -> int:
        """The number of either sign that has these remainders, by the Chinese remainder theorem."""
        number = sum(remainder * part for remainder, part in zip(remainders, self._parts, strict=True)) % self._product
        return number if 2 * number < self._product else number - self._product


def _floats(nodes: int, whole: int, real: int, code: int) -> Floats:
    return Floats(np.zeros((nodes, 1 + whole)), np.zeros((nodes, real)), np.zeros((nodes, code), np.int64))


def _longer(array: Array, rows: int) -> Array:
    longer = np.zeros((rows, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def prime_below(number: int) -> int:
    """The greatest prime below an odd number."""
    candidate = number - 2
    while not _is_prime(candidate):
        candidate -= 2
    return candidate


def _is_prime(n: int) -> bool:
    """Miller-Rabin with bases that decide every n below 3.3e24."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    if any(n % p == 0 for p in bases):
        return n in bases
    d, r = n - 1, 0
    while d % 2 == 0:
        d, r = d // 2, r + 1
    for base in bases:
        value = pow(base, d, n)
        if value in (1, n - 1):
            continue
        for _ in range(r - 1):
            value = value * value % n
            if value == n - 1:
                break
        else:
            return False
    return True
