"""Data that is not what it says it is becomes an error, and never ends the process."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceql
import damage
from ceql.errors import DataError
from ceql.io import files
from ceql.io.csv_quotes import Quotes

ROWS = 1000
TYPES = pa.array(["A", "B"] * (ROWS // 2))
OFFSETS = np.arange(ROWS + 1, dtype=np.int32)
ALL_VALID = pa.py_buffer(b"\xff" * (ROWS // 8))


def text(at: int, offset: int) -> pa.Array:
    """Texts of a byte each, of which one has another offset. It is changed afterwards, since Arrow looks at first."""
    offsets = OFFSETS.copy()
    made = pa.Array.from_buffers(pa.string(), ROWS, [None, pa.py_buffer(offsets), pa.py_buffer(b"x" * ROWS)])
    offsets[at] = offset
    return made


def view(*row_7: int) -> pa.Array:
    """Views of a byte each, but for row 7."""
    views = np.zeros((ROWS, 4), np.int32)
    views[:, 0] = 1
    views[7] = row_7
    return pa.Array.from_buffers(pa.string_view(), ROWS, [None, pa.py_buffer(views), pa.py_buffer(b"x" * 200)])


def coded(code: int, values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.full(ROWS, code, np.int32)), values, safe=False)


def lists() -> pa.Array:
    offsets = OFFSETS.copy()
    made = pa.Array.from_buffers(
        pa.list_(pa.int64()), ROWS, [None, pa.py_buffer(offsets)], children=[pa.array(range(ROWS))]
    )
    offsets[500] = 1 << 30
    return made


def runs() -> pa.Array:
    offsets = np.array([0, 1, 2], np.int32)
    values = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"xy")])
    made = pa.RunEndEncodedArray.from_arrays(pa.array([500, ROWS], pa.int32()), values)
    offsets[1] = 1 << 30
    return made


UNSOUND = {
    "offset beyond the bytes": text(500, 2**31 - 1),
    "offset below zero": text(500, -5),
    "offset that falls": text(500, 3),
    "code beyond the dictionary": coded(10**6, pa.array(["a", "b"])),
    "code below zero": coded(-(10**6), pa.array(["a", "b"])),
    "code beyond a dictionary of numbers": coded(10**6, pa.array([1, 2])),
    "dictionary with a wild offset": coded(0, text(500, 2**31 - 1)),
    "view of a buffer that is not there": view(100, 0, 5, 0),
    "view beyond its buffer": view(100, 0, 0, 150),
    "view of less than no bytes": view(-100, 0, 0, 0),
    "list with a wild offset": lists(),
    "struct of texts with a wild offset": pa.StructArray.from_arrays([text(500, 2**31 - 1)], ["a"]),
    "runs of texts with a wild offset": runs(),
    "decimals of more digits than their type has": pa.Array.from_buffers(
        pa.decimal128(5, 1), ROWS, [None, pa.py_buffer(np.full(2 * ROWS, 10**15))]
    ),
    "a wrong number of NULLs": pa.Array.from_buffers(
        pa.int64(), ROWS, [ALL_VALID, pa.py_buffer(np.arange(ROWS))], null_count=900
    ),
}


@pytest.mark.parametrize("column", UNSOUND.values(), ids=UNSOUND.keys())
@pytest.mark.parametrize("push", [False, True], ids=["run", "feed"])
def test_unsound_data_in_memory_is_an_error_that_names_the_column(column, push):
    events = pa.table({"type": TYPES, "x": column})
    query = ceql.compile("SELECT * WHERE A ; B FILTER A[x IS NULL]")
    with pytest.raises(DataError, match=r"column 'x' .* is damaged"):
        (query.recognizer().feed(events) if push else query.run(events)).to_arrow()


def test_unsound_data_is_found_in_many_small_batches_too():
    events = pa.table({"type": TYPES, "x": text(500, 2**31 - 1)})
    for cut in (events.to_batches(max_chunksize=3), pa.Table.from_batches(events.to_batches(max_chunksize=3))):
        with pytest.raises(DataError, match=r"column 'x' .* is damaged"):
            ceql.match("SELECT * WHERE A FILTER A[x = 'a']", cut).to_arrow()


SOUND = {
    "memory that is not aligned": pa.Array.from_buffers(
        pa.string(), ROWS, [None, pa.py_buffer(b"\0" + OFFSETS.tobytes()).slice(1), pa.py_buffer(b"x" * ROWS)]
    ),
    "a buffer with odd bytes at its end": pa.Array.from_buffers(
        pa.string(), ROWS, [None, pa.py_buffer(OFFSETS.tobytes() + b"abc"), pa.py_buffer(b"x" * ROWS)]
    ),
    "a part of a longer column": pa.array(["y"] * 3 + ["x"] * (ROWS + 2)).slice(3, ROWS),
    "views after a long one": pa.array(["y" * 50, None, *["x"] * ROWS], pa.string_view()).slice(2),
    "codes": pa.DictionaryArray.from_arrays(pa.array([0] * ROWS), pa.array(["x"])),
}


@pytest.mark.parametrize("column", SOUND.values(), ids=SOUND.keys())
def test_unusual_but_sound_data_is_read(column):
    events = pa.table({"type": TYPES, "x": column})
    query = "SELECT * WHERE A AS a ; B AS b FILTER a[x = 'x'] AND a.x = b.x PARTITION BY x WITHIN 1 EVENTS"
    assert ceql.match(query, events).count() == ROWS // 2


def test_keys_that_are_not_utf8_are_an_error():
    wrong = pa.array([b"\xff", b"b"]).cast(pa.binary()).view(pa.string())
    events = pa.table({"type": ["A", "A"], "x": wrong})
    with pytest.raises(DataError, match="column 'x' is a key and has text that is not UTF-8"):
        ceql.match("SELECT * WHERE A PARTITION BY x", events).to_arrow()
    with pytest.raises(DataError, match="not UTF-8"):
        ceql.match("SELECT * WHERE A PARTITION BY x", events.set_column(1, "x", wrong.dictionary_encode())).to_arrow()
    assert ceql.match("SELECT * WHERE A FILTER A[x = 'b']", events).count() == 1


NOT_UTF8 = pa.array([b"A", b"B\xff", b"\xffA", b"B"]).view(pa.string())


@pytest.mark.parametrize("wrong", [NOT_UTF8, NOT_UTF8.dictionary_encode()], ids=["text", "codes"])
def test_types_that_are_not_utf8_are_an_error(wrong):
    query, events = ceql.compile("SELECT * WHERE A ; B"), pa.table({"type": wrong})
    asked = [
        lambda: query.run(events).count(),
        lambda: list(query.run(events)),
        lambda: query.recognizer().feed(events),
        lambda: query.diagnose(events),
    ]
    for ask in asked:
        with pytest.raises(DataError, match="column 'type' is the type of events and has text that is not UTF-8"):
            ask()


def test_functions_of_text_that_is_not_utf8_are_an_error():
    events = pa.table({"type": ["A"] * 4, "x": NOT_UTF8})
    for query in ("SELECT * WHERE A FILTER A[UPPER(x) = 'A']", "SELECT LOWER(a.x) AS low WHERE A AS a"):
        with pytest.raises(DataError, match=r"'(UPPER|LOWER)' cannot be calculated .* not UTF-8"):
            ceql.match(query, events).to_arrow()


def test_text_that_is_not_utf8_is_shown():
    matches = ceql.match("SELECT * WHERE A AS a", pa.table({"type": ["A"] * 4, "x": NOT_UTF8}))
    assert "B\N{REPLACEMENT CHARACTER}" in matches.timeline().to_svg()
    with pytest.raises(DataError, match="pandas cannot hold a column"):
        matches.to_pandas(events="long")


@pytest.mark.parametrize("name", ["events.parquet", "events.arrow"])
def test_text_that_is_not_utf8_in_a_file_is_an_error(tmp_path, name):
    wrong = pa.array([b"\xff", b"b"]).cast(pa.binary()).view(pa.string())
    events = pa.table({"type": ["A", "A"], "x": wrong})
    path = tmp_path / name
    if name.endswith("parquet"):
        pa.parquet.write_table(events, path)
    else:
        pa.feather.write_feather(events, path)
    with pytest.raises(DataError, match=r"column 'x' \(string\) is damaged: it has text that is not UTF-8"):
        ceql.match("SELECT * WHERE A FILTER A[x = 'b']", path).count()


def test_a_line_of_json_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"type": "A"}\n{"type": "A", "x": "\xff"}\n')
    with pytest.raises(DataError, match="line 2 is no event: it is not UTF-8"):
        ceql.match("SELECT * WHERE A", path).count()


@pytest.mark.parametrize("format", damage.FORMATS)
def test_a_damaged_file_is_an_error_or_other_data(format):
    """In a process of its own, which would be gone if one of them ended it."""
    run = subprocess.run(
        [sys.executable, str(Path(damage.__file__)), format, "40"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert sum(json.loads(run.stdout).values()) >= 40


UNCLOSED = {
    "to the end": b'type,v\nA,1\nA,"2\nA,3\nA,4\n',
    "to the end, before the last line break": b'type,v\nA,1\nA,"2',
    "to the next quote": b'type,v\nA,1\nA,"2\nA,3\nA,"4"\nA,5\n',
    "to the next quote, from the start of a line": b'type,v\nA,1\n"A,2\nA,3\n"A",4\n',
    "after a mark of UTF-8": b'\xef\xbb\xbf"type","v"\r\n"A","1"\r\n"A","2\r\n"A","3"\r\n',
}


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzipped"])
@pytest.mark.parametrize("data", UNCLOSED.values(), ids=UNCLOSED.keys())
def test_a_quote_that_is_not_closed_swallows_no_rows(tmp_path, data, zipped, monkeypatch):
    path = tmp_path / "events.csv"
    path.write_bytes(gzip.compress(data) if zipped else data)
    for whole in (1 << 20, 0):  # read whole, and in blocks
        monkeypatch.setattr(files, "WHOLE_BYTES", whole)
        with pytest.raises(DataError, match="the quote that opens a field in line 3 is"):
            ceql.match("SELECT * WHERE A", path).count()


def test_quotes_that_are_closed_are_no_error(tmp_path):
    path = tmp_path / "events.csv"
    path.write_bytes(b'type,v\nA,"a\nb"\nA,5" disk\nA,"say ""x"""\nA,"q"z\nA,""\nA,"\n"\n')
    assert ceql.match("SELECT * WHERE A", path).count() == 6


