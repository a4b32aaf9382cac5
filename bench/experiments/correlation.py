"""Queries that compare events with each other: chains, parallel automata and conjunctive queries, by windows and keys.

The operator PARTITION BY against the clause, where the clause can say the same: with the stream split by the key, and
without, on the second loop. Then the hierarchical conjunctive query T(x), S(x, y), R(x, y) and a chain T ; S ; R with
the same x and, of the last two, the same y, by the size of the window: updates are to grow at most as its logarithm.
Last, both along a stream whose keys never come back: neither time nor memory is to grow.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from unittest.mock import patch

import pyarrow as pa

import ceql
from bench.figures import Figure, Figures, Place, Task
from bench.measure import digest, once, positions, run_all
from bench.page import Page, curve
from bench.peers.peer import ROOT
from bench.plot import Panel
from bench.settings import Settings
from bench.workloads import keyed

TITLE = "Comparing events: chains, parallel automata, conjunctive queries (chain-cea-icdt2020, pcea-hcq-2024)"
KEYS = (10, 1_000, 100_000)
WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
FEW_WINDOWS = (1_000, 100_000)
PASSES = 8
EACH = 8  # events of a key that never comes back
CLAUSE = "clause"
FORMS = (CLAUSE, "operator", "operator, no substreams", "operator, n EVENTS")
PLACES = "along the stream"
BY_KEYS, BY_WINDOW = "sequence of three of one stock", "by window"


def chain(window: int) -> ceql.Query:
    formula = "(T AS a ; S AS b ; R AS c FILTER b.y = c.y PARTITION BY [x])"
    return ceql.compile(f"SELECT a, b, c WHERE {formula} WITHIN {window} EVENTS")


def rule(window: int) -> ceql.Query:
    return ceql.rule(keyed.RULE, attributes=keyed.RELATIONS, within=f"{window} events")


QUERIES: dict[str, Callable[[int], ceql.Query]] = {"chain": chain, "rule": rule}


def tasks(settings: Settings) -> Iterator[Task]:
    for keys in settings.several(KEYS[:2], KEYS):
        places = tuple(Place(BY_KEYS, form, keys) for form in FORMS)
        yield Task(places, partial(_by_keys, settings, int(keys)))
    for name in QUERIES:
        windows = settings.several(FEW_WINDOWS, WINDOWS)
        places = tuple(Place(BY_WINDOW, name, window) for window in windows)
        yield Task(places, partial(_by_window, settings, name, windows))
    if not settings.quick:
        for name in QUERIES:
            places = tuple(Place(PLACES, name, k) for k in range(1, PASSES + 1))
            yield Task(places, partial(_passes, settings, name))


def compares_events(query: ceql.Query) -> bool:
    """Whether the second loop runs a query; by name, since the gate runs this with earlier trees, too."""
    plan = query.plan
    return plan.loop.name == "GROUPS" if hasattr(plan, "loop") else type(plan).__name__ == "CorrelatedPlan"


def without_substreams(text: str) -> ceql.Query:
    """The query for the second loop, though the stream could be split."""
    with patch("ceql.plan.split_off", lambda shape, _: ((), shape)):
        query = ceql.compile(text)
        assert compares_events(query)
    return query


def _by_keys(settings: Settings, keys: int) -> list[Figure]:
    """The window grows with the number of keys, so that each stock has four events within it."""
    table = keyed.market(settings.events, keys)
    formula, within = "SELL AS a ; BUY AS b ; SELL AS c", f"WITHIN {4 * keys} MILLISECONDS"
    operator = f"SELECT a, b, c WHERE ({formula} PARTITION BY [name])"
    queries = (
        ceql.compile(f"SELECT a, b, c WHERE {formula} PARTITION BY name {within}"),
        ceql.compile(f"{operator} {within}"),
        without_substreams(f"{operator} {within}"),
        ceql.compile(f"{operator} WITHIN {4 * keys} EVENTS"),
    )
    timed = run_all(dict(zip(FORMS, queries, strict=True)), table, settings.runs)
    rows = {form: digest(positions(result, ["a", "b", "c"])) for form, (_, result) in timed.items()}
    assert len(set(rows.values())) == 1, f"the forms have other matches: {rows}"
    return [timed[form][0] for form in FORMS]


def _by_window(settings: Settings, name: str, windows: list[float]) -> list[Figure]:
    table = keyed.triples(settings.events, 100_000, 1_000)
    queries = {str(window): QUERIES[name](int(window)) for window in windows}
    assert all(map(compares_events, queries.values()))
    timed = run_all(queries, table, settings.runs)
    return [timed[str(window)][0] for window in windows]


def _passes(settings: Settings, name: str) -> list[Figure]:
    """In a process of its own, which has nothing else to keep."""
    command = [sys.executable, "-m", "bench.experiments.correlation", name, str(settings.events)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return [Figure(error=done.stderr.strip().splitlines()[-1])] * PASSES
    readings = json.loads(done.stdout.strip().splitlines()[-1])
    return [
        Figure(wall, cpu, 0.0, 1, settings.events, matches, megabytes=resident)
        for wall, cpu, matches, resident in readings
    ]


def feed_passes(name: str, count: int) -> list[tuple[float, float, int, float]]:
    """For each pass over new events: seconds by the clock and of the processor, matches so far, resident megabytes."""
    import gc

    from bench.measure import megabytes

    query = QUERIES[name](10_000)
    keys = max(1, count // EACH)

    def events(block: int, size: int) -> pa.Table:
        return keyed.triples(size, keys, 10, seed=block, first=block * count, shift=block * keys)

    query.run(events(0, 1000)).to_arrow()  # what is compiled is so by then
    recognizer = query.recognizer(keep_rows=False)
    matches, readings = 0, []
    for block in range(PASSES):
        table = events(block, count)

        def feed(table: pa.Table = table) -> int:
            batches = table.to_batches(max_chunksize=1 << 17)
            return sum(found.num_rows for batch in batches for found in recognizer.feed(batch).to_batches())

        wall, cpu, found = once(feed)
        matches += found
        del table, feed
        gc.collect()
        pa.default_memory_pool().release_unused()
        readings.append((wall, cpu, matches, megabytes()))
    return readings


def show(settings: Settings, figures: Figures, page: Page) -> None:
    page.text(__doc__.split("\n", 2)[2].strip())
    keys, windows = settings.several(KEYS[:2], KEYS), settings.several(FEW_WINDOWS, WINDOWS)
    panels = [
        Panel(
            "Operator and clause PARTITION BY",
            "keys",
            "ns per event, CPU",
            {form: curve(figures, BY_KEYS, form, keys, "cpu_ns") for form in FORMS},
            log_x=True,
            log_y=False,
            ticks=list(keys),
        ),
        Panel(
            "Updates by window",
            "window, events",
            "ns per event, CPU",
            {name: curve(figures, BY_WINDOW, name, windows, "cpu_ns") for name in QUERIES},
            log_x=True,
            log_y=False,
            ticks=list(windows),
        ),
    ]
    passes = [float(k) for k in range(1, PASSES + 1)]
    if not settings.quick:
        memory = {name: curve(figures, PLACES, name, list(range(1, PASSES + 1)), "megabytes") for name in QUERIES}
        million = settings.events / 1e6
        moved = {name: [(x * million, y) for x, y in points] for name, points in memory.items()}
        panels.append(Panel("Memory along the stream", "million events", "resident MB", moved, log_y=False))
    page.plot("Comparing events", panels)
    page.title("Operator PARTITION BY against the clause: ns of processor time per event")
    rows: list[list[object]] = []
    for form in FORMS:
        found = [figures.get(BY_KEYS, form, key) for key in keys]
        rows.append([form, *(f"{f.cpu_ns:.0f} · {f.spread:.0%}" if f else "" for f in found)])
        for key in keys:
            one, other = figures.get(BY_KEYS, form, key), figures.get(BY_KEYS, CLAUSE, key)
            if one and other:
                ratio = one.cpu / other.cpu
                page.check(ratio <= 2, f"{form}, {key:,} keys: {ratio:.2f} times the clause (2 asked)")
    page.table(["keys", *(f"{key:,}" for key in keys)], rows)
    page.title("Updates by window: ns of processor time per event, and growth")
    rows = []
    for name in QUERIES:
        found = [figures.get(BY_WINDOW, name, window) for window in windows]
        rows.append([name, *(f"{f.cpu_ns:.0f} · {f.spread:.0%}" if f else "" for f in found)])
        if found[0]:
            growth = [f.cpu / found[0].cpu if f else 0.0 for f in found]
            rows.append([f"{name}, growth", *growth])
            for window, grown in zip(windows, growth, strict=True):
                allowed = math.log(window) / math.log(windows[0])
                page.check(grown <= allowed, f"{name}, window {window:,}: {grown:.2f} times (as log(w): {allowed:.2f})")
    rows.append(["log(w)", *(math.log(window) / math.log(windows[0]) for window in windows)])
    page.table(["window, events", *(f"{window:,}" for window in windows)], rows)
    if not settings.quick:
        page.title(f"Along the stream: passes over {settings.events:,} events with new keys, window 10,000 events")
        rows = []
        for name in QUERIES:
            found = [figures.get(PLACES, name, int(k)) for k in passes]
            rows.append([f"{name}: ns per event, CPU", *(f.cpu_ns if f else "" for f in found)])
            rows.append([f"{name}: resident MB", *(f.megabytes if f else "" for f in found)])
            second, last = found[1], found[-1]
            if second and last and not last.error:
                grown = last.megabytes - second.megabytes
                page.check(grown < 20, f"{name}: {grown:+.0f} MB after the second pass (less than 20)")
        page.table(["pass", *(f"{k:g}" for k in passes)], rows)


if __name__ == "__main__":
    print(json.dumps(feed_passes(sys.argv[1], int(sys.argv[2]))))
