"""What a checkpoint carries: streams that stop and go on, refuse what does not fit, wake up, and let go."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ceql
from ceql.spark import late_rows, match

START = 1_700_000_000_000  # milliseconds
DELAY = 10  # of the watermark, in milliseconds
END = ("Z", 10**6, "x", -1)
"""An event that no query looks at; it moves the watermark past all others."""
SCHEMA = pa.schema([("type", pa.string()), ("time", pa.timestamp("us", "UTC")), ("k", pa.string()), ("id", pa.int64())])
Event = tuple[str, int, str, int]  # type, milliseconds, key, id
QUERY = "SELECT a, b WHERE A AS a ; B AS b PARTITION BY k WITHIN 50 MILLISECONDS"
JOINED = "SELECT a, b WHERE A AS a ; B AS b FILTER a.k = b.k AND b.id < a.id + 9 WITHIN 50 MILLISECONDS"
ENDLESS = "SELECT a, b WHERE A AS a ; B AS b PARTITION BY k"


class Stream:
    """A folder of files, one for each micro-batch, and what queries over it have found."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.events: list[Event] = []
        self._files = 0

    def add(self, *files: list[Event], to: str = "source") -> None:
        """Files for the next micro-batches."""
        (self.folder / to).mkdir(exist_ok=True)
        for events in files:
            self.events += events
            rows = [(kind, (START + at) * 1000, key, id) for kind, at, key, id in events]
            file = self.folder / to / f"{self._files:03}.parquet"
            columns = [pa.array(column, field.type) for column, field in zip(zip(*rows), SCHEMA)]  # noqa: B905
            pq.write_table(pa.table(columns, schema=SCHEMA), file)
            os.utime(file, (1_000_000 + self._files,) * 2)
            self._files += 1

    def read(self, source: str = "source") -> DataFrame:
        schema = "type string, time timestamp, k string, id long"
        stream = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return stream.parquet(str(self.folder / source)).withWatermark("time", f"{DELAY} milliseconds")

    def match(self, query: str = QUERY, **options: Any) -> DataFrame:
        options.setdefault("order_by", "id")
        options.setdefault("buckets", 4)
        return match(self.read(), query, events="ids", id="id", **options)

    def run(self, result: DataFrame, checkpoint: str = "checkpoint") -> Run:
        """Run to the end of what is there, from the checkpoint if there is one."""
        return Run(result, str(self.folder / checkpoint))


class Run:
    """A streaming query that has ended."""

    def __init__(self, result: DataFrame, checkpoint: str) -> None:
        self.by_batch: dict[int, list[Any]] = {}
        writer = result.writeStream.foreachBatch(self._take).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        self.progress = query.recentProgress

    def _take(self, batch: DataFrame, number: int) -> None:
        self.by_batch[number] = batch.collect()

    @property
    def rows(self) -> list[Any]:
        return [row for number in sorted(self.by_batch) for row in self.by_batch[number]]

    @property
    def found(self) -> Counter[Any]:
        return Counter(tuple(row["events"]) for row in self.rows if row["events"] is not None)

    def kept(self) -> list[int]:
        """How many rows the state store had after each micro-batch."""
        return [operator["numRowsTotal"] for p in self.progress for operator in p["stateOperators"]]


def expected(events: list[Event], query: str = QUERY) -> Counter[Any]:
    """What the engine finds: the ids of the events of each match."""
    ordered = sorted(events, key=lambda e: (e[1], e[3]))
    table = pa.table(dict(zip(("type", "time", "k", "id"), map(list, zip(*ordered, strict=True)), strict=True)))
    return Counter(tuple(ordered[p][3] for p in m.events) for m in ceql.match(query, table, time_unit="ms"))


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def some(numbers: Iterator[int], begin: int, keys: str = "xyz", count: int = 6) -> list[Event]:
    """Events of a few milliseconds, the last first."""
    made = [
        ("AB"[n % 2], begin + n % count, keys[n % len(keys)], n) for _, n in zip(range(count), numbers, strict=False)
    ]
    return made[::-1]


def test_a_stream_goes_on_where_it_stopped(stream: Stream) -> None:
    """With values that are looked up, and events that are compared; `test_kill` has a query without."""
    numbers = iter(range(100))
    stream.add(*(some(numbers, begin) for begin in (0, 4, 30)))
    first = stream.run(stream.match(JOINED))
    assert first.found
    stream.add(*(some(numbers, begin) for begin in (34, 60)), [END])
    second = stream.run(stream.match(JOINED))
    whole = stream.run(stream.match(JOINED), "another")
    assert first.found + second.found == whole.found == expected(stream.events, JOINED)


