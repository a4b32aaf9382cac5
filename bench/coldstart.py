"""Measures what a newcomer waits for: processor seconds of ten kinds of query, one after the other, in one process.

`python -m bench.coldstart` (`make coldstart`) begins with an empty cache of kernels, in a folder of its own. It counts
the seconds of compiling a query and running it over some events. Later queries find what they share with earlier ones
compiled already, so the order matters.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa


class Kind(NamedTuple):
    """A kind of query, and whether its matches are counted or listed."""

    name: str
    query: str
    counted: bool = False


COMPARED = "SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v WITHIN 50 EVENTS"
KINDS = (
    Kind("A ; B", "SELECT * WHERE A ; B"),
    Kind("by key in a window", "SELECT * WHERE A ; B PARTITION BY k WITHIN 50 EVENTS"),
    Kind("count", "SELECT * WHERE A ; B WITHIN 50 EVENTS", counted=True),
    Kind("ANY", "SELECT ANY * WHERE A ; B WITHIN 50 EVENTS"),
    Kind("NEXT", "SELECT NEXT * WHERE A ; B+ ; C WITHIN 50 EVENTS"),
    Kind("equality", "SELECT * WHERE A AS a ; B AS b FILTER a.k = b.k WITHIN 50 EVENTS"),
    Kind("a.v < b.v", COMPARED),
    Kind("count of a.v < b.v", COMPARED, counted=True),
    Kind("MAX of rising runs", "SELECT MAX * WHERE A ; A+ AS b FILTER b[v > PREV.v] WITHIN 12 EVENTS"),
    Kind("NOT compared", "SELECT * WHERE A AS a ; NOT B AS n ; C AS c FILTER n.v > a.v WITHIN 50 EVENTS"),
)
EVENTS = 200


class Taken(NamedTuple):
    """What a kind cost: processor seconds, kernels compiled, and parts of kernels."""

    name: str
    seconds: float
    kernels: int
    parts: int


def events() -> pa.Table:
    return pa.table(
        {
            "type": ["ABC"[k * k % 7 % 3] for k in range(EVENTS)],
            "k": [k * 5 % 11 for k in range(EVENTS)],
            "v": [k * 7 % 101 for k in range(EVENTS)],
        }
    )


def measure() -> Iterator[Taken]:
    """Each kind in turn, after the import; NUMBA_CACHE_DIR must be set by then."""
    begun = time.process_time()
    from numba.core import event

    import ceql

    yield Taken("import ceql", time.process_time() - begun, 0, 0)

    class Counter(event.Listener):  # type: ignore[misc]
        """Counts the functions of ceql that Numba compiles; Python cannot call those that are parts of kernels."""

        kernels, parts = 0, 0

        def on_start(self, event: Any) -> None:
            function = event.data["dispatcher"]
            if function.__module__.startswith("ceql."):
                part = function.targetoptions.get("no_cpython_wrapper", False)
                self.kernels, self.parts = self.kernels + (not part), self.parts + part

        def on_end(self, event: Any) -> None:
            """Nothing: Numba asks for both."""

    table = events()
    for kind in KINDS:
        counter = Counter()
        begun = time.process_time()
        with event.install_listener("numba:compile", counter):
            matches = ceql.compile(kind.query).run(table)
            found = matches.count() if kind.counted else matches.to_arrow().num_rows
        seconds = time.process_time() - begun
        assert found, f"{kind.name}: no match, so not all of it was compiled"
        yield Taken(kind.name, seconds, counter.kernels, counter.parts)


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache
        print(f"{'':<20} {'s of CPU':>9} {'kernels':>8} {'parts':>6}")
        found = []
        for taken in measure():
            found.append(taken)
            print(f"{taken.name:<20} {taken.seconds:>9.1f} {taken.kernels:>8} {taken.parts:>6}", flush=True)
    kinds = found[1:]
    kernels, parts = sum(taken.kernels for taken in kinds), sum(taken.parts for taken in kinds)
    print(f"{'all kinds':<20} {sum(taken.seconds for taken in kinds):>9.1f} {kernels:>8} {parts:>6}")


if __name__ == "__main__":
    main()
