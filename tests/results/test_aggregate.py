"""`aggregate`: totals over all matches are those of enumerating them, on every way to run a query."""

from __future__ import annotations

import functools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceql
import checks
import generators
import paths
from absent_cases import absent_cases
from ceql.engine.common.summing import Ended, Summing
from ceql.engine.groups.machine import GroupMachine
from ceql.engine.states.machine import StateMachine
from oracle_totals import alike, totals
from totals_checks import check_totals

T = datetime(2026, 1, 1)
EVENTS = pa.table(
    {
        "type": ["A", "B", "B", "C", "B", "C"],
        "time": [T + timedelta(seconds=s) for s in (0, 10, 20, 25, 30, 40)],
        "p": [1, 2, 3, 4, None, 6],
        "f": [0.5, 0.25, 0.5, None, 1.0, 2.0],
        "s": ["a", "b", "c", "d", "e", "f"],
        "d": [Decimal("1.50")] * 6,
        "k": [1, 1, 2, 1, 1, 2],
    }
)
SOME = "SELECT * WHERE A AS a ; B+ AS b ; C AS c"


def rows(text: str, events: Any = EVENTS, by: Any = (), every: Any = None, **columns: str) -> list[dict[str, Any]]:
    return ceql.match(text, events).aggregate(by=by, every=every, **columns).to_pylist()


def test_each_event_of_each_match_counts() -> None:
    """Of the ten matches, the one B of p = 2 is in 1 + 2 and 4, as is that of 3; those of NULL add nothing."""
    table = ceql.match(SOME, EVENTS).aggregate(
        n="COUNT(*)", events="COUNT(b)", known="COUNT(b.p)", total="SUM(b.p)", mean="AVG(b.p)", least="MIN(b.p)",
        most="MAX(b.s)", half="SUM(b.p * 0.5)", late="MAX(c.time)", d="SUM(b.d)", dm="MAX(b.d)",
    )  # fmt: skip
    assert table.to_pylist() == [
        {
            "n": 10, "events": 16, "known": 12, "total": 30, "mean": 2.5, "least": 2, "most": "e", "half": 15.0,
            "late": T + timedelta(seconds=40), "d": Decimal("24.00"), "dm": Decimal("1.50"),
        }
    ]  # fmt: skip
    assert table.schema.types == [
        *[pa.int64()] * 4, pa.float64(), pa.int64(), pa.string(), pa.float64(), pa.timestamp("us"),
        pa.decimal128(13, 2), pa.decimal128(3, 2),
    ]  # fmt: skip


def test_groups_by_keys_and_time() -> None:
    text = "SELECT * WHERE B AS b ; C AS c PARTITION BY k"
    assert rows(text, by="k", n="COUNT(*)", p="SUM(b.p)") == [{"k": 1, "n": 1, "p": 2}, {"k": 2, "n": 1, "p": 3}]
    found = rows(text, by=["k"], every="30 seconds", n="COUNT(*)")
    assert found == [{"k": 1, "bucket": T, "n": 1}, {"k": 2, "bucket": T + timedelta(seconds=30), "n": 1}]
    assert rows(text, every=timedelta(minutes=1), n="COUNT(*)") == [{"bucket": T, "n": 2}]


def test_time_is_divided_from_1970_on_in_utc() -> None:
    zoned = EVENTS.set_column(1, "time", EVENTS["time"].cast(pa.timestamp("us", "+02:00")))
    (row,) = rows("SELECT * WHERE A", zoned, every="1 day", n="COUNT(*)")
    assert row["bucket"].astimezone(UTC) == T.replace(tzinfo=UTC)
    early = pa.table({"type": ["A", "A"], "time": pa.array([-1, 1], pa.int64())})
    assert rows("SELECT * WHERE A", early, every=10, n="COUNT(*)") == [{"bucket": -10, "n": 1}, {"bucket": 0, "n": 1}]
    floats = pa.table({"type": ["A", "A"], "time": [0.4, 0.6]})
    assert rows("SELECT * WHERE A", floats, every=0.5, n="COUNT(*)")[1] == {"bucket": 0.5, "n": 1}
    dates = pa.table({"type": ["A"], "time": pa.array([3], pa.date32())})
    assert rows("SELECT * WHERE A", dates, every="2 days", n="COUNT(*)")[0]["bucket"] == datetime(1970, 1, 3).date()


