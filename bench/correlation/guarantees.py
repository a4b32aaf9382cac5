"""The guarantees, shown: an update that grows at most as log(w), whatever the stream's length, and output-linear delay.

Updates are timed on streams with few matches. The delay is what enumeration adds to counting the same
matches on the graph, for each event of each match: it must depend neither on how many matches there are nor on how long
they are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

import ceql
from bench.correlation.measure import RUNS, Report, Timing, once, run_all, scaled, together
from bench.correlation.plot import line_plot
from bench.workloads import keyed

RESULTS = Path(__file__).parent.parent / "results"
EVENTS = 500_000
WINDOWS = (100, 1_000, 10_000, 100_000, 500_000)
KEYS = 50_000
PIECES = 20
PIECE = 200_000
OUTPUT = 3_000_000  # events of matches, about
BURSTS = (1, 3, 10, 30, 100, 300, 1_000)
LENGTHS = (2, 3, 4, 6, 8, 12, 16)
ATOMS = (2, 3, 4, 5, 6)
CHAIN, RULE = "chain", "rule"


def chain(window: int) -> ceql.Query:
    formula = "(T AS a ; S AS b ; R AS c FILTER b.y = c.y PARTITION BY [x])"
    return ceql.compile(f"SELECT a, b, c WHERE {formula} WITHIN {window} EVENTS")


def rule(window: int) -> ceql.Query:
    return ceql.rule(keyed.RULE, attributes=keyed.RELATIONS, within=f"{window} events")


MAKERS: dict[str, Callable[[int], ceql.Query]] = {CHAIN: chain, RULE: rule}


def run(report: Report) -> None:
    _windows(report)
    _places(report)
    _delays(report)


def _windows(report: Report) -> None:
    count = scaled(EVENTS)
    table = keyed.triples(count, max(10, KEYS * count // EVENTS), 1_000)
    windows = list(dict.fromkeys(min(window, count) for window in WINDOWS))
    ns = 1e9 / count
    queries = {(name, window): make(window) for name, make in MAKERS.items() for window in windows}
    assert all(query.plan.is_correlated for query in queries.values())
    timed = run_all({str(k): query for k, query in queries.items()}, table)
    report.title(f"Update time against the window, {count:,} events: ns per event")
    report.table("query", "window, events", "matches", "  wall", "spread", "   CPU", "growth", "as log(w)")
    series: dict[str, list[tuple[float, float]]] = {}
    for name in MAKERS:
        first = timed[str((name, windows[0]))][0]
        for window in windows:
            timing, result = timed[str((name, window))]
            as_log = math.log(window) / math.log(windows[0])
            cells = (timing.wall * ns, timing.shown_spread, timing.cpu * ns, timing.cpu / first.cpu, as_log)
            report.row(name, window, result.num_rows, *cells)
            series.setdefault(name, []).append((window, timing.cpu * ns))
    _draw(report, "update-by-window", "Update time against the window", "window, events", "ns per event, CPU", series)


def _places(report: Report) -> None:
    size = scaled(PIECE)
    pieces = [keyed.triples(size, KEYS, 1_000, seed=k, first=k * size) for k in range(PIECES)]
    report.title(f"Update time against the place in the stream, pieces of {size:,} events, window 10,000 events")
    report.table("query", "million events", "ns, wall", "spread", "ns, CPU", "to the median")
    series: dict[str, list[tuple[float, float]]] = {}
    slower = {}
    for name, make in MAKERS.items():
        rounds = [_feed(make(10_000), pieces) for _ in range(RUNS)]
        timings = [Timing.of([r[k][0] for r in rounds], [r[k][1] for r in rounds]) for k in range(PIECES)]
        middle = statistics.median(timing.cpu for timing in timings)
        ns = 1e9 / size
        for k, timing in enumerate(timings):
            place = (k + 1) * size / 1e6
            series.setdefault(name, []).append((place, timing.cpu * ns))
            if k % 4 == 3 or k == 0:
                cells = (timing.wall * ns, timing.shown_spread, timing.cpu * ns, timing.cpu / middle)
                report.row(name, f"{place:g}", *cells)
        late = statistics.median(timing.cpu for timing in timings[-5:])
        early = statistics.median(timing.cpu for timing in timings[1:6])
        slower[name] = late / early
    for name, ratio in slower.items():
        report.note(f"{name}: the last five pieces take {ratio:.2f} times as long as the second to sixth")
        report.check(ratio < 1.25, f"{name}: {ratio:.2f} times slower late in the stream (less than 1.25)")
    title = "Update time against the place in the stream"
    _draw(report, "update-by-place", title, "million events read", "ns per event, CPU", series, log_x=False)


def _feed(query: ceql.Query, pieces: list[pa.Table]) -> list[tuple[float, float]]:
    recognizer = query.recognizer(keep_rows=False)

    def feed(piece: pa.Table) -> int:
        return sum(batch.num_rows for batch in recognizer.feed(piece).to_batches())

    return [once(partial(feed, piece))[:2] for piece in pieces]


def sequence(length: int) -> ceql.Query:
    formula = " ; ".join(f"E{k}" for k in range(length))
    return ceql.compile(f"SELECT * WHERE ({formula} PARTITION BY [key]) WITHIN 1000000000 EVENTS")


def star(length: int) -> ceql.Query:
    atoms = ", ".join(f"E{k}(x)" for k in range(length))
    attributes = {f"E{k}": ["key"] for k in range(length)}
    return ceql.rule(f"Q(x) <- {atoms}", attributes=attributes, within="1000000000 events")


def _delays(report: Report) -> None:
    series: dict[str, list[tuple[float, float]]] = {}
    report.title("Delay against the number of matches: sequences and rules of three, all matches of a key at one event")
    _delay_table(report, "matches at an event")
    for name, make in ((CHAIN, sequence), (RULE, star)):
        for each in BURSTS:
            if 3 * each**2 > 2 * scaled(OUTPUT):
                continue
            groups = max(1, scaled(OUTPUT) // (3 * each**2))
            delay = _delay(report, name, make(3), 3, each, min(groups, scaled(OUTPUT) // 30), each**2)
            series.setdefault(name, []).append((each**2, delay))
    title = "Delay against the number of matches"
    _draw(report, "delay-by-matches", title, "matches at an event", "ns per event of the output, CPU", series)
    for name, points in series.items():
        ratio = points[-1][1] / max(points[len(points) // 2][1], 1e-3)
        report.check(ratio < 1.5, f"delay, {name}: {ratio:.2f} times longer with most matches than with some (1.5)")

    series = {}
    report.title("Delay against the length of a match")
    _delay_table(report, "length")
    for name, make, lengths in ((CHAIN, sequence, LENGTHS), (RULE, star, ATOMS)):
        for length in lengths:
            matches = 2 ** (length - 1)
            groups = max(1, scaled(OUTPUT) // (length * matches))
            delay = _delay(report, name, make(length), length, 2, min(groups, scaled(OUTPUT) // 30), length)
            series.setdefault(name, []).append((length, delay))
    title = "Delay against the length of a match"
    _draw(report, "delay-by-length", title, "events of a match", "ns per event of the output, CPU", series, log_x=False)


def _delay_table(report: Report, what: str) -> None:
    report.table(
        "query",
        what,
        "   matches",
        "ms, all, wall",
        "spread",
        "ms, all, CPU",
        "ms, counted, CPU",
        "ns per output event",
    )


def _delay(report: Report, name: str, query: ceql.Query, length: int, each: int, groups: int, shown: int) -> float:
    """Nanoseconds of CPU that enumeration takes for each event of each match."""
    assert query.plan.is_correlated
    table = keyed.bursts(length, each, groups)
    timed = together(
        {
            "all": lambda: sum(batch.num_rows for batch in query.run(table).to_batches()),
            "counted": lambda: query.run(table).count(),
        }
    )
    (whole, number), (counted, also) = timed["all"], timed["counted"]
    wanted = groups * each ** (length - 1)
    report.check(number == also == wanted, f"delay, {query.text}: {number:,}, counted {also:,}, must be {wanted:,}")
    delay: float = max(0.0, whole.cpu - counted.cpu) / (length * number) * 1e9
    report.row(name, shown, number, whole.wall * 1e3, whole.shown_spread, whole.cpu * 1e3, counted.cpu * 1e3, delay)
    return delay


def _draw(
    report: Report,
    file: str,
    title: str,
    x_name: str,
    y_name: str,
    series: dict[str, list[tuple[float, float]]],
    log_x: bool = True,
) -> None:
    line_plot(RESULTS / f"{file}.svg", title, x_name, y_name, series, log_x)
    report.plot(f"{file}.svg", title)
