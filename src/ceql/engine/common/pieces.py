"""Large pieces of a stream that ends, gone through substream by substream.

Where substreams are many, each event finds another one's partial matches, far from those before: most of its time goes
into fetching them. So the events of a piece are put together by substream, in which they keep their order. A loop then
has one substream's partial matches at hand until all its events are done, and forgets at once what no later event can
be with. The matches of a piece are put in order by their ends afterwards: no two substreams have matches that end at
the same event. Of 10 million clicks of 100,000 users, a funnel takes a third of the time so
(`python -m bench.experiments.by_hand 10000000 4`).

A match comes out when its piece is done, and all matches of a piece are held at once. Where they are more than a piece
may have, it is gone through again in order of time, and so is all that follows.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.chunk import Chunk, by_end, in_order, size
from ceql.engine.common.layout import NEVER, Events
from ceql.engine.common.machine import Machine
from ceql.engine.common.scatter import by_key

MOST = 1 << 22  # events of a piece
FEW = 1 << 14  # events that are not worth to be put in order
_EVENT_BYTES = 128  # of the budget for each event of a piece, as it came and put in order
_MATCH_BYTES = 96  # that the matches of a piece may take for each of its events


class Pieces:
    """Holds events back until they are many."""

    def __init__(self, memory: int) -> None:
        self._most = min(MOST, memory // _EVENT_BYTES)
        self._batches: list[Events] = []
        self._room: Events | None = None  # of a piece in order, for the next one: fresh memory takes time
        self.held = 0

    def add(self, events: Events) -> bool:
        """Hold a batch back, and say whether the piece is as large as it may be."""
        if len(events.symbol):
            self._batches.append(events)
            self.held += len(events.symbol)
        return self.held >= self._most

    def take(self) -> Events:
        """The events that are held, in order of time."""
        batches, self._batches, self.held = self._batches, [], 0
        return Events(*map(np.concatenate, zip(*batches, strict=True))) if len(batches) > 1 else batches[0]

    def run(self, machine: Machine, last: bool) -> list[Chunk] | None:
        """The matches of the events that are held, which a machine goes through by key; `last` says that no others
        come. None if the matches are too many: then the machine is as before, and the events are held still."""
        if self.held < FEW:
            return [*machine.feed(self.take()), *machine.flush()] if self.held else []
        until = NEVER if last else int(self._batches[-1].bound[-1])
        before = machine.state()
        room = _MATCH_BYTES * self.held
        events, self._room = by_key(self._batches, machine.partitions, self._room)
        found: list[Chunk] = []
        for chunk in machine.feed_by_key(events, until):
            found.append(chunk)
            room -= size(chunk)
            if room < 0:
                machine.restore(before)
                order = in_order(events.position)
                self._batches = [Events(*(array[order] if len(array) else array for array in events))]
                return None
        self.held = 0
        return [by_end(found)] if found else []
