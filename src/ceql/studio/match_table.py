"""The table of matches: its columns, the most telling first, and its rows, sorted and filtered as the page asks.

In: an index of matches and what is wanted of them. Out: cells as text for the rows in view. Whole Arrow columns are
sorted and filtered, so that a hundred thousand matches take some milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.engine.common.chunk import Int64s
from ceql.errors import DataError, did_you_mean
from ceql.recognition.result_columns import is_measure, true_name, variable_fields
from ceql.results import views
from ceql.results.bindings import Bools
from ceql.results.reader import First
from ceql.results.text import duration
from ceql.studio.data import Data
from ceql.studio.match_index import MatchIndex

MOST_ROWS = 500  # of one answer
_CONDITION = re.compile(r"\s*(?P<name>.+?)\s*(?P<operator><=|>=|!=|<>|==|=|<|>)\s*(?P<value>.*?)\s*\Z")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_OPERATORS = {
    "=": pc.equal, "==": pc.equal, "!=": pc.not_equal, "<>": pc.not_equal,
    "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip


@dataclass(frozen=True)
class Order:
    """How matches are to be shown: by a column (-1: as they were found), and only those that a text describes."""

    column: int = -1
    descending: bool = False
    wanted: str = ""


def matches(index: MatchIndex, first: int, count: int, order: Order, match: int = -1) -> dict[str, Any]:
    """Some rows of the table, and the place of a match among all of them (None if it is not shown)."""
    shown, problem = index.count, None
    try:
        numbers = ordered(index, order)
    except DataError as error:
        numbers, shown, problem = np.zeros(0, np.int64), 0, str(error)
    begin, count = max(0, first), max(0, min(count, MOST_ROWS))
    if numbers is None:
        mine = np.arange(begin, max(begin, min(begin + count, shown)))
        place = match if 0 <= match < shown else None
    else:
        mine, shown = numbers[begin : begin + count], len(numbers)
        at = np.flatnonzero(numbers == match)
        place = int(at[0]) if len(at) else None
    columns = _cells(index, mine)
    weighed = views.by_weight(columns)
    names = _names(index)
    sortable = [_values(index, number) is not None for number in range(len(columns))]
    lines = [[" · ".join(columns[k].cells[row]) for k in weighed] for row in range(len(mine))]
    return {
        "total": shown,
        "all": index.count,
        "first": begin,
        "place": place,
        "problem": problem,
        "heads": [
            {
                "name": names[k],
                "kind": columns[k].kind,
                "right": columns[k].right,
                "column": k,
                "sortable": sortable[k],
            }
            for k in weighed
        ],
        "rows": [{"match": int(number), "cells": line} for number, line in zip(mine, lines, strict=True)],
    }


def ordered(index: MatchIndex, order: Order) -> Int64s | None:
    """The numbers of the matches in this order; None if that is the order in which they were found."""
    if order.column < 0 and not order.wanted.strip():
        return None
    if order not in index.orders:
        numbers: Int64s = np.flatnonzero(_wanted(index, order.wanted))
        values = _values(index, order.column) if order.column >= 0 else None
        if values is not None:
            direction = "descending" if order.descending else "ascending"
            by = pa.table({"value": values.take(pa.array(numbers)), "number": numbers})
            numbers = numbers[np.asarray(pc.sort_indices(by, [("value", direction), ("number", "ascending")]))]
        index.orders.clear()  # one is shown at a time
        index.orders[order] = numbers
    return index.orders[order]


def _names(index: MatchIndex) -> list[str]:
    """What each column of `views.columns` is called, in its order."""
    columns = _cells(index, np.zeros(0, np.int64))
    return ["rows" if column.kind == "row" else column.head for column in columns]


def _values(index: MatchIndex, number: int) -> pa.Array | None:
    """The values of a column, one for each match; None if a match has several, or what has no order."""
    sources = _sources(index)
    if not 0 <= number < len(sources):
        return None
    if number not in index.values:
        found = sources[number]
        index.values[number] = None if found is None else _comparable(_column(index, *found))
    return index.values[number]


def _sources(index: MatchIndex) -> list[tuple[str, str | None] | None]:
    """Where the values of each column of `views.columns` are: a column of matches, or an attribute of its event."""
    schema, selection = index.batch.schema, index.run.query.plan.selection
    found: list[tuple[str, str | None] | None] = [("start", None)]
    if "end_time" in schema.names:
        found.append(("end_time", None))
    found += [(name, None) for name in index.keys]
    found += [(field.name, None) for field in schema if is_measure(field)]
    fields = {true_name(field): field.name for field in variable_fields(schema)}
    for variable in ["events"] if selection.distinct else selection.variables:
        single = variable in selection.singles and not selection.distinct
        names = None if selection.distinct else selection.projections.get(variable)
        found += [None] if names is None else [(fields[variable], name) if single else None for name in names]
    return found


def _column(index: MatchIndex, name: str, attribute: str | None) -> pa.Array | None:
    column = index.batch.column(name)
    if attribute is None:
        return column
    table = index.run.data.table
    if attribute not in table.schema.names:
        return None
    return table[attribute].take(column).combine_chunks()


def _comparable(column: pa.Array | None) -> pa.Array | None:
    """The column as something that Arrow sorts."""
    if column is None or pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return None
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _wanted(index: MatchIndex, text: str) -> Bools:
    """Which matches a text describes: `tries > 3 and country = US`, or any text that one of their values has."""
    found = np.ones(index.count, np.bool_)
    for part in filter(None, map(str.strip, _AND.split(text))):
        condition = _CONDITION.match(part)
        found &= _containing(index, part) if condition is None else _satisfying(index, **condition.groupdict())
    return found


def _satisfying(index: MatchIndex, name: str, operator: str, value: str) -> Bools:
    names = _names(index)
    number = next((k for k, known in enumerate(names) if known.lower() == name.lower()), None)
    values = None if number is None else _values(index, number)
    if values is None:
        sortable = [known for k, known in enumerate(names) if _values(index, k) is not None]
        hint = did_you_mean(name, sortable) or f"These can be compared: {', '.join(sortable)}."
        raise DataError(f"no column '{name}' has one value for each match. {hint}")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    if pa.types.is_duration(values.type):
        values, value = values.cast(pa.int64()), _ticks(value, values.type.unit)
    try:
        literal = pa.scalar(value)
        literal = literal.cast(pa.float64() if pa.types.is_floating(values.type) else values.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        try:
            literal, values = pa.scalar(float(value)), values.cast(pa.float64(), safe=False)
        except (ValueError, pa.ArrowException):
            raise DataError(f"'{value}' is no {values.type}, which '{name}' has") from None
    return np.asarray(_OPERATORS[operator](values, literal).fill_null(False))


def _ticks(value: str, unit: str) -> str:
    """A duration in seconds, or as `90 s`, `5 min`, as a number of units."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(|s|min|h|d)", value)
    if found is None:
        raise DataError(f"'{value}' is no duration: write 90 s, 5 min, 2 h or 1 d")
    seconds = float(found[1]) * {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}[found[2]]
    return str(round(seconds * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]))


