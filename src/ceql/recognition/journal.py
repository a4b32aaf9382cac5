"""Recognitions of one stream that any exception may interrupt, at any line, without harm.

A feed changes each query's recognition in many steps, in arrays, tables and dicts. None of these steps is undone.
Instead the journal keeps the states in which the recognitions once were whole, and the feeds since then. If an
exception cuts a feed short, new recognitions are made of those states, do those feeds again without looking for their
matches, and are where the old ones were before the feed. New states are taken when the feeds take more memory than the
last ones, so the cost of copying them is spread over many events. The last feed can be done again until the next one
begins.

`_done` is the only thing that says whether the recognitions are whole, and it changes by a single assignment.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from ceql.io.sorted_runs import EventBatch
from ceql.recognition.aggregation import Aggregation, Take
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.frame import Recognition
from ceql.recognition.graph_totals import follow, leave
from ceql.recognition.recognise import recognise
from ceql.recognition.rows import RowStore
from ceql.recognition.snapshot import State
from ceql.recognition.together import Round, needed_columns, rounds

LEAST_BYTES = 8 << 20  # of feeds, before a new state is taken
_OBJECT = 1024  # bytes that a batch takes besides its columns
MANY = 256  # rows of a batch that is measured, and batches until small ones are measured again
ALLOWANCE = 16 << 20  # bytes that no budget counts: small journals, buffers
_FEW = 4  # batches of matches that are dropped before it pays not to look for them

_COUNTED = ("nodes_reclaimed", "collections")
_log = logging.getLogger(__name__)

Work = Generator[Round, None, None]


class _Entry(NamedTuple):
    """A feed that was done, and the bytes of all feeds up to it."""

    batches: Sequence[EventBatch]
    bytes: int


@dataclass(frozen=True)
class _Past:
    """The states before the feed `number` (None: before any event), and the feeds from there on."""

    states: list[State] | None
    number: int
    feeds: list[_Entry] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The memory that the feeds take."""
        return self.feeds[-1].bytes if self.feeds else 0

    @cached_property
    def state_bytes(self) -> int:
        """The memory that the states take."""
        size = 0
        for _, arrays, tables in self.states or ():
            size += sum(int(array.nbytes) for array in arrays.values())
            size += sum(int(table.get_total_buffer_size()) for table in tables.values())
        return size

    @property
    def limit(self) -> int:
        """The memory that the feeds may take."""
        return max(LEAST_BYTES, self.state_bytes)


