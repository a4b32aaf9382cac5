"""Results that are too large, values that Python has not, arguments that make no sense: errors with a message."""

from __future__ import annotations

from datetime import timedelta
from math import inf, nan

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import ceql

EVENTS = pa.table({"type": ["A"] * 20})
LIMITS = ("memory", "max_states", "max_buffered_rows")


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.to_arrow(),
        lambda m: m.to_arrow("wide"),
        lambda m: m.to_arrow("long"),
        lambda m: m.to_pandas(),
        lambda m: m.events(),
    ],
    ids=["rows", "wide", "long", "pandas", "events"],
)
def test_an_explosion_is_a_limit_that_says_what_to_do(ask):
    matches = ceql.match("SELECT * WHERE A+", EVENTS, memory=1 << 20)
    with pytest.raises(ceql.ResourceError, match=r"count\(\) counts them, head\(n\) .* to_batches\(\)") as error:
        ask(matches)
    assert error.value.limit == "memory"
    assert matches.count() == 2**20 - 1
    assert matches.head(3).num_rows == 3
    assert next(matches.to_batches()).num_rows > 0


@pytest.mark.parametrize("ask", [lambda m: m.to_pandas(), lambda m: m.to_arrow("long"), lambda m: m.events()])
def test_an_explosion_is_foreseen_long_before_the_memory_is_full(ask):
    events = pa.table({"type": ["A"] * 59})
    with pytest.raises(ceql.ResourceError, match=f"since there are {2**59 - 1:,}: count"):
        ask(ceql.match("SELECT * WHERE A+", events, memory=1 << 30))


def test_matches_that_cannot_be_counted_by_themselves_are_weighed():
    matches = ceql.match("SELECT * WHERE A+", iter([pa.table({"type": ["A"] * 59})]), memory=100 << 20)
    with pytest.raises(ceql.ResourceError, match="more than 104,857,600 bytes: count"):
        matches.to_arrow()


CHOSEN = {
    "NEXT among candidates": "SELECT NEXT * WHERE A+ AS a ; B AS b FILTER ROUND(a.v / b.v) <= 1",
    "not equal": "SELECT * WHERE (A+ ; B AS b) FILTER b[v != PREV.v]",
    "NOT at the end": "SELECT * WHERE A+ ; NOT C WITHIN 90 EVENTS",
    "NEXT of NOT at the end": "SELECT NEXT * WHERE A+ ; NOT C WITHIN 90 EVENTS",
}


@pytest.mark.parametrize("text", CHOSEN.values(), ids=CHOSEN)
def test_candidates_that_must_be_held_at_once_are_within_memory(text):
    rows = range(26)
    events = pa.table({"type": ["C", *["A"] * 24, "B"], "time": rows, "v": rows})
    query = ceql.compile(text)
    with pytest.raises(ceql.ResourceError, match=r"need more than the [\d,]+ bytes that memory= leaves") as error:
        query.run(events, memory=4 << 20).count()
    assert error.value.limit == "memory"
    recognizer = query.recognizer(memory=4 << 20)
    matches = recognizer.feed(events)
    with pytest.raises(ceql.ResourceError):
        matches.to_arrow()


@pytest.mark.parametrize("strategy", ["NEXT", "LAST", "MAX"])
def test_what_is_chosen_on_the_graph_is_not_held(strategy):
    """All 200 A's before a B are the one match that is kept of 2^200 - 1."""
    rows = range(201)
    events = pa.table({"type": [*["A"] * 200, "B"], "v": rows})
    query = ceql.compile(f"SELECT {strategy} * WHERE A+ AS a ; B AS b FILTER a.v < b.v")
    assert [match.events for match in query.run(events, memory=256 << 20)] == [tuple(rows)]


def test_no_memory_is_a_limit(monkeypatch):
    matches = ceql.match("SELECT * WHERE A", EVENTS)

    def fails() -> object:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    monkeypatch.setattr(matches, "to_batches", fails)
    with pytest.raises(ceql.ResourceError, match="more memory than there is"):
        matches.to_arrow()


def test_a_zone_that_nobody_knows():
    events = pa.table({"type": ["A"], "time": pa.array([1], pa.timestamp("us", "Mars/Base"))})
    assert ceql.match("SELECT * WHERE A", events).count() == 1
    with pytest.raises(ceql.DataError, match=r"'start_time' \(.*Mars/Base.*\) has what Python cannot hold"):
        list(ceql.match("SELECT * WHERE A", events))
    with pytest.raises(ceql.SchemaError, match="has the time zone 'Mars/Base', which is not known here"):
        ceql.match("SELECT * WHERE A FILTER A[time > '2024-01-01']", events)
    assert ceql.match("SELECT * WHERE A FILTER A[time < '2024-01-01T00:00:00Z']", events).count() == 1


def test_a_year_that_python_has_not():
    events = pa.table({"type": ["A"], "time": pa.array([1 << 40], pa.timestamp("s"))})
    with pytest.raises(ceql.DataError, match="has what Python cannot hold"):
        list(ceql.match("SELECT * WHERE A", events))


def test_integers_that_a_float_does_not_hold():
    events = pa.table({"type": ["A"], "i": [1 << 60]})
    for condition in ("i / 2 > 1", "i * 1.5 > 1", "i % 2.5 > 1", "i + 0.5 > 1"):
        with pytest.raises(ceql.DataError, match="cannot be calculated exactly here"):
            ceql.match(f"SELECT * WHERE A FILTER A[{condition}]", events).count()


