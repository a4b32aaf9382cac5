"""What measures cost beside the matches that they are computed of.

`python -m bench.measures [EVENTS]` reads the same matches as Arrow, without measures and with them, in turn, seven
times; the least processor time of each is taken.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa

import ceql

PATTERN = "WHERE A AS a ; B+ AS b ; C AS c WITHIN 16 EVENTS"
PLAIN = f"SELECT a, b, c {PATTERN}"
FIVE = "a.v, COUNT(b) AS n, SUM(b.v) AS s, AVG(b.f) - c.f AS d, DURATION"
MEASURED = {
    "one sum": f"SELECT a, b, c, SUM(b.v) AS s {PATTERN}",
    "five, beside the events": f"SELECT a, b, c, {FIVE} {PATTERN}",
    "five alone": f"SELECT {FIVE} {PATTERN}",
    "extremes": f"SELECT a, b, c, MAX(b.v) AS m, MIN(b.f) AS n, FIRST(b.s) AS s, LAST(b.v) AS l {PATTERN}",
}
RUNS = 7


def events(count: int) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "type": rng.choice(list("ABCX"), count),
            "time": pa.array(np.arange(count) * 1000, pa.timestamp("ms")),
            "v": rng.integers(0, 1000, count),
            "f": rng.random(count),
            "s": rng.choice(list("uvw"), count),
        }
    )


def seconds(query: ceql.Query, table: pa.Table) -> float:
    begun = time.process_time()
    query.run(table).to_arrow()
    return time.process_time() - begun


def main(count: int) -> None:
    table = events(count)
    queries = [ceql.compile(text) for text in (PLAIN, *MEASURED.values())]
    print(f"{queries[0].run(table).count():,} matches of {count:,} events")
    for query in queries:
        seconds(query, table.slice(0, 1000))  # compiles what is needed
    plain, *others = (
        min(times) for times in zip(*([seconds(q, table) for q in queries] for _ in range(RUNS)), strict=True)
    )
    for name, taken in zip(MEASURED, others, strict=True):
        print(f"{name:24} x {taken / plain:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
