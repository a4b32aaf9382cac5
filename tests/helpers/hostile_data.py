"""Data that nobody should have: columns of any type, Arrow arrays that lie, damaged files and snapshots.

Each function takes dice and does one thing as a user would. It gives whether ceql took the data; an error of ceql's own
is an answer, and anything else that is raised, or a process that dies, is a finding.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import ceql
import damage
import forging
from streams import STREAMS

ROWS = 12
QUERIES = (
    "SELECT * WHERE A ; B PARTITION BY c",
    "SELECT * WHERE A AS x ; B AS y FILTER x.c = y.c",
    "SELECT * WHERE A AS x ; B AS y FILTER x.c < y.d",
    "SELECT MAX * WHERE A AS x ; B AS y FILTER x.c != y.c WITHIN 4 EVENTS",
    "SELECT * WHERE A AS x ; B FILTER x[c = 1 OR d > 2.5]",
    "SELECT * WHERE A AS x ; B FILTER x[c > 'a' AND d LIKE '%b%']",
    "SELECT * WHERE A AS x ; B FILTER x[c IN {1, 2, 3 .. 7}] OR x[d IS NULL]",
    "SELECT * WHERE A ; B+ WITHIN 5 [c]",
    "SELECT SUM(A.c) AS s, AVG(B.c) AS m, MAX(B.d) AS t, FIRST(A.d) AS f, COUNT(B) AS n WHERE A ; B{1,3}",
    "SELECT A.c, B.d WHERE A ; B",
    "SELECT * WHERE A AS x ; B AS y FILTER x.c + 1 < y.d * 2",
    "SELECT * WHERE A ; B+ AS y FILTER y[c > PREV.c] AND SUM(y.d) > 3 WITHIN 5 EVENTS",
    "SELECT * WHERE A ; NOT A AS z ; B AS y FILTER z.c = y.c",
    "SELECT * WHERE A AS x ; NOT B AS z FILTER z.c > x.c WITHIN 3 EVENTS",
    "SELECT * WHERE A ; B FILTER A[YEAR(c) = 2020 OR HOUR(d) > 3]",
    "SELECT * WHERE A ; B FILTER A[UPPER(c) = 'X'] OR B[LENGTH(d) > 2 AND ROUND(c, 1) = ABS(d)]",
    "SELECT * WHERE A AS x ; B AS y FILTER y.c - x.c < 5 SECONDS",
    "SELECT * WHERE A ; B WITHIN 5 SECONDS",
)

Values = Callable[[random.Random], Any]


def _whole(bits: int, signed: bool = True) -> Values:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda dice: dice.choice([low, high, max(low, -1), 0, 1, 2, 7])


def _text(dice: random.Random) -> str:
    return dice.choice(["", "a", "X", "b\0", "2020-01-01", "1", "é" * 9, "\U0001f600", "longer than twelve bytes"])


TYPES: tuple[tuple[pa.DataType, Values], ...] = (
    *((kind, _whole(kind.bit_width)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, _whole(kind.bit_width, False)) for kind in (pa.uint8(), pa.uint32(), pa.uint64())),
    (pa.float64(), lambda dice: dice.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -1e308, 5e-324])),
    (pa.float32(), lambda dice: dice.choice([0.0, 1.5, float("nan"), float("-inf")])),
    (pa.float16(), lambda dice: np.float16(dice.choice([0, 1.5, 65504]))),
    (pa.bool_(), lambda dice: dice.random() < 0.5),
    *((kind, _text) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, lambda dice: _text(dice).encode()) for kind in (pa.binary(), pa.binary_view())),
    (pa.binary(2), lambda dice: dice.choice([b"ab", b"\xff\0"])),
    *((kind, _whole(64)) for kind in (pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("ns"))),
    (pa.timestamp("us", "Europe/Berlin"), lambda dice: datetime(dice.choice([1, 1970, 2020, 9999]), 3, 4)),
    (pa.timestamp("us", "No/Where"), _whole(32)),
    *((kind, _whole(64)) for kind in (pa.duration("s"), pa.duration("ns"), pa.date64())),
    (pa.date32(), _whole(32)),
    (pa.time32("s"), lambda dice: dice.randrange(86400)),
    (pa.time64("ns"), lambda dice: dice.randrange(86400 * 10**9)),
    *((kind, lambda dice: Decimal(dice.randrange(-99, 99)) / 10) for kind in (pa.decimal128(5, 1), pa.decimal64(5, 1))),
    (pa.decimal256(70, 0), lambda dice: Decimal(dice.choice([-(10**60), 0, 10**60]))),
    (pa.null(), lambda dice: None),
    *((kind, lambda dice: [dice.randrange(3)]) for kind in (pa.list_(pa.int64()), pa.list_view(pa.int64()))),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), lambda dice: {"a": dice.randrange(3), "b": _text(dice)}),
    (pa.map_(pa.string(), pa.int64()), lambda dice: [(_text(dice), 1)]),
    (pa.month_day_nano_interval(), lambda dice: (1, dice.randrange(3), 5)),
)


def column(dice: random.Random, rows: int = ROWS) -> pa.Array:
    """A column of some type, as it is or in codes or runs, perhaps a part of a longer one."""
    kind, value = dice.choice(TYPES)
    missing = dice.choice([0.0, 0.2, 1.0])
    before, after = dice.choice([(0, 0), (3, 2)])
    made = pa.array([None if dice.random() < missing else value(dice) for _ in range(before + rows + after)], kind)
    if dice.random() < 0.25:
        with contextlib.suppress(pa.ArrowNotImplementedError):
            made = made.dictionary_encode() if dice.random() < 0.7 else pa.compute.run_end_encode(made)
    return made.slice(before, rows)


def events(dice: random.Random) -> pa.Table:
    """Events with two columns of any type, and times that are now and then of any type too."""
    kinds = pa.array(dice.choices("ABC", k=ROWS))
    columns = {
        "type": kinds.dictionary_encode() if dice.random() < 0.3 else kinds,
        "c": column(dice),
        "d": column(dice),
    }
    if dice.random() < 0.5:
        columns["time"] = column(dice) if dice.random() < 0.4 else pa.array(range(ROWS), pa.timestamp("s"))
    return pa.table(columns)


def schemas(dice: random.Random) -> bool:
    """A query over columns of any type: as a whole, counted, and in feeds with a snapshot between them."""
    return _asked(dice.choice(QUERIES), events(dice), dice)


def _asked(text: str, table: pa.Table, dice: random.Random) -> bool:
    cut = dice.randrange(table.num_rows + 1)
    try:
        query = ceql.compile(text)
        whole = query.run(table).to_arrow()
        counted = query.run(table).count()
        query.run(table).events()
    except ceql.CeqlError:
        return False
    assert counted == whole.num_rows, f"{counted} counted, {whole.num_rows} found"
    try:
        recognizer = query.recognizer()
        found = [recognizer.feed(table.slice(0, cut)).to_arrow()]
        recognizer = query.restore(recognizer.snapshot())
        found += [recognizer.feed(table.slice(cut)).to_arrow(), recognizer.finish().to_arrow()]
    except ceql.CeqlError:  # the events of a stream may be in no order, as those of a table may
        return True
    if recognizer.late().num_rows == 0 and whole.num_rows and "time" not in table.column_names:
        assert sum(part.num_rows for part in found) == whole.num_rows, "feeds differ from the whole"
    return True


# --- arrays that lie ---


def arrays(dice: random.Random) -> bool:
    """A query over a column whose offsets, codes, views or counts are not what they should be."""
    made = column(dice, 100)
    lying = _lying(made, dice)
    table = pa.table({"type": pa.array(dice.choices("AB", k=100)), "c": lying, "d": pa.array(range(100))})
    try:
        query = ceql.compile(dice.choice(QUERIES) + dice.choice(["", " LIMIT 3"]))
        reading = query.recognizer().feed(table) if dice.random() < 0.5 else query.run(table)
        reading.head(50)
        query.run(table).count()
    except ceql.CeqlError:
        return False
    return True


def _lying(array: pa.Array, dice: random.Random) -> pa.Array:
    """The same array with some of its buffers changed; Arrow is not asked whether they make sense."""
    kind = array.type
    if isinstance(array, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(_lying(array.indices, dice), array.dictionary, safe=False)
    if isinstance(array, pa.StructArray):
        return pa.StructArray.from_arrays([_lying(array.field(k), dice) for k in range(kind.num_fields)], fields=kind)
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind) or pa.types.is_null(kind):
        return array
    buffers = [None if buffer is None else bytearray(buffer.to_pybytes()) for buffer in array.buffers()]
    made = pa.Array.from_buffers(
        kind, len(array), [None if b is None else pa.py_buffer(b) for b in buffers], -1, array.offset
    )
    # changed afterwards, since Arrow looks at some of it first
    place = 1 if pa.types.is_integer(kind) or len(buffers) < 3 or dice.random() < 0.9 else 0
    changed = buffers[place]
    for _ in range(dice.choice([1, 1, 3])):
        if changed and len(changed) > 8:
            at = dice.randrange(0, len(changed) - 4, 4)
            changed[at : at + 4] = dice.choice([b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff\xff\xff\xff", b"\5\0\0\0"])
    return made


# --- files and snapshots ---


@lru_cache
def _written(format: str) -> bytes:
    return damage.written(format)


def files(dice: random.Random) -> bool:
    """Queries over a damaged file."""
    format = dice.choice(damage.FORMATS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"events.{format}"
        path.write_bytes(damage.damaged(_written(format), dice.randrange(1 << 32)))
        try:
            ceql.compile(dice.choice(damage.queries(format))).run(path).events()
        except ceql.CeqlError:
            return False
    return True


@lru_cache
def _snapshot(number: int) -> bytes:
    return forging.snapshot_of(STREAMS[number])


def snapshots(dice: random.Random) -> bool:
    """A damaged snapshot, or a forged one with a right checksum, and what follows it."""
    number = dice.randrange(len(STREAMS))
    stream, blob = STREAMS[number], _snapshot(number)
    query = ceql.compile(stream.query)
    change = forging.damaged if dice.random() < 0.2 else forging.forged
    changed = change(blob, dice)
    try:
        recognizer = query.restore(changed)
        for batch in list(stream.events())[3:]:
            recognizer.feed(batch).head(1000)
        recognizer = query.restore(recognizer.snapshot())
        recognizer.finish().head(1000)
        recognizer.metrics()
    except ceql.CeqlError:
        return False
    assert change is forging.forged or changed == blob, "damage was not found"
    return True
