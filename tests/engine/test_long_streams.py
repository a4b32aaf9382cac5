"""Streams long enough for memory to be given back many times: nothing changes, whatever the sizes of the buffers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
from checks import use_tiny_buffers

QUERIES = [
    "SELECT * WHERE A ; B ; C WITHIN 12 EVENTS",
    "SELECT * WHERE A ; B+ ; C WITHIN 9 EVENTS",
    "SELECT * WHERE A ; B : C WITHIN 20 MILLISECONDS",
    "SELECT * WHERE (A OR B)+ ; C WITHIN 5 MILLISECONDS",
    "SELECT * WHERE A ; B ; C PARTITION BY k WITHIN 100 MILLISECONDS",
    "SELECT * WHERE A : B ; C PARTITION BY k WITHIN 10 EVENTS",
    "SELECT * WHERE A ; B+ ; C PARTITION BY k WITHIN 6 [w]",
    "SELECT MAX * WHERE A+ ; B WITHIN 15 EVENTS",
    "SELECT NEXT * WHERE A ; B+ ; C PARTITION BY k WITHIN 60 MILLISECONDS",
    "SELECT LAST x WHERE A AS x ; B ; C WITHIN 25 EVENTS CONSUME BY ANY",
    "SELECT STRICT * WHERE A ; B+ WITHIN 50 EVENTS",
    "SELECT DISTINCT * WHERE A ALL B ALL C WITHIN 6 EVENTS",
    "SELECT ANY * WHERE A ; B ; C WITHIN 500 MILLISECONDS",
    "SELECT * WHERE A ; B ; C WITHIN 200 EVENTS LIMIT 3",
    "SELECT * WHERE A ; B ; C PARTITION BY k CONSUME BY PARTITION",
    "SELECT NEXT * WHERE A ; B ; C CONSUME BY ANY",
    # events compared with each other
    "SELECT * WHERE (A ; B ; C PARTITION BY k) WITHIN 100 MILLISECONDS",
    "SELECT * WHERE (A ; B+ ; C PARTITION BY k) WITHIN 90 EVENTS",
    "SELECT * WHERE A ; (B+ PARTITION BY k) ; C WITHIN 12 EVENTS",
    "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.k = y.k AND y.u = z.u WITHIN 200 EVENTS",
    "SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k AND x.u < y.u WITHIN 30 [w]",
    "SELECT * WHERE A AS x ALL B AS y ALL C AS z FILTER x.k = y.k AND y.k = z.k WITHIN 60 MILLISECONDS",
    "SELECT * WHERE A AS x ALL B AS y ALL C AS z FILTER x.k = y.k AND y.k = z.k AND y.u = z.u WITHIN 90 EVENTS",
    "SELECT * WHERE (A AS x ; B AS y) ALL C+ AS z FILTER y.k = z.k AND x.k = y.k WITHIN 70 EVENTS",
    "SELECT * WHERE A ; B+ AS b FILTER b[k != PREV.k] WITHIN 8 EVENTS",
    "SELECT * WHERE A ; A+ AS a FILTER a[k = PREV.k AND u != PREV.u] WITHIN 90 EVENTS",
    "SELECT * WHERE (A+ ; A+ PARTITION BY k) WITHIN 90 EVENTS",
    "SELECT NEXT * WHERE A AS x ; B+ AS y ; C AS z FILTER x.k = y.k AND z.k = x.k WITHIN 90 EVENTS",
    "SELECT * WHERE (A AS x ; B AS y FILTER x.u = y.u) ; C AS z WITHIN 20 MILLISECONDS CONSUME BY ANY",
    "SELECT ANY * WHERE A AS x ALL B AS y FILTER x.u = y.u PARTITION BY k",
]
IN_ORDER = [
    "SELECT * WHERE A AS x ; B AS y FILTER x.k < y.k WITHIN 60 EVENTS",
    "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.k < y.k AND y.k > z.k + 5 WITHIN 40 MILLISECONDS",
    "SELECT * WHERE A ; A+ AS b FILTER b[k > PREV.k] WITHIN 50 EVENTS",
    "SELECT * WHERE A ; A+ AS b FILTER b[k > PREV.k] PARTITION BY u",
    "SELECT * WHERE A AS x ; B AS y FILTER x.k < y.k WITHIN 90 MILLISECONDS LIMIT 3",
    "SELECT * WHERE A AS x ; B AS y FILTER x.k < y.k WITHIN 90 MILLISECONDS CONSUME BY ANY",
    "SELECT * WHERE (A ; B PARTITION BY u) AS x ; C AS y FILTER x.k < y.k WITHIN 45 EVENTS",
    "SELECT * WHERE A AS x ; B AS y FILTER x.k < y.k PARTITION BY u",
    "SELECT * WHERE A AS x ALL B AS y FILTER x.k = y.k AND x.u <= y.u WITHIN 30 EVENTS",
    # the events between are free
    "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.k = z.k WITHIN 60 EVENTS",
    "SELECT * WHERE A AS x ; B ; C AS z FILTER x.k < z.k - 15 WITHIN 30 MILLISECONDS",
    "SELECT * WHERE A AS x ; B ; C AS z FILTER x.k < z.k AND x.u = z.u WITHIN 40 EVENTS",
    "SELECT * WHERE A AS x ; B ; C AS z FILTER x.k = z.k WITHIN 60 EVENTS CONSUME BY ANY",
    "SELECT * WHERE A AS x ; B ; C AS z FILTER x.k < z.k PARTITION BY u WITHIN 60 EVENTS LIMIT 2",
    "SELECT * WHERE A AS x ; B ; C AS z ; A ; B AS y FILTER x.k = z.k AND z.k = y.k WITHIN 60 EVENTS",
]
"""Conditions that are found in order, or tested."""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    count = 4_000
    random = np.random.default_rng(7)
    return pa.table(
        {
            "type": np.array(list("ABCD"))[random.integers(0, 4, count)],
            "k": random.integers(0, 25, count),
            "u": np.arange(count) // 20,  # always new
            "w": np.cumsum(random.integers(0, 2, count)),
            "time": np.cumsum(random.integers(0, 3, count)),
        }
    )


def run(query: str, table: pa.Table, **options: Any) -> pa.Table:
    return ceql.match(query, table, time_unit="ms", **options).to_arrow().combine_chunks()


@pytest.mark.parametrize("query", QUERIES)
def test_sizes_do_not_matter(query: str, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(query, table)
    assert whole.num_rows > 0
    assert ceql.match(query, table, time_unit="ms").count() == whole.num_rows
    use_tiny_buffers(monkeypatch.setattr)
    assert run(query, table, batch_rows=97).equals(whole)


@pytest.mark.parametrize("query", IN_ORDER)
def test_sizes_do_not_matter_in_order(query: str, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of sorted blocks decide the order of matches with the same start and end, and nothing else."""
    columns = ["end", "start", "events"]
    whole = run(query, table).select(columns)
    assert whole.num_rows > 0
    assert ceql.match(query, table, time_unit="ms").count() == whole.num_rows
    use_tiny_buffers(monkeypatch.setattr)
    tiny = run(query, table, batch_rows=97).select(columns)
    assert tiny.select(columns[:2]).equals(whole.select(columns[:2]))
    assert sorted(tiny["events"].to_pylist()) == sorted(whole["events"].to_pylist())


