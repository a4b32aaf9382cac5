"""How long rules that change hold a stream up: `python -m bench.spark.rule_changes`.

A stream of files with a set of 100 rules is stopped and started from its checkpoint with one rule changed, one gone and
one new: the time from `start()` to the end of the first micro-batch, beside that of a streaming query that only copies
the same files. Then rules come by a folder: how many micro-batches after the file of a rule its first alert is out.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.spark.parts import session_on
from ceql.spark import match

RULES = 100
ROWS = 20_000
SCHEMA = "type string, time timestamp, k string, v int"


def rule(number: int) -> str:
    """A rule unlike the others."""
    return (
        f"SELECT a, b WHERE A AS a ; B AS b FILTER a[v > {number}] AND b.v > a.v + {number % 7} "
        "PARTITION BY k WITHIN 10 SECONDS"
    )


def add(folder: Path, number: int) -> None:
    """A file of events, ten seconds each."""
    rows = range(number * ROWS, (number + 1) * ROWS)
    table = pa.table({
        "type": ["AB"[k % 2] for k in rows],
        "time": pa.array([1_700_000_000_000_000 + k * 500 for k in rows], pa.timestamp("us", "UTC")),
        "k": [f"key {k % 97}" for k in rows],
        "v": pa.array([k * 7919 % 120 for k in rows], pa.int32()),
    })  # fmt: skip
    pq.write_table(table, folder / f"_{number}.parquet")
    (folder / f"_{number}.parquet").rename(folder / f"{number:03}.parquet")


def stream(spark: SparkSession, source: Path) -> DataFrame:
    """The events."""
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    return files.withWatermark("time", "1 second")


def seconds(found: DataFrame, checkpoint: Path) -> float:
    """From the start of a query to the end of what is there."""
    begun = time.perf_counter()
    writer = found.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return time.perf_counter() - begun


def restart(spark: SparkSession, folder: Path) -> dict[str, float]:
    """Seconds of a restart with other rules, and of one that does nothing."""
    source = folder / "source"
    source.mkdir()
    before = {f"rule {k}": rule(k) for k in range(RULES)}
    after = {name: text for name, text in before.items() if name != "rule 3"}
    after |= {"rule 7": rule(107), "rule new": rule(55)}
    options: dict[str, Any] = {"buckets": 4}
    for number in (0, 1):
        add(source, number)
    seconds(match(stream(spark, source), before, **options), folder / "rules")
    seconds(stream(spark, source).select("v"), folder / "copy")
    add(source, 2)
    begun = time.perf_counter()
    found = match(stream(spark, source), after, **options)
    compiled = time.perf_counter() - begun
    return {
        "compiling 100 rules": compiled,
        "restart with other rules": seconds(found, folder / "rules"),
        "restart of a copy": seconds(stream(spark, source).select("v"), folder / "copy"),
    }


def micro_batches(spark: SparkSession, folder: Path) -> int:
    """After how many micro-batches the first alert of a new rule is out, from the one that reads its file on."""
    source, rules, first = folder / "more", folder / "texts", dict[str, int]()
    source.mkdir()
    rules.mkdir()
    (rules / "0.json").write_text(json.dumps({"name": "old", "text": rule(1)}))

    def look(batch: DataFrame, number: int) -> None:
        for row in batch.select("query").distinct().collect():
            first.setdefault(row["query"], number)
        if number < 8:
            add(source, number + 1)
        if number == 3:  # the next micro-batch reads it
            (rules / "1.json").write_text(json.dumps({"name": "new", "text": rule(2)}))

    add(source, 0)
    found = match(stream(spark, source), rules=str(rules), keys="k", buckets=4)
    writer = found.writeStream.foreachBatch(look).option("checkpointLocation", str(folder / "changing"))
    query = writer.start()
    while "new" not in first and query.isActive:
        time.sleep(0.2)
    query.stop()
    return first["new"] - 4


def main() -> None:
    spark = session_on("local[2]", 2)
    with tempfile.TemporaryDirectory() as name:
        for what, spent in restart(spark, Path(name)).items():
            print(f"{what:28} {spent:6.1f} s")
        print(f"{'a new rule has an alert after':28} {micro_batches(spark, Path(name))} micro-batches")
    spark.stop()


if __name__ == "__main__":
    main()
