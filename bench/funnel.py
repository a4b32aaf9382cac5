"""A funnel of four steps with its drop-off, beside the same in polars: `python -m bench.funnel [EVENTS]`.

For each view of each of 100,000 users: the next cart, the next payment after that, and the next delivery, as far as
they come within 30 minutes. Polars carries the next event of each step back over the events of each user. The answers
must be the same; times are processor seconds, the least of three, of which each runs in turn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import polars as pl

import ceql

USERS = 100_000
STEPS = ("View", "Cart", "Pay", "Ship")
QUERY = """SELECT v, c, p, s WHERE View AS v -> (Cart AS c -> (Pay AS p -> (Ship AS s)?)?)?
           PARTITION BY user WITHIN 30 MINUTES AFTER MATCH SKIP TO NEXT EVENT"""


def events(count: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    start = np.datetime64("2026-01-01", "ms")
    kinds = np.array(STEPS)[rng.choice(4, count, p=[0.55, 0.2, 0.15, 0.1])]
    columns = {"type": kinds, "time": start + np.arange(count), "user": rng.integers(0, USERS, count)}
    return pl.DataFrame(columns).with_columns(pl.col("type").cast(pl.Categorical)).with_row_index("row")


def by_ceql(frame: pl.DataFrame) -> pl.DataFrame:
    found: pl.DataFrame = ceql.compile(QUERY).run(frame, type="type", time="time").to_polars()
    return found.select("v", "c", "p", "s")


def by_polars(frame: pl.DataFrame) -> pl.DataFrame:
    """From the last step to the first: what comes next of a user, and what comes next of that one."""
    wide = frame.lazy().sort("user", maintain_order=True)
    wide = wide.with_columns(pl.col("row").cast(pl.Int64), until=pl.col("time"))
    carried: list[tuple[str, str]] = []
    for step, name in reversed(list(zip(STEPS[1:], "cps", strict=True))):
        at = pl.col("type") == step
        own = [("row", name), ("time", f"{name}_time")]
        wide = wide.with_columns(
            pl.when(at).then(source).backward_fill().over("user").alias(target)
            for source, target in [*own, *((known, known) for pair in carried for known in pair)]
        )
        carried.append((name, f"{name}_time"))
    found = wide.filter(pl.col("type") == "View")
    for name in "cps":
        late = pl.col(f"{name}_time") - pl.col("time") > pl.duration(minutes=30)
        found = found.with_columns(pl.when(~late).then(name).alias(name))
    return found.select(pl.col("row").alias("v"), "c", "p", "s").collect()


def cpu(asked: Callable[[pl.DataFrame], pl.DataFrame], frame: pl.DataFrame) -> tuple[float, pl.DataFrame]:
    begun = time.process_time()
    answer = asked(frame)
    return time.process_time() - begun, answer


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    frame = events(count)
    by_ceql(frame.head(1_000))  # loads what is compiled
    runs = [(cpu(by_ceql, frame), cpu(by_polars, frame)) for _ in range(3)]
    for (_, ours), (_, theirs) in runs:
        assert ours.sort("v").equals(theirs.sort("v")), "the answers differ"
    mine, peer = (min(run[k][0] for run in runs) for k in (0, 1))
    starts = len(runs[0][0][1])
    print(f"{count:,} events, {starts:,} starts: ceql {mine:.2f} s, polars {peer:.2f} s: {mine / peer:.2f} times")


if __name__ == "__main__":
    main()
