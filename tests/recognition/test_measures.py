"""Measures: the columns that SELECT computes, on every way to run a query."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceql
import generators
import oracle
import paths
from absent_cases import absent_cases
from ceql.syntax import tree
from ceql.syntax.printer import print_query
from oracle_measures import measure, same

T = datetime(2026, 1, 1)
EVENTS = pa.table(
    {
        "type": ["A", "B", "B", "C", "B", "C"],
        "time": [T + timedelta(seconds=s) for s in (0, 10, 20, 25, 30, 40)],
        "p": [1, 2, 3, 4, None, 6],
        "s": ["a", "b", "c", "d", "e", "f"],
        "d": [Decimal("1.50")] * 6,
    }
)


def rows(text: str, events: Any = EVENTS, **options: Any) -> list[dict[str, Any]]:
    return ceql.match(text, events, **options).to_arrow().to_pylist()


def test_measures_are_typed_columns_after_the_variables() -> None:
    found = ceql.match(
        "SELECT a, a.p, COUNT(b) AS n, SUM(b.p), AVG(b.p) - a.p AS d, FIRST(b.s), MAX(b.d), DURATION "
        "WHERE A AS a ; B+ AS b ; C AS c",
        EVENTS,
    ).to_arrow()
    assert found.column_names[5:] == ["a", "a.p", "n", "SUM(b.p)", "d", "FIRST(b.s)", "MAX(b.d)", "DURATION"]
    types = [pa.int64(), pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.decimal128(3, 2), pa.duration("us")]
    assert found.schema.types[6:] == types
    assert found.slice(0, 1).to_pylist()[0] | {"start": 0} == {
        "start": 0, "end": 3, "start_time": T, "end_time": T + timedelta(seconds=25), "events": [0, 1, 2], "a": 0,
        "a.p": 1, "n": 2, "SUM(b.p)": 5, "d": 1.5, "FIRST(b.s)": "b", "MAX(b.d)": Decimal("1.50"),
        "DURATION": timedelta(seconds=25),
    }  # fmt: skip


def test_aggregates_skip_null_and_nothing_is_null() -> None:
    text = (
        "SELECT COUNT(b) AS n, COUNT(b.p) AS m, SUM(b.p) AS s, AVG(b.p) AS a, LAST(b.p) AS l, UPPER(c.s) AS u "
        "WHERE A ; (B AS b OR C AS c)"
    )
    found = [tuple(row[name] for name in "nmsalu") for row in rows(text)]
    assert found == [
        (1, 1, 2, 2.0, 2, None),
        (1, 1, 3, 3.0, 3, None),
        (0, 0, None, None, None, "D"),
        (1, 0, None, None, None, None),
        (0, 0, None, None, None, "F"),
    ]


def test_matches_are_the_same_when_the_variables_of_measures_agree() -> None:
    """Three events of B in between make one match for each B that is measured, not one for each pair."""
    text = "SELECT b.p WHERE A AS a ; B AS b ; C+ AS c WITHIN 30 SECONDS"
    assert sorted(row["b.p"] for row in rows(text)) == [2, 3]
    assert [row["COUNT(c)"] for row in rows(text.replace("b.p", "COUNT(c)"))] == [1]


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("SELECT b.p WHERE A ; B+ AS b", "'b' may be bound to several events", "FIRST(b.p), LAST(b.p)"),
        ("SELECT bb.p WHERE A ; B+ AS b", "nothing in WHERE binds 'bb'", "Did you mean 'b'?"),
        ("SELECT p + 1 WHERE A", "'p' does not say whose", "x.p"),
        ("SELECT SUM(a.p + b.p) WHERE A AS a ; B AS b", "one variable, not of", "apart"),
        ("SELECT SUM(COUNT(a)) WHERE A AS a", "SUM cannot take this", ""),
        ("SELECT SUM(a) WHERE A AS a", "SUM needs an attribute of 'a'", "SUM(a.price)"),
        ("SELECT AVG(a.p, 2) WHERE A AS a", "AVG takes 1 argument", ""),
        ("SELECT MEAN(a.p) WHERE A AS a", "no function 'MEAN'", ""),
        ("SELECT DISTINCT SUM(b.p) WHERE A ; B+ AS b", "DISTINCT leaves no variables", "Leave DISTINCT out"),
        ("SELECT a AS x WHERE A AS a", "keeps its name", "A AS x after WHERE"),
        ("SELECT SUM(b.s) WHERE B AS b", "SUM needs numbers", ""),
        ("SELECT a.q WHERE A AS a", "no column 'q'", ""),
    ],
)
def test_a_measure_that_makes_no_sense_is_refused(text: str, message: str, advice: str) -> None:
    with pytest.raises(ceql.CeqlError) as caught:
        rows(text)
    assert message in str(caught.value)
    assert advice in str(caught.value)


def test_the_times_of_a_match_need_times() -> None:
    with pytest.raises(ceql.SchemaError, match="DURATION needs a time column"):
        rows("SELECT DURATION WHERE A ; B", [{"type": "A"}, {"type": "B"}])
    plain = [{"type": "A", "time": 5}, {"type": "B", "time": 8}]
    assert rows("SELECT DURATION, end_time WHERE A ; B", plain)[0]["DURATION"] == 3


def test_a_variable_may_be_called_like_a_measure() -> None:
    found = rows("SELECT duration, COUNT(duration) WHERE A AS duration", EVENTS)
    assert (found[0]["duration"], found[0]["COUNT(duration)"]) == (0, 1)


def test_a_sum_that_may_not_fit_is_an_error() -> None:
    events = [{"type": "A", "v": 2**62}, {"type": "A", "v": 2**62}]
    with pytest.raises(ceql.DataError, match="SUM"):
        rows("SELECT SUM(A.v) WHERE A : A", events)


def test_matches_and_wide_tables_show_measures() -> None:
    matches = ceql.match("SELECT a, COUNT(b) AS n WHERE A AS a ; B+ AS b", EVENTS)
    assert next(iter(matches)).measures == {"n": 1}
    assert next(iter(matches)).bindings == {"a": (0,)}
    assert matches.to_arrow("wide").column("n").to_pylist() == matches.to_arrow().column("n").to_pylist()
    assert matches.events().column("variables").to_pylist()[:2] == [["a"], []]
    assert repr(matches).split("\n")[0].split() == ["match", "time", "n", "a"]


def measured(found: ceql.Matches) -> list[tuple[Any, ...]]:
    names = [field.name for field in found.schema if (field.metadata or {}).get(b"ceql.measure")]
    return [(m.start, m.end, m.events, *(m.measures[name] for name in names)) for m in found]


def check(case: generators.Generated, data: st.DataObject) -> None:
    """On every way to run a query, the measures are those of the oracle."""
    case = paths.in_merged_order(case)
    query = ceql.compile(print_query(case.query))
    options: dict[str, Any] = {"time_unit": "ms"}
    whole = measured(query.run(paths.inputs(query, case.events), **options))
    every = oracle.candidates(case.query, case.events)
    wanted = [
        (m.start, m.end, m.events, *(
            measure(one.expression, case.events, dict(m.bindings), m.start, m.end) for one in case.query.measures
        ))
        for m in every
    ]  # fmt: skip
    if case.query.limit is None and case.query.strategy is not tree.Strategy.ANY:
        assert len(whole) == len(wanted)
    left = list(wanted)
    for row in whole:
        fits = [other for other in left if other[:3] == row[:3] and all(map(same, row[3:], other[3:]))]
        assert fits, f"{row} is not among {left}"
        left.remove(fits[0])
    if len(query.plan.query.streams) < 2:
        recognizer, pieces = query.recognizer(**options), []
        table = paths.table(case.events)
        for k in range(0, len(case.events), 2):
            pieces += measured(recognizer.feed(table.slice(k, 2)))
            if data.draw(st.booleans()):
                recognizer = query.restore(recognizer.snapshot())
        pieces += measured(recognizer.finish())
        assert len(pieces) == len(whole)
        assert all(a[:3] == b[:3] and all(map(same, a[3:], b[3:])) for a, b in zip(pieces, whole, strict=True))


@pytest.mark.parametrize("named", [False, True], ids=["one stream", "two streams"])
@pytest.mark.parametrize(
    "cases",
    [
        generators.uncorrelated_cases, generators.correlated_cases, generators.conditioned_cases,
        generators.aggregated_cases, absent_cases,
    ],
)  # fmt: skip
def test_random_measures(cases: generators.Cases, named: bool) -> None:
    @settings(max_examples=20 if named else 40)
    @given(generators.measured_cases(cases(named)), st.data())
    def run(case: generators.Generated, data: st.DataObject) -> None:
        check(case, data)

    run()
