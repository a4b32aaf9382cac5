"""Run a job as self-joins: `python -m bench.peers.joins_worker duckdb|polars|pyspark JOB`.

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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.pattern import Pattern, Step, literal
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


def sql(pattern: Pattern) -> str:
    """The join, for DuckDB and Spark."""
    steps = [step for step in pattern.parts if isinstance(step, Step)]
    columns = ", ".join(["position", "time", *([pattern.key] if pattern.key else [])])
    text = f"SELECT {', '.join(f'e{k}.position AS e{k}' for k in range(len(steps)))} FROM"
    for k, step in enumerate(steps):
        conditions = " AND ".join(
            [f"type IN ({', '.join(map(literal, step.types))})"]
            + [f"{attribute} {operator} {literal(value)}" for attribute, operator, value in step.conditions]
        )
        source = f"(SELECT {columns} FROM events WHERE {conditions}) e{k}"
        if k == 0:
            text += f" {source}"
            continue
        on = [f"e{k}.{pattern.key} = e0.{pattern.key}"] if pattern.key else []
        on.append(f"e{k}.position > e{k - 1}.position")
        if pattern.window is not None:
            on.append(f"e{k}.time <= e0.time + {pattern.window}")
        text += f" JOIN {source} ON {' AND '.join(on)}"
    return text


def with_duckdb(table: pa.Table, pattern: Pattern) -> Action:
    import duckdb

    base = duckdb.connect()
    base.execute("SET threads = 1")
    base.register("given", numbered(table))
    base.execute("CREATE TABLE events AS SELECT * FROM given")
    text = sql(pattern)
    return lambda: base.sql(text).to_arrow_table()


def with_polars(table: pa.Table, pattern: Pattern) -> Action:
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
    keys = [pattern.key] if pattern.key else []
    steps = [step for step in pattern.parts if isinstance(step, Step)]

    def source(k: int, step: Step) -> pl.LazyFrame:
        kinds = pl.col("type") == step.types[0] if len(step.types) == 1 else pl.col("type").is_in(step.types)
        tests = [operators[operator](pl.col(attribute), value) for attribute, operator, value in step.conditions]
        times = [pl.col("time").alias(f"t{k}")] if pattern.window is not None else []
        return frame.lazy().filter(kinds, *tests).select(pl.col("position").alias(f"e{k}"), *times, *keys)

    def action() -> pa.Table:
        found = source(0, steps[0])
        if pattern.window is not None:
            found = found.with_columns((pl.col("t0") + pattern.window).alias("until"))
        for k, step in enumerate(steps[1:], 1):
            tests = [pl.col(f"e{k}") > pl.col(f"e{k - 1}")]
            if pattern.window is not None:
                tests.append(pl.col(f"t{k}") <= pl.col("until"))
            next_step = source(k, step)
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


ENGINES = {"duckdb": with_duckdb, "polars": with_polars, "pyspark": with_pyspark}


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
