"""What `make soak` reads while it feeds: memory, latency and the size of the state, as tables and pictures."""

from __future__ import annotations

import csv
import resource
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import ceql

READINGS = 60  # of a part


def megabytes() -> float:
    """Resident memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def peak() -> float:
    """The most that was ever resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


class Readings:
    """Memory, latency of feeds and size of snapshots over time."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._begun = seconds, time.perf_counter()
        self._latencies: list[float] = []
        self._feeds: list[float] = []  # the milliseconds of each
        self.rows: list[tuple[float, int, float, float, float, float, float]] = []

    @property
    def running(self) -> bool:
        return time.perf_counter() - self._begun < self._seconds

    def feed(self, recognizer: ceql.Recognizer, batch: pa.RecordBatch) -> int:
        """Feed a batch; the number of its matches."""
        begun = time.perf_counter()
        matches: int = sum(found.num_rows for found in recognizer.feed(batch).to_batches())
        seconds = time.perf_counter() - begun
        self._latencies.append(seconds * 1e9 / batch.num_rows)
        self._feeds.append(seconds * 1e3)
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

    def summary(self) -> str:
        """What all feeds took, and the memory they needed."""
        shown = (50, 95, 99, 99.9, 100)
        took = ", ".join(f"p{p:g} {ms:.1f}" for p, ms in zip(shown, np.percentile(self._feeds, shown), strict=True))
        state = max((row[6] for row in self.rows), default=0.0)
        return (
            f"  {len(self._feeds):,} feeds, ms: {took}; peak of the process {peak():.0f} MB; "
            f"greatest state {state:.2f} MB; growth after the first quarter: {self.growth():+.1f} MB\n"
        )

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