def test_keys_of_times_that_do_not_fit():
    times = {"x": pa.array([1 << 62], pa.timestamp("s")), "y": pa.array([5], pa.timestamp("ns"))}
    with pytest.raises(ceql.DataError, match="does not fit"):
        ceql.match("SELECT * WHERE A PARTITION BY [x, y]", pa.table({"type": ["A"], **times})).count()


def test_sparse_columns_of_pandas():
    frame = pd.DataFrame({"type": ["A", "A"], "x": pd.arrays.SparseArray([0, 1])})
    assert ceql.match("SELECT * WHERE A FILTER A[x = 1]", frame).to_arrow()["start"].to_pylist() == [1]


@pytest.mark.parametrize("events", [pa.table({"type": ["A"]}), [{"type": "A"}], "events.parquet", None], ids=str)
def test_arguments_in_the_wrong_order(events):
    for query in ("SELECT * WHERE A", " select * WHERE A", ceql.compile("SELECT * WHERE A")):
        with pytest.raises(ceql.ArgumentError, match="takes the text of a query first, then the events"):
            ceql.match(events, query)


def test_a_name_that_is_no_text():
    with pytest.raises(ceql.DataError, match="an attribute's name must be text"):
        ceql.match("SELECT * WHERE A", [{"type": "A", "\ud800": 1}]).count()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, value)
            for name in ("memory", "max_states", "max_buffered_rows")
            for value in ("x", 0, -1, 1.5, nan, None, True)
        ),
        *(("lateness", value) for value in (inf, nan, -1, "soon", "inf seconds", None, [], timedelta(-1))),
        ("type", 3),
        ("time", 3),
        ("time_unit", "fortnight"),
    ],
)
def test_arguments_that_make_no_sense(name, value):
    query = ceql.compile("SELECT * WHERE A")
    for call in (lambda: query.run(EVENTS, **{name: value}), lambda: query.recognizer(**{name: value})):
        with pytest.raises(ceql.ArgumentError, match=name) as error:
            call()
        assert isinstance(error.value, ceql.CeqlError)
        assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("value", ["x", -1, 1.5, nan, None, True])
def test_a_budget_that_makes_no_sense_leaves_the_old_one(value):
    recognizer = ceql.compile("SELECT * WHERE A").recognizer(memory=1 << 20)
    recognizer.feed(EVENTS).count()
    with pytest.raises(ceql.ArgumentError, match="memory= is a whole number"):
        recognizer.memory = value
    assert recognizer.memory == 1 << 20


@pytest.mark.parametrize("value", [0, "x", 1.5])
def test_a_size_of_batches_that_makes_no_sense(value):
    with pytest.raises(ceql.ArgumentError, match="batch_rows"):
        ceql.match("SELECT * WHERE A", EVENTS, batch_rows=value)


def test_unsigned_numbers_that_a_sum_does_not_hold():
    events = pa.table({"type": list("ABC"), "c": pa.array([1, 2**64 - 1, 2**64 - 1], pa.uint64())})
    found = ceql.match("SELECT SUM(A.c) AS s, AVG(B.c) AS m WHERE A ; B", events).to_arrow().to_pylist()
    assert [(match["s"], match["m"]) for match in found] == [(1, 2.0**64)]
    for query in ("SELECT SUM(B.c) WHERE A ; B", "SELECT * WHERE A ; B AS b FILTER SUM(b.c) + 0 > 3"):
        with pytest.raises(ceql.DataError, match=r"greater than 2\^63 - 1|cannot be calculated with"):
            ceql.match(query, events).to_arrow()


def test_days_that_no_timestamp_holds():
    events = pa.table({"type": list("AB"), "day": pa.array([0, 2**31 - 1], pa.date32())})
    with pytest.raises(ceql.DataError, match="'day' cannot be compared between events"):
        ceql.match("SELECT * WHERE A AS a ; B AS b FILTER b.day - a.day < 5 SECONDS", events).count()


def test_the_greatest_of_half_floats():
    events = pa.table({"type": list("ABB"), "h": pa.array(np.array([1, 3, 2], np.float16))})
    found = ceql.match("SELECT MAX(B.h) AS most WHERE A ; B{2}", events).to_arrow()
    assert found["most"].to_pylist() == [3.0]


def test_two_attributes_that_no_event_has():
    assert ceql.match("SELECT * WHERE A FILTER A[a = b]", [{"type": "A"}]).count() == 0
    with pytest.raises(ceql.SchemaError, match="'a'"):
        ceql.match("SELECT * WHERE A FILTER A[a = b]", pa.table({"type": ["A"]})).count()


def test_a_regular_expression_that_is_none_is_found_when_the_query_is_compiled():
    with pytest.raises(ceql.QueryError, match="not a regular expression"):
        ceql.compile("SELECT * WHERE A FILTER A[s RLIKE '(']")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT y WHERE (B AS y FILTER x[PREV.v < 1]) AS x FILTER NULL != y.v OR 'a' = 'a'",
        "SELECT * WHERE (A AS x ; ((y FILTER x[1 < NULL]) OR A) PARTITION BY [v])",
    ],
)
def test_filters_that_ask_for_nothing_are_diagnosed(query):
    events = pa.table({"type": list("ABAB"), "time": [0, 1, 2, 3], "v": [1, 0, 1, 2]})
    assert str(ceql.compile(query).diagnose(events))