def test_nothing_matched() -> None:
    nothing = "SELECT * WHERE C AS a ; A AS b PARTITION BY k"
    asked = {"n": "COUNT(*)", "m": "COUNT(b)", "s": "SUM(b.p)", "a": "AVG(b.p)", "least": "MIN(b.s)"}
    assert rows(nothing, **asked) == [{"n": 0, "m": 0, "s": None, "a": None, "least": None}]
    table = ceql.match(nothing, EVENTS).aggregate(asked, by="k", every="1 minute")
    assert table.num_rows == 0
    assert table.schema.types == [
        pa.int64(), pa.timestamp("us"), pa.int64(), pa.int64(), pa.int64(), pa.float64(), pa.string()
    ]  # fmt: skip


def test_matches_are_those_that_the_query_gives() -> None:
    """Strategies, LIMIT, CONSUME, projections, DISTINCT and NOT at the end say which matches there are."""
    assert rows("SELECT ANY b WHERE B AS b ; C", n="COUNT(*)", p="SUM(b.p)") == [{"n": 2, "p": 3}]
    assert rows(f"{SOME} LIMIT 1", n="COUNT(*)") == [{"n": 2}]
    assert rows(f"{SOME} CONSUME BY ANY", n="COUNT(*)", p="SUM(b.p)") == [{"n": 3, "p": 10}]
    assert rows("SELECT b WHERE A ; B AS b ; C", n="COUNT(*)", p="SUM(b.p)") == [{"n": 5, "p": 10}]
    assert rows("SELECT DISTINCT * WHERE B AS b ; C OR B AS d ; C", n="COUNT(*)") == [{"n": 5}]
    assert rows("SELECT b WHERE B AS b ; NOT C WITHIN 7 SECONDS", n="COUNT(*)", p="SUM(b.p)") == [{"n": 2, "p": 2}]
    assert rows("SELECT COUNT(b) AS m WHERE A ; B+ AS b ; C", n="COUNT(*)", p="SUM(b.p)") == [{"n": 10, "p": 30}]


def test_whole_numbers_are_exact() -> None:
    events = pa.table({"type": ["A"] * 70 + ["B"], "time": list(range(71)), "v": [2**62] * 70 + [-1]})
    table = ceql.match("SELECT * WHERE A AS a ; A AS c ; B AS b", events).aggregate(
        total="SUM(a.v)", mean="AVG(a.v)", least="MIN(b.v)"
    )
    assert table.to_pylist() == [{"total": Decimal(2415 * 2**62), "mean": float(2**62), "least": -1}]
    assert table.schema.types == [pa.decimal128(38, 0), pa.float64(), pa.int64()]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"n": "SUM(bb.p)"}, "nothing in WHERE binds 'bb'"),
        ({"n": "SUM(b.q)"}, "the events have no column 'q'"),
        ({"n": "SUMM(b.p)"}, "Did you mean 'SUM'?"),
        ({"n": "MEAN(b.p)"}, "Did you mean 'AVG'?"),
        ({"n": "SUM(b.s)"}, "SUM needs numbers, not a text"),
        ({"n": "SUM(*)"}, "SUM needs an attribute, not *"),
        ({"n": "FIRST(b.p)"}, "FIRST is of one match"),
        ({"n": "b.p"}, "this is no aggregate over all matches"),
        ({"n": "SUM(b.p) + 1"}, "calculate afterwards"),
        ({"n": "SUM(b.p"}, "This '(' is never closed"),
        ({"n": "SUM(A.p)"}, "SELECT does not name 'A'"),
        ({"n": ""}, "n= is an aggregate"),
        ({}, "aggregate needs columns"),
        ({"n": "COUNT(*)", "by": "kk"}, "Did you mean 'k'?"),
        ({"n": "COUNT(*)", "by": "p"}, "The keys of PARTITION BY are: k."),
        ({"n": "COUNT(*)", "every": "1 minuet"}, "not a duration"),
        ({"n": "COUNT(*)", "every": "3 events"}, "not a duration"),
        ({"n": "COUNT(*)", "every": 5}, "give every= as text"),
        ({"n": "COUNT(*)", "every": "0 seconds"}, "longer than 0 seconds"),
        ({"n": "COUNT(*)", "every": True}, "every= is a duration"),
        ({"k": "COUNT(*)", "by": "k"}, "two columns would be called 'k'"),
    ],
)
def test_errors(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ceql.CeqlError) as error:
        ceql.match("SELECT b WHERE A ; B+ AS b PARTITION BY k", EVENTS).aggregate(**asked)
    assert message in str(error.value)


