"""Totals below the nodes of a graph: how a node's are made of those of its children.

Of each node, the matches below it have a number, sums of weights over all their events, and greatest codes. A union
adds up its children, and a product of factors multiplies: each match of one side goes with all of the other. An event
that comes after all of them adds its weight as often as there are matches.

Sums of whole numbers are found modulo several primes below 2^31, whose products fit 64 bits. How many primes it takes
is known from an upper bound, which a pass over floats finds first: `Floats` has the number of matches and the sums of
absolute weights, or their binary logarithms where floats are too small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.jit import Array, inlined

ABSENT = np.iinfo(np.int64).min  # the code of what has no value


class Weights(NamedTuple):
    """What the events of nodes weigh, a row for each node: 0 or ABSENT if the event does not count."""

    whole: Array  # int64[nodes, :]
    real: Array  # float64[nodes, :]
    code: Array  # int64[nodes, :]: of greatest values


class Floats(NamedTuple):
    """What one pass finds below each node."""

    size: Array  # float64[nodes, 1 + whole]: the number of matches, and sums of absolute weights; or logarithms
    real: Array  # float64[nodes, :]
    code: Array  # int64[nodes, :]


class Wholes(NamedTuple):
    """What another pass finds below each node."""

    sums: Array  # int64[nodes, 1 + whole, primes]: the number of matches, and sums of weights
    primes: Array  # int64[primes]


@inlined
def plus(a: float, b: float, logs: bool) -> float:
    """The sum of two numbers that are not negative, or its logarithm."""
    if not logs:
        return a + b
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log2(1.0 + 2.0 ** (low - high))


@inlined
def _product(a: float, b: float, logs: bool) -> float:
    return a + b if logs else a * b


@inlined
def _as_often(value: float, size: float, logs: bool) -> float:
    """A value as often as there are matches; nothing stays nothing, however many there are."""
    times = 2.0**size if logs else size
    return 0.0 if value == 0.0 or times == 0.0 else value * times


@inlined
def begin(floats: Floats | None, wholes: Wholes | None, n: int, matches: int, logs: bool) -> None:
    """Let a node have so many matches, 0 or 1, without events."""
    if floats is not None:
        nothing = -np.inf if logs else 0.0
        for k in range(floats.size.shape[1]):
            floats.size[n, k] = nothing
        if matches == 1:
            floats.size[n, 0] = 0.0 if logs else 1.0
        for k in range(floats.real.shape[1]):
            floats.real[n, k] = 0.0
        for k in range(floats.code.shape[1]):
            floats.code[n, k] = ABSENT
    if wholes is not None:
        for p in range(wholes.sums.shape[2]):
            for k in range(wholes.sums.shape[1]):
                wholes.sums[n, k, p] = 0
            wholes.sums[n, 0, p] = matches


@inlined
def unite(floats: Floats | None, wholes: Wholes | None, n: int, child: int, logs: bool) -> None:
    """Add the matches of a child to those of a node."""
    if floats is not None:
        for k in range(floats.size.shape[1]):
            floats.size[n, k] = plus(floats.size[n, k], floats.size[child, k], logs)
        for k in range(floats.real.shape[1]):
            floats.real[n, k] += floats.real[child, k]
        for k in range(floats.code.shape[1]):
            floats.code[n, k] = max(floats.code[n, k], floats.code[child, k])
    if wholes is not None:
        for p in range(wholes.sums.shape[2]):
            for k in range(wholes.sums.shape[1]):
                wholes.sums[n, k, p] = (wholes.sums[n, k, p] + wholes.sums[child, k, p]) % wholes.primes[p]


@inlined
def multiply(floats: Floats | None, wholes: Wholes | None, n: int, other: int, logs: bool) -> None:
    """Let each match of a node go with each of another."""
    if floats is not None:
        here, there = floats.size[n, 0], floats.size[other, 0]
        for k in range(1, floats.size.shape[1]):
            mine, its = _product(floats.size[n, k], there, logs), _product(here, floats.size[other, k], logs)
            floats.size[n, k] = plus(mine, its, logs)
        floats.size[n, 0] = _product(here, there, logs)
        for k in range(floats.real.shape[1]):
            mine = _as_often(floats.real[n, k], there, logs)
            floats.real[n, k] = mine + _as_often(floats.real[other, k], here, logs)
        for k in range(floats.code.shape[1]):
            floats.code[n, k] = max(floats.code[n, k], floats.code[other, k])
    if wholes is not None:
        for p in range(wholes.sums.shape[2]):
            prime = wholes.primes[p]
            mine, its = wholes.sums[n, 0, p], wholes.sums[other, 0, p]
            for k in range(1, wholes.sums.shape[1]):
                one = wholes.sums[n, k, p] * its % prime
                wholes.sums[n, k, p] = (one + mine * wholes.sums[other, k, p] % prime) % prime
            wholes.sums[n, 0, p] = mine * its % prime


@inlined
def read(weights: Weights, floats: Floats | None, wholes: Wholes | None, n: int, logs: bool) -> None:
    """Let all matches of a node have its event as well."""
    if floats is not None:
        size = floats.size[n, 0]
        for k in range(1, floats.size.shape[1]):
            weight = abs(float(weights.whole[n, k - 1]))
            if weight > 0.0:
                floats.size[n, k] = plus(
                    floats.size[n, k], _product(size, np.log2(weight) if logs else weight, logs), logs
                )
        for k in range(floats.real.shape[1]):
            floats.real[n, k] += _as_often(weights.real[n, k], size, logs)
        if size > (-np.inf if logs else 0.0):
            for k in range(floats.code.shape[1]):
                floats.code[n, k] = max(floats.code[n, k], weights.code[n, k])
    if wholes is not None:
        for p in range(wholes.sums.shape[2]):
            prime = wholes.primes[p]
            matches = wholes.sums[n, 0, p]
            for k in range(1, wholes.sums.shape[1]):
                added = weights.whole[n, k - 1] % prime * matches % prime
                wholes.sums[n, k, p] = (wholes.sums[n, k, p] + added) % prime
