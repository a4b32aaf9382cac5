"""Matches with their events as tables: *wide* has a row for each match, *long* one for each event of each match.

In: a batch of matches and the rows of its column `events`, in its order. Out: a batch. Nothing is done match by match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ceql.analysis.selection import Selection
from ceql.engine.common.chunk import Int64s
from ceql.io.schemas import column_of, take_rows, without_columns
from ceql.recognition.result_columns import as_lists, is_measure, true_name, unique_names, variable_fields
from ceql.results.bindings import Bools, bindings


def wide(batch: pa.RecordBatch, rows: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    """The columns of the matches up to the keys, then for each variable x its rows, and `x.a` for each attribute a.

    They are values (NULL if nothing is bound) where x is bound to at most one event, else lists. Measures come last.
    """
    middle = batch.schema.get_field_index("events")
    columns, names = batch.columns[:middle], batch.schema.names[:middle]
    rows_of = {true_name(field): batch.column(field.name) for field in list(batch.schema)[middle:]}
    for variable, lists, bound in bound_events(batch, selection):
        shown = selection.projections.get(variable, rows.schema.names)
        names += [variable, *(f"{variable}.{attribute}" for attribute in shown)]
        columns += [rows_of[variable], *_values(_columns(rows, shown), lists, bound, variable in selection.singles)]
    measures = _measures(batch)
    names += measures
    columns += measures.values()
    return pa.RecordBatch.from_arrays(columns, names=unique_names(names, taken=()))


def long(batch: pa.RecordBatch, rows: pa.RecordBatch, selection: Selection, first: int) -> pa.RecordBatch:
    """`match` (its number; `first` is that of the first one), `variable`, `row` (the position), then the attributes,
    and the measures of the match.

    An event that is bound to several variables has a row for each. Without variables (DISTINCT) they are NULL.
    """
    events = batch.column("events")
    which = np.repeat(np.arange(first, first + batch.num_rows), np.asarray(events.value_lengths()).astype(np.int64))
    shown = {variable: bound for variable, _, bound in bound_events(batch, selection)}
    found = np.concatenate([np.zeros(0, np.int64), *shown.values()])
    number = np.repeat(np.arange(len(shown)), [len(bound) for bound in shown.values()])
    order = np.lexsort((number, found))
    found, number = found[order], number[order]
    names = pa.array([None] if selection.distinct else shown, pa.string())
    columns = [pa.array(which[found]), names.take(pa.array(number)), events.flatten().take(pa.array(found))]
    own = ["match", "variable", "row"]
    for attribute in _attributes(rows.schema, selection):
        hidden = _hidden(attribute, list(shown), selection)[number]
        columns += take_rows(rows.select([attribute]), pa.array(found, mask=hidden)).columns
        own.append(attribute)
    for name, column in _measures(batch).items():
        columns.append(column.take(pa.array(which[found] - first)))
        own.append(name)
    return pa.RecordBatch.from_arrays(columns, names=unique_names(own, taken=()))


def bound_events(batch: pa.RecordBatch, selection: Selection) -> Iterator[tuple[str, pa.Array, Int64s]]:
    """Of each variable: its lists of positions, and the rows of all its events."""
    events = batch.column("events")
    if selection.distinct:
        yield "events", events, np.arange(len(events.flatten()))
        return
    columns = {true_name(field): as_lists(batch.column(field.name)) for field in variable_fields(batch.schema)}
    lists = [columns[variable] for variable in selection.variables]
    found = bindings(events, lists)
    for k, variable in enumerate(selection.variables):
        yield variable, lists[k], np.flatnonzero(found[:, k])


def _measures(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {field.name: batch.column(field.name) for field in batch.schema if is_measure(field)}


def _columns(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The columns of these names; NULLs for those that are not there."""
    columns = [column_of(rows, name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=list(names)) if columns else without_columns(rows.num_rows)


def _values(rows: pa.RecordBatch, lists: pa.Array, bound: Int64s, single: bool) -> list[pa.Array]:
    """The values of each column at the rows `bound`, which belong to the matches as `lists` do."""
    lengths = np.asarray(lists.value_lengths()).astype(np.int64)
    if not single:
        offsets = np.zeros(len(lists) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        columns = take_rows(rows, pa.array(bound)).columns
        return [pa.ListArray.from_arrays(pa.array(offsets), column) for column in columns]
    which = np.zeros(len(lists), np.int64)
    which[lengths == 1] = bound
    return list(take_rows(rows, pa.array(which, mask=lengths == 0)).columns)


def _attributes(schema: pa.Schema, selection: Selection) -> list[str]:
    """The attributes that any variable shows, and the keys."""
    named = [selection.projections.get(variable, schema.names) for variable in selection.variables]
    shown = selection.keys.union(*named)
    return [*schema.names] if selection.distinct else [name for name in schema.names if name in shown]


def _hidden(attribute: str, variables: list[str], selection: Selection) -> Bools:
    """Of which variables the attribute is not shown."""
    shows = [
        attribute in selection.keys or attribute in selection.projections.get(variable, (attribute,))
        for variable in variables
    ]
    return ~np.array(shows, np.bool_)
