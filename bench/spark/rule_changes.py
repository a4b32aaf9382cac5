"""How long rules that change hold a stream up: `python -m bench.spark.rule_changes [ROUNDS]`, some minutes.

A stream of files with a set of 100 rules is stopped, and started from its checkpoint by new processes with one rule
changed, one gone and one new. Beside it stand what a set of one rule takes for that, which is mostly Spark's own start
of a query with states, and a query that copies the same files.
Each is shown in seconds by the clock and of the processor (driver, JVM and workers): from `match` to the end of the
first micro-batch, and from the start of the driver.

Before that, a rule comes by a folder while a stream runs whose rules had one of the same text all along: by how many
micro-batches the alerts of the new one are later, for events after it came.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.spark.parts import session_on, work
from ceql.spark import match

RULES = 100
LAST = 6  # the number of the last micro-batch with events, where a rule comes while they run
ROWS = 2_000
EVENTS = 10  # milliseconds from one event to the next
SCHEMA = "type string, time timestamp, k string, v int"


def rule(number: int) -> str:
    """A rule unlike the others."""
    return (
        f"SELECT a, b WHERE A AS a ; B AS b FILTER a[v = {number}] AND b.v > a.v + {number % 7} "
        "PARTITION BY k WITHIN 10 SECONDS"
    )


def add(folder: Path, number: int) -> None:
    """A file of events, twenty seconds of them."""
    draw, rows = random.Random(number), range(number * ROWS, (number + 1) * ROWS)
    table = pa.table({
        "type": [draw.choice("AB") for _ in rows],
        "time": pa.array([(1_700_000_000_000 + k * EVENTS) * 1000 for k in rows], pa.timestamp("us", "UTC")),
        "k": [f"key {draw.randrange(97)}" for _ in rows],
        "v": pa.array([draw.randrange(120) for _ in rows], pa.int32()),
    })  # fmt: skip
    pq.write_table(table, folder / f"_{number}.parquet")
    (folder / f"_{number}.parquet").rename(folder / f"{number:03}.parquet")


def stream(spark: SparkSession, source: Path) -> DataFrame:
    """The events, a file in each micro-batch."""
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    return files.withWatermark("time", "1 second")


def run(folder: Path, kind: str) -> None:
    """A driver that reads what is there, and prints what it took. `odd` and `even` have sets of rules that differ."""
    begun, busy = time.perf_counter(), work()
    spark = session_on("local[2]", 2)
    started, working = time.perf_counter(), work()
    events = stream(spark, folder / "source")
    rules = {f"rule {k}": rule(k) for k in range(1 if kind == "one" else RULES)}
    if kind == "odd":
        del rules["rule 3"]
        rules |= {"rule 7": rule(107), "rule new": rule(55)}
    found = events.select("v") if kind == "copy" else match(events, rules, buckets=4)
    checkpoint = kind if kind in ("one", "copy") else "rules"
    writer = found.writeStream.format("noop").option("checkpointLocation", str(folder / checkpoint))
    query = writer.trigger(availableNow=True).start()
    while query.lastProgress is None and query.isActive:
        time.sleep(0.05)
    first, firstly = time.perf_counter(), work()
    query.awaitTermination()
    print(json.dumps([first - started, firstly - working, first - begun, firstly - busy]))
    spark.stop()


def restarts(folder: Path, rounds: int) -> dict[str, list[list[float]]]:
    """What each restart took: with other rules, with one rule, of a copy."""
    source, found = folder / "source", dict[str, list[list[float]]]()
    source.mkdir()
    for number in range(rounds + 1):
        add(source, 2 * number)
        add(source, 2 * number + 1)
        for kind in ("odd" if number % 2 else "even", "one", "copy"):
            command = [sys.executable, "-m", "bench.spark.rule_changes", str(folder), kind]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            if number:  # the first is no restart
                found.setdefault({"one": "1 rule", "copy": "a copy"}.get(kind, f"{RULES} rules"), []).append(
                    json.loads(done.stdout)
                )
    return found


def micro_batches(folder: Path) -> list[int]:
    """By how many micro-batches the alerts of a rule that came are later than those of one that was there."""
    spark = session_on("local[2]", 2)
    source, rules = folder / "more", folder / "texts"
    source.mkdir()
    rules.mkdir()
    out = dict[str, dict[Any, int]](old={}, new={})

    def look(batch: DataFrame, number: int) -> None:
        for row in batch.select("query", "k", "start_time", "end_time").collect():
            out[row["query"]][tuple(row)[1:]] = number
        if number < LAST:
            add(source, number + 1)
        if number == 2:  # the next micro-batch reads it
            (rules / "1.json").write_text(json.dumps({"name": "new", "text": rule(1)}))

    (rules / "0.json").write_text(json.dumps({"name": "old", "text": rule(1)}))
    add(source, 0)
    found = match(stream(spark, source), rules=str(rules), keys="k", buckets=4)
    query = found.writeStream.foreachBatch(look).option("checkpointLocation", str(folder / "changing")).start()
    while len(list(source.iterdir())) <= LAST:
        query.processAllAvailable()
    query.processAllAvailable()
    query.stop()
    spark.stop()
    return [number - out["old"][alert] for alert, number in out["new"].items()]


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        late = micro_batches(folder)
        print(f"{len(late)} alerts of a rule that came, later by {min(late)} to {max(late)} micro-batches", flush=True)
        print(f"{f'seconds: median of {rounds}':40} {'clock':>6} {'processor':>10}", flush=True)
        for what, runs in restarts(folder, rounds).items():
            first, firstly, whole, wholly = (median(column) for column in zip(*runs, strict=True))
            print(f"{what + ', to the first micro-batch':40} {first:6.1f} {firstly:10.1f}")
            print(f"{what + ', with the driver':40} {whole:6.1f} {wholly:10.1f}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run(Path(sys.argv[1]), sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
