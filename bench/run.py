"""`make bench`: recognition against polars evaluating the same filters, in one run, as ratios.

One thread, best of five, a million stock-like events in a plain-text Arrow table, from the table to Arrow matches. For
scale stand beside it the CPU times of CORE's C++ engine on such a stream, taken on a machine of this kind. Queries that
compare events with each other come last: `bench.correlation`.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import ceql
from bench.workloads import stock

EVENTS = 1_000_000
RUNS = 5
CORE = {3: 394, 6: 1029, 9: 1923, 12: 2851, 24: 4730}  # ns per event
CORE_WITHOUT_OUTPUT = {3: 784, 6: 1426, 9: 1995, 12: 2872, 24: 6154}
CORE_DENSE = 4818
CORE_PARTITIONED = 704


def machine() -> str:
    """The processor's name, where the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def best(action: Callable[[], Any], runs: int = RUNS) -> tuple[float, Any]:
    """The shortest time of several runs, and the last result."""
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - begun)
    return min(times), result


def main() -> int:
    pa.set_cpu_count(1)
    table = stock.events(EVENTS)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    ns = 1e9 / EVENTS
    print(f"{EVENTS:,} events; {machine()}, Python {platform.python_version()}, one thread, best of {RUNS}")
    print(f"ceql {ceql.__version__}, polars {pl.__version__}, pyarrow {pa.__version__}\n")
    wrong: list[str] = []
    gains: list[float] = []

    print("Recognition of a sequence of n filtered events within 10 s, ns per event")
    print(f"{'n':>3} {'matches':>9} {'ceql':>7} {'polars':>7} {'ratio':>6} {'CORE C++':>9} {'times faster':>13}")
    for length, core in CORE.items():
        query = ceql.compile(stock.sequence(length))
        ours, result = best(lambda query=query: query.run(table).to_arrow())
        expressions = stock.filters(length)
        theirs, _ = best(lambda expressions=expressions: frame.lazy().select(expressions).collect())
        ratio = ours / theirs
        faster = core / (ours * ns)
        print(
            f"{length:>3} {result.num_rows:>9,} {ours * ns:>7.1f} {theirs * ns:>7.1f} {ratio:>6.2f} "
            f"{core:>9,} {faster:>13.0f}"
        )
        gains.append(faster)
        if ratio > 3:
            wrong.append(f"length {length}: {ratio:.2f} times polars (at most 3)")

    print("\nThe same and an event that never comes, ns per event")
    print(f"{'n':>3} {'ceql':>7} {'CORE C++':>9} {'times faster':>13}")
    for length, core in CORE_WITHOUT_OUTPUT.items():
        query = ceql.compile(stock.sequence(length, never=True))
        ours, _ = best(lambda query=query: query.run(table).to_arrow())
        print(f"{length:>3} {ours * ns:>7.1f} {core:>9,} {core / (ours * ns):>13.0f}")
        gains.append(core / (ours * ns))

    print("\nWindow times 1,000, output empty (n = 3 and an event that never comes)")
    windows = {"1 SECOND": 0.0, "10 SECONDS": 0.0, "100 SECONDS": 0.0, "1000 SECONDS": 0.0}
    for _ in range(3):  # interleaved, so that a slow spell of the machine meets all of them
        for window in windows:
            query = ceql.compile(stock.sequence(3, window, never=True))
            taken, _ = best(lambda query=query: query.run(table).to_arrow())
            windows[window] = min(windows[window] or taken, taken)
    for window, taken in windows.items():
        print(f"  {window:>13} {taken * ns:>7.1f} ns per event")
    spread = max(windows.values()) / min(windows.values()) - 1
    print(f"  spread {spread:.1%}")
    if spread > 0.15:
        wrong.append(f"time per event changes by {spread:.0%} with the window (less than 15%)")

    print("\nEnumeration, matches of 4 events")
    query = ceql.compile(stock.dense())
    counted, number = best(lambda: query.run(table).count(), 3)
    whole, rows = best(lambda: sum(batch.num_rows for batch in query.run(table).to_batches()), 3)
    per_event = (whole - counted) / (4 * rows) * 1e9
    print(f"  {rows:,} matches, {whole * ns:.0f} ns per event of the stream (CORE C++: {CORE_DENSE:,})")
    print(f"  {per_event:.1f} ns per matched event, from the graph to Arrow")
    gains.append(CORE_DENSE / (whole * ns))
    print(f"  counted on the graph: {number:,} in {counted * 1e3:.0f} ms")
    if per_event > 30 or number != rows:
        wrong.append(f"enumeration: {per_event:.1f} ns per matched event (at most 30), counted {number:,} of {rows:,}")

    print("\nPartitioned by a key of 1,000 values, ns per event")
    keys = np.random.default_rng(1).integers(0, 1000, EVENTS)
    keyed = table.append_column("key", pa.array(keys))
    query = ceql.compile(stock.sequence(3).replace(" WITHIN", " PARTITION BY key WITHIN"))
    ours, _ = best(lambda: query.run(keyed).to_arrow())
    print(f"  {ours * ns:.1f} (CORE C++: {CORE_PARTITIONED})")
    gains.append(CORE_PARTITIONED / (ours * ns))

    mean = sum(gains) / len(gains)
    print(f"\nAgainst CORE's C++: {min(gains):.0f} times faster at the least, {mean:.0f} times on average")
    if min(gains) < 10 or mean < 30:
        wrong.append(f"against CORE {min(gains):.1f} times at the least and {mean:.0f} on average (10 and 30)")
    for line in wrong:
        print(f"NOT MET: {line}")

    from bench.correlation.__main__ import main as compare_events

    return max(1 if wrong else 0, compare_events([]))


if __name__ == "__main__":
    sys.exit(main())
