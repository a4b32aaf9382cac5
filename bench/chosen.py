"""NEXT, LAST and MAX under a window, beside ANY: `python -m bench.chosen [EVENTS]`.

Random letters, so that every third event of `A ; B ; C` completes matches. Each query finds its matches over the same
stream, with windows of several lengths, three times; the least processor time of each is taken. ANY has one match for
each event that completes some, as NEXT and LAST have.
"""

from __future__ import annotations

import sys
import time

import pyarrow as pa

import ceql
from bench.constructs import letters

WINDOWS = (30, 100, 1000)
STRATEGIES = ("ANY", "NEXT", "LAST", "MAX")
RUNS = 3


def nanoseconds(query: ceql.Query, events: pa.Table) -> float:
    """Processor time for each event."""
    query.run(events.slice(0, 1000)).to_arrow()  # compiles what is needed
    taken = []
    for _ in range(RUNS):
        begun = time.process_time()
        query.run(events).to_arrow()
        taken.append(time.process_time() - begun)
    return min(taken) / len(events) * 1e9


def main(count: int) -> None:
    events = letters("ABC", count)
    print("ns per event     " + "".join(f"{window:>8} events" for window in WINDOWS))
    for strategy in STRATEGIES:
        limit = (
            " LIMIT 1" if strategy == "MAX" else ""
        )  # it keeps all matches of this formula, which grow with the window
        texts = [f"SELECT {strategy} * WHERE A ; B ; C WITHIN {window} EVENTS{limit}" for window in WINDOWS]
        found = [nanoseconds(ceql.compile(text), events) for text in texts]
        print(f"{strategy + limit:16} " + "".join(f"{time:15.0f}" for time in found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
