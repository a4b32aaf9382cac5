"""A clause over a table: the stages from rows to rows.

    rows in order → conditions → matches → rows of the result → measures → columns as SQL orders them

`Plan` is made from the clause and the names of the columns alone; `check` runs it over no rows, which tells all that
cannot be evaluated and the types of the result.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ceql.errors import DataError
from ceql.jit import Array
from ceql.row_patterns import conditions, navigation, runs
from ceql.row_patterns.automaton import OrderedPattern, compile_pattern
from ceql.row_patterns.matched import Matches, Outputs, Searched, in_order, outputs
from ceql.row_patterns.measures import MeasureValues
from ceql.row_patterns.navigation import Access, Reading
from ceql.row_patterns.pattern import anchors
from ceql.row_patterns.problem import Problems
from ceql.row_patterns.program import build
from ceql.row_patterns.rows import Rows, rows_of
from ceql.row_patterns.statement import PAST_LAST, TO_FIRST, TO_NEXT, RowPattern
from ceql.row_patterns.two_passes import STANDS, UNBOUND, find_matches


class Plan:
    """A clause whose names are those of a table's columns."""

    def __init__(self, clause: RowPattern, sql: str, columns: list[str]):
        self.clause = clause
        self.sql = sql
        problems = Problems()
        self.measures: dict[str, Reading] = {}
        self.define: dict[str, Reading] = {}
        for measure in clause.measures:
            with problems.noted():
                self.measures[measure.name] = navigation.read(measure.expression, clause, columns)
        for label, condition in clause.define.items():
            with problems.noted():
                self.define[label] = navigation.read(condition, clause, columns)
        self._problems = problems
        """What names nothing: told with all that the check finds."""

    @cached_property
    def pattern(self) -> OrderedPattern:
        return compile_pattern(self.clause.pattern)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return self.clause.variables

    @cached_property
    def carries(self) -> bool:
        """Whether a condition looks at rows of the match other than the row itself and its neighbours."""
        if self.counts:
            return True
        looks = ((look, label) for label, reading in self.define.items() for look in reading.looks)
        return self.clause.within is not None or not all(conditions.is_of_row(*look) for look in looks)

    @cached_property
    def counts(self) -> bool:
        """Whether a condition asks for MATCH_NUMBER()."""
        return any(map(navigation.asks_number, self.define.values()))

    @cached_property
    def shifts(self) -> list[int]:
        """How far PREV (less than 0) and NEXT look."""
        looks = [look for reading in [*self.measures.values(), *self.define.values()] for look in reading.looks]
        return [look.row.shift for look in looks if isinstance(look, Access)]

    @cached_property
    def numbered(self) -> bool:
        """Whether it counts how many matches came before, or whether rows did."""
        named = (node for measure in self.clause.measures for node in measure.expression.find_all(exp.Anonymous))
        return any(anchors(self.clause.pattern)) or any(str(node.this).upper() == "MATCH_NUMBER" for node in named)

    def check(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the result; or all that cannot be evaluated."""
        return self.run(schema.empty_table()).schema

    def explain(self, schema: pa.Schema) -> str:
        """How matches are found, and what bounds the work."""
        self.check(schema)
        places = len(self.pattern.places)
        if not self.carries:
            return (
                f"linear: conditions look at rows and their neighbours; two passes over the rows, {places} places of "
                "the pattern at each row at the most"
            )
        return (
            "linear times carried values: conditions look at rows of the match; for each row at most one run for each "
            f"of {places} places and each combination of the values that a condition still asks for"
            + ("; once for each match of a partition, since DEFINE asks for MATCH_NUMBER()" if self.counts else "")
        )

    def run(self, table: pa.Table) -> pa.Table:
        """The rows of the result."""
        problems = Problems(self._problems)
        with problems.noted():
            rows = rows_of(table, self.clause)
            return self._result(rows, self._matches(rows, problems), problems)
        raise problems.error(self.sql)

    def _result(self, rows: Rows, matches: Matches, problems: Problems) -> pa.Table:
        """The rows of the result, from matches."""
        found: dict[str, pa.Array] = {}
        results = outputs(matches, self._shown(matches), rows.table.num_rows, self.clause.all_rows, self.clause.empty)
        values = MeasureValues(rows, matches, self._labels(matches), self.variables, results,
                               self.clause.dialect.confined)  # fmt: skip
        for name, reading in self.measures.items():
            with problems.noted():
                found[name] = values.values(reading)
        if problems:
            raise problems.error(self.sql)
        return self._columns(rows, results, found)

    def decided(self, rows: Rows, searched: Searched, passed: int | None) -> tuple[pa.Table, Array, Array]:
        """Of a stream: the rows of the result that no row to come can change, how many matches each partition has, and
        where the search goes on in each. All rows to come are later than `passed` (nanoseconds), if that is given."""
        problems = Problems(self._problems)
        whole = searched.begin[searched.whole]
        program = build(self.clause, self.pattern, self.define, rows, self._targets, problems, whole)
        if program is None:
            raise problems.error(self.sql)
        partitions = replace(rows.partitions, before=searched.before)
        found, goes_on = runs.find_decided(program, partitions, self.clause.skip.to, searched, passed)
        counts = searched.before + np.bincount(found.partition, minlength=len(goes_on))
        return self._result(rows, found, problems), counts, goes_on

    @cached_property
    def _targets(self) -> frozenset[str]:
        """The variables to whose rows AFTER MATCH skips."""
        skip = self.clause.skip
        return frozenset() if skip.variable is None else self.clause.rows_of(skip.variable)

    def _matches(self, rows: Rows, problems: Problems) -> Matches:
        if self.counts:
            return self._counted(rows, problems)
        if self.carries:
            program = build(self.clause, self.pattern, self.define, rows, self._targets, problems)
            if program is None:
                return _no_matches(rows)
            return runs.find_matches(program, rows.partitions, self.clause.skip.to)
        guards: list[Array | None] = [None]
        guard_of = dict.fromkeys(self.variables, 0)
        for label, reading in self.define.items():
            with problems.noted():
                guard_of[label] = len(guards)
                guards.append(conditions.guard(reading, label, rows))
        return find_matches(self.pattern, guards, guard_of, rows.partitions, self.clause.skip.to, self._targets)

    def _counted(self, rows: Rows, problems: Problems) -> Matches:
        """The matches where DEFINE asks for their numbers: the first of all partitions, then the second, and so on."""
        bounds = rows.partitions.bounds
        begin = bounds[:-1]
        found: list[Matches] = []
        while not found or len(found[-1].start):
            define = {label: navigation.numbered(each, len(found) + 1) for label, each in self.define.items()}
            program = build(self.clause, self.pattern, define, rows, frozenset(), problems)
            if program is None:
                return _no_matches(rows)
            every = runs.find_matches(program, rows.partitions, PAST_LAST, begin)
            found.append(every.only(np.diff(every.partition, prepend=-1) != 0))
            begin = bounds[1:].copy()
            begin[found[-1].partition] = self._after(found[-1])
        start, length, place = (
            np.concatenate([getattr(each, name) for each in found]) for name in ("start", "length", "place")
        )
        return in_order(start, np.cumsum(length) - length, length, place, rows.partitions)

    def _after(self, matches: Matches) -> Array:
        """Of each match, the row with which the search goes on."""
        skip = self.clause.skip.to
        if skip in (PAST_LAST, TO_NEXT):
            return matches.start + (np.maximum(matches.length, 1) if skip == PAST_LAST else 1)
        is_target = np.array([place.variable in self._targets for place in self.pattern.places], bool)[matches.place]
        targets, owner = matches.row[is_target], matches.owner[is_target]
        after = np.where(matches.length == 0, matches.start + 1, -1)
        if skip == TO_FIRST:
            targets, owner = targets[::-1], owner[::-1]
        after[owner] = targets
        if (after < 0).any():
            raise DataError(UNBOUND)
        if (after == matches.start).any():
            raise DataError(STANDS)
        return after

    def _labels(self, matches: Matches) -> Array:
        """Of each matched row, the number of its variable."""
        number = {name: k for k, name in enumerate(self.variables)}
        return np.array([number[place.variable] for place in self.pattern.places], np.int32)[matches.place]

    def _shown(self, matches: Matches) -> Array:
        excluded = np.array([place.excluded for place in self.pattern.places], bool)
        return ~excluded[matches.place] if excluded.any() else np.ones(len(matches.place), bool)

    def _columns(self, rows: Rows, results: Outputs, measures: dict[str, pa.Array]) -> pa.Table:
        """PARTITION BY, then with ALL ROWS ORDER BY, the measures, then with ALL ROWS the other columns."""
        at = pa.array(results.row)
        names = rows.partition_by
        if self.clause.all_rows:
            names += rows.order_by
        columns = [(name, rows.column(name).take(at)) for name in names]
        columns += list(measures.items())
        if self.clause.all_rows:
            columns += [(name, rows.column(name).take(at)) for name in rows.names if name not in names]
        return pa.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])


def _no_matches(rows: Rows) -> Matches:
    """The matches where problems were noted."""
    none = np.zeros(0, np.int64)
    return Matches(none, none, none, rows.partitions)