def test_a_window_in_time_is_exact_on_a_long_stream(table: pa.Table) -> None:
    kinds = np.array(table.column("type").to_pylist())
    times = table.column("time").to_numpy()
    expected = []
    for end in np.flatnonzero(kinds == "C"):
        low = np.searchsorted(times, times[end] - 20)
        for middle in range(low, end):
            if kinds[middle] == "B":
                expected += [(start, middle, end) for start in range(low, middle) if kinds[start] == "A"]
    got = run("SELECT * WHERE A ; B ; C WITHIN 20 MILLISECONDS", table)
    assert sorted(map(tuple, got.column("events").to_pylist())) == sorted(expected)


@pytest.mark.parametrize("tiny", [False, True])
def test_free_events_in_a_window_are_exact_on_a_long_stream(
    tiny: bool, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A B takes part in no condition: all of those between are in a match each."""
    if tiny:
        use_tiny_buffers(monkeypatch.setattr)
    kinds, keys = np.array(table.column("type").to_pylist()), table.column("k").to_numpy()
    expected = []
    for end in np.flatnonzero(kinds == "C").tolist():
        starts = [n for n in range(max(0, end - 50), end) if kinds[n] == "A" and keys[n] % 5 == keys[end] % 5]
        for start in starts:
            if keys[start] < keys[end] - 3:
                expected += [(start, n, end) for n in range(start + 1, end) if kinds[n] == "B"]
    query = "SELECT * WHERE A AS x ; B ; C AS z FILTER x.k % 5 = z.k % 5 AND x.k < z.k - 3 WITHIN 50 EVENTS"
    got = run(query, table, batch_rows=97 if tiny else 100_000)
    assert sorted(map(tuple, got.column("events").to_pylist())) == sorted(expected)
    assert ceql.match(query, table).count() == len(expected)


def test_a_window_in_events_of_a_substream_is_exact_on_a_long_stream(table: pa.Table) -> None:
    kinds, keys = np.array(table.column("type").to_pylist()), table.column("k").to_numpy()
    expected = []
    for key in range(25):
        mine = np.flatnonzero(keys == key)
        for j in range(len(mine)):
            if kinds[mine[j]] == "B":
                expected += [(mine[i], mine[j]) for i in range(max(0, j - 4), j) if kinds[mine[i]] == "A"]
    got = run("SELECT * WHERE A ; B PARTITION BY k WITHIN 4 EVENTS", table)
    assert sorted(map(tuple, got.column("events").to_pylist())) == sorted(expected)


@pytest.mark.parametrize("tiny", [False, True], ids=["", "tiny"])
@pytest.mark.parametrize("limit", [2, 10, 100])
@pytest.mark.parametrize("formula", ["A ; B ; C ; D", "A ; B+ ; C", "(A AS x ; B AS y FILTER x.u = y.u) ; C ; C"])
def test_a_limit_keeps_the_first_of_many_matches(formula, limit, tiny, table, monkeypatch):
    """More matches end at an event than the buffers hold, or than are counted before they are listed."""
    events = table.slice(0, 40 if "+" in formula else 120)
    everything = ceql.match(f"SELECT * WHERE {formula}", events).to_arrow().select(["start", "end", "events"])
    if tiny:
        use_tiny_buffers(monkeypatch.setattr)
    found = ceql.match(f"SELECT * WHERE {formula} LIMIT {limit}", events).to_arrow().select(["start", "end", "events"])
    ends = everything["end"].to_numpy()
    rank = np.arange(len(ends)) - np.searchsorted(ends, ends)
    assert np.bincount(ends).max() > 2 * limit
    wanted = everything.filter(pa.array(rank < limit))
    assert found["end"].equals(wanted["end"])
    assert found["start"].equals(wanted["start"])
    matches = set(map(str, everything["events"].to_pylist()))
    listed = list(map(str, found["events"].to_pylist()))
    assert len(set(listed)) == len(listed)
    assert matches.issuperset(listed)


@pytest.mark.parametrize("tiny", [False, True])
@pytest.mark.parametrize("query", IN_ORDER)
def test_feeds_are_counted(query: str, table: pa.Table, tiny: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all, some or none of the feeds' matches are counted, and the others listed or dropped."""
    ends = run(query, table)["end"].to_numpy()
    expected = [int(((ends >= first) & (ends < first + 97)).sum()) for first in range(0, len(table), 97)]
    if tiny:
        use_tiny_buffers(monkeypatch.setattr)
    for counts, lists in ((1, 0), (2, 1), (3, 2)):
        recognizer = ceql.compile(query).recognizer(time_unit="ms")
        for number, batch in enumerate(table.to_batches(max_chunksize=97)):
            matches = recognizer.feed(batch)
            if number % counts == 0:
                assert matches.count() == expected[number]
            elif number % counts == lists:
                assert matches.to_arrow().num_rows == expected[number]


@pytest.mark.parametrize("window", [6, 58, 61, 70, 130])
def test_more_matches_at_a_position_than_a_word_can_count(window: int) -> None:
    """Of n events that rise, all 2^n - 1 choices of the earlier ones are followed by the last."""
    rising = pa.table({"type": ["A"] * 300, "v": range(300)})
    query = ceql.compile(f"SELECT * WHERE A ; A+ AS b FILTER b[v > PREV.v] WITHIN {window} EVENTS")
    assert query.run(rising).count() == sum(2 ** min(window, n) - 1 for n in range(300))
    limited = ceql.compile(f"{query.text} LIMIT {2**30}")
    assert limited.run(rising).count() == sum(min(2 ** min(window, n) - 1, 2**30) for n in range(300))


def _as_text(numbers: np.ndarray) -> pa.Array:
    return pa.array([f"{number:09}" for number in numbers.tolist()])


def _as_decimals(numbers: np.ndarray) -> pa.Array:
    return pa.array([Decimal(number) / 8 for number in numbers.tolist()], pa.decimal128(30, 3))


RANKED = {"text": _as_text, "decimals": _as_decimals, "uint64": lambda n: pa.array(n.astype(np.uint64) + 2**63)}
"""What is compared by the rank of its values."""


@pytest.fixture(scope="module")
def always_new() -> pa.Table:
    """Values that are compared by rank, most of which come once, and numbers in the same order."""
    random = np.random.default_rng(11)
    numbers = random.integers(0, 10**9, 6_000)
    columns = {name: make(numbers) for name, make in RANKED.items()}
    return pa.table({"type": np.array(list("AAB"))[random.integers(0, 3, 6_000)], "number": numbers, **columns})


@pytest.mark.parametrize("column", RANKED)
@pytest.mark.parametrize("formula", ["A AS a ; B AS b FILTER a.{0} < b.{0}", "A ; B+ AS b FILTER b[{0} > PREV.{0}]"])
@pytest.mark.parametrize("restored", [False, True])
def test_values_in_order_are_forgotten(
    restored: bool, formula: str, column: str, always_new: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted blocks have values of rows that the window has left: their numbers must not go to other values yet."""
    use_tiny_buffers(monkeypatch.setattr)
    window = 150 if "+" not in formula else 12
    found = []
    for name in ("number", column):
        query = ceql.compile(f"SELECT * WHERE {formula.format(name)} WITHIN {window} EVENTS")
        recognizer = query.recognizer()
        counts = []
        for batch in always_new.to_batches(max_chunksize=500):
            counts.append(recognizer.feed(batch).count())
            if restored:
                recognizer = query.restore(recognizer.snapshot())
        found.append(counts)
    assert sum(found[0]) > 10_000
    assert found[0] == found[1]
