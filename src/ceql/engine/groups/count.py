"""How many matches end at a position, without enumerating them: sums over unions, products over factors."""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.graph import FACTOR, KIND, MAX, A, B, C
from ceql.engine.groups.layout import NODES, ROOTS, SUMMED
from ceql.engine.states.layout import TOO_MANY
from ceql.jit import Array, inlined, kernel


@inlined
def list_live(nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int) -> int:
    """List the live nodes in scratch[2, 1:], children first, and mark them in scratch[0]; how many there are."""
    seen = 0
    for k in range(regs[ROOTS]):
        if nodes[roots[k], MAX] < bound:
            continue
        height = 1
        scratch[1, 0] = roots[k]
        while height > 0:
            n = scratch[1, height - 1]
            if scratch[0, n] != 0:
                height -= 1
                continue
            waits = False
            if nodes[n, KIND] >= 0:
                child = nodes[n, B]
                if child >= 0 and scratch[0, child] == 0:
                    scratch[1, height] = child
                    height += 1
                    waits = True
            else:
                for side in range(A, C + 1):
                    child = nodes[n, side]
                    if nodes[n, KIND] == FACTOR and side == C:
                        continue
                    if (
                        child >= 0
                        and scratch[0, child] == 0
                        and (side == A or nodes[n, KIND] == FACTOR or nodes[child, MAX] >= bound)
                    ):
                        scratch[1, height] = child
                        height += 1
                        waits = True
                        break
            if waits:
                continue
            scratch[0, n] = 1
            seen += 1
            scratch[2, seen] = n
            height -= 1
    scratch[2, 0] = seen
    return seen


@inlined
def ways(nodes: Array, sums: Array, n: int, bound: int, one: float) -> float:
    """The matches of a node whose children's are known; a float or a whole number, as `one` is."""
    kind = nodes[n, KIND]
    if kind >= 0:
        child = nodes[n, B]
        return one if child < 0 else one * sums[child]
    if kind == FACTOR:
        after = nodes[n, B]
        return one * sums[nodes[n, A]] * (one if after < 0 else one * sums[after])
    total = one * sums[nodes[n, A]]
    for side in range(B, C + 1):
        child = nodes[n, side]
        if child >= 0 and nodes[child, MAX] >= bound:
            total += one * sums[child]
    return total


@kernel
def gather_live(nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int) -> int:
    """List the live nodes in scratch[2, 1:], children before parents; how many there are. The marks are cleared."""
    seen = list_live(nodes, regs, roots, scratch, bound)
    for k in range(1, seen + 1):
        scratch[0, scratch[2, k]] = 0
    return seen


@kernel
def later_starts(nodes: Array, live: Array, sums: Array, bound: int, least: int) -> None:
    """For the live nodes, children before parents: how many of their matches start at position `least` or later."""
    for k in range(len(live)):
        n = live[k]
        if nodes[n, KIND] >= 0 and nodes[n, A] < least:
            sums[n] = 0.0
        else:
            sums[n] = ways(nodes, sums, n, bound, 1.0)


@kernel
def tally(nodes: Array, regs: Array, roots: Array, scratch: Array, bound: int, kept: bool) -> int:
    """Matches of the current position inside the window; -1 when they may not fit an int64.

    With `kept` (no window) a node's sum never changes, so that those of earlier positions are still there.
    """
    total = np.int64(0)
    if kept:
        for n in range(regs[SUMMED], regs[NODES]):
            fits = True
            for side in range(A if nodes[n, KIND] < 0 else B, B + 1 if nodes[n, KIND] >= FACTOR else C + 1):
                child = nodes[n, side]
                if child >= 0 and scratch[0, child] < 0:
                    fits = False
            if fits:
                fits = ways(nodes, scratch[0], n, bound, 1.0) <= TOO_MANY
            scratch[0, n] = ways(nodes, scratch[0], n, bound, np.int64(1)) if fits else np.int64(-1)
        regs[SUMMED] = regs[NODES]
        for k in range(regs[ROOTS]):
            found = scratch[0, roots[k]]
            if found < 0 or total + found > TOO_MANY:
                return np.int64(-1)
            total += found
        return total
    seen = list_live(nodes, regs, roots, scratch, bound)
    for k in range(1, seen + 1):
        n = scratch[2, k]
        if ways(nodes, scratch[0], n, bound, 1.0) > TOO_MANY:
            total = np.int64(-1)
            break
        scratch[0, n] = ways(nodes, scratch[0], n, bound, np.int64(1))
    for k in range(regs[ROOTS]):
        if total >= 0 and nodes[roots[k], MAX] >= bound:
            total += scratch[0, roots[k]]
            if total > TOO_MANY:
                total = np.int64(-1)
    for k in range(1, seen + 1):
        scratch[0, scratch[2, k]] = 0
    return total
