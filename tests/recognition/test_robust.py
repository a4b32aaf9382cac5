"""Odd input: each is right, or a clear error."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceql


def positions(query: str, events: Any, **options: Any) -> list[tuple[int, ...]]:
    return [m.events for m in ceql.match(query, events, **options)]


def one(condition: str, values: pa.Array) -> list[int]:
    """The rows whose value satisfies a condition on the attribute `a`."""
    table = pa.table({"type": ["A"] * len(values), "a": values})
    return [p[0] for p in positions(f"SELECT * WHERE A FILTER A[{condition}]", table)]


class TestShapes:
    def test_no_events(self) -> None:
        matches = ceql.match("SELECT * WHERE A AS x ; B", pa.table({"type": pa.array([], pa.string())}))
        assert matches.to_arrow().num_rows == 0
        assert matches.to_arrow().schema.names == ["start", "end", "events", "A", "x", "B"]
        assert matches.count() == 0
        assert matches.events().num_rows == 0

    def test_no_dicts(self) -> None:
        assert positions("SELECT * FROM S WHERE S", []) == []

    def test_one_event(self) -> None:
        assert positions("SELECT * WHERE A", [{"type": "A"}]) == [(0,)]

    def test_types_the_query_never_names(self) -> None:
        assert positions("SELECT * WHERE A : B", [{"type": t} for t in "AXAB"]) == [(2, 3)]

    def test_a_stream_without_types_beside_one_with_types(self) -> None:
        streams = {
            "Alarm": pa.table({"time": [1, 5], "id": [7, 8]}),
            "S": pa.table({"type": ["A", None, "Alarm"], "time": [0, 3, 6], "k": [7, 7, 8]}),
        }
        query = "SELECT * FROM Alarm, S WHERE A ; Alarm"
        assert positions(query, streams) == [(0, 1), (0, 3), (0, 4)]
        assert positions(query + " PARTITION BY [Alarm.id, A.k]", streams) == [(0, 1)]
        recognizer = ceql.compile(query).recognizer()
        found = [m.events for m in recognizer.feed(streams)] + [m.events for m in recognizer.finish()]
        assert found == [(0, 1), (0, 3), (0, 4)]

    def test_a_null_type_is_no_type(self) -> None:
        assert positions("SELECT * WHERE A ; B", pa.table({"type": ["A", None, "B"]})) == [(0, 2)]

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, lambda d: pl.DataFrame(d).lazy()])
    def test_frames(self, frame: Any) -> None:
        data = {"type": ["A", "B", "B"], "v": [1.0, 2.0, 0.5], "name": ["x", "y", "z"]}
        matches = ceql.match("SELECT * WHERE A AS a ; B AS b FILTER b[v > 1 AND name = 'y']", frame(data))
        assert [m.events for m in matches] == [(0, 1)]
        assert matches.to_pandas()["b"].tolist() == [1]
        assert matches.to_polars()["b"].to_list() == [1]

    def test_a_column_missing_in_a_later_batch_is_null(self) -> None:
        batches = [
            pa.RecordBatch.from_pydict({"type": ["A"], "v": [1]}),
            pa.RecordBatch.from_pydict({"type": ["A"]}),
            pa.RecordBatch.from_pydict({"v": [1], "type": ["A"]}),
        ]
        assert positions("SELECT * WHERE A FILTER A[v = 1]", batches) == [(0,), (2,)]
        assert positions("SELECT * WHERE A FILTER A[v IS NULL]", batches) == [(1,)]
        recognizer = ceql.compile("SELECT * WHERE A FILTER A[v = 1]").recognizer()
        assert [m.events for batch in batches for m in recognizer.feed(batch)] == [(0,), (2,)]

    def test_dictionary_batches_with_their_own_dictionaries(self) -> None:
        schema = pa.schema({"type": pa.dictionary(pa.int8(), pa.string())})
        batches = [
            pa.RecordBatch.from_arrays([pa.DictionaryArray.from_arrays(pa.array(i, pa.int8()), d)], schema=schema)
            for i, d in [([0, 1], ["A", "B"]), ([1, None, 0], ["B", "A"])]
        ]
        table = pa.Table.from_batches(batches)
        assert positions("SELECT * WHERE A ; B", table) == [(0, 1), (2, 4), (0, 4)]


class TestNulls:
    def test_all_null(self) -> None:
        for values in (pa.nulls(3), pa.nulls(3, pa.int64()), pa.nulls(3, pa.string()), pa.nulls(3, pa.float64())):
            literal = "'x'" if pa.types.is_string(values.type) else "1"
            assert one(f"a = {literal} OR a != {literal} OR NOT a = {literal}", values) == []
            assert one("a IS NULL", values) == [0, 1, 2]

    def test_three_valued_logic(self) -> None:
        values = pa.array([None, 1, 2])
        assert one("a = 1 OR a IS NULL", values) == [0, 1]
        assert one("NOT (a = 1)", values) == [2]
        assert one("a NOT IN {1, NULL}", values) == []
        assert one("a IN {1, NULL}", values) == [1]
        assert one("a = NULL", values) == []

    def test_a_null_time_is_an_error(self) -> None:
        with pytest.raises(ceql.DataError, match="event 1 of the stream has no time"):
            positions("SELECT * WHERE A", pa.table({"type": ["A", "A"], "time": [1, None]}))

    def test_null_and_nan_keys_belong_nowhere(self) -> None:
        table = pa.table({"type": ["A", "A", "B", "B"], "k": [None, float("nan"), None, float("nan")]})
        assert positions("SELECT * WHERE A ; B PARTITION BY k", table) == []


class TestNumbers:
    def test_nan_and_infinities(self) -> None:
        values = pa.array([float("nan"), float("inf"), float("-inf"), 0.0, -0.0])
        assert one("a = a", values) == [1, 2, 3, 4]
        assert one("a != 0", values) == [1, 2]
        assert one("NOT a > 0", values) == [2, 3, 4]
        assert one("a < 1e308", values) == [2, 3, 4]
        assert one("a IS NULL", values) == []
        assert one("a * 0 = 0", values) == [3, 4]

    def test_beyond_two_to_the_53(self) -> None:
        big = 2**53
        values = pa.array([big, big + 1, big + 2])
        assert one(f"a = {big + 1}", values) == [1]
        assert one(f"a > {big}", values) == [1, 2]
        assert one(f"a + 1 = {big + 2}", values) == [1]
        assert one(f"a < {10**30}", values) == [0, 1, 2]
        assert one(f"a > {-(10**30)}", values) == [0, 1, 2]
        assert one(f"a = {big + 1}", pa.array([2.0**53, 2.0**53 + 2])) == []
        assert one(f"a = {2**64 - 1}", pa.array([2**64 - 1, 1], pa.uint64())) == [0]

    def test_fractions_against_whole_numbers(self) -> None:
        values = pa.array([1, 2, 3], pa.int8())
        assert one("a > 1.5", values) == [1, 2]
        assert one("a >= 1.5 AND a <= 2.5", values) == [1]
        assert one("a = 1.5", values) == []
        assert one("a != 1.5", values) == [0, 1, 2]
        assert one("a < 300", values) == [0, 1, 2]

    def test_decimals(self) -> None:
        values = pa.array([Decimal("1.10"), Decimal("1.11"), Decimal("-3.00"), None], pa.decimal128(10, 2))
        assert one("a = 1.1", values) == [0]
        assert one("a > 1.105", values) == [1]
        assert one("a IN {-3, 1.11}", values) == [1, 2]
        huge = pa.array([Decimal(f"{10**30}"), Decimal(f"{10**30 + 1}")], pa.decimal128(38, 0))
        assert one(f"a > {10**30}", huge) == [1]
        assert one(f"a = {10**30}", huge) == [0]

    def test_overflow_is_an_error_and_not_a_wrap(self) -> None:
        with pytest.raises(ceql.DataError, match="overflow"):
            one("a * a > 0", pa.array([2**40]))

    def test_division(self) -> None:
        values = pa.array([7, -7, 0])
        assert one("a / 2 = 3.5", values) == [0]
        assert one("a % 3 = -1", values) == [1]
        assert one("1 / a > 0 OR 1 / a < 0", values) == [0, 1]
        assert one("a % 0 IS NULL", values) == [0, 1, 2]

    @given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), st.data())
    def test_every_integer_compares_exactly(self, values: list[int], data: st.DataObject) -> None:
        limit = data.draw(st.sampled_from(values) | st.integers(-(2**64), 2**64))
        array = pa.array(values, pa.int64())
        assert one(f"a <= {limit}", array) == [i for i, v in enumerate(values) if v <= limit]
        assert one(f"a = {limit}", array) == [i for i, v in enumerate(values) if v == limit]

    @given(st.lists(st.floats(), min_size=1, max_size=8), st.integers(-(2**70), 2**70))
    def test_floats_compare_exactly_with_whole_numbers(self, values: list[float], limit: int) -> None:
        array = pa.array(values, pa.float64(), from_pandas=False)
        assert one(f"a <= {limit}", array) == [i for i, v in enumerate(values) if v <= limit]
        assert one(f"a > {limit}", array) == [i for i, v in enumerate(values) if v > limit]


class TestTimes:
    MOMENT = dt.datetime(2026, 3, 29, 12, 0)

    def test_timestamps_without_and_with_zone(self) -> None:
        for unit in ("s", "ms", "us", "ns"):
            values = pa.array([self.MOMENT, self.MOMENT + dt.timedelta(seconds=1)], pa.timestamp(unit))
            assert one("a > '2026-03-29T12:00:00'", values) == [1]
            assert one("a >= '2026-03-29 12:00:00.5'", values) == [1]
            assert one("a > '2026-03-29'", values) == [0, 1]
        berlin = pa.array([self.MOMENT], pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC"))
        berlin = berlin.cast(pa.timestamp("ms", "Europe/Berlin"))
        assert one("a = '2026-03-29T14:00:00'", berlin) == [0]
        assert one("a = '2026-03-29T12:00:00+00:00'", berlin) == [0]
        with pytest.raises(ceql.SchemaError, match="has no time zone"):
            one("a = '2026-03-29T12:00:00+00:00'", pa.array([self.MOMENT], pa.timestamp("ms")))

    def test_dates_times_and_booleans(self) -> None:
        dates = pa.array([dt.date(2026, 1, 1), dt.date(2026, 1, 2)])
        assert one("a = '2026-01-02'", dates) == [1]
        assert one("a < '2026-01-01T12:00:00'", dates) == [0]
        clock = pa.array([dt.time(8, 0), dt.time(20, 30)])
        assert one("a > '20:00:00'", clock) == [1]
        assert one("a = TRUE", pa.array([True, False, None])) == [0]
        assert one("a != TRUE", pa.array([True, False, None])) == [1]

    def test_windows_on_every_kind_of_time(self) -> None:
        query = "SELECT * WHERE A ; B WITHIN 2 DAYS"
        days = [dt.date(2026, 1, d) for d in (1, 3, 4)]
        for kind in (pa.date32(), pa.date64(), pa.timestamp("ns", "UTC")):
            table = pa.table({"type": ["A", "B", "B"], "time": pa.array(days).cast(kind)})
            assert positions(query, table) == [(0, 1)], kind
        seconds = pa.table({"type": ["A", "B", "B"], "time": [0.5, 172_800.5, 172_800.75]})
        assert positions(query, seconds, time_unit="s") == [(0, 1)]
        with pytest.raises(ceql.SchemaError, match="time_unit"):
            positions(query, seconds)
        with pytest.raises(ceql.SchemaError, match="needs a time column"):
            positions(query, [{"type": "A"}])

    def test_duplicate_times_keep_their_order(self) -> None:
        table = pa.table({"type": list("ABAB"), "time": [5, 5, 5, 5]})
        assert positions("SELECT * WHERE A : B WITHIN 1 SECOND", table, time_unit="s") == [(0, 1), (2, 3)]

    def test_late_events_are_counted_and_handed_over(self) -> None:
        table = pa.table({"type": list("AXB"), "time": [10, 5, 11]})
        matches = ceql.match("SELECT * WHERE A : B", table.to_reader())
        with pytest.warns(ceql.LateEventsWarning, match="1 event"):
            assert [m.events for m in matches] == [(0, 1)]
        assert matches.late().to_pylist() == [{"type": "X", "time": 5}]
        with pytest.warns(ceql.LateEventsWarning):
            assert ceql.match("SELECT * WHERE A : B", table.to_reader()).events()["time"].to_pylist() == [10, 11]
        assert positions("SELECT * WHERE X ; A ; B", table.to_reader(), lateness=5) == [(0, 1, 2)]


class TestText:
    @given(st.lists(st.text(), min_size=1, max_size=12), st.data())
    def test_any_text(self, values: list[str], data: st.DataObject) -> None:
        values = [v.encode("utf-8", "replace").decode() for v in values]
        wanted = data.draw(st.sampled_from(values))
        quoted = "'" + wanted.replace("'", "''") + "'"
        expected = [i for i, v in enumerate(values) if v == wanted]
        for kind in (pa.string(), pa.large_string(), pa.string_view()):
            assert one(f"a = {quoted}", pa.array(values, kind)) == expected
        assert one(f"a = {quoted}", pa.array(values).dictionary_encode()) == expected
        assert one(f"a <= {quoted}", pa.array(values)) == [
            i for i, v in enumerate(values) if v.encode() <= wanted.encode()
        ]

    def test_texts_that_share_their_beginning(self) -> None:
        values = pa.array(["customer-0001", "customer-0002", "customer-000", "customer-00011", "", "custome"])
        assert one("a IN {'customer-0002', 'customer-0001', ''}", values) == [0, 1, 4]
        assert one("a = 'customer-0003'", values) == []

    def test_sliced_columns(self) -> None:
        values = pa.array([None, "skip", "MSFT", None, "INTC", "MSFT", "x" * 50])
        for begin in range(len(values)):
            part = values.slice(begin)
            assert one("a = 'MSFT'", part) == [i for i, v in enumerate(part.to_pylist()) if v == "MSFT"]

    def test_patterns(self) -> None:
        values = pa.array(["a%b", "a\nb", "axxb", "ab", "日本語", None])
        assert one("a LIKE 'a%b'", values) == [0, 1, 2, 3]
        assert one("a LIKE 'a_b'", values) == [0, 1]
        assert one("a LIKE '__語'", values) == [4]
        assert one("a NOT LIKE 'a%'", values) == [4]
        assert one("a RLIKE 'x+'", values) == [2]
        assert one("a RLIKE '^a.*b$'", pa.array(["ab\n", "ab"])) == [1]

    def test_a_regular_expression_cannot_run_away(self) -> None:
        assert one("a RLIKE '(a+)+$'", pa.array(["a" * 5000 + "!"])) == []  # with backtracking, it would not end
        with pytest.raises(ceql.QueryError, match="linear time"):
            one(r"a RLIKE '(a)\1'", pa.array(["aa"]))


class TestErrors:
    TABLE = pa.table({"type": ["A"], "price": [1.0], "name": ["x"]})

    def test_an_unknown_attribute(self) -> None:
        with pytest.raises(ceql.SchemaError, match="no column 'prise'") as error:
            positions("SELECT * WHERE A FILTER A[prise > 1]", self.TABLE)
        assert error.value.suggestion == "Did you mean 'price'?"
        assert (error.value.line, error.value.column) == (1, 27)

    @pytest.mark.parametrize(
        "condition", ["price = 'x'", "name > 5", "name LIKE 'x' AND price LIKE 'x'", "price = TRUE"]
    )
    def test_kinds_that_do_not_compare(self, condition: str) -> None:
        with pytest.raises(ceql.SchemaError, match=r"column '(price|name)' \((double|string)\)"):
            positions(f"SELECT * WHERE A FILTER A[{condition}]", self.TABLE)

    def test_an_unknown_attribute_in_select(self) -> None:
        with pytest.raises(ceql.SchemaError, match="no column 'prise'"):
            positions("SELECT A[prise] WHERE A", self.TABLE)

    def test_arithmetic_on_text(self) -> None:
        with pytest.raises(ceql.SchemaError, match="needs numbers, not column 'name'"):
            positions("SELECT * WHERE A FILTER A[name + 1 > 2]", self.TABLE)

    def test_nested_columns(self) -> None:
        table = pa.table({"type": ["A"], "a": pa.array([[1]])})
        with pytest.raises(ceql.SchemaError, match="cannot be compared"):
            positions("SELECT * WHERE A FILTER A[a = 1]", table)
        assert positions("SELECT * WHERE A FILTER A[a IS NOT NULL]", table) == [(0,)]

    def test_no_types(self) -> None:
        with pytest.raises(ceql.SchemaError, match="pass type="):
            positions("SELECT * WHERE A", pa.table({"kind": ["A"]}))
        with pytest.raises(ceql.SchemaError, match="must be text"):
            positions("SELECT * WHERE A", pa.table({"type": [1]}))

    def test_a_window_attribute_that_falls_back_after_memory_was_given_up(self) -> None:
        count = 200_000
        values = np.concatenate([np.arange(count), [0]])
        table = pa.table({"type": ["A"] * count + ["B"], "v": values})
        with pytest.raises(ceql.DataError, match="went back"):
            ceql.match("SELECT * WHERE A ; B WITHIN 10 [v]", table).to_arrow()


class TestSize:
    def test_two_hundred_predicates(self) -> None:
        condition = " AND ".join(f"A[v != {k}]" for k in range(200))
        events = [{"type": "A", "v": v} for v in (5, 500, 199)]
        assert positions(f"SELECT * WHERE A FILTER {condition}", events) == [(1,)]

    def test_two_hundred_columns(self) -> None:
        names = [f"c{k}" for k in range(200)]
        condition = " AND ".join(f"A[{n} > 0]" for n in names)
        rows = [{"type": "A", **dict.fromkeys(names, 1)}, {"type": "A", **dict.fromkeys(names, 1), "c150": 0}]
        assert positions(f"SELECT * WHERE A FILTER {condition}", rows * 3) == [(0,), (2,), (4,)]

    def test_two_hundred_choices(self) -> None:
        formula = " OR ".join(f"(A AS x{k} FILTER x{k}[v = {k}])" for k in range(200))
        matches = list(ceql.match(f"SELECT * WHERE {formula}", [{"type": "A", "v": 7}, {"type": "A", "v": 999}]))
        assert [m.bindings["x7"] for m in matches] == [(0,)]

    def test_nesting_fifty_deep(self) -> None:
        formula = "A"
        for k in range(50):
            formula = f"({formula} ; B)" if k % 2 else f"({formula} OR C)+"
        query = ceql.compile(f"SELECT ANY * WHERE {formula}")
        text = "A" + "B" * 30
        assert len(list(query.run([{"type": t} for t in text]))) >= 1

    def test_a_long_sequence(self) -> None:
        query = " ; ".join(["A"] * 300)
        assert ceql.match(f"SELECT * WHERE {query}", [{"type": "A"}] * 301).count() == 301


def test_an_interrupt_ends_a_long_run() -> None:
    program = (
        "import pyarrow as pa, ceql\n"
        "t = pa.table({'type': ['A'] * 2000 + ['B']})\n"
        "m = ceql.match('SELECT * WHERE A+ ; B', t)\n"
        "try:\n"
        "    for k, _ in enumerate(m.to_batches()):\n"
        "        if k == 0: print('running', flush=True)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert output == "stopped\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("d > -100000000000000000000", [False, True, True]),
        ("d < 100000000000000000000", [True, True, False]),
        ("d < 1e400", [True, True, True]),
        ("d >= -1e400", [True, True, True]),
        ("d = 1000000000000000000000", [False, False, True]),
    ],
)
def test_decimals_against_literals_beyond_64_bits(condition, holds):
    values = [Decimal(-(10**21)), Decimal("0.50"), Decimal(10**21)]
    table = pa.table({"type": ["A"] * 3, "d": pa.array(values, pa.decimal128(38, 2))})
    found = ceql.match(f"SELECT * WHERE A AS x FILTER x[{condition}]", table)
    assert [m.start for m in found] == [k for k, held in enumerate(holds) if held]
