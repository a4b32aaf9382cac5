"""`make soak`: a long stream, for SECONDS=3600: memory, latency and the size of the state must stay flat.

`python -m bench.soak [SECONDS] [PART ...]`. Five parts: a window, fed in bursts (half of the time: an hour brings some
10^9 events and more); keys that come and go, some of them hot; a streaming query on Spark; a million partitions under
a window, which must give their memory back; and no window, which a budget must stop. Each prints percentiles of what
a feed took, the peak of memory and the size of the state; readings go to tables in the bench folder, with pictures.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import ceql
from bench.peers.peer import FOLDER
from bench.soak_readings import Readings, megabytes
from bench.workloads import stock

BATCH = 1 << 17


def window(seconds: float) -> bool:
    print(f"A sequence of three within 10 s, for {seconds:.0f} s, in bursts of 100 to {BATCH:,} events")
    block = stock.events(BATCH * 8)
    query = ceql.compile(stock.sequence(3))
    recognizer = query.recognizer(keep_rows=False)
    span = 8 * BATCH * 1000 // stock.EVENTS_PER_SECOND + 1
    times = block.column("time").cast(pa.int64()).to_numpy()
    readings, dice, rounds, matches = Readings(seconds), np.random.default_rng(0), 0, 0
    while readings.running:
        shifted = block.set_column(4, "time", pa.array(times + span * rounds, pa.timestamp("ms"))).combine_chunks()
        batch, first = shifted.to_batches()[0], 0
        while first < len(block) and readings.running:
            size = int(dice.choice([100, 10_000, BATCH], p=[0.2, 0.2, 0.6]))
            matches += readings.feed(recognizer, batch.slice(first, size))
            first += size
        rounds += 1
    readings.write(FOLDER, "window")
    print(f"  {recognizer.fed:,} events, {matches:,} matches")
    print(readings.summary())
    return readings.growth() < 20


def keys(seconds: float, live: int = 100_000) -> bool:
    print(f"{live:,} keys at a time that come and go within 1 s, some of them hot, for {seconds:.0f} s")
    recognizer = ceql.compile("SELECT * WHERE A ; B PARTITION BY k WITHIN 1 SECOND").recognizer(keep_rows=False)
    readings, dice, rounds, matches = Readings(seconds), np.random.default_rng(0), 0, 0
    while readings.running:
        fresh = dice.integers(rounds * live, (rounds + 1) * live, BATCH)
        hot = dice.integers(0, 10, BATCH)
        batch = pa.record_batch(
            {
                "type": pa.array(np.where(dice.random(BATCH) < 0.9, "A", "B")),
                "k": np.where(dice.random(BATCH) < 0.01, hot, fresh),
                "time": pa.array(np.sort(dice.integers(rounds * 2000, (rounds + 1) * 2000, BATCH)), pa.timestamp("ms")),
            }
        )
        matches += readings.feed(recognizer, batch)
        rounds += 1
    readings.write(FOLDER, "keys")
    print(f"  {recognizer.fed:,} events, {rounds * live:,} keys, {recognizer.partitions:,} known, {matches:,} matches")
    print(readings.summary())
    return readings.growth() < 50


def partitions(rounds: int = 100, live: int = 10_000) -> bool:
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
        if r % 25 == 0:
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


def streaming(seconds: float) -> bool:
    """A streaming query on Spark, in this process, whose executors and workers are others."""
    from bench import soak_streaming

    return soak_streaming.streaming(seconds)


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0
    parts: dict[str, Callable[[], bool]] = {
        "window": lambda: window(0.5 * seconds),
        "keys": lambda: keys(0.3 * seconds),
        "partitions": partitions,
        "budget": budget,
        "streaming": lambda: streaming(0.2 * seconds),
    }
    results = {name: parts[name]() for name in sys.argv[2:] or parts}
    for name, held in results.items():
        print(f"{'held' if held else 'NOT MET'}: {name}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
