"""A recognition that any exception may interrupt, at any line, without harm.

A feed changes the recognition in many steps, in arrays, tables and dicts. None of these steps is undone. Instead the
journal keeps a state in which the recognition once was whole, and the feeds since then. If an exception cuts a feed
short, a new recognition is made of that state, does those feeds again without looking for their matches, and is where
the old one was before the feed. A new state is taken when the feeds take more memory than the last state, so the cost
of copying it is spread over many events. The last feed can be done again until the next one begins.

`_done` is the only thing that says whether the recognition is whole, and it changes by a single assignment.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
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

LEAST_BYTES = 8 << 20  # of feeds, before a new state is taken
_OBJECT = 1024  # bytes that a batch takes besides its columns
MANY = 256  # rows of a batch that is measured, and batches until small ones are measured again
ALLOWANCE = 16 << 20  # bytes that no budget counts: small journals, buffers
_FEW = 4  # batches of matches that are dropped before it pays not to look for them

_COUNTED = ("nodes_reclaimed", "collections")
_log = logging.getLogger(__name__)

Work = Generator[pa.RecordBatch, None, None]


class _Entry(NamedTuple):
    """A feed that was done, and the bytes of all feeds up to it."""

    batches: Sequence[EventBatch]
    bytes: int


@dataclass(frozen=True)
class _Past:
    """The state before the feed `number` (None: before any event), and the feeds from there on."""

    state: State | None
    number: int
    feeds: list[_Entry] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The memory that the feeds take."""
        return self.feeds[-1].bytes if self.feeds else 0

    @cached_property
    def state_bytes(self) -> int:
        """The memory that the state takes."""
        if self.state is None:
            return 0
        _, arrays, tables = self.state
        size = sum(int(array.nbytes) for array in arrays.values())
        return size + sum(int(table.get_total_buffer_size()) for table in tables.values())

    @property
    def limit(self) -> int:
        """The memory that the feeds may take."""
        return max(LEAST_BYTES, self.state_bytes)


