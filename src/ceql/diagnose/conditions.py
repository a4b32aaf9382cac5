"""Counts how often each condition holds: the guards of a query, taken apart, as further guards of the same symbols.

For each guard there is a probe for its type alone, and for each of its conditions P one for `type & P` and one for
`type & NOT P`; what satisfies neither is unknown (NULL). A symbol then tells all of them apart, and counting symbols
counts every condition, at the cost of one histogram for each batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from ceql.analysis.neighbours import lags_in, shown
from ceql.analysis.normal import Atom
from ceql.diagnose.findings import GuardFinding, PredicateFinding
from ceql.explain.formula import conjuncts, print_guard
from ceql.jit import Array
from ceql.predicates.symbols import Symbolizer, SymbolTable
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.lags import LaggedEvents
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition


class Probe(NamedTuple):
    """A condition and the numbers of its two probes."""

    text: str
    depth: int
    holds: int
    fails: int


class ConditionCounts:
    """Counts the events that satisfy each condition.

    The guards of the query are counted in parts, `others`, those of other versions of the query, as a whole.
    """

    def __init__(self, bound: BoundPlan, others: Iterable[Atom]) -> None:
        self._bound = bound
        self.guards = guards = bound.plan.guards
        self._all: dict[Atom, int] = {guard: k for k, guard in enumerate(dict.fromkeys((*guards, *others)))}
        self._types = [self._number(Atom(g.type, g.stream, frozenset())) for g in guards]
        self._parts = [[self._probe(g, depth, p) for depth, p in _taken_apart(g)] for g in guards]
        self._table = SymbolTable()
        self._counts: Array = np.zeros(1, np.int64)
        self._last: Array = np.full(1, -1, np.int64)
        self._symbolizer: Symbolizer | None = None
        self._schema = bound.schema
        lags = lags_in(predicate for guard in self._all for predicate in guard.predicates)
        self._lagged = LaggedEvents(lags) if lags else None
        self._keys = bound.partition_keys() if lags else None

    def mask_of(self, guards: tuple[Atom, ...], mask: int) -> int:
        """A mask over such guards, for `count`."""
        return sum(1 << self._all[guard] for k, guard in enumerate(guards) if mask >> k & 1)

    def _number(self, atom: Atom) -> int:
        return self._all.setdefault(atom, len(self._all))

    def _probe(self, guard: Atom, depth: int, predicate: t.Predicate) -> Probe:
        holds = Atom(guard.type, guard.stream, frozenset(), (predicate,))
        fails = Atom(guard.type, guard.stream, frozenset(), (t.Neg(predicate),))
        return Probe(print_condition(shown(predicate)), depth, self._number(holds), self._number(fails))

    def feed(self, batch: pa.RecordBatch, streams: int | Array, position: int) -> Array:
        """Count the conditions of a batch that begins at `position`; which of its events satisfy some guard."""
        if self._symbolizer is None or not batch.schema.equals(self._schema):
            self._schema = batch.schema
            bound = self._bound.guards_over(batch.schema, tuple(self._all))
            self._symbolizer = Symbolizer(bound, self._table)
        if self._lagged is not None:
            batch = self._with_lags(self._lagged, batch, streams)
        symbols = self._symbolizer.symbols(batch, streams)
        new = len(self._table.bits) - len(self._counts)
        if new:
            self._counts = np.concatenate([self._counts, np.zeros(new, np.int64)])
            self._last = np.concatenate([self._last, np.full(new, -1, np.int64)])
        self._counts += np.bincount(symbols, minlength=len(self._counts))
        self._last[symbols] = np.arange(position, position + len(symbols))  # of equal symbols, the last one stays
        own = (1 << len(self.guards)) - 1
        relevant: Array = np.array([bits & own != 0 for bits in self._table.bits], np.bool_)
        return relevant[symbols]

    def _with_lags(self, lagged: LaggedEvents, batch: pa.RecordBatch, streams: int | Array) -> pa.RecordBatch:
        if self._keys is None:
            return lagged.extended(batch, np.zeros(batch.num_rows, np.int32), 1)
        columns = batch.select([name for name in self._keys.columns if name in batch.schema.names])
        return lagged.extended(batch, self._keys.numbers(columns, streams, self._bound.streams), len(self._keys))

    def count(self, mask: int) -> tuple[int, int]:
        """How many events satisfied all guards (probes too) of the mask, and the position of the last, or -1."""
        symbols = [k for k, bits in enumerate(self._table.bits) if bits & mask == mask and k < len(self._counts)]
        return int(self._counts[symbols].sum()), int(max(self._last[symbols], default=-1))

    def findings(self) -> list[GuardFinding]:
        found = []
        for k, guard in enumerate(self.guards):
            events, _ = self.count(1 << self._types[k])
            hits, last = self.count(1 << k)
            predicates = []
            for probe in self._parts[k]:
                true, false = self.count(1 << probe.holds)[0], self.count(1 << probe.fails)[0]
                predicates.append(PredicateFinding(probe.text, probe.depth, true, false, events - true - false))
            found.append(GuardFinding(print_guard(guard), events, hits, last if hits else None, tuple(predicates)))
        return found


def _taken_apart(guard: Atom) -> Iterator[tuple[int, t.Predicate]]:
    """The conditions of a guard, and below each disjunction its alternatives."""

    def parts(predicate: t.Condition, depth: int) -> Iterator[tuple[int, t.Predicate]]:
        for part in conjuncts(predicate):
            yield depth, cast(t.Predicate, part)
            if isinstance(part, t.Disj):
                for item in part.items:
                    yield from parts(item, depth + 1)

    for predicate in guard.predicates:
        yield from parts(predicate, 0)
