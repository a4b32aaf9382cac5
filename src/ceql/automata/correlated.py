"""The automaton of a correlated query, as the loop over groups runs it.

Runs wait in indexes. An index is fed by the states it gathers, under a key of the last event's values; a transition
looks up its own event's values there. `terms` are those values: expressions over one event, numbered. Where conditions
ask for more, runs carry registers (`carrying`), and a transition tests what it finds.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ceql.analysis.conditions import replaced
from ceql.analysis.lengths import TIME
from ceql.analysis.normal import Atom
from ceql.analysis.shape import Claim, Leaves, Shape
from ceql.automata.parallel import Parallel
from ceql.automata.registers import Carrying, Register, Way
from ceql.automata.uses import Term, Use
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition
from ceql.syntax.walking import leaves


class Mark(NamedTuple):
    """What is said of an event of a match: where in the formula it was read, and after going round which iterations,
    as far as conditions on whole lists of events ask for that."""

    leaves: Leaves
    loops: Leaves


class Link(NamedTuple):
    """Look up the event's terms `key` in an index; its terms `unlike` must differ from those of the runs found."""

    where: int
    key: tuple[int, ...]
    unlike: tuple[int, ...] = ()


class Transition(NamedTuple):
    guard: int  # bit mask over the guards; all must hold
    needs: tuple[int, ...]  # terms that must not be NULL
    links: tuple[Link, ...]
    mark: int
    target: int
    failing: tuple[int, ...] = ()  # bit masks; of each, some guard must fail
    way: Way = Way()  # what is tested of the runs that are found, and what the new run carries

    def allows(self, bits: int) -> bool:
        """Whether an event that satisfies these guards may be read."""
        return self.guard & ~bits == 0 and all(guard & ~bits for guard in self.failing)


Feeders = Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]
"""Of each state: the terms of the key, and those of `unlike`."""


class Index(NamedTuple):
    """Runs by the terms of their last event; `tight` keeps those alone that ended at the previous event.

    Of their registers, the first `hashed` belong to the key, and the others are tested group by group. With `order`,
    the only other one is found in order: its small values (1) or its great ones (-1) are those that pass. If there is
    no other one, all are found.
    """

    feeders: Feeders
    tight: bool
    registers: tuple[int, ...] = ()
    hashed: int = 0
    order: int = 0
    ends: tuple[int, ...] = ()
    """The absences whose forbidden events end all runs here."""
    between: int = -1
    """The index of the events that come between these runs and what finds them; see `free_events`."""


class Watched(NamedTuple):
    """An absence of the shape, and the guards of the events that it keeps away: one of them is enough."""

    number: int
    guards: int


