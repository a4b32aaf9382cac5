"""NEXT, LAST and MAX under a window, beside ANY: `python -m bench.chosen [EVENTS]`.

Random letters, so that every third event of `A ; B ; C` completes matches. Each query finds its matches over the same
stream, with windows of several lengths, three times; the least processor time of each is taken. ANY has one match for
each event that completes some, as NEXT and LAST have. Then the same over a tenth of the events for two queries that
compare events: rising runs, of which almost every event completes some, and a drop with any number of events before it.
MAX of rising runs has very many matches, so its windows are narrow.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import pyarrow as pa

import ceql
from bench.constructs import letters
from bench.workloads import keyed

WINDOWS = (30, 100, 1000)
STRATEGIES = ("ANY", "NEXT", "LAST", "MAX")
RUNS = 3
RISING = "A ; A+ AS b FILTER b[price > PREV.price]"
DROP = "A AS a ; B+ ; C AS c FILTER c.price < a.price - 90"
COMPARED = [
    (RISING, "A", ("ANY", "NEXT", "LAST"), (30, 100, 400)),
    (RISING, "A", ("MAX",), (12, 20, 30)),
    (DROP, "ABC", ("ANY", "NEXT", "LAST", "MAX"), (30, 100, 400)),
]


def nanoseconds(query: ceql.Query, events: pa.Table) -> float:
    """Processor time for each event."""
    query.run(events.slice(0, 1000)).to_arrow()  # compiles what is needed
    taken = []
    for _ in range(RUNS):
        begun = time.process_time()
        query.run(events).to_arrow()
        taken.append(time.process_time() - begun)
    return min(taken) / len(events) * 1e9


def show(strategy: str, formula: str, windows: Sequence[int], events: pa.Table, rest: str = "") -> None:
    """A line of times, one for each window."""
    texts = [f"SELECT {strategy} * WHERE {formula} WITHIN {window} EVENTS{rest}" for window in windows]
    found = [nanoseconds(ceql.compile(text), events) for text in texts]
    print(f"{strategy + rest:16} " + "".join(f"{time:15.0f}" for time in found), flush=True)


def head(formula: str, windows: Sequence[int]) -> None:
    """The line above the times of a formula."""
    print(f"\n{formula}\nns per event     " + "".join(f"{window:>8} events" for window in windows))


def main(count: int) -> None:
    events = letters("ABC", count)
    head("A ; B ; C", WINDOWS)
    for strategy in STRATEGIES:
        # MAX keeps all matches of this formula, which grow with the window
        show(strategy, "A ; B ; C", WINDOWS, events, " LIMIT 1" if strategy == "MAX" else "")
    for formula, types, strategies, windows in COMPARED:
        head(formula, windows)
        for strategy in strategies:
            show(strategy, formula, windows, keyed.priced(count // 10, types))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
