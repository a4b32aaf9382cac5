"""What a count costs beside the iteration that it stands for, and NOT beside none.

`python -m bench.constructs [EVENTS]` counts the matches of each pair over the same random letters, in turn, five times;
the least processor time of each is taken. In one stream every eighth event takes part in what is counted, in the other
every third.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import ceql

PAIRS = (
    ("A ; B+ ; C", "A ; B* ; C"),
    ("A ; B ; C", "A ; B? ; C"),
    ("A ; B+ ; C", "A ; B{3,} ; C"),
    ("A ; B+ ; C", "A ; B{2,5} ; C"),
    ("A ; B+ ; C", "A ; B{2,10} ; C"),
    ("A : B:+ : C", "A : B:{2,5} : C"),
    ("A AS a ; B+ AS b ; C FILTER b.v > a.v", "A AS a ; B{2,5} AS b ; C FILTER b.v > a.v"),
    ("A ; C", "A ; NOT B ; C"),
    ("A AS a ; C AS c FILTER c.v > a.v", "A AS a ; NOT B ; C AS c FILTER c.v > a.v"),
    ("A AS a ; C AS c FILTER c.v > a.v", "A AS a ; NOT B AS n ; C AS c FILTER n.v < a.v AND c.v > a.v"),
)
ALPHABETS = ("ABCDEFGH", "ABC")
RUNS = 5


class Compared(NamedTuple):
    """Events per second of a query without a construct and with it."""

    alphabet: str
    plain: str
    other: str
    rates: tuple[float, float]

    @property
    def ratio(self) -> float:
        return self.rates[0] / self.rates[1]


def letters(alphabet: str, count: int) -> pa.Table:
    rng = np.random.default_rng(1)
    kinds = pa.array(rng.choice(list(alphabet), count)).dictionary_encode()
    return pa.table({"type": kinds, "time": np.arange(count), "v": rng.integers(0, 1000, count)})


def seconds(query: ceql.Query, events: pa.Table) -> float:
    begun = time.process_time()
    query.run(events).count()
    return time.process_time() - begun


def compare(count: int) -> Iterator[Compared]:
    for alphabet in ALPHABETS:
        stream = letters(alphabet, count)
        for plain, other in PAIRS:
            # a condition between events costs more for each of them
            events = stream.slice(0, count // 20) if "FILTER" in plain else stream
            queries = [ceql.compile(f"SELECT * WHERE {formula} WITHIN 50 EVENTS") for formula in (plain, other)]
            for query in queries:
                seconds(query, events.slice(0, 1000))  # compiles what is needed
            taken = [[seconds(query, events) for query in queries] for _ in range(RUNS)]
            one, two = (len(events) / max(min(times), 1e-9) for times in zip(*taken, strict=True))
            yield Compared(alphabet, plain, other, (one, two))


def main(count: int) -> None:
    for found in compare(count):
        one, two = (f"{rate / 1e6:6.2f}" for rate in found.rates)
        print(f"{found.alphabet:9} {found.plain:38} {one} M/s   {found.other:58} {two} M/s   x {found.ratio:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
