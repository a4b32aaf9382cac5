"""A clause whose conditions look at rows of the match, as a program for the loop over ordered runs.

The places of the pattern become leaves, each with what it does to registers and with its tests; what a condition says
of the row itself is a guard, as in `conditions`. `^` and `$` are guards, too: a place that begins a match at the first
row of a partition alone is a leaf of its own, and so is one that accepts at the last row alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from ceql.analysis.normal import Atom
from ceql.automata.ordered import ACCEPT, Leaf, Ordered, Wait
from ceql.automata.ordered_program import Asked, OrderedProgram, Reading
from ceql.engine.common.layout import NO_KEY
from ceql.jit import Array
from ceql.row_patterns import conditions, navigation
from ceql.row_patterns.automaton import ALWAYS, AT_LAST, OrderedPattern
from ceql.row_patterns.carried import Condition, Registers
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.expressions import interval
from ceql.row_patterns.problem import Problems, Refused
from ceql.row_patterns.rows import Rows
from ceql.row_patterns.statement import RowPattern
from ceql.row_patterns.words import INT, TIME, kind_of, whole

_ANYWHERE, _FIRST, _OTHER = range(3)
TARGET = "target"
"""In the label of a leaf: AFTER MATCH skips to its rows. The other name is the number of the place."""


@dataclass(frozen=True)
class Program:
    """What the loop runs, and what the rows bring along."""

    ordered: OrderedProgram
    holds: Array
    """Of each row and guard."""
    words: Array
    times: Array | None = None
    """Of each row, if WITHIN says that less than `width` passes between the first row of a match and its last."""
    width: int = 0


def build(
    clause: RowPattern,
    pattern: OrderedPattern,
    define: dict[str, navigation.Reading],
    rows: Rows,
    targets: frozenset[str],
    problems: Problems,
    first_rows: Array | None = None,
) -> Program | None:
    """The program of a clause; None if problems were noted. AFTER MATCH skips to rows of `targets`, `^` stands before
    `first_rows`: those of all partitions, if they are not given."""
    registers = Registers(rows, clause.variables)
    truths: dict[str, Array | None] = {}
    tests: dict[str, list[Asked]] = {}
    before = len(problems)
    times: Array | None = None
    with problems.noted():
        times = _times(clause, rows)
    for variable in clause.variables:
        tests[variable], truths[variable] = [], None
        reading = define.get(variable)
        if reading is None:
            continue
        with problems.noted():
            condition = Condition(reading, variable, rows, registers)
            of_row, others = condition.split()
            if of_row:
                own = navigation.Reading(exp.and_(*(part.copy() for part in of_row)), reading.looks)
                truths[variable] = conditions.guard(own, variable, rows)
            tests[variable] += [condition.asked(part) for part in others]
    if pattern.first.empty != pattern.other.empty:
        message = "^ that matches no row is not evaluated beside conditions on rows of the match"
        problems.append(Refused(message, None, "Leave the anchor out, and keep the matches at first rows."))
    if len(problems) > before:
        return None
    bounds = rows.partitions.bounds
    edges = bounds[:-1] if first_rows is None else first_rows, bounds[1:] - 1
    program, holds = _assembled(clause, pattern, truths, tests, (rows.table.num_rows, *edges), registers, targets)
    if times is None or clause.within is None:
        return Program(program, holds, registers.words.encoded())
    holds &= (times != NO_KEY)[:, None]
    return Program(program, holds, registers.words.encoded(), times, 1000 * interval(clause.within))


def _times(clause: RowPattern, rows: Rows) -> Array | None:
    """Of each row the time that WITHIN goes by, in nanoseconds; NO_KEY where it is NULL."""
    if clause.within is None:
        return None
    if not clause.order or clause.order[0].descending:
        raise Refused("WITHIN needs ORDER BY a time, in ascending order", span_of(clause.within))
    column = rows.column(rows.order_by[0])
    if kind_of(column.type) not in (INT, TIME):
        message = f"WITHIN needs ORDER BY a time, and '{rows.order_by[0]}' is {column.type}"
        advice = "Make a time of it: FROM (SELECT *, CAST(x AS TIMESTAMP) AS at FROM t) MATCH_RECOGNIZE (…)."
        raise Refused(message, span_of(clause.order[0].expression), advice)
    return np.where(np.asarray(pc.is_valid(column)), whole(column), NO_KEY)


def _assembled(
    clause: RowPattern,
    pattern: OrderedPattern,
    truths: dict[str, Array | None],
    tests: dict[str, list[Asked]],
    edges: tuple[int, Array, Array],
    registers: Registers,
    targets: frozenset[str],
) -> tuple[OrderedProgram, Array]:
    """The program, and its guards at each row. `edges` has the number of rows, and which are first and last."""
    count, first_rows, last_rows = edges
    is_first, is_last = np.zeros(count, bool), np.zeros(count, bool)
    is_first[first_rows] = True
    is_last[last_rows] = True
    same = pattern.first.places == pattern.other.places
    columns: list[Array] = []
    guards: dict[tuple[str, int, bool | None], int] = {}

    def guard(variable: str, begins: int, last: bool | None) -> int:
        key = variable, begins, last
        if key not in guards:
            truth = truths[variable]
            column = np.ones(count, bool) if truth is None else truth.copy()
            if begins != _ANYWHERE:
                column &= is_first if begins == _FIRST else ~is_first
            if last is not None:
                column &= is_last if last else ~is_last
            guards[key] = len(columns)
            columns.append(column)
        return guards[key]

    leaves: list[Leaf] = []
    readings: list[Reading] = []
    waits: dict[tuple[int, ...], int] = {}
    known: dict[tuple[int, int], tuple[int, ...]] = {}
    lists: list[tuple[int, ...]] = []
    updates = {variable: registers.updates(variable) for variable in clause.variables}
    todo: list[tuple[int, tuple[int, ...], bool]] = []

    def leaves_of(place: int, begins: int = _ANYWHERE) -> tuple[int, ...]:
        """The leaves of a place: two if it accepts at the last row alone."""
        if (place, begins) not in known:
            own = pattern.places[place]
            ways = [True, False] if own.accepts == AT_LAST else [None]
            found = []
            for last in ways:
                found.append(len(leaves))
                todo.append((len(leaves), own.after, own.accepts == ALWAYS or last is True))
                label = frozenset({str(place), *([TARGET] if own.variable in targets else [])})
                leaves.append(Leaf(guard(own.variable, begins, last), label, ()))
                readings.append(Reading(updates[own.variable], tuple(tests[own.variable])))
            known[place, begins] = tuple(found)
        return known[place, begins]

    def wait(after: tuple[int, ...]) -> int:
        if after not in waits:
            waits[after] = len(lists)
            lists.append(())
            lists[waits[after]] = tuple(leaf for place in after for leaf in leaves_of(place))
        return waits[after]

    if same:
        initial = [leaf for place in pattern.first.places for leaf in leaves_of(place)]
    else:
        initial = [leaf for place in pattern.first.places for leaf in leaves_of(place, _FIRST)]
        initial += [leaf for place in pattern.other.places for leaf in leaves_of(place, _OTHER)]
    while todo:
        leaf, after, accepts = todo.pop()
        following = (*((wait(after),) if after else ()), *((ACCEPT,) if accepts else ()))
        leaves[leaf] = leaves[leaf]._replace(after=following)
    atoms = tuple(Atom(str(k), None, frozenset({str(k)}), ()) for k in range(len(columns)))
    tight = tuple(Wait(own, True, 0) for own in lists)
    ordered = Ordered(atoms, tuple(leaves), tight, tuple(initial), (0,) * len(initial), pattern.other.empty)
    holds = np.stack(columns, axis=1) if columns else np.ones((count, 0), bool)
    return OrderedProgram(ordered, tuple(readings), len(registers)), holds
