"""On Spark, two cores: rows per second against Spark alone, against cores, and against what one would write.

Rows in Parquet; sequences of three by key. The yardsticks run in the same session: the same filters in Spark SQL (for
a query that wants one row in ten), and the same plan with a function that gives back what it gets, which is Arrow's
transport to Python and back (for a query that wants them all).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bench.figures import Figure, Figures, Place, Task, median_figure
from bench.page import Page, number, rate_cell
from bench.peers.peer import FOLDER, ROOT
from bench.plot import Panel
from bench.settings import Settings

TITLE = "Spark"
ROWS_PER_EVENT = 2  # rows on Spark for each event of the other experiments
BATCH = {
    "10%": "one row in ten is relevant, 1,000 keys",
    "10%, scan": "the same filters in Spark SQL",
    "all": "all rows are relevant, 1,000 keys",
    "all, identity": "the same plan, identity in Python",
    "all, 10 keys": "all rows, 10 keys",
    "all, 100,000 keys": "all rows, 100,000 keys",
    "10%, 10 keys": "one row in ten, 10 keys",
    "10%, 100,000 keys": "one row in ten, 100,000 keys",
    "no keys, chunks": "all rows, no keys, chunks of time",
    "no keys, one task": "all rows, no keys, one task",
}
CORES = ("all relevant, 1,000 keys", "10% relevant, 1,000 keys", "all relevant, no keys, 8 chunks")
STREAMING = ("ceql", "ceql on applyInPandasWithState", "a state for each key")
RIVALS = ("ceql", "join", "loop")
LENGTHS = (2, 3, 4)
SOME = 500_000  # rows of the comparison with hand-written code


def tasks(settings: Settings) -> Iterator[Task]:
    if settings.quick:
        return
    rows = settings.events * ROWS_PER_EVENT

    def batch() -> list[Figure]:
        found = _part("batch", "local[2]", rows)
        return [_figure(found[name][0], rows, found[name][1]) for name in BATCH]

    yield Task(tuple(Place("batch", "local[2]", name) for name in BATCH), batch)
    for number_of_cores in (1, 2):

        def cores(number_of_cores: int = number_of_cores) -> list[Figure]:
            found = _part("cores", f"local[{number_of_cores}]", rows)
            return [_figure(found[name], rows) for name in CORES]

        yield Task(tuple(Place("cores", name, number_of_cores) for name in CORES), cores)

    def streaming() -> list[Figure]:
        found = _part("streaming", "local[2]", rows)
        return [_steady(*found[name]) for name in STREAMING]

    yield Task(tuple(Place("streaming", name, "10,000 keys") for name in STREAMING), streaming)

    def rivals() -> list[Figure]:
        found = _part("rivals", "local[2]", max(rows, SOME))
        return [_figure(row[name], SOME, row["matches"]) for row in found.values() for name in RIVALS]

    yield Task(tuple(Place("rivals", name, length) for length in LENGTHS for name in RIVALS), rivals)


def _part(name: str, master: str, rows: int) -> Any:
    command = [sys.executable, "-m", "bench.spark", name, master, str(FOLDER / "spark"), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{name} on Spark: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _figure(timed: tuple[list[float], list[float]], rows: int, matches: int = 0) -> Figure:
    walls, cpus = timed
    return median_figure(walls, cpus, [rows] * len(walls), matches)


def _steady(rows: float, *seconds: float) -> Figure:
    return median_figure(list(seconds), [0.0] * len(seconds), [int(rows)] * len(seconds))


def show(settings: Settings, figures: Figures, page: Page) -> None:
    if settings.quick:
        return
    rows = settings.events * ROWS_PER_EVENT
    page.text(f"{__doc__.split(chr(10), 2)[2].strip()} {rows:,} rows.")
    page.title("Batch: rows per second · ns CPU (JVM and Python) · spread")
    batch = {name: figures.get("batch", "local[2]", name) for name in BATCH}
    page.table(
        ["", "rows per second", "matches"],
        [[BATCH[name], rate_cell(f), f.matches if f and f.matches else ""] for name, f in batch.items()],
    )
    for name, base, most, said in (
        ("10%", "10%, scan", 2.0, "one row in ten, to the same filters in Spark SQL"),
        ("all", "all, identity", 1.3, "all rows, to the identity on the same plan"),
        ("all, 100,000 keys", "all, 10 keys", 1.5, "all rows, 100,000 keys to 10"),
        ("10%, 100,000 keys", "10%, 10 keys", 1.5, "one row in ten, 100,000 keys to 10"),
    ):
        ours, theirs = batch[name], batch[base]
        if ours and theirs:
            ratio = ours.wall / theirs.wall
            page.text(f"- Time of {said}: {ratio:.2f} times (at most {most:g} asked).")
            page.check(ratio <= most, f"{said}: {ratio:.2f} times (at most {most:g})")
    page.title("Cores")
    rows_: list[list[object]] = []
    curves = {}
    for name in CORES:
        one, two = figures.get("cores", name, 1), figures.get("cores", name, 2)
        if one and two:
            rows_.append([name, rate_cell(one), rate_cell(two), one.wall / two.wall])
            curves[name] = [(1.0, one.rate), (2.0, two.rate)]
            page.check(
                one.wall / two.wall >= 1.7, f"{name}: {one.wall / two.wall:.2f} times with two cores (1.7 asked)"
            )
    page.table(["rows per second", "one core", "two cores", "times"], rows_)
    page.plot(
        "Rows per second by cores", [Panel("batch", "cores", "rows per second", curves, log_y=False, ticks=[1, 2])], 1
    )
    page.title("Streaming, 10,000 keys: rows per second in the steady state")
    steady = {name: figures.get("streaming", name, "10,000 keys") for name in STREAMING}
    page.table(["", "rows per second", "spread"], [[n, f.rate, f"{f.spread:.0%}"] for n, f in steady.items() if f])
    page.title(f"Against a self-join and a loop by group, {SOME:,} rows, within 10 seconds")
    rows_ = []
    for length in LENGTHS:
        found = [figures.get("rivals", name, length) for name in RIVALS]
        ours = found[0]
        if ours:
            times = [number(f.wall / ours.wall) if f else "" for f in found[1:]]
            rows_.append([f"sequence of {length}", ours.matches, *(rate_cell(f) for f in found), *times])
            for name, f in zip(RIVALS[1:], found[1:], strict=True):
                if f:
                    page.check(f.wall >= ours.wall, f"sequence of {length}: {f.wall / ours.wall:.2f} times the {name}")
    page.table(["", "matches", "ceql", "self-join", "loop by group", "times join", "times loop"], rows_)
