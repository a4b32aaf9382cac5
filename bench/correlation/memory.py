"""Memory under a window: ten passes over a million events, whose keys are always new and must be forgotten.

In a process of its own, which has nothing else to keep: `python -m bench.correlation.memory QUERY` prints figures as
JSON.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable

import pyarrow as pa

import ceql
from bench.correlation.measure import Report, megabytes, once, scaled
from bench.workloads import keyed

EVENTS = 1_000_000
PASSES = 10
BATCH = 1 << 17
WIDTH = 10_000
EACH = 8  # events of a key
MOST = 20.0  # megabytes that may come after the second pass


def chain() -> tuple[ceql.Query, Callable[[int, int], pa.Table]]:
    formula = "(SELL AS a ; BUY AS b ; SELL AS c PARTITION BY [name])"
    query = ceql.compile(f"SELECT a, b, c WHERE {formula} WITHIN {WIDTH} EVENTS")
    return query, lambda count, block: keyed.fresh(count, EACH, block)


def rule() -> tuple[ceql.Query, Callable[[int, int], pa.Table]]:
    query = ceql.rule(keyed.RULE, attributes=keyed.RELATIONS, within=f"{WIDTH} events")

    def events(count: int, block: int) -> pa.Table:
        keys = max(1, count // EACH)
        return keyed.triples(count, keys, 10, seed=block, first=block * count, shift=block * keys)

    return query, events


QUERIES = {"chain": chain, "rule": rule}


def measure(name: str) -> list[tuple[float, int, int, float]]:
    """After each pass: megabytes, bytes of the state as a snapshot, matches so far, CPU seconds of the pass."""
    query, events = QUERIES[name]()
    assert query.plan.is_correlated
    query.run(events(1000, 0)).to_arrow()  # what is compiled is so by then
    recognizer = query.recognizer(keep_rows=False)
    count, matches, readings = scaled(EVENTS), 0, []
    for block in range(PASSES):
        table = events(count, block)

        def feed(table: pa.Table = table) -> int:
            batches = table.to_batches(max_chunksize=BATCH)
            return sum(found.num_rows for batch in batches for found in recognizer.feed(batch).to_batches())

        _, cpu, found = once(feed)
        matches += found
        del table, feed
        gc.collect()
        pa.default_memory_pool().release_unused()
        resident = megabytes()  # before the snapshot, which needs memory of its own
        readings.append((resident, len(recognizer.snapshot()), matches, cpu))
    return readings


def run(report: Report) -> None:
    count = scaled(EVENTS)
    title = (
        f"Memory, {PASSES} passes of {count:,} events, keys always new ({EACH} events each), window {WIDTH:,} events"
    )
    report.title(title)
    report.table("query", "pass", "million events", "   matches", "resident MB", "state KB", "ns per event, CPU")
    growth = {}
    for name in QUERIES:
        done = subprocess.run([sys.executable, "-m", "bench.correlation.memory", name], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"memory, {name}: {done.stderr[-3000:]}")
        readings = json.loads(done.stdout.strip().splitlines()[-1])
        for k, (resident, state, matches, cpu) in enumerate(readings, 1):
            report.row(name, k, f"{k * count / 1e6:g}", matches, resident, int(state / 1e3), cpu * 1e9 / count)
        growth[name] = readings[-1][0] - readings[1][0]
    for name, grown in growth.items():
        report.note(f"{name}: {grown:+.1f} MB after the second pass")
        report.check(grown < MOST, f"memory, {name}: {grown:+.1f} MB after the second pass (less than {MOST:.0f})")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
