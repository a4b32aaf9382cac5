"""Finds the runs that are looked up in order of a value that they carry, not one by one."""

from __future__ import annotations

from ceql.analysis.between import Worst, hardest
from ceql.automata.registers import CARRIED, Carrying, Way


def order_of(carrying: Carrying, way: Way, rest: tuple[int, ...]) -> int:
    """How the groups that pass the only test are found in order of the only register; 0 if they are not."""
    if len(rest) != 1 or len(way.every_test) != 1 or len(way.tests) != 1 or any(map(carrying.carries_on, way.moves)):
        return 0
    (test,) = way.tests
    if test.condition < 0 or carrying.conditions[test.condition].case >= 0:
        return 0
    condition = carrying.conditions[test.condition]
    if condition.ends >= 0:
        return 0  # NaN, which no comparison finds, has a place in order
    mine = [n for n, source in enumerate(test.sources) if source.kind == CARRIED]
    if len(mine) != 1:
        return 0
    end = hardest(condition, mine[0])
    return 0 if end is None else 1 if end is Worst.GREATEST else -1
