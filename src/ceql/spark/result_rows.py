"""Matches as rows of a Spark result: the keys, the times, and the matched events themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.jit import Array
from ceql.recognition.result_columns import ResultColumns, is_measure, true_name, variable_fields
from ceql.results.bindings import bindings, project
from ceql.spark.task_spec import TaskSpec


def result_rows(
    matches: pa.RecordBatch,
    take: Callable[[npt.NDArray[np.int64]], pa.Table],
    spec: TaskSpec,
    columns: ResultColumns,
) -> pa.RecordBatch:
    """Matches as rows of the result: keys, times, one list of events for each variable, all events."""
    events = matches.column("events")
    after = matches.schema.get_field_index("events") + 1
    shown_variables = variable_fields(matches.schema)
    variables = tuple(map(true_name, shown_variables))
    own = [matches.column(field.name) for field in shown_variables]
    positions = np.unique(np.asarray(events.flatten()))
    data = take(positions).combine_chunks()
    first_key = after - 1 - len(columns.keys)
    keys = [
        column.cast(pa.float64()) if k in spec.keys_as_text else column
        for k, column in enumerate(matches.columns[first_key : after - 1])
    ]
    found = [*keys, matches.column("start_time"), matches.column("end_time")]
    projections = {} if spec.ids else spec.plan.projections
    for name, column in zip(variables, own, strict=True):
        shown = list(projections.get(name, spec.shown))
        found.append(_lists(column, positions, _values(data.select(shown), spec.ids)))
    if projections and variables:
        rows = np.searchsorted(positions, np.asarray(events.flatten()))
        taken = data.take(pa.array(rows)).combine_chunks().to_batches()
        if taken:
            masked = project(taken[0], bindings(events, own), variables, projections)
            all_events = _with_offsets(events, _values(pa.table(masked), False))
        else:
            all_events = _lists(events, positions, _values(data, False))
    else:
        all_events = _lists(events, positions, _values(data, spec.ids))
    measured = [field.name for field in matches.schema if is_measure(field)]
    found += [_for_spark(matches.column(name)) for name in measured]
    found.append(all_events)
    return pa.RecordBatch.from_arrays(found, names=result_names(spec.keys, [*variables, *measured]))


def _for_spark(column: pa.Array) -> pa.Array:
    """A measure in a type that Spark has."""
    return column.cast(spark_type(column.type))


def spark_type(type: pa.DataType) -> pa.DataType:
    """The Arrow type that Spark takes for values of a type: text as such, times in microseconds."""
    if pa.types.is_large_string(type) or pa.types.is_null(type):
        return pa.string()
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", type.tz)
    return pa.duration("us") if pa.types.is_duration(type) else type


def result_names(keys: Iterable[str], variables: Iterable[str]) -> list[str]:
    """The columns of the result in order; one that is called like another gets underscores at its end.

    Spark does not tell `A` from `a`, so neither does this.
    """
    keys = list(keys)
    used = {"start_time", "end_time", "events"}
    names = []
    for name in [*keys, *variables]:
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        names.append(name)
    return [*names[: len(keys)], "start_time", "end_time", *names[len(keys) :], "events"]


def _values(data: pa.Table, ids: bool) -> pa.Array:
    """Events as structs of their attributes, or as their ids."""
    columns = [column.combine_chunks() for column in data.columns]
    columns = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return columns[0] if ids else pa.StructArray.from_arrays(columns, fields=list(data.schema))


def _lists(positions: pa.Array, known: Array, values: pa.Array) -> pa.Array:
    """Lists of positions as lists of the values at them; `values[k]` stands at position `known[k]`."""
    rows = np.searchsorted(known, np.asarray(positions.flatten()))
    return _with_offsets(positions, values.take(pa.array(rows)))


def _with_offsets(lists: pa.Array, values: pa.Array) -> pa.Array:
    offsets = np.asarray(lists.offsets).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), values)
