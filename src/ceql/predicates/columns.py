"""Columns and the classes that the query's tests cut their values into.

Each column slot adds one digit to a row's code (`kernels.py`), and knows for each class what each of its tests
says: True, False, or None for unknown. Class 0 is NULL. A dictionary-encoded column is classified by its
dictionary, whatever the slot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.io.sort_keys import decimal_words, encode
from ceql.jit import Array
from ceql.predicates import kernels
from ceql.predicates.logic import Truth
from ceql.predicates.ranges import Ranges, contains, cuts
from ceql.syntax import tree as t

NO_BITMAP: Array = np.frombuffer(b"", np.uint8)


class Column(ABC):
    """A slot: one column (or expression) and the tests on it."""

    classes: int

    @abstractmethod
    def truth(self, test: int, klass: int) -> Truth:
        """What test number `test` says of the values of class `klass`."""

    @abstractmethod
    def add(self, codes: Array, batch: pa.RecordBatch, streams: int | Array) -> None:
        """Add this column's class as the last digit of every row's code."""


class AttributeColumn(Column):
    """A slot over one attribute."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute

    def add(self, codes: Array, batch: pa.RecordBatch, streams: int | Array) -> None:
        index = batch.schema.get_field_index(self.attribute)
        if index < 0:
            codes *= self.classes
            return
        values = batch.column(index)
        if pa.types.is_dictionary(values.type):
            table = np.zeros(len(values.dictionary), np.int32)
            self._add(table, values.dictionary)
            indices = values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
            kernels.add_table(codes, np.require(indices, requirements="W"), table, self.classes)
        else:
            self._add(codes, values)

    @abstractmethod
    def _add(self, codes: Array, values: pa.Array) -> None: ...


class NumberColumn(AttributeColumn):
    """Numbers, booleans, dates and times: classes are the ranges between cuts; NaN is the last class."""

    def __init__(self, attribute: str, type: pa.DataType, tests: list[Ranges]) -> None:
        super().__init__(attribute)
        self.floating = pa.types.is_floating(type)
        self.tests = tests
        ends = cuts(tests, type)
        self.ends = ends
        self.wide = any(abs(end) >= 2**63 for end in ends) and not self.floating  # decimals of more than 64 bits
        self.cuts: Array = np.array([] if self.wide else ends, np.float64 if self.floating else np.int64)
        padding = (1 << len(self.cuts).bit_length()) - 1 - len(self.cuts)
        greatest = np.inf if self.floating else 2**63 - 1
        self._padded = np.concatenate([self.cuts, np.full(padding, greatest, self.cuts.dtype)])
        unbounded = self.floating or pa.types.is_decimal(type)
        self._least: list[int | float] = [-np.inf if unbounded else -(2**63), *ends]
        self.classes = 2 + len(ends) + self.floating

    def truth(self, test: int, klass: int) -> Truth:
        if klass == 0 or klass > len(self._least):
            return None
        return contains(self.tests[test], self._least[klass - 1])

    def _add(self, codes: Array, values: pa.Array) -> None:
        bitmap, shift = validity(values)
        numbers = self._numbers(values)
        if numbers is None:  # decimals of more than 64 bits: compared by Arrow, cut by cut
            numbers = np.zeros(len(values), np.int64)
            for end in self.ends:
                if abs(end) >= 10**76:  # beyond every decimal
                    numbers += end < 0
                    continue
                scaled = pa.scalar(Decimal(end), pa.decimal256(76, 0))
                reached = pc.greater_equal(_unscaled(values), scaled).fill_null(False)
                numbers += reached.to_numpy(zero_copy_only=False)
            table = np.arange(1, self.classes, dtype=np.int32)
            nulls = values.is_null().to_numpy(zero_copy_only=False)
            kernels.add_table(codes, np.where(nulls, -1, numbers), table, self.classes)
            return
        kernels.add_cuts(codes, numbers, self._padded, len(self.cuts), self.classes)
        if len(bitmap):
            kernels.clear_nulls(codes, bitmap, shift, self.classes)

    def _numbers(self, values: pa.Array) -> Array | None:
        type = values.type
        if pa.types.is_null(type):
            return np.zeros(len(values), self.cuts.dtype)
        if self.floating:
            return raw(values, _FLOATS[type.bit_width]).astype(np.float64, copy=False)
        if pa.types.is_boolean(type):
            return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False)).astype(np.int64)
        if pa.types.is_decimal(type):
            low, high = decimal_words(values) if type.bit_width <= 128 else (None, None)
            return low if not self.wide and low is not None and bool(np.all(high == low >> 63)) else None
        if pa.types.is_signed_integer(type):
            return raw(values, _SIGNED[type.bit_width]).astype(np.int64, copy=False)
        return encode(values, self.attribute)


