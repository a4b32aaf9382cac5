"""What one who knows the query would write for it in Numba (`by_hand_loops.py`), and for no other query.

It has all events before it, as arrays of numbers, and the window in places, since an event comes each millisecond.

`python -m bench.peers.by_hand JOB` runs a job.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.pattern import Pattern, Step
from bench.peers import by_hand_loops as loops
from bench.peers.by_hand_loops import Array
from bench.peers.peer import Peer, Run
from bench.peers.worker import Clock, answer, asked

LETTERS = "ABCD"


class Columns(NamedTuple):
    """The events of `keyed.priced` as the loops read them."""

    kind: Array
    price: Array
    k: Array


def _pattern(window: int, *steps: Step) -> Pattern:
    return Pattern(steps, window, consume=False, limit=None)


RISING = _pattern(
    400,
    Step(("A",)),
    Step(("B",), against=(("price", ">", 0, "price", 90),)),
    Step(("C",), against=(("price", ">", 1, "price", 5),)),
)
"""Both conditions are between neighbours."""
DROP = _pattern(
    200,
    Step(("A",)),
    Step(("B",)),
    Step(("C",), against=(("k", "=", 0, "k", 0), ("price", "<", 0, "price", -80))),
)
"""Both conditions are between the first and the last event."""
LISTS: dict[Pattern, Callable[[Columns], Array]] = {
    RISING: lambda events: loops.list_rising(events.kind, events.price, 90.0, 5.0, 400),
    DROP: lambda events: loops.list_drop(events.kind, events.price, events.k, 80.0, 200),
}
"""The positions of all matches, a row for each."""


def columns(table: pa.Table) -> Columns:
    """The events as arrays."""
    kind = pc.index_in(table["type"], pa.array(list(LETTERS))).to_numpy().astype(np.int8)
    return Columns(kind, table["price"].to_numpy(), table["k"].to_numpy())


def right(table: pa.Table, pattern: Pattern) -> tuple[int, int]:
    """How many matches there are, and how many events complete some."""
    rows = LISTS[pattern](columns(table))
    return len(rows), len(np.unique(rows[:, -1]))


class ByHand(Peer):
    """The loops of `LISTS`."""

    name = "by hand"

    def prepare(self) -> str:
        return f"Numba {version('numba')}"

    def refuses(self, pattern: Pattern) -> str:
        return "" if pattern in LISTS else "nobody has written a loop for it"

    def command(self, job: Path) -> list[str]:
        return [sys.executable, "-m", "bench.peers.by_hand", str(job)]


def main() -> None:
    job = asked(sys.argv[1])
    events, loop = columns(job.table), LISTS[job.pattern]
    loop(events)
    for _ in range(job.runs):
        clock = Clock()
        rows = loop(events)
        answer(Run(len(job.table), *clock(), len(rows), len(np.unique(rows[:, -1]))))


if __name__ == "__main__":
    main()
