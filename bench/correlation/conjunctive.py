"""A hierarchical conjunctive query, T(x), S(x, y), R(x, y), on a million events of a hundred thousand keys.

The domain of y makes matches rare, so that the time is that of the updates. A window in events leaves all to the second
loop (pcea-hcq-2024, Algorithm 1); one in time lets the engine split the stream by x first. For scale stands beside it
polars, grouping the same events by (x, y): one access to a hash table for each event.
"""

from __future__ import annotations

import math

import polars as pl

import ceql
from bench.correlation.measure import Report, digest, positions, run_all, scaled, together
from bench.workloads import keyed

EVENTS = 1_000_000
KEYS = 100_000
OTHERS = 1_000
WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
LEAST = 1_000_000  # events per second
GROUPING = "polars"


def rule(window: int, unit: str) -> ceql.Query:
    return ceql.rule(keyed.RULE, attributes=keyed.RELATIONS, within=f"{window} {unit}")


def run(report: Report) -> None:
    count = scaled(EVENTS)
    table = keyed.triples(count, max(10, KEYS * count // EVENTS), OTHERS)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    ns = 1e9 / count
    report.title(f"{keyed.RULE}, {count:,} events, {len(table['x'].unique()):,} keys")
    report.table("window, events      ", "matches", "ns, wall", "spread", "ns, CPU", " events/s", "to polars", "growth")
    windows = list(dict.fromkeys(min(window, count) for window in WINDOWS))
    queries = {f"{unit} {window}": rule(window, unit) for unit in ("events", "milliseconds") for window in windows}
    grouping = together({GROUPING: lambda: frame.lazy().group_by("x", "y").len().collect()})
    timed = run_all(queries, table)
    yardstick = grouping[GROUPING][0]
    for unit in ("events", "milliseconds"):
        first = timed[f"{unit} {windows[0]}"][0]
        for window in windows:
            timing, result = timed[f"{unit} {window}"]
            name = f"{window:,}" + (", by time" if unit == "milliseconds" else "")
            growth = timing.cpu / first.cpu
            speed = int(count / timing.wall)
            cells = (timing.wall * ns, timing.shown_spread, timing.cpu * ns, speed, timing.cpu / yardstick.cpu, growth)
            report.row(name, result.num_rows, *cells)
            allowed = math.log(window) / math.log(windows[0])
            rows = digest(positions(result, ["T", "S", "R"]))
            other = digest(positions(timed[f"events {window}"][1], ["T", "S", "R"]))
            report.check(rows == other, f"rule, window {name}: other matches than with a window in events")
            report.check(speed > LEAST, f"rule, window {name}: {speed:,} events per second (more than {LEAST:,})")
            report.check(
                growth <= allowed, f"rule, window {name}: {growth:.2f} times the least window's ({allowed:.2f})"
            )
    report.note(
        f"polars groups the events by (x, y) in {yardstick.wall * ns:.0f} ns each ({yardstick.cpu * ns:.0f} ns CPU, "
        f"spread {yardstick.shown_spread}). Growth is in CPU time against the least window; as log(w) it would be "
        + ", ".join(f"{math.log(window) / math.log(windows[0]):.2f}" for window in windows)
        + "."
    )
