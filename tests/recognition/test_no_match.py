"""What is said of a query that can find nothing: no event has a type that it names, or PREV keeps it from beginning."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings

import ceql
import generators
import paths
from ceql.analysis.first_event import never_begins
from ceql.syntax.printer import print_query

FLIGHTS = {"flight": [1, 2, 3], "type": ["economy", "business", "economy"], "delay": [5, 40, 90]}


def warned(work: Any) -> list[str]:
    """What `work` warns of, all at this file's lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    assert all(w.category is ceql.NoMatchWarning and w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(pd.DataFrame(FLIGHTS), id="pandas"),
        pytest.param(pd.DataFrame(FLIGHTS).astype({"type": "category"}), id="categories"),
        pytest.param(pl.DataFrame(FLIGHTS), id="polars"),
        pytest.param(pa.table(FLIGHTS), id="arrow"),
        pytest.param(pa.table(FLIGHTS).to_pylist(), id="dicts"),
    ],
)
def test_a_column_named_type_that_is_something_else(events: Any) -> None:
    matches = ceql.compile("SELECT * FROM E WHERE E AS e FILTER e[delay > 30]").run(events)
    (said,) = warned(lambda: list(matches))
    assert said == (
        "no event has the type that the query names ('E'): the column 'type' has 'economy', 'business'. "
        "If the name of the stream is the type of its events, pass type=None"
    )
    assert warned(lambda: list(matches)) == []  # once
    assert ceql.match("SELECT * FROM E WHERE E AS e FILTER e[delay > 30]", events, type=None).count() == 2


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT * WHERE Buy ; Sell", "Did you mean 'BUY' and 'SELL'?"),
        ("SELECT * WHERE SEL", "Did you mean 'SELL'?"),
        ("SELECT * WHERE Order", "name it with type="),
    ],
)
def test_a_type_in_other_case_or_misspelt_is_offered(query: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    pa.csv.write_csv(pa.table({"type": ["BUY", "SELL"], "price": [1, 2]}), path)
    (said,) = warned(lambda: ceql.match(query, path).count())
    assert said.startswith("no event has the type")
    assert said.endswith(hint)


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("SELECT * WHERE A OR B", ["A", "C"]),  # one of them came
        ("SELECT * WHERE A ; B?", ["A", "C"]),
        ("SELECT * WHERE A ; B* ; C{0,2}", ["A"]),
        ("SELECT * WHERE A ; NOT B ; C", ["A", "C"]),
        ("SELECT * WHERE (A ; B) OR (A ; C)", ["A", "C"]),
        ("SELECT * WHERE A FILTER A[v > 9]", ["A", "C"]),  # it came, and failed
        ("SELECT * WHERE A", []),
    ],
)
def test_nothing_is_said_when_a_type_came_or_nothing_did(query: str, types: list[str]) -> None:
    events = pa.table({"type": pa.array(types, pa.string()), "v": pa.array([1] * len(types), pa.int64())})
    assert warned(lambda: list(ceql.match(query, events))) == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("A ; B", "the type 'B', without"),
        ("A ALL B ALL D", "the types 'B', 'D', without"),
        ("A ; B+ ; C", "the type 'B', without"),
        ("A ; B{2,}", "the type 'B', without"),
        ("A ; (B OR D)", "the types 'B', 'D', without"),
        ("(A ; B) OR (B ; C)", "the type 'B', without"),
        ("(A ; NOT X ; B PARTITION BY v)", "the type 'B', without"),
        ("B? ; D*", "the types that the query names ('B', 'D')"),  # a match has at least one event
    ],
)
def test_a_type_without_which_nothing_can_match_is_named(query: str, said: str, tmp_path: Path) -> None:
    events = pa.table({"type": ["A", "C"], "v": [1, 1]})
    pa.parquet.write_table(events, tmp_path / "events.parquet")
    for given in (events, tmp_path / "events.parquet", iter(events.to_batches()), events.to_pylist()):
        (text,) = warned(lambda given=given: ceql.match(f"SELECT * WHERE {query}", given).count())
        assert text.startswith(f"no event has {said}")
        assert "the column 'type' has 'A', 'C'" in text


def test_a_needed_type_that_is_misspelt_is_offered_while_others_came() -> None:
    events = [{"type": kind} for kind in ("login", "transfer", "Logout")]
    (said,) = warned(lambda: list(ceql.match("SELECT * WHERE login ; transfer ; logout", events)))
    assert said == (
        "no event has the type 'logout', without which the query cannot match: the column 'type' has 'login', "
        "'transfer', 'Logout'. Did you mean 'Logout'?"
    )


def test_a_file_whose_row_groups_can_be_left_out_is_looked_through_for_types(tmp_path: Path) -> None:
    events = pa.table({"type": ["A", "A", "B", "B"], "v": [1, 2, 3, 4], "time": [1, 2, 3, 4]})
    pa.parquet.write_table(events, tmp_path / "events.parquet", row_group_size=2)
    query = "SELECT * WHERE A AS a ; B AS b FILTER a[v > 1] AND b[v > 9]"  # the statistics tell that no B will do
    assert warned(lambda: ceql.match(query, tmp_path / "events.parquet").count()) == []


