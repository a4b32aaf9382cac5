"""Backfill, then live: the state of a batch over history, from which a stream goes on (`match(..., seed=)`).

History is cut into the buckets that the stream will have, and each is recognised in order of time up to `until`, as the
stream would have. A bucket leaves its matches and the blob that the stream would have kept, which becomes the initial
state of the stateful step. The stream leaves out events up to `until`: history had them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Unpack

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from ceql.errors import ArgumentError, DataError
from ceql.query import Query
from ceql.query_set import QuerySet
from ceql.recognition.options import spelt_out
from ceql.recognition.snapshot import to_ipc
from ceql.spark.api import stream_job
from ceql.spark.bucket import Bucket, CheckpointTerms
from ceql.spark.call_options import BUCKETS
from ceql.spark.extras import KIND, MATCHES
from ceql.spark.match_options import DEFAULTS, MatchOptions, read_match
from ceql.spark.packing import BUCKET, DATA, Packing, shipped_rows
from ceql.spark.prepare import Frames, check_order
from ceql.spark.stream_job import spec_of
from ceql.spark.streaming import Seed, unpacker
from ceql.spark.task_recognizer import larger
from ceql.spark.task_report import Task, reported
from ceql.spark.task_spec import TIME, Specs

_STATE = "state"
_FOUND = StructType(
    [StructField(BUCKET, IntegerType()), StructField(_STATE, BinaryType()), StructField(DATA, BinaryType())]
)
_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class History(Seed):
    """What a batch over history gives: a seed for the stream, and the matches so far."""

    matches: DataFrame
    """The matches that are decided at `until`. The stream gives all others, and none of these."""


@spelt_out(MatchOptions, DEFAULTS)
def state_of(
    df: Frames,
    query: str | Query | QuerySet | Mapping[str, str | Query],
    until: datetime | None = None,
    *,
    buckets: int = BUCKETS,
    emit: str = "watermark",
    **options: Unpack[MatchOptions],
) -> History:
    """The matches of history, and the state from which a stream goes on without a gap or a repeat.

        history = state_of(payments, query, time="time")
        history.matches.write.parquet("frauds/")
        match(stream, query, time="time", seed=history).writeStream...

    `until` is the time up to which history is complete: later events are left to the stream, which leaves out those up
    to it. By default it is the time of the last event of `df`, which takes a look at all times. The other arguments are
    those that `match` will have.
    """
    check_order("state_of", df, query)
    arguments = read_match(options)
    frames = list(df.values()) if isinstance(df, Mapping) else [df]
    if any(frame.isStreaming for frame in frames):
        raise ArgumentError("state_of() takes history as a batch; the stream goes to match(), with seed=")
    job = stream_job(df, query, arguments, buckets, emit=emit)
    shipped, divisions = shipped_rows(job)
    rows = [_in_buckets(shipped, division) for division in divisions]
    last = _micros(until) if until is not None else _newest(rows)
    found = []
    for number, (group, own) in enumerate(zip(job.groups, rows, strict=True)):
        kept = own.where(F.col(TIME).isNull() | (F.unix_micros(TIME) <= last))
        ordered = kept.repartition(job.buckets_of(number)[1], BUCKET).sortWithinPartitions(BUCKET, *group.carrier.order)
        found.append(ordered.mapInArrow(reported("history", _replaying(job.specs, job.terms, last)), _FOUND))
    whole = reduce(DataFrame.unionAll, found)
    blobs = whole.where(F.col(DATA).isNotNull()).select(F.lit(MATCHES).alias(KIND), DATA)
    matches = blobs.mapInArrow(unpacker(job.schema), job.schema)
    states = whole.where(F.col(_STATE).isNotNull()).select(BUCKET, _STATE)
    return History(states, _START + timedelta(microseconds=last), matches)


def _in_buckets(shipped: DataFrame, division: Packing) -> DataFrame:
    """The rows that a division takes, behind the numbers of their buckets."""
    bucket = F.col(division.bucket)
    columns = [F.col(column).alias(name) for column, name in division.columns]
    return shipped.where(bucket.isNotNull()).select(bucket.alias(BUCKET), *columns)


def _micros(until: datetime) -> int:
    if until.tzinfo is None:
        raise ArgumentError("until= needs a time zone: datetime(2024, 5, 1, tzinfo=UTC), for example")
    return (until - _START) // timedelta(microseconds=1)


def _newest(rows: list[DataFrame]) -> int:
    times = reduce(DataFrame.unionAll, [frame.select(F.unix_micros(TIME).alias("at")) for frame in rows])
    newest = times.agg(F.max("at")).first()
    if newest is None or newest[0] is None:
        raise DataError(
            "history has no event that the query looks at, so that it does not say until when it goes: pass until="
        )
    return int(newest[0])


def _replaying(specs: Mapping[int, Specs], terms: CheckpointTerms, until: int) -> Task:
    """The function that takes the rows of buckets, one bucket after another, and leaves their matches and states."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number, bucket = -1, None
        for batch in larger(batches):
            numbers = batch.column(0).to_numpy()
            starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
            rows = batch.select(batch.schema.names[1:])
            for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True):
                if bucket is None or numbers[start] != number:
                    yield from _closed(number, bucket, until)
                    number = int(numbers[start])
                    spec = spec_of(number, specs, terms)
                    assert spec is not None
                    bucket = Bucket(spec, terms)
                for found in bucket.replay(rows.slice(start, stop - start)):
                    yield _row(number, None, to_ipc([found]))
        yield from _closed(number, bucket, until)

    return run


def _closed(number: int, bucket: Bucket | None, until: int) -> Iterator[pa.RecordBatch]:
    """The last matches of a bucket's history, and its state."""
    if bucket is None:
        return
    for found in bucket.step([], until):
        yield _row(number, None, to_ipc([found]))
    if not bucket.is_empty:
        yield _row(number, bucket.to_bytes(), None)


def _row(number: int, state: bytes | None, data: bytes | None) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int32()), pa.array([state], pa.binary()), pa.array([data], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=_FOUND.names)
