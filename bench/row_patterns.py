"""MATCH_RECOGNIZE: patterns that make depth-first search exponential, and V shapes beside polars written by hand.

`python -m bench.row_patterns [ROWS]`, `python -m bench.row_patterns spark [ROWS]`, `python -m bench.row_patterns
matchers [ROWS]`. The depth-first matcher is that of the definition, in Python, over as many rows as it manages in a
second; V shapes by symbol are matched over ROWS rows, in turn with polars, and on Spark with `lag`, in a session that
is set as docs/spark-production.md says for batch jobs. `matchers` gives the statements, whose conditions look at rows
and neighbours, to the matcher of all other conditions, too.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import ceql

Pattern = tuple[Any, ...]  # a name; ("seq", …), ("or", …), ("rep", part, least, most), ("permute", …)
EIGHT = tuple("ABCDEFGH")
A, B = ("A",), ("B",)
PATTERNS: dict[str, tuple[str, str, Pattern]] = {
    "(A+)+ B": ("A AS x = 1, B AS x = 2", "1", ("seq", ("rep", ("rep", A, 1, None), 1, None), B)),
    "(A | A)* B": ("A AS x = 1, B AS x = 2", "1", ("seq", ("rep", ("or", A, A), 0, None), B)),
    "((A?){20}) A{20}": ("A AS x = 1", "1", ("seq", ("rep", ("rep", A, 0, 1), 20, 20), ("rep", A, 20, 20))),
    "PERMUTE(A, B, C, D, E, F, G, H)": (
        ", ".join(f"{name} AS x >= {k % 3}" for k, name in enumerate(EIGHT)),
        "any",
        ("permute", *((name,) for name in EIGHT)),
    ),
}
V_SHAPE = """
    SELECT * FROM prices MATCH_RECOGNIZE (
      PARTITION BY symbol ORDER BY ts
      MEASURES FIRST(ts) AS start, LAST(down.price) AS bottom, LAST(ts) AS finish
      AFTER MATCH SKIP TO LAST up
      PATTERN (begin down+ up+)
      DEFINE down AS price < PREV(price), up AS price > PREV(price))
