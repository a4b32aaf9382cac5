"""Matches with their events: wide, long, one by one; from every kind of input."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bench.workloads import flights
from hypothesis import given as each
from hypothesis import strategies as st
from pyarrow import csv, parquet

import ceql

FLIGHTS = [
    {"type": "Late", "plane": "N1", "time": 1, "flight": 10, "delay": 20.5, "to": "ORD"},
    {"type": "Late", "plane": "N2", "time": 2, "flight": 11, "delay": 31.0, "to": "ATL"},
    {"type": "Late", "plane": "N1", "time": 3, "flight": 12, "delay": 44.0, "to": None},
    {"type": "Cancelled", "plane": "N1", "time": 4, "flight": 13, "delay": None, "to": "LAX"},
    {"type": "Cancelled", "plane": "N2", "time": 9, "flight": 14, "delay": None, "to": "LAX"},
]
CHAIN = "SELECT a[flight], late[flight, delay] WHERE Late+ AS late ; Cancelled AS a PARTITION BY plane"
WIDE = {
    "start": [2, 0, 0, 1],
    "end": [3, 3, 3, 4],
    "start_time": [3, 1, 1, 2],
    "end_time": [4, 4, 4, 9],
    "plane": ["N1", "N1", "N1", "N2"],
    "a": [3, 3, 3, 4],
    "a.flight": [13, 13, 13, 14],
    "late": [[2], [0, 2], [0], [1]],
    "late.flight": [[12], [10, 12], [10], [11]],
    "late.delay": [[44.0], [20.5, 44.0], [20.5], [31.0]],
}


def table() -> pa.Table:
    return pa.Table.from_pylist(FLIGHTS)


def parquet_file(folder: Path) -> Path:
    parquet.write_table(table(), folder / "flights.parquet", row_group_size=2)
    return folder / "flights.parquet"


def csv_file(folder: Path) -> Path:
    csv.write_csv(table(), folder / "flights.csv")
    return folder / "flights.csv"


INPUTS = {
    "dicts": lambda _: FLIGHTS,
    "generator": lambda _: iter(FLIGHTS),
    "table": lambda _: table(),
    "reader": lambda _: table().to_reader(max_chunksize=2),
    "pandas": lambda _: pd.DataFrame(FLIGHTS),
    "polars": lambda _: pl.DataFrame(FLIGHTS),
    "lazy polars": lambda _: pl.LazyFrame(FLIGHTS),
    "parquet": parquet_file,
    "csv": csv_file,
}


@pytest.mark.parametrize("kind", INPUTS)
def test_wide_has_the_attributes_of_each_variable(kind, tmp_path):
    found = ceql.match(CHAIN, INPUTS[kind](tmp_path))
    assert sorted(found.to_arrow("wide").to_pylist(), key=str) == sorted(pa.table(WIDE).to_pylist(), key=str)


@pytest.mark.parametrize("kind", INPUTS)
def test_long_has_a_row_for_each_event(kind, tmp_path):
    found = ceql.match(CHAIN.replace("SELECT", "SELECT MAX"), INPUTS[kind](tmp_path))
    frame = found.to_pandas(events="long")
    assert list(frame) == ["match", "variable", "row", "plane", "flight", "delay"]
    assert frame[["match", "variable", "row", "plane", "flight"]].to_numpy().tolist() == [
        [0, "late", 0, "N1", 10],
        [0, "late", 2, "N1", 12],
        [0, "a", 3, "N1", 13],
        [1, "late", 1, "N2", 11],
        [1, "a", 4, "N2", 14],
    ]
    # no event of `a` shows its delay
    assert frame["delay"].notna().tolist() == [True, True, False, True, False]


def test_frames_of_every_kind():
    found = ceql.match(CHAIN, FLIGHTS)
    assert found.to_polars(events="wide").to_dict(as_series=False).keys() == WIDE.keys()
    assert found.to_pandas(events="wide")["a.flight"].tolist() == WIDE["a.flight"]
    assert found.to_pandas(events="rows").equals(found.to_pandas())
    assert found.to_polars("long").equals(pl.DataFrame(found.to_arrow("long")))
    with pytest.raises(ValueError, match="'rows', 'wide' or 'long', not 'tall'"):
        found.to_pandas("tall")  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]])
def test_rows_are_rows_of_the_frame_in_any_order(order):
    given = pd.DataFrame(FLIGHTS).iloc[order]
    found = ceql.match(CHAIN, given)
    frame = found.to_pandas("long")
    assert given["flight"].iloc[frame["row"]].tolist() == frame["flight"].tolist()
    assert found.to_pandas("wide")["late.flight"].map(list).tolist() == WIDE["late.flight"]
    for match in found:
        assert given["flight"].iloc[list(match.events)].tolist() == [row["flight"] for row in match.rows]
        assert given["flight"].iloc[match.end] == match["a"]["flight"]
    assert "10, 12" in repr(found)
    assert "late: row" in found.timeline().to_svg()


def test_on_flights_as_they_come():
    table = flights.as_they_come()
    query = """
        SELECT x[flight, arr_delay], z[flight]
        WHERE LATE AS x : LATE AS y : CANCELLED AS z
        PARTITION BY tailnum
        WITHIN 1 DAY
    """
    found = ceql.match(query, table)
    wide = found.to_polars(events="wide")
    assert wide.height == found.count() > 50
    assert wide.columns[4:] == ["tailnum", "x", "x.flight", "x.arr_delay", "z", "z.flight"]
    assert wide["x.arr_delay"].min() >= flights.LATE
    long = found.to_polars(events="long")
    rows = pl.DataFrame(table)[long["row"].to_list()]
    assert rows["tailnum"].equals(long["tailnum"], null_equal=False)
    assert rows["flight"].equals(long["flight"], null_equal=False)


def test_star_shows_each_event_under_its_best_name():
    def shown(formula: str) -> list[str]:
        names = ceql.match(f"SELECT * WHERE {formula}", FLIGHTS).to_arrow("wide").column_names
        return list(dict.fromkeys(name.split(".")[0] for name in names if "." in name))

    assert shown("Late AS x ; Cancelled AS y") == ["x", "y"]
    assert shown("Late AS x ; Cancelled") == ["x", "Cancelled"]
    assert shown("Late+ AS x ; Cancelled") == ["x", "Cancelled"]
    assert shown("Late AS x ; (Late OR Cancelled) AS y") == ["x", "y"]
    assert shown("(Late ; Cancelled) AS m") == ["Late", "Cancelled", "m"]
    assert shown("Late AS x ; Late") == ["Late", "x"]


def test_what_may_be_bound_to_one_event_is_a_value():
    def lists(formula: str) -> set[str]:
        schema = ceql.match(f"SELECT * WHERE {formula}", FLIGHTS).to_arrow("wide").schema
        return {field.name.split(".")[0] for field in schema if pa.types.is_list(field.type)}

    assert lists("Late AS x ; Cancelled AS y") == set()
    assert lists("Late+ AS x ; Cancelled AS y") == {"x"}
    assert lists("(Late AS x ; Cancelled AS y)+") == {"x", "y"}
    assert lists("Late AS x ; Late AS x") == {"x"}
    assert lists("(Late AS x ; Cancelled AS y) AS m") == {"m"}
    assert lists("(Late AS x OR Cancelled AS x) ALL Cancelled AS y") == set()
    assert lists("((Late FILTER Late[delay > 1]) AS x OR Late+ AS x)") == {"x"}


def test_a_branch_that_was_not_taken_is_null():
    frame = ceql.match("SELECT x[flight], y[flight] WHERE Late AS x OR Cancelled AS y", FLIGHTS).to_polars("wide")
    assert frame["x.flight"].to_list() == [10, 11, 12, None, None]
    assert frame["y.flight"].to_list() == [None, None, None, 13, 14]


def test_without_variables_there_are_events():
    found = ceql.match("SELECT DISTINCT x[flight] WHERE Late AS x ; Cancelled AS y PARTITION BY plane", FLIGHTS)
    wide = found.to_arrow("wide")
    assert wide["events.flight"].to_pylist() == [[12], [10], [11]]
    assert "events.to" in wide.column_names
    assert found.to_arrow("long")["variable"].null_count == 3
    nothing = ceql.match("SELECT NONE WHERE Late ; Cancelled", FLIGHTS)
    assert nothing.to_arrow("wide").column_names == ["start", "end", "start_time", "end_time"]
    assert nothing.to_arrow("long").num_rows == 0


@pytest.mark.parametrize("events", [FLIGHTS[:1], []])
@pytest.mark.parametrize("kind", ["wide", "long"])
def test_no_matches_have_their_columns(kind, events):
    empty = ceql.match(CHAIN, pa.Table.from_pylist(events, table().schema)).to_arrow(kind)
    assert empty.num_rows == 0
    assert empty.schema.equals(ceql.match(CHAIN, table()).to_arrow(kind).schema)


def test_names_that_meet_get_an_underscore():
    events = [{"type": "A", "row": 1, "match": 2, "x.v": 3, "v": 4}]
    found = ceql.match("SELECT x, end WHERE (A AS x) AS end PARTITION BY v", events)
    names = found.to_arrow("wide").column_names
    assert len(set(names)) == len(names)
    assert {"end", "v", "x.v", "x.x.v", "end.v"} <= set(names)
    assert found.to_arrow("long").column_names == ["match", "variable", "row", "type", "row_", "match_", "x.v", "v"]


def test_dicts_may_get_new_attributes_on_the_way():
    events = [{"type": "A", "v": 1}] * 5000 + [{"type": "A", "v": 0.5, "new": "n"}]
    frame = ceql.match("SELECT x WHERE A AS x", iter(events)).to_polars("wide")
    assert frame.columns == ["start", "end", "x", "x.type", "x.v", "x.new"]
    assert frame["x.v"].sum() == 5000.5
    assert frame["x.new"].to_list()[-2:] == [None, "n"]
    frame = ceql.match("SELECT x[never] WHERE A AS x", events).to_polars("wide")
    assert frame["x.never"].null_count() == 5001


def test_keys_stay_where_select_hides_the_rest():
    rows = ceql.match(CHAIN, FLIGHTS).events().to_pylist()
    assert {row["plane"] for row in rows} == {"N1", "N2"}
    assert {row["to"] for row in rows} == {None}


def test_a_match_has_its_rows():
    first, second, *_ = ceql.match(CHAIN, FLIGHTS)
    assert first["a"] == {"flight": 13}
    assert second["late"] == [{"flight": 10, "delay": 20.5}, {"flight": 12, "delay": 44.0}]
    assert second.rows == [FLIGHTS[0], FLIGHTS[2], FLIGHTS[3]]
    with pytest.raises(KeyError, match="Did you mean 'late'"):
        first["lats"]
    with pytest.raises(KeyError, match="These are: a, late"):
        first["Cancelled"]
    either = ceql.match("SELECT x, y WHERE Late AS x OR Cancelled AS y", FLIGHTS)
    assert [match["y"] is None for match in either] == [True, True, True, False, False]
    assert "rows" not in dataclasses.asdict(first)
    assert pickle.loads(pickle.dumps(first)) == first
    with pytest.raises(ceql.DataError, match="no rows"):
        ceql.Match(0, 1, (0, 1), {"a": (1,)})["a"]


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("before", [[], ["bool"], ["wide"], ["bool", "wide", "bool"]])
def test_the_rows_of_matches_from_every_input(kind, before, tmp_path):
    found = ceql.match(CHAIN, INPUTS[kind](tmp_path))
    for step in before:
        assert bool(found) if step == "bool" else found.to_arrow("wide").num_rows == 4
    planes = [(match["a"]["flight"], match.partition["plane"]) for match in list(found)]
    assert planes == [(13, "N1")] * 3 + [(14, "N2")]


def test_the_kept_table_has_its_rows_too():
    found = ceql.match(CHAIN, FLIGHTS)
    found.to_arrow()
    assert [match["a"]["flight"] for match in found] == [13, 13, 13, 14]
    once = ceql.match(CHAIN, iter(FLIGHTS))
    once.to_arrow()
    match = next(iter(once))
    assert match.end == 3
    with pytest.raises(ceql.DataError, match="only once"):
        match["a"]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_fed_matches_have_their_events(size):
    recognizer = ceql.compile(CHAIN).recognizer()
    found = [recognizer.feed(FLIGHTS[k : k + size]) for k in range(0, 5, size)]
    assert [bool(matches) for matches in found] == {1: [0, 0, 0, 1, 1], 2: [0, 1, 1], 5: [1]}[size]
    tables = [matches.to_arrow("wide") for matches in found]
    assert pa.concat_tables(tables, promote_options="permissive")["a.flight"].to_pylist() == WIDE["a.flight"]
    assert sum(matches.to_pandas().shape[0] for matches in found) == 4
    assert [m["a"]["flight"] for matches in found for m in matches] == WIDE["a.flight"]
    assert sum(matches.to_polars("long").height for matches in found) == 9


def test_fed_matches_keep_their_rows_when_the_stream_goes_on():
    recognizer = ceql.compile(CHAIN + " WITHIN 3 EVENTS").recognizer()
    alerts = []
    for flight in FLIGHTS * 3:
        alerts += recognizer.feed({**flight, "time": len(alerts)})
    assert [alert["a"]["flight"] for alert in alerts[:3]] == [13, 13, 13]


def test_a_restored_recogniser_has_the_rows_of_before():
    query = ceql.compile(CHAIN)
    recognizer = query.recognizer()
    assert not recognizer.feed(table().slice(0, 3))
    found = query.restore(recognizer.snapshot()).feed(table().slice(3))
    assert found.to_polars("wide")["late.flight"].to_list() == WIDE["late.flight"]


def test_streams_that_are_merged():
    sales = pa.table({"time": [1, 4], "item": ["a", "b"], "price": [10, 20]})
    returns = pa.table({"time": [2, 5], "item": ["a", "b"], "reason": ["torn", None]})
    query = "SELECT s[price], r[reason] FROM Sale, Return WHERE Sale AS s ; Return AS r PARTITION BY item"
    found = ceql.match(query, {"Sale": sales, "Return": returns})
    assert found.to_polars("wide").select("item", "s.price", "r.reason").rows() == [("a", 10, "torn"), ("b", 20, None)]
    assert [match["r"] for match in found] == [{"reason": "torn"}, {"reason": None}]
    assert "torn" in repr(found)


def test_a_recogniser_that_keeps_no_rows_says_so():
    recognizer = ceql.compile(CHAIN).recognizer(keep_rows=False)
    found = recognizer.feed(FLIGHTS)
    assert found
    match, *_ = found
    assert match.end == 3
    with pytest.raises(ceql.SchemaError, match="keep_rows=True"):
        match["a"]
    with pytest.raises(ceql.SchemaError, match="keep_rows=True"):
        ceql.compile(CHAIN).recognizer(keep_rows=False).feed(FLIGHTS).to_arrow("wide")


def test_bool_says_whether_there_are_any():
    found = ceql.match(CHAIN, iter(FLIGHTS))
    assert found
    assert found.count() == 4
    assert found
    read = ceql.match(CHAIN, iter(FLIGHTS))
    assert len(list(read)) == 4
    assert read
    assert not ceql.match("SELECT * WHERE Gone", FLIGHTS)
    assert not ceql.compile(CHAIN).recognizer().feed([])


@each(st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 1), st.integers(0, 9)), max_size=12))
def test_wide_and_long_agree_with_the_matches(rows):
    events = pa.table({"type": [r[0] for r in rows], "k": [r[1] for r in rows], "v": [r[2] for r in rows]})
    events = events.cast(pa.schema([("type", pa.string()), ("k", pa.int64()), ("v", pa.int64())]))
    found = ceql.match("SELECT x, y[v] WHERE (A+ AS x OR B AS y) ; B AS y PARTITION BY k WITHIN 4 EVENTS", events)
    matches = list(found)
    values = events["v"].to_pylist()
    wide = found.to_arrow("wide")
    assert wide["x.v"].to_pylist() == [[values[p] for p in m.bindings["x"]] for m in matches]
    assert wide["y.v"].to_pylist() == [[values[p] for p in m.bindings["y"]] for m in matches]
    long = found.to_arrow("long")
    expected = [
        (k, name, p, values[p])
        for k, m in enumerate(matches)
        for p in m.events
        for name in ("x", "y")
        if p in m.bindings[name]
    ]
    assert list(zip(*(long[c].to_pylist() for c in ("match", "variable", "row", "v")), strict=True)) == expected


def test_measures_are_in_tables_of_every_kind():
    found = ceql.match(
        "SELECT MAX a, COUNT(late) AS n WHERE Late+ AS late ; Cancelled AS a PARTITION BY plane", FLIGHTS
    )
    assert found.to_arrow("wide").select(["a", "n"]).to_pylist() == [{"a": 3, "n": 2}, {"a": 4, "n": 1}]
    assert found.to_arrow("long").select(["match", "row", "n"]).to_pylist() == [
        {"match": 0, "row": 3, "n": 2},
        {"match": 1, "row": 4, "n": 1},
    ]


@pytest.mark.parametrize("kind", INPUTS)
def test_a_variable_of_one_event_is_its_row(kind, tmp_path):
    found = ceql.match(
        "SELECT late, a, b WHERE Late AS late ; (Cancelled AS a)? ; Cancelled AS b", INPUTS[kind](tmp_path)
    )
    assert [field.type for field in found.schema][-3:] == [pa.int64()] * 3
    rows = sorted((row["late"], row["a"] or 0, row["b"]) for row in found.to_arrow().to_pylist())
    assert rows == [(k, a, b) for k in range(3) for a, b in ((0, 3), (0, 4), (3, 4))]
    assert found.to_arrow()["a"].null_count == 6
    bound = {(m.bindings["late"], m.bindings["a"]) for m in found}
    assert bound == {((k,), a) for k in range(3) for a in ((), (3,))}
