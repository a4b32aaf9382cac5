"""Streaming: the same recognition, carried from micro-batch to micro-batch in Spark's state store.

    rows ─► pack ─► shuffle by bucket ─► step (state: one blob per bucket) ─► unpack ─► matches

Spark's price is per row and per key, so there are few of both. `pack` turns an Arrow batch into one IPC blob for each
bucket, so that a row of the shuffle is thousands of events. A state belongs to a hash bucket of keys. Matches leave the
stateful step as blobs, too, which `unpack` opens. A row of the step is of a kind (`extras`); one of none has counts
(`task_metrics`).
Queries of a set that divide their events in the same way share rows and buckets; all of them go through one step.

The stateful step defines lateness itself: a row is late if its time is at or before the watermark. The step counts late
rows and can hand them out, where Spark would drop them unseen. So the packed rows have NULL for their event time, which
is never late to Spark. The watermark itself comes from the user's own `withWatermark`, upstream.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from ceql.errors import DataError
from ceql.io.soundness import check
from ceql.jit.told import since_last
from ceql.recognition.snapshot import to_ipc
from ceql.spark.bucket import Bucket, CheckpointTerms, changes_since, sealed
from ceql.spark.extras import KIND, LATE, MATCHES, REJECTED, Extras, late_events, placed, rejected_events
from ceql.spark.guard_columns import quoted
from ceql.spark.packing import BLOB, BUCKET, DATA, ROWS, SEAL, packed
from ceql.spark.prepare import WATERMARK, Prepared
from ceql.spark.result_types import arrow_types
from ceql.spark.stream_job import StreamJob, spec_of
from ceql.spark.streaming_checks import refusing, tell_if_held_back
from ceql.spark.task_metrics import BY_BUCKET, Counts, observed_name, sums
from ceql.spark.task_report import Task, TaskLog, hear, settle
from ceql.spark.task_spec import Specs
from ceql.spark.worker_errors import message_alone

STEPPED = StructType([StructField(KIND, IntegerType()), *BLOB])
STATE = StructType([StructField("state", BinaryType())])
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STORE = "spark.sql.streaming.stateStore.providerClass"
_DEFAULT_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_TIMES = ["start_time", "end_time"]
_log = logging.getLogger("ceql")


@dataclass(frozen=True)
class Seed:
    """What a stream begins with: states by bucket, as `state_of` makes them, and the time up to which they go."""

    states: DataFrame
    """The columns `bucket` and `state`."""
    until: datetime


def stream(job: StreamJob, delay: int, extras: Extras, seed: Seed | None = None) -> DataFrame:
    """The streaming DataFrame of matches; `delay` is the watermark's, in milliseconds."""
    if (number := tasks(job.groups[0].carrier)) > 2 * job.buckets + 2:
        _log.warning(
            "spark.sql.shuffle.partitions is %d: every micro-batch has as many tasks, though there are %d states; set "
            "it to the number of cores before the query first starts (its checkpoint keeps the number)",
            number,
            job.buckets,
        )
    blobs = packed(job, delay, seed.until if seed is not None else None)
    stepped_blobs = stepped(blobs, _processor(job, extras), seed)
    return refusing(opened(stepped_blobs, job, extras, None if job.waits else delay), job.waits)


def _processor(job: StreamJob, extras: Extras) -> BucketProcessor:
    kinds, fails = frozenset(extras.columns), extras.on_bad == "fail"
    if job.ruling is None:
        return BucketProcessor(job.specs, job.terms, kinds, fails)
    from ceql.spark.ruled_step import RuledProcessor  # it is a BucketProcessor

    return RuledProcessor(job.ruling, job.identities, job.terms, kinds, fails)


