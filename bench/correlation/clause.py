"""The operator PARTITION BY against the clause: a sequence of three trades of one stock, a million events.

Where a match must have one value in common, the engine splits the stream by it, as the clause does, and takes the loop
that it finds better. Where it cannot split (here: a window in events, which would become relative to the substream), or
must not (the rewriting switched off), the second loop runs the query with look-up tables. All forms have the same
matches: the window in time grows with the number of keys, so that each stock has four events within it that take part.
"""

from __future__ import annotations

from unittest.mock import patch

import ceql
from bench.correlation.measure import Report, digest, positions, run_all, scaled
from bench.workloads import keyed

EVENTS = 1_000_000
KEYS = (10, 1_000, 100_000)
MOST = 2.0
FORMULA = "SELL AS a ; BUY AS b ; SELL AS c"
CLAUSE = "clause"


def without_substreams(text: str) -> ceql.Query:
    """The query for the second loop, though the stream could be split."""
    with patch("ceql.plan.split_off", lambda shape, _: ((), shape)):
        query = ceql.compile(text)
        assert query.plan.is_correlated  # settled here, while the rewriting is off
    return query


def forms(width: int, filters: str) -> dict[str, ceql.Query]:
    """The same query in several ways."""
    operator = f"SELECT a, b, c WHERE ({FORMULA}{filters} PARTITION BY [name])"
    made = {
        CLAUSE: ceql.compile(f"SELECT a, b, c WHERE {FORMULA}{filters} PARTITION BY name WITHIN {width} MILLISECONDS"),
        "operator": ceql.compile(f"{operator} WITHIN {width} MILLISECONDS"),
        "operator, no substreams": without_substreams(f"{operator} WITHIN {width} MILLISECONDS"),
        "operator, n EVENTS": ceql.compile(f"{operator} WITHIN {width} EVENTS"),
    }
    assert [bool(query.plan.partition) for query in made.values()] == [True, True, False, False]
    return made


def nested(keys: int) -> ceql.Query:
    """An operator inside a sequence, which no clause can say. The first event is rare: about two in a window."""
    query = ceql.compile(
        "SELECT a, b, c WHERE SELL AS a ; (BUY AS b ; SELL AS c PARTITION BY [name]) "
        f"FILTER a[price > {100 - 100 / keys:.6f}] WITHIN {4 * keys} MILLISECONDS"
    )
    assert query.plan.is_correlated
    return query


def run(report: Report) -> None:
    count = scaled(EVENTS)
    ns = 1e9 / count
    for title, filters in (
        ("every event takes part", ""),
        ("one event in ten takes part", " FILTER a[price > 90] AND b[price > 90] AND c[price > 90]"),
    ):
        report.title(f"Operator PARTITION BY against the clause, {count:,} events, {title}: ns per event")
        report.table(
            "form                   ", "  loop", "   keys", "  matches", "  wall", "spread", "   CPU", "to the clause"
        )
        for keys in KEYS:
            keys = min(keys, count // 10)
            table = keyed.market(count, keys)
            width = 4 * keys * (10 if filters else 1)
            made = forms(width, filters)
            timed = run_all(made, table)
            base, right = timed[CLAUSE]
            wanted = digest(positions(right, ["a", "b", "c"]))
            for name, (timing, result) in timed.items():
                ratio = timing.cpu / base.cpu
                same = wanted == digest(positions(result, ["a", "b", "c"]))
                report.check(same, f"{name}, {keys:,} keys: other matches than the clause's")
                report.check(ratio <= MOST, f"{name}, {keys:,} keys, {title}: {ratio:.2f} times the clause ({MOST:g})")
                loop = "second" if made[name].plan.is_correlated else "first"
                cells = (timing.wall * ns, timing.shown_spread, timing.cpu * ns, f"{ratio:.2f}")
                report.row(name, loop, keys, result.num_rows, *cells)
    report.note("The matches of all forms are the same rows. Ratios are of processor time.")
    _nested(report, count)


def _nested(report: Report, count: int) -> None:
    report.title(
        f"An operator inside a sequence, SELL ; (BUY ; SELL PARTITION BY [name]), {count:,} events: ns per event"
    )
    report.table("keys   ", "  matches", "  wall", "spread", "   CPU", " events/s", "to the clause")
    ns = 1e9 / count
    for keys in KEYS:
        keys = min(keys, count // 10)
        table = keyed.market(count, keys)
        timed = run_all({"nested": nested(keys), CLAUSE: forms(4 * keys, "")[CLAUSE]}, table)
        timing, result = timed["nested"]
        ratio = timing.cpu / timed[CLAUSE][0].cpu
        cells = (timing.wall * ns, timing.shown_spread, timing.cpu * ns, int(count / timing.wall))
        report.row(keys, result.num_rows, *cells, f"{ratio:.2f}")
    report.note("It has other matches than the clause over the whole sequence, which stands here for the scale.")
