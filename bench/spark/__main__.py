"""`make bench-spark`: ratios in one run, on ten million rows in Parquet; each figure is the best of three.

Every part that needs Spark settings of its own (the number of cores) runs in a process of its own:
`python -m bench.spark PART MASTER` prints its figures as JSON.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.run import machine
from bench.spark.data import parquet_folder

ROWS = int(os.environ.get("BENCH_ROWS", 10_000_000))
FOLDER = Path(os.environ.get("BENCH_FOLDER", Path.home() / ".cache" / "ceql-bench"))


def part(name: str, master: str = "local[2]") -> Any:
    """Run a part in a process of its own."""
    command = [sys.executable, "-m", "bench.spark", name, master]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


class Verdicts:
    """Figures against what they must be at least or at most."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def show(self, what: str, ratio: float, most: float | None = None, least: float | None = None) -> None:
        bound = f"at most {most}" if most is not None else f"at least {least}" if least is not None else ""
        held = (most is None or ratio <= most) and (least is None or ratio >= least)
        print(f"  {what:<74} {ratio:6.2f}  {bound}{'' if held else '  MISSED'}", flush=True)
        if not held:
            self.missed.append(what)


def main() -> int:
    if len(sys.argv) > 1:
        from bench.spark import parts

        result = getattr(parts, sys.argv[1])(sys.argv[2], parquet_folder(FOLDER, ROWS))
        print(json.dumps(result))
        return 0
    parquet_folder(FOLDER, ROWS)
    verdicts = Verdicts()
    print(f"{ROWS:,} rows; {machine()}, {os.cpu_count()} cores, Python {platform.python_version()}", flush=True)

    figures = part("batch")
    print("\nBatch, local[2]: million rows per second, matches")
    for name, (seconds, matches) in figures.items():
        print(f"  {name:<74} {ROWS / seconds / 1e6:6.2f}  {matches:>11,}")
    ratio = {name: seconds for name, (seconds, _) in figures.items()}
    print("Ratios of time")
    verdicts.show("10% relevant, to the scan with the same filters", ratio["10%"] / ratio["10%, scan"], most=2)
    verdicts.show("all relevant, to the identity on the same plan", ratio["all"] / ratio["all, identity"], most=1.3)
    verdicts.show("all relevant, 100,000 keys to 10", ratio["all, 100,000 keys"] / ratio["all, 10 keys"], most=1.5)
    verdicts.show("10% relevant, 100,000 keys to 10", ratio["10%, 100,000 keys"] / ratio["10%, 10 keys"], most=1.5)
    verdicts.show("no keys: one task to chunks of time", ratio["no keys, one task"] / ratio["no keys, chunks"])

    print("\nTwo cores to one: times as fast")
    one, two = part("cores", "local[1]"), part("cores", "local[2]")
    for name in one:
        verdicts.show(name, one[name] / two[name], least=1.7)

    streaming = part("streaming")
    print("\nStreaming, 10,000 keys, local[2]: million rows per second in the steady state")
    for name, rate in streaming.items():
        print(f"  {name:<74} {rate:6.3f}")
    verdicts.show("ceql to a state for each key", streaming["ceql"] / streaming["a state for each key"], least=5)
    older = streaming["ceql on applyInPandasWithState"]
    verdicts.show("transformWithState to applyInPandasWithState", streaming["ceql"] / older)

    print("\nAgainst what one would write: 500,000 rows, a sequence of n by key within 10 seconds; times as fast")
    for length, row in part("rivals").items():
        ours = row["ceql"]
        print(f"  n = {length}: {row['matches']:,} matches; ceql {ours:.2f} s", end="")
        for name, called in (("join", "self-join"), ("loop", "Python loop by key")):
            print(f"; {called} {row[name]:.2f} s ({row[name] / ours:.1f})", end="")
        print(flush=True)
    print("\nMemory: the most that a Python worker had, in MB; rows or matches; seconds")
    for name, (megabytes, size, seconds) in part("memory").items():
        print(f"  {name:<74} {megabytes:6.0f}  {size:>11,}  {seconds:6.1f}")
    for missed in verdicts.missed:
        print(f"MISSED: {missed}")
    return 1 if verdicts.missed else 0


if __name__ == "__main__":
    sys.exit(main())
