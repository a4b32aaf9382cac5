"""The values of MEASURES: looks at the rows of matches, computed for all rows of the result at once.

The rows of some variables are numbered over all matches. Up to a row of its match there are so many of them, so the
last but n is the one with that number less n: a look is a subtraction and a `take`. Sums and counts are differences or
runs along these rows; other aggregates list the rows of each result.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ceql.jit import Array
from ceql.row_patterns import navigation, totals
from ceql.row_patterns.expressions import Column, as_array, evaluate
from ceql.row_patterns.matched import Matches, Outputs
from ceql.row_patterns.navigation import Access, Number, Reading, RowRef, Total
from ceql.row_patterns.rows import Rows


class Members:
    """The matched rows of some variables."""

    def __init__(self, matches: Matches, labels: Array, wanted: Array | None):
        self.matches = matches
        if wanted is None:
            self.rows = np.arange(len(labels))
            self._before: Array | None = None
        else:
            inside = wanted[labels]
            self.rows = np.flatnonzero(inside)
            self._before = np.concatenate([np.zeros(1, np.int64), np.cumsum(inside)])

    def before(self, matched: Array) -> Array:
        """How many of them come before a matched row, in all matches."""
        return matched if self._before is None else self._before[matched]

    @cached_property
    def first(self) -> Array:
        """Of each of them: the number of the first one in its match."""
        return self.before(self.matches.offsets[:-1][self.matches.owner[self.rows]])


class MeasureValues:
    """Evaluates expressions for the rows of a result."""

    def __init__(
        self,
        rows: Rows,
        matches: Matches,
        labels: Array,
        variables: tuple[str, ...],
        shown: Outputs,
        confined: bool = False,
    ):
        self._rows = rows
        self._matches = matches
        self._labels = labels
        self._variables = variables
        self._out = shown
        self._confined = confined
        self._members: dict[frozenset[str] | None, Members] = {}

    def values(self, reading: Reading) -> pa.Array:
        """The values of an expression; NULL in rows of no match."""
        looks: dict[int, Column] = {}

        def leaf(node: exp.Expr) -> Column:
            number = int(navigation.placeholder_of(node) or 0)
            if number not in looks:
                looks[number] = self._look(reading.looks[number])
            return looks[number]

        found = as_array(evaluate(reading.tree, leaf), len(self._out.match))
        if (self._out.match < 0).any():
            found = found.take(pa.array(np.arange(len(found)), mask=self._out.match < 0))
        return found

    def _look(self, look: navigation.Look) -> Column:
        match look:
            case Number():
                return _taken(pa.array(self._matches.number), self._out.match, self._out.match >= 0)
            case Access():
                return self._accessed(look)
            case Total():
                return self._total(look)

    def members(self, rows: frozenset[str] | None) -> Members:
        if rows not in self._members:
            wanted = None if rows is None else np.array([name in rows for name in self._variables], bool)
            self._members[rows] = Members(self._matches, self._labels, wanted)
        return self._members[rows]

    def _range(self, members: Members, final: bool) -> tuple[Array, Array]:
        """Of each result: the numbers of its first member, and past its last."""
        offsets, match = self._matches.offsets, self._out.match
        if not len(self._matches.start):
            return np.zeros(len(match), np.int64), np.zeros(len(match), np.int64)
        begin = offsets[match]
        end = offsets[match + 1] if final else np.where(self._out.matched < 0, begin, self._out.matched + 1)
        low, high = members.before(begin), members.before(end)
        return low, np.where(match < 0, low, high)

    def _accessed(self, access: Access) -> Column:
        matched, row, known = self._row(access.row)
        in_match = known & (self._matches.offsets[self._out.match] <= matched)
        in_match &= matched < self._matches.offsets[self._out.match + 1] if len(in_match) else in_match

        def leaf(node: exp.Expr) -> Column:
            name = navigation.placeholder_of(node)
            if name == navigation.CLASSIFIER:
                return self._classifiers(matched, in_match)
            if name == navigation.MATCH_NUMBER:
                return _taken(pa.array(self._matches.number), self._out.match, self._out.match >= 0)
            return _taken(self._rows.of_row(node), row, known)

        found = as_array(evaluate(access.tree, leaf), len(row))
        return found if known.all() else found.take(pa.array(np.arange(len(row)), mask=~known))

    def _row(self, ref: RowRef) -> tuple[Array, Array, Array]:
        """The matched row and the row of the table that a look means, and whether there is one."""
        members = self.members(ref.rows)
        low, high = self._range(members, ref.final)
        at = high - 1 - ref.offset if ref.last else low + ref.offset
        known = (low <= at) & (at < high)
        if not len(members.rows):
            none = np.zeros(len(known), np.int64)
            return none, none, np.zeros(len(known), bool)
        matched = members.rows[np.where(known, at, 0)]
        row = self._matches.row[matched] + ref.shift
        bounds, partition = self._matches.partitions.bounds, self._matches.partition[self._out.match]
        if self._confined:
            bounds, partition, row_in = self._matches.offsets, self._out.match, matched + ref.shift
        else:
            row_in = row
        known &= (bounds[partition] <= row_in) & (row_in < bounds[partition + 1])
        return matched + ref.shift, row, known

    def _classifiers(self, matched: Array, known: Array) -> pa.Array:
        if not len(self._labels):
            return pa.nulls(len(matched), pa.string())
        names = pa.array(self._variables, pa.string())
        return names.take(pa.array(self._labels[np.where(known, matched, 0)], mask=~known))

    def _total(self, total: Total) -> Column:
        members = self.members(total.rows)
        low, high = self._range(members, total.final)
        arguments = [self._argument(tree, members) for tree in total.arguments]
        return totals.aggregate(total, arguments, members, low, high)

    def _argument(self, tree: exp.Expr, members: Members) -> pa.Array:
        """The values of an argument in all rows of the members."""
        owner = self._matches.owner[members.rows]

        def leaf(node: exp.Expr) -> Column:
            name = navigation.placeholder_of(node)
            if name == navigation.CLASSIFIER:
                return self._classifiers(members.rows, np.ones(len(owner), bool))
            if name == navigation.MATCH_NUMBER:
                return pa.array(self._matches.number[owner])
            return self._rows.of_row(node).take(pa.array(self._matches.row[members.rows]))

        return as_array(evaluate(tree, leaf), len(owner))


def _taken(column: pa.Array, at: Array, known: Array) -> pa.Array:
    """The entries at some places, NULL where there is none."""
    if known.all():
        return column.take(pa.array(at))
    if not len(column):
        return pa.nulls(len(at), column.type)
    return column.take(pa.array(np.where(known, at, 0), mask=~known))
