"""The loops by hand find what ceql and the oracle find, and so do the peers; the page says what did not end."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from bench.experiments import conditions, conditions_worker
from bench.experiments.conditions_worker import CEQL, HAND, LOOP, QUERIES
from bench.figures import Figure, Figures, Place, Task
from bench.page import Page
from bench.pattern import Pattern
from bench.peers import by_hand, joins_worker, naive
from bench.peers import by_hand_loops as loops
from bench.peers.by_hand import Columns
from bench.settings import Settings
from bench.workloads import keyed

import ceql
import oracle

A_B_C = "SELECT * WHERE A AS a ; B AS b ; C AS c"
LOOPS: dict[str, tuple[str, str, int, Callable[[Columns, int], int]]] = {
    "rising": (
        f"{A_B_C} FILTER b.price > a.price + 20 AND c.price > b.price + 10",
        "ABC",
        60,
        lambda e, window: loops.count_rising(e.kind, e.price, 20.0, 10.0, window),
    ),
    "drop": (
        f"{A_B_C} FILTER a.k = c.k AND c.price < a.price - 10",
        "ABC",
        60,
        lambda e, window: loops.count_drop(e.kind, e.price, e.k, 10.0, window),
    ),
    "four": (
        "SELECT * WHERE A AS a ; B AS b ; C AS c ; D AS d "
        "FILTER b.price > a.price + 10 AND c.price > b.price + 10 AND d.price < a.price",
        "ABCD",
        80,
        lambda e, window: loops.count_four(e.kind, e.price, 10.0, window),
    ),
    "rising runs": (
        "SELECT * WHERE A ; A+ AS b FILTER b[price > PREV.price]",
        "A",
        10,
        lambda e, window: loops.count_rising_runs(e.price, window),
    ),
}
EVENTS = {"rising, 50": 3000, "rising runs, 12": 60, "rising runs, 100": 18}


def rounded(count: int, types: str, seed: int) -> pa.Table:
    """Prices that often repeat: a loop might take < for <=."""
    table = keyed.priced(count, types, keys=2, seed=seed)
    prices = np.round(table["price"].to_numpy(), -1)
    return table.set_column(table.column_names.index("price"), "price", pa.array(prices))


def oracle_count(text: str, table: pa.Table) -> int:
    return len(oracle.matches(ceql.compile(text).plan.query, table.to_pylist()))


@pytest.mark.parametrize("name", LOOPS)
def test_loops_count_what_the_oracle_finds(name):
    text, types, count, loop = LOOPS[name]
    total = 0
    for seed, window in enumerate((3, 4, 4, 6, 8, 10, 20, 40, 60)):
        table = rounded(count, types, seed)
        query = f"{text} WITHIN {window} EVENTS"
        found = loop(by_hand.columns(table), window)
        assert found == oracle_count(query, table) == ceql.match(query, table).count()
        total += found
    assert total > 20


def test_lists_are_what_is_counted():
    for seed, window in enumerate((3, 4, 4, 6, 8, 10, 20, 40, 60)):
        kind, price, k = by_hand.columns(rounded(200, "ABC", seed))
        rising, drop = (kind, price, 20.0, 10.0, window), (kind, price, k, 10.0, window)
        for rows, count in (
            (loops.list_rising(*rising), loops.count_rising(*rising)),
            (loops.list_drop(*drop), loops.count_drop(*drop)),
        ):
            assert len(rows) == len(np.unique(rows, axis=0)) == count
            assert (kind[rows] == [0, 1, 2]).all()


@pytest.mark.parametrize("name", QUERIES)
def test_loops_count_what_ceql_counts(name):
    query, types, loop = QUERIES[name]
    table = keyed.priced(EVENTS.get(name, 500), types)
    found = loop(by_hand.columns(table))
    assert found == ceql.match(query, table).count()
    assert found > 0


def test_the_tree_knows_where_prices_rise():
    for seed, window in enumerate((2, 5, 8, 14, 40)):
        table = rounded(40, "ABC", seed)
        kind, price, _ = by_hand.columns(table)
        found = loops.rises_at(kind, price, 0.0, 0.0, window)
        assert found == oracle_count(conditions_worker.rising(window).text, table)
        steep = f"{A_B_C} FILTER b.price > a.price + 20 AND c.price > b.price + 10 WITHIN {window} EVENTS LIMIT 1"
        assert loops.rises_at(kind, price, 20.0, 10.0, window) == oracle_count(steep, table)


@pytest.mark.parametrize("pattern", conditions.PANELS, ids=conditions.PANELS.get)
def test_loops_list_what_all_others_list(pattern):
    table = keyed.priced(500)
    rows = sorted(map(tuple, by_hand.LISTS[pattern](by_hand.columns(table)).tolist()))
    assert rows == sorted(map(tuple, ceql.match(pattern.ceql(), table).to_arrow()["events"].to_pylist()))
    assert by_hand.right(table, pattern) == (len(rows), len({row[-1] for row in rows}))
    assert rows
    events, attributes = naive.events_of(table, pattern)
    engine = naive.Engine(pattern, attributes)
    assert sorted(row for at, event in enumerate(events) for row in engine.feed(at, event)) == rows
    for name in ("duckdb", "duckdb, buckets", "polars", "polars, buckets"):
        found = joins_worker.ENGINES[name](table, pattern)()
        assert sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) == rows, name


def test_lists_grow():
    kind = np.repeat(np.array([0, 1, 2], np.int8), 30)
    price, k = np.repeat([100.0, 95.0, 1.0], 30), np.zeros(90, np.int64)
    assert len(np.unique(loops.list_drop(kind, price, k, 80.0, 200), axis=0)) == 30**3
    assert len(np.unique(loops.list_rising(kind, 100.0 - price, 2.0, 5.0, 400), axis=0)) == 30**3


def test_a_part_is_measured():
    early, ours, both = conditions_worker.count_beside("four", 300, 1)
    assert set(early) == {HAND, LOOP}
    assert (set(ours), ours[CEQL].runs) == ({CEQL}, 1)
    assert set(both) == {CEQL, HAND, LOOP}
    assert all(figure.counts for figure in both.values())
    assert len({figure.matches for figure in both.values()}) == 1
    *one_by_one, turns = conditions_worker.count_by_window("rising", 60, 1, [10, 20])
    assert [list(each) for each in one_by_one] == [["10"], ["20"]]
    assert [figure.counts and figure.matches > 0 for figure in turns.values()] == [True, True]
    assert [list(each) for each in conditions_worker.count_by_window("rule", 60, 1, [10])] == [["10"], ["10"]]


def test_other_counts_are_told(monkeypatch):
    monkeypatch.setitem(QUERIES, "four", QUERIES["four"]._replace(loop=lambda events: -1))
    _, ours, both = conditions_worker.count_beside("four", 300, 1)
    assert not ours[CEQL].counts
    assert not both[CEQL].counts
    assert both[HAND].counts
    monkeypatch.setattr(loops, "rises_at", lambda *arguments: -1)
    assert not any(
        figure.counts for found in conditions_worker.count_by_window("rising", 60, 1, [10]) for figure in found.values()
    )


def test_what_takes_long_is_run_once(monkeypatch):
    monkeypatch.setattr(conditions_worker, "LONG", -1.0)
    assert [list(found) for found in conditions_worker.count_beside("four", 300, 1)] == [[HAND, LOOP], [CEQL]]


def test_windows_that_were_not_begun(monkeypatch):
    monkeypatch.setattr(conditions, "within", lambda *arguments: {"10": Figure(wall=1.0)})
    places = conditions._by_window(Settings(quick=True), "rising", [10, 20, 30])
    assert [figure.error for figure in places] == ["", "over 16 s", "not begun"]


def test_what_was_printed_before_the_end_counts(monkeypatch):
    known = json.dumps({HAND: {"wall": 1.0, "events": 5}})
    script = f"import sys, time; print({known!r}, flush=True); print('{{\"ceql', end='', flush=True); time.sleep(60)"
    monkeypatch.setattr(conditions, "WORKER", ["-c", script])
    found = conditions.within(1.5, "query", "four", 300, 1)
    assert found == {HAND: Figure(wall=1.0, events=5)}
    monkeypatch.setattr(conditions, "WORKER", ["-c", "raise ValueError('this is why')"])
    with pytest.raises(RuntimeError, match="this is why"):
        conditions.within(20.0)


def test_the_page_says_what_did_not_end(tmp_path):
    settings = Settings(quick=True, peers=())
    figures = Figures(tmp_path / "conditions.json")
    panel = conditions.PANELS[by_hand.RISING]
    ours = Figure(wall=1.0, cpu=1.0, runs=3, events=3000, matches=7)
    measured = {
        Place(conditions.COUNTED, CEQL, "four"): Figure(error="over 10 s"),
        Place(conditions.COUNTED, HAND, "four"): Figure(wall=0.002, cpu=0.002, events=2000, matches=12),
        Place(conditions.COUNTED, LOOP, "four"): Figure(wall=0.001, cpu=0.001, events=2000, matches=12),
        Place(conditions.BY_WINDOW, "rising", 1_000): ours,
        Place(conditions.BY_WINDOW, "rising", 100_000): Figure(error="over 10 s"),
        Place(panel, CEQL, 3_000): ours,
        Place(panel, "DuckDB", 3_000): Figure(error="aborted: not done in 13 s"),
        Place(panel, "DuckDB, buckets", 3_000): Figure(error="aborted: out of memory"),
        Place(panel, "partial matches", 3_000): Figure(wall=2.0, cpu=2.0, events=100),
        Place(panel, "polars", 3_000): Figure(wall=0.5, cpu=0.5, events=3000),
    }
    figures.add(Task(tuple(measured), list), list(measured.values()))
    page = Page(tmp_path, "conditions")
    conditions.show(settings, figures, page)
    text = "\n".join(page.lines)
    assert "WITHIN 60 EVENTS` | 12 | over 10 s | 2.00 | 1.00 |  |  |" in text
    assert "| rising | 3.00 k · 333,333 · 0% | over 10 s |" in text
    assert "| ceql | 1.00 s |" in text
    assert "| DuckDB | over 13 s |" in text
    assert "| DuckDB, buckets | out of memory |" in text
    assert "| partial matches | over 2 s, 100 events read · 60.0 times |" in text
    assert "| polars | 0.5 s · 0.5 times |" in text
    assert page.missed == [
        "four: over 10 s (at most 5 times the loop by hand)",
        "rising, 100,000: over 10 s (1,000,000 events per second asked)",
        "rising, to 100,000: over 10 s (4 times asked)",
        f"{panel}, 3,000: 0.5 times the rate of polars (0.67 asked)",
    ]


def test_growth_is_of_several_runs():
    first, last = Figure(cpu=1.0, runs=3), Figure(cpu=3.0, runs=3)
    assert conditions._growth(first, last) == 3.0
    assert conditions._growth(first, Figure(cpu=3.0, runs=1)) is None
    assert conditions._growth(first, Figure(cpu=3.0, runs=3, note="other matches: 1")) is None
    assert conditions._growth(None, last) is None


def test_every_part_has_its_task():
    def keys(quick: bool) -> list[str]:
        return [place.key for task in conditions.tasks(Settings(quick)) for place in task.places]

    assert len(keys(True)) == 3 * len(QUERIES) + 2 * len(conditions.FEW_WINDOWS)
    assert len(keys(False)) == 3 * len(QUERIES) + 2 * len(conditions.WINDOWS)


def test_only_sequences_compare():
    step = by_hand.RISING.steps[1]
    with pytest.raises(ValueError, match="one event each"):
        Pattern((step, type(step)(("B",), plus=True, against=step.against)))
