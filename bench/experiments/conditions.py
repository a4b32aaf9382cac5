"""Conditions between events: inequalities, PREV, and equalities of events that are not neighbours.

First ceql counts the matches of six queries beside the loop that one would write by hand in Numba for that query alone.
Both begin with the same Arrow table and end with the same number. Then the rate of updates by the size of the window:
rising prices in a sequence of three, one match for each event that completes some, counted; and the rule T(x), S(x, y),
R(x, y). Last, two of the queries against other engines and self-joins, every match written out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial

import pyarrow as pa

import ceql
from bench.experiments.asking import ask
from bench.experiments.conditions_worker import BY_WINDOWS, CEQL, HAND, LONG, LOOP, QUERIES, rising
from bench.figures import Figure, Figures, Place, Task
from bench.page import RATE_CAPTION, Page, curve, number, rate_cell, times
from bench.pattern import Pattern
from bench.peers import by_hand
from bench.peers.joins_worker import GIGABYTES
from bench.peers.peer import PATIENCE, ROOT, Peer
from bench.plot import Panel
from bench.settings import Settings, event_file, read_events
from bench.workloads import keyed

TITLE = "Conditions between events"
WORKER = ["-m", "bench.experiments.conditions_worker"]
COUNTED, BY_WINDOW = "counting", "conditions by window"
EVENTS, FEW_EVENTS = 20_000, 2_000  # of the queries that are counted
RUNS = 7  # the loops by hand take a millisecond
MOST = 5.0  # times the loop by hand
WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
FEW_WINDOWS = (1_000, 100_000)
GROWTH = {"rising": 4.0, "rule": 2.5}  # from the narrowest window to the widest, at most
RATE = 1e6  # events each second of rising prices within 100,000 events, at least
SIZES = (10_000, 100_000, 1_000_000)
FEW_SIZES = (3_000,)
SMALL, BEHIND = 10_000, 1.5  # so many events are few: there a peer may be so many times ahead
SERIES = (
    CEQL,
    "DuckDB",
    "DuckDB, buckets",
    "polars",
    "polars, buckets",
    "partial matches",
    "Flink CEP",
    HAND,
)
PANELS = {by_hand.RISING: "rising within 400 events", by_hand.DROP: "a drop within 200 events"}
TEN = 10  # events, to compile with
LIMIT, QUICK_LIMIT = 60.0, 8.0  # seconds for all runs of a query
WINDOWS_LIMIT, QUICK_WINDOWS_LIMIT = 240.0, 16.0  # and of all windows


def tasks(settings: Settings) -> Iterator[Task]:
    for name in QUERIES:
        places = tuple(Place(COUNTED, series, name) for series in (CEQL, HAND, LOOP))
        yield Task(places, partial(_counted, settings, name))
    for name in BY_WINDOWS:
        windows = [int(window) for window in settings.several(FEW_WINDOWS, WINDOWS)]
        places = tuple(Place(BY_WINDOW, name, window) for window in windows)
        yield Task(places, partial(_by_window, settings, name, windows))
    for pattern, panel in _panels(settings).items():
        for size in settings.several(FEW_SIZES, SIZES):
            for peer in settings.peers:
                if peer.name in SERIES:
                    yield Task((Place(panel, peer.name, size),), partial(_peer, settings, peer, pattern, int(size)))


def _panels(settings: Settings) -> dict[Pattern, str]:
    """Both queries; for a quick run the first."""
    return dict(list(PANELS.items())[:1]) if settings.quick else PANELS


def _counted(settings: Settings, name: str) -> list[Figure]:
    count, runs = (FEW_EVENTS, settings.runs) if settings.quick else (EVENTS, RUNS)
    limit = QUICK_LIMIT if settings.quick else LIMIT
    query, types, loop = QUERIES[name]
    few = keyed.priced(TEN, types)
    loop(by_hand.columns(few))
    warm_up(ceql.compile(query), few)
    found = within(limit, "query", name, count, runs)
    return [found.get(series, Figure(error=f"over {limit:.0f} s")) for series in (CEQL, HAND, LOOP)]


def _by_window(settings: Settings, name: str, windows: list[int]) -> list[Figure]:
    limit = QUICK_WINDOWS_LIMIT if settings.quick else WINDOWS_LIMIT
    make, events = BY_WINDOWS[name]
    warm_up(make(windows[0]), events(TEN))
    found = within(limit, "window", name, settings.events, settings.runs, *windows)
    ended = [found[str(window)] for window in windows if str(window) in found]
    missing = [Figure(error=f"over {limit:.0f} s"), *[Figure(error="not begun")] * len(windows)]
    return (ended + missing)[: len(windows)]


def _peer(settings: Settings, peer: Peer, pattern: Pattern, size: int) -> list[Figure]:
    """The loop by hand says which matches are right: it has always ended by then."""
    file = event_file(keyed.priced, size)

    @cache
    def right(count: int) -> tuple[int, int]:
        return by_hand.right(read_events(file).slice(0, count), pattern)

    return [ask(settings, peer, file, pattern, wanted=right, patience=QUICK_LIMIT if settings.quick else PATIENCE)]


def warm_up(query: ceql.Query, table: pa.Table) -> None:
    """Compile what the query needs, for all processes: so it does not count against their time."""
    query.run(table).count()
    query.run(table).to_arrow()


def within(limit: float, *arguments: object) -> dict[str, Figure]:
    """The figures that a process of its own has printed before its time was over; an error is everybody's."""
    command = [sys.executable, *WORKER, *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT)
        out = done.stdout
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    except subprocess.TimeoutExpired as expired:
        out = expired.stdout.decode() if isinstance(expired.stdout, bytes) else ""
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    return {name: Figure(**figure) for line in lines for name, figure in line.items()}


