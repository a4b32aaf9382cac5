"""Bounded input is put in order of time, whatever its order, and matches name the caller's rows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from bench.workloads import flights

import ceql
from ceql.io import files

RNG = np.random.default_rng(7)
N = 400
TABLE = pa.table(
    {
        "type": RNG.choice(["A", "B", "C"], N).tolist(),
        "time": RNG.integers(0, 200, N),
        "key": RNG.choice(["x", "y", "z"], N).tolist(),
        "row": np.arange(N),
    }
)
ORDER = np.argsort(TABLE["time"].to_numpy(), kind="stable")
SORTED = TABLE.take(pa.array(ORDER))
QUERY = "SELECT a, b WHERE A AS a ; (B OR C)+ AS b FILTER b[row % 7 = 1] PARTITION BY [key] WITHIN 20 EVENTS"
JOIN = "SELECT * WHERE A AS a ; B AS b FILTER a.key = b.key AND a.row < b.row WITHIN 5 EVENTS"


def write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "e.parquet": pq.write_table,
    "e.csv": pa.csv.write_csv,
    "e.jsonl": write_json,
    "e.feather": pa.feather.write_feather,
}
INPUTS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "table in chunks": lambda table: pa.concat_tables(table.slice(k, 3) for k in range(0, N, 3)),
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.DataFrame(table).lazy(),
    "dicts": lambda table: table.to_pylist(),
    "batches": lambda table: table.to_batches(max_chunksize=50),
}


def result(query: str, events: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [(m.start, m.end, m.events, m.bindings, m.end_time) for m in ceql.match(query, events, **options)]


def expected(query: str) -> list[tuple[Any, ...]]:
    """The matches over the sorted table, with the rows of the table that is not sorted."""

    def rows(positions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(ORDER[list(positions)].tolist())

    found = result(query, SORTED)
    assert len(found) > 10
    return [
        (int(ORDER[start]), int(ORDER[end]), rows(events), {v: rows(p) for v, p in bindings.items()}, time)
        for start, end, events, bindings, time in found
    ]


@pytest.mark.parametrize("query", [QUERY, JOIN], ids=["unary", "correlated"])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("batch_rows", [7, 1 << 17])
def test_rows_in_any_order(query: str, kind: str, batch_rows: int) -> None:
    events = INPUTS[kind](TABLE)
    matches = ceql.match(query, events, batch_rows=batch_rows)
    assert result(query, events, batch_rows=batch_rows) == expected(query)
    assert matches.count() == len(expected(query))
    rows = matches.events()
    assert rows["row"].to_pylist() == rows["position"].to_pylist()
    assert rows["position"].to_pylist() == [row for m in matches for row in m.events]
    assert matches.head(3).equals(matches.to_arrow().slice(0, 3))
    assert matches.late().num_rows == 0


@pytest.mark.parametrize("whole", [True, False], ids=["read whole", "read in blocks"])
@pytest.mark.parametrize("name", WRITERS)
def test_files_in_any_order(name: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr(files, "WHOLE_BYTES", 0)
        monkeypatch.setattr(files, "_BLOCK_BYTES", 500)
    path = tmp_path / name
    WRITERS[name](TABLE, path)
    assert result(QUERY, path) == expected(QUERY)
    with pytest.raises(ceql.ResourceError, match=r"not in order of 'time'.* max_buffered_rows is 399") as caught:
        next(iter(ceql.match("SELECT * WHERE A", path, max_buffered_rows=N - 1)))
    assert caught.value.limit == "max_buffered_rows"
    # what is in order is read batch by batch, whatever its size
    WRITERS[name](SORTED, path)
    assert result(QUERY, path, max_buffered_rows=1) == result(QUERY, SORTED)


@pytest.mark.parametrize("kind", INPUTS)
def test_too_many_rows_to_sort(kind: str) -> None:
    events = INPUTS[kind](TABLE)
    assert ceql.match("SELECT * WHERE A", events, max_buffered_rows=N).count()
    with pytest.raises(ceql.ResourceError, match="sort it first, or raise the limit"):
        ceql.match("SELECT * WHERE A", events, max_buffered_rows=N - 1).count()


def test_a_frame_by_key_and_time_is_one_stream() -> None:
    frame = TABLE.to_pandas().sort_values(["key", "time"], kind="stable").reset_index(drop=True)
    by_time = frame.sort_values("time", kind="stable")
    query = "SELECT a, b WHERE A AS a : B AS b WITHIN 3 EVENTS"
    found = ceql.match(query, frame)
    assert [frame.iloc[list(m.events)].row.tolist() for m in found] == [
        by_time.iloc[list(m.events)].row.tolist() for m in ceql.match(query, by_time.reset_index(drop=True))
    ]
    assert found.count() > 10


def test_several_streams_are_each_put_in_order_before_they_are_merged() -> None:
    query = "SELECT * FROM S, T WHERE S>A : T>B"
    given = {"S": TABLE.slice(0, 150), "T": TABLE.slice(150).to_pylist()}
    in_order = {
        name: pa.Table.from_pylist(list(rows)).sort_by("time")
        for name, rows in {"S": given["S"].to_pylist(), "T": given["T"]}.items()
    }
    assert result(query, given) == result(query, in_order)
    assert ceql.match(query, given).count() > 5


def test_rows_of_the_same_time_keep_their_order() -> None:
    table = pa.table({"type": list("BAAB"), "time": [5, 5, 1, 5]})
    assert [m.events for m in ceql.match("SELECT * WHERE A : B", table)] == [(2, 0), (1, 3)]


def test_lateness_is_for_streams() -> None:
    for lateness in (0, 1, 10**9):
        assert result(QUERY, TABLE, lateness=lateness) == expected(QUERY)
    reader = ceql.match("SELECT * WHERE A ; B", TABLE.to_reader(), lateness=200)
    assert reader.count() == ceql.match("SELECT * WHERE A ; B", TABLE).count()


def test_the_row_without_a_time_is_named_by_the_caller() -> None:
    table = pa.table({"type": list("ABA"), "time": [9, 1, None]})
    with pytest.raises(ceql.DataError, match="event 2 of the stream has no time"):
        ceql.match("SELECT * WHERE A", table).count()


@pytest.mark.parametrize("read", [list, lambda m: m.to_arrow(), lambda m: m.count(), lambda m: m.events()])
def test_the_warning_about_late_events_points_at_the_caller(read: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read(ceql.match("SELECT * WHERE C", TABLE.to_reader()))
    assert [(w.category, w.filename) for w in caught] == [(ceql.LateEventsWarning, __file__)]


def test_diagnose_reads_rows_in_any_order() -> None:
    query = ceql.compile("SELECT * WHERE A : B WITHIN 3 EVENTS")
    here, there = query.diagnose(TABLE), query.diagnose(SORTED)
    assert here.rungs == there.rungs
    assert not here.late


def test_dictionaries_that_differ_from_chunk_to_chunk() -> None:
    chunks = [TABLE.slice(k, 40) for k in range(0, N, 40)]
    encoded = pa.concat_tables(
        chunk.set_column(2, "key", pc.dictionary_encode(chunk["key"]).cast(pa.dictionary(pa.int8(), pa.string())))
        for chunk in chunks
    )
    assert result(QUERY, encoded) == expected(QUERY)


@pytest.mark.parametrize("query", [flights.late_late_cancelled(), flights.growing_delay()])
def test_flights_as_they_come(query: str) -> None:
    frame = flights.as_they_come().to_pandas()
    in_order = frame.sort_values("time", kind="stable")
    found, same = ceql.match(query, frame), ceql.match(query, in_order.reset_index(drop=True))
    assert found.count() == same.count() == ceql.match(query, flights.events()).count()
    given = found.to_arrow()
    rows = pd.DataFrame({name: given[name].to_numpy() for name in ("x", "y", "z")})
    other = same.to_arrow()
    for name in ("x", "y", "z"):
        positions = other[name].to_numpy()
        assert frame.iloc[rows[name]].equals(in_order.iloc[positions])
