"""Packs the rows of a stream: one blob for each bucket, so that a row of the shuffle is thousands of events.

The queries of a set may divide their events in several ways. All of them go through one scan of the source, since a
checkpoint knows how many sources it has, and queries come and go: a row is shipped once, with its bucket and its keys
in each way, and packed for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from ceql.io.schemas import take_rows
from ceql.recognition.snapshot import to_ipc
from ceql.spark.prepare import WATERMARK, Prepared
from ceql.spark.stream_job import StreamJob
from ceql.spark.task_recognizer import larger
from ceql.spark.task_report import reported
from ceql.spark.task_spec import TIME

BUCKET, DATA, ROWS, CLOCK = "bucket", "data", "rows", "clock"
BLOB = [StructField(ROWS, LongType()), StructField(DATA, BinaryType())]
PACKED = StructType([StructField(BUCKET, IntegerType()), *BLOB])
SEAL = -1
"""A bucket without rows, whose state has the terms of the checkpoint. Every micro-batch with input looks at it, so that
a query that does not fit is refused even if its rows meet no state."""
_WHOLE = ("tinyint", "smallint", "int", "bigint")
"""Types of keys that are hashed as one, so that a key may become a wider one."""


@dataclass(frozen=True)
class Packing:
    """A way in which rows are divided among buckets: the column that has the bucket, NULL for rows that concern no
    query, and the columns that are packed, each with its name in the blob."""

    bucket: str
    columns: tuple[tuple[str, str], ...]
    numbers: range
    """Those of the buckets."""

    @classmethod
    def whole(cls, names: Sequence[str], numbers: range) -> Packing:
        """All columns of rows whose first one has the bucket."""
        return cls(names[0], tuple((name, name) for name in names[1:]), numbers)


def packed(job: StreamJob, delay: int, after: datetime | None = None) -> DataFrame:
    """The shipped rows of all groups (those after a time) as blobs by bucket. `delay` is the watermark's, in
    milliseconds."""
    rows, divisions = shipped_rows(job)
    if after is not None:
        rows = rows.where(F.col(TIME).isNull() | (F.col(TIME) > F.lit(after)))
    token = uuid4().hex if job.terms.queries else None
    clock = F.lit(None).cast("timestamp").alias(CLOCK, metadata={WATERMARK: delay})
    task = partial(pack, divisions, token=token)
    blobs = rows.mapInArrow(reported("pack", task), PACKED).withColumn(CLOCK, clock)
    if job.rules is None:
        return blobs
    buckets = [SEAL, *(number for division in divisions for number in division.numbers)]
    to_all = reported("pack rules", partial(_to_all, buckets))
    return blobs.unionAll(job.rules.mapInArrow(to_all, PACKED).withColumn(CLOCK, clock))


def _to_all(buckets: Sequence[int], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rules for each bucket; their number is negative, which tells them from events."""
    for batch in batches:
        if batch.num_rows:
            count = len(buckets)
            columns = [pa.array(list(buckets), pa.int32()), pa.array([-batch.num_rows] * count, pa.int64())]
            columns.append(pa.array([to_ipc([batch])] * count, pa.binary()))
            yield pa.RecordBatch.from_arrays(columns, names=PACKED.names)


def shipped_rows(job: StreamJob) -> tuple[DataFrame, tuple[Packing, ...]]:
    """One scan of each stream, and the columns of each division."""
    carriers = [group.carrier for group in job.groups]
    buckets = [range(first, first + count) for first, count in map(job.buckets_of, range(len(carriers)))]
    divisions = tuple(
        Packing(f"{BUCKET}{k}", tuple((_own(k, name), name) for name in carrier.frame.columns), numbers)
        for k, (carrier, numbers) in enumerate(zip(carriers, buckets, strict=True))
    )
    frames = []
    for stream in range(len(carriers[0].shipping)):
        shipped = [carrier.shipping[stream] for carrier in carriers]
        wanted = [one.wanted for one in shipped]
        columns: dict[str, Column] = {}
        for k, (carrier, one) in enumerate(zip(carriers, shipped, strict=True)):
            bucket = _bucket(carrier, one.columns, buckets[k])
            if one.wanted is not None and len(carriers) > 1:
                bucket = F.when(one.wanted, bucket)
            columns[f"{BUCKET}{k}"] = bucket
            columns |= {_own(k, name): column for name, column in one.columns.items()}
        events = shipped[0].events
        if all(one is not None for one in wanted):
            events = events.where(reduce(Column.__or__, [one for one in wanted if one is not None]))
        frames.append(events.select(*(column.alias(name) for name, column in columns.items())))
    return reduce(DataFrame.unionAll, frames), divisions


def _own(number: int, name: str) -> str:
    """The column of a division; most are those of all divisions."""
    return f"{name}_of_{number}" if name.startswith("key") else name


def _bucket(carrier: Prepared, columns: Mapping[str, Column], numbers: range) -> Column:
    if len(numbers) == 1:
        return F.lit(numbers[0])
    keys = [columns[name].cast("long") if kind in _WHOLE else columns[name] for name, kind in carrier.key_types]
    return F.pmod(F.hash(*keys), F.lit(len(numbers))) + F.lit(numbers[0])


_woken: set[str] = set()
"""The starts of queries whose buckets this worker has woken."""


def pack(
    divisions: Sequence[Packing], batches: Iterable[pa.RecordBatch], token: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows as one blob for each bucket: a few large rows in place of many small ones.

    With `token`, which tells this start of the query, each bucket is looked at when the first rows come: of a set,
    queries may have changed since a state was written.
    """
    if token is not None and token not in _woken:
        for division in divisions:
            yield _empty(division.numbers)
        _woken.add(token)
    for batch in larger(batches):
        for division in divisions:
            yield from _divided(batch, division)
    yield _empty([SEAL])


def _empty(numbers: Sequence[int]) -> pa.RecordBatch:
    """A row without events for each of these buckets."""
    columns = [pa.array(list(numbers), pa.int32()), pa.array([0] * len(numbers), pa.int64())]
    return pa.RecordBatch.from_arrays([*columns, pa.nulls(len(numbers), pa.binary())], names=PACKED.names)


def _divided(batch: pa.RecordBatch, division: Packing) -> Iterator[pa.RecordBatch]:
    found = batch.column(division.bucket)
    rows = batch.select([column for column, _ in division.columns])
    rows = rows.rename_columns([name for _, name in division.columns])
    if found.null_count:
        there = pa.array(np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False)))
        found, rows = found.take(there), take_rows(rows, there)
    if not rows.num_rows:
        return
    buckets = found.to_numpy()
    order = np.argsort(buckets, kind="stable")
    if (buckets[1:] != buckets[:-1]).any():
        rows = take_rows(rows, pa.array(order))
    names, starts = np.unique(buckets[order], return_index=True)
    stops = [*starts[1:].tolist(), len(order)]
    blobs = [to_ipc([rows.slice(start, stop - start)]) for start, stop in zip(starts.tolist(), stops, strict=True)]
    counts = np.array(stops, np.int64) - starts
    yield pa.RecordBatch.from_arrays(
        [pa.array(names, pa.int32()), pa.array(counts, pa.int64()), pa.array(blobs, pa.binary())],
        names=PACKED.names,
    )
