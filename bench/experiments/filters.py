"""Recognition against evaluating the filters alone: what polars takes for the same filters, without any recognition.

A million stock events in plain-text Arrow; a sequence of n filtered events within 10 seconds, without consumption;
then the same by key, with dense output, and over events compared with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import ceql
from bench.figures import Figure, Figures, Place, Task
from bench.measure import together
from bench.page import Page
from bench.pattern import Pattern
from bench.settings import Settings, event_file, read_events
from bench.workloads import homes, keyed, letters, stock, taxi

TITLE = "Against the filters alone"
PANEL = "ratio"
YARDSTICK = "yardstick"
LENGTHS = (3, 6, 12, 24)
RUNS = 5
ROWS = 500_000  # of the streams other than the stock's
FEW_ROWS = 50_000  # where a window's events are gone through for each match
MOST = 3.0


def cases(events: int) -> dict[str, Callable[[], tuple[Callable[[], Any], Callable[[], Any], int]]]:
    """For each name: what ceql does, what it is compared with, and how many events both read."""
    made: dict[str, Callable[[], tuple[Callable[[], Any], Callable[[], Any], int]]] = {}
    for length in LENGTHS:
        made[f"sequence of {length}"] = partial(_sequence, events, length)
    made["sequence of 3, 1,000 keys"] = lambda: _keyed(events)
    made["dense output"] = lambda: _dense(events)
    made["smart homes, sequence of 9, consuming"] = lambda: _workload(homes, 9)
    made["taxi trips, sequence of 9, consuming"] = lambda: _workload(taxi, 9)
    made["letters, Q5, consuming"] = lambda: _letters(letters.query("Q5"))
    made["letters, Q6, consuming"] = lambda: _letters(letters.query("Q6"))
    for strategy in ("LAST", "MAX"):
        changed = letters.query("Q5", strategy=strategy, window=100, consume=False, limit=1)
        made[f"letters, Q5, {strategy} within 100 events"] = partial(_letters, changed, FEW_ROWS)
    made["operator PARTITION BY, 1,000 keys"] = lambda: _operator()
    made["rule T(x), S(x, y), R(x, y)"] = lambda: _rule()
    return made


def tasks(settings: Settings) -> Iterator[Task]:
    for name, make in cases(settings.events).items():
        places = (Place(PANEL, "ceql", name), Place(PANEL, YARDSTICK, name))
        yield Task(places, partial(measure, make, settings.runs if settings.quick else RUNS))


def measure(make: Callable[[], tuple[Callable[[], Any], Callable[[], Any], int]], runs: int) -> list[Figure]:
    ours, theirs, events = make()
    timed = together({"ceql": ours, YARDSTICK: theirs}, events, runs)
    return [timed["ceql"][0], timed[YARDSTICK][0]]


def show(settings: Settings, figures: Figures, page: Page) -> None:
    page.text(__doc__.split("\n", 2)[2].strip())
    page.text(
        "The yardstick is polars evaluating all filters of the query on one thread; by key, it groups the events by it "
        "instead; for dense output, it makes a table of that size; for the letters, which have no filters, it counts "
        "each type."
    )
    rows: list[list[object]] = []
    for name in cases(settings.events):
        ours, theirs = figures.get(PANEL, "ceql", name), figures.get(PANEL, YARDSTICK, name)
        if ours and theirs:
            cells = (ours.matches, ours.ns, ours.cpu_ns, f"{ours.spread:.0%}", theirs.cpu_ns, f"{theirs.spread:.0%}")
            rows.append([name, *cells, ours.cpu_ns / theirs.cpu_ns])
            if name.startswith("sequence of") and "keys" not in name:
                ratio = ours.cpu_ns / theirs.cpu_ns
                page.check(ratio <= MOST, f"{name}: {ratio:.2f} times the filters alone (at most {MOST:g})")
    header = ["", "matches", "ceql, ns", "ceql, ns CPU", "spread", "yardstick, ns CPU", "spread", "ceql / yardstick"]
    page.table(header, rows)


def _run(query: str, table: pa.Table) -> Callable[[], pa.Table]:
    compiled = ceql.compile(query)
    return lambda: compiled.run(table).to_arrow()


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _sequence(events: int, length: int) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    table = read_events(event_file(stock.events, events))
    frame, filters = _frame(table), stock.filters(length)
    return _run(stock.sequence(length), table), lambda: frame.lazy().select(filters).collect(), len(table)


def _keyed(events: int) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    table = read_events(event_file(stock.events, events))
    keys = np.random.default_rng(1).integers(0, 1000, len(table))
    table = table.append_column("key", pa.array(keys))
    query = stock.sequence(3).replace(" WITHIN", " PARTITION BY key WITHIN")
    frame = _frame(table)
    return _run(query, table), lambda: frame.lazy().group_by("key").len().collect(), len(table)


def _dense(events: int) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    table = read_events(event_file(stock.events, events))
    ours = _run(stock.dense(30), table)
    size = ours().num_rows
    return ours, lambda: pl.select(*(pl.int_range(k, k + 4 * size).alias(f"c{k}") for k in range(2))), len(table)


def _workload(workload: Any, length: int) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    table = read_events(event_file(workload.events, ROWS))
    pattern = workload.pattern(length)
    frame = _frame(table)
    compare = {"=": "__eq__", ">": "__gt__", "<": "__lt__", ">=": "__ge__", "<=": "__le__"}
    filters = []
    for k, step in enumerate(pattern.steps):
        expression = pl.col("type").is_in(list(step.types))
        for attribute, operator, value in step.conditions:
            expression = expression & getattr(pl.col(attribute), compare[operator])(value)
        filters.append(expression.alias(f"e{k}"))
    return _run(pattern.ceql(), table), lambda: frame.lazy().select(filters).collect(), len(table)


def _letters(pattern: Pattern, rows: int = ROWS) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    table = read_events(event_file(letters.uniform, rows))
    frame = _frame(table)
    counts = [(pl.col("type") == letter).sum().alias(letter) for letter in "ABCD"]
    return _run(pattern.ceql(), table), lambda: frame.lazy().select(counts).collect(), len(table)


def _operator() -> tuple[Callable[[], Any], Callable[[], Any], int]:
    table = keyed.market(ROWS, 1_000)
    frame = _frame(table)
    formula = "SELL AS a ; BUY AS b ; SELL AS c PARTITION BY [name]"
    ours = _run(f"SELECT a, b, c WHERE ({formula}) WITHIN 4000 EVENTS", table)
    return ours, lambda: frame.lazy().group_by("name").len().collect(), len(table)


def _rule() -> tuple[Callable[[], Any], Callable[[], Any], int]:
    table = keyed.triples(ROWS, 100_000, 1_000)
    frame = _frame(table)
    query = ceql.rule(keyed.RULE, attributes=keyed.RELATIONS, within="100000 events")
    return (
        lambda: query.run(table).to_arrow(),
        lambda: frame.lazy().group_by("x", "y").len().collect(),
        len(table),
    )
