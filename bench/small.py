"""Measures what small runs cost: microseconds of the processor for a run, a list and a feed of few events.

`python -m bench.small` prints, for streams of 20, 200 and 20,000 events, what `q.run(events).count()`,
`q.run(events).to_arrow()` and `recognizer.feed(batch)` with a count of its matches take, warm: the median of many. Then
come the queries of the conditions' table over 20,000 events, in times the loop by hand that begins with the same table:
counted beside a loop that counts, listed beside one that lists, where there is one.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import ceql
from bench.experiments.conditions_worker import QUERIES as COMPARED
from bench.peers import by_hand
from bench.peers import by_hand_loops as loops
from bench.workloads import keyed

SIZES = (20, 200, 20_000)
SECONDS = 0.6  # for each figure
LEAST = 9  # repetitions
QUERIES = {
    "single events": "SELECT * WHERE A ; B : C WITHIN 20 EVENTS",
    "by key": "SELECT * WHERE A ; B : C PARTITION BY k WITHIN 20 EVENTS",
    "compared": "SELECT * WHERE A AS a ; B AS b ; C AS c FILTER b.price > a.price + 90 AND c.price > b.price + 5 "
    "WITHIN 50 EVENTS",
    "compared by key": "SELECT * WHERE A AS a ; C AS c FILTER a.k = c.k AND c.price < a.price - 80 WITHIN 50 EVENTS",
}
EVENTS = 20_000
LISTED: dict[str, Callable[[by_hand.Columns], Any]] = {
    "rising, 50": lambda e: loops.list_rising(e.kind, e.price, 90.0, 5.0, 50),
    "rising, 400": by_hand.LISTS[by_hand.RISING],
    "drop": by_hand.LISTS[by_hand.DROP],
}


def microseconds(action: Callable[[], object], *others: Callable[[], object]) -> list[float]:
    """The medians of actions that take turns, after each has run twice without being counted."""
    actions = (action, *others)
    taken: list[list[float]] = [[] for _ in actions]
    for one in actions:
        one(), one()
    gc.collect()
    begun = time.perf_counter()
    while len(taken[0]) < LEAST or time.perf_counter() - begun < SECONDS * len(actions):
        for one, times in zip(actions, taken, strict=True):
            start = time.process_time()
            one()
            times.append(time.process_time() - start)
    return [statistics.median(times) * 1e6 for times in taken]


def fed(query: ceql.Query, table: pa.Table) -> Callable[[], int]:
    """Feeds the same events again and again, each time later than before, to one recogniser."""

    def batches() -> Iterator[pa.RecordBatch]:
        (batch,) = table.combine_chunks().to_batches()
        place = batch.schema.get_field_index("time")
        first, times = 0, batch.column(place).cast(pa.int64()).to_numpy()
        while True:
            column = pa.array(times + first).cast(batch.schema.field(place).type)
            yield batch.set_column(place, batch.schema.field(place), column)
            first += len(times)

    ahead, recognizer = batches(), query.recognizer(keep_rows=False)
    waiting = [next(ahead) for _ in range(LEAST + int(SECONDS * 2e4 / (1 + table.num_rows / 1000)))]
    waiting.reverse()
    return lambda: recognizer.feed(waiting.pop() if waiting else next(ahead)).count()


def main() -> None:
    pa.set_cpu_count(1)
    print(f"{'microseconds':<18} {'events':>8} {'count':>9} {'list':>9} {'feed':>9}")
    for name, text in QUERIES.items():
        for size in SIZES:
            query, table = ceql.compile(text), keyed.priced(size)
            counted = microseconds(lambda: query.run(table).count())  # noqa: B023
            listed = microseconds(lambda: query.run(table).to_arrow())  # noqa: B023
            feeds = microseconds(fed(query, table))
            print(f"{name:<18} {size:>8,} {counted[0]:>9.0f} {listed[0]:>9.0f} {feeds[0]:>9.0f}", flush=True)
    beside = f"{'by hand':>9} {'times':>6}"
    print(f"\n{f'{EVENTS:,} events':<18} {'count, µs':>9} {beside} {'list, µs':>9} {beside}")
    for name, (text, types, count) in COMPARED.items():
        query, table = ceql.compile(text), keyed.priced(EVENTS, types)
        ours, hand = microseconds(lambda: query.run(table).count(), lambda: count(by_hand.columns(table)))  # noqa: B023
        cells = f"{ours:>9.0f} {hand:>9.0f} {ours / hand:>6.1f}"
        if name in LISTED:
            lists = LISTED[name]
            ours, hand = microseconds(lambda: query.run(table).to_arrow(), lambda: lists(by_hand.columns(table)))  # noqa: B023
            cells += f" {ours:>9.0f} {hand:>9.0f} {ours / hand:>6.1f}"
        print(f"{name:<18} {cells}", flush=True)


if __name__ == "__main__":
    main()
