"""Many tests of one column are one test of it, which says what each of them would."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceql
from ceql.predicates.bind import InputSchema, bind_predicate
from ceql.predicates.ranges import common, contains, ranges, united
from ceql.syntax.parser import parse

OPS = ["=", "!=", "<", "<=", ">", ">="]
numbers = st.integers(-4, 4)
floats = st.one_of(numbers.map(float), st.sampled_from([math.inf, -math.inf]))
INTEGERS = st.builds(lambda op, n: ranges(op, n, pa.int64()), st.sampled_from(OPS), numbers)
FLOATS = st.builds(
    lambda op, n: ranges(op, n, pa.float64()), st.sampled_from(OPS), st.integers(-4, 4) | st.just(10**400)
)


@given(st.lists(INTEGERS, min_size=1, max_size=5), numbers)
def test_united_ranges_hold_what_one_of_them_holds(tests, value):
    assert contains(united(tests), value) == any(contains(test, value) for test in tests)


@given(st.lists(FLOATS, min_size=1, max_size=5), floats)
def test_united_ranges_of_floats_know_infinity(tests, value):
    assert contains(united(tests), value) == any(contains(test, value) for test in tests)


@given(FLOATS, FLOATS, floats)
def test_common_ranges_hold_what_both_hold(one, other, value):
    assert contains(common(one, other), value) == (contains(one, value) and contains(other, value))


def bound(predicate: str):
    (bracket,) = [parse(f"SELECT * WHERE A FILTER A[{predicate}]").formula.condition]
    schema = pa.schema([("v", pa.int64()), ("s", pa.string()), ("f", pa.float64())])
    return bind_predicate(bracket.predicate, InputSchema(schema, False, None, ("",)), "")


@pytest.mark.parametrize(
    "predicate",
    [
        "v IN {1, 5, 7, 20..30}",
        "v = 1 OR v = 5 OR v > 30",
        "s IN {'a', 'b', 'c'}",
        "s = 'a' OR s = 'b' OR s = 'c'",
        "f IN {1, 2.5}",
    ],
)
def test_values_of_one_column_are_one_or_two_tests(predicate):
    (column,) = bound(predicate).columns
    assert len(column.tests) <= 2


VALUES = [None, -1, 0, 1, 2, 3, 4, 5]
WORDS = [None, "", "a", "b", "c", "d"]
EVENTS = pa.table(
    {
        "type": ["A"] * 48,
        "v": [v for v in VALUES for _ in WORDS],
        "f": pa.array([v for v in VALUES for _ in WORDS], pa.float64()),
        "s": WORDS * 8,
    }
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("v IN {1, 3}", "v = 1 OR NOT v != 3"),
        ("v IN {1, 3, NULL}", "v = 1 OR v = 3 OR v = NULL"),
        ("v NOT IN {1, 3..4}", "v != 1 AND (v < 3 OR v > 4)"),
        ("v NOT IN {1, NULL}", "v != 1 AND v != NULL"),
        ("v IN {..0, 2..3, 5..}", "v <= 0 OR (v >= 2 AND v <= 3) OR v >= 5"),
        ("v IN {3..1}", "v > 3 AND v < 1"),
        ("f IN {1, 2.5, 3..4}", "f = 1 OR f = 2.5 OR (f >= 3 AND f <= 4)"),
        ("NOT (v = 1 OR s = 'a' OR v = 2 OR s = 'b')", "v != 1 AND s != 'a' AND v != 2 AND s != 'b'"),
        ("s IN {'a', 'b'} OR s > 'c' OR 1 = v", "s = 'a' OR s = 'b' OR s > 'c' OR v = 1"),
        ("s NOT IN {'a', NULL}", "s != 'a' AND s != NULL"),
        ("v = 0.5 OR v = 1.5", "v != v"),
    ],
)
def test_two_ways_to_say_the_same(one, other):
    found = [
        ceql.match(f"SELECT * WHERE A FILTER A[{p}]", EVENTS).to_arrow()["start"].to_pylist() for p in (one, other)
    ]
    assert found[0] == found[1]


def test_thousands_of_literals():
    wanted = ", ".join(map(str, range(0, 6000, 2)))
    events = pa.table({"type": ["A"] * 6000, "v": range(6000)})
    assert ceql.match(f"SELECT * WHERE A FILTER A[v IN {{{wanted}}}]", events).count() == 3000


def test_an_invalid_pattern_is_found_when_the_query_is_compiled():
    with pytest.raises(ceql.QueryError, match="not a regular expression") as error:
        ceql.compile("SELECT * WHERE A AS x ; B AS y FILTER x[s LIKE '('] AND y[v > 1 AND NOT s RLIKE '(']")
    assert error.value.column == 73


def test_times_of_different_zones_are_compared_by_the_moment():
    events = pa.table(
        {
            "type": ["A", "A", "B"],
            "x": pa.array([0, 7200, 0], pa.timestamp("s", "Europe/Berlin")),
            "y": pa.array([1, 7200_000, 5], pa.timestamp("ms", "America/New_York")),
        }
    )
    for condition, found in (("x < y", [0]), ("x = y", [1]), ("y > '1970-01-01T02:00:00+00:00'", []), ("x >= y", [1])):
        assert ceql.match(f"SELECT * WHERE A FILTER A[{condition}]", events).to_arrow()["start"].to_pylist() == found
    assert ceql.match("SELECT * WHERE A AS a ; B AS b FILTER a.x < b.y", events).to_arrow()["start"].to_pylist() == [0]


def test_calendar_intervals_are_not_compared():
    events = pa.table({"type": ["A"], "x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(ceql.SchemaError, match="holds calendar intervals, which cannot be compared"):
        ceql.match("SELECT * WHERE A FILTER A[x < '2024-01-01']", events)


@pytest.mark.parametrize("many", [400, 600], ids=["few", "many"])
def test_many_texts(many):
    literals = [f"{'long ' * (k % 5)}{k}" for k in range(many)]
    words = pa.array([None, "", "long", *literals, "x"] * 2)
    wanted = ", ".join(f"'{literal}'" for literal in literals)
    for column in (
        words,
        words.cast(pa.large_string()),
        words.dictionary_encode(),
        words.slice(3),
        words.cast(pa.string_view()),
    ):
        events = pa.table({"type": ["A"] * len(column), "s": column})
        inside = set(literals)
        found = ceql.match(f"SELECT * WHERE A FILTER A[s IN {{{wanted}}}]", events).to_arrow()["start"].to_pylist()
        assert found == [k for k, word in enumerate(column.to_pylist()) if word in inside]
        found = ceql.match(f"SELECT * WHERE A FILTER A[s NOT IN {{{wanted}}}]", events).to_arrow()["start"].to_pylist()
        assert found == [k for k, word in enumerate(column.to_pylist()) if word is not None and word not in inside]


def test_ten_thousand_alternatives_of_one_variable_are_one_test():
    condition = " OR ".join(f"a.v = {k}" for k in range(10_000))
    query = ceql.compile(f"SELECT * WHERE A AS a FILTER {condition}")
    assert query.run([{"type": "A", "v": v} for v in (-1, 0, 9_999, 10_000)]).count() == 2
