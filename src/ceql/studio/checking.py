"""Checks a query while it is typed: the same message and suggestion as Python gives, with its place."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ceql.analysis.first_event import never_begins
from ceql.analysis.scopes import there, types, variables
from ceql.errors import CeqlError, QueryError, nearest
from ceql.query import Query, compile
from ceql.studio.data import Data
from ceql.studio.streams import for_query, to_input
from ceql.syntax import tree as t
from ceql.syntax.walking import nodes


def check(text: str, data: Data | None) -> dict[str, Any]:
    """The problems of a query, and the names that it binds."""
    try:
        query = compile(text)
        if data is not None:
            fit(query, data)
    except QueryError as error:
        return {"problems": [_problem(text, error)], "variables": []}
    except CeqlError as error:
        return {"problems": [_whole(text, str(error))], "variables": []}
    found = query.plan.query
    reason = never_begins(query.plan.whole, text)
    problems = [] if reason is None else [_never(text, reason)]
    return {
        "problems": problems + _unknown_types(found, data),
        "variables": list(variables(found)),
        "keys": bool(found.partition),
    }


def fit(query: Query, data: Data) -> None:
    """Raises an error if the query does not fit the columns of the data."""
    data = for_query(data, query.plan.query.streams)
    if data.table.num_columns:
        query.run(to_input(data, lambda table, _: table.slice(0, 0)), **data.columns.options)


def _problem(text: str, error: QueryError) -> dict[str, Any]:
    if error.line is None or error.column is None or error.caret is None:
        return _whole(text, error.message, error.suggestion)
    begin = sum(len(line) + 1 for line in text.split("\n")[: error.line - 1]) + error.column - 1
    return {
        "from": begin,
        "to": begin + error.caret.rpartition("\n")[2].count("^"),
        "severity": "error",
        "message": error.message,
        "suggestion": error.suggestion,
        "line": error.line,
        "column": error.column,
    }


def _whole(text: str, message: str, suggestion: str | None = None) -> dict[str, Any]:
    found = {"from": 0, "to": len(text), "severity": "error", "message": message, "suggestion": suggestion}
    return {**found, "line": 1, "column": 1}


def _never(text: str, reason: str) -> dict[str, Any]:
    """A warning that the query can never match; the reason is a text of several lines."""
    message, *_, suggestion = reason.split("\n")
    return {**_whole(text, message, suggestion), "severity": "warning"}


def _unknown_types(query: t.Query, data: Data | None) -> list[dict[str, Any]]:
    """A warning at each type that no event has. Of live data, it may still come."""
    if data is None or data.live or data.columns.type is None or not data.rows:
        return []
    column = data.table[data.columns.type]
    wanted = sorted(types(query.formula) & there(query.formula))
    present = pa.compute.is_in(pa.array(wanted, pa.string()), value_set=column.unique().cast(pa.string())).to_pylist()
    absent = {name for name, found in zip(wanted, present, strict=True) if not found}
    known = [entry["name"] for entry in data.summary()["types"]] if absent else []
    found = []
    for node in nodes(query.formula):
        if isinstance(node, t.Event) and node.type in absent and node.span is not None:
            near = nearest(node.type, known)
            found.append(
                {
                    "from": node.span.start,
                    "to": node.span.end,
                    "severity": "warning",
                    "message": f"no event has the type '{node.type}'",
                    "suggestion": f"Did you mean '{near}'?" if near else None,
                }
            )
    return found
