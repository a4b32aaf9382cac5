"""Matches as columns, as objects, as the events behind them; how often the input is read, and how far."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceql
from ceql.analysis.selection import Selection
from ceql.engine.common.chunk import Chunk
from ceql.errors import DataError
from ceql.io.sort_keys import encode
from ceql.recognition.match_source import RowsKept
from ceql.recognition.result_columns import ResultColumns, to_record_batch
from ceql.results import reader
from ceql.results.match import Match
from ceql.results.matches import Matches
from ceql.syntax.parser import parse

MASKS = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], bool)  # labels: x, y, both, neither


def chunk_of(matches, **others):
    """A chunk of matches that are lists of (position, label)."""
    lengths = [len(match) for match in matches]
    events = [event for match in matches for event in match]
    return Chunk(
        start=np.array([match[0][0] if match else 0 for match in matches], np.int64),
        end=np.array([match[-1][0] if match else 0 for match in matches], np.int64),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        positions=np.array([position for position, _ in events], np.int64),
        labels=np.array([label for _, label in events], np.int32),
        **others,
    )


@st.composite
def chunks(draw):
    n_labels, n_variables = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    size = n_labels * n_variables
    masks = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool).reshape(n_labels, n_variables)
    event = st.tuples(st.integers(0, 2**62), st.integers(0, n_labels - 1))
    matches = draw(st.lists(st.lists(event, max_size=6, unique_by=lambda e: e[0]).map(sorted), max_size=8))
    return matches, masks


@given(chunks())
def test_a_batch_has_each_event_in_the_lists_of_its_variables(case):
    matches, masks = case
    names = tuple(f"v{i}" for i in range(masks.shape[1]))
    layout = ResultColumns(names)
    batch = to_record_batch(chunk_of(matches), layout, masks)
    batch.validate(full=True)
    assert batch.schema.equals(layout.schema)
    expected = [
        {
            "start": match[0][0] if match else 0,
            "end": match[-1][0] if match else 0,
            "events": [position for position, _ in match],
            **{name: [position for position, label in match if masks[label, v]] for v, name in enumerate(names)},
        }
        for match in matches
    ]
    assert batch.to_pylist() == expected


def test_a_slice_of_a_larger_buffer_is_a_chunk_too():
    whole = chunk_of([[(1, 0)], [(2, 1), (3, 2)], [(9, 0)]])
    part = whole._replace(start=whole.start[1:], end=whole.end[1:], offsets=whole.offsets[1:])
    part = part._replace(labels=whole.labels)
    batch = to_record_batch(part, ResultColumns(("x", "y")), MASKS)
    assert batch["events"].to_pylist() == [[2, 3], [9]]
    assert batch["x"].to_pylist() == [[3], [9]]
    assert batch["y"].to_pylist() == [[2, 3], []]


def test_times_and_keys():
    times = pa.array([10, 20], pa.timestamp("ms", "UTC"))
    layout = ResultColumns(("x", "y"), times.type, (("user", pa.large_string()), ("end", pa.int64())))
    encoded = encode(times, "t")
    chunk = chunk_of([[(1, 0)], [(2, 1)]], partition=np.array([1, 1], np.int32), start_time=encoded, end_time=encoded)
    keys = pa.record_batch({"user": pa.array(["ann", "bob"], pa.large_string()), "end": [7, 8]})
    batch = to_record_batch(chunk, layout, MASKS, keys)
    assert batch.schema.names == ["start", "end", "start_time", "end_time", "user", "end_", "events", "x", "y"]
    assert batch["start_time"].equals(times)
    assert batch["user"].to_pylist() == ["bob", "bob"]
    assert batch["end_"].to_pylist() == [8, 8]


def test_names_that_are_taken_get_an_underscore():
    layout = ResultColumns(("end", "id", "events", "end_"), None, (("id", pa.int64()), ("start_time", pa.int64())))
    expected = ["start", "end", "id", "start_time_", "events", "end_", "id_", "events_", "end__"]
    assert layout.schema.names == expected


EVENTS = pa.table({"type": list("ABABAB"), "price": [float(i) for i in range(6)], "match": list("uvwxyz")})


class _Fake:
    """Finds the matches it is given; keeps count of what was read. Like an engine, it forgets rows it is past."""

    restarts = False

    def __init__(self, batches=None, replayable=True, projections=None, fail=None, variables=("x", "y"), events=None):
        if batches is None:
            batches = [[[(0, 0), (1, 1)]], [[(2, 2), (3, 3), (4, 1)], [(5, 0)]]]
        self._layout = ResultColumns(variables)
        self._batches = [to_record_batch(chunk_of(batch), self._layout, MASKS) for batch in batches]
        self.schema = self._layout.schema
        self.replayable = replayable
        self.selection = Selection(variables, frozenset("x"), projections or {})
        self.rows_kept = RowsKept.LAST
        self.type, self.time = "type", None
        self.query = parse("SELECT * WHERE A AS x ; B AS y")
        self.fail = fail
        self.passes = self.read = self.counts = 0
        self._current: Any = None
        self._events = EVENTS if events is None else events

    def batches(self, rows=False):
        self.passes += 1
        assert self.replayable or self.passes == 1
        for batch in self._batches:
            if self.fail:
                raise self.fail
            self.read += 1
            self._current = batch
            yield batch

    def foreseen(self):
        return None

    def count(self):
        self.counts += 1
        assert self.replayable or (self.passes == 0 and self.counts == 1)
        return sum(batch.num_rows for batch in self._batches)

    def aggregation(self, request):
        raise NotImplementedError

    def add_up(self, aggregation):
        raise NotImplementedError

    def late(self):
        return EVENTS.slice(0, 1)

    def rows(self, positions):
        if len(positions):
            assert set(positions.tolist()) <= set(self._current["events"].flatten().to_pylist())
        return self._events.take(pa.array(positions))


Fake: Any = _Fake

ALL = [
    Match(0, 1, (0, 1), {"x": (0,), "y": (1,)}),
    Match(2, 4, (2, 3, 4), {"x": (2,), "y": (2, 4)}),
    Match(5, 5, (5,), {"x": (5,), "y": ()}),
]


@pytest.mark.parametrize("replayable", [True, False])
def test_every_way_to_read_gives_the_same_matches(replayable):
    expected = pa.Table.from_batches(Fake()._batches)
    assert Matches(Fake(replayable=replayable)).to_arrow().equals(expected)
    assert pa.table(Matches(Fake(replayable=replayable))).equals(expected)
    assert Matches(Fake(replayable=replayable)).to_reader().read_all().equals(expected)
    assert pa.Table.from_batches(Matches(Fake(replayable=replayable)).to_batches()).equals(expected)
    assert list(Matches(Fake(replayable=replayable))) == ALL
    assert Matches(Fake(replayable=replayable)).to_pandas()["end"].tolist() == [1, 4, 5]
    frame = Matches(Fake(replayable=replayable)).to_polars()
    assert frame.to_dicts() == expected.to_pylist()
    assert pl.DataFrame(Matches(Fake(replayable=replayable))).equals(frame)
    assert Matches(Fake(replayable=replayable)).count() == 3
    assert Matches(Fake(replayable=replayable)).late().num_rows == 1


def test_matches_have_times_and_partitions_by_their_true_names():
    layout = ResultColumns(("end",), pa.int64(), (("start", pa.string()),))
    time = np.array([7], np.int64)
    chunk = chunk_of([[(3, 0)]], partition=np.array([0], np.int32), start_time=time, end_time=time + 1)
    fake = Fake([], variables=())
    fake.schema = layout.schema
    fake._batches = [to_record_batch(chunk, layout, np.array([[True]]), pa.record_batch({"start": ["k"]}))]
    assert list(Matches(fake)) == [Match(3, 3, (3,), {"end": (3,)}, 7, 8, {"start": "k"})]
    assert Matches(fake).to_arrow().schema.names == [
        "start",
        "end",
        "start_time",
        "end_time",
        "start_",
        "events",
        "end_",
    ]


def test_nothing_is_read_before_it_is_asked_for_nor_beyond_that():
    source = Fake()
    found = Matches(source)
    reader = found.to_reader()
    assert source.read == 0
    assert found.schema.equals(source.schema)
    assert next(iter(found)).end == 1
    assert source.read == 1
    assert found.head(1).num_rows == 1
    assert source.read == 2
    assert reader.read_next_batch().num_rows == 1
    assert source.read == 3


def test_to_arrow_reads_once():
    source = Fake()
    found = Matches(source)
    assert found.to_arrow() is found.to_arrow()
    assert [match.end for match in found] == [1, 4, 5]
    assert found.count() == 3
    assert (source.passes, source.counts) == (1, 0)
    assert "match=z" in repr(found)
    assert "match=z" in found._repr_html_()
    assert source.passes == 2  # for the attributes, which the table has not


READERS = {
    "to_arrow": lambda m: m.to_arrow(),
    "to_batches": lambda m: list(m.to_batches()),
    "iter": list,
    "events": lambda m: m.events(),
    "count": lambda m: m.count(),
    "reader": lambda m: m.to_reader().read_all(),
}


@pytest.mark.parametrize("first", sorted(set(READERS) - {"to_arrow"}))
@pytest.mark.parametrize("second", sorted(set(READERS) - {"count"}))
def test_what_can_be_read_once_is_not_read_twice(first, second):
    found = Matches(Fake(replayable=False))
    READERS[first](found)
    with pytest.raises(DataError, match=r"keep the result of to_arrow\(\)"):
        READERS[second](found)
    with pytest.raises(DataError, match="only once"):
        found.head()
    assert "only once" in repr(found)
    assert "only once" in found._repr_html_()


@pytest.mark.parametrize("looks", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("reader", READERS)
def test_looking_ahead_takes_nothing_from_the_reader(reader, n, looks):
    found = Matches(Fake(replayable=False))
    for _ in range(looks):
        assert found.head(n).equals(pa.Table.from_batches(Fake()._batches).slice(0, n))
        assert "<Matches" not in repr(found) + found._repr_html_()
    result, expected = READERS[reader](found), READERS[reader](Matches(Fake()))
    assert result.equals(expected) if isinstance(result, pa.Table) else result == expected


def test_the_kept_table_serves_all_but_the_events():
    found = Matches(Fake(replayable=False))
    found.to_arrow()
    assert found.count() == len(list(found)) == found.head(5).num_rows == 3
    with pytest.raises(DataError):
        found.events()


@pytest.mark.parametrize("event_rows", [1, 2, 1000])
def test_the_events_of_the_matches(monkeypatch, event_rows):
    monkeypatch.setattr(reader, "EVENT_ROWS", event_rows)
    table = Matches(Fake()).events()
    table.validate(full=True)
    assert table.column_names == ["match", "position", "variables", "type", "price", "match_"]
    assert table["match"].to_pylist() == [0, 0, 1, 1, 1, 2]
    assert table["position"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert table["variables"].to_pylist() == [["x"], ["y"], ["x", "y"], [], ["y"], ["x"]]
    assert table.select(["type", "price"]).equals(EVENTS.select(["type", "price"]))
    pieces = [batch.num_rows for batch in Matches(Fake()).iter_events()]
    assert pieces == {1: [2, 3, 1], 2: [2, 3, 1], 1000: [2, 4]}[event_rows]


def test_selected_attributes_hide_the_others():
    table = Matches(Fake(projections={"x": ("type",), "y": ("price",)})).events()
    assert table["type"].to_pylist() == ["A", None, "A", None, None, "B"]
    assert table["price"].to_pylist() == [None, 1.0, 2.0, None, 4.0, None]
    assert table["match_"].null_count == 6
    table = Matches(Fake(projections={"x": ("type",)})).events()
    assert table["type"].to_pylist() == ["A", "B", "A", None, "A", "B"]
    assert table["price"].to_pylist() == [None, 1.0, 2.0, None, 4.0, None]


@pytest.mark.parametrize("variables", [("x", "y"), ()])
def test_no_matches_have_all_the_columns(variables):
    for batches in ([], [[]]):
        found = Matches(Fake(batches, variables=variables))
        assert found.to_arrow().schema.equals(ResultColumns(variables).schema)
        assert found.to_arrow().num_rows == found.head().num_rows == found.count() == 0
        assert found.to_pandas().columns.tolist() == ["start", "end", "events", *variables]
        assert found.to_polars().columns == ["start", "end", "events", *variables]
        assert list(found) == []
        assert found.events().column_names == ["match", "position", "variables", "type", "price", "match_"]
        assert found.events().schema.field("type").type == pa.string()
        assert repr(found).endswith("no matches")


def test_head_of_nothing_reads_nothing():
    source = Fake()
    assert Matches(source).head(0).num_rows == 0
    assert source.read == 0


def test_the_view_shows_ten_and_says_that_there_are_more():
    source = Fake([[[(i, 0)]] for i in range(100)], events=pa.table({"v": range(100)}))
    found = Matches(source)
    text = repr(found)
    assert text.splitlines()[0].split() == ["match", "x", "y"]
    assert "9..9" in text
    assert "10..10" not in text
    assert text.endswith("the first 10 matches; there are more")
    assert "the first 10 matches; there are more" in found._repr_html_()
    assert source.read == 11
    assert found.count() == 100
    assert repr(found).endswith("the first 10 of 100 matches")
    assert repr(Matches(Fake())).endswith("3 matches")
    assert repr(Matches(Fake([[[(1, 0)]]]))).endswith("1 match")


def test_a_view_never_fails():
    broken = Matches(Fake(fail=RuntimeError("<b>disk\x1b[2J</b>")))
    assert repr(broken) == "<Matches: <b>disk\\x1b[2J</b>>"
    assert "&lt;b&gt;disk" in broken._repr_html_()
    with pytest.raises(RuntimeError):
        broken.to_arrow()


def test_frames_are_optional():
    code = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "polars"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from ceql.io.sources import open_source
from ceql.results.matches import Matches

assert next(open_source([{"a": 1}]).batches()).num_rows == 1
for name in ("pandas", "polars"):
    try:
        getattr(Matches(None), "to_" + name)()
    except ImportError as error:
        assert "ceql[" + name + "]" in str(error)
    else:
        raise SystemExit(1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_distinct_drops_the_variables_and_shows_events_whole():
    events = [{"type": "A", "v": 1, "time": 1}, {"type": "B", "v": 2, "time": 2}]
    (row,) = ceql.match("SELECT DISTINCT x[v] WHERE A AS x ; B", events).events().to_pylist()
    assert row == {"match": 0, "position": 0, "variables": [], "type": "A", "v": 1, "time": 1}


def test_match_has_the_options_of_run():
    options = [list(inspect.signature(f).parameters.values()) for f in (ceql.match, ceql.Query.run)]
    assert options[0][2:] == options[1][2:]


def test_frames_are_typed():
    assert inspect.signature(Matches.to_pandas).return_annotation == "pandas.DataFrame"
    assert inspect.signature(Matches.to_polars).return_annotation == "polars.DataFrame"


def test_len_and_numbers_are_told_what_to_write() -> None:
    matches = ceql.match("SELECT * WHERE A ; B", EVENTS)
    with pytest.raises(TypeError, match=r"no len\(\): write matches\.count\(\)"):
        len(matches)
    with pytest.raises(TypeError, match=r"write list\(matches\)\[0\], next\(iter\(matches\)\)"):
        matches[0]
    with pytest.raises(TypeError, match=r"matches\.head\(10\)"):
        matches[0:3]
    assert len(list(matches)) == matches.count() == len([*matches]) == 6
    assert next(iter(matches)).events == (0, 1)
    assert bool(matches)
    assert pa.table(matches).num_rows == pl.DataFrame(matches).height == 6
    both = ceql.compile_all({"a": "SELECT * WHERE A", "b": "SELECT * WHERE B"}).run(EVENTS)
    with pytest.raises(TypeError, match=r"no len\(\): write matches\.count\(\)"):
        len(both)
    assert len(list(both)) == 6


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A ; B",
        "SELECT * FROM S WHERE A ; NOT B WITHIN 5 SECONDS",
        "SELECT a.v, COUNT(b) AS n, DURATION WHERE A AS a ; B+ AS b FILTER a.v < b.v PARTITION BY k WITHIN 5 MINUTES",
        "SELECT NEXT * WHERE A ; B WITHIN 5 [v]",
    ],
)
@pytest.mark.parametrize(
    "nothing",
    [list, tuple, lambda: iter([]), lambda: pa.table({}), pl.DataFrame, lambda: EVENTS.slice(0, 0).select([])],
)
def test_no_events_have_no_matches(query, nothing):
    found = ceql.compile(query)
    assert list(found.run(nothing())) == []
    assert found.run(nothing()).count() == 0
    assert found.run(nothing(), type="kind", time="at", time_unit="ms").to_arrow().num_rows == 0
    assert found.run(nothing()).to_pandas(events="wide").empty
    assert ceql.compile_all({"one": found, "other": query}).run(nothing()).count() == {"one": 0, "other": 0}


def test_events_without_any_attribute_have_no_type():
    with pytest.raises(ceql.SchemaError, match="the events have no type"):
        ceql.match("SELECT * WHERE A", [{}])
