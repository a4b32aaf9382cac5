"""Against self-joins in polars and DuckDB that compute the very same matches, in processes of their own.

Three queries within 20 s: events A, B, C of one account, B and C about one item, which the automaton looks up; the same
with A and C about one item, which it has to check on each candidate, since B stands between them; and the rule T(x),
S(x, y), R(x, y). Each join is written in the plain way, and as one who knows what it costs would write it: with
buckets of time as a further key, so that only neighbours in time meet. Everybody has one thread, begins with the same
table in memory and ends with the positions of all matches. A join has all events before it; ceql reads them once.

`python -m bench.correlation.rivals WHO QUERY EVENTS ...` measures one and prints a line of JSON for each size.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import ceql
from bench.correlation.measure import RUNS, Array, Report, Timing, digest, once, positions, scaled
from bench.workloads import keyed

SIZES = (10_000, 100_000, 1_000_000)
KEYS = 2_000
ITEMS = 10
WIDTH = 20_000  # milliseconds
SECONDS = 60.0
MEGABYTES = 6_000.0
LONG = 8.0  # seconds: what takes longer is not repeated
RIVALS = ("polars", "polars, buckets", "DuckDB", "DuckDB, buckets")
VARIABLES = {"looked up": ["x", "y", "z"], "checked": ["x", "y", "z"], "rule": ["T", "S", "R"]}
FIRST = {"looked up": "y", "checked": "x"}  # whose item must be that of z
TITLES = {
    "looked up": "A ; B ; C of one account within 20 s, B and C about one item",
    "checked": "A ; B ; C of one account within 20 s, A and C about one item",
    "rule": f"{keyed.RULE} within 20 s",
}


def events(query: str, count: int) -> pa.Table:
    """Columns: type, account or x, item or y, time."""
    return (keyed.triples if query == "rule" else keyed.payments)(count, KEYS, ITEMS)


def with_ceql(query: str, table: pa.Table) -> Callable[[], Array]:
    if query == "rule":
        compiled = ceql.rule(keyed.RULE, attributes=keyed.RELATIONS, within=f"{WIDTH} milliseconds")
    else:
        formula = f"A AS x ; B AS y ; C AS z FILTER {FIRST[query]}.item = z.item PARTITION BY [account]"
        compiled = ceql.compile(f"SELECT x, y, z WHERE ({formula}) WITHIN {WIDTH} MILLISECONDS")
    return lambda: positions(compiled.run(table).to_arrow(), VARIABLES[query])


def with_polars(query: str, table: pa.Table, buckets: bool) -> Callable[[], Array]:
    import polars as pl

    frame = pl.from_arrow(table.set_column(3, "time", table["time"].cast(pa.int64())))
    assert isinstance(frame, pl.DataFrame)
    key, item = frame.columns[1:3]

    def events_of(kind: str, name: str, both_sides: bool | None) -> pl.LazyFrame:
        """The events of a type; with buckets, in their own (None), or also in those that they can be reached from."""
        made = frame.lazy().with_row_index(name).filter(pl.col("type") == kind)
        made = made.select(pl.col(name).cast(pl.Int64), key, item, pl.col("time").alias(f"t{name}"))
        own = pl.col(f"t{name}") // WIDTH
        if not buckets:
            return made
        if both_sides is None:
            return made.with_columns(own.alias("bucket"))
        steps = (-1, 0, 1) if both_sides else (-1, 0)
        return pl.concat([made.with_columns((own + step).alias("bucket")) for step in steps])

    by = [key, "bucket"] if buckets else [key]

    def sequence() -> Array:
        x, y, z = events_of("A", "x", None), events_of("B", "y", False), events_of("C", "z", False)
        if FIRST[query] == "x":
            y = y.drop(item)
        else:
            x = x.drop(item)
        pairs = x.join(y, on=by).filter(pl.col("ty") > pl.col("tx"), pl.col("ty") - pl.col("tx") <= WIDTH)
        threes = pairs.join(z, on=[*by, item])
        found = threes.filter(pl.col("tz") > pl.col("ty"), pl.col("tz") - pl.col("tx") <= WIDTH)
        return np.asarray(found.select("x", "y", "z").collect().to_numpy())

    def conjunctive() -> Array:
        s, r, t = events_of("S", "s", None), events_of("R", "r", True), events_of("T", "t", True)
        pairs = s.join(r, on=[*by, item]).filter((pl.col("ts") - pl.col("tr")).abs() <= WIDTH)
        threes = pairs.join(t.drop(item), on=by)
        near = ((pl.col("tt") - pl.col("ts")).abs() <= WIDTH) & ((pl.col("tt") - pl.col("tr")).abs() <= WIDTH)
        return np.asarray(threes.filter(near).select("t", "s", "r").collect().to_numpy())

    return conjunctive if query == "rule" else sequence


def with_duckdb(query: str, table: pa.Table, buckets: bool) -> Callable[[], Array]:
    import duckdb

    base = duckdb.connect()
    base.execute("SET threads = 1")
    numbered = table.append_column("position", pa.array(np.arange(len(table))))
    numbered = numbered.set_column(3, "time", numbered["time"].cast(pa.int64()))
    base.register("given", numbered)
    base.execute("CREATE TABLE events AS SELECT * FROM given")
    base.execute(f"CREATE MACRO bucket(t) AS t // {WIDTH}")

    def source(kind: str, steps: tuple[int, ...]) -> str:
        if not buckets:
            return f"(SELECT * FROM events WHERE type = '{kind}')"
        each = " UNION ALL ".join(
            f"SELECT *, bucket(time) + {step} AS bucket FROM events WHERE type = '{kind}'" for step in steps
        )
        return f"({each})"

    extra = " AND {0}.bucket = {1}.bucket" if buckets else ""
    if query != "rule":
        text = f"""
            SELECT x.position AS x, y.position AS y, z.position AS z
            FROM {source("A", (0,))} x
            JOIN {source("B", (-1, 0))} y
              ON x.account = y.account{extra.format("x", "y")} AND y.time > x.time AND y.time <= x.time + {WIDTH}
            JOIN {source("C", (-1, 0))} z
              ON x.account = z.account AND {FIRST[query]}.item = z.item{extra.format("x", "z")}
                AND z.time > y.time AND z.time <= x.time + {WIDTH}"""
    else:
        text = f"""
            SELECT t.position AS t, s.position AS s, r.position AS r
            FROM {source("S", (0,))} s
            JOIN {source("R", (-1, 0, 1))} r
              ON s.x = r.x AND s.y = r.y{extra.format("s", "r")} AND abs(s.time - r.time) <= {WIDTH}
            JOIN {source("T", (-1, 0, 1))} t
              ON s.x = t.x{extra.format("s", "t")}
                AND abs(t.time - s.time) <= {WIDTH} AND abs(t.time - r.time) <= {WIDTH}"""

    def action() -> Array:
        found = base.execute(text).fetchnumpy()
        return np.stack([np.asarray(column) for column in found.values()], axis=1)

    return action


def measure(who: str, query: str, count: int) -> dict[str, Any]:
    """Figures of one; a first round warms up, unless it took long: then it is all there is."""
    table = events(query, count)
    buckets = who.endswith("buckets")
    if who == "ceql":
        action = with_ceql(query, table)
    else:
        action = (with_polars if who.startswith("polars") else with_duckdb)(query, table, buckets)
    wall, cpu, rows = once(action)
    walls, cpus = [wall], [cpu]
    if wall < LONG or who == "ceql":
        walls, cpus = [], []
        for _ in range(RUNS):
            wall, cpu, rows = once(action)
            walls.append(wall)
            cpus.append(cpu)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"walls": walls, "cpus": cpus, "rows": len(rows), "digest": digest(rows), "peak": peak}


def limited(who: str, query: str, sizes: list[int]) -> list[dict[str, Any] | str]:
    """For each size the figures, or why there are none; what is too much for one is not tried with more."""
    command = [sys.executable, "-m", "bench.correlation.rivals", who, query, *map(str, sizes)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        process = subprocess.Popen(command, stdout=out, stderr=error)
        begun, why, written = time.monotonic(), "", 0
        while process.poll() is None and not why:
            time.sleep(0.05)
            if os.fstat(out.fileno()).st_size > written:  # a size is done
                begun, written = time.monotonic(), os.fstat(out.fileno()).st_size
            if time.monotonic() - begun > SECONDS:
                why = f"more than {SECONDS:.0f} s"
            elif _resident(process.pid) > MEGABYTES:
                why = f"more than {MEGABYTES / 1e3:g} GB"
        if why:
            process.kill()
        process.wait()
        out.seek(0)
        error.seek(0)
        figures: list[dict[str, Any] | str] = [json.loads(line) for line in out if line.endswith("\n")]
        last = (error.read().strip().splitlines() or [f"exit code {process.returncode}"])[-1]
    missing = len(sizes) - len(figures)
    return figures + [why or f"failed: {last[:80]}"] * missing


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):  # it has ended
        return 0.0
    return pages * resource.getpagesize() / 1e6


def run(report: Report) -> None:
    sizes = list(dict.fromkeys(scaled(size) for size in SIZES))
    for query, title in TITLES.items():
        report.title(f"Against self-joins: {title}")
        header = ("  events", "  matches", "   ms, wall", "spread", "    ms, CPU", "peak MB", "times ceql's CPU")
        report.table("who             ", *header)
        figures = {who: limited(who, query, sizes) for who in ("ceql", *RIVALS)}
        for k, size in enumerate(sizes):
            ours = figures["ceql"][k]
            for who, found in figures.items():
                theirs = found[k]
                if isinstance(theirs, str):
                    report.row(who, size, "skipped", *[""] * 4, theirs)
                    report.check(who != "ceql", f"{query}, {size:,} events: ceql {theirs}")
                    continue
                _row(report, who, size, theirs, ours)
                same = isinstance(ours, str) or all(ours[part] == theirs[part] for part in ("rows", "digest"))
                report.check(same, f"{query}, {size:,} events: {who} has other matches")
    report.note(
        "Matches are compared by their number and by a hash of the sorted rows. Medians of three after a first run, "
        f"which is the only one (no spread) where it takes more than {LONG:.0f} s; ratios are of CPU time. Peak memory "
        "is the whole process's, with its libraries and the events."
    )


def _row(report: Report, who: str, size: int, figures: dict[str, Any], ours: dict[str, Any] | str) -> None:
    timing = Timing.of(figures["walls"], figures["cpus"])
    spread = timing.shown_spread if len(figures["walls"]) > 1 else "-"
    ratio = "" if isinstance(ours, str) else f"{timing.cpu / Timing.of(ours['walls'], ours['cpus']).cpu:.2f}"
    wall, cpu = timing.wall * 1e3, timing.cpu * 1e3
    report.row(who, size, figures["rows"], wall, spread, cpu, int(figures["peak"]), ratio)


if __name__ == "__main__":
    pa.set_cpu_count(1)
    for size in sys.argv[3:]:
        print(json.dumps(measure(sys.argv[1], sys.argv[2], int(size))), flush=True)
