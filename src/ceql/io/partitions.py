"""The PARTITION BY clause: which substream a row belongs to, as a small number.

Keys compare by value (the integer 1 and the float 1.0 are one key). A row with a NULL or NaN part belongs to no
substream, and so does one whose type a type-qualified part does not list. Work is done per distinct
combination of values in a batch, never per row. Numbers of substreams that hold nothing any more are used again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import SchemaError, no_column
from ceql.io.keys import decode, encode
from ceql.io.schemas import kind_of
from ceql.syntax import tree as t

Array = np.ndarray[Any, np.dtype[Any]]


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
        self._plain = len(self.columns) == len(parts) and all(
            len(part.refs) == 1 and part.refs[0].name is None for part in parts
        )
        self.values: list[tuple[Hashable, ...] | None] = []
        self._number: dict[tuple[Hashable, ...], int] = {}
        self._free: list[int] = []
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
                raise SchemaError(
                    f"PARTITION BY compares '{part.refs[0].attribute}' ({first}) with '{ref.attribute}' ({kind})",
                    self.source,
                    ref.span,
                )
            elif kind != first and not pa.types.is_null(kind):
                first = _common(first, kind)
        assert first is not None
        return first

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> int:
        """How many substreams have a number now."""
        return len(self._number)

    def numbers(self, batch: pa.RecordBatch, streams: int | Array, stream_names: Sequence[str | None]) -> Array:
        """The substream of every row, -1 for none."""
        codes: Array = np.zeros(batch.num_rows, np.int64)
        rows: list[tuple[Any, ...]] = [()]  # the distinct combinations; codes index into it
        for name in self.columns:
            index = batch.schema.get_field_index(name)
            values = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows)
            known, numbers = _distinct(values, self._type_of(name))
            codes, rows = _combine(codes, rows, numbers + 1, [None, *known])
        if self._by_stream:
            names = [n if self.type_column is None or k in self.untyped else None for k, n in enumerate(stream_names)]
            codes, rows = _combine(codes, rows, np.broadcast_to(streams, len(codes)), names)
        present = np.zeros(len(rows), np.bool_)
        present[codes] = True
        lookup: Array = np.full(len(rows), -1, np.int32)
        there = np.flatnonzero(present).tolist()
        # most keys are known already, and most clauses take keys as they are
        found = [self._number.get(rows[code]) for code in there] if self._plain else [None] * len(there)
        lookup[there] = [self._number_of(rows[c]) if n is None else n for c, n in zip(there, found, strict=True)]
        return lookup[codes]

    def _type_of(self, name: str) -> pa.DataType | None:
        for part, kind in zip(self.parts, self.types, strict=True):
            if any(ref.attribute == name for ref in part.refs):
                return kind
        return None

    def _number_of(self, row: tuple[Any, ...]) -> int:
        key = self._key(row)
        if key is None:
            return -1
        number = self._number.get(key)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.values[number] = key
                self.reused.append(number)
            else:
                number = len(self.values)
                self.values.append(key)
            self._number[key] = number
        return number

    def _key(self, row: tuple[Any, ...]) -> tuple[Hashable, ...] | None:
        if self._plain:
            return None if None in row else row
        value = dict(zip(self.columns, row, strict=False))
        event_type = None if self.type_column is None else value.get(self.type_column)
        if self._by_stream and row[-1] is not None:
            event_type = row[-1]
        key: list[Hashable] = []
        for part in self.parts:
            found = [value[ref.attribute] for ref in part.refs if ref.name is None or ref.name == event_type]
            if not found or any(v is None or v != found[0] for v in found):
                return None
            key.append(found[0])
        return tuple(key)

    def release(self, numbers: Iterable[int]) -> None:
        """Forget the keys of substreams that hold nothing."""
        for number in numbers:
            if number < len(self.values) and self.values[number] is not None:
                del self._number[self.values[number]]  # type: ignore[arg-type]
                self.values[number] = None
                self._free.append(number)

    def key_columns(self, numbers: Iterable[int]) -> pa.RecordBatch:
        """The keys of these substreams, a column for each part."""
        keys = [self.values[n] for n in numbers]
        columns = []
        for k, kind in enumerate(self.types):
            values = [key[k] for key in keys if key is not None]
            if pa.types.is_null(kind):  # the attribute came after the columns were fixed
                columns.append(pa.array([str(v) for v in values], pa.large_string()))
            elif pa.types.is_temporal(kind):
                columns.append(decode(np.array(values, np.int64), kind))
            elif pa.types.is_floating(kind):
                columns.append(pa.array([float(v) for v in values], kind))  # type: ignore[arg-type]
            else:
                columns.append(pa.array(values, kind))
        return pa.RecordBatch.from_arrays(columns, names=[f"{k}" for k in range(len(columns))])

    def state(self) -> pa.RecordBatch:
        """The known substreams: their numbers and keys, as text that gives the very values back."""
        used = [n for n, key in enumerate(self.values) if key is not None]
        columns = [[_to_text((self.values[n] or ())[k]) for n in used] for k in range(len(self.parts))]
        arrays = [pa.array(used, pa.int64()), *(pa.array(column, pa.large_string()) for column in columns)]
        return pa.RecordBatch.from_arrays(arrays, names=["number", *map(str, range(len(columns)))])

    def restore(self, state: pa.RecordBatch, count: int) -> None:
        """Continue from a `state` with room for `count` substreams."""
        self.values = [None] * count
        numbers, *columns = (column.to_pylist() for column in state.columns)
        for number, *texts in zip(numbers, *columns, strict=True):
            key = tuple(_from_text(text) for text in texts)
            self.values[number] = key
            self._number[key] = number
        self._free = [n for n in range(count - 1, -1, -1) if self.values[n] is None]


def _to_text(value: Hashable) -> str:
    match value:
        case bool():
            return f"bool {int(value)}"
        case int():
            return f"int {value}"
        case float():
            return f"float {value.hex()}"
        case Decimal():
            return f"decimal {value}"
        case bytes():
            return f"bytes {value.hex()}"
        case _:
            return f"text {value}"


def _from_text(text: str) -> Hashable:
    kind, _, value = text.partition(" ")
    match kind:
        case "bool":
            return value == "1"
        case "int":
            return int(value)
        case "float":
            return float.fromhex(value)
        case "decimal":
            return Decimal(value)
        case "bytes":
            return bytes.fromhex(value)
        case _:
            return value


def _distinct(values: pa.Array, kind: pa.DataType | None) -> tuple[list[Any], Array]:
    """The distinct values, comparable by value, and each row's index among them (-1 for NULL and NaN)."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    indices = values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return _plain(values.dictionary, kind), indices


def _plain(values: pa.Array, kind: pa.DataType | None) -> list[Any]:
    """Python values that compare by value; times as ticks of `kind`, NaN as None."""
    if pa.types.is_temporal(values.type):
        if kind is not None and values.type != kind:
            values = values.cast(kind)
        return [
            key if ok else None
            for key, ok in zip(encode(values, "").tolist(), values.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    listed: list[Any] = values.to_pylist()
    return listed


def _combine(
    codes: Array, rows: list[tuple[Any, ...]], more: Array, values: list[Any]
) -> tuple[Array, list[tuple[Any, ...]]]:
    """Codes and combinations with a further column, whose rows hold `values[more]`."""
    if len(rows) == 1:
        return codes + more, [(*rows[0], value) for value in values]
    size = len(values)
    encoded = pa.array(codes * size + more).dictionary_encode()
    combined = encoded.dictionary.to_pylist()
    return (
        encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        [(*rows[c // size], values[c % size]) for c in combined],
    )


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(a):
        return pa.timestamp("us", tz=a.tz)
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    if kind_of(a) == "number":
        return pa.float64()
    return pa.large_string()
