"""The columns of a result, and how a chunk of matches becomes a record batch of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.engine.common.check import require
from ceql.engine.common.chunk import Chunk, Int32s, Int64s
from ceql.io.sort_keys import decode
from ceql.recognition.kernels import count_labels, fill_lists, take_places

FIXED = ("start", "end", "start_time", "end_time", "events")
POSITIONS = pa.list_(pa.int64())
MEASURE = b"ceql.measure"
"""Field metadata of a column that is computed."""
NAME = b"ceql.name"
"""Field metadata of a column that could not be called what it is: its true name."""


@dataclass(frozen=True)
class ResultColumns:
    """Columns in order: start, end; start_time, end_time where there is time; partition keys; events; variables.

    A key or variable that is called like a fixed column, or like a key before it, gets underscores at its end
    until its name is unique (the variable `end` is the column `end_`). The five fixed names are always
    taken, so that a column keeps its name whether there is time or not.
    """

    variables: tuple[str, ...] = ()
    """Those that are found of each match."""
    time_type: pa.DataType | None = None
    keys: tuple[tuple[str, pa.DataType], ...] = ()
    hidden: frozenset[str] = frozenset()
    """The variables that only measures name; the result has no columns for them."""
    measures: tuple[tuple[str, pa.DataType], ...] = ()
    """The name and type of each column that is computed."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of every batch of the result; a renamed column has its true name as metadata."""
        fields = [field for field in self.found if field.type != POSITIONS or true_name(field) not in self.hidden]
        names = unique_names([name for name, _ in self.measures], taken=[field.name for field in fields])
        fields += [
            pa.field(column, type, metadata={MEASURE: name.encode()})
            for column, (name, type) in zip(names, self.measures, strict=True)
        ]
        return pa.schema(fields)

    def with_measures(self, batch: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
        """A batch of matches as they are found, with these columns of measures and without hidden variables."""
        shown = [batch.column(field.name) for field in self.schema if not is_measure(field)]
        return pa.RecordBatch.from_arrays([*shown, *columns], schema=self.schema)

    @cached_property
    def found(self) -> pa.Schema:
        """The schema of matches as they are found, without measures."""
        names = unique_names([name for name, _ in self.keys] + list(self.variables), taken=FIXED)
        fields = [pa.field("start", pa.int64()), pa.field("end", pa.int64())]
        if self.time_type is not None:
            fields += [pa.field("start_time", self.time_type), pa.field("end_time", self.time_type)]
        fields += [_field(*key, names.pop(0)) for key in self.keys]
        fields.append(pa.field("events", POSITIONS))
        fields += [_field(variable, POSITIONS, names.pop(0)) for variable in self.variables]
        return pa.schema(fields)

    def renumbered(self, batch: pa.RecordBatch, numbers: Int64s) -> pa.RecordBatch:
        """The matches of a batch with `numbers[p]` in place of each position p."""

        def renumber(column: pa.Array) -> pa.Array:
            if column.type != POSITIONS:
                return pa.array(numbers[column.to_numpy()])
            offsets = column.offsets.to_numpy()
            return _list_array(offsets - offsets[0], numbers[column.flatten().to_numpy()])

        own = {*FIXED[:2], "events", *(field.name for field in variable_fields(self.schema))}
        columns = [
            renumber(column) if name in own else column
            for name, column in zip(self.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def is_measure(field: pa.Field) -> bool:
    """Whether a column of the result is a measure."""
    return MEASURE in (field.metadata or {})


def variable_fields(schema: pa.Schema) -> list[pa.Field]:
    """The columns of a result that have the events of variables."""
    return [field for field in list(schema)[schema.get_field_index("events") + 1 :] if not is_measure(field)]


def true_name(field: pa.Field) -> str:
    """What a column of the result is called where its name was not taken."""
    name: bytes = (field.metadata or {}).get(NAME, field.name.encode())
    return name.decode()


def unique_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """`names`, each with underscores at its end until it is unlike those taken and those before it.

    >>> unique_names(["end", "x", "end_"], taken=["start", "end"])
    ['end_', 'x', 'end__']
    """
    used = set(taken)
    unique = []
    for name in names:
        while name in used:
            name += "_"
        used.add(name)
        unique.append(name)
    return unique


def to_record_batch(
    chunk: Chunk,
    columns: ResultColumns,
    label_masks: npt.NDArray[np.bool_],
    keys: pa.RecordBatch | None = None,
    pattern: Int32s | None = None,
) -> pa.RecordBatch:
    """The matches of `chunk` as columns.

    `label_masks[l, v]` says whether label l binds variable v; row p of `keys` has the key values of partition p;
    `pattern` has the labels of every match, where all have the same.
    """
    found = [pa.array(chunk.start), pa.array(chunk.end)]
    if columns.time_type is not None:
        assert chunk.start_time is not None
        assert chunk.end_time is not None
        found += [decode(chunk.start_time, columns.time_type), decode(chunk.end_time, columns.time_type)]
    if columns.keys:
        assert keys is not None
        assert chunk.partition is not None
        rows = pa.array(chunk.partition)
        for (_, type), values in zip(columns.keys, keys.columns, strict=True):
            taken = values.take(rows)
            found.append(taken if taken.type == type else taken.cast(type))
    found.append(_list_array(chunk.offsets.astype(np.int32), chunk.positions))
    if columns.variables:
        found += _variable_columns(chunk, label_masks) if pattern is None else _alike(chunk, label_masks, pattern)
    return pa.RecordBatch.from_arrays(found, schema=columns.found)


def _variable_columns(chunk: Chunk, label_masks: npt.NDArray[np.bool_]) -> list[pa.Array]:
    n_labels = len(label_masks)
    # variables with the same events, as `A AS a` has, share a column
    binds, which = np.unique(np.ascontiguousarray(label_masks.T, np.uint8), axis=0, return_inverse=True)
    n_variables = len(binds)
    totals = binds.astype(np.int64) @ count_labels(chunk.labels, n_labels)
    bases = np.zeros(n_variables + 1, np.int64)
    np.cumsum(totals + 1, out=bases[1:])  # one more: the kernel writes before it knows
    values = np.empty(bases[-1], np.int64)
    offsets = np.empty((n_variables, len(chunk.offsets)), np.int32)
    fill_lists(chunk.offsets, chunk.positions, chunk.labels, binds, bases, values, offsets)
    columns = [_list_array(offsets[v], values[bases[v] : bases[v + 1] - 1]) for v in range(n_variables)]
    return [columns[v] for v in which.tolist()]


def _alike(chunk: Chunk, label_masks: npt.NDArray[np.bool_], pattern: Int32s) -> list[pa.Array]:
    """The columns when all matches have the same labels, as those of a sequence do: every k-th position is theirs."""
    matches = len(chunk.start)
    # the kernel relies on it; a forged snapshot may have matches of other lengths
    require(len(chunk.positions) == matches * len(pattern), "matches have more or fewer events than the query allows")
    offsets: dict[int, pa.Array] = {}  # variables with as many events share their offsets
    columns: dict[bytes, pa.Array] = {}  # and those with the same events, as `A AS a` has, all
    bound = np.ascontiguousarray(label_masks[pattern].T)
    for own in bound:
        places = np.flatnonzero(own)
        count = len(places)
        if own.tobytes() in columns:
            continue
        if count not in offsets:
            offsets[count] = pa.array(np.arange(matches + 1, dtype=np.int32) * np.int32(count))
        values = np.empty(count * matches, np.int64)
        take_places(chunk.positions, len(pattern), places, values)
        columns[own.tobytes()] = pa.ListArray.from_arrays(offsets[count], pa.array(values))
    return [columns[own.tobytes()] for own in bound]


def _list_array(offsets: Int32s, values: Int64s) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _field(name: str, type: pa.DataType, column: str) -> pa.Field:
    return pa.field(column, type, metadata=None if name == column else {NAME: name.encode()})