def test_what_does_not_fit_a_checkpoint_is_refused(stream: Stream) -> None:
    stream.add([("A", 0, key, n) for n, key in enumerate("pqrstuvwxyz")], [("Z", 100, "x", 20)])
    stream.run(stream.match(ENDLESS))
    stream.add([("B", 110, key, n) for n, key in enumerate("pqrstuvwxyz", 30)], [END])
    other = ENDLESS.replace("B AS b", "C AS b")
    for result, told in [
        (stream.match(other), [ENDLESS, other, "made by another query"]),
        (stream.match(ENDLESS, buckets=5), ["in 4 buckets, not in 5", "pass buckets=4"]),
        (stream.match(ENDLESS, order_by=["id", "k"]), ["order_by=['id']", "order_by=['id', 'k']"]),
        (stream.match(ENDLESS, order_by="k"), ["order_by=['id']", "order_by=['k']"]),
        (match(stream.read(), ENDLESS, order_by="id", buckets=4), ["have the columns id, and the stream's now type"]),
    ]:
        with pytest.raises(StreamingQueryException) as refused:
            stream.run(result)
        for text in told:
            assert text in str(refused.value)
    spelled = "select a, b\nwhere A as a; B as b  -- the same\npartition by [k]"
    assert stream.run(stream.match(spelled)).found == expected(stream.events, ENDLESS)


def test_late_events_are_counted_and_can_be_had(stream: Stream) -> None:
    on_time = [
        [("A", 0, "x", 0), ("A", 5, "y", 1)],
        [("B", 40, "x", 2)],
        [("A", 31, "x", 4), ("B", 39, "y", 5)],  # the watermark is at 30
        [END],
    ]
    late = [("B", 20, "x", 6), ("A", 30, "x", 7), ("Z", 10, "x", 8)]  # the last one means nothing to the query
    stream.add(*on_time[:2], late + on_time[2], on_time[3])
    with_them, without = stream.match(late="late"), stream.match(buckets=2)
    assert with_them.columns == [*without.columns, "late"]
    both = with_them.withColumn("which", F.lit(1)).unionByName(without.withColumn("which", F.lit(2)), True)
    run = stream.run(both)
    assert sorted(row["late"] for row in run.rows if row["late"] is not None) == [6, 7]
    assert {row["events"] for row in run.rows if row["late"] is not None} == {None}
    found = expected([event for file in on_time for event in file])
    assert run.found == Counter({events: 2 * count for events, count in found.items()})
    assert sum(late_rows(p) for p in run.progress) == 2 * 2
    metrics = [row for p in run.progress for row in p["observedMetrics"].values()]
    assert sum(row["matches"] for row in metrics) == sum(run.found.values())


def test_events_are_released_when_others_move_the_watermark(stream: Stream) -> None:
    keys = (
        stream.spark.range(100)
        .select(F.col("id").cast("string").alias("k"))
        .withColumn("b", F.pmod(F.hash("k"), F.lit(4)))
    )
    one, other = (row["k"] for row in keys.dropDuplicates(["b"]).orderBy("b").limit(2).collect())
    stream.add(
        [("A", 1, one, 0), ("B", 10, one, 1)],
        [("A", 20, other, 2)],  # the watermark moves to 10 exactly
        [("B", 25, other, 3)],
        [("B", 26, other, 4)],
    )
    run = stream.run(stream.match())
    assert {number: [row["events"] for row in rows] for number, rows in run.by_batch.items() if rows} == {2: [[0, 1]]}


def test_what_the_window_has_left_is_let_go(stream: Stream) -> None:
    numbers = iter(range(100))
    stream.add(some(numbers, 0), some(numbers, 30), [END], [("Z", 2 * END[1], "x", -2)])
    run = stream.run(stream.match())
    assert run.found == expected(stream.events)
    assert max(run.kept()) > 1
    assert run.kept()[-1] == 1  # the seal


def test_two_queries_and_two_streams_in_one(stream: Stream) -> None:
    numbers = iter(range(100))
    stream.add(some(numbers, 0), some(numbers, 30), [END])
    mine = stream.events.copy()
    stream.add(some(numbers, 3), some(numbers, 31), [END], to="more")
    theirs = stream.events[len(mine) :]
    alone = stream.match()
    query = "SELECT * FROM S, T WHERE S>A ; T>B PARTITION BY k WITHIN 50 MILLISECONDS"
    frames = {"S": stream.read(), "T": stream.read("more")}
    together = match(frames, query, order_by="id", events="ids", id="id", buckets=3)
    run = stream.run(together.select("events").unionAll(alone.select("events")))
    of_both = [event for event in mine if event[0] != "B"] + [event for event in theirs if event[0] != "A"]
    assert run.found == expected(mine) + expected(of_both)
