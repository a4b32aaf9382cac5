"""Matches as rows of a Spark result: the keys, the times, and the matched events themselves, in arrays or flat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.jit import Array
from ceql.plans import Plan
from ceql.recognition.result_columns import ResultColumns, as_lists, is_measure, true_name, variable_fields
from ceql.results.bindings import bindings, project
from ceql.results.combined import as_text, key_fields, map_of
from ceql.results.match_ids import MatchIds
from ceql.spark.task_spec import SetSpec, TaskSpec

COMMON = ("start_time", "end_time", "bindings", "measures", "events")
"""The last columns of the result of a set."""
SUPPRESSED = "suppressed"
"""The column that says how many matches were suppressed before one that was kept."""
_NEAR = 32
"""If one position in so many is named, a table has their places. Sorting and searching them takes longer: a task with
166,000 matches of three events in a million rows 0.22 s of the processor, with the table 0.07 s."""
FlatColumn = tuple[str, str | tuple[str, ...]]
"""A column of a flat result: a variable, and its attribute; or several attributes, for a list of its events."""


def result_rows(
    matches: pa.RecordBatch,
    take: Callable[[npt.NDArray[np.int64]], pa.Table],
    spec: TaskSpec,
    columns: ResultColumns,
    suppressed: pa.Array | None = None,
) -> pa.RecordBatch:
    """Matches as rows of the result: keys, times, one list of events for each variable, all events."""
    events = matches.column("events")
    after = matches.schema.get_field_index("events") + 1
    shown_variables = variable_fields(matches.schema)
    variables = tuple(map(true_name, shown_variables))
    own = [as_lists(matches.column(field.name)) for field in shown_variables]
    named = _Named(events)
    data = take(named.positions).select(list(spec.shown)).combine_chunks()
    first_key = after - 1 - len(columns.keys)
    keys = [
        column.cast(pa.float64()) if k in spec.keys_as_text else column
        for k, column in enumerate(matches.columns[first_key : after - 1])
    ]
    ids = first_columns(matches, take, spec, keys, suppressed)
    found = [*ids.values(), *keys, matches.column("start_time"), matches.column("end_time")]
    projections = {} if spec.ids else spec.plan.projections
    measured = [field.name for field in matches.schema if is_measure(field)]
    measures = [_for_spark(matches.column(name)) for name in measured]
    if is_flat(spec.flat, spec.plan):
        flat = flat_columns(spec.plan, spec.shown, variables)
        by_name = dict(zip(variables, own, strict=True))
        for name, shown in flat:
            if isinstance(shown, str):
                found.append(_one_each(by_name[name], named, data.column(shown)))
            else:
                found.append(_lists(by_name[name], named, _values(data.select(list(shown)), False)))
        return pa.RecordBatch.from_arrays([*found, *measures], names=[*ids, *flat_names(spec.keys, flat, measured)])
    for name, column in zip(variables, own, strict=True):
        own_values = _values(data.select(list(projections.get(name, spec.shown))), spec.ids)
        found.append(_lists(column, named, own_values))
    if projections and variables:
        taken = data.take(pa.array(named.places(events))).combine_chunks().to_batches()
        if taken:
            masked = project(taken[0], bindings(events, own), variables, projections)
            all_events = _with_offsets(events, _values(pa.table(masked), False))
        else:
            all_events = _lists(events, named, _values(data, False))
    else:
        all_events = _lists(events, named, _values(data, spec.ids))
    found += measures
    found.append(all_events)
    return pa.RecordBatch.from_arrays(found, names=[*ids, *result_names(spec.keys, [*variables, *measured])])


def first_columns(
    matches: pa.RecordBatch,
    take: Callable[[npt.NDArray[np.int64]], pa.Table],
    spec: TaskSpec,
    keys: Sequence[pa.Array],
    suppressed: pa.Array | None,
) -> dict[str, pa.Array]:
    """The columns of ids and of what was suppressed by their names, if these are wanted."""
    found = {}
    if spec.match_id is not None:
        found[spec.match_id] = MatchIds(spec.identity, spec.told_by).of(matches, take, keys)
    if spec.suppresses:
        found[SUPPRESSED] = pa.nulls(matches.num_rows, pa.int64()) if suppressed is None else suppressed
    return found


def rows_of(
    spec: SetSpec,
    number: int,
    matches: pa.RecordBatch,
    take: Callable[[npt.NDArray[np.int64]], pa.Table],
    suppressed: pa.Array | None = None,
) -> pa.RecordBatch:
    """Matches of a query as rows of the common result."""
    rows, own = matches.num_rows, spec.specs[number]
    events = matches.column("events")
    named = _Named(events)
    values = _values(take(named.positions).select(list(own.shown)), own.ids)

    def shown(lists: pa.Array) -> pa.Array:
        return _lists(lists, named, values)

    known = dict(zip(own.keys, key_fields(matches.schema), strict=True))
    own_keys = [matches.column(field.name) for field in key_fields(matches.schema)]
    ids = first_columns(matches, take, own, own_keys, suppressed)
    keys = [
        matches.column(known[name].name).cast(type) if name in known else pa.nulls(rows, type)
        for name, type in spec.keys
    ]
    versions = {}
    if spec.versions is not None:
        versions["version"] = pa.array([spec.versions[number]] * rows, pa.string())
    variables = {
        true_name(field): shown(as_lists(matches.column(field.name))) for field in variable_fields(matches.schema)
    }
    measures = {field.name: as_text(matches.column(field.name)) for field in matches.schema if is_measure(field)}
    return pa.RecordBatch.from_arrays(
        [
            *ids.values(),
            pa.repeat(pa.scalar(spec.names[number]), rows),
            *versions.values(),
            *keys,
            matches.column("start_time"),
            matches.column("end_time"),
            map_of(variables, rows, pa.map_(pa.string(), pa.list_(values.type))),
            map_of(measures, rows, pa.map_(pa.string(), pa.string())),
            shown(events),
        ],
        names=[*ids, "query", *versions, *(f"key{k}" for k in range(len(keys))), *COMMON],
    )


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


def is_flat(asked: bool, plan: Plan) -> bool:
    """Whether a result is flat; under DISTINCT there are no variables, and only the array of all events."""
    return asked and not plan.query.distinct


def flat_columns(plan: Plan, shown: tuple[str, ...], variables: Iterable[str]) -> list[FlatColumn]:
    """What a flat result shows of variables.

    `SELECT *` shows the best names alone: of `A AS x` it shows x.
    """
    columns: list[FlatColumn] = []
    for name in variables:
        attributes = tuple(plan.projections.get(name, shown))
        if name not in plan.selection.variables:
            continue
        if name in plan.selection.singles:
            columns += [(name, attribute) for attribute in attributes]
        else:
            columns.append((name, attributes))
    return columns


def flat_names(keys: Iterable[str], columns: Iterable[FlatColumn], measures: Iterable[str]) -> list[str]:
    """The columns of a flat result in order."""
    own = [f"{name}_{shown}" if isinstance(shown, str) else name for name, shown in columns]
    return result_names(keys, [*own, *measures])[:-1]


def _values(data: pa.Table, ids: bool) -> pa.Array:
    """Events as structs of their attributes, or as their ids."""
    columns = [column.combine_chunks() for column in data.columns]
    columns = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return columns[0] if ids else pa.StructArray.from_arrays(columns, fields=list(data.schema))


class _Named:
    """The positions that matches name, in order, and where each stands among them."""

    def __init__(self, events: pa.Array) -> None:
        flat = np.asarray(events.flatten())
        first, last = (int(flat.min()), int(flat.max())) if len(flat) else (0, -1)
        self._first = first
        self._places: Array | None = None
        if last - first < _NEAR * len(flat):
            there = np.zeros(last - first + 1, bool)
            there[flat - first] = True
            self.positions = np.flatnonzero(there) + first
            self._places = np.cumsum(there) - 1
        else:
            self.positions = np.unique(flat)

    def places(self, lists: pa.Array) -> Array:
        """Where the positions in these lists, one after another, stand."""
        flat = np.asarray(lists.flatten())
        if self._places is None:
            return np.asarray(np.searchsorted(self.positions, flat))
        return np.asarray(self._places[flat - self._first])


def _lists(positions: pa.Array, named: _Named, values: pa.Array) -> pa.Array:
    """Lists of positions as lists of the values at them; `values` are those of the named positions."""
    return _with_offsets(positions, values.take(pa.array(named.places(positions))))


def _one_each(positions: pa.Array, named: _Named, values: pa.ChunkedArray) -> pa.Array:
    """Lists of at most one position as the values at them, NULL for an empty list."""
    empty = np.diff(np.asarray(positions.offsets)) == 0
    rows = np.zeros(len(positions), np.int64)
    rows[~empty] = named.places(positions)
    taken = values.take(pa.array(rows, mask=empty))
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _with_offsets(lists: pa.Array, values: pa.Array) -> pa.Array:
    offsets = np.asarray(lists.offsets).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), values)
