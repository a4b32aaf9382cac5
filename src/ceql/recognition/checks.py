"""Claims that the automaton cannot decide, checked on many lists of events at once.

In: the events of partial matches or candidates, and their attributes. Out: which of them satisfy a claim. For a claim,
a row is made of each combination of events that the claim compares, with the attributes of each variable as columns
`variable.attribute`. A predicate over those columns is evaluated like a predicate over a single event. The aggregates
of a claim are further columns, each calculated once for every instance of the node that binds its variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.conditions import replaced
from ceql.analysis.lengths import TIME, bound_name, key_name
from ceql.analysis.listed import attributes
from ceql.analysis.shape import Claim, Comparand, Either, Leaves, Length, Same, Shape, Test
from ceql.automata.correlated import Correlated
from ceql.engine.common.chunk import Chunk
from ceql.jit import Array
from ceql.predicates.bind import BoundGuards
from ceql.predicates.logic import TRUE
from ceql.predicates.side_by_side import attribute_of, bind_side_by_side, column_name, truths
from ceql.recognition.folds import Folds, outside
from ceql.recognition.kernels import look_up_positions, mark_positions
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves as attributes_of

Take = Callable[[Array], pa.RecordBatch]
"""The attributes that checks read, of the events at these (ascending) positions."""

_MOST_ROWS = 1 << 21


class Checks:
    """The checks of a query, bound to a schema."""

    def __init__(
        self, auto: Correlated, schema: pa.Schema, open_schema: bool, source: str, time: str | None = None
    ) -> None:
        self.auto = auto
        self.time = time
        self.source = source
        self.open_schema = open_schema
        self.claims = (*(auto.carrying.listed if auto.carrying is not None else ()), *auto.denials)
        read = {name for claim in auto.denials for name in attributes(claim)}
        self.columns = sorted(time if name == TIME and time is not None else name for name in read)
        """The attributes of events that denials read."""
        self._flags: dict[object, Array] = {}
        self.bind(schema)

    def bind(self, schema: pa.Schema) -> None:
        """Look at columns of this schema from now on; a predicate that does not fit them is a `SchemaError`."""
        self.schema = schema
        self.folds = Folds(schema, self.open_schema, self.time, self.source)
        self._bound: dict[t.Predicate, BoundGuards] = {}
        for claim in self.claims:
            if isinstance(claim.what, Same):
                for one in _terms(claim.what):
                    for other in _terms(claim.what):
                        self._bind(_equal(one, other, claim))
            for test in claim.tests:
                self._bind(test.predicate)
        carrying = self.auto.carrying
        for condition in carrying.conditions if carrying is not None else ():
            if condition.listed is None and (
                condition.ends >= 0 or condition.is_measured
            ):  # its aggregates are carried, but must fit the columns all the same
                self._bind(condition.asked)

    def _bind(self, predicate: t.Predicate) -> BoundGuards:
        if predicate not in self._bound:
            rest, parts = in_columns(predicate)
            schema = self.schema
            for k, part in enumerate(parts):
                schema = schema.append(self.folds.field(_whole(k).attribute, part))
            self._bound[predicate] = bind_side_by_side(rest, schema, self.open_schema, self.source)
        return self._bound[predicate]

    def look(self, chunk: Chunk, take: Take) -> Look:
        """The candidates of a chunk, with the attributes of their events."""
        positions, (row,) = numbered(chunk.positions)
        return Look(self, chunk.labels, chunk.offsets, row, take(positions))

    def flag(self, key: object, holds: Callable[[int], bool]) -> Array:
        """A flag of every mark, computed once."""
        known = self._flags.get(key)
        if known is None:
            known = self._flags[key] = np.array([holds(k) for k in range(len(self.auto.marks))], np.bool_)
        return known

    def truths(self, predicate: t.Predicate, columns: pa.RecordBatch) -> Array:
        """Tells of which rows of events side by side a predicate is true."""
        return np.asarray(truths(self._bind(predicate), columns) == TRUE)


class AbsentRows(NamedTuple):
    """For each of some instances, an event that NOT may keep away: a row of `values`.

    For `->`, `before` has the entries that come before these events. Conditions see the entries up to that of the
    instance alone, which is the last one before the `->`.
    """

    values: pa.RecordBatch
    rows: Array
    before: Array | None = None

    def take(self, rows: Array) -> AbsentRows:
        """Some of them."""
        before = None if self.before is None else self.before[rows]
        return AbsentRows(self.values, self.rows[rows], before)


class Look:
    """Many lists of events in order, each of a candidate: entries are events, with their marks."""

    def __init__(self, checks: Checks, marks: Array, offsets: Array, row: Array, values: pa.RecordBatch) -> None:
        self.checks = checks
        self.shape: Shape = checks.auto.shape
        self.count = len(offsets) - 1
        self.marks = marks
        self.values = values
        self.row = row  # of `values`, for each entry
        self.candidate = np.repeat(np.arange(self.count), np.diff(offsets))

    def satisfied(self, claim: Claim) -> Array:
        """Tells which candidates satisfy a claim: every instance of its node must satisfy it."""
        entries, number, first = self.instances(claim.node)
        if isinstance(claim.what, Same):
            good = self._same(claim, claim.what, entries, number, first)
        elif isinstance(claim.what, Length):
            good = self._no_longer(claim.what, entries, number, first)
        else:
            good = self._tested(claim.what, claim.node, first)
        result = np.ones(self.count, np.bool_)
        result[self.candidate[first[~good]]] = False
        return result

    def instances(self, node: int) -> tuple[Array, Array, Array]:
        """The entries at a node, the number of the instance that each belongs to, and the first entry of each."""
        entries = np.flatnonzero(self.is_at(self.shape.below(node)))
        group = self._instances(node)[entries]
        begins = np.ones(len(group), np.bool_)
        begins[1:] = group[1:] != group[:-1]
        return entries, np.cumsum(begins) - 1, entries[begins]

    def together(self, node: int, one: Array, other: Array) -> Array:
        """Tells which of these pairs of entries belong to one instance of a node."""
        group = self._instances(node)
        return np.asarray(group[one] == group[other])

    def denied(self, claim: Claim, first: Array, absent: AbsentRows) -> Array:
        """For each instance (given by its first entry), whether the absent event beside it satisfies a denial."""
        if isinstance(claim.what, Test | Either):
            return self._tested(claim.what, claim.node, first, absent)
        assert isinstance(claim.what, Same)
        good = np.ones(len(first), np.bool_)
        for one in _terms(claim.what):
            mine = np.flatnonzero(self.is_at(_leaves_of(claim.what, one))[first])
            for other in claim.what.terms[-1]:
                if len(mine):
                    beside = AbsentRows(absent.values, absent.rows[mine])  # which looks at no PREV
                    good[mine] &= self._rows(_equal(one, other, claim), {"first": first[mine]}, None, len(mine), beside)
        return good

    def _tested(self, what: Test | Either, node: int, first: Array, absent: AbsentRows | None = None) -> Array:
        if isinstance(what, Test):
            return self._test(what, node, first, absent)
        good = np.zeros(len(first), np.bool_)
        for case in what.cases:
            together = np.ones(len(first), np.bool_)
            for test in case:
                together &= self._test(test, node, first, absent)
            good |= together
        return good

    def _no_longer(self, length: Length, entries: Array, number: Array, first: Array) -> Array:
        """Whether the last event of each instance is inside the window of the first."""
        last = entries[np.searchsorted(number, np.arange(len(first)), side="right") - 1]
        return np.asarray(self._column(key_name(length.window))[first] >= self._column(bound_name(length.window))[last])

    def _column(self, name: str) -> Array:
        """The values of a column of whole numbers, of each entry."""
        column: Array = self.values.column(self.values.schema.get_field_index(name)).to_numpy(zero_copy_only=False)
        return column[self.row]

    def is_at(self, leaves: Leaves) -> Array:
        """Tells which entries were read at one of these leaves."""
        flags = self.checks.flag(("at", leaves), lambda k: bool(self.checks.auto.marks[k].leaves & leaves))
        return flags[self.marks]

    def _instances(self, node: int) -> Array:
        """A number of the instance of `node` that each entry belongs to, if it belongs to the node at all."""
        around = self.shape.above(node)[1:]
        loops = self.checks.flag(("round", node), lambda k: bool(self.checks.auto.marks[k].loops.intersection(around)))
        # one candidate after another: a new one begins a new instance, whatever its first event says
        begins = loops[self.marks]
        begins[1:] |= self.candidate[1:] != self.candidate[:-1]
        return np.cumsum(begins)

    def _test(self, test: Test, node: int, first: Array, absent: AbsentRows | None = None) -> Array:
        """For each instance of a node (given by its first entry), whether all combinations of events satisfy a test."""
        found: list[tuple[str, Array, Array]] = []  # a variable, its entries in order of instances, their instances
        totals = np.ones(len(first))
        rest, parts = in_columns(test.predicate)
        ends = absent is not None and absent.before is not None
        wholes = [self._whole(part, test, node, first, ends) for part in parts]
        for name, comparand in test.combined.items():
            members = self.is_at(comparand.leaves)
            entries = np.flatnonzero(members)
            groups = self._instances(comparand.scope)
            found.append((name, entries, groups))
            low, high = _ranges(groups, entries, first, ends)
            totals *= high - low
        good = np.ones(len(first), np.bool_)
        begin = 0
        while begin < len(first):  # as many instances at a time as have a bounded number of rows
            sizes = np.cumsum(totals[begin:])
            end = begin + max(1, int(np.searchsorted(sizes, _MOST_ROWS, side="right")))
            part = np.arange(begin, end)
            chosen: dict[str, Array] = {}
            for name, entries, groups in found:
                low, high = _ranges(groups, entries, first[part], ends)
                counts = (high - low).astype(np.int64)
                rows = np.repeat(np.arange(len(part)), counts)
                offset = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
                chosen = {other: taken[rows] for other, taken in chosen.items()}
                chosen[name] = entries[low.astype(np.int64)[rows] + offset]
                part = part[rows]
            if len(part):
                beside = None if absent is None else absent.take(part)
                told = {column_name(_whole(k)): values.take(pa.array(part)) for k, values in enumerate(wholes)}
                true = self._rows(test.predicate, chosen, test.owner, len(part), beside, rest, told)
                good[part[~true]] = False
            begin = end
        return good

    def _whole(self, part: t.Aggregate | t.Lapse, test: Test, node: int, first: Array, ends: bool = False) -> pa.Array:
        """An aggregate, or a time of the events at a node, for each instance of the node (given by its first entry)."""
        checks = self.checks
        if isinstance(part, t.Lapse):
            assert checks.time is not None
            every, time = Comparand(node, self.shape.below(node)), t.Ref("", checks.time)
            begin, end = (self._fold(t.Aggregate(name, "", time), every, first) for name in ("FIRST", "LAST"))
            return pc.subtract(end, begin) if part.name == "DURATION" else begin if part.name == "START_TIME" else end
        return self._fold(part, test.variables[part.variable], first, ends)

    def _fold(self, part: t.Aggregate, comparand: Comparand, first: Array, ends: bool = False) -> pa.Array:
        entries, groups = np.flatnonzero(self.is_at(comparand.leaves)), self._instances(comparand.scope)
        again = np.zeros(len(entries), np.bool_)  # an event that two sides of ALL read
        again[1:] = (self.row[entries][1:] == self.row[entries][:-1]) & (groups[entries][1:] == groups[entries][:-1])
        entries = entries[~again]
        folds = self.checks.folds
        values = None if part.operand is None else folds.values(part.operand, self.values)
        if ends:
            low, high = _ranges(groups, entries, first, ends)
            offsets = np.concatenate([[0], np.cumsum(high - low)])
            rows = np.arange(offsets[-1]) + np.repeat(low - offsets[:-1], high - low)
            return folds.fold(part, values, self.row[entries[rows]], offsets)
        counts = np.bincount(groups[entries], minlength=int(groups[-1]) + 1)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return folds.fold(part, values, self.row[entries], offsets).take(pa.array(groups[first]))

    def _rows(
        self,
        predicate: t.Predicate,
        chosen: dict[str, Array],
        owner: str | None,
        count: int,
        absent: AbsentRows | None = None,
        rest: t.Predicate | None = None,
        told: dict[str, pa.Array] | None = None,
    ) -> Array:
        """Which rows satisfy a predicate. `rest` is the predicate over the columns `told` and attributes."""
        columns: dict[str, pa.Array] = dict(told or {})
        for leaf in attributes_of(rest or predicate):
            index = self.values.schema.get_field_index(attribute_of(leaf))
            if index < 0 or column_name(leaf) in columns:
                continue
            if isinstance(leaf, t.Prev):
                assert owner is not None
                if owner not in chosen:
                    assert absent is not None
                    assert absent.before is not None
                    rows = pa.array(self.row[absent.before])
                else:
                    entries = chosen[owner]
                    before = np.maximum(entries - 1, 0)
                    none = (entries == 0) | (self.candidate[before] != self.candidate[entries])
                    rows = pa.array(self.row[before], mask=none)
            else:
                assert isinstance(leaf, t.Ref)
                if leaf.variable not in chosen:
                    assert absent is not None
                    columns[column_name(leaf)] = absent.values.column(attribute_of(leaf)).take(pa.array(absent.rows))
                    continue
                rows = pa.array(self.row[chosen[leaf.variable]])
            columns[column_name(leaf)] = self.values.column(index).take(rows)
        if not columns:  # the events have none of the attributes
            columns[""] = pa.nulls(count)
        return self.checks.truths(predicate, pa.record_batch(columns))

    def _same(self, claim: Claim, same: Same, entries: Array, number: Array, first: Array) -> Array:
        """Whether all values of an instance (`number` says which, for each entry) are those of its first event."""
        good = np.ones(len(first), np.bool_)
        leader = first[number]
        has = {term: self.is_at(_leaves_of(same, term)) for term in _terms(same)}
        for one in _terms(same):
            for other in _terms(same):
                rows = np.flatnonzero(has[one][leader] & has[other][entries])
                if len(rows):
                    chosen = {"first": leader[rows], "other": entries[rows]}
                    true = self._rows(_equal(one, other, claim), chosen, None, len(rows))
                    good[number[rows[~true]]] = False
        return good


def in_columns(predicate: t.Predicate) -> tuple[t.Predicate, list[Any]]:
    """A predicate with columns in place of aggregates and times of the match, and what these columns hold."""
    parts: list[Any] = []
    return outside(predicate, parts, (t.Aggregate, t.Lapse), _whole), parts


def _whole(number: int) -> t.Ref:
    """Stands for an aggregate in a predicate; no user can write this name."""
    return t.Ref("", f"\x1f{number}")


def _ranges(groups: Array, entries: Array, first: Array, ends: bool = False) -> tuple[Array, Array]:
    """For instances (given by an entry each), where in `entries` those of the same group are; with `ends` only those up
    to the given one."""
    counts = np.bincount(groups[entries], minlength=int(groups[-1]) + 1)
    stops = np.cumsum(counts)
    own = groups[first]
    low, high = (stops - counts)[own], stops[own]
    return low, np.maximum(low, np.minimum(high, np.searchsorted(entries, first, side="right"))) if ends else high


def numbered(*lists: Array) -> tuple[Array, list[Array]]:
    """The positions of all lists in order, each once, and for each list the numbers of its positions among them."""
    some = [positions for positions in lists if len(positions)]
    if not some:
        return np.zeros(0, np.int64), [np.zeros(0, np.int64) for _ in lists]
    low, high = min(int(one.min()) for one in some), max(int(one.max()) for one in some)
    if high - low > 16 * sum(map(len, some)) + (1 << 20):
        unique, inverse = np.unique(np.concatenate(lists), return_inverse=True)
        return unique, np.split(inverse, np.cumsum([len(one) for one in lists])[:-1])
    marked, rows = np.zeros(high - low + 1, np.bool_), [np.empty(len(one), np.int64) for one in lists]
    for one in lists:
        mark_positions(one, low, marked)
    numbers = np.cumsum(marked) - 1
    for one, row in zip(lists, rows, strict=True):
        look_up_positions(one, low, numbers, row)
    return np.flatnonzero(marked) + low, rows


def _terms(same: Same) -> list[t.Expression]:
    return list(dict.fromkeys(e for terms in same.terms.values() for e in terms))


def _leaves_of(same: Same, term: t.Expression) -> Leaves:
    return frozenset(leaf for leaf, terms in same.terms.items() if term in terms)


def _equal(one: t.Expression, other: t.Expression, claim: Claim) -> t.Comparison:
    def of(variable: str) -> Callable[[Any], t.Expression]:
        return lambda leaf: t.Ref(variable, leaf.name, span=leaf.span)

    return t.Comparison("=", replaced(one, of("first")), replaced(other, of("other")), span=claim.span)
