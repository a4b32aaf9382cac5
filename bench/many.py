"""`python -m bench.many [--events N] [--spark]`: what many rules in one pass cost, in runs of one rule.

One run is the mean of the runs of the first ten rules, each by itself. All is in seconds of the processor, in turn, so
that a slow spell of the machine meets all of it; the figure is the median of the rounds. On Spark it is time by the
clock, since the work is done by other processes.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import ceql
from bench.workloads.rules import events, rules

COUNTS = (1, 10, 100)
SAMPLE = 10
ROUNDS = 3


def in_process(table: pa.Table, rounds: int) -> None:
    """Tables in, tables out."""
    texts = rules(max(COUNTS))
    alone = [ceql.compile(text) for text in list(texts.values())[:SAMPLE]]
    sets = {count: ceql.compile_all(dict(list(texts.items())[:count])) for count in COUNTS}

    def one() -> int:
        return sum(query.run(table).to_arrow().num_rows for query in alone)

    actions: dict[str, Callable[[], int]] = {"one": one}
    actions |= {f"{count}": lambda own=own: own.run(table).to_arrow().num_rows for count, own in sets.items()}  # type: ignore[misc]
    _print(_measure(actions, rounds, time.process_time), table.num_rows, "in process, processor seconds")


def on_spark(table: pa.Table, rounds: int) -> None:
    """Parquet in, a count of matches out."""
    from ceql.spark import match, session

    texts = rules(max(COUNTS))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "events.parquet")
        pq.write_table(table.cast(_with_microseconds(table.schema)), path, row_group_size=1 << 18)
        spark = session()
        spark.sparkContext.setLogLevel("ERROR")
        frame = spark.read.parquet(path)
        few = list(texts.values())[:2]

        def count(query: Any) -> int:
            return int(match(frame, query, order_by=["score", "amount"]).count())

        actions: dict[str, Callable[[], int]] = {"one": lambda: sum(map(count, few))}
        for number in COUNTS:
            own = ceql.compile_all(dict(list(texts.items())[:number]))
            actions[f"{number}"] = lambda own=own: count(own)  # type: ignore[misc]
        _print(_measure(actions, rounds, time.perf_counter, len(few)), table.num_rows, "on Spark, seconds by the clock")
        spark.stop()


def _with_microseconds(schema: pa.Schema) -> pa.Schema:
    """Times as Spark has them."""
    return pa.schema(
        [field.with_type(pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field for field in schema]
    )


def _measure(
    actions: dict[str, Callable[[], int]], rounds: int, clock: Callable[[], float], alone: int = SAMPLE
) -> dict[str, tuple[float, int]]:
    """The median of each action, after a round that is not counted; of "one", for each of its queries."""
    found = {name: action() for name, action in actions.items()}
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            gc.collect()
            begun = clock()
            action()
            taken[name].append((clock() - begun) / (alone if name == "one" else 1))
    return {name: (statistics.median(times), found[name]) for name, times in taken.items()}


def _print(figures: dict[str, tuple[float, int]], rows: int, title: str) -> None:
    one, _ = figures.pop("one")
    print(f"{rows:,} events, {title}")
    print(f"{'one run':>10} {one:8.3f}")
    for count, (seconds, matches) in figures.items():
        print(f"{count:>4} rules {seconds:8.3f}   {seconds / one:6.1f} runs   {matches:,} matches")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.many", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="how many events")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--spark", action="store_true", help="on Spark, with all cores of this machine")
    given = parser.parse_args()
    pa.set_cpu_count(1)
    table = events(given.events)
    (on_spark if given.spark else in_process)(table, given.rounds)


if __name__ == "__main__":
    main()
