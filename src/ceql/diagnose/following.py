"""The engine, asked how far the runs of a query get.

In: the batches that a recognition reads, as its machine takes them. Out: the engine's report of what was reached, with
the engine's windows, contiguity and consumption. A query on single events is followed through the whole stream. A
correlated query is followed over the first events only, since the engine keeps its runs, and until its
events have met so many groups of them.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
import pyarrow as pa

from ceql.automata.cea import NO_LABEL, Transition
from ceql.automata.correlated import Correlated
from ceql.automata.registers import CARRIED, NEW, Carrying, Evaluation
from ceql.automata.steps import tests_in_order, to_carrier, to_steps
from ceql.engine.common.layout import FOLLOW, Events
from ceql.engine.common.reached import Reached
from ceql.engine.groups.layout import NULLS_DIFFER, ORDER, Carrier
from ceql.engine.groups.machine import GroupMachine
from ceql.engine.states.follow import Follower
from ceql.errors import CeqlError
from ceql.explain.carried import equality_of
from ceql.jit import Array
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.frame import Recognition
from ceql.recognition.unary import UnaryRecognition

MOST_EVENTS = 50_000
MOST_GROUPS = 1 << 28  # that events meet
_SLICE = 256  # events that are fed before looking at the groups that they met
_OWN = ("indexes", "scratch", "cells", "cell_slots", "died", "verdicts", "asked")
"""The arrays of its carrier that a machine changes."""


class UnaryFollowing:
    """Follows the runs of a query on single events, by all that `recognition` reads."""

    def __init__(self, recognition: UnaryRecognition) -> None:
        self.cea = cea = recognition.plan.cea
        self.split_by = recognition.plan.split_by
        self._recognition = recognition
        recognition.inspect = self._inspect
        rows = [(-1, t) for t in cea.initial] + [(s, t) for s, row in enumerate(cea.states) for t in row]
        # a state of its own for what NOT keeps away before a match: once a run is there, it stays
        gates = {mask: len(cea.states) + k for k, mask in enumerate({t.after for t in cea.initial} - {0})}
        for mask, gate in gates.items():
            kinds = [k for k in range(len(cea.guards)) if mask >> k & 1]
            rows += [(-1, Transition(1 << k, NO_LABEL, gate)) for k in kinds] + [(gate, Transition(0, NO_LABEL, gate))]
        self._transitions = [t for _, t in rows]
        self._follower = Follower(
            source=np.array([s for s, _ in rows], np.int64),
            target=np.array([t.target for _, t in rows], np.int64),
            asks=np.array([t.guard != 0 and t.target < len(cea.states) for _, t in rows], np.bool_),
            final=np.array([s in cea.final for s in range(len(cea.states) + len(gates))], np.bool_),
            barred=np.array([gates.get(t.after, -1) for _, t in rows], np.int64),
            settings=recognition.whole.settings,
        )

    @property
    def positions(self) -> int:
        """At how many positions matches end."""
        return self._follower.positions

    @property
    def reached(self) -> Reached:
        return self._follower.reached

    @property
    def least(self) -> Array:
        """Of each state, the shortest run that came there, in the measure of the window; -1 for none."""
        return self._follower.runs.least

    def _inspect(self, events: Events, data: pa.RecordBatch) -> None:
        follower, bits = self._follower, self._recognition.table.bits
        if follower.symbols < len(bits):
            new = [[t.fires(b) for t in self._transitions] for b in bits[follower.symbols :]]
            follower.add_symbols(np.array(new, np.bool_).reshape(len(new), len(self._transitions)))
        _room_for_partitions(follower, self._recognition)
        follower.feed(events)


class CorrelatedFollowing:
    """Follows the runs of a correlated query, by the first events that `recognition` reads."""

    def __init__(self, recognition: CorrelatedRecognition) -> None:
        self.auto = auto = recognition.auto
        self.split_by = recognition.plan.split_by
        self._recognition = recognition
        recognition.inspect = self._inspect
        self._stopped_at: int | None = None
        self.nulls = [0] * len(auto.transitions)
        """How often a transition's event lacked a value (NULL) that it needs."""
        self._needed = [
            [k for k in {*e.needs, *(k for link in e.links for k in (*link.key, *link.unlike))} if k < NULLS_DIFFER]
            for e in auto.transitions
        ]
        self._symbols = len(recognition.table.bits)
        machine = recognition.whole
        settings = machine.settings._replace(mode=FOLLOW)
        steps = to_steps(auto, recognition.table.bits)
        carrier = counted(self._carrier()) if auto.carrying is not None else None
        self._encodings = list(recognition.operands.encodings)
        self._machine = GroupMachine(steps, settings, machine.timed, machine.memory, carrier=carrier)
        recognition.tell_words(self._machine, auto)

    def _carrier(self) -> Carrier:
        operands = self._recognition.operands
        return to_carrier(self.auto, operands.tests, operands.reads)

    @property
    def seen(self) -> int:
        """How many events were looked at."""
        return self._recognition.position if self._stopped_at is None else self._stopped_at

    @property
    def reached(self) -> Reached:
        assert self._machine.reached is not None
        return self._machine.reached

    @property
    def groups(self) -> int:
        """How many groups of partial matches events met; a group counts each time."""
        return groups_met(self._machine)

    @property
    def ruled_out(self) -> dict[int, int]:
        """Of each claim that is tested: how many groups it ruled out, of those that the tests before it left."""
        carrying, carrier = self.auto.carrying, self._machine.carrier
        if carrying is None or carrier is None:
            return {}
        found: Counter[int] = Counter()
        for test, groups in zip(_tests(self.auto, carrying), carrier.died[0, :-1].tolist(), strict=True):
            if test is None or (test.condition >= 0 and carrying.conditions[test.condition].denies >= 0):
                continue  # what NOT rules out is told elsewhere
            if any(source.kind in (CARRIED, NEW) for source in test.sources):
                found[_claim(self.auto, carrying, test)] += groups
        return dict(found)

    def _inspect(self, events: Events, data: pa.RecordBatch) -> None:
        if self._stopped_at is not None:
            return
        if self._recognition.position > MOST_EVENTS:
            self._stopped_at = MOST_EVENTS
            rows = int(np.searchsorted(events.position, MOST_EVENTS))
            events = Events(*(column[:rows] for column in events))
        bits = self._recognition.table.bits
        if self._symbols < len(bits):
            self._symbols = len(bits)
            self._machine.use(to_steps(self.auto, bits))
            self._recognition.tell_words(self._machine, self.auto)
        _room_for_partitions(self._machine, self._recognition)
        if self._encodings != self._recognition.operands.encodings:  # what runs carry was read from another type
            self._stopped_at = self._recognition.position - data.num_rows
            return
        self._count_nulls(events, bits)
        try:
            self._feed(events)
        except CeqlError:  # for want of memory: what is reached so far stands
            self._stopped_at = self._recognition.position - data.num_rows

    def _feed(self, events: Events) -> None:
        machine = self._machine
        if machine.carrier is None:
            for _ in machine.feed(events):
                pass
            return
        bound = self._recognition.whole.carrier
        assert bound is not None
        own = {name: getattr(machine.carrier, name) for name in _OWN}
        machine.carrier = bound._replace(**own)
        for begin in range(0, len(events.position), _SLICE):
            if self.groups > MOST_GROUPS:
                self._stopped_at = int(events.position[begin])
                return
            for _ in machine.feed(Events(*(column[begin : begin + _SLICE] for column in events))):
                pass

    def _count_nulls(self, events: Events, bits: list[int]) -> None:
        for k, (transition, terms) in enumerate(zip(self.auto.transitions, self._needed, strict=True)):
            if terms:
                allowed: Array = np.array([transition.allows(b) for b in bits], np.bool_)
                rows = allowed[events.symbol] & (events.partition >= 0)
                self.nulls[k] += int((events.values[rows][:, terms] < 0).any(axis=1).sum())