def show(settings: Settings, figures: Figures, page: Page) -> None:
    page.text(__doc__.split("\n\n")[1].strip())
    windows, sizes = settings.several(FEW_WINDOWS, WINDOWS), settings.several(FEW_SIZES, SIZES)
    rates = {name: curve(figures, BY_WINDOW, name, windows) for name in BY_WINDOWS}
    panels = [
        Panel("Updates by window", "window, events", "events per second", rates, log_x=True, ticks=list(windows)),
        *(
            Panel(
                panel[0].upper() + panel[1:],
                "events in the stream",
                "events per second",
                {name: curve(figures, panel, name, sizes) for name in SERIES},
                log_x=True,
                ticks=list(sizes),
            )
            for panel in _panels(settings).values()
        ),
    ]
    page.plot("Conditions between events", panels)
    _show_counted(settings, figures, page)
    _show_windows(figures, page, windows)
    for pattern, panel in _panels(settings).items():
        _show_peers(figures, page, pattern, panel, sizes)


def _show_counted(settings: Settings, figures: Figures, page: Page) -> None:
    page.title(f"Counting matches in {FEW_EVENTS if settings.quick else EVENTS:,} events, beside the loop by hand")
    page.text(
        "Milliseconds by the clock. The loop by hand begins with the Arrow table, as ceql does; alone, it begins with "
        f"arrays of numbers. Ratios are of processor time. What takes more than {LONG:g} s is run once, what is not "
        f"done in {QUICK_LIMIT if settings.quick else LIMIT:g} s is ended."
    )
    rows: list[list[object]] = []
    for name, (query, _, _) in QUERIES.items():
        ours, hand, loop = (figures.get(COUNTED, series, name) for series in (CEQL, HAND, LOOP))
        if not ours or not hand or not loop:
            continue
        cells: list[object] = [f"`{query.removeprefix('SELECT * WHERE ')}`", "" if hand.error else hand.matches]
        cells += [figure.error or figure.wall * 1e3 for figure in (ours, hand, loop)]
        if ours.counts and hand.cpu and loop.cpu:
            ratio = ours.cpu / hand.cpu
            cells += [ratio, ours.cpu / loop.cpu]
            page.check(ratio <= MOST, f"{name}: {ratio:.1f} times the loop by hand (at most {MOST:g})")
        else:
            cells += ["", ""]
            page.check(False, f"{name}: {ours.error or ours.note} (at most {MOST:g} times the loop by hand)")
        rows.append(cells)
    page.table(["query", "matches", CEQL, HAND, LOOP, "ceql / by hand", "ceql / loop alone"], rows)