def tasks(prepared: Prepared) -> int:
    """How many tasks the stateful step of a new query has in every micro-batch, with rows or without."""
    return int(prepared.frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


class Step(Protocol):
    """A stateful step, with the names of its states."""

    states: tuple[str, ...]


def stepped(blobs: DataFrame, processor: Step, seed: Seed | None = None) -> DataFrame:
    """The stateful step, which begins with a seed's states."""
    use_rocksdb(blobs.sparkSession)
    states = seed.states.groupBy(BUCKET) if seed is not None else None
    return blobs.groupBy(BUCKET).transformWithState(loaded_late(processor), STEPPED, "append", "EventTime", states)


def opened(blobs: DataFrame, job: StreamJob, extras: Extras, delay: int | None = None) -> DataFrame:
    """The matches (and what else is wanted) of the stateful step, counted and opened; with `delay`, `end_time` carries
    the watermark, so that operators behind can go by it.

    Spark's operators take a row as late if its time is not behind the watermark of the micro-batch before. A match that
    its last event decides ends between that watermark and the present one.
    """

    def rows(kind: int, name: str) -> Column:
        return F.coalesce(F.sum(F.when(F.col(KIND) == kind, F.col(ROWS))), F.lit(0)).alias(name)

    counted = blobs.observe(
        observed_name(extras.observe),
        rows(LATE, "late_rows"),
        rows(REJECTED, "rejected_rows"),
        rows(MATCHES, "matches"),
        *sums(F.when(F.col(KIND).isNull(), F.col(DATA).cast("string"))),
        F.array_agg(F.when(F.col(KIND).isNull(), F.col(DATA).cast("string"))).alias(BY_BUCKET),
    )
    schema = StructType([*job.schema.fields, *extras.fields(job.schema.names, job.event_type)])
    found = counted.mapInArrow(unpacker(schema, tuple(extras.columns)), schema)
    if delay is None:
        return found
    end = _end_time(job.schema.names)  # a schema's own metadata does not get through mapInArrow
    return found.withColumn(end, F.col(quoted(end)).alias(end, metadata={WATERMARK: delay}))


def _end_time(names: list[str]) -> str:
    """The column `end_time`, which has underscores at its end if a key is called so."""
    return next(name for before, name in pairwise(names) if [_plain(before), _plain(name)] == _TIMES)


def _plain(name: str) -> str:
    return name.rstrip("_").lower()


def use_rocksdb(session: SparkSession) -> None:
    """Let new streaming queries of the session keep their state in RocksDB, as transformWithState needs.

    Only where nobody has chosen a store: queries that have a checkpoint keep theirs. Unless somebody has chosen how it
    is checkpointed, what has changed is written after a micro-batch, not the whole store.
    """
    if session.conf.get(_STORE) == _DEFAULT_STORE:
        session.conf.set(_STORE, ROCKSDB)
    if session.conf.get(_CHANGES, "") == "":
        session.conf.set(_CHANGES, "true")


class BucketProcessor(StatefulProcessor):
    """The stateful step, as transformWithState calls it."""

    states: tuple[str, ...] = ("state",)

    def __init__(self, specs: Mapping[int, Specs], terms: CheckpointTerms, kinds: frozenset[int], fails: bool) -> None:
        self._specs = specs
        self._terms = terms
        self._kinds = kinds
        self._fails = fails
        self._log = TaskLog("step")
        self._total = Counts()

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.begin(handle, *(handle.getValueState(name, STATE) for name in self.states))

    def begin(self, handle: StatefulProcessorHandle, *states: ValueState) -> None:
        """Work with these states from now on."""
        hear()
        self._handle = handle
        self._state = states[0]

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        arrived = [row for row in rows if row[DATA] is not None]
        return self._seal(arrived) if key[0] == SEAL else self._run(key[0], arrived, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        return self._run(key[0], [], timerValues)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
        spec, blob = spec_of(key[0], self._specs, self._terms), bytes(initialState["state"])
        with message_alone():
            if spec is None:
                raise DataError("the seed is of queries with other keys: state_of() takes the queries of the stream")
            bucket = Bucket.from_bytes(blob, spec, self._terms)
        self._state.update((blob,))
        if (wakes := bucket.wakes_at) is not None:
            self._handle.registerTimer(max(-(-wakes // 1000), timerValues.getCurrentWatermarkInMs() + 1))

    def close(self) -> None:
        total = self._total
        self._log.say(
            f"{total.shipped:,} rows came, {total.relevant:,} events recognised, {total.groups:,} keys and "
            f"{total.state_bytes:,} bytes kept"
        )
        settle()

    def _seal(self, arrived: list[Row]) -> Iterator[Row]:
        """Set the terms of a new checkpoint; refuse to go on from a checkpoint with other terms."""
        before = self._state.get()
        with message_alone():
            changes = None if before is None else changes_since(bytes(before[0]), self._terms)
            if changes:
                _log.warning("the stream goes on with another set of queries: %s", changes)
            if before is None or changes:
                self._state.update((sealed(self._terms),))
        return iter(())

    def _run(self, bucket: int, arrived: list[Row], timers: TimerValues) -> Iterator[Row]:
        blob = self._kept()
        spec = spec_of(bucket, self._specs, self._terms)
        if spec is None or (blob is None and not arrived):  # no query is left of these keys, or nothing is to be done
            if blob is not None:
                self._state.clear()
            return
        yield from self._update(bucket, Bucket(spec, self._terms), blob, arrived, timers)

    def _kept(self) -> bytes | None:
        """The state of the bucket whose turn it is."""
        before = self._state.get()
        return bytes(before[0]) if before is not None else None

    def _update(
        self, number: int, bucket: Bucket, blob: bytes | None, arrived: list[Row], timers: TimerValues
    ) -> Iterator[Row]:
        with message_alone():
            update = BucketUpdate(bucket, self._kinds, blob, timers.getCurrentWatermarkInMs(), self._fails)
            for row in update.run([bytes(one[DATA]) for one in arrived]):
                yield step_row(*row)
        self._total += update.counts
        yield step_row(None, 0, update.counts.to_json(bucket=number, rules=update.rules).encode())
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if update.after is not None:
            if update.after != blob:
                self._state.update((update.after,))
            if update.wakes_at is not None:
                self._handle.registerTimer(update.wakes_at)
        elif blob is not None:
            self._state.clear()


def step_row(kind: int | None, rows: int, blob: bytes | None) -> Row:
    """A row of the step."""
    return Row(**dict(zip(STEPPED.names, (kind, rows, blob), strict=True)))


def loaded_late(processor: Step) -> StatefulProcessor:
    """The same step, which needs ceql from the first rows on only.

    Before a query's first micro-batch Spark starts a process that asks the step for its states and does nothing else.
    It would take a second to import ceql for that. So what it gets is a class that is sent whole, not by its name.
    """
    content, schema, names = pickle.dumps(processor), STATE, processor.states

    class LoadedLate(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._given = (handle, *(handle.getValueState(name, schema) for name in names))
            self._step: Any = None

        def step(self) -> Any:
            if self._step is None:
                self._step = pickle.loads(content)
                self._step.begin(*self._given)
            return self._step

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Any:
            return self.step().handleInputRows(key, rows, timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Any:
            return self.step().handleExpiredTimer(key, timerValues, expiredTimerInfo)

        def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
            self.step().handleInitialState(key, initialState, timerValues)

        def close(self) -> None:
            if self._step is not None:
                self._step.close()

    return LoadedLate()


class BucketUpdate:
    """What a micro-batch does to one bucket, whatever store keeps the bucket's state.

    `before` is the state to go on from. After `run`, `after` is the state to keep (None for nothing), and `wakes_at` is
    the watermark in milliseconds from which on the bucket has something to do without new rows.
    """

    def __init__(
        self, bucket: Bucket, kinds: frozenset[int], before: bytes | None, clock: int, fails: bool = True
    ) -> None:
        self._kinds = kinds
        self._clock = max(0, clock)
        self._bucket = bucket
        self._goes_on = before is not None
        bucket.rejects = not fails
        if before is not None:
            bucket.load(before)
        self.after: bytes | None = None
        self.wakes_at: int | None = None
        self.counts = Counts()
        self.rules: dict[str, dict[str, int]] = {}

    def run(self, arrived: list[bytes]) -> Iterator[tuple[int, int, bytes | None]]:
        """Rows of the step's result: their kind, how many there are, and the blob that holds them."""
        bucket = self._bucket
        watermark = self._clock * 1000 if self._clock > 0 else None  # 0: there is none yet
        batches = [batch for blob in arrived for batch in from_ipc(blob)]
        for found in bucket.step(batches, watermark):
            yield MATCHES, found.num_rows, to_ipc([found])
        if watermark is None and self._goes_on and (earliest := bucket.wakes_at) is not None:
            tell_if_held_back(earliest)
        for kind, rows, shown in ((LATE, bucket.late, late_events), (REJECTED, bucket.rejected, rejected_events)):
            if rows:
                count = sum(batch.num_rows for batch in rows)
                wanted = kind in self._kinds
                yield kind, count, to_ipc([shown(batch, bucket.first) for batch in rows]) if wanted else None
        if not bucket.is_empty:
            self.after = bucket.to_bytes()
            if (wakes := bucket.wakes_at) is not None:
                # a timer fires when the watermark reaches it; one that is due when it is set never does
                self.wakes_at = max(-(-wakes // 1000), self._clock + 1)
        shipped = sum(batch.num_rows for batch in batches)
        self.rules = bucket.by_rule()
        relevant = sum(own.get("events", 0) for own in self.rules.values())
        self.counts = Counts(shipped, relevant, bucket.groups, since_last(), len(self.after or b""))


def unpacker(schema: StructType, kinds: tuple[int, ...] = ()) -> Task:
    """The function that opens the blobs: rows of the result, whose last columns have rows of these kinds."""
    wanted = arrow_types(schema)

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for kind, blob in zip(batch.column(KIND).to_pylist(), batch.column(DATA).to_pylist(), strict=True):
                if kind is None or blob is None:  # counts, or what nobody wants
                    continue
                for found in from_ipc(blob):
                    yield placed(found, kind, kinds, wanted) if kinds else found

    return unpack


def from_ipc(blob: bytes) -> list[pa.RecordBatch]:
    """The batches of a blob."""
    return [check(batch) for batch in pa.ipc.open_stream(pa.py_buffer(blob))]
