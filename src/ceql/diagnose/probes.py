"""How often each condition holds: the guards of a query, taken apart, as further guards of the same symbols.

For each guard there is a probe for its type alone, and for each of its conditions P one for `type & P` and one for
`type & NOT P`; what satisfies neither is unknown (NULL). A symbol then tells all of them apart, and counting symbols
counts every condition, at the cost of one histogram for each batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from ceql.analysis.normal import Atom
from ceql.diagnose.findings import GuardFinding, PredicateFinding
from ceql.explain.formula import conjuncts, print_guard
from ceql.jit import Array
from ceql.predicates.bind import Events, bind
from ceql.predicates.symbols import Symbolizer, SymbolTable
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition


class Probe(NamedTuple):
    """A condition and the numbers of its two probes."""

    text: str
    depth: int
    holds: int
    fails: int


class Probes:
    """Symbols of batches, and what they say of the conditions.

    `guards` are counted, `others` are of use to other versions of the automaton. `bits_of(guards)[symbol]` are those
    of a version that hold, for symbols of `symbols()`; symbol numbers only grow.
    """

    def __init__(self, guards: tuple[Atom, ...], source: str, others: Iterable[Atom] = ()) -> None:
        self.guards = guards
        self._source = source
        self._all: dict[Atom, int] = {guard: k for k, guard in enumerate(dict.fromkeys((*guards, *others)))}
        self._own = len(self._all)
        self._bits: dict[tuple[Atom, ...], list[int]] = {}
        self._types = [self._number(Atom(g.type, g.stream, frozenset())) for g in guards]
        self._parts = [[self._probe(g, depth, p) for depth, p in _taken_apart(g)] for g in guards]
        self._fine = SymbolTable()
        self._coarse = SymbolTable()
        self._translation: Array = np.zeros(1, np.int32)
        self._counts: Array = np.zeros(1, np.int64)
        self._last: Array = np.full(1, -1, np.int64)
        self._symbolizer: Symbolizer | None = None

    @property
    def relevant(self) -> Array:
        """Which symbols satisfy some guard that is counted."""
        return np.array([bits != 0 for bits in self.bits_of(self.guards)], np.bool_)

    def bits_of(self, guards: tuple[Atom, ...]) -> list[int]:
        """The guards that hold, by symbol."""
        known = self._bits.setdefault(guards, [])
        numbers = [self._all[guard] for guard in guards]
        for bits in self._coarse.bits[len(known) :]:
            known.append(sum(1 << k for k, number in enumerate(numbers) if bits >> number & 1))
        return known

    def mask_of(self, guards: tuple[Atom, ...], mask: int) -> int:
        """A mask over such guards, for `count`."""
        return sum(1 << self._all[guard] for k, guard in enumerate(guards) if mask >> k & 1)

    def _number(self, atom: Atom) -> int:
        return self._all.setdefault(atom, len(self._all))

    def _probe(self, guard: Atom, depth: int, predicate: t.Predicate) -> Probe:
        holds = Atom(guard.type, guard.stream, frozenset(), (predicate,))
        fails = Atom(guard.type, guard.stream, frozenset(), (t.Neg(predicate),))
        return Probe(print_condition(predicate), depth, self._number(holds), self._number(fails))

    def bind(self, events: Events) -> None:
        """Read batches of this schema from now on."""
        self._symbolizer = Symbolizer(bind(list(self._all), events, self._source), self._fine)

    def symbols(self, batch: pa.RecordBatch, streams: int | Array, position: int) -> Array:
        """The rows' symbols by the automaton's guards; conditions are counted on the way."""
        assert self._symbolizer is not None
        fine = self._symbolizer.symbols(batch, streams)
        self._grow()
        self._counts += np.bincount(fine, minlength=len(self._counts))
        self._last[fine] = np.arange(position, position + len(fine))  # of equal symbols, the last one stays
        return self._translation[fine]

    def _grow(self) -> None:
        known, now = len(self._counts), len(self._fine.bits)
        if known == now:
            return
        own = (1 << self._own) - 1
        new = [self._coarse.number(bits & own) for bits in self._fine.bits[known:]]
        self._translation = np.concatenate([self._translation, np.array(new, np.int32)])
        self._counts = np.concatenate([self._counts, np.zeros(now - known, np.int64)])
        self._last = np.concatenate([self._last, np.full(now - known, -1, np.int64)])

    def count(self, mask: int) -> tuple[int, int]:
        """How many events satisfied all guards (probes too) of the mask, and the position of the last, or -1."""
        symbols = [k for k, bits in enumerate(self._fine.bits) if bits & mask == mask and k < len(self._counts)]
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
