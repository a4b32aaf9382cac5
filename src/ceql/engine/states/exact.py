"""Counts beyond int64.

Under a window, what a node counts changes as starts expire: each position is counted by itself, as residues modulo
primes that the Chinese remainder theorem puts together. Only additions are needed, so a prime costs one
pass over the live graph. Without a window a node's count never changes, and is kept.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import BOTTOM, UNION
from ceql.engine.common.primes import prime_below
from ceql.engine.states.count import count_log2, count_modulo
from ceql.jit import Array


def exact_count(nodes: Array, live: Array, roots: Array, exact: bool, bound: int) -> int:
    """The number of matches under the roots whatever its size; `live` are the live nodes, children before parents."""
    count = len(roots)
    sums: Array = np.zeros(len(nodes), np.int64)
    bits = count_log2(nodes, live, roots, count, np.zeros(len(nodes)), exact, np.int64(bound))
    most = 1 << int(bits * (1 + 1e-9) + 2)  # the logarithm is a float: a margin above its rounding
    result, modulus, prime = 0, 1, (1 << 61) - 1
    while modulus <= most:
        residue = int(count_modulo(nodes, live, roots, count, sums, exact, np.int64(bound), np.int64(prime)))
        result += modulus * ((residue - result) * pow(modulus, -1, prime) % prime)
        modulus *= prime
        prime = prime_below(prime)
    return result


class KeptCounts:
    """The number of matches under every node of a graph from which nothing expires."""

    def __init__(self) -> None:
        self._counts: list[int] = []

    def forget(self) -> None:
        """The nodes were renumbered."""
        self._counts.clear()

    def count(self, nodes: Array, used: int, roots: Array) -> int:
        """The matches under `roots`; nodes that are new since the last call are counted first."""
        counts = self._counts
        for _, a, b, kind in nodes[len(counts) : used].tolist():
            if kind == BOTTOM:
                counts.append(1)
            elif kind == UNION:
                counts.append(counts[a] + counts[b])
            else:
                counts.append(counts[b])
        return sum(counts[root] for root in roots.tolist())
