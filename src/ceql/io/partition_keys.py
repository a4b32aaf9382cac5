"""The PARTITION BY clause: the substream of each row, as a small number.

Keys compare by value: the integer 1 and the float 1.0 are the same key. A row belongs to no substream if a part of its
key is NULL or NaN, or if a part with types does not list the row's type. `io.values` turns each part into words and
bytes, and `io.numbering` numbers whole batches of keys. The number of an empty substream is used again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError, SchemaError, no_column
from ceql.io.near_keys import NearKeys, is_near
from ceql.io.numbering import Numbering, Values
from ceql.io.schemas import codes_of, column_of, is_comparable, is_text, kind_of, names_near, value_type
from ceql.io.soundness import require_utf8
from ceql.io.values import coded, from_state, numbers_by_code, to_array, to_state, to_values
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
        self.schema = schema
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
        self._numbering = Numbering(len(parts))
        self._near = NearKeys()
        self.reused: list[int] = []  # numbers used again; the caller empties the list

    def _part_type(self, part: t.Part, schema: pa.Schema, open_schema: bool) -> pa.DataType:
        """The type in which the part is shown. Its references must be of one kind."""
        first: pa.DataType | None = None
        for ref in part.refs:
            index = schema.get_field_index(ref.attribute)
            if index < 0 and not open_schema:
                raise no_column(ref.attribute, names_near(schema, ref.attribute), self.source, ref.span)
            kind = value_type(schema.field(index).type) if index >= 0 else pa.null()
            if not is_comparable(kind):
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
        return len(self._numbering)

    @property
    def known(self) -> int:
        """How many substreams have a number now."""
        return self._numbering.known

    @property
    def nbytes(self) -> int:
        """The memory that the keys take."""
        return self._numbering.nbytes + self._near.nbytes

    def numbers(self, batch: pa.RecordBatch, streams: int | Array, stream_names: Sequence[str | None]) -> Array:
        """The substream of every row, -1 for none."""
        if len(self.columns) == 1 and not self._by_stream:
            column = _column(batch, self.columns[0])

            def ask(values: pa.Array) -> Array:
                return self._numbers_by_row(pa.record_batch([values], names=self.columns), 0, stream_names)

            if is_near(column.type):
                return self._near.numbers(column, ask)
            by_code = coded(column)
            if by_code is not None:
                return numbers_by_code(by_code, ask)
        return self._numbers_by_row(batch, streams, stream_names)

    def _numbers_by_row(self, batch: pa.RecordBatch, streams: int | Array, stream_names: Sequence[str | None]) -> Array:
        rows = _Rows(self, batch, streams, stream_names)
        return self.numbers_of([rows.part(part, shown) for part, shown in zip(self.parts, self.types, strict=True)])

    def numbers_of(self, parts: Sequence[Values]) -> Array:
        """The substreams of these keys, given part by part."""
        numbers, reused = self._numbering.numbers(parts)
        self.reused += reused.tolist()
        return numbers

    def values(self, numbers: Array) -> list[Values]:
        """The keys of these substreams, part by part."""
        return self._numbering.values(numbers)

    def release(self, numbers: Sequence[int] | Array) -> None:
        """Forget the keys of these substreams, which are empty."""
        released = np.asarray(numbers, np.int64)
        self._near.forget(released)
        self._numbering.release(released)

    def key_columns(self, numbers: Sequence[int] | Array) -> pa.RecordBatch:
        """The keys of these substreams, a column for each part."""
        keys = self._numbering.values(np.asarray(numbers, np.int64))
        columns = [to_array(part, type) for part, type in zip(keys, self.types, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=[f"{k}" for k in range(len(columns))])

    def hashes(self, numbers: Array) -> Array:
        """A hash of the key of each of these substreams: 32 bits that follow from the key alone."""
        return self._numbering.hashes(numbers)

    @property
    def used(self) -> Array:
        """The numbers of the known substreams, ascending."""
        return self._numbering.used

    def state(self) -> pa.RecordBatch:
        """The keys of the known substreams, which are numbered anew in the order of `used`."""
        used = self.used
        return state_batch(np.arange(len(used)), self._numbering.values(used))

    def restore(self, state: pa.RecordBatch, count: int) -> None:
        """Continue from a `state` with room for `count` substreams."""
        numbers, parts = state_parts(state, len(self.parts))
        self._numbering = Numbering.restored(numbers, parts, count)
        self._near = NearKeys()


def state_batch(numbers: Array, parts: Sequence[Values]) -> pa.RecordBatch:
    """The form of `PartitionKeys.state`."""
    columns = {"number": pa.array(numbers, pa.int64())}
    for k, part in enumerate(parts):
        columns |= dict(zip((f"{k}.word", f"{k}.kind", f"{k}.bytes"), to_state(part), strict=True))
    return pa.record_batch(columns)


def state_parts(state: pa.RecordBatch, count: int) -> tuple[Array, list[Values]]:
    """The numbers and keys of such a `state`, whose keys have `count` parts."""
    numbers, *columns = state.columns
    if len(columns) != 3 * count:
        raise DataError("the snapshot is damaged: its keys have more or fewer parts than those of the query")
    return numbers.to_numpy(), [from_state(columns[k : k + 3]) for k in range(0, len(columns), 3)]


class _Rows:
    """One batch, from which the parts of each row's key are read by the row's type."""

    def __init__(
        self, keys: PartitionKeys, batch: pa.RecordBatch, streams: int | Array, stream_names: Sequence[str | None]
    ) -> None:
        self.keys = keys
        self.batch = batch
        self.streams = streams
        # events without a type column have the name of their stream as their type
        self.stream_types = [
            name if keys.type_column is None or k in keys.untyped else None for k, name in enumerate(stream_names)
        ]

    def part(self, part: t.Part, shown: pa.DataType) -> Values:
        """The values of one part. If it lists several attributes of a row, these must be equal."""
        refs = [(ref, to_values(_key_column(self.batch, ref.attribute), shown)) for ref in part.refs]
        if len(refs) == 1 and refs[0][0].name is None:
            return refs[0][1]
        data = np.concatenate([values.data for _, values in refs])
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
    column = column_of(batch, name)
    # decimals are slow to convert and seldom all different
    return column.dictionary_encode() if pa.types.is_decimal(column.type) else column


def _key_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The column; its texts are shown with the matches, so they must be UTF-8."""
    column = _column(batch, name)
    return require_utf8(column, f"column '{name}' is a key and") if is_text(column.type) else column


def _is_text(column: pa.Array, text: str) -> Array:
    """Which rows have this text."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    if pa.types.is_dictionary(column.type):
        return np.append(_is_text(column.dictionary, text), False)[codes_of(column)]
    equal = pc.equal(column.cast(pa.large_string()), pa.scalar(text, pa.large_string()))
    return np.asarray(equal.fill_null(False).to_numpy(zero_copy_only=False))


def _equal(a: Values, b: Values) -> Array:
    """Which rows have equal values in both columns; unspecified for NULLs."""
    numbering = Numbering(1)
    (of_a, _), (of_b, _) = (numbering.numbers([values]) for values in (a, b))
    return np.equal(of_a, of_b)


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(a):
        return pa.timestamp("us", tz=a.tz)
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    if kind_of(a) == "number":
        return pa.float64()
    return pa.large_string()
