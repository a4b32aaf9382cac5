"""`make soak`: a long stream, for SECONDS=3600: memory, latency and the size of the state must stay flat.

`python -m bench.soak [SECONDS]`. Four parts: a window, fed in bursts (most of the time); keys that come and go, some of
them hot; partitions under a window, which must give their memory back; and no window, which a budget must stop.
Readings go to tables in the bench folder, with a picture beside each.
"""

from __future__ import annotations

import csv
import gc
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import ceql
from bench.peers.peer import FOLDER
from bench.workloads import stock

BATCH = 1 << 17
READINGS = 60  # of a part


def megabytes() -> float:
    """Resident memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


class Readings:
    """Memory, latency of feeds and size of snapshots over time."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._begun = seconds, time.perf_counter()
        self._latencies: list[float] = []
        self.rows: list[tuple[float, int, float, float, float, float, float]] = []

    @property
    def running(self) -> bool:
        return time.perf_counter() - self._begun < self._seconds

    def feed(self, recognizer: ceql.Recognizer, batch: pa.RecordBatch) -> int:
        """Feed a batch; the number of its matches."""
        begun = time.perf_counter()
        matches: int = sum(found.num_rows for found in recognizer.feed(batch).to_batches())
        self._latencies.append((time.perf_counter() - begun) * 1e9 / batch.num_rows)
        if time.perf_counter() - self._begun > self._seconds / READINGS * (len(self.rows) + 1):
            self._read(recognizer)
        return matches

    def _read(self, recognizer: ceql.Recognizer) -> None:
        middle, high = np.percentile(self._latencies, [50, 99])
        state, metrics = len(recognizer.snapshot()) / 1e6, recognizer.metrics()
        passed = time.perf_counter() - self._begun
        self.rows.append((passed, metrics.events, megabytes(), middle, high, max(self._latencies), state))
        self._latencies = []
        if len(self.rows) % 10 == 1:
            print(
                f"  {passed:6.0f} s {metrics.events / 1e6:8.1f} million events {self.rows[-1][2]:7.1f} MB, ns/event "
                f"p50 {middle:.0f} p99 {high:.0f} max {self.rows[-1][5]:.0f}, state {state:.2f} MB",
                flush=True,
            )

    def growth(self) -> float:
        """How far memory rose after the first quarter, in megabytes: greatest of the rest against greatest before."""
        memory = [row[2] for row in self.rows]
        cut = max(1, len(memory) // 4)
        return max(memory[cut:], default=0.0) - max(memory[:cut], default=0.0)

    def write(self, folder: Path, name: str) -> None:
        """The readings as a table and as a picture."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"soak-{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["seconds", "events", "MB", "p50 ns", "p99 ns", "max ns", "state MB"])
            writer.writerows(self.rows)
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, (memory, latency) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 6))
        at = [row[0] for row in self.rows]
        memory.plot(at, [row[2] for row in self.rows], label="resident MB")
        memory.plot(at, [row[6] for row in self.rows], label="state MB")
        for place, label in ((3, "p50"), (4, "p99")):
            latency.plot(at, [row[place] for row in self.rows], label=f"{label}, ns/event")
        latency.set_xlabel("seconds")
        for axes in (memory, latency):
            axes.set_ylim(bottom=0)
            axes.legend()
        figure.savefig(folder / f"soak-{name}.png")
        pyplot.close(figure)


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
    growth = readings.growth()
    print(f"  {recognizer.fed:,} events, {matches:,} matches; growth after the first quarter: {growth:+.1f} MB\n")
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
    print(
        f"  {recognizer.fed:,} events, {rounds * live:,} keys, {recognizer.partitions:,} known, {matches:,} matches; "
        f"growth after the first quarter: {readings.growth():+.1f} MB\n"
    )
    return readings.growth() < 50


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
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0
    results = {
        "flat under a window": window(0.6 * seconds),
        "flat with keys that come and go": keys(0.4 * seconds),
        "partitions give back": partitions(),
        "budget stops": budget(),
    }
    for name, held in results.items():
        print(f"{'held' if held else 'NOT MET'}: {name}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
