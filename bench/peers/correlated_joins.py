"""Against self-joins in polars and DuckDB that compute the very same matches, in processes of their own.

Three queries within 20 s: events A, B, C of one account, B and C about one item, which the automaton looks up; the same
with A and C about one item, which it has to check on each candidate, since B stands between them; and the rule T(x),
S(x, y), R(x, y). Each join is written in the plain way, and as one who knows what it costs would write it: with
buckets of time as a further key, so that only neighbours in time meet. Everybody has one thread, begins with the same
table in memory and ends with the positions of all matches. A join has all events before it; ceql reads them once.

`python -m bench.peers.correlated_joins WHO QUERY EVENTS RUNS` measures one and prints a line of JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import ceql
from bench.figures import Figure, median_figure
from bench.measure import Array, digest, megabytes, once, positions
from bench.peers.peer import ROOT
from bench.workloads import keyed

KEYS = 2_000
ITEMS = 10
WIDTH = 20_000  # milliseconds
SECONDS = 90.0  # for all runs
GIGABYTES = 8.0
WHO = ("ceql", "polars", "polars, buckets", "DuckDB", "DuckDB, buckets")
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


def measure(who: str, query: str, count: int, runs: int) -> dict[str, Any]:
    """Times of one, after a run that is not counted; its matches as a number and a hash."""
    table = events(query, count)
    if who == "ceql":
        action = with_ceql(query, table)
    else:
        action = (with_polars if who.startswith("polars") else with_duckdb)(query, table, who.endswith("buckets"))
    before = megabytes()
    action()
    times = [once(action) for _ in range(runs)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    rows = times[-1][2]
    walls, cpus = [wall for wall, _, _ in times], [cpu for _, cpu, _ in times]
    return {"walls": walls, "cpus": cpus, "rows": len(rows), "digest": digest(rows), "megabytes": peak - before}


def ask(who: str, query: str, count: int, runs: int) -> tuple[Figure, str]:
    """The figure of one, from a process of its own, and the hash of its matches."""
    command = [sys.executable, "-m", "bench.peers.correlated_joins", who, query, str(count), str(runs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return Figure(error=f"aborted: more than {SECONDS:.0f} s"), ""
    if done.returncode:
        return Figure(error=(done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]), ""
    found = json.loads(done.stdout.strip().splitlines()[-1])
    figure = median_figure(found["walls"], found["cpus"], [count] * runs, found["rows"], megabytes=found["megabytes"])
    return figure, found["digest"]


if __name__ == "__main__":
    pa.set_cpu_count(1)
    limit = int(GIGABYTES * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))), flush=True)