def counted(carrier: Carrier) -> Carrier:
    """What runs carry, with counts of the groups that are met and ruled out.

    Nothing is found in order then: what is not looked at would not be counted.
    """
    indexes = carrier.indexes.copy()
    indexes[:, ORDER] = 0
    return carrier._replace(indexes=indexes, died=np.zeros((2, len(carrier.tests) + 1), np.int64))


def groups_met(machine: GroupMachine) -> int:
    """How many groups the events of a machine that counts them have met."""
    return int(machine.carrier.died[0, -1]) if machine.carrier is not None else 0


def _tests(auto: Correlated, carrying: Carrying) -> list[Evaluation | None]:
    """The tests as the machine numbers them; None for those of what NOT ends."""
    found: list[Evaluation | None] = []
    for transition in auto.transitions:
        found += chain.from_iterable(tests_in_order(carrying, transition).values())
    found += [None for ending in auto.endings for _ in ending.way.tests]
    for transition in auto.transitions:
        found += transition.way.after
    for transition in auto.transitions:
        found += transition.way.complete
    return found


def _claim(auto: Correlated, carrying: Carrying, test: Evaluation) -> int:
    if test.condition >= 0:
        return carrying.conditions[test.condition].claim.number
    equality = equality_of(auto, test.sources[0].number)
    assert equality is not None
    return equality.claims[0]


def _room_for_partitions(follower: Follower | GroupMachine, recognition: Recognition) -> None:
    follower.room_for_partitions(len(recognition.keys) if recognition.keys is not None else 1)
    if recognition.reused:
        follower.reuse_partitions(recognition.reused)