@dataclass(frozen=True, eq=False)
class Correlated:
    """The automaton; `parallel` is what it was compiled from."""

    shape: Shape
    parallel: Parallel
    guards: tuple[Atom, ...]
    terms: tuple[t.Expression, ...]
    compares: tuple[tuple[int, int], ...]
    """Pairs of terms that are compared with each other."""
    marks: tuple[Mark, ...]
    transitions: tuple[Transition, ...]
    indexes: tuple[Index, ...]
    looked_up: tuple[Claim, ...]
    """The claims that the indexes settle, or narrow down."""
    states: int
    final: tuple[int, ...]
    is_deterministic: bool = False
    """Whether every match has one run, by construction."""
    carrying: Carrying | None = None
    """What runs carry, where conditions ask for it."""
    absences: tuple[Watched, ...] = ()
    """The absences that are looked up for each finished match."""
    denials: tuple[Claim, ...] = ()
    """The conditions that compare absent events with those of a match, of those absences."""
    ends: tuple[Watched, ...] = ()
    """The absences whose forbidden events end all runs of some indexes."""
    endings: tuple[Transition, ...] = ()
    """What forbidden events end of the runs that they are compared with: those that are found and pass all tests."""

    @property
    def ends_runs(self) -> bool:
        """Whether events that no run reads end some."""
        return bool(self.ends or self.endings)

    @cached_property
    def reads(self) -> tuple[Term, ...]:
        """The terms that are not numbered: their values come before those of `terms`."""
        terms = self.carrying.terms if self.carrying is not None else ()
        return tuple(term for term in terms if term.use is not Use.NUMBER)

    def column(self, term: int) -> int:
        """Where the values of a term of `carrying` stand among those of an event."""
        assert self.carrying is not None
        found = self.carrying.terms[term]
        if found.use is Use.NUMBER:
            return len(self.reads) + self.terms.index(found.what)
        return self.reads.index(found)

    def carried(self, state: int) -> tuple[int, ...]:
        """The registers of the runs in a state."""
        return self.carrying.live[state] if self.carrying is not None else ()

    def register(self, number: int) -> Register:
        """The register of a number."""
        assert self.carrying is not None
        return self.carrying.registers[number]

    def told_words(self, ranked: Sequence[bool]) -> list[tuple[int, list[tuple[bool, bool]]]]:
        """Of each index, how many words its key has, and of each of its registers, whether it is the number of a value
        (of a term that is numbered, or read and `ranked`), and whether it is a set of values."""
        found = []
        for index in self.indexes:
            words = []
            for register in map(self.register, index.registers):
                column = self.column(register.term) if register.term >= 0 else -1
                words.append((column >= len(ranked) or (column >= 0 and ranked[column]), register.is_set))
            found.append((len(next(iter(index.feeders.values()))[0]), words))
        return found

    @cached_property
    def waits_in(self) -> tuple[tuple[int, ...], ...]:
        """Of each state: the indexes in which its runs wait; those that no event looks at are not among them."""
        asked = {link.where for transition in (*self.transitions, *self.endings) for link in transition.links}
        asked |= {index.between for index in self.indexes}
        found: list[list[int]] = [[] for _ in range(self.states)]
        for k, index in enumerate(self.indexes):
            for state in index.feeders if k in asked else ():
                found[state].append(k)
        return tuple(map(tuple, found))

    def pattern(self) -> tuple[int, ...] | None:
        """The marks of every match in order, where all matches have the same, as those of a sequence do."""
        if not self.is_chain:
            return None
        after: defaultdict[int, list[Transition]] = defaultdict(list)
        for transition in self.transitions:
            for state in self.indexes[transition.links[0].where].feeders if transition.links else (-1,):
                after[state].append(transition)
        read: dict[int, tuple[int, ...]] = {-1: ()}
        todo = [-1]
        while todo:
            state = todo.pop()
            for transition in after[state]:
                marks = (*read[state], transition.mark)
                if transition.target not in read:
                    read[transition.target] = marks
                    todo.append(transition.target)
                elif read[transition.target] != marks:
                    return None
        patterns = {read[state] for state in self.final if state in read}
        return patterns.pop() if len(patterns) == 1 else None

    @property
    def is_chain(self) -> bool:
        return all(len(transition.links) <= 1 for transition in self.transitions)

    @property
    def is_tight(self) -> bool:
        """Whether events that no guard accepts matter, since something is contiguous."""
        return any(index.tight for index in self.indexes)

    @property
    def is_strict(self) -> bool:
        """Whether the events of every match follow one another."""
        return self.is_chain and all(index.tight for index in self.indexes)

    @property
    def shares_events(self) -> bool:
        """Whether an event may be read at two leaves by runs that go side by side."""
        kinds = [leaf.type for leaf in self.shape.leaf.values()]
        return not self.is_chain and len(set(kinds)) < len(kinds)

    def with_time(self, name: str | None) -> Correlated:
        """What runs carry, where the column of times has this name; only for those who read columns."""
        if name is None or self.carrying is None or not self.asks_time:
            return self

        def named(leaf: t.Ref | t.Prev | t.Attribute) -> t.Expression:
            return replace(leaf, name=name) if isinstance(leaf, t.Attribute) and leaf.name == TIME else leaf

        def told(what: t.Expression | t.Predicate) -> t.Expression | t.Predicate:
            return replaced(what, named)  # type: ignore[type-var]

        terms = [
            term._replace(what=told(term.what), partner=None if term.partner is None else told(term.partner))
            for term in self.carrying.terms
        ]
        conditions = [
            replace(
                own,
                operands=tuple(operand._replace(what=told(operand.what)) for operand in own.operands),
                listed=None if own.listed is None else tuple(map(told, own.listed)),  # type: ignore[arg-type]
            )
            for own in self.carrying.conditions
        ]
        return replace(self, carrying=replace(self.carrying, terms=tuple(terms), conditions=tuple(conditions)))

    @cached_property
    def asks_time(self) -> bool:
        """Whether runs carry times of events, or conditions ask for them."""
        if self.carrying is None:
            return False
        terms = [part for term in self.carrying.terms for part in (term.what, term.partner) if part is not None]
        asked = [operand.what for condition in self.carrying.conditions for operand in condition.operands]
        return any(isinstance(leaf, t.Attribute) and leaf.name == TIME for e in (*terms, *asked) for leaf in leaves(e))

    @property
    def fingerprint(self) -> str:
        """Tells automata apart: what waits in the indexes of one means nothing to another."""
        marks = [(sorted(mark.leaves), sorted(mark.loops)) for mark in self.marks]
        indexes = [(sorted(index.feeders.items()), index.tight) for index in self.indexes]
        if self.carrying is None:
            transitions = f"[{', '.join(map(_without_way, self.transitions))}]"
            content = f"({self.terms!r}, {marks!r}, {transitions}, {indexes!r}, {self.final!r})"
        else:
            carrying = self.carrying
            asked = [print_condition(condition.asked) for condition in carrying.conditions]
            registers = [(r.term, r.fold, sorted(r.leaves), r.scope, r.previous, r.terms) for r in carrying.registers]
            further = [(index.registers, index.hashed, index.order and (index.order, "rows")) for index in self.indexes]
            terms = (self.terms, self.reads, registers, carrying.live, asked, further)
            content = repr((terms, marks, list(self.transitions), indexes, self.final))
            # what older automata have none of is left out, so that their fingerprints stay what they are
            forbidden = [(r.absence, sorted(r.emptied)) for r in carrying.registers]
            if any(absence >= 0 or emptied for absence, emptied in forbidden):
                content += repr(forbidden)
            late = [(way.after, way.complete) for way in carrying.ways.values()]
            if any(after or complete for after, complete in late):
                content += repr(late)
        if any(index.between >= 0 for index in self.indexes):
            content += repr([index.between for index in self.indexes])
        if self.ends_runs:
            content += repr(([index.ends for index in self.indexes], self.ends, self.endings))
        return hashlib.sha256(content.encode()).hexdigest()

    def label(self, mark: Mark) -> frozenset[str]:
        """The variables that an event with this mark is bound to."""
        return frozenset().union(*(self.shape.leaf[leaf].variables for leaf in mark.leaves))


def _without_way(transition: Transition) -> str:
    values = zip(Transition._fields[:-1], transition, strict=False)
    return f"Transition({', '.join(f'{name}={value!r}' for name, value in values)})"


NOTHING_COMPARED = Correlated(
    Shape((), {}, (), 0), Parallel((), (), (), (), ()), (), (), (), (), (), (), (), states=0, final=()
)
"""The automaton of a query that compares no events."""
