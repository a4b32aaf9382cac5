"""Random statements give the rows that backtracking by the definition gives."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import ceql
import row_pattern_cases as cases

SCHEMA = pa.schema({"ts": pa.int64(), "g": pa.int64(), "k": pa.string(), "price": pa.int64()})


def check(case: cases.Case) -> bool:
    """Compares; whether the statement was run."""
    table = pa.Table.from_pylist(case.rows, SCHEMA)
    rows: list[tuple[object, ...]] | None = None
    try:
        found = ceql.match_recognize(case.sql, table)
        rows = [tuple(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]
    except ceql.QueryError as error:
        if not case.in_define or "not evaluated" not in str(error):
            raise
        return False
    except ceql.DataError as error:
        if "AFTER MATCH SKIP" not in str(error):
            raise
    told = None if rows is None else sorted(rows, key=repr)
    assert told == (None if case.expected is None else sorted(case.expected, key=repr)), (case.sql, case.rows)
    return True


@pytest.mark.parametrize("seed", range(4))
def test_conditions_on_rows_and_neighbours(seed: int) -> None:
    rnd = random.Random(seed)
    assert all(check(cases.draw_case(rnd, plain=True)) for _ in range(150))


@pytest.mark.parametrize("seed", range(4))
def test_conditions_on_rows_of_the_match(seed: int) -> None:
    rnd = random.Random(100 + seed)
    assert sum(check(cases.draw_case(rnd)) for _ in range(150)) > 120
