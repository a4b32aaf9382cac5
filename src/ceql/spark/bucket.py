"""A hash bucket of a streaming query: the rows that wait for the watermark, and one recogniser over its keys.

A micro-batch brings a bucket's rows in any order. Rows at or before the watermark are late. The others wait until the
watermark has passed them, and then go to the recogniser in order of time, so that the matches do not depend on how rows
arrive. The recogniser is that of a query, or of several over the same rows. One blob carries the bucket from a
micro-batch to the next: a snapshot like a recogniser's.

With `now`, no row waits: a row goes to the recogniser if it is not behind the last one of its key (`key_clocks`). Keys
may be at different times then, so that windows of time are measured by key (`shipped_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.errors import DataError
from ceql.io.schemas import take_rows
from ceql.io.sort_keys import encode
from ceql.jit import Array
from ceql.recognition import snapshot
from ceql.recognition.changes import Changes
from ceql.recognition.snapshot import schema_from_text, schema_to_text
from ceql.spark.carried_over import adapted, check_columns, in_utc
from ceql.spark.key_clocks import KeyClocks
from ceql.spark.task_recognizer import NO_TIME, TaskRecognizer
from ceql.spark.task_spec import TIME, Specs, TaskSpec, own_name
from ceql.syntax import tree as t

KIND = "spark bucket"
LAYOUT = 4
"""Of checkpoints: how keys are divided among buckets, and what columns are called."""


@dataclass(frozen=True)
class CheckpointTerms:
    """The terms of a checkpoint: what must not change between two runs from it."""

    fingerprint: str
    query: str
    buckets: int
    type: str | None
    time: str | None
    order_by: tuple[str, ...]
    shown: tuple[str, ...]
    order: tuple[str, ...]
    """The shipped columns that put rows in order; they follow from the rest."""
    now: bool = False
    """Whether events are recognised as they come."""
    queries: tuple[tuple[str, str, str], ...] = ()
    """Of a set: the name of each query, its fingerprint, and that of its states; `fingerprint` is that of the whole."""
    columns: tuple[str, ...] = ()
    """The columns of the events."""
    ids: bool = False
    """Whether events are shown by their ids."""
    strict: bool = False
    """Whether another set of queries is refused."""


class Bucket:
    """The state of one bucket."""

    def __init__(self, spec: Specs, terms: CheckpointTerms) -> None:
        self._spec = spec
        self._terms = terms
        self._recognizer: TaskRecognizer | None = None
        self._schema: pa.Schema | None = None  # of shipped rows, as they first were
        self._waiting: pa.RecordBatch | None = None
        self.late: list[pa.RecordBatch] = []
        """The rows of the last micro-batch that came too late."""
        self._clocks = KeyClocks(spec.first.key_columns) if terms.now else None
        self._newest: int | None = None  # the latest time, where there are clocks
        self.rejects = False
        """Whether events without a time are set aside, in `rejected`, and are no error."""
        self.rejected: list[pa.RecordBatch] = []

    @property
    def first(self) -> TaskSpec:
        """A query that says how rows are read."""
        return self._spec.first

    # --- a micro-batch ---

    def step(self, arrived: Sequence[pa.RecordBatch], watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Take a micro-batch's rows in and recognise what the watermark (in microseconds; None before the first)
        releases. Rows that come too late are left in `late`."""
        rows = [self._sound(self._conform(batch)) for batch in arrived if batch.num_rows]
        self.late = []
        if watermark is not None:
            rows = [self._on_time(batch, watermark) for batch in rows]
        if self._waiting is not None:
            rows.insert(0, self._waiting)
        if not rows:
            yield from self._compact(watermark)
            return
        everything = pa.concat_batches(rows)
        released = self._released(everything, watermark)
        ready = take_rows(everything, pa.array(np.flatnonzero(released)))
        rest = everything if not ready.num_rows else take_rows(everything, pa.array(np.flatnonzero(~released)))
        self._waiting = rest if rest.num_rows else None
        if ready.num_rows:
            order = [(name, "ascending") for name in self._terms.order]
            for batch in pa.table(ready).sort_by(order).combine_chunks().to_batches():
                yield from self._recognise(self._in_key_order(batch))
        yield from self._compact(watermark)

    def _released(self, rows: pa.RecordBatch, watermark: int | None) -> Array:
        """Which rows wait no longer."""
        if self._clocks is not None:
            return np.ones(rows.num_rows, bool)
        return _times(rows) <= watermark if watermark is not None else np.zeros(rows.num_rows, bool)

    def _in_key_order(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows in order of time, without those that are behind the last event of their key."""
        if self._clocks is None:
            return batch
        kept, late = self._clocks.split(batch)
        self.late += [late] if late.num_rows else []
        return kept

    def replay(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Recognise rows of history, which come in order of time; `step` with the watermark ends it."""
        yield from self._recognise(self._in_key_order(self._conform(rows)))

    def _recognise(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The matches that events in order of time bring about."""
        yield from self._at_work(batch.schema).feed(batch)

    def _at_work(self, schema: pa.Schema) -> TaskRecognizer:
        if self._recognizer is None:
            self._recognizer = TaskRecognizer(self._spec, schema)
        return self._recognizer

    def _reject(self, rows: pa.RecordBatch) -> None:
        """Set rows aside that make no sense."""
        self.rejected.append(rows)
        self._at_work(rows.schema).reject(rows)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The matches that are left, once no rows will come."""
        if self._waiting is not None:
            yield from self.step([], int(_times(self._waiting).max()))
        if self._recognizer is not None:
            yield from self._recognizer.finish()

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the very columns that the first ones had: a session's time zone may change."""
        if self._schema is None:
            self._schema = batch.schema
        if batch.schema.equals(self._schema):
            return batch
        if in_utc(batch.schema) != in_utc(self._schema):
            raise DataError(f"the checkpoint's events do not go with those that come: {_CHANGED}; {_AGAIN}")
        columns = [column.cast(field.type) for column, field in zip(batch.columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _sound(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have a time, if others are no error."""
        times = batch.column(batch.schema.get_field_index(TIME))
        if not self.rejects or not times.null_count:
            return batch
        none = times.is_null().to_numpy(zero_copy_only=False)
        self._reject(take_rows(batch, pa.array(np.flatnonzero(none))))
        return take_rows(batch, pa.array(np.flatnonzero(~none)))

    def _on_time(self, batch: pa.RecordBatch, watermark: int) -> pa.RecordBatch:
        late = _times(batch) <= watermark
        if not late.any():
            return batch
        self.late.append(take_rows(batch, pa.array(np.flatnonzero(late))))
        return take_rows(batch, pa.array(np.flatnonzero(~late)))

    def _compact(self, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Forget what the window has left, and the rows that no match can name."""
        if self._recognizer is not None:
            yield from self._recognizer.compact(watermark)
        if self._clocks is not None and watermark is not None:
            self._clocks.forget(watermark)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and no match is under way: such a bucket need not be kept."""
        known = self._clocks is not None and self._clocks.known is not None
        return self._waiting is None and not known and (self._recognizer is None or self._recognizer.is_idle)

    @property
    def groups(self) -> int:
        """Substreams that are remembered."""
        return 0 if self._recognizer is None else self._recognizer.groups

    def by_rule(self) -> dict[str, dict[str, int]]:
        """What each query did and holds, by name; its bytes after `to_bytes`."""
        return {} if self._recognizer is None else self._recognizer.by_rule()

    @property
    def wakes_at(self) -> int | None:
        """The watermark (in microseconds) from which there is something to do without new rows."""
        if self._waiting is not None:
            return int(_times(self._waiting).min())
        if self._clocks is not None:
            return self._clock_ends_at
        return self._recognizer.expires_at if self._recognizer is not None else None

    @property
    def _clock_ends_at(self) -> int | None:
        """The watermark from which nothing is remembered of the events so far, unless more come; None if never."""
        assert self._clocks is not None
        windows = [one.plan.query.window for one in self._spec.specs]
        timed = [window for window in windows if isinstance(window, t.AttributeWindow)]
        over = [window.size for window in timed if window.attribute == own_name(TIME)]
        self._newest = self._clocks.newest if self._clocks.newest is not None else self._newest
        if self._newest is None:
            return None
        return self._newest + (0 if self._clocks.known is not None else max(over, default=0)) + 1

    # --- state ---

    def to_bytes(self) -> bytes:
        """The state as a blob."""
        header = _header(self._terms) | {
            "exact": list(self._spec.first.exact),
            "schema": schema_to_text(self._schema) if self._schema is not None else None,
            "shard": None,
        }
        arrays: dict[str, Array] = {}
        tables: dict[str, Sequence[pa.RecordBatch]] = {}
        if self._clocks is not None:
            header["newest"] = self._newest
            if self._clocks.known is not None:
                tables["clocks"] = [self._clocks.known]
        if self._waiting is not None:
            tables["waiting"] = [self._waiting]
        if self._recognizer is not None:
            header["shard"], arrays, own = self._recognizer.state()
            tables.update(own)
        return snapshot.write(header, arrays, tables, narrow=True)

    @classmethod
    def from_bytes(cls, blob: bytes, spec: Specs, terms: CheckpointTerms) -> Bucket:
        """Go on from a blob; `DataError` says why when it is of another query or division."""
        self = cls(spec, terms)
        self.load(blob)
        return self

    def load(self, blob: bytes) -> None:
        """Go on from a blob."""
        spec = self._spec
        header, arrays, tables = snapshot.read(blob)
        with snapshot.guarded():
            if header.get("kind") != KIND:
                raise DataError("the checkpoint's state is not that of a streaming query of ceql")
            changes = _check(header, self._terms)
            if header["schema"] is not None:
                self._schema = schema_from_text(header["schema"])
                if spec.first.shipped:
                    self._schema = _adopt(self._schema, schema_from_text(spec.first.shipped), spec)
            if "waiting" in tables:
                assert self._schema is not None
                self._waiting = adapted(tables["waiting"][0], self._schema)
                if header["exact"] != list(spec.first.exact):
                    raise DataError(
                        f"events wait in the checkpoint that were prepared in another way: {_CHANGED}; {_AGAIN}"
                    )
            if self._clocks is not None:
                self._newest = header["newest"]
                self._clocks.known = tables["clocks"][0] if "clocks" in tables else None
            if header["shard"] is not None:
                assert self._schema is not None
                self._recognizer = TaskRecognizer(spec, self._schema)
                self._recognizer.restore(header["shard"], arrays, tables, self._going_on(changes))

    def _going_on(self, changes: Changes | None) -> frozenset[str] | None:
        """The queries that go on with what a blob has of them; None if all do."""
        return None if changes is None else changes.kept


def _adopt(before: pa.Schema, now: pa.Schema, spec: Specs) -> pa.Schema:
    """The columns to go on with: those from before, unless there are others now than the time zone makes them."""
    if in_utc(before) == in_utc(now):
        return before
    check_columns(before, now, spec.first, spec.deciding)
    return now


def sealed(terms: CheckpointTerms) -> bytes:
    """The state of a bucket without rows, which has the terms of the checkpoint."""
    return snapshot.write(_header(terms), {}, {}, narrow=True)


def _header(terms: CheckpointTerms) -> dict[str, Any]:
    return {
        "kind": KIND,
        "layout": LAYOUT,
        "query": terms.fingerprint,
        "text": terms.query,
        "queries": [list(query) for query in terms.queries],
        "buckets": terms.buckets,
        "now": terms.now,
        "type": terms.type,
        "time": terms.time,
        "order_by": list(terms.order_by),
        "shown": list(terms.shown),
        "columns": list(terms.columns),
        "ids": terms.ids,
    }


def changes_since(blob: bytes, terms: CheckpointTerms) -> Changes | None:
    """What became of the queries of a set since a state was written; None if nothing did."""
    header, _, _ = snapshot.read(blob)
    with snapshot.guarded():
        return _check(header, terms)


_AGAIN = "start it with a new checkpointLocation, or run what it was begun with"
_CHANGED = "columns had other types when the checkpoint was made, or another version of ceql made it"


def _check(header: dict[str, Any], terms: CheckpointTerms) -> Changes | None:
    """Refuse a state that does not fit; what changed, if it is that of another set of queries."""
    if header.get("layout") != LAYOUT:
        raise DataError(
            f"the checkpoint was made by an earlier version of ceql, which kept its states in another way; {_AGAIN}"
        )
    changes: Changes | None = None
    if header["query"] != terms.fingerprint and terms.queries and header.get("queries"):
        changes = Changes.between(header["queries"], terms.queries)
        if terms.strict:
            raise DataError(
                f"the checkpoint was made by another set of queries: {changes}; leave out strict=True, or {_AGAIN}"
            )
    elif header["query"] != terms.fingerprint:
        raise DataError(
            f"the checkpoint was made by another query; {_AGAIN}. It was begun with:\n{header['text']}\n"
            f"and is now asked for:\n{terms.query}"
        )
    if header["buckets"] != terms.buckets:
        raise DataError(
            f"the checkpoint has its keys in {header['buckets']} buckets, not in {terms.buckets}: "
            f"pass buckets={header['buckets']}, or {_AGAIN}"
        )
    if header.get("now", False) != terms.now:
        was, asked = ("now" if one else "watermark" for one in (header.get("now", False), terms.now))
        raise DataError(f"the checkpoint was made with emit={was!r}, not with emit={asked!r}; {_AGAIN}")
    for name, now in (("type", terms.type), ("time", terms.time), ("order_by", list(terms.order_by))):
        if header[name] != now:
            raise DataError(f"the checkpoint was made with {name}={header[name]!r}, not with {name}={now!r}; {_AGAIN}")
    unkept = [name for name in terms.shown if name not in header["shown"] and name in header["columns"]]
    if header["ids"] != terms.ids or unkept:
        raise DataError(
            f"the checkpoint's events have the columns {', '.join(header['shown'])}, "
            f"and the stream's now {', '.join(terms.shown)}; {_AGAIN}"
        )
    return changes


def _times(batch: pa.RecordBatch) -> Array:
    column = batch.column(batch.schema.get_field_index(TIME))
    if column.null_count:
        raise DataError(NO_TIME)
    return encode(column, TIME)