def test_where_an_error_is() -> None:
    with pytest.raises(ceql.QueryError) as error:
        ceql.match(SOME, EVENTS).aggregate(n="SUM(b.pp)")
    assert (error.value.column, error.value.suggestion) == (5, "Did you mean 'p'?")
    with pytest.raises(ceql.QueryError, match="DISTINCT leaves no variables"):
        ceql.match("SELECT DISTINCT * WHERE A AS a", EVENTS).aggregate(n="COUNT(a)")
    with pytest.raises(ceql.SchemaError, match="needs a time column"):
        ceql.match("SELECT * WHERE A", [{"type": "A"}]).aggregate(n="COUNT(*)", every="1 minute")


def test_an_input_that_is_read_once() -> None:
    matches = ceql.match(SOME, (batch for batch in EVENTS.to_batches()))
    assert matches.head(1).num_rows == 1
    assert matches.aggregate(n="COUNT(*)", p="SUM(b.p)").to_pylist() == [{"n": 10, "p": 30}]
    with pytest.raises(ceql.DataError, match="already read"):
        matches.aggregate(n="COUNT(*)")


def test_dicts_whose_types_widen() -> None:
    events = [{"type": "A", "v": 1}, {"type": "A", "v": 2}, {"type": "A", "v": 0.5}, {"type": "A", "w": 1}]
    asked = {"s": "SUM(a.v)", "m": "MIN(a.v)", "x": "MAX(a.v)", "c": "COUNT(a.v)", "w": "SUM(a.w)"}
    found = ceql.compile("SELECT a WHERE A AS a").run(iter(events), batch_rows=1).aggregate(asked).to_pylist()
    assert found == [{"s": 3.5, "m": 0.5, "x": 2.0, "c": 3, "w": 1}]


def test_a_recogniser() -> None:
    recognizer = ceql.compile(SOME).recognizer()
    assert recognizer.feed(EVENTS.slice(0, 4)).aggregate(n="COUNT(*)", p="SUM(b.p)").to_pylist() == [{"n": 3, "p": 10}]
    held = recognizer.feed(EVENTS.slice(4))
    assert recognizer.finish().aggregate(n="COUNT(*)").to_pylist() == [{"n": 0}]
    assert held.aggregate(n="COUNT(*)", p="SUM(b.p)").to_pylist() == [{"n": 7, "p": 20}]
    without = ceql.compile(SOME).recognizer(keep_rows=False).feed(EVENTS)
    with pytest.raises(ceql.SchemaError, match="keeps no rows"):
        without.aggregate(p="SUM(b.p)")
    assert without.aggregate(n="COUNT(b)").to_pylist() == [{"n": 16}]


# --- random queries ---


KINDS = {
    "uncorrelated": generators.uncorrelated_cases,
    "correlated": generators.correlated_cases,
    "conditioned": generators.conditioned_cases,
    "absent": lambda _: absent_cases(),
}


