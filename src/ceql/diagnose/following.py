"""The engine, asked how far the runs of a query get.

In: the batches that a recognition reads, as its machine takes them. Out: the engine's report of what was reached, with
the engine's windows, contiguity and consumption. A query on single events is followed through the whole stream. A
correlated query is followed over the first events only, since the engine keeps its runs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.automata.steps import to_steps
from ceql.engine.common.layout import FOLLOW, Events
from ceql.engine.common.reached import Reached
from ceql.engine.groups.layout import NULLS_DIFFER
from ceql.engine.groups.machine import GroupMachine
from ceql.engine.states.follow import Follower
from ceql.errors import CeqlError
from ceql.jit import Array
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.frame import Recognition
from ceql.recognition.unary import UnaryRecognition

MOST_EVENTS = 50_000


class UnaryFollowing:
    """Follows the runs of a query on single events, by all that `recognition` reads."""

    def __init__(self, recognition: UnaryRecognition) -> None:
        self.cea = cea = recognition.plan.cea
        self.split_by = recognition.plan.split_by
        self._recognition = recognition
        recognition.inspect = self._inspect
        rows = [(-1, t) for t in cea.initial] + [(s, t) for s, row in enumerate(cea.states) for t in row]
        self._guards = [t.guard for _, t in rows]
        self._follower = Follower(
            source=np.array([s for s, _ in rows], np.int64),
            target=np.array([t.target for _, t in rows], np.int64),
            asks=np.array([t.guard != 0 for _, t in rows], np.bool_),
            final=np.array([s in cea.final for s in range(len(cea.states))], np.bool_),
            settings=recognition.machine.settings,
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
            new = [[b & guard == guard for guard in self._guards] for b in bits[follower.symbols :]]
            follower.add_symbols(np.array(new, np.bool_).reshape(len(new), len(self._guards)))
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
        settings = recognition.machine.settings._replace(mode=FOLLOW)
        steps = to_steps(auto, recognition.table.bits)
        self._machine = GroupMachine(steps, settings, recognition.machine.timed, recognition.machine.memory)

    @property
    def seen(self) -> int:
        """How many events were looked at."""
        return self._recognition.position if self._stopped_at is None else self._stopped_at

    @property
    def reached(self) -> Reached:
        assert self._machine.reached is not None
        return self._machine.reached

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
        _room_for_partitions(self._machine, self._recognition)
        self._count_nulls(events, bits)
        try:
            for _ in self._machine.feed(events):
                pass
        except CeqlError:  # for want of memory: what is reached so far stands
            self._stopped_at = self._recognition.position - data.num_rows

    def _count_nulls(self, events: Events, bits: list[int]) -> None:
        for k, (transition, terms) in enumerate(zip(self.auto.transitions, self._needed, strict=True)):
            if terms:
                allowed: Array = np.array([transition.allows(b) for b in bits], np.bool_)
                rows = allowed[events.symbol] & (events.partition >= 0)
                self.nulls[k] += int((events.values[rows][:, terms] < 0).any(axis=1).sum())


def _room_for_partitions(follower: Follower | GroupMachine, recognition: Recognition) -> None:
    follower.room_for_partitions(len(recognition.keys) if recognition.keys is not None else 1)
    if recognition.reused:
        follower.reuse_partitions(recognition.reused)
