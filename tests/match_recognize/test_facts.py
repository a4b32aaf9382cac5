"""MATCH_RECOGNIZE gives the rows that other systems' tests say it gives.

The statements, rows and expected rows in `trino.json` are those of TestRowPatternMatching and
TestAggregationsInRowPatternMatching of Trino, as data.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ceql

FOLDER = Path(__file__).parent
REFUSED = {
    "testTentativeLabelMatchWithRuntimeEvaluatedAggregationArgument 1": "MATCH_NUMBER() in DEFINE is not evaluated",
    "testForkingThreads 1": "ARRAY_AGG, which is not evaluated while rows are matched",
    "testMultipleAggregationsInDefine 1": "MATCH_NUMBER() in DEFINE is not evaluated",
    "testMultipleAggregationArguments 1": "MATCH_NUMBER() in DEFINE is not evaluated",
    "testPartitioningAndOrdering 2": "the rows come from a table, by its name",
    "testMultipleMatchRecognize 1": "one MATCH_RECOGNIZE at a time",
    "testProperties 1": "around MATCH_RECOGNIZE there is WITH",
    "testSeek 1": "there is no MATCH_RECOGNIZE",
}


def cases(name: str) -> list[Any]:
    read = json.loads((FOLDER / f"{name}.json").read_text())
    return [pytest.param(case, id=f"{name}: {case['title']}") for case in read]


def tables(case: dict[str, Any]) -> dict[str, pa.Table]:
    return {
        name: pa.table({column: [row[k] for row in table["rows"]] for k, column in enumerate(table["columns"])})
        for name, table in case["tables"].items()
    }


def rows_of(table: pa.Table) -> list[list[Any]]:
    columns = [table.column(k).to_pylist() for k in range(table.num_columns)]
    return [list(row) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("case", cases("trino"))
def test_the_rows_are_those_of_the_system(case: dict[str, Any]) -> None:
    run = lambda: ceql.match_recognize(case["sql"], tables(case), dialect=case.get("dialect"))  # noqa: E731
    if case["title"] in REFUSED:
        with pytest.raises(ceql.QueryError, match=re.escape(REFUSED[case["title"]])):
            run()
    elif "error" in case:
        with pytest.raises(ceql.DataError, match="AFTER MATCH SKIP"):
            run()
    else:
        assert sorted(rows_of(run()), key=repr) == sorted(case["rows"], key=repr)


def test_few_are_refused() -> None:
    assert len(cases("trino")) - len(REFUSED) >= 165