@pytest.fixture
def on_the_graph(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Buffers that hold one event: all matches of more are added up over the graph, which is counted."""
    added: list[int] = []
    for kind in (StateMachine, GroupMachine):
        small = functools.partialmethod(kind.__init__, matches=1, positions=1)
        monkeypatch.setattr(kind, "__init__", small)
    whole = Summing.add

    def add(self: Summing, nodes: Any, used: int, renumbered: int, ended: list[Ended], *rest: Any) -> None:
        added.append(len(ended))
        whole(self, nodes, used, renumbered, ended, *rest)

    monkeypatch.setattr(Summing, "add", add)
    return added


@pytest.mark.parametrize("kind", KINDS)
def test_random_queries(kind: str) -> None:
    @settings(max_examples=20)
    @given(KINDS[kind](False), st.data())
    def run(case: generators.Generated, data: st.DataObject) -> None:
        check_totals(case, data)

    run()


@pytest.mark.parametrize("kind", ["uncorrelated", "correlated"])
def test_random_queries_on_the_graph(on_the_graph: list[int], kind: str) -> None:
    @settings(max_examples=40)
    @given(KINDS[kind](False), st.data())
    def run(case: generators.Generated, data: st.DataObject) -> None:
        # all variables of all matches, so that nothing keeps the graph from telling
        query = replace(case.query, items=None, distinct=False, strategy=None, limit=None)
        with checks.suppress_falling_attributes(True, case):
            check_totals(case._replace(query=query), data)

    run()
    assert on_the_graph


@pytest.mark.parametrize("kind", ["uncorrelated", "conditioned"])
def test_random_queries_in_shards(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    checks.use_shards(monkeypatch.setattr)

    @settings(max_examples=20)
    @given(KINDS[kind](False), st.data())
    def run(case: generators.Generated, data: st.DataObject) -> None:
        with checks.suppress_falling_attributes(True, case):
            check_totals(case, data, threads=data.draw(st.sampled_from([1, 2])))

    run()


@pytest.mark.parametrize(
    "formula",
    [
        "A AS a ; B AS b FILTER a.v < b.v",
        "A+ AS a ; B AS b FILTER a.v < b.v WITHIN 9 EVENTS",
        "A AS a ; A AS c ; B AS b FILTER a.v < b.v AND c.k = b.k AND c.v > a.v WITHIN 30 EVENTS",
        "A AS a ALL B AS b FILTER a.k = b.k WITHIN 30 EVENTS",
        "A+ AS a ; B AS b FILTER SUM(a.v) > b.v AND AVG(a.k) >= 1 WITHIN 9 EVENTS",
        "A AS a ; NOT A AS n ; B AS b FILTER n.v > b.v WITHIN 30 EVENTS",
    ],
)
def test_conditions_between_events_on_the_graph(on_the_graph: list[int], formula: str) -> None:
    events = [{"type": "AAB"[n * 5 % 7 % 3], "v": n * 37 % 11, "k": n % 3, "time": n} for n in range(60)]
    asked = {"n": "COUNT(*)", "s": "SUM(a.v)", "m": "MIN(a.v)", "x": "MAX(b.v)", "c": "COUNT(a)", "f": "SUM(a.v * 0.5)"}
    matches = ceql.match(f"SELECT * WHERE {formula}", pa.Table.from_pylist(events), time_unit="ms")
    found = matches.aggregate(asked, every=20).to_pylist()
    assert alike(found, totals(asked, [], 20, events, paths.to_oracle(matches)))
    assert sum(row["n"] for row in found) == matches.count() > 0
    assert on_the_graph


def test_rules_are_added_up_over_products(on_the_graph: list[int]) -> None:
    """Each T goes with each S of its value: the sums of one side count as often as the other has events."""
    query = ceql.rule("Q(x) <- T(x, _), S(x, _), R(x)", attributes={"T": ["a", "v"], "S": ["a", "v"], "R": ["a"]})
    kinds, values = "TTTSSTSR", [1, 2, 3, 10, 20, 4, 30, 0]
    events = [{"type": t, "a": k % 2, "v": v} for k in (0, 1) for t, v in zip(kinds, values, strict=True)]
    asked = {"n": "COUNT(*)", "t": "SUM(T.v)", "s": "SUM(S.v)", "m": "MIN(S.v)", "x": "MAX(T.v)"}
    found = query.run(events, time=None).aggregate(asked)
    assert found.to_pylist() == [{"n": 24, "t": 60, "s": 480, "m": 10, "x": 4}]
    assert on_the_graph


def test_numbers_beyond_floats() -> None:
    """2^1100 - 1 series of payments, each payment of 3 in 2^1099 of them: too many digits for a decimal."""
    events = pa.table({"type": ["A"] * 1100 + ["B"], "v": [3] * 1099 + [-4, 0], "f": [0.5] * 1101})
    found = ceql.match("SELECT * WHERE A+ AS a ; B", events, time=None).aggregate(
        n="COUNT(*)", total="SUM(a.v)", mean="AVG(a.v)", least="MIN(a.v)", f="SUM(a.f)"
    )
    (row,) = found.to_pylist()
    assert int(row["n"]) == 2**1100 - 1
    assert int(row["total"]) == 2**1099 * (3 * 1099 - 4)
    assert row["mean"] == (3 * 1099 - 4) / 1100
    assert (row["least"], row["f"]) == (-4, float("inf"))
    assert found.schema.types[:2] == [pa.string(), pa.string()]


def test_sums_over_many_batches_and_collections() -> None:
    """Of the eleven A before each B, all series are inside the window, in batches of any size."""
    kinds, values = ["A"] * 11 + ["B"], list(range(-6, 6))
    events = pa.table({"type": kinds * 400, "v": values * 400})
    for batch_rows in (7, 1 << 17):
        found = ceql.compile("SELECT * WHERE A+ AS a ; B WITHIN 11 EVENTS").run(
            events, time=None, batch_rows=batch_rows
        )
        (row,) = found.aggregate(n="COUNT(*)", total="SUM(a.v)", most="MAX(a.v)").to_pylist()
        assert row == {"n": 400 * 2047, "total": 400 * 1024 * sum(values[:11]), "most": 4}
