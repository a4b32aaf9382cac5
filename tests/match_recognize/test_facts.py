"""MATCH_RECOGNIZE gives the rows that other systems' tests say it gives.

The statements, rows and expected rows in `trino.json` are those of TestRowPatternMatching and
TestAggregationsInRowPatternMatching of Trino, as data; those in `flink.json` of MatchRecognizeITCase, for batches and
streams, and of MatchRecognizeTestPrograms of Flink; those in `oracle.json` and `snowflake.json` of the examples in
their manuals. `rows_of` says whether the manual gives the rows too, or they were worked out by the definition.
"""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ceql

FOLDER = Path(__file__).parent
SYSTEMS = "trino", "flink", "oracle", "snowflake"
REFUSED = {
    "testTentativeLabelMatchWithRuntimeEvaluatedAggregationArgument 1": "MATCH_NUMBER() in DEFINE is not evaluated",
    "testForkingThreads 1": "ARRAY_AGG, which is not evaluated while rows are matched",
    "testMultipleAggregationsInDefine 1": "MATCH_NUMBER() in DEFINE is not evaluated",
    "testMultipleAggregationArguments 1": "MATCH_NUMBER() in DEFINE is not evaluated",
    "testMultipleMatchRecognize 1": "one MATCH_RECOGNIZE at a time",
    "aggregates, with a function of the user's": "weightedAvg is not evaluated",
    "the current time": "CURRENTTIMESTAMP is not evaluated",
    "functions of the user's": "prefix is not evaluated",
    "above the mean of the partition, without empty matches": "a window function (OVER) is not evaluated",
    "above the mean of the partition, with unmatched rows": "a window function (OVER) is not evaluated",
    "testSeek 1": "there is no MATCH_RECOGNIZE",
}


MORE = {"logical offsets": [[1, 2, 3, 21, 16]]}
"""Matches of the standard that Flink does not find: its `A+ B` never takes a row for B that could be one of A."""


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
    run = lambda: ceql.match_recognize(case["sql"], tables(case), dialect=case.get("dialect"))  # noqa: E731
    if case["title"] in REFUSED:
        with pytest.raises(ceql.QueryError, match=re.escape(REFUSED[case["title"]])):
            run()
    elif "error" in case:
        with pytest.raises(ceql.DataError, match="AFTER MATCH SKIP"):
            run()
    else:
        expected = [*case["rows"], *MORE.get(case["title"], ())]
        assert sorted(rows_of(run()), key=repr) == sorted(expected, key=repr)


def test_few_are_refused() -> None:
    for name, least in (("trino", 168), ("flink", 24), ("oracle", 18), ("snowflake", 16)):
        assert sum(case.values[0]["title"] not in REFUSED for case in cases(name)) >= least
