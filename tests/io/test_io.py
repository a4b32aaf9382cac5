"""Inputs of every kind become the same batches; the sequencer gives the same order however rows are cut."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceql
from ceql.errors import DataError, ResourceError, SchemaError
from ceql.io import files, sorted_runs
from ceql.io.schemas import conform, unify_types
from ceql.io.sequencer import Sequencer, merge_sources
from ceql.io.sources import open_source, open_streams

ROWS = [{"type": t, "price": p, "n": n} for t, p, n in [("A", 1.5, 1), ("B", 2.0, 2), ("A", None, 3)]]
TABLE = pa.Table.from_pylist(ROWS)


def to_batches(events):
    return list(open_source(events).batches())


def rows_of(source, columns=None):
    return [row for batch in source.batches(columns) for row in batch.to_pylist()]


class Exported:
    """An object of another library that only speaks the Arrow protocol."""

    def __init__(self, data, method):
        setattr(self.__class__, method, lambda self, schema=None: getattr(data, method)(schema))


INPUTS = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(),
    "stream protocol": lambda: type("E", (Exported,), {})(TABLE, "__arrow_c_stream__"),
    "array protocol": lambda: type("E", (Exported,), {})(TABLE.to_batches()[0], "__arrow_c_array__"),
    "pandas": lambda: pd.DataFrame({"type": ["A", "B", "A"], "price": [1.5, 2.0, None], "n": [1, 2, 3]}),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars lazy": lambda: pl.DataFrame(ROWS).lazy(),
    "list of dicts": lambda: ROWS,
    "tuple of dicts": lambda: tuple(ROWS),
    "generator of dicts": lambda: (row for row in ROWS),
    "list of batches": lambda: [TABLE.slice(0, 1).to_batches()[0], TABLE.slice(1).to_batches()[0]],
    "generator of tables": lambda: (TABLE.slice(i, 1) for i in range(3)),
}
ONCE = {"reader", "stream protocol", "generator of dicts", "generator of tables"}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_every_kind_of_input_gives_the_same_rows(kind, batch_rows):
    source = open_source(INPUTS[kind](), "S", batch_rows)
    assert source.name == "S"
    assert source.schema.names == ["type", "price", "n"]
    batches = list(source.batches())
    assert max(batch.num_rows for batch in batches) <= batch_rows
    assert [row for batch in batches for row in batch.to_pylist()] == ROWS
    assert source.replayable == (kind not in ONCE)
    assert source.open_schema == ("dicts" in kind)
    assert source.rows in (None, 3)
    if source.replayable:
        assert rows_of(source) == ROWS
    else:
        with pytest.raises(DataError, match="only once"):
            list(source.batches())


@pytest.mark.parametrize("kind", INPUTS)
def test_only_the_columns_that_are_asked_for_are_given(kind):
    source = open_source(INPUTS[kind]())
    assert rows_of(source, ["n", "no such"]) == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("kind", INPUTS)
def test_the_number_of_rows_survives_when_no_column_is_needed(kind):
    assert sum(batch.num_rows for batch in open_source(INPUTS[kind]()).batches([])) == 3


def test_nothing_is_copied_from_a_table():
    (batch,) = open_source(TABLE).batches()
    assert batch.column("n").buffers()[1].address == TABLE["n"].chunk(0).buffers()[1].address


def test_a_generator_is_read_no_further_than_needed():
    seen = []

    def live():
        for n in range(10):
            seen.append(n)
            yield {"n": n}

    source = open_source(live(), batch_rows=2)
    assert seen == []
    batches = source.batches()
    assert next(batches).to_pylist() == [{"n": 0}, {"n": 1}]
    assert seen == [0, 1]


@pytest.mark.parametrize("make", [list, iter], ids=["list", "generator"])
def test_types_of_dicts_are_unified_across_batches(make):
    rows: list[dict[str, Any]] = [{"a": 1, "b": None}, {"a": 2.5, "b": "x"}, {"a": 3, "c": True}]
    source = open_source(make(rows), batch_rows=1)
    found = [batch.to_pylist()[0] for batch in source.batches()]
    for row, original in zip(found, rows, strict=True):
        assert {k: v for k, v in row.items() if v is not None} == {k: v for k, v in original.items() if v is not None}
    last = list(open_source(make(rows), batch_rows=1).batches())[-1]
    assert last.schema.equals(pa.schema([("a", pa.float64()), ("b", pa.string()), ("c", pa.bool_())]))


def test_text_and_number_in_one_attribute_of_a_stream_are_an_error_that_names_it():
    with pytest.raises(DataError, match="'price'"):
        list(open_source(iter([{"price": 1}, {"price": "x"}]), batch_rows=1).batches())


ODD = {"mixed": [1, "x", None], "long": [10**30, 2, None], "objects": [object(), {1}, None]}


@pytest.mark.parametrize("values", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("made", [list, pd.DataFrame, iter], ids=["dicts", "pandas", "iterator"])
def test_a_column_without_an_arrow_type_is_in_nobodys_way(made, values):
    rows = [{"type": name, "x": value, "v": k} for k, (name, value) in enumerate(zip("ABB", values, strict=True))]
    query = ceql.compile("SELECT * WHERE A ; B")
    assert query.run(made(rows)).count() == 2
    assert len(query.recognizer().feed(made(rows)).to_arrow()) == 2
    shown = query.run(made(rows)).events().to_pylist()
    texts = [{"objects as text": str(value)} for value in values[:2]]
    assert [event["x"] for event in shown] == [texts[0], texts[1], texts[0], None]
    assert [event["v"] for event in shown] == [0, 1, 0, 2]
    for condition in ("A[x = 1]", "A[x = 'x']", "A.x = B.x"):
        with pytest.raises(ceql.SchemaError, match=r"column 'x' \(struct<objects as text"):
            ceql.match(f"SELECT * WHERE A ; B FILTER {condition}", made(rows)).count()


@pytest.mark.parametrize("name", ["type", "time"])
def test_a_type_or_time_without_an_arrow_type_is_an_error(name):
    rows = [{"type": "A", "time": 1}, {"type": "B", "time": 2, name: {1}}]
    for events in (rows, pd.DataFrame(rows)):
        with pytest.raises(ceql.CeqlError, match=f"'{name}'.*objects as text"):
            ceql.match("SELECT * WHERE A ; B", events, type="type", time="time").count()


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{"a": 1}, 5], "event 1 is a int"),
        ([None, {"a": 1}], "event 0 is a NoneType"),
        ([{1: 2}], "must be text"),
        (5, "cannot read events from a int"),
        (b"bytes", "cannot read events from a bytes"),
        ({"a": 1}, "list of one dict"),
        (pa.array([1, 2]), "cannot read events"),
    ],
)
def test_what_cannot_be_read_is_said(events, message):
    with pytest.raises(DataError, match=message):
        to_batches(events)


def test_unsigned_and_numpy_values_in_dicts():
    (batch,) = to_batches([{"a": 2**63, "b": np.int64(3), "c": np.float32(0.5)}])
    assert batch.to_pylist() == [{"a": 2**63, "b": 3, "c": 0.5}]


def test_empty_inputs():
    assert to_batches([]) == []
    assert open_source([]).schema.names == []
    assert open_source(iter([])).schema.names == []
    assert open_source([TABLE.slice(0, 0)]).schema.equals(TABLE.schema)
    assert to_batches(TABLE.slice(0, 0)) == []
    assert [batch.num_rows for batch in to_batches([{}, {}])] == [2]


def test_duplicate_columns_are_an_error():
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    for events in (twice, frame, twice.to_reader(), [twice]):
        with pytest.raises(SchemaError, match="a"):
            to_batches(events)


def test_a_named_pandas_index_is_a_column_and_another_is_not():
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index([10, 20], name="time"))
    assert open_source(frame).schema.names == ["a", "time"]
    assert open_source(pd.DataFrame({"a": [1]}, index=[5])).schema.names == ["a"]


def test_a_table_of_tiny_chunks_is_not_read_chunk_by_chunk():
    table = pa.concat_tables([TABLE] * 1000)
    assert len(to_batches(table)) == 1


def test_dictionaries_that_differ_and_nested_columns_are_kept():
    chunks = [pa.array(values).dictionary_encode() for values in (["a", "b"], ["c", "b"])]
    table = pa.table({"d": pa.chunked_array(chunks), "s": [{"x": 1}] * 4})
    source = open_source(table.to_reader())
    batches = list(source.batches())
    assert batches[0].schema.equals(table.schema)
    assert [row["d"] for batch in batches for row in batch.to_pylist()] == ["a", "b", "c", "b"]


FILES = ["e.parquet", "e.csv", "e.csv.gz", "e.tsv", "e.jsonl", "e.ndjson.gz", "e.json", "e.arrow", "e.feather", "s.ipc"]


def write(path):
    if ".csv" in path.name or ".tsv" in path.name:
        lines = ["type,price,n", "A,1.5,1", "B,2.0,2", "A,,3"]
        text = "\n".join(lines).replace(",", "\t" if ".tsv" in path.name else ",") + "\n"
        with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
            file.write(text)
    elif "json" in path.name:
        text = "\n".join(map(json.dumps, ROWS))
        with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
            file.write(text)
    elif path.suffix == ".parquet":
        pq.write_table(TABLE, path)
    else:
        new = pa.ipc.new_stream if path.name.startswith("s") else pa.ipc.new_file
        with new(path, TABLE.schema) as writer:
            writer.write_table(TABLE)
    return path


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in blocks"])
@pytest.mark.parametrize("name", FILES)
def test_files(tmp_path, monkeypatch, name, whole):
    if not whole:
        monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    path = write(tmp_path / name)
    for given_path in (path, str(path)):
        source = open_source(given_path, batch_rows=2)
        assert source.replayable
        assert source.schema.names == ["type", "price", "n"]
        assert source.rows in (None, 3)
        assert rows_of(source) == ROWS
        assert rows_of(source) == ROWS
        assert rows_of(source, ["n", "no such"]) == [{"n": 1}, {"n": 2}, {"n": 3}]
        assert sum(batch.num_rows for batch in source.batches([])) == 3


def test_a_directory_of_parquet_is_read_in_order_of_its_paths(tmp_path):
    for i in (2, 0, 1):
        part = tmp_path / f"day={i}"
        part.mkdir()
        pq.write_table(TABLE.slice(i, 1), part / "x.parquet")
    source = open_source(tmp_path)
    assert [row["n"] for row in rows_of(source)] == [1, 2, 3]
    assert [row["day"] for row in rows_of(source)] == [0, 1, 2]
    assert source.rows == 3


def test_a_single_file_has_no_columns_from_its_path(tmp_path):
    part = tmp_path / "day=3"
    part.mkdir()
    pq.write_table(TABLE, part / "x.parquet")
    assert open_source(part / "x.parquet").schema.names == TABLE.schema.names


def test_blocks_of_json_may_differ(tmp_path, monkeypatch):
    rows = [{"a": 1, "pad": "x" * 40}, {"a": 2.5, "pad": "y", "b": "new"}]
    path = tmp_path / "e.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(files, "_BLOCK_BYTES", 8)
    source = open_source(path)
    assert rows_of(source) == [rows[0] | {"b": None}, rows[1]]
    assert not source.open_schema
    monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    source = open_source(path)
    assert source.open_schema
    assert rows_of(source) == rows
    assert rows_of(source, ["b"])[-1]["b"] == "new"


def test_blocks_of_csv_have_the_types_of_the_first(tmp_path, monkeypatch):
    path = tmp_path / "e.csv"
    lines = [
        f"t{k},{k},{k / 4},{str(k % 2 == 0).lower()},1970-01-0{k % 9 + 1} 10:00:00.{k:03},2020-01-01,"
        for k in range(99)
    ]
    path.write_text("\n".join(["text,whole,part,flag,time,day,none", *lines, ""]))
    whole = open_source(path)
    found, schema = rows_of(whole), whole.schema
    monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    monkeypatch.setattr(files, "_BLOCK_BYTES", 500)
    source = open_source(path)
    assert source.schema == schema
    assert rows_of(source) == found
    assert rows_of(source, ["time", "flag"]) == [{"flag": row["flag"], "time": row["time"]} for row in found]
    for late in ("t,1.5,2,true,1970-01-01 10:00:00,2020-01-01,", "t,1,2,true,1970-01-01 10:00:00,2020-01-01,5"):
        path.write_text("\n".join(["text,whole,part,flag,time,day,none", *lines, late, ""]))
        with pytest.raises(DataError, match="taken from the first part of a large CSV"):
            rows_of(open_source(path))


def test_empty_csv_fields_are_null_and_quoted_ones_are_text(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text('a,b\nx,1\n,\n"",NULL\nNA,3\n')
    assert [row["a"] for row in rows_of(open_source(path))] == ["x", None, "", "NA"]
    assert [row["b"] for row in rows_of(open_source(path))] == [1, None, None, 3]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "no such file"),
        ("e.xlsx", b"x", r"known are \.parquet"),
        ("e.parquet.gz", b"x", "only CSV and JSON"),
        ("e.parquet", b"not parquet at all", r"cannot read .*e\.parquet"),
        ("e.arrow", b"not arrow", r"cannot read .*e\.arrow"),
        ("e.csv", b"", r"cannot read .*e\.csv"),
        ("e.csv", b"a,b\n1\n", r"cannot read .*e\.csv"),
        ("e.csv.gz", b"not gzip", r"cannot read .*e\.csv"),
        ("e.jsonl", b"{oops", r"cannot read .*e\.jsonl"),
        ("e.jsonl.gz", b"not gzip", r"cannot read .*e\.jsonl"),
        ("e.json", b' [{"a": 1}]', "one object per line"),
        ("e.jsonl", b'{"a": 1}\n{"a": "x"}\n', r"cannot read .*e\.jsonl"),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        to_batches(path)


def test_an_empty_directory_has_no_events(tmp_path):
    with pytest.raises(DataError, match="no Parquet files"):
        to_batches(tmp_path)


def test_streams_come_in_the_order_of_from():
    sources = open_streams({"B": TABLE, "A": ROWS}, ["A", "B"])
    assert [source.name for source in sources] == ["A", "B"]
    assert [source.name for source in open_streams({"B": TABLE, "A": ROWS}, [])] == ["B", "A"]
    assert [source.name for source in open_streams(TABLE, ["S"])] == ["S"]
    assert [source.name for source in open_streams(TABLE, [])] == [None]


@pytest.mark.parametrize(
    ("events", "streams", "message"),
    [
        ({"Stok": ROWS}, ["Stock"], "FROM 'Stock'.*\nDid you mean 'Stok'"),
        ({"A": ROWS, "B": ROWS}, ["A"], "'B' was passed"),
        (TABLE, ["A", "B"], 'pass a dict .*"A": …, "B": …'),
        ({1: ROWS}, [], "must be text"),
        ({}, [], "no streams"),
    ],
)
def test_streams_that_do_not_fit_the_query(events, streams, message):
    with pytest.raises(SchemaError, match=message):
        open_streams(events, streams)


def test_conform_fills_casts_and_leaves_out():
    schema = pa.schema([("a", pa.float64()), ("b", pa.string()), ("c", pa.null())])
    batch = pa.record_batch({"new": [1], "c": ["x"], "a": [2]})
    assert conform(batch, schema).to_pylist() == [{"a": 2.0, "b": None, "c": "x"}]
    assert conform(batch, schema, open_schema=True).schema.names == ["a", "b", "c", "new"]
    assert conform(batch.select([]), schema).num_rows == 1
    with pytest.raises(DataError, match=r"'a' was double and is now string"):
        conform(pa.record_batch({"a": ["x"]}), schema)
    narrow = pa.schema([("a", pa.int64())])
    assert conform(pa.record_batch({"a": [2.0]}), narrow).schema.equals(narrow)
    with pytest.raises(DataError, match="'a' was int64 and is now double"):
        conform(pa.record_batch({"a": [2.5]}), narrow)
    assert conform(pa.record_batch({"a": [2.5]}), narrow, open_schema=True).to_pylist() == [{"a": 2.5}]


def test_text_is_text_however_it_is_laid_out():
    dictionary = pa.dictionary(pa.int32(), pa.string())
    assert unify_types(dictionary, pa.string()) == pa.string()
    assert unify_types(pa.large_string(), pa.string()) == pa.large_string()
    assert unify_types(pa.bool_(), pa.int64()) is None


# The sequencer, against its meaning row by row.


def model(arrivals, n_streams, lateness):
    """Released and late ids of `arrivals` (stream, time), the id being the place in the list."""
    greatest = [None] * n_streams
    released, late = [], []
    for i, (stream, time) in enumerate(arrivals):
        if greatest[stream] is not None and time < greatest[stream] - lateness:
            late.append(i)
        else:
            released.append((time, stream, i))
            greatest[stream] = time if greatest[stream] is None else max(greatest[stream], time)
    return [i for _, _, i in sorted(released)], late


def batch_of(rows, type=None):
    times, ids = zip(*rows, strict=True)
    return pa.record_batch({"t": pa.array(times, type), "id": pa.array(ids)})


def cut(arrivals, cuts):
    """The arrivals as batches: cut at `cuts`, and wherever the stream changes."""
    pieces = []
    for i, (stream, time) in enumerate(arrivals):
        if pieces and pieces[-1][0] == stream and i not in cuts:
            pieces[-1][1].append((time, i))
        else:
            pieces.append((stream, [(time, i)]))
    return pieces


def check(out, arrivals):
    """Time never goes back, and each row says its own stream; the ids."""
    ids = [i for batch in out for i in batch.data.column("id").to_pylist()]
    streams = [s for b in out for s in np.broadcast_to(b.stream, b.data.num_rows).tolist()]
    assert streams == [arrivals[i][0] for i in ids]
    times = [arrivals[i][1] for i in ids]
    assert times == sorted(times)
    return ids


TIMES = {
    pa.int64(): st.integers(-10, 20),
    pa.uint64(): st.integers(0, 20),
    pa.float64(): st.integers(-20, 40).map(lambda n: n / 4),
    pa.timestamp("ms"): st.integers(-10, 20),
}


@pytest.mark.parametrize("n_streams", [1, 2, 3])
@pytest.mark.parametrize("type", TIMES, ids=str)
@given(data=st.data())
def test_the_sequencer_is_its_model_in_any_batching(type, n_streams, data):
    arrivals = data.draw(st.lists(st.tuples(st.integers(0, n_streams - 1), TIMES[type]), max_size=30))
    lateness = data.draw(st.sampled_from([0, 1, Fraction(5, 2), 7, 2**70 if type != pa.float64() else 1000]))
    expected, expected_late = model(arrivals, n_streams, lateness)
    cuts = data.draw(st.sets(st.integers(0, 30)))
    finished = data.draw(st.booleans())
    sequencer = Sequencer([f"S{i}" for i in range(n_streams)], "t", lateness)
    out = []
    for stream, rows in cut(arrivals, cuts):
        out += sequencer.push(batch_of(rows, type), stream)
        if data.draw(st.booleans()):
            header, batches = sequencer.state()
            sequencer = Sequencer.from_state(json.loads(json.dumps(header)), batches)
        ids = check(out, arrivals)
        assert ids == expected[: len(ids)]
    for stream in range(n_streams) if finished else ():
        out += sequencer.close(stream)
    out += sequencer.finish()
    assert check(out, arrivals) == expected
    assert sequencer.late()["id"].to_pylist() == expected_late if arrivals else sequencer.late().num_rows == 0
    assert sequencer.late_rows == len(expected_late)
    assert sequencer.buffered_rows == 0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(0, 10))
def test_one_stream_releases_all_that_is_safe(times, lateness):
    sequencer = Sequencer([None], "t", lateness)
    for i, time in enumerate(times):
        sequencer.push(batch_of([(time, i)]))
        expected, _ = model([(0, t) for t in times[: i + 1]], 1, lateness)
        waiting = [j for j in expected if times[j] > max(times[: i + 1]) - lateness]
        assert sequencer.buffered_rows == len(waiting)


def test_a_tie_waits_for_an_earlier_stream_and_not_for_a_later_one():
    sequencer = Sequencer(["A", "B"], "t")
    assert sequencer.push(batch_of([(5, 0)]), 0) == []
    out = sequencer.push(batch_of([(5, 1)]), 1)
    assert [batch.data["id"].to_pylist() for batch in out] == [[0]]
    out = sequencer.push(batch_of([(6, 2)]), 0)
    assert [batch.data["id"].to_pylist() for batch in out] == [[1]]
    assert [batch.data["id"].to_pylist() for batch in sequencer.close(1)] == [[2]]


def test_many_rows_come_out_in_pieces_and_in_order():
    rng = np.random.default_rng(1)
    n = 3 * sorted_runs.PIECE_ROWS
    times = np.cumsum(rng.integers(0, 3, n)) + rng.integers(0, 50, n)
    batch = pa.record_batch({"t": times, "id": np.arange(n)})
    sequencer = Sequencer(["A", "B"], "t", 100)
    out = sequencer.push(batch, 0) + sequencer.push(batch.slice(n // 2), 1) + sequencer.finish()
    assert max(b.data.num_rows for b in out) <= sorted_runs.PIECE_ROWS
    found_times = np.concatenate([b.data["t"].to_numpy() for b in out])
    streams = np.concatenate([np.broadcast_to(b.stream, b.data.num_rows) for b in out])
    ids = np.concatenate([b.data["id"].to_numpy() for b in out])
    assert len(ids) == n + n - n // 2
    order = np.lexsort((ids, streams, found_times))
    assert (order == np.arange(len(order))).all()


def test_rows_in_order_are_passed_on_untouched():
    batch = batch_of([(1, 0), (1, 1), (3, 2)])
    (out,) = Sequencer([None], "t").push(batch)
    assert out.data is batch
    (out,) = Sequencer([None], None).push(batch)
    assert out.data is batch


def test_events_pushed_one_by_one_do_not_pile_up_as_runs():
    sequencer = Sequencer([None], "t", 10**9)
    for i in range(1000):
        sequencer.push(batch_of([(i, i)]))
    assert sequencer.buffered_rows == 1000
    assert len(sequencer._runs[0]) < 12


def test_streams_of_other_columns_are_merged_by_name():
    sequencer = Sequencer(["A", "B"], "t")
    out = sequencer.push(pa.record_batch({"t": [1, 3], "a": [1, 2], "both": ["x", "y"]}), 0)
    view = pa.array(["z"], pa.string_view())
    out += sequencer.push(pa.record_batch({"t": [2], "b": [0.5], "both": view}), 1)
    out += sequencer.finish()
    rows = [row for batch in out for row in batch.data.to_pylist()]
    assert rows == [
        {"t": 1, "a": 1, "both": "x", "b": None},
        {"t": 2, "a": None, "both": "z", "b": 0.5},
        {"t": 3, "a": 2, "both": "y", "b": None},
    ]
    assert len({str(batch.data.schema) for batch in out}) == 1


def test_dictionaries_may_outgrow_their_codes():
    names = [f"v{i}" for i in range(200)]
    small = pa.dictionary(pa.int8(), pa.string())
    halves = [pa.array(part).dictionary_encode().cast(small) for part in (names[:100], names[100:])]
    for n_streams in (1, 2):
        sequencer = Sequencer(["A", "B"][:n_streams], "t", 1000)
        out = sequencer.push(pa.record_batch({"t": np.arange(0, 200, 2), "v": halves[0]}), 0)
        out += sequencer.push(pa.record_batch({"t": np.arange(1, 200, 2), "v": halves[1]}), n_streams - 1)
        out += sequencer.finish()
        found = [v for batch in out for v in batch.data["v"].to_pylist()]
        assert found == [v for pair in zip(names[:100], names[100:], strict=True) for v in pair]
    chunks = pa.chunked_array(halves)
    assert [row["v"] for batch in to_batches(pa.table({"v": chunks})) for row in batch.to_pylist()] == names


def test_late_rows_of_several_streams_say_which():
    sequencer = Sequencer(["A", "B"], "t")
    sequencer.push(batch_of([(5, 0), (4, 1)]), 1)
    assert sequencer.late(clear=True).to_pylist() == [{"t": 4, "id": 1, "stream": "B"}]
    assert sequencer.late().num_rows == 0
    assert sequencer.late_rows == 1


NULL_TIME = pa.record_batch({"t": pa.array([1, None], pa.int64())})


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (NULL_TIME, DataError, "event 3 of stream 'A' .* NULL"),
        (pa.record_batch({"t": pa.nulls(1)}), DataError, "event 2 of stream 'A' .* NULL"),
        (pa.record_batch({"t": [1.5]}), DataError, "'t' is int64, but double in stream 'A' from event 2 on"),
        (pa.record_batch({"T": [1]}), SchemaError, "no time column 't'\nDid you mean 'T'"),
        (pa.record_batch({"t": [9], "id": ["x"]}), DataError, "'id' was int64 and is now string"),
    ],
)
def test_a_batch_that_breaks_the_promise_is_refused_and_changes_nothing(batch, error, message):
    sequencer = Sequencer(["A", "B"], "t")
    sequencer.push(batch_of([(1, 0), (2, 1)]), 0)
    before = sequencer.state()
    with pytest.raises(error, match=message):
        sequencer.push(batch, 0)
    assert sequencer.state() == before


def test_times_that_are_none():
    with pytest.raises(DataError, match=r"event 1 of the stream .* NaN"):
        Sequencer([None], "t").push(pa.record_batch({"t": [1.0, float("nan")]}))
    with pytest.raises(SchemaError, match="'t' is string, which is no time"):
        Sequencer([None], "t").push(pa.record_batch({"t": ["today"]}))
    with pytest.raises(SchemaError, match="merging streams needs a time column"):
        Sequencer(["A", "B"], None)


def test_streams_that_do_not_fit_together():
    sequencer = Sequencer(["A", "B"], "t")
    sequencer.push(pa.record_batch({"t": [1], "price": [1.0]}), 0)
    with pytest.raises(SchemaError, match="'t' is int64, but double in stream 'B'"):
        sequencer.push(pa.record_batch({"t": [1.0]}), 1)
    with pytest.raises(SchemaError, match="'price' is double in stream 'A' but string in stream 'B'"):
        sequencer.push(pa.record_batch({"t": [1], "price": ["x"]}), 1)


def test_a_full_buffer_is_an_error_that_leaves_the_state_valid():
    sequencer = Sequencer(["A", "B"], "t", max_buffered_rows=3)
    sequencer.push(batch_of([(1, 0), (2, 1), (3, 2)]), 0)
    with pytest.raises(ResourceError, match="stream 'B' has brought no event") as caught:
        sequencer.push(batch_of([(4, 3)]), 0)
    assert caught.value.limit == "max_buffered_rows"
    out = sequencer.push(batch_of([(9, 4)]), 1) + sequencer.push(batch_of([(4, 3)]), 0) + sequencer.finish()
    assert [i for batch in out for i in batch.data["id"].to_pylist()] == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="takes no more events"):
        sequencer.push(batch_of([(10, 5)]), 0)


@given(st.lists(st.lists(st.integers(0, 30), max_size=20).map(sorted), min_size=1, max_size=3), st.integers(1, 7))
def test_merging_sources_keeps_buffers_small(streams, batch_rows):
    tables = {f"S{i}": pa.table({"t": pa.array(times, pa.int64())}) for i, times in enumerate(streams)}
    sources = open_streams(tables, [], batch_rows)
    sequencer = Sequencer(list(tables), "t")
    found = []
    for batch in merge_sources(sources, sequencer):
        streams_of_rows = np.broadcast_to(batch.stream, batch.data.num_rows).tolist()
        found += zip(batch.data["t"].to_pylist(), streams_of_rows, strict=True)
        assert sequencer.buffered_rows <= batch_rows * len(streams)
    assert found == sorted((t, i) for i, times in enumerate(streams) for t in times)


def test_a_snapshot_of_a_sequencer_goes_through_arrow_ipc():
    sequencer = Sequencer(["A", "B"], "t", 2)
    sequencer.push(pa.record_batch({"t": [1, 5, 4], "a": pa.array(["x", "y", "x"]).dictionary_encode()}), 0)
    sequencer.push(pa.record_batch({"t": [9, 1], "b": ["v", "w"]}), 1)
    header, batches = sequencer.state()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    again = Sequencer.from_state(json.loads(json.dumps(header)), list(pa.ipc.open_stream(sink.getvalue())))
    assert again.late().equals(sequencer.late())
    assert again.late_rows == 1
    for own, other in zip(sequencer.finish(), again.finish(), strict=True):
        assert own.data.to_pylist() == other.data.to_pylist()
