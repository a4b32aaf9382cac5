"""What an event between two others costs that no condition asks for, as the window grows.

`python -m bench.free [EVENTS] [WINDOW ...]` counts the matches of `A ; B ; C` over random letters, with A
and C compared by a key, or by order, once each. It prints the processor time of an event.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa

import ceql

CONDITIONS = {"a key": "a.k = c.k", "order": "a.price < c.price - 0.99"}
KEYS = 50_000


def letters(count: int) -> pa.Table:
    rng = np.random.default_rng(0)
    kinds = np.array(list("ABC"))[rng.integers(0, 3, count)]
    return pa.table({"type": kinds, "k": rng.integers(0, KEYS, count), "price": rng.random(count)})


def main() -> None:
    given = [int(argument) for argument in sys.argv[1:]]
    events = letters(given[0] if given else 200_000)
    for window in given[1:] or (1_000, 10_000, 100_000):
        for name, condition in CONDITIONS.items():
            query = ceql.compile(f"SELECT * WHERE A AS a ; B ; C AS c FILTER {condition} WITHIN {window} EVENTS")
            query.run(events.slice(0, 1_000)).count()  # loads what is compiled
            begun = time.process_time()
            matches = query.run(events).count()
            each = (time.process_time() - begun) / len(events) * 1e9
            print(f"{window:>9,} events, compared by {name:5} {each:8,.0f} ns/event, {matches:,} matches", flush=True)


if __name__ == "__main__":
    main()