_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def _unscaled(values: pa.Array) -> pa.Array:
    """A decimal column as whole numbers of its least digit."""
    type = values.type
    buffers = values.buffers()
    wide = pa.decimal256(type.precision, 0) if type.bit_width > 128 else pa.decimal128(type.precision, 0)
    return pa.Array.from_buffers(wide, len(values), buffers, offset=values.offset)


class TextColumn(AttributeColumn):
    """Text compared for equality with literals: one class for each, and one for every other text."""

    def __init__(self, attribute: str, tests: list[frozenset[str]], negated: list[bool]) -> None:
        super().__init__(attribute)
        self.tests = tests
        self.negated = negated
        self.literals = sorted(frozenset().union(*tests))
        self.classes = 2 + len(self.literals)
        encoded = [literal.encode() for literal in self.literals]
        self._offsets: Array = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
        self._data: Array = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
        self._has_long = any(len(e) > 8 for e in encoded)
        self._chain: Array = np.zeros(len(encoded) + 1, np.uint64)
        first: dict[tuple[int, int], int] = {}  # numbered from 1; 0 is the end of a chain
        for k in range(len(encoded), 0, -1):
            head = encoded[k - 1][:8]
            like = (int.from_bytes(head, "little") << (64 - 8 * len(head)) & (2**64 - 1), len(encoded[k - 1]))
            self._chain[k] = first.get(like, 0)
            first[like] = k
        self._table, self._seed, self._shift = _perfect_hash(first)

    def truth(self, test: int, klass: int) -> Truth:
        if klass == 0:
            return None
        inside = klass >= 2 and self.literals[klass - 2] in self.tests[test]
        return inside != self.negated[test]

    def _add(self, codes: Array, values: pa.Array) -> None:
        if pa.types.is_null(values.type):
            codes *= self.classes
            return
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            values = values.cast(pa.large_string())
        _, offsets_buffer, data_buffer = values.buffers()
        width = np.int32 if pa.types.is_string(values.type) else np.int64
        offsets = np.frombuffer(offsets_buffer, width)[values.offset : values.offset + len(values) + 1]
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else NO_BITMAP
        words = _as_words(data)
        # the loop reads two words from each start on: the last texts are read from a padded copy
        safe = int(np.searchsorted(offsets[:-1], 8 * (len(words) - 1))) if len(words) else 0
        if safe:
            self._classify(codes[:safe], offsets[: safe + 1], data, words)
        if safe < len(codes):
            last = data[offsets[safe] : offsets[-1]].tobytes()
            padded = np.frombuffer(last + bytes(24 - len(last) % 8), np.uint8)
            moved = offsets[safe:] - offsets[safe]
            moved.flags.writeable = False
            self._classify(codes[safe:], moved, padded, padded.view(np.uint64))
        bitmap, shift = validity(values)
        if len(bitmap):
            kernels.clear_nulls(codes, bitmap, shift, self.classes)

    def _classify(self, codes: Array, offsets: Array, data: Array, words: Array) -> None:
        kernels.add_text(
            codes, offsets, data, words, self._table, self._seed, self._shift, self._has_long,
            self._offsets, self._data, self._chain, self.classes,
        )  # fmt: skip