class Journal:
    """The recognitions of some queries, and what it takes to make them again. Feeds are numbered; the first is 0."""

    def __init__(self, bounds: Sequence[BoundPlan], states: list[State] | None = None) -> None:
        self._bounds = list(bounds)
        self._needed = None if bounds[0].options.keep_rows else set(needed_columns(bounds))
        self._past = _Past(states, 0)
        self._limit = self._past.limit
        self.recognitions = self._made(states)
        """The recognitions, to be looked at; they may be in the middle of a feed."""
        self._done: int | None = 0  # how many feeds they have done; None: an exception may have cut one short
        self._position = self.recognitions[0].position
        self._batch = 0  # of the feed at work
        self._row_bytes = 0.0  # as it was last measured
        self._unmeasured = 0  # batches until it is measured again
        self._recoveries = 0
        self._before: Counter[str] = Counter()  # what recognitions that were given up had counted

    @property
    def feeds_bytes(self) -> int:
        """The memory of the feeds that the next feed will find here."""
        return self._past.bytes if self._past.bytes <= self._limit else 0

    @property
    def state_bytes(self) -> int:
        """The memory of the states from which recognition could be made anew."""
        return self._past.state_bytes

    def measures(self) -> dict[str, int]:
        """Metrics by name: the sums over all queries."""
        found = self._counted()
        found.update(self._before)
        journal = self.feeds_bytes + self.state_bytes
        return dict(found) | {"recoveries": self._recoveries, "memory_journal": journal}

    def _counted(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for recognition in self.recognitions:
            found.update(recognition.measures())
        return found

    @property
    def position(self) -> int:
        """How many events the feeds that are done had."""
        return self._position

    def set_memory(self, memory: int) -> None:
        """Change the budget of the graphs."""
        self._bounds = [replace(one, options=replace(one.options, memory=memory)) for one in self._bounds]
        for recognition in self.recognitions:
            recognition.set_memory(memory)

    def leave_room(self, memory: int) -> None:
        """Let each graph, and the state that is a copy of it, have so much of the budget."""
        for recognition in self.recognitions:
            recognition.set_memory(memory if memory < ALLOWANCE else ALLOWANCE + 2 * (memory - ALLOWANCE) // 3)

    def work(self, number: int, batches: Sequence[EventBatch], rows: RowStore | None) -> Work:
        """Do a feed, and give its matches. If it does not come to its end, the feed is not done."""
        recognitions = self._begin(number, batches)
        for batch in self._batches(batches, rows):
            yield from rounds(recognitions, batch, flush=batch is batches[-1])
        self._end(number)

    def _batches(self, batches: Sequence[EventBatch], rows: RowStore | None, first: int = 0) -> Iterator[EventBatch]:
        """The batches of a feed from the first on that is wanted, whose rows are kept."""
        for self._batch in range(first, len(batches)):
            batch = batches[self._batch]
            if rows is not None:
                rows.add(batch.data, self.recognitions[0].position)
            yield batch

    def count(self, number: int, batches: Sequence[EventBatch], rows: RowStore | None) -> list[int]:
        """Do a feed, and count each query's matches without finding them where that is possible."""
        recognitions = self._begin(number, batches)
        found = [0] * len(recognitions)
        for recognition in recognitions:
            recognition.mute(True, count=True)
        for batch in self._batches(batches, rows):
            for k, recognition in enumerate(recognitions):
                found[k] += sum(matches.num_rows for matches in recognition.feed(batch))
        for k, recognition in enumerate(recognitions):
            found[k] += sum(matches.num_rows for matches in recognition.flush()) + recognition.muted_count
            recognition.mute(False)
        self._end(number)
        return found

    def gather(
        self, number: int, batches: Sequence[EventBatch], rows: RowStore | None, aggregation: Aggregation, take: Take
    ) -> None:
        """Do a feed of one query, and add up its matches; `take` has the attributes of all that they may name."""
        (recognition,) = self._begin(number, batches)
        follow(aggregation, recognition, take)
        for batch in self._batches(batches, rows):
            for _ in recognition.feed(batch):
                pass
        for _ in recognition.flush():
            pass
        leave(recognition)
        self._end(number)

    def finish(self, number: int, batches: Sequence[EventBatch], rows: RowStore | None, work: Work) -> None:
        """Come to the end of a feed whose matches nobody wants any more; `work` may have begun it."""
        for _ in range(_FEW):
            if next(work, None) is None:
                return
        recognition = self.recognitions[0]  # of `work`, which makes it anew if an exception cut the feed short
        if recognition.enumerates or len(self.recognitions) > 1:
            for _ in work:
                pass
            return
        work.close()
        recognition.mute(True)
        for _ in recognition.resume():
            pass
        for batch in self._batches(batches, rows, self._batch + 1):
            for _ in recognition.feed(batch):
                pass
        recognition.mute(False)
        self._end(number)

    def states(self, number: int) -> list[State]:
        """The states after so many feeds."""
        recognitions = self.after(number)
        self._done = None
        states = [recognition.state() for recognition in recognitions]
        self._done = number
        return states

    def oldest_position(self, number: int) -> int:
        """No match from now on, after so many feeds, names an event before this position."""
        recognitions = self.after(number)
        self._done = None
        oldest = min(recognition.oldest_position() for recognition in recognitions)
        self._done = number
        return oldest

    def after(self, number: int) -> list[Recognition]:
        """The recognitions as they are after so many feeds: after the last one that is done, or one before it."""
        if self._done == number:
            return self.recognitions
        past, measures = self._past, self._counted()
        _log.info("recognition is made anew, from the state after feed %d", past.number)
        recognitions = self._made(past.states)
        for recognition in recognitions:
            recognition.mute(True)
        for entry in past.feeds[: number - past.number]:
            for batch in entry.batches:
                for recognition in recognitions:
                    for _ in recognition.feed(batch):
                        pass
            for recognition in recognitions:
                for _ in recognition.flush():
                    pass
        for recognition in recognitions:
            recognition.mute(False)
        self._recoveries += 1
        self._before.update({name: measures[name] for name in _COUNTED})
        self.recognitions = recognitions
        self._position = recognitions[0].position
        self._done = number
        return recognitions

    def _made(self, states: list[State] | None) -> list[Recognition]:
        recognitions = [recognise(bound) for bound in self._bounds]
        for recognition, state in zip(recognitions, states or (), strict=states is not None):
            recognition.restore(*state)
        return recognitions

    def _begin(self, number: int, batches: Sequence[EventBatch]) -> list[Recognition]:
        recognitions = self.after(number)
        self._done = None
        del self._past.feeds[number - self._past.number :]  # of a feed that was not done, or is done again
        if self._past.bytes > self._limit:
            self._past = _Past([recognition.state() for recognition in recognitions], number)
            self._limit = self._past.limit
        kept = [self._shortened(batch) for batch in batches]
        size = sum(self._size(batch.data) for batch in kept)
        self._past.feeds.append(_Entry(kept, self._past.bytes + size))
        self._batch = 0
        return recognitions

    def _shortened(self, batch: EventBatch) -> EventBatch:
        """The columns of a batch that recognition needs, where nobody else keeps the others."""
        batch = batch._replace(times=None)  # they can be read again
        if self._needed is None:
            return batch
        names = [name for name in batch.data.schema.names if name in self._needed]
        return batch._replace(data=batch.data.select(names))

    def _size(self, data: pa.RecordBatch) -> int:
        """The bytes of a batch. To ask Arrow takes long, so small batches are taken to be like others."""
        rows = data.num_rows
        if rows >= MANY or self._unmeasured == 0:
            self._row_bytes = data.nbytes / rows if rows else 0.0
            self._unmeasured = MANY
        self._unmeasured -= 1
        return int(rows * self._row_bytes) + _OBJECT

    def _end(self, number: int) -> None:
        self._position = self.recognitions[0].position
        self._done = number + 1
