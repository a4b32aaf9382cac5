"""Single rows of Parquet columns are those that Arrow reads, and damaged pages are never read as something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ceql.io.parquet_rows import NOT_READ, ColumnRows, Unreadable, is_readable

RNG = np.random.default_rng(5)
N, GROUP = 3000, 1100


def _with_nulls(values: Any, share: float, type: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, type, mask=RNG.random(N) < share)


TABLE = pa.table(
    {
        "few": _with_nulls(RNG.integers(0, 50, N), 0.3),
        "many": _with_nulls(RNG.random(N), 0.5),
        "narrow": pa.array(RNG.integers(0, 9, N), pa.int32()),
        "single": pa.array(RNG.random(N), pa.float32()),
        "unsigned": pa.array(RNG.integers(0, 1 << 60, N), pa.uint64()),
        "day": pa.array(RNG.integers(0, 9999, N), pa.int32()).cast(pa.date32()),
        "time": pa.array(RNG.integers(0, 1 << 50, N), pa.timestamp("us")),
        "zoned": pa.array(RNG.integers(0, 1 << 40, N), pa.timestamp("ms", "UTC")),
        "text": _with_nulls([f"text {k}" for k in RNG.integers(0, 9000, N)], 0.2),
        "word": pa.array(RNG.choice(["ä", "", "word", "a longer word"], N)),
        "large": pa.array(["ö" * int(k) for k in RNG.integers(0, 20, N)], pa.large_string()),
        "constant": pa.array(["the same"] * N),
        "nothing": pa.nulls(N, pa.string()),
        "no number": pa.nulls(N, pa.float64()),
    }
)
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no dictionaries": {"use_dictionary": False},
    "zstd": {"compression": "zstd"},
    "gzip": {"compression": "gzip"},
    "not compressed": {"compression": "none"},
    "dictionaries that overflow": {"dictionary_pagesize_limit": 500, "write_batch_size": 17},
    "many pages": {"data_page_size": 200, "write_batch_size": 33},
}


def columns(path: Path) -> Iterator[tuple[pa.Array, ColumnRows]]:
    """Each column of each row group, as Arrow reads it and as it is picked from."""
    with pq.ParquetFile(path) as file:
        for group in range(file.metadata.num_row_groups):
            for k, field in enumerate(file.schema_arrow):
                chunk, column = file.metadata.row_group(group).column(k), file.metadata.schema.column(k)
                assert is_readable(chunk, column, field.type)
                whole = file.read_row_group(group, [field.name]).column(0).combine_chunks()
                yield whole, rows_of(chunk, column, field.type, path)


def rows_of(chunk: Any, column: Any, type: pa.DataType, path: Path) -> ColumnRows:
    content = path.read_bytes()
    return ColumnRows(chunk, column, type, lambda start, size: pa.py_buffer(content[start : start + size]))


def check(path: Path) -> None:
    for whole, picked in columns(path):
        for count in (len(whole), 300, 1, 0):
            rows = np.sort(RNG.choice(len(whole), count, replace=False))
            found = picked.take(rows)
            found.validate(full=True)
            assert found.cast(whole.type).equals(whole.take(pa.array(rows)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_those_that_arrow_reads(layout: str, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "e.parquet", row_group_size=GROUP, **LAYOUTS[layout])
    check(tmp_path / "e.parquet")


def test_columns_that_must_not_be_null(tmp_path: Path) -> None:
    full = [name for name in TABLE.schema.names if not TABLE[name].null_count]
    table = TABLE.select(full).cast(pa.schema([TABLE.schema.field(name).with_nullable(False) for name in full]))
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=GROUP)
    check(tmp_path / "e.parquet")


def test_files_that_polars_wrote(tmp_path: Path) -> None:
    pl.DataFrame(TABLE).write_parquet(tmp_path / "e.parquet", row_group_size=GROUP)
    check(tmp_path / "e.parquet")


@pytest.mark.parametrize("layout", ["plain", "many pages", "not compressed"])
def test_codes_are_sifted(layout: str, tmp_path: Path) -> None:
    table = TABLE.select(["text", "word", "constant"])
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=GROUP, **LAYOUTS[layout])
    for whole, picked in columns(tmp_path / "e.parquet"):
        values = picked.values
        for wants_null in (False, True):
            wanted = np.append(RNG.random(len(values)) < 0.3, wants_null)
            texts = set(values.filter(pa.array(wanted[:-1])).to_pylist()) | ({None} if wants_null else set())
            assert picked.sift(wanted).tolist() == [k for k, text in enumerate(whole.to_pylist()) if text in texts]


def test_texts_that_are_none_are_not_compared(tmp_path: Path) -> None:
    damaged = pa.array([b"\xff", b"fine"]).view(pa.string())
    pq.write_table(pa.table({"text": damaged}), tmp_path / "e.parquet")
    with pq.ParquetFile(tmp_path / "e.parquet") as file:
        metadata = file.metadata
    picked = rows_of(metadata.row_group(0).column(0), metadata.schema.column(0), pa.string(), tmp_path / "e.parquet")
    with pytest.raises(Unreadable):
        _ = picked.values


def test_other_columns_are_left_to_arrow(tmp_path: Path) -> None:
    nested = {"list": [[1]], "struct": [{"a": 1}]}
    table = pa.table(nested | {"flag": [True], "bytes": [b"x"], "span": pa.array([1], pa.duration("s"))})
    pq.write_table(table, tmp_path / "e.parquet")
    with pq.ParquetFile(tmp_path / "e.parquet") as file:
        for k, field in enumerate(file.schema_arrow):
            assert not is_readable(file.metadata.row_group(0).column(k), file.metadata.schema.column(k), field.type)


def test_pages_of_the_second_version_are_left_to_arrow(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "e.parquet", data_page_version="2.0")
    for _, picked in columns(tmp_path / "e.parquet"):
        with pytest.raises(Unreadable):
            picked.take(np.arange(3))


@pytest.mark.parametrize("layout", ["plain", "not compressed", "dictionaries that overflow"])
def test_damaged_pages_do_no_harm(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE.slice(0, 400), path, row_group_size=200, **LAYOUTS[layout])
    sound = path.read_bytes()
    with pq.ParquetFile(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
    last = max(metadata.row_group(1).column(k).data_page_offset for k in range(metadata.num_columns))
    read = 0
    for _ in range(60):
        content = bytearray(sound)
        for at in RNG.integers(4, last, 40):
            content[at] = RNG.integers(0, 256)
        path.write_bytes(bytes(content))
        for k, field in enumerate(schema):
            picked = rows_of(metadata.row_group(0).column(k), metadata.schema.column(k), field.type, path)
            try:
                assert len(picked.take(np.arange(0, 200, 7))) == 29
                read += 1
                if pa.types.is_string(field.type):
                    picked.sift(np.ones(len(picked.values) + 1, np.bool_))
            except NOT_READ:
                continue
    assert read
