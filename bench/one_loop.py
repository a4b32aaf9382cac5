"""What queries on single events would cost in the loop over groups: `python -m bench.one_loop [ROW ...]`.

Each row of the gate that the loop over states runs is also compiled for the loop over groups, and both run in turn.
It shows processor time, the median of a few runs. `docs/architecture.md` says what follows from it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import ceql
from bench.gate.__main__ import chosen
from bench.gate.rows import ROWS, Row
from ceql.plans import Loop

RUNS, SECONDS = 15, 6.0  # of a row, at most


def for_groups(row: Row) -> ceql.Query:
    """The query of a row, compiled as if its conditions compared events."""
    with patch("ceql.plan.compares_events", lambda *_: True):
        return row.query()


def action(row: Row, query: ceql.Query) -> Callable[[], int]:
    """Runs a query over the events of a row; gives the number of matches."""
    events = row.events()
    return lambda: query.run(events).count() if row.counted else query.run(events).to_arrow().num_rows


def measured(actions: list[Callable[[], int]]) -> list[float]:
    """The milliseconds that each of these takes, run in turn."""
    times: list[list[float]] = [[] for _ in actions]
    end = time.monotonic() + SECONDS
    while not times[0] or (time.monotonic() < end and len(times[0]) < RUNS):
        for taken, act in zip(times, actions, strict=True):
            begin = time.process_time()
            act()
            taken.append(time.process_time() - begin)
    return [1e3 * statistics.median(taken) for taken in times]


def main() -> None:
    print(f"{'':<18} {'states, ms':>11} {'groups, ms':>11} {'times':>7}")
    for name in chosen(sys.argv[1:]):
        row = ROWS[name]
        own, other = row.query(), for_groups(row)
        if own.plan.loop is not Loop.STATES or other.plan.loop is not Loop.GROUPS:
            continue
        actions = [action(row, query) for query in (own, other)]
        assert len({act() for act in actions}) == 1, f"{name}: the loops do not find the same"
        states, groups = measured(actions)
        print(f"{name:<18} {states:>11.1f} {groups:>11.1f} {groups / states:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