def look_through(data: bytes, size: int) -> None:
    quotes = Quotes(",", "events.csv")
    for first in range(0, len(data), size):
        quotes.look(data[first : first + size])
    quotes.look(b"")


@given(
    st.lists(st.lists(st.sampled_from(["A", "", 'x"y', "a,b", "l\nm", '"', '""', "\r\n"]), min_size=2), min_size=1),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.integers(1, 9),
)
def test_csv_that_python_writes_passes_however_it_is_cut(rows, quoting, size):
    text = io.StringIO()
    csv.writer(text, quoting=quoting).writerows(rows)
    data = text.getvalue().encode()
    look_through(data, size)


@pytest.mark.parametrize("size", [700, 1025, 4099, 1 << 14, 1 << 20])
def test_large_blocks_are_followed_across_their_seams(size):
    lines = [f'A,"{"x" * (k % 13)}{chr(10) * (k % 7 == 0)}""{k}",{k}' for k in range(2000)]
    data = ("\n".join(["type,v,w", *lines]) + "\n").encode()
    look_through(data, size)
    with pytest.raises(DataError, match=f"in line {data.count(10) + 1} is never closed"):
        look_through(data + b'A,"2,3\nA,4,5\n', size)


def test_rows_that_spark_hands_to_a_task() -> None:
    pytest.importorskip("pyspark")  # `make oldest` goes without it
    from ceql.spark.packing import Packing, pack
    from ceql.spark.task_recognizer import larger

    damaged = pa.RecordBatch.from_arrays([text(500, 1 << 30)], names=["c0"])
    for take_in in (lambda: list(larger([damaged])), lambda: list(pack([Packing.whole(["c0"], range(1))], [damaged]))):
        with pytest.raises(DataError, match=r"column 'c0' .* is damaged"):
            take_in()