"""


def values(kind: str, count: int) -> np.ndarray[Any, Any]:
    """All ones, which never lead to a B; or 0 to 2."""
    return np.ones(count, np.int64) if kind == "1" else np.random.default_rng(1).integers(0, 3, count)


class OutOfTimeError(Exception):
    pass


def depth_first(pattern: Pattern, holds: dict[str, Any], rows: int, until: float) -> int:
    """How many matches there are; all ways are tried, the preferred ones first."""

    def ways(node: Pattern, at: int) -> Iterator[int]:
        if time.perf_counter() > until:
            raise OutOfTimeError
        if len(node) == 1:
            if at < rows and holds[node[0]][at]:
                yield at + 1
        elif node[0] == "seq":
            if len(node) == 2:
                yield from ways(node[1], at)
                return
            for after in ways(node[1], at):
                yield from ways(("seq", *node[2:]), after)
        elif node[0] == "or":
            for part in node[1:]:
                yield from ways(part, at)
        elif node[0] == "permute":
            if len(node) == 1:
                yield at
            for k in range(1, len(node)):
                rest = (*node[1:k], *node[k + 1 :])
                for after in ways(node[k], at):
                    yield from ways(("permute", *rest), after) if rest else iter([after])
        else:
            _, part, least, most = node
            if most != 0:
                fewer = ("rep", part, max(0, least - 1), None if most is None else most - 1)
                for after in ways(part, at):
                    if least or after > at:
                        yield from ways(fewer, after)
            if not least:
                yield at

    found, start = 0, 0
    while start < rows:
        end = next((end for end in ways(pattern, start) if end > start), None)
        found += end is not None
        start = start + 1 if end is None else end
    return found


def defined(define: str) -> list[tuple[str, str]]:
    """Variables and their conditions."""
    pairs = (part.partition(" AS ") for part in define.split(", "))
    return [(name, condition) for name, _, condition in pairs]


def compared(x: Any, operator: str, number: str) -> Any:
    return x == int(number) if operator == "=" else x >= int(number)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = run()
    return time.perf_counter() - begin, result


def exponential(count: int = 1_000_000) -> None:
    """The patterns over `count` rows, and how far depth-first search gets in a second."""
    print(f"{'pattern':34}{'ceql':>20}{'depth-first in 1 s':>24}")
    for text, (define, kind, pattern) in PATTERNS.items():
        sql = f"SELECT * FROM t MATCH_RECOGNIZE (MEASURES COUNT(*) AS n PATTERN ({text}) DEFINE {define})"
        x = values(kind, count)
        table = pa.table({"x": x})
        ceql.match_recognize(sql, table.slice(0, 1000))
        seconds, found = timed(partial(ceql.match_recognize, sql, table))
        holds = {name: compared(x, *condition.split()[1:]) for name, condition in defined(define)}
        reached = 1
        while reached < count:
            try:
                own = depth_first(pattern, holds, reached * 2, time.perf_counter() + 1)
            except (OutOfTimeError, RecursionError):
                break
            reached *= 2
            assert own == ceql.match_recognize(sql, table.slice(0, reached)).num_rows
        print(f"{text:34}{f'{count:,} rows {seconds:.2f} s':>20}{f'{reached:,} rows':>24}   {found.num_rows:,} matches")


def prices(count: int) -> Any:
    """Rows in the order of time, of a thousand symbols."""
    import polars as pl

    rng = np.random.default_rng(1)
    symbols = np.array([f"S{k:04d}" for k in range(1000)])[rng.integers(0, 1000, count)]
    price = np.round(100 + np.cumsum(rng.standard_normal(count)) % 50, 2)
    return pl.DataFrame({"symbol": symbols, "ts": np.arange(count), "price": price})


def by_hand(frame: Any) -> Any:
    """V shapes in polars: runs of falling prices, each with the run of rising ones that follows at once."""
    import polars as pl

    column = pl.col
    return (
        frame.lazy()
        .sort("symbol", maintain_order=True)
        .with_columns(
            sign=column("price").diff().sign().over("symbol"),
            before=column("ts").shift(1).over("symbol"),
        )
        .with_columns(
            first=(column("sign") != column("sign").shift(1)).fill_null(True)
            | (column("symbol") != column("symbol").shift(1)).fill_null(True)
        )
        .with_columns(before=column("before").filter(column("first")).gather(column("first").cum_sum() - 1))
        .filter(column("first").shift(-1).fill_null(True))
        .with_columns(
            next_sign=column("sign").shift(-1), next_symbol=column("symbol").shift(-1), finish=column("ts").shift(-1)
        )
        .filter((column("sign") < 0) & (column("next_sign") > 0) & (column("symbol") == column("next_symbol")))
        .select("symbol", start="before", bottom="price", finish="finish")
        .collect()
    )  # fmt: skip


def v_shapes(count: int, rounds: int = 5) -> None:
    """ceql and polars in turn."""
    frame = prices(count)
    ratios, own, other = [], [], []
    for k in range(rounds + 1):
        mine, found = timed(lambda: ceql.match_recognize(V_SHAPE, frame))
        theirs, expected = timed(lambda: by_hand(frame))
        if k == 0:
            assert found.sort("symbol", "start").equals(expected.sort("symbol", "start")), "the matches differ"
            continue
        own.append(mine)
        other.append(theirs)
        ratios.append(mine / theirs)
    print(
        f"V shapes over {count:,} rows: ceql {statistics.median(own):.2f} s, polars {statistics.median(other):.2f} s, "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def matchers(count: int, rounds: int = 3) -> None:
    """Processor time of both matchers, in turn."""
    from ceql.row_patterns.clauses import read
    from ceql.row_patterns.dialects import dialect_of
    from ceql.row_patterns.plan import Plan

    statements = {"V shapes": (V_SHAPE, prices(count).to_arrow())}
    for text, (define, kind, _) in PATTERNS.items():
        sql = f"SELECT * FROM t MATCH_RECOGNIZE (MEASURES COUNT(*) AS n PATTERN ({text}) DEFINE {define})"
        statements[text] = sql, pa.table({"x": values(kind, count)})
    for text, (sql, table) in statements.items():
        plans = [Plan(read(sql, dialect_of(None)).found[0].clause, sql, table.column_names) for _ in range(2)]
        plans[1].__dict__["carries"] = True
        spent: list[list[float]] = [[], []]
        for k in range(rounds + 1):
            for plan, own in zip(plans, spent, strict=True):
                begin = time.process_time()
                plan.run(table.slice(0, 1000) if k == 0 else table)
                if k:
                    own.append(time.process_time() - begin)
        two, runs = map(statistics.median, spent)
        print(f"{text:34}{count:,} rows: two passes {two:.2f} s, runs {runs:.2f} s, {runs / two:.1f} times")


def on_spark(count: int, rounds: int = 3) -> None:
    """V shapes on Spark beside one `lag` over the same rows."""
    import tempfile

    from pyspark.sql import Window
    from pyspark.sql import functions as f

    import ceql.spark
    from bench.spark.parts import _noop, _timed

    spark = ceql.spark.session(app="row patterns")
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", 2**31 - 1)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/prices.parquet"
        prices(count).write_parquet(path)
        spark.read.parquet(path).createOrReplaceTempView("prices")
        lag = f.lag("price").over(Window.partitionBy("symbol").orderBy("ts"))
        walls, cpus = [], []
        for k in range(rounds + 1):
            (wall,), (cpu,) = _timed(lambda: _noop(ceql.spark.sql(spark, V_SHAPE)), 1)
            rows = spark.table("prices").withColumn("before", lag)
            (other_wall,), (other_cpu,) = _timed(partial(_noop, rows), 1)
            if k:
                walls.append(wall / other_wall)
                cpus.append(cpu / other_cpu)
                print(f"seconds of the processor (by the clock): ceql {cpu:.2f} ({wall:.2f}), lag", end=" ")
                print(f"{other_cpu:.2f} ({other_wall:.2f})")
        print(
            f"on Spark, {count:,} rows: {statistics.median(cpus):.2f} times lag in seconds of the processor, "
            f"{statistics.median(walls):.2f} by the clock"
        )
    spark.stop()


def main() -> None:
    words = sys.argv[1:]
    count = next((int(word) for word in words if word.isdigit()), 10_000_000)
    if "spark" in words:
        on_spark(count)
    elif "matchers" in words:
        matchers(min(count, 1_000_000))
    else:
        exponential(min(count, 1_000_000))
        v_shapes(count)


if __name__ == "__main__":
    main()
