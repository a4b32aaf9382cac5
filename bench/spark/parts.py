"""The parts of the experiment on Spark, each run in a process of its own with its own session.

Timings are pairs of lists: seconds by the clock, and of the processor for the JVM and all Python workers together.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import ceql.spark
from bench.spark import data, rivals_by_hand
from ceql.plan import make_plan
from ceql.recognition.options import Options
from ceql.spark.match_options import MatchArguments
from ceql.spark.prepare import prepare

RUNS = 3
Timed = tuple[list[float], list[float]]


def session_on(master: str, partitions: int = 8) -> SparkSession:
    """A session with so many partitions after a shuffle."""
    settings = {"spark.sql.shuffle.partitions": str(partitions), "spark.driver.memory": "6g"}
    return ceql.spark.session(master, config=settings)


def query_of(selective: bool, key: str | None, window: str = "1 SECOND") -> str:
    """Three types of thirty: 10% of the rows; or both sides, which are all of them, with a rare end."""
    formula = "T0 AS x ; T1 AS y ; T2 AS z" if selective else "BUY AS x ; SELL AS y ; BUY AS z FILTER z[price < 1]"
    partition = f" PARTITION BY {key}" if key else ""
    return f"SELECT ANY x, y, z WHERE {formula}{partition} WITHIN {window}"


def _type(query: str) -> str:
    return "side" if "BUY" in query else "type"


def _noop(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def _timed(action: Callable[[], Any], runs: int = RUNS) -> Timed:
    walls, cpus = [], []
    for _ in range(runs):
        begun, before = time.perf_counter(), work()
        action()
        walls.append(time.perf_counter() - begun)
        cpus.append(work() - before)
    return walls, cpus


def work() -> float:
    """Seconds of the processor so far: this process, the JVM below it, and the workers below that."""
    parents, works = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        works[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(works.get(process, 0) for process in ours) / os.sysconf("SC_CLK_TCK")


def by_ids(df: DataFrame, query: str, **options: Any) -> DataFrame:
    """The matches of a query, with their events by their times."""
    return ceql.spark.match(df, query, type=_type(query), time="ts", events="ids", id="ts", **options)


def batch(master: str, folder: Path) -> dict[str, tuple[Timed, int]]:
    """Times and matches of batch jobs and of their yardsticks."""
    spark = session_on(master)
    df = spark.read.parquet(str(folder))
    _noop(by_ids(df.limit(10_000), query_of(True, "k1000")))  # compiles the kernels
    found: dict[str, tuple[Timed, int]] = {}

    def measure(name: str, frame: DataFrame, matches: bool = True) -> None:
        timed = _timed(lambda: _noop(frame))
        found[name] = (timed, frame.count() if matches else 0)

    some = query_of(True, "k1000")
    measure("10%, scan", _scan(df, some), matches=False)
    measure("10%, identity", _identity(df, some), matches=False)
    measure("10%", by_ids(df, some))
    everything = query_of(False, "k1000")
    measure("all, identity", _identity(df, everything), matches=False)
    measure("all", by_ids(df, everything))
    measure("all, 10 keys", by_ids(df, query_of(False, "k10", "100 SECONDS")))
    measure("all, 100,000 keys", by_ids(df, query_of(False, "k100000", "100 SECONDS")))
    measure("10%, 10 keys", by_ids(df, query_of(True, "k10", "100 SECONDS")))
    measure("10%, 100,000 keys", by_ids(df, query_of(True, "k100000", "100 SECONDS")))
    measure("no keys, chunks", by_ids(df, query_of(False, None), partitions=4))
    measure("no keys, one task", by_ids(df, query_of(False, None), partitions=1))
    return found


def prepared_by_ids(df: DataFrame, query: str) -> Any:
    """What `by_ids` makes of the query and the columns."""
    return prepare(df, make_plan(query), MatchArguments(Options(_type(query), "ts"), ids=True, id=("ts",)))


def _scan(df: DataFrame, query: str) -> DataFrame:
    """The filters alone, in Spark SQL: which rows satisfy which, over the columns that the query needs."""
    prepared = prepared_by_ids(df, query)
    holds: list[Column] = [guard.column for guard in prepared.guards]
    sums = [F.count(F.when(column, 1)) for column in holds]
    return df.where(reduce(Column.__or__, holds)).agg(*sums, F.max("ts"), F.max("k1000"))


def _identity(df: DataFrame, query: str) -> DataFrame:
    """The same plan, with a function that gives back what it gets."""
    prepared = prepared_by_ids(df, query)
    ordered: DataFrame = prepared.frame.repartition(*prepared.keys).sortWithinPartitions(*prepared.order)
    shipped = ordered.select(*prepared.shipped)

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return shipped.mapInArrow(same, shipped.schema)


def cores(master: str, folder: Path) -> dict[str, Timed]:
    """Times with so many cores. Of one, JVM and Python workers share it: Spark's `local[1]` alone would use two."""
    if master == "local[1]":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    spark = session_on(master)
    df = spark.read.parquet(str(folder))
    _noop(by_ids(df.limit(10_000), query_of(True, "k1000")))
    return {
        "all relevant, 1,000 keys": _timed(lambda: _noop(by_ids(df, query_of(False, "k1000"), partitions=8))),
        "10% relevant, 1,000 keys": _timed(lambda: _noop(by_ids(df, query_of(True, "k1000"), partitions=8))),
        "all relevant, no keys, 8 chunks": _timed(lambda: _noop(by_ids(df, query_of(False, None), partitions=8))),
    }


