"""The columns of a result, and how a chunk of matches becomes a record batch of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.engine.common.check import require
from ceql.engine.common.chunk import Chunk, Int32s, Int64s
from ceql.io.sort_keys import decode
from ceql.recognition.kernels import count_labels, fill_lists, take_places

FIXED = ("start", "end", "start_time", "end_time", "events")
POSITIONS = pa.list_(pa.int64())
_MANY = 1 << 15  # lists, of which a block of offsets is made
MEASURE = b"ceql.measure"
"""Field metadata of a column that is computed."""
NAME = b"ceql.name"
"""Field metadata of a column that could not be called what it is: its true name."""


@dataclass(frozen=True)
class ResultColumns:
    """Columns in order: start, end; start_time, end_time where there is time; partition keys; events; variables.

    A variable that binds one event at most is a number, NULL if it binds none; any other is a list of numbers.
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
    singles: frozenset[str] = frozenset()
    """The variables that no match binds to more than one event."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of every batch of the result; a renamed column has its true name as metadata."""
        unseen = {field.name for field in variable_fields(self.found) if true_name(field) in self.hidden}
        fields = [field for field in self.found if field.name not in unseen]
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
        for variable in self.variables:
            fields.append(_field(variable, pa.int64() if variable in self.singles else POSITIONS, names.pop(0)))
        return pa.schema(fields)


def is_measure(field: pa.Field) -> bool:
    """Whether a column of the result is a measure."""
    return MEASURE in (field.metadata or {})


def variable_fields(schema: pa.Schema) -> list[pa.Field]:
    """The columns of a result that have the events of variables."""
    return [field for field in list(schema)[schema.get_field_index("events") + 1 :] if not is_measure(field)]


def renumbered(batch: pa.RecordBatch, numbers: Int64s) -> pa.RecordBatch:
    """The matches of a batch with `numbers[p]` in place of each position p."""

    def renumber(column: pa.Array) -> pa.Array:
        if column.type == POSITIONS:
            offsets = column.offsets.to_numpy()
            return _list_array(offsets - offsets[0], numbers[column.flatten().to_numpy()])
        if not column.null_count:
            return pa.array(numbers[column.to_numpy()])
        none = column.is_null().to_numpy(zero_copy_only=False)
        return pa.array(numbers[column.fill_null(0).to_numpy()], mask=none)

    own = {"start", "end", "events", *(field.name for field in variable_fields(batch.schema))}
    columns = [
        renumber(column) if name in own else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def positions_of(batch: pa.RecordBatch) -> Int64s:
    """The events of all matches in a row."""
    return np.asarray(batch.column("events").flatten())


def as_lists(column: pa.Array) -> pa.Array:
    """The events of a variable as lists, also where its column has numbers."""
    if column.type != pa.int64():
        return column
    if not column.null_count:
        return _list_array(np.arange(len(column) + 1, dtype=np.int32), column.to_numpy())
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(column.is_valid().to_numpy(zero_copy_only=False), out=offsets[1:])
    return _list_array(offsets, column.drop_null().to_numpy())


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


def masks_of(labels: Iterable[Collection[str]], columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which of these variables each label binds; one row at the least."""
    masks = [[variable in label for variable in columns] for label in labels]
    return np.array(masks or [[False] * len(columns)], np.bool_).reshape(max(1, len(masks)), len(columns))


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
    if pattern is None:
        make = _variable_columns(chunk, label_masks) if columns.variables else None
        found.append(_list_array(chunk.offsets.astype(np.int32), chunk.positions))
    else:
        make = _alike(chunk, label_masks, pattern)
        found.append(pa.ListArray.from_arrays(_even(len(chunk.start), len(pattern)), pa.array(chunk.positions)))
    if make is not None:
        found += [make(v, variable in columns.singles) for v, variable in enumerate(columns.variables)]
    return pa.RecordBatch.from_arrays(found, schema=columns.found)


_Make = Callable[[int, bool], pa.Array]
"""The column of a variable, by its number: of numbers where it is single, else of lists."""


def _variable_columns(chunk: Chunk, label_masks: npt.NDArray[np.bool_]) -> _Make:
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
    of_variable: list[int] = which.tolist()

    @cache
    def column(v: int, single: bool) -> pa.Array:
        mine = values[bases[v] : bases[v + 1] - 1]
        return _numbers(offsets[v], mine) if single else _list_array(offsets[v], mine)

    return lambda v, single: column(of_variable[v], single)


def _numbers(offsets: Int32s, values: Int64s) -> pa.Array:
    """Lists of one number at most as these numbers, NULL for an empty list."""
    count = len(offsets) - 1
    has = np.diff(offsets)
    # a forged snapshot may have matches that no query allows
    require(bool((has <= 1).all()), "a variable of one event is bound to several")
    if len(values) == count:
        return pa.array(values)
    numbers = np.zeros(count, np.int64)
    numbers[has == 1] = values
    return pa.array(numbers, mask=has == 0)


def _alike(chunk: Chunk, label_masks: npt.NDArray[np.bool_], pattern: Int32s) -> _Make:
    """The columns when all matches have the same labels, as those of a sequence do: every k-th position is theirs."""
    matches = len(chunk.start)
    if len(chunk.positions) != matches * len(pattern):  # the kernel relies on it; a forged snapshot may have others
        require(False, "matches have more or fewer events than the query allows")
    bound = np.ascontiguousarray(label_masks[pattern].T)

    @cache
    def column(own: bytes, single: bool) -> pa.Array:  # variables with the same events, as `A AS a` has, share it
        places = np.flatnonzero(np.frombuffer(own, np.bool_))
        if single and len(places) > 1:
            require(False, "a variable of one event is bound to several")
        if single and not len(places):
            return pa.nulls(matches, pa.int64())
        values = np.empty(len(places) * matches, np.int64)
        take_places(chunk.positions, len(pattern), places, values)
        return pa.array(values) if single else pa.ListArray.from_arrays(_even(matches, len(places)), pa.array(values))

    return lambda v, single: column(bound[v].tobytes(), single)


def _even(lists: int, length: int) -> pa.Array:
    """The offsets of so many lists of one length. Batches of matches share them."""
    return _offsets(1 + lists // _MANY, length).slice(0, lists + 1)


@lru_cache(maxsize=16)
def _offsets(blocks: int, length: int) -> pa.Array:
    return pa.array(np.arange(blocks * _MANY + 1, dtype=np.int32) * np.int32(length))


def _list_array(offsets: Int32s, values: Int64s) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _field(name: str, type: pa.DataType, column: str) -> pa.Field:
    return pa.field(column, type, metadata=None if name == column else {NAME: name.encode()})