class Journal:
    """A recognition, and what it takes to make it again. Feeds are numbered; the first is 0."""

    def __init__(self, bound: BoundPlan, keep_rows: bool, state: State | None = None) -> None:
        self._bound = bound
        self._needed = None if keep_rows else set(bound.needed_columns())
        self._past = _Past(state, 0)
        self._limit = self._past.limit
        self._recognition = self._made(state)
        self._done: int | None = 0  # how many feeds the recognition has done; None: an exception may have cut one short
        self._position = self._recognition.position
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
        """The memory of the state from which recognition could be made anew."""
        return self._past.state_bytes

    def measures(self) -> dict[str, int]:
        """Metrics by name."""
        found = self._recognition.measures()
        lost = {name: found[name] + count for name, count in self._before.items()}
        journal = self.feeds_bytes + self.state_bytes
        return found | lost | {"recoveries": self._recoveries, "memory_journal": journal}

    @property
    def recognition(self) -> Recognition:
        """The recognition, to be looked at; it may be in the middle of a feed."""
        return self._recognition

    @property
    def position(self) -> int:
        """How many events the feeds that are done had."""
        return self._position

    def set_memory(self, memory: int) -> None:
        """Change the budget of the graph."""
        self._bound = replace(self._bound, options=replace(self._bound.options, memory=memory))
        self._recognition.set_memory(memory)

    def leave_room(self, memory: int) -> None:
        """Let the graph, and the state that is a copy of it, have so much of the budget."""
        self._recognition.set_memory(memory if memory < ALLOWANCE else ALLOWANCE + 2 * (memory - ALLOWANCE) // 3)

    def work(self, number: int, batches: Sequence[EventBatch], rows: RowStore | None) -> Work:
        """Do a feed, and give its matches. If it does not come to its end, the feed is not done."""
        recognition = self._begin(number, batches)
        for k, batch in enumerate(batches):
            self._batch = k
            if rows is not None:
                rows.add(batch.data, recognition.position)
            yield from recognition.feed(batch)
        yield from recognition.flush()
        self._end(number)

    def begin(self, number: int, batches: Sequence[EventBatch]) -> Callable[[EventBatch], Iterator[pa.RecordBatch]]:
        """Begin a feed whose batches are given one after the other, by way of what this returns: with each batch, its
        matches. `end` is called after the last of them; otherwise the feed is not done."""
        recognition = self._begin(number, batches)

        def work(batch: EventBatch) -> Iterator[pa.RecordBatch]:
            yield from recognition.feed(batch)
            yield from recognition.flush()

        return work

    def end(self, number: int) -> None:
        """Say that the feed that was begun is done."""
        self._end(number)

    def count(self, number: int, batches: Sequence[EventBatch], rows: RowStore | None) -> int:
        """Do a feed, and count its matches without finding them where that is possible."""
        recognition = self._begin(number, batches)
        found: int = 0
        recognition.mute(True, count=True)
        for batch in batches:
            if rows is not None:
                rows.add(batch.data, recognition.position)
            found += sum(matches.num_rows for matches in recognition.feed(batch))
        found += sum(matches.num_rows for matches in recognition.flush()) + recognition.muted_count
        recognition.mute(False)
        self._end(number)
        return found

    def gather(
        self, number: int, batches: Sequence[EventBatch], rows: RowStore | None, aggregation: Aggregation, take: Take
    ) -> None:
        """Do a feed, and add up its matches; `take` has the attributes of all events that they may name."""
        recognition = self._begin(number, batches)
        follow(aggregation, recognition, take)
        for batch in batches:
            if rows is not None:
                rows.add(batch.data, recognition.position)
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
        recognition = self._recognition  # of `work`, which makes it anew if an exception cut the feed short
        if recognition.enumerates:
            for _ in work:
                pass
            return
        work.close()
        recognition.mute(True)
        for _ in recognition.resume():
            pass
        for batch in batches[self._batch + 1 :]:
            if rows is not None:
                rows.add(batch.data, recognition.position)
            for _ in recognition.feed(batch):
                pass
        recognition.mute(False)
        self._end(number)

    def state(self, number: int) -> State:
        """The state after so many feeds."""
        recognition = self.after(number)
        self._done = None
        state = recognition.state()
        self._done = number
        return state

    def oldest_position(self, number: int) -> int:
        """No match from now on, after so many feeds, names an event before this position."""
        recognition = self.after(number)
        self._done = None
        oldest = recognition.oldest_position()
        self._done = number
        return oldest

    def after(self, number: int) -> Recognition:
        """The recognition as it is after so many feeds: after the last one that is done, or one before it."""
        if self._done == number:
            return self._recognition
        past, measures = self._past, self._recognition.measures()
        _log.info("recognition is made anew, from the state after feed %d", past.number)
        recognition = self._made(past.state)
        recognition.mute(True)
        for entry in past.feeds[: number - past.number]:
            for batch in entry.batches:
                for _ in recognition.feed(batch):
                    pass
            for _ in recognition.flush():
                pass
        recognition.mute(False)
        self._recoveries += 1
        self._before.update({name: measures[name] for name in _COUNTED})
        self._recognition = recognition
        self._position = recognition.position
        self._done = number
        return recognition

    def _made(self, state: State | None) -> Recognition:
        recognition = recognise(self._bound)
        if state is not None:
            recognition.restore(*state)
        return recognition

    def _begin(self, number: int, batches: Sequence[EventBatch]) -> Recognition:
        recognition = self.after(number)
        self._done = None
        del self._past.feeds[number - self._past.number :]  # of a feed that was not done, or is done again
        if self._past.bytes > self._limit:
            self._past = _Past(recognition.state(), number)
            self._limit = self._past.limit
        kept = [self._shortened(batch) for batch in batches]
        size = sum(self._size(batch.data) for batch in kept)
        self._past.feeds.append(_Entry(kept, self._past.bytes + size))
        self._batch = 0
        return recognition

    def _shortened(self, batch: EventBatch) -> EventBatch:
        """The columns of a batch that recognition needs, where nobody else keeps the others."""
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
        self._position = self._recognition.position
        self._done = number + 1