def _containing(index: MatchIndex, part: str) -> Bools:
    found = np.zeros(index.count, np.bool_)
    for number in range(1, len(_sources(index))):
        values = _values(index, number)
        if values is not None and not pa.types.is_duration(values.type):
            has = pc.match_substring(values.cast(pa.string()), part, ignore_case=True)
            found |= np.asarray(has.fill_null(False))
    return found


def _cells(index: MatchIndex, numbers: Int64s) -> list[views.Column]:
    """The cells of some matches, by column."""
    data = index.run.data
    batch = readable(index.batch.take(pa.array(numbers)))
    hidden = frozenset(name for name in (data.columns.type, data.columns.time, *index.keys) if name is not None)
    rows = take(data, np.asarray(batch.column("events").flatten())).combine_chunks()
    whole = rows.to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], rows.schema)
    found = views.columns(First(batch, whole, None, index.run.query.plan.selection, data.columns.time, hidden))
    if data.given is not None:
        ends = zip(*(data.given[np.asarray(batch.column(name))] for name in ("start", "end")), strict=True)
        found[0] = views.Column("match", [[f"{start}..{end}"] for start, end in ends])
    return found


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with durations as text, and floats without the last digits, which only rounding makes."""
    for k, field in enumerate(batch.schema):
        column = batch.column(k)
        if pa.types.is_duration(field.type):
            size = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[field.type.unit]
            numbers = column.cast(pa.int64()).to_pylist()
            column = pa.array([None if n is None else duration(n * size) for n in numbers], pa.string())
        elif pa.types.is_floating(field.type):
            column = pa.array([None if x is None else float(f"{x:.12g}") for x in column.to_pylist()], pa.float64())
        else:
            continue
        batch = batch.set_column(k, pa.field(field.name, column.type, metadata=field.metadata), column)
    return batch


def take(data: Data, rows: Int64s) -> pa.Table:
    """The events of these rows."""
    return data.table.take(pa.array(rows))
