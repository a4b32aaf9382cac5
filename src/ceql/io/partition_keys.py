"""The PARTITION BY clause: which substream a row belongs to, as a small number.

Keys compare by value (the integer 1 and the float 1.0 are one key). A row with a NULL or NaN part belongs to no
substream, and so does one whose type a type-qualified part does not list. Each part of the key becomes a column of
words and bytes (`io.values`), and whole batches are looked up in a hash table (`io.numbering`).
Numbers of substreams that hold nothing any more are used again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import SchemaError, no_column
from ceql.io.numbering import Numbering
from ceql.io.schemas import kind_of
from ceql.io.values import Values, from_state, side_by_side, to_array, to_state, to_values
from ceql.jit import Array
from ceql.syntax import tree as t


class PartitionKeys:
    """Numbers the substreams of a partitioned stream."""

    def __init__(
        self,
        parts: Sequence[t.Part],
        schema: pa.Schema,
        type_column: str | None,
        open_schema: bool,
        source: str,
        untyped: frozenset[int] = frozenset(),
    ) -> None:
        self.parts = parts
        self.source = source
        self.type_column = type_column
        self.untyped = untyped
        self.types = [self._part_type(part, schema, open_schema) for part in parts]
        self.shown_types = [pa.large_string() if pa.types.is_null(kind) else kind for kind in self.types]
        self.names = [part.refs[0].attribute for part in parts]
        columns = [ref.attribute for part in parts for ref in part.refs]
        if type_column is not None and any(ref.name is not None for part in parts for ref in part.refs):
            columns.append(type_column)
        self.columns = list(dict.fromkeys(columns))
        self._by_stream = (type_column is None or bool(untyped)) and any(r.name for part in parts for r in part.refs)
        self._table = Numbering(len(parts))
        self.reused: list[int] = []  # numbers handed out again since the caller last looked

    def _part_type(self, part: t.Part, schema: pa.Schema, open_schema: bool) -> pa.DataType:
        """The type in which the part's key is shown; all its references must be of one kind."""
        first: pa.DataType | None = None
        for ref in part.refs:
            index = schema.get_field_index(ref.attribute)
            if index < 0 and not open_schema:
                raise no_column(ref.attribute, schema.names, self.source, ref.span)
            kind = schema.field(index).type if index >= 0 else pa.null()
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            if pa.types.is_nested(kind):
                raise SchemaError(f"column '{ref.attribute}' ({kind}) cannot be a key", self.source, ref.span)
            if first is None or pa.types.is_null(first):
                first = kind
            elif not pa.types.is_null(kind) and kind_of(kind) != kind_of(first):
                one, other = part.refs[0].attribute, ref.attribute
                raise SchemaError(
                    f"cannot compare column '{one}' ({first}) with column '{other}' ({kind})",
                    self.source,
                    ref.span,
                )
            elif kind != first and not pa.types.is_null(kind):
                first = _common(first, kind)
        assert first is not None
        return first

    def __len__(self) -> int:
        return len(self._table)

    @property
    def known(self) -> int:
        """How many substreams have a number now."""
        return self._table.known

    def numbers(self, batch: pa.RecordBatch, streams: int | Array, stream_names: Sequence[str | None]) -> Array:
        """The substream of every row, -1 for none."""
        if len(self.columns) == 1 and not self._by_stream:
            column = _column(batch, self.columns[0])
            if pa.types.is_dictionary(column.type) and 2 * len(column.dictionary) <= len(column):
                return self._numbers_by_code(column, stream_names)
        return self._numbers_by_row(batch, streams, stream_names)

    def _numbers_by_row(self, batch: pa.RecordBatch, streams: int | Array, stream_names: Sequence[str | None]) -> Array:
        rows = _Rows(self, batch, streams, stream_names)
        parts = [rows.part(part, shown) for part, shown in zip(self.parts, self.types, strict=True)]
        numbers, reused = self._table.numbers(*side_by_side(parts))
        self.reused += reused.tolist()
        return numbers

    def _numbers_by_code(self, column: pa.Array, stream_names: Sequence[str | None]) -> Array:
        """The same for one dictionary-encoded column: its values are looked up, those that the batch has."""
        codes: Array = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        here = np.zeros(len(column.dictionary) + 1, np.bool_)
        here[codes] = True
        used = np.flatnonzero(here[:-1])
        lookup: Array = np.full(len(here), -1, np.int32)
        values = pa.record_batch([column.dictionary.take(pa.array(used))], names=self.columns)
        lookup[used] = self._numbers_by_row(values, 0, stream_names)
        return lookup[codes]

    def release(self, numbers: Sequence[int] | Array) -> None:
        """Forget the keys of substreams that hold nothing."""
        self._table.release(np.asarray(numbers, np.int64))

    def key_columns(self, numbers: Sequence[int] | Array) -> pa.RecordBatch:
        """The keys of these substreams, a column for each part."""
        keys = self._keys(np.asarray(numbers, np.int64))
        columns = [to_array(part, type) for part, type in zip(keys, self.types, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=[f"{k}" for k in range(len(columns))])

    def _keys(self, numbers: Array) -> list[Values]:
        keys, data = self._table.table.keys[numbers], self._table.table.data
        ok = np.ones(len(keys), np.bool_)
        return [Values(keys[:, k].copy(), keys[:, k + 1].copy(), data, ok) for k in range(0, keys.shape[1], 2)]

    @property
    def used(self) -> Array:
        """The numbers of the known substreams, ascending."""
        return self._table.used

    def state(self) -> pa.RecordBatch:
        """The known substreams, numbered anew in the order of `used`; for each part, what `to_state` makes of it."""
        used = self.used
        return state_batch(np.arange(len(used)), self._keys(used))

    def restore(self, state: pa.RecordBatch, count: int) -> None:
        """Continue from a `state` with room for `count` substreams."""
        numbers, *columns = state.columns
        parts = [from_state(columns[k : k + 3]) for k in range(0, len(columns), 3)]
        rows, data, _ = side_by_side(parts)
        self._table = Numbering(len(self.parts))
        self._table.restore(numbers.to_numpy(), rows, data, count)


def state_batch(numbers: Array, parts: Sequence[Values]) -> pa.RecordBatch:
    """The form of `PartitionKeys.state`."""
    columns = {"number": pa.array(numbers, pa.int64())}
    for k, part in enumerate(parts):
        columns |= dict(zip((f"{k}.word", f"{k}.kind", f"{k}.bytes"), to_state(part), strict=True))
    return pa.record_batch(columns)


class _Rows:
    """One batch, and what each row's type makes of the parts of a key."""

    def __init__(
        self, keys: PartitionKeys, batch: pa.RecordBatch, streams: int | Array, stream_names: Sequence[str | None]
    ) -> None:
        self.keys = keys
        self.batch = batch
        self.streams = streams
        # the name of a stream is the type of its events where they have no other
        self.stream_types = [
            name if keys.type_column is None or k in keys.untyped else None for k, name in enumerate(stream_names)
        ]

    def part(self, part: t.Part, shown: pa.DataType) -> Values:
        """The values of one part: of a row's attributes that the part lists, which must be equal."""
        refs = [(ref, to_values(_column(self.batch, ref.attribute), shown)) for ref in part.refs]
        if len(refs) == 1 and refs[0][0].name is None:
            return refs[0][1]
        _, data, _ = side_by_side([values for _, values in refs])
        word, at = np.zeros((2, self.batch.num_rows), np.int64)
        ok = found = np.zeros(self.batch.num_rows, np.bool_)
        base = 0
        for ref, values in refs:
            here = values._replace(at=np.where(values.at >= 0, values.at + base, values.at), data=data)
            base += len(values.data)
            listed = np.ones(len(ok), np.bool_) if ref.name is None else self._is_of_type(ref.name)
            again = listed & found
            ok = np.where(again, ok & values.ok, np.where(listed, values.ok, ok))
            if again.any():
                ok[again] &= _equal(Values(word, at, data, ok).take(again), here.take(again))
            fresh = listed & ~found
            word, at = np.where(fresh, here.word, word), np.where(fresh, here.at, at)
            found = found | listed
        return Values(word, at, data, ok)

    def _is_of_type(self, name: str) -> Array:
        keys = self.keys
        if keys.type_column is None:
            of_type = np.zeros(self.batch.num_rows, np.bool_)
        else:
            of_type = _is_text(_column(self.batch, keys.type_column), name)
        if not keys._by_stream:
            return of_type
        named: Array = np.array([other is not None for other in self.stream_types])
        same = np.array([other == name for other in self.stream_types])
        streams = np.broadcast_to(self.streams, len(of_type))
        return np.where(named[streams], same[streams], of_type)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    index = batch.schema.get_field_index(name)
    column = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows)
    # what is done with decimals is slow, and they are seldom all different
    return column.dictionary_encode() if pa.types.is_decimal(column.type) else column


def _is_text(column: pa.Array, text: str) -> Array:
    """Which rows have this text."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    if pa.types.is_dictionary(column.type):
        codes: Array = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return np.append(_is_text(column.dictionary, text), False)[codes]
    equal = pc.equal(column.cast(pa.large_string()), pa.scalar(text, pa.large_string()))
    return np.asarray(equal.fill_null(False).to_numpy(zero_copy_only=False))


def _equal(a: Values, b: Values) -> Array:
    """Which rows have equal values in both; says nothing of NULLs."""
    table = Numbering(1)
    (of_a, _), (of_b, _) = (table.numbers(*side_by_side([values])) for values in (a, b))
    return np.equal(of_a, of_b)


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(a):
        return pa.timestamp("us", tz=a.tz)
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    if kind_of(a) == "number":
        return pa.float64()
    return pa.large_string()