def test_of_several_queries_those_are_named_that_lack_a_type() -> None:
    events = [{"type": "A"}, {"type": "B"}]
    queries = ceql.compile_all({"ab": "SELECT * WHERE A ; B", "ac": "SELECT * WHERE A ; C", "d": "SELECT * WHERE D"})
    said = [
        "no event has the types 'C', 'D', without which queries 'ac', 'd' cannot match: the column 'type' has 'A', 'B'"
    ]
    assert warned(lambda: queries.run(events).count()) == said
    recognizer = queries.recognizer()
    assert warned(lambda: [recognizer.feed(event).count() for event in events]) == []
    assert warned(lambda: recognizer.finish()) == said
    assert warned(lambda: recognizer.finish()) == []


def test_the_named_type_may_come_in_the_last_batch() -> None:
    batches = [pa.record_batch({"type": [name]}) for name in ["X", "Y", "A"]]
    assert warned(lambda: list(ceql.match("SELECT * WHERE A", iter(batches)))) == []
    (said,) = warned(lambda: list(ceql.match("SELECT * WHERE B", iter(batches))))
    assert "has 'X', 'Y', 'A'." in said


def test_a_recogniser_says_it_when_it_is_finished() -> None:
    recognizer = ceql.compile("SELECT * WHERE login ; logout").recognizer()

    def feed() -> None:
        for kind in ["Login", "Logout"]:
            list(recognizer.feed({"type": kind}))

    assert warned(feed) == []
    assert warned(lambda: list(recognizer.finish())) == [
        "no event has the types that the query names ('login', 'logout'): the column 'type' has 'Login', 'Logout'. "
        "Did you mean 'Login' and 'Logout'?"
    ]
    recognizer = ceql.compile("SELECT * WHERE login ; logout").recognizer()
    assert warned(lambda: list(recognizer.feed({"type": "login"}))) == []  # the other may still come
    assert warned(lambda: list(recognizer.feed({"type": "logout"}))) == []
    assert warned(lambda: list(recognizer.finish())) == []
    restored = ceql.compile("SELECT * WHERE login ; logout").recognizer()
    list(restored.feed({"type": "login"}))
    restored = ceql.compile("SELECT * WHERE login ; logout").restore(restored.snapshot())
    list(restored.feed({"type": "Logout"}))
    assert warned(lambda: list(restored.finish())) == []


def test_without_a_column_of_types_the_streams_are_named() -> None:
    (said,) = warned(lambda: list(ceql.match("SELECT * FROM Trades WHERE Buy", pa.table({"kind": ["Buy"]}))))
    assert said == (
        "no event has the type that the query names ('Buy'): no column has types, so the type of each event is the "
        "name of its stream ('Trades'). If the types are in another column, name it with type="
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE P+ AS x FILTER x[p > PREV.p]",
        "SELECT * WHERE P AS x FILTER x.p > PREV.p",
        "SELECT * WHERE P AS x ; Q FILTER x[NOT p > PREV.p]",
        "SELECT * WHERE P AS x OR Q AS x FILTER x[p > PREV.p AND p > 1]",
        "SELECT * WHERE P AS x ; Q FILTER x[PREV.p IS NOT NULL]",
        "SELECT * WHERE P AS x FILTER x[p BETWEEN PREV.p AND 10]",
    ],
)
def test_a_query_that_prev_keeps_from_beginning_is_told(query: str) -> None:
    (said,) = warned(lambda: ceql.compile(query))
    assert said.startswith("the query can never match: PREV is NULL on the first event of a match, so '")
    assert "^" in said
    assert "A AS first ; A+ AS x FILTER x[v > PREV.v]" in said
    events = [{"type": kind, "p": p} for kind, p in [("P", 1), ("P", 2), ("Q", 3), ("P", 4), ("Q", 5)]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ceql.match(query, events).count() == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE P AS first ; P+ AS x FILTER x[p > PREV.p]",
        "SELECT * WHERE P+ AS x FILTER x[p > PREV.p OR PREV.p IS NULL]",
        "SELECT * WHERE P AS x OR Q FILTER x[p > PREV.p]",
        "SELECT * WHERE P AS x ALL Q AS y FILTER x[p > PREV.p]",
        "SELECT * WHERE P AS x FILTER x[p NOT BETWEEN PREV.p AND 10]",
        "SELECT * WHERE (P AS x FILTER x[p > PREV.p]) OR Q",
    ],
)
def test_a_query_that_may_begin_is_not(query: str) -> None:
    assert warned(lambda: ceql.compile(query)) == []
    events = [{"type": kind, "p": p} for kind, p in [("P", 1), ("P", 20), ("Q", 3), ("P", 4), ("Q", 5)]]
    assert ceql.match(query, events).count() > 0


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(generators.correlated_cases() | generators.conditioned_cases())
def test_what_is_said_to_match_never_does_not(case: generators.Generated) -> None:
    query = ceql.compile(print_query(case.query))
    if never_begins(query.plan.whole, query.text) is not None:
        assert paths.run_whole(query, case.events, time_unit="ms") == []
