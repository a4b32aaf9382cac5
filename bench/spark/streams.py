"""Streaming on Spark by the size of micro-batches, and where the time goes.

The yardsticks are the same plan with less in its stateful step: nothing at all, which is what Spark takes for a
micro-batch and for moving its rows; and states of the size of ceql's that are read and written, with nothing
recognised. What Python does in a micro-batch is measured by itself, in this process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.spark import data, rivals_by_hand
from bench.spark.parts import by_ids, prepared_by_ids, query_of, session_on
from ceql.spark import packing
from ceql.spark import streaming as steps
from ceql.spark.bucket import Bucket
from ceql.spark.extras import Extras
from ceql.spark.stream_job import job_of

SIZES = (50_000, 200_000)
FILES = 12
KEYS = 10_000
BUCKETS = 16
WARM = 4  # micro-batches until a query's steady state; what the JVM calls, it has compiled in a run before


def streaming(master: str, folder: Path) -> dict[str, Any]:
    """For each size of micro-batches the seconds of the steady state in several ways, and what they are made of."""
    spark = session_on(master, partitions=2)
    query = query_of(False, "k", "20 SECONDS")
    found: dict[str, Any] = {}
    for rows in SIZES:
        source = _files(rows)
        in_python, size = _in_process(spark, source, query, rows)
        ways: dict[str, Callable[[DataFrame], DataFrame]] = {
            "ceql": lambda df: by_ids(df, query),
            "nothing": lambda df: _instead(df, query, 0),
            "states": lambda df, size=size: _instead(df, query, size),  # type: ignore[misc]
        }
        if rows == max(SIZES):
            ways["ceql on applyInPandasWithState"] = lambda df: rivals_by_hand.on_group_state(df, query)
            ways["a state for each key"] = rivals_by_hand.state_by_key
        first = _run(spark, source, ways["ceql"])["first"]  # of a JVM that has compiled nothing yet, or little
        found[str(rows)] = {name: _run(spark, source, make) for name, make in ways.items()}
        found[str(rows)]["ceql"]["first"] = first
        found[str(rows)]["python"] = in_python
        found[str(rows)]["state bytes"] = size * BUCKETS
        shutil.rmtree(source)
    return found


def _files(rows: int) -> Path:
    """A folder with a file for each micro-batch."""
    source = Path(tempfile.mkdtemp())
    random = np.random.default_rng(0)
    for k in range(FILES):
        table = data.table(k * rows, rows, 100 + k).select(["side", "price", "ts"])
        table = table.append_column("k", pa.array(random.integers(0, KEYS, rows)))
        parquet.write_table(table, source / f"{k:03}.parquet")
        os.utime(source / f"{k:03}.parquet", (1_000_000 + k, 1_000_000 + k))
    return source


def _run(spark: SparkSession, source: Path, make: Callable[[DataFrame], DataFrame]) -> dict[str, list[float]]:
    """Seconds of the first micro-batch, of those of the steady state, and of those without rows."""
    schema = spark.read.parquet(str(source)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    checkpoint = tempfile.mkdtemp()
    writer = make(stream.withWatermark("ts", "1 second")).writeStream.format("noop")
    run = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    run.awaitTermination()
    shutil.rmtree(checkpoint)
    times = [(p.numInputRows, float(p.durationMs["triggerExecution"]) / 1e3) for p in run.recentProgress]
    full = [seconds for rows, seconds in times if rows]
    return {"first": full[:1], "steady": full[WARM:], "idle": [seconds for rows, seconds in times if not rows]}


class _Idle(StatefulProcessor):
    """A step that gives out nothing, and keeps a blob of random bytes for each bucket, if any."""

    def __init__(self, size: int) -> None:
        self._size = size

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("state", steps.STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for _ in rows:
            pass
        if self._size and key[0] != packing.SEAL:
            self._state.get()
            self._state.update((np.random.default_rng(0).bytes(self._size),))
        return iter(())


def _instead(df: DataFrame, query: str, size: int) -> DataFrame:
    """The plan of `match`, with a step that recognises nothing and keeps states of this size."""
    prepared = prepared_by_ids(df, query)
    steps.use_rocksdb(df.sparkSession)
    blobs = packing.packed(job_of(prepared, BUCKETS), 1000).groupBy(packing.BUCKET)
    stepped = blobs.transformWithState(_Idle(size), steps.STEPPED, "append", "EventTime")
    return steps.opened(stepped, job_of(prepared, BUCKETS), Extras())


def _in_process(spark: SparkSession, source: Path, query: str, rows: int) -> tuple[dict[str, float], int]:
    """Seconds of the processor for what Python does in a micro-batch, and the bytes of a bucket's state."""
    prepared = prepared_by_ids(spark.read.parquet(str(source)), query)
    terms = job_of(prepared, BUCKETS).terms
    table = prepared.frame.toArrow().sort_by("time").combine_chunks()
    bucket = pa.array((table["key0"].to_numpy() % BUCKETS).astype(np.int32))
    table = table.add_column(0, packing.BUCKET, bucket)
    division = packing.Packing.whole(table.schema.names, range(BUCKETS))
    states: dict[int, bytes] = {}
    spent: dict[str, float] = {}
    for k in range(FILES):
        spent = defaultdict(float)
        part = table.slice(k * rows, rows)
        watch = _Watch(spent)
        arrived = defaultdict(list)
        for packed in packing.pack([division], part.to_batches(max_chunksize=10_000)):
            for number, blob in zip(
                packed.column(packing.BUCKET).to_pylist(), packed.column(packing.DATA), strict=True
            ):
                arrived[number].append(blob.as_py())
        watch.lap("packing rows")
        clock = data.BEGIN // 1000 + k * rows * data.SPACING // 1000 - 1000
        for number in range(BUCKETS):
            update = steps.BucketUpdate(Bucket(prepared.spec, terms), frozenset(), states.get(number), clock)
            watch.lap("reading states")
            bucket_of = update._bucket
            batches = [batch for blob in arrived[number] for batch in steps.from_ipc(blob)]
            for _ in bucket_of.step(batches, clock * 1000):
                pass
            watch.lap("recognition")
            states[number] = bucket_of.to_bytes()
            watch.lap("writing states")
    return dict(spent), sum(map(len, states.values())) // BUCKETS


class _Watch:
    """Adds up seconds of the processor by name."""

    def __init__(self, spent: dict[str, float]) -> None:
        self._spent = spent
        self._since = time.process_time()

    def lap(self, name: str) -> None:
        now = time.process_time()
        self._spent[name] += now - self._since
        self._since = now
