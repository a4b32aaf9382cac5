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


@dataclass(frozen=True)
class Perm:
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Edge:
    """`^` or `$`."""

    start: bool


@dataclass(frozen=True)
class Hidden:
    """`{- … -}`."""

    item: Any


class SkipError(Exception):
    """AFTER MATCH SKIP TO a row that is not there, or the first of the match."""


def every_match(
    pattern: Any,
    condition: Callable[[str, tuple[str, ...], int, int], bool | None],
    count: int,
    skip: str,
    targets: frozenset[str] = frozenset(),
) -> Iterator[tuple[int, tuple[tuple[str, bool], ...]]]:
    """All matches of a partition of so many rows, empty ones too: the first row, and each row's label and whether it is
    excluded. `condition` is asked of a label, the labels before it in the match, the match's first row and its number.
    """
    start, number = 0, 1
    while start < count:
        found = next(_ways(pattern, condition, count, start, number, start, (), False), None)
        if found is None:
            start += 1
            continue
        labels = found[1]
        yield start, labels
        number += 1
        if not labels or skip == "TO NEXT ROW":
            start += 1
        elif skip == "PAST LAST ROW":
            start += len(labels)
        else:
            own = [k for k, (label, _) in enumerate(labels) if label in targets]
            step = (own[0] if skip == "TO FIRST" else own[-1]) if own else 0
            if step == 0:
                raise SkipError
            start += step


_Labels = tuple[tuple[str, bool], ...]


def _ways(
    node: Any,
    condition: Callable[[str, tuple[str, ...], int, int], bool | None],
    count: int,
    start: int,
    number: int,
    at: int,
    labels: _Labels,
    hidden: bool,
) -> Iterator[tuple[int, _Labels]]:
    """All ways to match a part from a row on, the preferred ones first."""

    def ways(part: Any, at: int, labels: _Labels, hidden: bool = hidden) -> Iterator[tuple[int, _Labels]]:
        return _ways(part, condition, count, start, number, at, labels, hidden)

    match node:
        case Var(name):
            before = tuple(label for label, _ in labels)
            if at < count and condition(name, before, start, number) is True:
                yield at + 1, (*labels, (name, hidden))
        case Edge(first):
            if at == (0 if first else count):
                yield at, labels
        case Hidden(item):
            yield from ways(item, at, labels, True)
        case Seq(items):
            if not items:
                yield at, labels
                return
            for after, more in ways(items[0], at, labels):
                yield from ways(Seq(items[1:]), after, more)
        case Alt(items):
            for item in items:
                yield from ways(item, at, labels)
        case Perm(items):
            if not items:
                yield at, labels
            for k, item in enumerate(items):
                for after, more in ways(item, at, labels):
                    yield from ways(Perm(items[:k] + items[k + 1 :]), after, more)
        case Rep(item, least, most, greedy):
            one_less = Rep(item, max(0, least - 1), None if most is None else most - 1, greedy)
            if not least and not greedy:
                yield at, labels
            if most != 0:
                for after, more in ways(item, at, labels):
                    if least or most is not None or after > at:  # as Trino: only a loop needs rows to go round
                        yield from ways(one_less, after, more)
            if not least and greedy:
                yield at, labels
