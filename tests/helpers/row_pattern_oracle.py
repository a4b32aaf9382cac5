"""MATCH_RECOGNIZE by its definition: backtracking in order of preference. It shares nothing with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Row = dict[str, Any]
Bound = tuple[tuple[str, int], ...]  # which rows have been given to which variables
# the rows of the partition, the number of the current row, what is bound before it; None is SQL's unknown
Condition = Callable[[list[Row], int, Bound], bool | None]


class Found(NamedTuple):
    start: int
    end: int
    bound: Bound


@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class Seq:
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Alt:
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Rep:
    item: Any
    least: int
    most: int | None
    greedy: bool


def matches(
    pattern: Any, conditions: dict[str, Condition], rows: list[Row], skip_past: bool, within: int | None = None
) -> Iterator[Found]:
    """The matches in one partition; `within` is Flink's window over the column `ts`, its end not included."""
    start = 0
    while start < len(rows):
        found = next(
            (
                Found(start, end - 1, bound)
                for end, bound in candidates(pattern, conditions, rows, start, ())
                if end > start and (within is None or rows[end - 1]["ts"] - rows[start]["ts"] < within)
            ),
            None,
        )
        if found is not None:
            yield found
        start = found.end + 1 if found is not None and skip_past else start + 1


def candidates(
    node: Any, conditions: dict[str, Condition], rows: list[Row], at: int, bound: Bound
) -> Iterator[tuple[int, Bound]]:
    """All ways to match from a row on, the preferred ones first: the row after the match, and what it binds."""
    match node:
        case Var(name):
            condition = conditions.get(name)
            if at < len(rows) and (condition is None or condition(rows, at, bound) is True):
                yield at + 1, (*bound, (name, at))
        case Seq(items):
            if not items:
                yield at, bound
                return
            for after, more in candidates(items[0], conditions, rows, at, bound):
                yield from candidates(Seq(items[1:]), conditions, rows, after, more)
        case Alt(items):
            for item in items:
                yield from candidates(item, conditions, rows, at, bound)
        case Rep(item, least, most, greedy):
            if least:
                one_less = Rep(item, least - 1, None if most is None else most - 1, greedy)
                yield from candidates(Seq((item, one_less)), conditions, rows, at, bound)
                return
            if not greedy:
                yield at, bound
            if most != 0:
                one_less = Rep(item, 0, None if most is None else most - 1, greedy)
                for after, more in candidates(item, conditions, rows, at, bound):
                    if after > at:
                        yield from candidates(one_less, conditions, rows, after, more)
            if greedy:
                yield at, bound


def rows_of(bound: Bound, name: str) -> list[int]:
    return [row for variable, row in bound if variable == name]