def _show_windows(figures: Figures, page: Page, windows: Sequence[float]) -> None:
    page.title("Updates by window, and growth of processor time")
    caption = RATE_CAPTION.split(". ")[0]
    page.text(f"{caption}. Rising: `{rising(int(windows[0])).text}`, and so on. Rule: `{keyed.RULE}`.")
    rows: list[list[object]] = []
    for name, most in GROWTH.items():
        found = [figures.get(BY_WINDOW, name, int(window)) for window in windows]
        rows.append([name, *(f.error or f.note or rate_cell(f) if f else "" for f in found)])
        first, last = found[0], found[-1]
        for window, figure in zip(windows, found, strict=True):
            if name == "rising" and window == 100_000 and figure:
                said = figure.error or f"{figure.rate:,.0f}"
                page.check(
                    figure.counts and figure.rate >= RATE,
                    f"{name}, {window:,}: {said} ({RATE:,.0f} events per second asked)",
                )
        growth = [_growth(first, figure) for figure in found]
        if any(growth):
            rows.append([f"{name}, growth", *(each or "" for each in growth)])
        if first and last:
            grown = growth[-1]
            said = f"{grown:.2f} times" if grown else last.error or last.note or first.note or "one run"
            page.check(
                grown is not None and grown <= most, f"{name}, to {windows[-1]:,}: {said} ({most:g} times asked)"
            )
    page.table(["window, events", *(f"{window:,}" for window in windows)], rows)


def _growth(first: Figure | None, figure: Figure | None) -> float | None:
    """One run tells nothing: it is the first."""
    if first is None or figure is None or not first.counts or not figure.counts or min(first.runs, figure.runs) < 2:
        return None
    return figure.cpu / first.cpu


def _show_peers(figures: Figures, page: Page, pattern: Pattern, panel: str, sizes: Sequence[float]) -> None:
    page.title(f"{panel[0].upper()}{panel[1:]}, every match written out")
    page.text(
        f"`{pattern.ceql()}`. Seconds by the clock, and ceql's rate divided by theirs; the matches are compared by "
        "their number and by the events that complete them. A join that is not done in time, or that needs more than "
        f"{GIGABYTES:g} GB, is ended. An engine that reads events one by one stops when its time is over: its rate is "
        "that of the events it has read. Partial matches are kept one by one by a small engine in plain Python, as "
        "OpenCEP keeps them. Flink CEP tests iterative conditions."
    )
    rows: list[list[object]] = []
    ours = [figures.get(panel, CEQL, size) for size in sizes]
    counts = [figure.matches if figure else "" for figure in (figures.get(panel, HAND, size) for size in sizes)]
    rows.append(["matches", *counts])
    for name in SERIES:
        found = [figures.get(panel, name, size) for size in sizes]
        if not any(found):
            continue
        cells: list[object] = [name]
        for size, own, figure in zip(sizes, ours, found, strict=True):
            ratio = times(own, figure)
            compared = "" if ratio is None or name == CEQL else f" · {_short(ratio)} times"
            cells.append(_seconds(figure, int(size)) + compared)
            if ratio is not None and name != CEQL:
                least = 1 / MOST if name == HAND else 1 / BEHIND if size <= SMALL else 1.0
                asked = f"{least:.2g} asked"
                page.check(ratio >= least, f"{panel}, {size:,}: {ratio:.2g} times the rate of {name} ({asked})")
        rows.append(cells)
        if name == CEQL:
            for size, own in zip(sizes, ours, strict=True):
                said = f"{panel}, {size:,}: {own.error or own.note}" if own else ""
                page.check(own is None or own.counts, said)
    page.table(["events", *(f"{size:,}" for size in sizes)], rows)


def _seconds(figure: Figure | None, size: int) -> str:
    if figure is None:
        return ""
    if figure.error.startswith("aborted: not done"):
        return f"over {figure.error.split()[-2]} s"
    if figure.error or figure.note:
        return figure.error.removeprefix("aborted: ") or figure.note
    if figure.events < size:
        return f"over {figure.wall:.0f} s, {figure.events:,} events read"
    return f"{_short(figure.wall)} s"


def _short(value: float) -> str:
    return number(value) if value >= 1 else f"{value:.2g}"
