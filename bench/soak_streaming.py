"""The part of `make soak` on Spark: a streaming query for some time, its memory and the time of its micro-batches."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import numpy as np
from pyspark.sql import functions as F

import ceql.spark
from bench.spark.parts import Peak

ROWS = 250_000  # of a micro-batch, which is a second of events
KEYS = 10_000  # in use at a time; each second brings a hundred new ones
_LEAST = 4  # micro-batches before growth is looked at: workers start, and kernels are loaded


def streaming(seconds: float) -> bool:
    """Whether the memory of workers and the number of keys stay flat."""
    print(f"A streaming query on Spark for {seconds:.0f} s, {ROWS:,} events a micro-batch, {KEYS:,} keys at a time")
    spark = ceql.spark.session("local[2]", config={"spark.sql.shuffle.partitions": "2"})
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    second = F.floor(F.col("value") / ROWS)
    events = (
        rate.option("advanceMillisPerBatch", 1000)
        .load()
        .select(
            F.element_at(F.array(*map(F.lit, "ABC")), (F.col("value") % 3 + 1).cast("int")).alias("type"),
            (second * 100 + F.col("value") * 7919 % KEYS).alias("k"),
            "value",  # orders events of the same time
            (F.timestamp_seconds(second) + F.expr("make_dt_interval(0, 0, 0, pmod(value, 1000) / 1000.0)")).alias(
                "time"
            ),
        )
    )
    query = "SELECT ANY * WHERE A ; B ; C PARTITION BY k WITHIN 2 SECONDS"
    found = ceql.spark.match(events.withWatermark("time", "1 second"), query, order_by="value")
    memory: list[float] = []
    with tempfile.TemporaryDirectory() as checkpoint:
        run = found.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        begun, progress = time.perf_counter(), dict[int, Any]()
        try:
            while time.perf_counter() - begun < seconds and run.isActive:
                with Peak() as peak:
                    time.sleep(max(1.0, seconds / 60))
                memory.append(peak.megabytes)
                progress |= {p.batchId: p for p in run.recentProgress if p.numInputRows}
        finally:
            run.stop()
        if run.exception() is not None:
            raise run.exception()  # type: ignore[misc]
    took = [float(p.durationMs["triggerExecution"]) for p in progress.values()]
    if not took:
        print("  no micro-batch came to its end: more time is needed\n")
        return False
    shown = (50, 95, 99, 100)
    times = ", ".join(f"p{p:g} {ms:.0f}" for p, ms in zip(shown, np.percentile(took, shown), strict=True))
    states = [s.memoryUsedBytes / 1e6 for p in progress.values() for s in p.stateOperators]
    growth = max(memory[len(memory) // 2 :]) - max(memory[: len(memory) // 2], default=0.0)
    print(f"  {sum(p.numInputRows for p in progress.values()):,} events in {len(took):,} micro-batches, ms: {times}")
    print(f"  peak of a Python worker {max(memory):.0f} MB, growth in the second half {growth:+.1f} MB;", end=" ")
    print(f"Spark's memory of the states {max(states, default=0.0):.1f} MB\n")
    return len(took) < _LEAST or growth < 50
