"""From event to match in the sink, with `emit="now"`: `python -m bench.now SECONDS`.

A thread writes files of events, each with the time at which it was written; the sink notes when it has a match. What
counts is how much longer that took than a micro-batch: an event waits for the micro-batch before it to end.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ceql.spark import match, session

QUERY = "SELECT a, b WHERE A AS a ; B AS b PARTITION BY k WITHIN 10 SECONDS"
KEYS, EVERY = 200, 0.25  # keys; seconds between two files
WARM = 15  # seconds after the first match
SCHEMA = pa.schema([("type", pa.string()), ("time", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("id", pa.int64())])


def write(folder: Path, done: threading.Event) -> None:
    """Files until it is done: an A of each key, and a B of each key in the next one."""
    number = 0
    while not done.is_set():
        now = datetime.now(UTC)
        rows = [{"type": "AB"[number % 2], "time": now, "k": k, "id": number * KEYS + k} for k in range(KEYS)]
        hidden = folder / f"_{number:06}"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), hidden)
        hidden.rename(folder / f"{number:06}.parquet")
        number += 1
        time.sleep(EVERY)


def main(seconds: float) -> None:
    spark = session("local[2]", config={"spark.sql.session.timeZone": "UTC"})
    folder = Path(tempfile.mkdtemp())
    (folder / "source").mkdir()
    took: list[tuple[float, float]] = []

    def sink(rows: DataFrame, number: int) -> None:
        ends = [row[0] for row in rows.select(F.unix_micros("end_time")).collect()]
        now = time.time()
        took.extend((now, now - end / 1e6) for end in ends)

    stream = spark.readStream.schema("type string, time timestamp, k long, id long").parquet(str(folder / "source"))
    found = match(stream.withWatermark("time", "1 minute"), QUERY, emit="now")
    query = found.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "checkpoint")).start()
    done = threading.Event()
    threading.Thread(target=write, args=(folder / "source", done), daemon=True).start()
    while not took and query.isActive:
        time.sleep(0.2)
    warm = time.time() + WARM  # what waited for the first micro-batch has gone by then
    time.sleep(WARM + seconds)
    done.set()
    batches = sorted(
        p["durationMs"]["triggerExecution"] / 1000
        for p in query.recentProgress
        if p["numInputRows"] and datetime.fromisoformat(p["timestamp"]).timestamp() > warm
    )
    query.stop()
    latencies = sorted(latency for at, latency in took if at > warm)

    def at(values: list[float], part: float) -> str:
        return f"{values[min(len(values) - 1, int(part * len(values)))]:.2f}"

    print(
        f"{len(latencies):,} matches in {len(batches)} micro-batches; event to sink: {at(latencies, 0.5)} s (p50), "
        f"{at(latencies, 0.99)} s (p99); micro-batches: {at(batches, 0.5)} s, {at(batches, 0.99)} s"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
