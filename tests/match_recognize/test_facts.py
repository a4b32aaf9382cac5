"""MATCH_RECOGNIZE gives the rows that other systems' tests say it gives.

The statements, rows and expected rows in `trino.json` are those of TestRowPatternMatching and
TestAggregationsInRowPatternMatching of Trino, as data; those in `flink.json` of MatchRecognizeITCase, for batches and
streams, and of MatchRecognizeTestPrograms of Flink; those in `oracle.json` and `snowflake.json` of the examples in
their manuals. `rows_of` says whether the manual gives the rows too, or they were worked out by the definition.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ceql

FOLDER = Path(__file__).parent
SYSTEMS = "trino", "flink", "oracle", "snowflake"
REFUSED = {
    "testMultipleAggregationArguments 1": "MAX_BY, which is not evaluated while rows are matched",
    "testMultipleMatchRecognize 1": "one MATCH_RECOGNIZE at a time",
    "testSeek 1": "there is no MATCH_RECOGNIZE",
}


FUNCTIONS: dict[str, Any] = {
    "weightedAvg": "(value, weight) -> SUM(value * weight) / SUM(weight)",
    "countFrom": "value -> 4 + SUM(value)",
    "prefix": lambda names: pc.binary_join_element_wise("PREF", names, ":"),
}
"""What Flink's tests have as classes."""
NOW = datetime(2023, 12, 1, 12, 0, 1, tzinfo=UTC)
BY_THE_STANDARD: dict[str, list[list[Any]]] = {
    "logical offsets": [[6, 7, 8, 33, 33], [1, 2, 3, 21, 16]],
    "aggregates, with a function of the user's": [[1, 5, 1, 1, 2, 3, 3.4, 9]],
}
"""Where Flink's tests have other rows than its manual, which says that `+` and `?` take as many rows as they can: its
`A+ B` never takes a row for B that could be one of A, and of `C D? E` it reports the match that ends first."""


def cases(name: str) -> list[Any]:
    read = json.loads((FOLDER / f"{name}.json").read_text())
    return [pytest.param(case, id=f"{name}: {case['title']}") for case in read]


def tables(case: dict[str, Any]) -> dict[str, pa.Table]:
    def value(table: dict[str, Any], column: str, value: Any) -> Any:
        if column in table.get("dates", ()):
            return date.fromisoformat(value)
        return datetime.fromisoformat(value) if column in table.get("times", ()) else value

    return {
        name: pa.table(
            {
                column: [value(table, column, row[k]) for row in table["rows"]]
                for k, column in enumerate(table["columns"])
            }
        )
        for name, table in case["tables"].items()
    }


def rows_of(table: pa.Table) -> list[list[Any]]:
    columns = [table.column(k).to_pylist() for k in range(table.num_columns)]
    return [
        [each.isoformat() if isinstance(each, date) else each for each in row] for row in zip(*columns, strict=True)
    ]


@pytest.mark.parametrize("case", [case for name in SYSTEMS for case in cases(name)])
def test_the_rows_are_those_of_the_system(case: dict[str, Any]) -> None:
    run = lambda: ceql.match_recognize(  # noqa: E731
        case["sql"], tables(case), dialect=case.get("dialect"), functions=FUNCTIONS, now=NOW
    )
    if case["title"] in REFUSED:
        with pytest.raises(ceql.QueryError, match=re.escape(REFUSED[case["title"]])):
            run()
    elif "error" in case:
        with pytest.raises(ceql.DataError, match="AFTER MATCH SKIP"):
            run()
    else:
        expected = BY_THE_STANDARD.get(case["title"], case["rows"])
        assert sorted(rows_of(run()), key=repr) == sorted(expected, key=repr)


def test_few_are_refused() -> None:
    for name, least in (("trino", 171), ("flink", 25), ("oracle", 18), ("snowflake", 18)):
        others = {*REFUSED, *BY_THE_STANDARD}
        assert sum(case.values[0]["title"] not in others for case in cases(name)) >= least
