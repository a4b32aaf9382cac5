"""A run of a query over data, in a thread: it can be looked at while it goes on, and cancelled.

The events are fed to a recogniser in slices that take a fraction of a second each, so that a run notices soon that it
is to stop. The run of live data waits for more events. Matches are kept up to a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pyarrow as pa

from ceql.errors import CeqlError
from ceql.jit import told
from ceql.query import Query
from ceql.recognizer import Recognizer
from ceql.results.matches import Matches
from ceql.studio.data import Data
from ceql.studio.limited import Watched
from ceql.studio.streams import to_input

MOST_MATCHES = 1_000_000
MOST_BYTES = 1 << 28
_MEMORY = 1 << 30  # of the recogniser
_FIRST_SLICE, _LARGEST_SLICE = 1 << 12, 1 << 17
_STREAM_ROWS = 1 << 14  # of each of several streams at a time
_BRIEF = 0.05  # seconds that a slice should take
_LOOK = 0.25  # seconds to wait for events before looking whether to stop


class Stopped(CeqlError):
    """A run that ended before its events did."""


class Run:
    """One run. `state` is running, done, cancelled, stopped (by a limit) or failed; `problem` says why."""

    def __init__(self, id: str, query: Query, data: Data, seconds: float) -> None:
        self.id = id
        self.query = query
        self.data = data
        self.state = "running"
        self.problem: str | None = None
        self.found: list[pa.RecordBatch] = []
        self.events = self.matches = 0
        self._bytes = 0
        self._limit = seconds
        self._worked = 0.0
        self._begun: float | None = None  # when the slice at hand was begun
        self._loading: tuple[int, float] | None = None  # the first slice: its events, and the seconds that it took
        self._cancel = threading.Event()
        self._recognizer: Recognizer | None = None
        self._table: tuple[int, pa.Table] | None = None
        self._thread = threading.Thread(target=self._go, daemon=True, name=f"ceql-run-{id}")

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Stop as soon as the slice at hand is done."""
        self._cancel.set()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the run has ended, or for so long."""
        self._thread.join(seconds)

    @property
    def table(self) -> pa.Table:
        """The matches that are found so far."""
        batches = list(self.found)
        if self._table is None or self._table[0] != len(batches):
            self._table = len(batches), pa.Table.from_batches(batches, batches[0].schema if batches else self._schema())
        return self._table[1]

    def _schema(self) -> pa.Schema:
        empty = to_input(self.data, lambda table, _: table.slice(0, 0))
        return self.query.run(empty, **self.data.columns.options).schema

    def status(self) -> dict[str, Any]:
        """The counters, as the page shows them."""
        recognizer = self._recognizer
        metrics = recognizer.metrics() if recognizer is not None else None
        return {
            "id": self.id,
            "state": self.state,
            "problem": self.problem,
            "events": self.events,
            "total": self.data.rows,
            "live": self.data.live,
            "late": self.data.late,
            "matches": self.matches,
            "rate": self._rate(),
            "memory": metrics.memory_used if metrics is not None else 0,
            "partitions": metrics.partitions if metrics is not None else 0,
            "compiling": told.now() if self.state == "running" else "",
        }

    @property
    def _seconds(self) -> float:
        """The time that was spent on events, without waiting for them."""
        return self._worked + (monotonic() - self._begun if self._begun is not None else 0.0)

    def _rate(self) -> float:
        """Events for each second of work, after the first slice, for which the engine is compiled or loaded."""
        if self._loading is None or self.events == self._loading[0]:
            return 0.0
        events, seconds = self._loading
        return (self.events - events) / max(self._seconds - seconds, 1e-6)

    def _go(self) -> None:
        try:
            self._recognise()
            self.state = "done"
        except Stopped as error:
            self.state, self.problem = ("cancelled" if self._cancel.is_set() else "stopped"), str(error)
        except CeqlError as error:
            self.state, self.problem = "failed", str(error)
        except MemoryError:
            self.state, self.problem = "failed", "there is not enough memory for this query over these events"
        except Exception as error:  # a thread that dies in silence would look like a run without end
            self.state, self.problem = "failed", f"a bug in ceql: {type(error).__name__}: {error}"

    def _recognise(self) -> None:
        if self.data.parts:
            self._begun = monotonic()
            sources = to_input(self.data, lambda table, name: Watched(table, name, self._pass, _STREAM_ROWS))
            self._take(self.query.run(sources, **self.data.columns.options, memory=_MEMORY))
            self._worked, self._begun = self._seconds, None
            return
        for piece in self._slices():
            self._begun = monotonic()
            self.events += piece.num_rows
            if self._recognizer is None:  # of live data, the first events tell the columns
                options = self.data.columns.options
                self._recognizer = self.query.recognizer(**options, memory=_MEMORY, keep_rows=False)
            self._take(self._recognizer.feed(piece))
            self._worked, self._begun = self._seconds, None
            if self._loading is None:
                self._loading = self.events, self._worked
        if self._recognizer is not None:
            self._take(self._recognizer.finish())

    def _pass(self, events: int) -> None:
        """Another batch of one of several streams is read."""
        self._check()
        self.events += events
        self._worked, self._begun = self._seconds, monotonic()
        if self._loading is None:
            self._loading = self.events, self._worked

    def _slices(self) -> Iterator[pa.RecordBatch]:
        """The events in slices; more of them the less time they take. Of live data, as they come."""
        data, number, size = self.data, 0, _FIRST_SLICE
        while True:
            with data.changed:
                while number == len(data.batches):
                    if not data.live:
                        return
                    self._check()
                    data.changed.wait(_LOOK)
            batch, at = data.batches[number], 0
            while at < batch.num_rows:
                self._check()
                before = self._worked
                yield batch.slice(at, size)
                at += size
                brief = self._worked - before < _BRIEF
                size = min(2 * size, _LARGEST_SLICE) if brief else max(size // 2, 64)
            number += 1

    def _take(self, matches: Matches) -> None:
        for batch in matches.to_batches():
            if not batch.num_rows:
                continue
            room = MOST_MATCHES - self.matches
            if batch.num_rows > room or self._bytes > MOST_BYTES:
                self._add(batch.slice(0, room))
                raise Stopped(f"stopped after {self.matches:,} matches; LIMIT, a strategy or WITHIN make them fewer")
            self._add(batch)
            self._check()

    def _add(self, batch: pa.RecordBatch) -> None:
        self.found.append(batch)
        self.matches += batch.num_rows
        self._bytes += batch.nbytes

    def _check(self) -> None:
        if self._cancel.is_set():
            raise Stopped(f"cancelled after {self.events:,} events")
        if self._seconds > self._limit:
            raise Stopped(f"stopped after {self._limit:g} seconds, the limit of a run (--time-limit)")
