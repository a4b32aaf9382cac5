"""Windows over the least and greatest numbers there are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ceql

UNSIGNED, SIGNED = pa.uint64(), pa.int64()


def found(query: str, type: pa.DataType, kinds: str, values: list[Any], column: str = "time") -> list[tuple[int, ...]]:
    table = pa.table({"type": list(kinds), column: pa.array(values, type)})
    matches = ceql.match(query, table, time_unit="s" if column == "time" else None)
    events = [match.events for match in matches]
    assert ceql.match(query, table, time_unit="s" if column == "time" else None).count() == len(events)
    recognizer = ceql.compile(query).recognizer(time_unit="s" if column == "time" else None)
    assert [m.events for batch in table.to_batches(max_chunksize=1) for m in recognizer.feed(batch)] == events
    return events


@pytest.mark.parametrize("condition", ["", " FILTER A.type != B.type"])
def test_unsigned_times_from_zero_on(condition: str) -> None:
    query = f"SELECT * WHERE (A ; B{condition}) WITHIN 1 SECOND"
    assert found(query, UNSIGNED, "ABB", [0, 1, 2]) == [(0, 1)]
    assert found(query, UNSIGNED, "AABB", [0, 1, 2, 3]) == [(1, 2)]
    assert found(query, UNSIGNED, "AB", [2**64 - 3, 2**64 - 2]) == [(0, 1)]


def test_times_of_matches_are_as_they_were() -> None:
    table = pa.table({"type": ["A", "B"], "time": pa.array([0, 1], UNSIGNED)})
    matches = ceql.match("SELECT * WHERE A ; B WITHIN 1 SECOND", table, time_unit="s").to_arrow()
    assert matches.select(["start_time", "end_time"]).to_pylist() == [{"start_time": 0, "end_time": 1}]


def test_an_unsigned_attribute_is_counted_as_it_is_enumerated() -> None:
    assert len(found("SELECT * WHERE C+ WITHIN 6 [u]", UNSIGNED, "CCCC", [1, 2, 3, 8], "u")) == 11
    assert len(found("SELECT * WHERE C+ WITHIN 6 [u]", UNSIGNED, "CCCC", [0, 2, 3, 6], "u")) == 15
    assert len(found("SELECT * WHERE C+ WITHIN 6 [u]", UNSIGNED, "CCCC", [0, 2, 3, 7], "u")) == 11
    assert len(found("SELECT * WHERE C+ WITHIN 6 [u]", SIGNED, "CCCC", [-(2**63) + 1, -5, 3, 8], "u")) == 5


def test_a_signed_attribute_near_the_least_number() -> None:
    least = -(2**63) + 1
    assert found("SELECT * WHERE A ; B WITHIN 2 [u]", SIGNED, "ABB", [least, least + 2, least + 3], "u") == [(0, 1)]


@pytest.mark.parametrize(
    ("type", "value"), [(SIGNED, -(2**63)), (SIGNED, 2**63 - 1), (UNSIGNED, 2**64 - 1), (pa.timestamp("ns"), -(2**63))]
)
def test_numbers_from_which_no_window_can_be_measured(type: pa.DataType, value: int) -> None:
    with pytest.raises(ceql.DataError, match="no window can be measured"):
        found("SELECT * WHERE A ; B WITHIN 2 [u]", type, "A", [value], "u")


@pytest.mark.parametrize(("type", "value"), [(SIGNED, -(2**63)), (UNSIGNED, 2**64 - 1)])
def test_times_from_which_no_window_can_be_measured(type: pa.DataType, value: int) -> None:
    with pytest.raises(ceql.DataError, match="no window can be measured"):
        found("SELECT * WHERE A ; B WITHIN 2 SECONDS", type, "A", [value])
    assert found("SELECT * WHERE A ; B WITHIN 2 EVENTS", type, "AB", [value, value]) == [(0, 1)]