def rivals(master: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Times of sequences by key within ten seconds: ceql, a self-join, a Python loop by group."""
    spark = session_on(master)
    df = spark.read.parquet(str(folder)).where(
        F.col("ts") < F.timestamp_micros(F.lit(data.BEGIN + 500_000 * data.SPACING))
    )
    df.cache().count()
    found = {}
    for length in (2, 3, 4):
        formula = " ; ".join(f"{data.TYPES[k]} AS x{k}" for k in range(length))
        query = f"SELECT * WHERE {formula} PARTITION BY k1000 WITHIN 10 SECONDS"
        join, loop = rivals_by_hand.self_join(df, length), rivals_by_hand.loop_by_group(df, length)
        found[str(length)] = _against(by_ids(df, query), {"join": join, "loop": loop})
    return found


def others(master: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Times over all rows: events that are compared, against a self-join; events that are neighbours, against lag."""
    spark = session_on(master)
    df = spark.read.parquet(str(folder))
    compared = "SELECT * WHERE T0 AS x ; T1 AS y FILTER x.k1000 = y.k1000 AND y.price > 50 * x.price WITHIN 10 SECONDS"
    next_to = "SELECT * WHERE BUY AS x : SELL AS y FILTER y[price < 1] PARTITION BY k1000"
    return {
        "compared": _against(by_ids(df, compared), {"join": rivals_by_hand.compared_join(df)}),
        "neighbours": _against(by_ids(df, next_to), {"lag": rivals_by_hand.lag(df)}),
    }


def _against(ours: DataFrame, theirs: dict[str, DataFrame]) -> dict[str, Any]:
    counts = {ours.count(), *(frame.count() for frame in theirs.values())}
    assert len(counts) == 1, counts
    ways = {"ceql": ours, **theirs}
    return {**{name: _timed(partial(_noop, frame)) for name, frame in ways.items()}, "matches": counts.pop()}


def skew(master: str, folder: Path) -> dict[str, Timed]:
    """Times with a key that half of all rows have, in eight tasks: by key, by time, and without the skew."""
    spark = session_on(master)
    df = spark.read.parquet(str(folder))
    skewed = df.withColumn("k1000", F.when(F.col("volume") % 2 == 0, 0).otherwise(F.col("k1000")))
    query = query_of(False, "k1000")
    _noop(by_ids(df, query, partitions=8))
    return {
        "by key": _timed(lambda: _noop(by_ids(skewed, query, partitions=8))),
        "by time": _timed(lambda: _noop(by_ids(skewed, query, partitions=8, skewed=True))),
        "no skew": _timed(lambda: _noop(by_ids(df, query, partitions=8))),
    }


def memory(master: str, folder: Path) -> dict[str, tuple[float, int, float]]:
    """The most memory that a Python worker had, in MB, with the rows or matches that it went through, and seconds."""
    spark = session_on(master)
    df = spark.read.parquet(str(folder))
    _noop(by_ids(df.limit(10_000), query_of(True, "k1000")))
    total = df.count()
    found = {}

    def measure(name: str, frame: DataFrame, size: int) -> None:
        begun = time.perf_counter()
        with Peak() as peak:
            _noop(frame)
        found[name] = (peak.megabytes, size, time.perf_counter() - begun)

    quarter = F.timestamp_micros(F.lit(data.BEGIN + total // 4 * data.SPACING))
    query = query_of(False, "k1000")
    measure("a quarter of the rows", by_ids(df.where(F.col("ts") < quarter), query, partitions=1), total // 4)
    measure("all rows in one task", by_ids(df, query, partitions=1), total)
    skewed = df.withColumn("k", F.when(F.col("k1000") < 999, 0).otherwise(F.col("k1000")))
    measure("all rows, one key with 99.9% of them", by_ids(skewed, query_of(False, "k", "100 MILLISECONDS")), total)
    few = df.where(F.col("ts") < F.timestamp_micros(F.lit(data.BEGIN + 28_400 * data.SPACING)))
    many = "SELECT x, y WHERE BUY AS x ; SELL AS y"
    matches = by_ids(few, many, partitions=1)
    measure("a hundred million matches from one task", matches, matches.count())
    return found


class Peak:
    """The greatest resident memory of any Python worker while this is open."""

    def __enter__(self) -> Peak:
        self.megabytes = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.megabytes = max([self.megabytes, *_workers()])


def _workers() -> Iterator[float]:
    """The resident memory of each Python worker of this process's Spark, in megabytes."""
    found: dict[int, tuple[int, str, float]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
            command = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        found[int(folder.name)] = int(lines["PPid"]), command, int(lines.get("VmRSS", "0 kB").split()[0]) / 1024
    for parent, command, megabytes in found.values():
        if "java" in command.split("\0")[0]:  # Spark itself, whose arguments name the folder of PySpark
            continue
        while parent in found and parent != os.getpid():
            parent = found[parent][0]
        if parent == os.getpid() and ".daemon" in command:
            yield megabytes
