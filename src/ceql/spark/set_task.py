"""Several queries as they run in one task: shipped rows in time order in, rows of the common result out.

Each query has its own recognition of the rows (`task_recognizer`). Types, conditions and keys are read once for all
(`predicates.shared_symbols`, `io.shared_keys`): the JVM ships the attributes, and decides nothing but which types and
keys matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.engine.common.check import require
from ceql.io.partition_keys import PartitionKeys
from ceql.io.shared_keys import QueryKeys, SharedKeys
from ceql.jit import Array
from ceql.predicates.bind import InputSchema, bind_together
from ceql.predicates.shared_symbols import SharedGuards, SymbolReader
from ceql.predicates.symbols import SymbolTable
from ceql.predicates.time_arithmetic import with_unit
from ceql.recognition import snapshot
from ceql.recognition.result_columns import as_lists, is_measure, true_name, variable_fields
from ceql.results.combined import as_text, key_fields, map_of
from ceql.spark.shipped_symbols import ShippedSymbols
from ceql.spark.task_recognizer import Task, TaskQuery, TaskRecognizer, task_of
from ceql.spark.task_spec import STREAM, TaskSpec


@dataclass(frozen=True)
class SetSpec:
    """What the driver tells a task: the queries by name, and the keys that the result shows, with their types."""

    names: tuple[str, ...]
    specs: tuple[TaskSpec, ...]
    """They ship the same columns."""
    keys: tuple[tuple[str, pa.DataType], ...]

    @property
    def first(self) -> TaskSpec:
        """Any task of the set: all share schema and keys."""
        return self.specs[0]

    @cached_property
    def guards(self) -> SharedGuards:
        """The guards of all queries, for one bucket after another: they remember nothing but the last batch."""
        first = self.first
        schema = with_unit(snapshot.schema_from_text(first.schema), first.options.time, first.options.time_unit)
        events = InputSchema(schema, False, first.type, first.streams, first.untyped)
        queries = [(() if one.plan.lags else one.plan.guards, one.plan.source) for one in self.specs]
        return SharedGuards(bind_together(queries, events), partial(_named, first, schema.names))


def _named(spec: TaskSpec, names: list[str], batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int | Array]:
    """The attributes that guards read, under their own names, and the stream of each row."""
    columns = [batch.column(spec.place[name]) for name in names]
    streams: int | Array = 0
    if len(spec.streams) > 1:
        streams = np.asarray(batch.column(STREAM).to_numpy(zero_copy_only=False)).astype(np.int32)
    return pa.RecordBatch.from_arrays(columns, names=names), streams


class _Together:
    """What the queries of a task share (`recognition.bound_plan.Sharing`)."""

    def __init__(self, spec: SetSpec) -> None:
        self._guards = spec.guards
        self._keys: SharedKeys | None = None

    def reader(self, number: int, spec: TaskSpec, table: SymbolTable) -> SymbolReader | ShippedSymbols:
        """What gives the symbols of a query."""
        shared = None if spec.plan.lags else self._guards.reader(number, table)
        return shared or ShippedSymbols(spec, table)

    def symbols(self, schema: pa.Schema, table: SymbolTable) -> None:
        """Guards are decided by way of `reader`."""

    def keys(self, own: PartitionKeys) -> QueryKeys:
        """The keys of a query: all queries of a task have the same."""
        if self._keys is None:
            parts, schema, source = own.parts, own.schema, own.source
            make = partial(PartitionKeys, parts, schema, None, False, source)
            self._keys = SharedKeys(make, self._concerned, (None,))
        return self._keys.query()

    def _concerned(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        return self._guards.concerned(batch, streams)


class SetTaskRecognizer(TaskRecognizer):
    """The state of several queries over the rows of one task, or of one bucket of a stream.

    The rows that their matches may name are kept once for all of them.
    """

    def __init__(self, spec: SetSpec, schema: pa.Schema) -> None:
        self._set = spec
        super().__init__(spec.first, schema)

    def _make_queries(self) -> list[TaskQuery]:
        together = _Together(self._set)
        return [
            TaskQuery(own, self.schema, partial(together.reader, number, own), together)
            for number, own in enumerate(self._set.specs)
        ]

    def _shown(self, number: int, matches: pa.RecordBatch) -> pa.RecordBatch:
        return rows_of(self._set, number, matches, self.rows.take)

    def _state_of_queries(self) -> snapshot.Parts:
        """The states of the queries by name. One that is idle has none: it begins anew where the others are."""
        states = {
            name: query.recognition.state()
            for name, query in zip(self._set.names, self._queries, strict=True)
            if not query.recognition.is_idle
        }
        headers, arrays, tables = snapshot.joined(list(states.values()))
        for own in headers:
            del own["schema"]  # that of all queries is there already
        header = {"position": self.rows.following, "queries": list(states), "recognitions": headers}
        return header, arrays, tables

    def _restore_queries(
        self, header: dict[str, Any], arrays: dict[str, Array], tables: dict[str, list[pa.RecordBatch]]
    ) -> None:
        headers = [{**own, "schema": header["first_schema"]} for own in header["recognitions"]]
        known = dict(zip(header["queries"], snapshot.parted(headers, arrays, tables), strict=True))
        for name, query in zip(self._set.names, self._queries, strict=True):
            if name in known:
                query.recognition.restore(*known.pop(name))
            else:
                query.recognition.begin_at(header["position"])
        require(not known, "it has states of queries that are not in the set")
        positions = {query.recognition.position for query in self._queries}
        require(positions == {header["position"]}, "its queries are not at the same place")


def recognizer_over(spec: TaskSpec | SetSpec, schema: pa.Schema) -> TaskRecognizer:
    """What recognises one query or several over rows with these columns."""
    return SetTaskRecognizer(spec, schema) if isinstance(spec, SetSpec) else TaskRecognizer(spec, schema)


def rows_of(spec: SetSpec, number: int, matches: pa.RecordBatch, take: Callable[[Array], pa.Table]) -> pa.RecordBatch:
    """Matches of a query as rows of the common result."""
    rows, own = matches.num_rows, spec.specs[number]
    events = matches.column("events")
    positions = np.unique(np.asarray(events.flatten()))
    data = take(positions).combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in data.columns]
    values = columns[0] if own.ids else pa.StructArray.from_arrays(columns, fields=list(data.schema))

    def shown(lists: pa.Array) -> pa.Array:
        offsets = np.asarray(lists.offsets).astype(np.int32)
        places = np.searchsorted(positions, np.asarray(lists.flatten()))
        return pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), values.take(pa.array(places)))

    known = dict(zip(own.keys, key_fields(matches.schema), strict=True))
    keys = [
        matches.column(known[name].name).cast(type) if name in known else pa.nulls(rows, type)
        for name, type in spec.keys
    ]
    variables = {
        true_name(field): shown(as_lists(matches.column(field.name))) for field in variable_fields(matches.schema)
    }
    measures = {field.name: as_text(matches.column(field.name)) for field in matches.schema if is_measure(field)}
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(spec.names[number]), rows),
            *keys,
            matches.column("start_time"),
            matches.column("end_time"),
            map_of(variables, rows, pa.map_(pa.string(), pa.list_(values.type))),
            map_of(measures, rows, pa.map_(pa.string(), pa.string())),
            shown(events),
        ],
        names=[
            "query",
            *(f"key{k}" for k in range(len(keys))),
            "start_time",
            "end_time",
            "bindings",
            "measures",
            "events",
        ],
    )


def set_task(spec: SetSpec) -> Task:
    """The function that a task runs over its rows, which are in order."""
    return task_of(partial(SetTaskRecognizer, spec))
