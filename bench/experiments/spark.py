"""On Spark, two cores: rows per second against Spark alone, against cores, and against what one would write.

Rows in Parquet; sequences of three by key. The yardsticks run in the same session: the same filters in Spark SQL (for
a query that wants one row in ten), and the same plan with a function that gives back what it gets, which is Arrow's
transport to Python and back (for a query that wants them all).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
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
    "10%, identity": "the same plan, identity in Python",
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
STREAMING = {
    "ceql": "ceql",
    "nothing": "the same plan, the step does nothing",
    "states": "the same plan, the step reads and writes states of that size",
}
OTHERS = ("ceql on applyInPandasWithState", "a state for each key")
SIZES = (50_000, 200_000)  # rows of a micro-batch
STEPS = ("packing rows", "reading states", "recognition", "writing states")
LEAST = {50_000: 0.15e6, 200_000: 0.5e6}  # rows per second that are asked for
RIVALS = ("ceql", "join", "loop")
COMPARED = {"compared": "join", "neighbours": "lag"}
SKEW = ("no skew", "by key", "by time")
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
        figures = [_steady(size, found[str(size)][way], found[str(size)]) for size in SIZES for way in STREAMING]
        most = found[str(max(SIZES))]
        return figures + [_steady(max(SIZES), most[way], most) for way in OTHERS]

    places = [Place("streaming", way, size) for size in SIZES for way in STREAMING]
    yield Task((*places, *(Place("streaming", way, max(SIZES)) for way in OTHERS)), streaming)

    def rivals() -> list[Figure]:
        found = _part("rivals", "local[2]", max(rows, SOME))
        return [_figure(row[name], SOME, row["matches"]) for row in found.values() for name in RIVALS]

    yield Task(tuple(Place("rivals", name, length) for length in LENGTHS for name in RIVALS), rivals)

    def others() -> list[Figure]:
        found = _part("others", "local[2]", rows)
        ways = [(found[what], name) for what, rival in COMPARED.items() for name in ("ceql", rival)]
        return [_figure(row[name], rows, row["matches"]) for row, name in ways]

    yield Task(tuple(Place("others", n, what) for what, rival in COMPARED.items() for n in ("ceql", rival)), others)

    def skew() -> list[Figure]:
        found = _part("skew", "local[2]", rows)
        return [_figure(found[name], rows) for name in SKEW]

    yield Task(tuple(Place("skew", name, "half of all rows") for name in SKEW), skew)


def _part(name: str, master: str, rows: int) -> Any:
    command = [sys.executable, "-m", "bench.spark", name, master, str(FOLDER / "spark"), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{name} on Spark: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _figure(timed: tuple[list[float], list[float]], rows: int, matches: int = 0) -> Figure:
    walls, cpus = timed
    return median_figure(walls, cpus, [rows] * len(walls), matches)


def _steady(rows: int, timed: dict[str, list[float]], all_: dict[str, Any]) -> Figure:
    seconds = timed["steady"]
    figure = median_figure(seconds, [0.0] * len(seconds), [rows] * len(seconds))
    more = {"first": timed["first"][0], "bytes": all_["state bytes"], **all_["python"]}
    if timed["idle"]:
        more["idle"] = statistics.median(timed["idle"])
    return replace(figure, more=more)


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
        ("10%", "10%, scan", 1.5, "one row in ten, to the same filters in Spark SQL"),
        ("all", "all, identity", 1.2, "all rows, to the identity on the same plan"),
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
    _show_streaming(figures, page)
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
    page.title(f"Against a self-join and lag, {rows:,} rows")
    rows_ = []
    for what, rival in COMPARED.items():
        ours, theirs = figures.get("others", "ceql", what), figures.get("others", rival, what)
        if ours and theirs:
            ahead = theirs.wall / ours.wall
            rows_.append([f"{what}, against {rival}", ours.matches, rate_cell(ours), rate_cell(theirs), number(ahead)])
            if what == "compared":
                page.check(ahead >= 3, f"events compared: {ahead:.2f} times ahead of the self-join (3 asked)")
    page.table(["", "matches", "ceql", "Spark SQL", "times"], rows_)
    page.title("A key that half of all rows have, eight tasks")
    page.table(["", "rows per second"], [[n, rate_cell(figures.get("skew", n, "half of all rows"))] for n in SKEW])


def _show_streaming(figures: Figures, page: Page) -> None:
    page.title("Streaming, 10,000 keys, by rows of a micro-batch")
    page.text(
        "Rows per second in the steady state. What Spark itself takes is shown by the same plan with less in its "
        "stateful step: nothing, or states that are read and written with nothing recognised."
    )
    rows: list[list[object]] = []
    for way, said in {**STREAMING, **{name: name for name in OTHERS}}.items():
        found = [figures.get("streaming", way, size) for size in SIZES]
        rows.append([said, *(f"{f.rate:,.0f} · {f.spread:.0%}" if f else "" for f in found)])
    page.table(["rows per second · spread", *(f"{size:,}" for size in SIZES)], rows)
    ours = {size: figures.get("streaming", "ceql", size) for size in SIZES}
    rows = []
    for said, name, unit in (
        ("first micro-batch, s", "first", 1.0),
        ("without rows, s", "idle", 1.0),
        ("states, MB", "bytes", 1e-6),
        *((f"Python: {step}, s of the processor", step, 1.0) for step in STEPS),
    ):
        rows.append([said, *(f"{f.more[name] * unit:.3g}" if f and name in f.more else "" for f in ours.values())])
    page.table(["ceql, one micro-batch", *(f"{size:,}" for size in SIZES)], rows)
    for size, f in ours.items():
        if f:
            page.check(f.rate >= LEAST[size], f"{size:,} rows: {f.rate:,.0f} per second ({LEAST[size]:,.0f} asked)")
            idle = f.more.get("idle", 0.0)
            page.check(idle < 0.5, f"{size:,} rows: {idle:.2f} s for a micro-batch without rows (0.5)")
            page.check(f.more["first"] < 5, f"{size:,} rows: {f.more['first']:.1f} s for the first (5)")
