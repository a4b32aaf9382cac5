"""`make soak`: memory over a long stream. `python bench/soak.py [millions of events]`, 100 by default.

Three parts: a window (memory must stay flat), ten thousand partitions that come and go under a window (they
must give their memory back, and cost little while they live), and no window (a budget must stop it).
"""

from __future__ import annotations

import gc
import resource
import sys
import time

import numpy as np
import pyarrow as pa

import ceql
from bench.workloads import stock

BATCH = 1 << 17


def megabytes() -> float:
    """Resident memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def window(millions: int) -> bool:
    print(f"A sequence of three within 10 s, {millions} million events")
    block = stock.events(BATCH * 8)
    query = ceql.compile(stock.sequence(3))
    recognizer = query.recognizer(keep_rows=False)
    span = 8 * BATCH * 1000 // stock.EVENTS_PER_SECOND + 1
    readings: list[float] = []
    begun, fed, matches = time.time(), 0, 0
    times = block.column("time").cast(pa.int64()).to_numpy()
    while fed < millions * 1_000_000:
        shifted = block.set_column(4, "time", pa.array(times + span * (fed // len(block)), pa.timestamp("ms")))
        for batch in shifted.to_batches(max_chunksize=BATCH):
            matches += sum(b.num_rows for b in recognizer.feed(batch).to_batches())
        fed += len(block)
        if fed // 10_000_000 > len(readings):
            readings.append(megabytes())
            rate = fed / (time.time() - begun) / 1e6
            print(
                f"  {fed / 1e6:6.0f} million events {matches:12,} matches {readings[-1]:8.1f} MB {rate:6.1f} million/s",
                flush=True,
            )
    growth = readings[-1] - readings[0]
    print(f"  growth after the first tenth: {growth:+.1f} MB\n")
    return growth < 20


def partitions(rounds: int = 30, live: int = 10_000) -> bool:
    print(f"{live:,} partitions at a time within 1 s, {rounds} times new keys")
    query = ceql.compile("SELECT * WHERE A ; B PARTITION BY k WITHIN 1 SECOND")
    recognizer = query.recognizer(keep_rows=False)
    readings = []
    for r in range(rounds):
        keys = np.arange(live) + r * live
        batch = pa.table(
            {"type": ["A"] * live, "k": keys, "time": pa.array(np.full(live, r * 10_000), pa.timestamp("ms"))}
        )
        list(recognizer.feed(batch).to_batches())
        gc.collect()
        readings.append(megabytes())
        if r % 10 == 0:
            print(f"  round {r:3} {readings[-1]:8.1f} MB, {recognizer.partitions:,} partitions known", flush=True)
    growth = readings[-1] - readings[10]
    print(f"  growth after round 10: {growth:+.1f} MB")
    size = len(recognizer.snapshot())
    known = recognizer.partitions
    print(f"  snapshot: {size / known:.0f} bytes for each of {known:,} partitions\n")
    return growth < 10


def budget() -> bool:
    print("No window, 50 MB")
    query = ceql.compile("SELECT * WHERE A ; B")
    recognizer = query.recognizer(memory=50_000_000, keep_rows=False)
    batch = pa.table({"type": ["A"] * BATCH})
    for fed in range(1000):
        try:
            list(recognizer.feed(batch).to_batches())
        except ceql.ResourceError as error:
            print(f"  after {fed * BATCH:,} events: {error}\n")
            return error.limit == "memory"
    return False


def main() -> int:
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    results = {"flat under a window": window(millions), "partitions give back": partitions(), "budget stops": budget()}
    for name, held in results.items():
        print(f"{'held' if held else 'NOT MET'}: {name}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
