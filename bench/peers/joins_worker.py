"""Run a job as self-joins: `python -m bench.peers.joins_worker duckdb|polars|pyspark JOB`, or `"duckdb, buckets"`.

The result is a table of the positions of all matches, in memory. A join reads all events whatever `seconds` says; one
that is not done a minute after is given up. A first run is not counted, unless it took very long: then it is all there
is.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.pattern import Pattern, Step, compared, literal
from bench.peers.peer import PATIENCE, Run
from bench.peers.worker import Asked, Clock, answer, asked, at_most, settled

GIGABYTES = 6.0
WARM_UP = 1000  # events
LONG = 15.0  # seconds

Action = Callable[[], pa.Table]


def numbered(table: pa.Table) -> pa.Table:
    """With the position of each event, and times as numbers."""
    place = table.column_names.index("time")
    table = table.set_column(place, "time", table["time"].cast(pa.int64()))
    return table.append_column("position", pa.array(np.arange(table.num_rows)))


def named(pattern: Pattern) -> list[str]:
    """The key and what is compared: the columns that joins need besides position and time."""
    keys = [pattern.key] if pattern.key else []
    values = {name for step in pattern.steps for own, _, _, its, _ in step.against for name in (own, its)}
    return keys + sorted(values.difference(keys))


def pieces(k: int) -> tuple[int, ...]:
    """Where step number k is met: in its own bucket, and, but for the first, in the one before."""
    return (0, -1) if k else (0,)


def join_order(steps: list[Step]) -> list[int]:
    """The first step, then always the one with most comparisons with those before: what DuckDB finds by itself."""
    pairs = [(k, other) for k, step in enumerate(steps) for _, _, other, _, _ in step.against]
    order, left = [0], list(range(1, len(steps)))
    while left:
        linked = {k: sum({k, j} == {*pair} for pair in pairs for j in order) for k in left}
        order.append(max(left, key=lambda k: (linked[k], -k)))
        left.remove(order[-1])
    return order


def sql(pattern: Pattern, buckets: bool = False) -> str:
    """The join, for DuckDB and Spark."""
    steps = [step for step in pattern.parts if isinstance(step, Step)]
    columns = ", ".join(["position", "time", *named(pattern)])
    text = f"SELECT {', '.join(f'e{k}.position AS e{k}' for k in range(len(steps)))} FROM"
    for k, step in enumerate(steps):
        conditions = " AND ".join(
            [f"type IN ({', '.join(map(literal, step.types))})"]
            + [f"{attribute} {operator} {literal(value)}" for attribute, operator, value in step.conditions]
        )
        selects = [
            f"SELECT {columns}{f', time // {pattern.window} + {piece} AS bucket' if buckets else ''} "
            f"FROM events WHERE {conditions}"
            for piece in (pieces(k) if buckets else (0,))
        ]
        source = f"({' UNION ALL '.join(selects)}) e{k}"
        if k == 0:
            text += f" {source}"
            continue
        on = [f"e{k}.{pattern.key} = e0.{pattern.key}"] if pattern.key else []
        if buckets:
            on.append(f"e{k}.bucket = e0.bucket")
        on.append(f"e{k}.position > e{k - 1}.position")
        if pattern.window is not None:
            on.append(f"e{k}.time <= e0.time + {pattern.window}")
            if pattern.compares and k > 1:  # it follows, but without it DuckDB may join these two over all of time
                on.append(f"e{k}.time <= e{k - 1}.time + {pattern.window}")
        on += compared(k, step)
        text += f" JOIN {source} ON {' AND '.join(on)}"
    return text


def with_duckdb(table: pa.Table, pattern: Pattern, buckets: bool = False) -> Action:
    import duckdb

    base = duckdb.connect()
    base.execute("SET threads = 1")
    base.register("given", numbered(table))
    base.execute("CREATE TABLE events AS SELECT * FROM given")
    text = sql(pattern, buckets)
    return lambda: base.sql(text).to_arrow_table()


def with_polars(table: pa.Table, pattern: Pattern, buckets: bool = False) -> Action:
    import polars as pl

    frame = pl.from_arrow(numbered(table))
    assert isinstance(frame, pl.DataFrame)
    operators: dict[str, Callable[[pl.Expr, Any], pl.Expr]] = {
        "=": pl.Expr.eq,
        ">": pl.Expr.gt,
        "<": pl.Expr.lt,
        ">=": pl.Expr.ge,
        "<=": pl.Expr.le,
    }
    keys = [*([pattern.key] if pattern.key else []), *(["bucket"] if buckets else [])]
    values = [name for name in named(pattern) if name != pattern.key]
    steps = [step for step in pattern.parts if isinstance(step, Step)]

    def source(k: int, step: Step) -> pl.LazyFrame:
        kinds = pl.col("type") == step.types[0] if len(step.types) == 1 else pl.col("type").is_in(step.types)
        tests = [operators[operator](pl.col(attribute), value) for attribute, operator, value in step.conditions]
        times = [pl.col("time").alias(f"t{k}")] if pattern.window is not None else []
        own = [pl.col("position").alias(f"e{k}"), *times, *(pl.col(name).alias(f"{name}{k}") for name in values)]
        made = frame.lazy().filter(kinds, *tests)
        if not buckets:
            return made.select(*own, *keys)
        bucket = pl.col("time") // pattern.window
        return pl.concat([made.with_columns(bucket=bucket + piece).select(*own, *keys) for piece in pieces(k)])

    def compared_with(k: int, other: int) -> list[pl.Expr]:
        """The comparisons of step k with that earlier step."""
        return [
            operators[operator](
                pl.col(f"{own}{k}"), pl.col(f"{its}{other}") + added if added else pl.col(f"{its}{other}")
            )
            for own, operator, with_step, its, added in steps[k].against
            if with_step == other
        ]

    order = join_order(steps)

    def action() -> pa.Table:
        found = source(0, steps[0])
        if pattern.window is not None:
            found = found.with_columns((pl.col("t0") + pattern.window).alias("until"))
        for at, k in enumerate(order[1:], 1):
            joined, tests = order[:at], []
            below, above = max(j for j in joined if j < k), min((j for j in joined if j > k), default=None)
            tests.append(pl.col(f"e{k}") > pl.col(f"e{below}"))
            if above is not None:
                tests.append(pl.col(f"e{k}") < pl.col(f"e{above}"))
            elif pattern.window is not None:
                tests.append(pl.col(f"t{k}") <= pl.col("until"))
            tests += [test for j in joined for test in (*compared_with(k, j), *compared_with(j, k))]
            next_step = source(k, steps[k])
            if keys:
                found = found.join(next_step, on=keys).filter(*tests)
            else:
                found = found.join_where(next_step, *tests)
        return found.select([f"e{k}" for k in range(len(steps))]).collect().to_arrow()

    return action


def with_pyspark(table: pa.Table, pattern: Pattern) -> Action:
    from ceql.spark import session

    settings = {"spark.sql.shuffle.partitions": "1", "spark.driver.memory": "4g", "spark.driver.maxResultSize": "0"}
    spark = session("local[1]", config=settings)
    frame = spark.createDataFrame(numbered(table)).cache()
    frame.count()
    frame.createOrReplaceTempView("events")
    text = sql(pattern)
    return lambda: spark.sql(text).toArrow()


ENGINES: dict[str, Callable[[pa.Table, Pattern], Action]] = {
    "duckdb": with_duckdb,
    "duckdb, buckets": partial(with_duckdb, buckets=True),
    "polars": with_polars,
    "polars, buckets": partial(with_polars, buckets=True),
    "pyspark": with_pyspark,
}


def children() -> float:
    """CPU seconds of the processes that this one has started: Spark's Java."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            with suppress(OSError):  # it has ended
                fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
                total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def give_up(seconds: float) -> None:
    answer(Run(error=f"aborted: not done after {seconds:.0f} s"))
    os._exit(1)


def main(engine: str, job: Asked) -> None:
    if engine == "pyspark" and job.memory:
        answer(Run(error="not measured"))
        return
    if engine != "pyspark":
        at_most(GIGABYTES)
    ENGINES[engine](job.table.slice(0, WARM_UP), job.pattern)()
    action = ENGINES[engine](job.table, job.pattern)
    first = run(action, job)
    if first.wall > LONG:
        answer(first)
        return
    for _ in range(job.runs):
        answer(run(action, job))


def run(action: Action, job: Asked) -> Run:
    before = settled()
    limit = threading.Timer(job.seconds + PATIENCE, give_up, [job.seconds + PATIENCE])
    limit.daemon = True
    limit.start()
    theirs = children()
    clock = Clock()
    found = action()
    wall, cpu = clock()
    cpu += children() - theirs
    limit.cancel()
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6 - before if job.memory else 0.0
    last = found.column(found.num_columns - 1)
    return Run(job.table.num_rows, wall, cpu, found.num_rows, pc.count_distinct(last).as_py(), growth)


if __name__ == "__main__":
    main(sys.argv[1], asked(sys.argv[2]))