def _perfect_hash(literals: dict[tuple[int, int], int]) -> tuple[Array, np.uint64, np.uint64]:
    """A table of (first word, length, number), with the multiplier and shift under which no two share a slot."""
    bits = max(3, (4 * len(literals)).bit_length())
    random = np.random.default_rng(0)
    while True:
        shift = np.uint64(64 - bits)
        for _ in range(64):
            seed = np.uint64(int(random.integers(1 << 62)) * 2 + 1)
            with np.errstate(over="ignore"):
                places = [int(kernels.text_slot(np.uint64(w), np.uint64(n), seed, shift)) for w, n in literals]
            if len(set(places)) == len(places):
                table: Array = np.zeros((1 << bits, 3), np.uint64)
                for place, ((word, length), number) in zip(places, literals.items(), strict=True):
                    table[place] = (word, length, number)
                return table, seed, shift
        bits += 1


def _as_words(data: Array) -> Array:
    """The bytes as aligned 64-bit words, as far as they go."""
    whole = data[: len(data) // 8 * 8]
    if len(whole) == 0:
        return np.frombuffer(b"", np.uint64)
    if whole.ctypes.data % 8:
        whole = np.frombuffer(whole.tobytes(), np.uint8)
    return whole.view(np.uint64)


class MaskColumn(Column):
    """Any other test: a vectorised mask of `node`. Classes: unknown, false, true."""

    classes = 3

    def __init__(self, node: t.Comparison | t.IsNull, mask: Callable[[pa.RecordBatch], pa.Array]) -> None:
        self.node = node
        self.mask = mask

    def truth(self, test: int, klass: int) -> Truth:
        return None if klass == 0 else klass == 2

    def add(self, codes: Array, batch: pa.RecordBatch, streams: int | Array) -> None:
        _add_mask(codes, self.mask(batch))


class TextTestColumn(AttributeColumn):
    """LIKE, RLIKE or an order comparison on text, whatever NOT stands in `node`. Classes: unknown, false, true."""

    classes = 3

    def __init__(self, attribute: str, node: t.Like | t.Comparison, test: Callable[[pa.Array], pa.Array]) -> None:
        super().__init__(attribute)
        self.node = node
        self.test = test

    def truth(self, test: int, klass: int) -> Truth:
        return None if klass == 0 else klass == 2

    def _add(self, codes: Array, values: pa.Array) -> None:
        if pa.types.is_null(values.type):
            codes *= 3
            return
        _add_mask(codes, self.test(values))


def _add_mask(codes: Array, mask: pa.Array) -> None:
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    values = mask.cast(pa.int8()).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    kernels.add_table(codes, values, np.array([1, 2], np.int32), 3)


class NullColumn(AttributeColumn):
    """IS NULL. Classes: NULL, not NULL."""

    classes = 2

    def truth(self, test: int, klass: int) -> Truth:
        return klass == 0

    def add(self, codes: Array, batch: pa.RecordBatch, streams: int | Array) -> None:
        index = batch.schema.get_field_index(self.attribute)
        codes *= 2
        if index >= 0:
            codes += batch.column(index).is_valid().to_numpy(zero_copy_only=False)

    def _add(self, codes: Array, values: pa.Array) -> None:
        raise AssertionError("add() needs no values")


class StreamColumn(Column):
    """Which stream an event comes from. Test k: it is stream k. Class 1 + stream."""

    def __init__(self, streams: int) -> None:
        self.classes = 1 + streams

    def truth(self, test: int, klass: int) -> Truth:
        return klass == test + 1

    def add(self, codes: Array, batch: pa.RecordBatch, streams: int | Array) -> None:
        codes *= self.classes
        codes += np.asarray(streams, np.int32) + np.int32(1)


def validity(values: pa.Array) -> tuple[Array, int]:
    """The validity bitmap and its bit offset; an empty bitmap when nothing is NULL."""
    if values.null_count == 0:
        return NO_BITMAP, 0
    buffer = values.buffers()[0]
    if buffer is None:  # a null-typed column: nothing is valid
        return np.frombuffer(bytes(len(values) // 8 + 1), np.uint8), 0
    return np.frombuffer(buffer, np.uint8), values.offset


def raw(values: pa.Array, dtype: Any) -> Array:
    """The values' own memory as numpy, whatever stands at NULLs."""
    buffer = values.buffers()[1]
    if buffer is None:
        return np.zeros(len(values), dtype)
    return np.frombuffer(buffer, dtype)[values.offset : values.offset + len(values)]
