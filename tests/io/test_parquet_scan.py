"""Parquet in pieces gives what the same rows give from memory, whatever their order and their statistics."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import ceql
from ceql.io import parquet_pieces

RNG = np.random.default_rng(3)
N, GROUP = 600, 60
LONG = "a very long name that no writer keeps whole in its statistics, since it goes on and on: "


def _texts(values: list[str], nulls: float = 0.0) -> pa.Array:
    return pa.array(RNG.choice(values, N), pa.string(), mask=RNG.random(N) < nulls)


TABLE = pa.table(
    {
        "type": pa.array(np.where(np.arange(N) // GROUP % 3 == 1, "Q", RNG.choice(["A", "B", "C"], N)), pa.string()),
        "name": _texts(["x", "y", "z", "ä"], 0.1),
        "price": pa.array(RNG.uniform(0, 10, N) + np.arange(N) // GROUP, mask=RNG.random(N) < 0.05),
        "level": pa.array(np.arange(N) // GROUP + RNG.integers(0, 2, N), pa.int32()),
        "long": _texts([LONG + letter for letter in "abcdefgh"], 0.1),
        "unique": pa.array([f"{k:04d} of {N}" for k in RNG.permutation(N)]),
        "key": _texts(["k", "l", "m"]),
        "time": pa.array(np.arange(N) * 1_000_000_007, pa.timestamp("ns")),
        "row": np.arange(N),
        "flag": pa.array(np.arange(N) % 3 == 0),
    }
)
QUERIES = {
    "filters": "SELECT a, c WHERE A AS a ; C AS c FILTER a[name = 'x'] AND c[price > 6] WITHIN 2 MINUTES",
    "few groups": "SELECT * WHERE A AS a ; B AS b FILTER a[level >= 7] AND b[level >= 7] WITHIN 20 EVENTS",
    "no group": "SELECT * WHERE A AS a ; B AS b FILTER a[level > 700]",
    "between": "SELECT * WHERE A AS a ; C AS c FILTER a[price > 3 AND price < 4.5] AND c[level = 3] WITHIN 50 EVENTS",
    "nulls": "SELECT * WHERE A AS a ; B AS b FILTER a[name IS NULL] AND b[price IS NULL]",
    "not": "SELECT * WHERE A AS a ; B AS b FILTER a[NOT name = 'x'] AND b[name != 'ä'] WITHIN 10 EVENTS",
    "like": "SELECT * WHERE A AS a : B AS b FILTER a[long LIKE '%: c'] WITHIN 1 MINUTE",
    "long": f"SELECT * WHERE A AS a ; B AS b FILTER a[long = '{LONG}c'] AND b[long = '{LONG}g'] WITHIN 30 SECONDS",
    "unique": "SELECT * WHERE A AS a ; B AS b FILTER a[unique < '0100'] AND b[unique >= '0500'] WITHIN 1 MINUTE",
    "times": "SELECT * WHERE A AS a ; B AS b FILTER a[time > '1970-01-01 00:07:00'] WITHIN 10 EVENTS",
    "contiguous": "SELECT * WHERE A AS a : B AS b FILTER a[name = 'y']",
    "strict": "SELECT STRICT * WHERE A AS a ; B AS b FILTER b[name = 'y']",
    "next": "SELECT NEXT * WHERE A AS a ; B AS b FILTER a[level > 4] WITHIN 15 EVENTS",
    "absent": "SELECT * WHERE A AS a ; NOT C ; B AS b FILTER a[price > 9]",
    "trailing": "SELECT * WHERE A AS a ; NOT C AS c FILTER a[price > 9] AND c[level > 3] WITHIN 10 SECONDS",
    "keys": "SELECT * WHERE A AS a ; B AS b FILTER a[level > 5] PARTITION BY [key] WITHIN 1 MINUTE",
    "keys, events": "SELECT * WHERE A AS a ; B AS b FILTER a[level > 5] PARTITION BY [key] WITHIN 5 EVENTS",
    "join": "SELECT * WHERE A AS a ; B AS b FILTER a.name = b.name AND a[level > 6] WITHIN 1 MINUTE",
    "order": "SELECT * WHERE A AS a ; B AS b FILTER a.price + 3 < b.price AND b[level > 8] WITHIN 1 MINUTE",
    "rare": "SELECT * WHERE A AS a ; B AS b FILTER a[name = 'ä'] AND b[name = 'ä'] WITHIN 5 MINUTES",
    "rare numbers": "SELECT * WHERE A AS a ; B AS b FILTER a[level = 7] AND b[level = 8] WITHIN 5 MINUTES",
    "rare, measured": "SELECT b.price - a.price AS up WHERE A AS a ; B AS b FILTER a[name = 'ä'] AND b[name = 'ä']",
    "rare, joined": "SELECT * WHERE A AS a ; B AS b FILTER a[name = 'ä'] AND b[name = 'ä'] AND a.key = b.key",
    "rare, keys": "SELECT * WHERE A AS a ; B AS b FILTER a[name = 'ä'] AND b[name = 'ä'] PARTITION BY [key]",
    "rare nulls": "SELECT * WHERE A AS a ; B AS b FILTER a[name IS NULL] AND b[name IS NULL] WITHIN 1 HOUR",
    "measures": "SELECT a, b, b.price - a.price AS gain WHERE A AS a ; B AS b FILTER a[level > 6] WITHIN 10 EVENTS",
}
WITHIN_GROUPS = np.concatenate([start + RNG.permutation(GROUP) for start in range(0, N, GROUP)])
ORDERS: dict[str, Any] = {
    "sorted": np.arange(N),
    "unsorted in groups": WITHIN_GROUPS,
    "unsorted": RNG.permutation(N),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no statistics": {"write_statistics": False},
    "statistics of prices alone": {"write_statistics": ["price", "level"]},
    "no dictionaries": {"use_dictionary": False},
    "dictionaries that overflow": {"dictionary_pagesize_limit": 20, "write_batch_size": 7},
    "many pages": {"data_page_size": 1, "write_batch_size": 7, "compression": "zstd"},
    "pages of the second version": {"data_page_version": "2.0"},
}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_pieces, "_PIECE_ROWS", GROUP)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """The first row of each piece that was read, and the columns."""
    found: list[tuple[int, tuple[str, ...]]] = []
    before = parquet_pieces.Piece.read

    def noted(self: parquet_pieces.Piece, columns: Any, coded: Any) -> pa.Table:
        found.append((self.first, tuple(columns)))
        return before(self, columns, coded)

    monkeypatch.setattr(parquet_pieces.Piece, "read", noted)
    return found


def same(query: str, file: Any, table: pa.Table) -> None:
    """Everything that can be asked is the same from the file and from memory."""
    compiled = ceql.compile(query)
    there, here = compiled.run(file), compiled.run(table)
    assert there.to_arrow().equals(here.to_arrow())
    assert there.events().equals(here.events())
    assert compiled.run(file, batch_rows=17).to_arrow().equals(here.to_arrow())
    assert there.count() == here.count()
    again = compiled.run(file)
    assert again.head(3).equals(here.head(3))
    assert [m.rows for m in islice(again, 20)] == [m.rows for m in islice(compiled.run(table), 20)]
    assert again.aggregate(n="COUNT(*)").equals(here.aggregate(n="COUNT(*)"))


@pytest.mark.filterwarnings("ignore::ceql.NoMatchWarning")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("query", QUERIES)
def test_pieces_give_what_memory_gives(query: str, order: str, tmp_path: Path) -> None:
    table = TABLE.take(pa.array(ORDERS[order]))
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=GROUP)
    same(QUERIES[query], tmp_path / "e.parquet", table)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("query", ["few groups", "unique", "nulls", "rare", "rare nulls", "rare, measured"])
def test_layouts_give_what_memory_gives(query: str, layout: str, tmp_path: Path) -> None:
    for name, order in list(ORDERS.items())[:2]:
        path = tmp_path / f"{name}.parquet"
        table = TABLE.take(pa.array(order))
        pq.write_table(table, path, row_group_size=GROUP, **LAYOUTS[layout])
        same(QUERIES[query], path, table)


def test_columns_that_must_not_be_null(read: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    fields = [field.with_nullable(field.name not in ("type", "time", "level")) for field in TABLE.schema]
    pq.write_table(TABLE.cast(pa.schema(fields)), path, row_group_size=GROUP)
    same(QUERIES["few groups"], path, TABLE)
    assert read


def test_small_row_groups_are_read_together(read: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE, path, row_group_size=20)
    same(QUERIES["few groups"], path, TABLE)
    assert {first for first, _ in read} == {0, 60, 360, 480, 540}


@pytest.mark.parametrize("query", ["filters", "long", "unique", "keys", "rare", "rare, keys"])
def test_files_that_polars_wrote(query: str, tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pl.DataFrame(TABLE).write_parquet(path, row_group_size=GROUP)
    same(QUERIES[query], path, pq.read_table(path))


@pytest.mark.parametrize("query", ["few groups", "filters", "join"])
def test_folders_of_files(query: str, tmp_path: Path) -> None:
    for k in range(0, N, 150):
        part = TABLE.slice(k, 150)
        if k == 150:  # another type in one file
            part = part.set_column(3, "level", part["level"].cast(pa.int64()))
        (tmp_path / f"day={k}").mkdir()
        pq.write_table(part, tmp_path / f"day={k}" / "e.parquet", row_group_size=GROUP)
    days = pa.array(np.arange(N) // 150 * 150, pa.int32())
    same(QUERIES[query], tmp_path, TABLE.append_column("day", days))
    on_day = (
        QUERIES[query]
        .replace(" WITHIN", " AND b[day = 450] WITHIN")
        .replace("b[day", "c[day" if query == "filters" else "b[day")
    )
    same(on_day, tmp_path, TABLE.append_column("day", days))


def test_row_groups_that_cannot_matter_are_not_read(read: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE, path, row_group_size=GROUP)
    found = ceql.compile(QUERIES["few groups"]).run(path).to_arrow()
    assert len(found)
    # the first piece shows that there are events of a type that the query names; the second is read meanwhile
    assert {first // GROUP for first, _ in read} == {0, 1, 6, 8, 9}


def test_row_groups_are_left_out_by_their_dictionaries(read: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE, path, row_group_size=GROUP)
    # between the least and the greatest name, and no name of any event
    assert (
        ceql.compile("SELECT * WHERE A AS a ; B AS b FILTER a[name = 'xx'] AND b[name = 'yy']").run(path).count() == 0
    )
    # the statistics tell of the fourth and the seventh that they have no type of the query
    assert {first // GROUP for first, columns in read} == {0, 1, 2, 3, 5, 6, 8, 9}
    assert {columns for _, columns in read} == {("type", "name")}


def test_other_columns_are_read_for_matches_alone(read: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE, path, row_group_size=GROUP)
    events = ceql.compile(QUERIES["few groups"]).run(path).events()
    assert {first // GROUP for first, columns in read if "unique" in columns} == set(
        (pc.divide(events["row"], GROUP)).to_pylist()
    )
    assert events["unique"].type == pa.string()


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    for query in ("rare", "filters"):
        pq.write_table(TABLE, path, row_group_size=GROUP)
        matches = ceql.compile(QUERIES[query]).run(path)
        assert len(matches.to_arrow())
        pq.write_table(TABLE.slice(1), path, row_group_size=GROUP)
        with pytest.raises(ceql.DataError, match=r"e\.parquet has changed since"):
            matches.events()


def test_statistics_that_lie_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE.take(pa.array(ORDERS["unsorted"])), path, row_group_size=GROUP)
    monkeypatch.setattr("ceql.io.parquet_scan.ParquetScan.says_sorted", lambda self: True)
    with pytest.raises(ceql.DataError, match="statistics"):
        ceql.compile(QUERIES["contiguous"]).run(path).to_arrow()


def test_a_time_that_is_null_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    times = pc.if_else(pc.equal(TABLE["row"], 400), None, TABLE["time"])
    pq.write_table(TABLE.set_column(7, "time", times), path, row_group_size=GROUP)
    with pytest.raises(ceql.DataError, match=r"event 400 .* has no time"):
        ceql.compile(QUERIES["filters"]).run(path).count()


def test_a_file_that_breaks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE, path, row_group_size=GROUP)
    content = bytearray(path.read_bytes())
    content[200:400] = bytes(200)
    path.write_bytes(bytes(content))
    with pytest.raises(ceql.DataError, match=r"e\.parquet"):
        ceql.compile(QUERIES["filters"]).run(path).to_arrow()


def test_types_that_never_come_are_told(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE, path, row_group_size=GROUP)
    with pytest.warns(ceql.NoMatchWarning, match="'A', 'B', 'C', 'Q'|has '"):
        assert ceql.compile("SELECT * WHERE AA ; BB").run(path).count() == 0
