"""Random statements with MATCH_RECOGNIZE on Spark, many of them in one job.

`python tests/spark/row_pattern_batches.py 600`, with `tests/helpers` on PYTHONPATH, runs for so many seconds and tells
how many statements there were. Each statement's rows are text with its number, and their union is what one job gives.
They are compared with those of backtracking by the definition.
"""

from __future__ import annotations

import json
import random
import sys
import time
from functools import reduce
from typing import TYPE_CHECKING, Any

import ceql
import ceql.spark
from row_pattern_cases import Case, draw_case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "ts long, g long, k string, price long"


def check_together(spark: SparkSession, cases: list[Case]) -> int:
    """Compares the rows of some statements with those by the definition; how many statements ran."""
    from pyspark.sql import functions as f

    parts: list[DataFrame] = []
    expected: dict[int, list[str]] = {}
    for number, case in enumerate(cases):
        if case.expected is None:  # an error would end the job of all
            continue
        rows = [tuple(row[name] for name in ("ts", "g", "k", "price")) for row in case.rows]
        spark.createDataFrame(rows, SCHEMA).coalesce(1).createOrReplaceTempView("ticks")
        try:
            found = ceql.spark.sql(spark, case.sql, dialect="trino")
        except ceql.QueryError as error:
            if not case.in_define or "not evaluated" not in str(error):
                raise
            continue
        values = f.to_json(f.array(*(_text(f, found, name) for name in found.columns)))
        parts.append(found.select(f.lit(number).alias("number"), values.alias("row")))
        expected[number] = sorted(json.dumps([_told(value) for value in row]) for row in case.expected)
    found_rows: dict[int, list[str]] = {number: [] for number in expected}
    for row in reduce(lambda a, b: a.unionAll(b), parts).collect():
        found_rows[row["number"]].append(json.dumps(json.loads(row["row"])))
    for number, own in expected.items():
        assert sorted(found_rows[number]) == own, (cases[number].sql, cases[number].rows)
    return len(expected)


def _text(f: Any, found: DataFrame, name: str) -> Any:
    """A column as text, in which a mean has six digits."""
    kind = found.schema[name].dataType.typeName()
    return f.format_string("%.6f", f.col(name)) if kind == "double" else f.col(name).cast("string")


def _told(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6f}" if isinstance(value, float) else None if value is None else str(value)


def main() -> None:
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    spark = ceql.spark.session(app="random row patterns")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    rnd, ran, begin = random.Random(seed), 0, time.monotonic()
    while time.monotonic() < begin + seconds:
        ran += check_together(spark, [draw_case(rnd, plain=bool(k % 2)) for k in range(40)])
        print(f"{time.monotonic() - begin:.0f} s: {ran:,} statements from seed {seed}, no difference", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
