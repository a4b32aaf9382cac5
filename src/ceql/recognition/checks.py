"""Claims that the automaton cannot decide, checked on whole chunks of candidates.

In: a chunk of candidates and the attributes of their events. Out: which candidates satisfy the claims. For each claim,
a row is made of each combination of events that the claim compares, with the attributes of each variable as columns
`variable.attribute`. A predicate over those columns is evaluated like a predicate over a single event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.analysis.conditions import leaves as attributes_of
from ceql.analysis.conditions import replaced
from ceql.analysis.shape import Claim, Either, Leaves, Same, Shape, Test
from ceql.automata.correlated import Correlated
from ceql.engine.common.chunk import Chunk
from ceql.jit import Array
from ceql.predicates.bind import BoundGuards
from ceql.predicates.logic import TRUE
from ceql.predicates.side_by_side import attribute_of, bind_side_by_side, column_name, truths
from ceql.syntax import tree as t

Take = Callable[[Array], pa.RecordBatch]
"""The attributes that checks read, of the events at these (ascending) positions."""

_MOST_ROWS = 1 << 21


class Checks:
    """The checks of a query, bound to a schema."""

    def __init__(self, auto: Correlated, schema: pa.Schema, open_schema: bool, source: str) -> None:
        self.auto = auto
        self.source = source
        self.open_schema = open_schema
        self.columns = sorted({name for claim in auto.checks for name in attributes(claim)})
        self._flags: dict[object, Array] = {}
        self.bind(schema)

    def bind(self, schema: pa.Schema) -> None:
        """Look at columns of this schema from now on; a predicate that does not fit them is a `SchemaError`."""
        self.schema = schema
        self._bound: dict[t.Predicate, BoundGuards] = {}
        for claim in self.auto.checks:
            if isinstance(claim.what, Same):
                for one in _terms(claim.what):
                    for other in _terms(claim.what):
                        self._bind(_equal(one, other, claim))
            for test in claim.tests:
                self._bind(test.predicate)

    def _bind(self, predicate: t.Predicate) -> BoundGuards:
        if predicate not in self._bound:
            self._bound[predicate] = bind_side_by_side(predicate, self.schema, self.open_schema, self.source)
        return self._bound[predicate]

    # --- candidates ---

    def hold(self, chunk: Chunk, take: Take) -> Array:
        """Tells which candidates satisfy all claims. `chunk.labels` are marks, and events are in order."""
        good = np.ones(len(chunk.start), np.bool_)
        if not len(good) or not self.auto.checks:
            return good
        positions, row = _numbered(chunk.positions)
        look = _Look(self, chunk, row, take(positions))
        for claim in self.auto.checks:
            good &= look.satisfied(claim)
        return good

    def flag(self, key: object, holds: Callable[[int], bool]) -> Array:
        """A flag of every mark, computed once."""
        known = self._flags.get(key)
        if known is None:
            known = self._flags[key] = np.array([holds(k) for k in range(len(self.auto.marks))], np.bool_)
        return known

    def truths(self, predicate: t.Predicate, columns: pa.RecordBatch) -> Array:
        """Tells of which rows of events side by side a predicate is true."""
        return np.asarray(truths(self._bind(predicate), columns) == TRUE)


class _Look:
    """One chunk of candidates: entries are events of candidates."""

    def __init__(self, checks: Checks, chunk: Chunk, row: Array, values: pa.RecordBatch) -> None:
        self.checks = checks
        self.shape: Shape = checks.auto.shape
        self.count = len(chunk.start)
        self.marks = chunk.labels
        self.values = values
        self.row = row  # of `values`, for each entry
        self.candidate = np.repeat(np.arange(self.count), np.diff(chunk.offsets))

    def satisfied(self, claim: Claim) -> Array:
        """Tells which candidates satisfy a claim: every instance of its node must satisfy it."""
        entries = np.flatnonzero(self._is_at(self.shape.below(claim.node)))
        group = self._instances(claim.node)[entries]
        begins = np.ones(len(group), np.bool_)
        begins[1:] = group[1:] != group[:-1]
        first = entries[begins]
        good = np.ones(len(first), np.bool_)
        match claim.what:
            case Test() as test:
                good = self._test(test, first)
            case Either(cases):
                good = np.zeros(len(first), np.bool_)
                for case in cases:
                    together = np.ones(len(first), np.bool_)
                    for test in case:
                        together &= self._test(test, first)
                    good |= together
            case Same() as same:
                good = self._same(claim, same, entries, np.cumsum(begins) - 1, first)
        result = np.ones(self.count, np.bool_)
        result[self.candidate[first[~good]]] = False
        return result

    def _is_at(self, leaves: Leaves) -> Array:
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

    def _test(self, test: Test, first: Array) -> Array:
        """For each instance (given by its first entry), whether all combinations of events satisfy a test."""
        found: list[tuple[str, Array, Array]] = []  # a variable, its entries in order of instances, their instances
        totals = np.ones(len(first))
        for name, comparand in test.variables.items():
            members = self._is_at(comparand.leaves)
            entries = np.flatnonzero(members)
            groups = self._instances(comparand.scope)
            found.append((name, entries, groups))
            low, high = _ranges(groups, entries, first)
            totals *= high - low
        good = np.ones(len(first), np.bool_)
        begin = 0
        while begin < len(first):  # as many instances at a time as have a bounded number of rows
            sizes = np.cumsum(totals[begin:])
            end = begin + max(1, int(np.searchsorted(sizes, _MOST_ROWS, side="right")))
            part = np.arange(begin, end)
            chosen: dict[str, Array] = {}
            for name, entries, groups in found:
                low, high = _ranges(groups, entries, first[part])
                counts = (high - low).astype(np.int64)
                rows = np.repeat(np.arange(len(part)), counts)
                offset = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
                chosen = {other: taken[rows] for other, taken in chosen.items()}
                chosen[name] = entries[low.astype(np.int64)[rows] + offset]
                part = part[rows]
            if len(part):
                true = self._rows(test.predicate, chosen, test.owner)
                good[part[~true]] = False
            begin = end
        return good

    def _rows(self, predicate: t.Predicate, chosen: dict[str, Array], owner: str | None) -> Array:
        columns: dict[str, pa.Array] = {}
        count = len(next(iter(chosen.values())))
        for leaf in attributes_of(predicate):
            index = self.values.schema.get_field_index(attribute_of(leaf))
            if index < 0 or column_name(leaf) in columns:
                continue
            if isinstance(leaf, t.Prev):
                assert owner is not None
                entries = chosen[owner]
                before = np.maximum(entries - 1, 0)
                absent = (entries == 0) | (self.candidate[before] != self.candidate[entries])
                rows = pa.array(self.row[before], mask=absent)
            else:
                assert isinstance(leaf, t.Ref)
                rows = pa.array(self.row[chosen[leaf.variable]])
            columns[column_name(leaf)] = self.values.column(index).take(rows)
        if not columns:  # the events have none of the attributes
            columns[""] = pa.nulls(count)
        return self.checks.truths(predicate, pa.record_batch(columns))

    def _same(self, claim: Claim, same: Same, entries: Array, number: Array, first: Array) -> Array:
        """Whether all values of an instance (`number` says which, for each entry) are those of its first event."""
        good = np.ones(len(first), np.bool_)
        leader = first[number]
        has = {term: self._is_at(_leaves_of(same, term)) for term in _terms(same)}
        for one in _terms(same):
            for other in _terms(same):
                rows = np.flatnonzero(has[one][leader] & has[other][entries])
                if len(rows):
                    chosen = {"first": leader[rows], "other": entries[rows]}
                    true = self._rows(_equal(one, other, claim), chosen, None)
                    good[number[rows[~true]]] = False
        return good


def _ranges(groups: Array, entries: Array, first: Array) -> tuple[Array, Array]:
    """For instances (given by an entry each), where in `entries` those of the same group are."""
    counts = np.bincount(groups[entries], minlength=int(groups[-1]) + 1)
    ends = np.cumsum(counts)
    own = groups[first]
    return (ends - counts)[own], ends[own]


def _numbered(positions: Array) -> tuple[Array, Array]:
    """The positions in order, each once, and the number of each of the given ones among them."""
    low, high = int(positions.min()), int(positions.max())
    if high - low > 16 * len(positions) + (1 << 20):
        unique, inverse = np.unique(positions, return_inverse=True)
        return unique, inverse
    marked = np.zeros(high - low + 1, np.bool_)
    marked[positions - low] = True
    return np.flatnonzero(marked) + low, (np.cumsum(marked) - 1)[positions - low]


def attributes(claim: Claim) -> set[str]:
    """The attributes that a claim reads."""
    expressions: Iterable[t.Condition | t.Expression] = [test.predicate for test in claim.tests]
    if isinstance(claim.what, Same):
        expressions = _terms(claim.what)
    return {attribute_of(leaf) for e in expressions for leaf in attributes_of(e)}


def _terms(same: Same) -> list[t.Expression]:
    return list(dict.fromkeys(e for terms in same.terms.values() for e in terms))


def _leaves_of(same: Same, term: t.Expression) -> Leaves:
    return frozenset(leaf for leaf, terms in same.terms.items() if term in terms)


def _equal(one: t.Expression, other: t.Expression, claim: Claim) -> t.Comparison:
    def of(variable: str) -> Callable[[Any], t.Expression]:
        return lambda leaf: t.Ref(variable, leaf.name, span=leaf.span)

    return t.Comparison("=", replaced(one, of("first")), replaced(other, of("other")), span=claim.span)
