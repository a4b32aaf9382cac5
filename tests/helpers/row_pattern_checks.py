"""What a random statement with MATCH_RECOGNIZE must satisfy."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ceql
from row_pattern_cases import Case

SCHEMA = pa.schema({"ts": pa.int64(), "g": pa.int64(), "k": pa.string(), "price": pa.int64()})


def check(case: Case) -> bool:
    """Compares with the rows by the definition; whether the statement was run."""
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


def check_translated(case: Case) -> bool:
    """Compares the query that says the same, if there is one, with what MATCH_RECOGNIZE gives; whether there is one."""
    try:
        query = ceql.from_match_recognize(case.sql)
    except ceql.QueryError as error:
        if "CEQL cannot say this" in error.message:  # it should have been refused before
            raise
        return False
    table = pa.Table.from_pylist(
        [row for row in case.rows if row["g"] is not None], SCHEMA
    )  # a NULL key is none in CEQL
    head, _, _, *rest = case.sql.split("\n")[1:]
    labelled = "MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS label ALL ROWS PER MATCH"
    by_row = "\n".join(["SELECT * FROM ticks MATCH_RECOGNIZE (", head, labelled, *rest])
    try:
        matches = list(query.run(table, type=None, time="ts", time_unit="s"))
    except ceql.DataError:
        with pytest.raises(ceql.DataError, match="AFTER MATCH SKIP"):
            ceql.match_recognize(by_row, table)
        return True
    rows: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for row in ceql.match_recognize(by_row, table).to_pylist():
        rows.setdefault((row["g"], row["n"]), []).append((row["label"], row["ts"]))
    at, keys = table["ts"].to_pylist(), table["g"].to_pylist()
    told = [sorted((name, at[k]) for name, bound in match.bindings.items() for k in bound) for match in matches]
    assert sorted(told) == sorted(map(sorted, rows.values())), (case.sql, query.text, case.rows)
    if "ONE ROW" in case.sql:
        found = ceql.match_recognize(case.sql, table)
        values = [(keys[match.events[0]], *match.measures.values()) for match in matches]
        expected = [tuple(row.values()) for row in found.to_pylist()]
        assert sorted(values, key=repr) == sorted(expected, key=repr), (case.sql, query.text, case.rows)
    return True
