"""Column slots: the tests of a query on one column cut its values into classes.

Each slot adds one digit, the class of the value, to a row's code (`kernels.py`). It knows what each of its tests says
of each class: True, False, or None for unknown. Class 0 is NULL. A dictionary-encoded column is classified by its
dictionary. `text_column` has the slot for text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.io.schemas import codes_of
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
            kernels.add_table(codes, _codes(values), table, self.classes)
        else:
            self._add(codes, values)

    def classify(self, values: pa.Array) -> Array:
        """The class of each value."""
        codes: Array = np.zeros(len(values), np.int32)
        self._add(codes, values)
        return codes

    @abstractmethod
    def _add(self, codes: Array, values: pa.Array) -> None: ...


def _codes(values: pa.DictionaryArray) -> Array:
    """The codes of a dictionary-encoded column, -1 for NULL; those that files have are not copied."""
    indices = values.indices
    if indices.null_count or indices.type != pa.int32():
        return codes_of(values)
    return raw(indices, np.int32)


class NumberColumn(AttributeColumn):
    """Numbers, booleans, dates and times. The classes are the ranges between cuts; NaN is the last class."""

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
        if pa.types.is_boolean(values.type):
            truths = np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False)).view(np.int8)
            table = 1 + np.searchsorted(self.cuts, np.arange(2), side="right").astype(np.int32)
            kernels.add_table(codes, truths, table, self.classes)
            if len(bitmap):
                kernels.clear_nulls(codes, bitmap, shift, self.classes)
            return
        numbers = self._numbers(values)
        if numbers is None:  # decimals of more than 64 bits, which Arrow compares with cut after cut
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
        if pa.types.is_decimal(type):
            low, high = decimal_words(values) if type.bit_width <= 128 else (None, None)
            return low if not self.wide and low is not None and bool(np.all(high == low >> 63)) else None
        if pa.types.is_signed_integer(type):
            return raw(values, _SIGNED[type.bit_width]).astype(np.int64, copy=False)
        return encode(values, self.attribute)


_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def _unscaled(values: pa.Array) -> pa.Array:
    """A decimal column as whole numbers, without the point."""
    type = values.type
    buffers = values.buffers()
    wide = pa.decimal256(type.precision, 0) if type.bit_width > 128 else pa.decimal128(type.precision, 0)
    return pa.Array.from_buffers(wide, len(values), buffers, offset=values.offset)


class MaskColumn(Column):
    """Any other test, as a vectorised mask of `node`. Classes: unknown, false, true."""

    classes = 3

    def __init__(self, node: t.Comparison | t.IsNull | t.Like, mask: Callable[[pa.RecordBatch], pa.Array]) -> None:
        self.node = node
        self.mask = mask

    def truth(self, test: int, klass: int) -> Truth:
        return None if klass == 0 else klass == 2

    def add(self, codes: Array, batch: pa.RecordBatch, streams: int | Array) -> None:
        _add_mask(codes, self.mask(batch))


class TextTestColumn(AttributeColumn):
    """LIKE, RLIKE or an order comparison on text, without the NOT of `node`. Classes: unknown, false, true."""

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
    """The stream of an event. Test k asks for stream k, which has class 1 + k."""

    def __init__(self, streams: int) -> None:
        self.classes = 1 + streams

    def truth(self, test: int, klass: int) -> Truth:
        return klass == test + 1

    def add(self, codes: Array, batch: pa.RecordBatch, streams: int | Array) -> None:
        codes *= self.classes
        codes += np.asarray(streams, np.int32) + np.int32(1)


def validity(values: pa.Array) -> tuple[Array, int]:
    """The validity bitmap and its bit offset; an empty bitmap if nothing is NULL."""
    if values.null_count == 0:
        return NO_BITMAP, 0
    buffer = values.buffers()[0]
    if buffer is None:  # a column of the null type
        return np.frombuffer(bytes(len(values) // 8 + 1), np.uint8), 0
    return np.frombuffer(buffer, np.uint8), values.offset


def raw(values: pa.Array, dtype: Any) -> Array:
    """The memory of the values as numpy; unspecified at NULLs."""
    buffer = values.buffers()[1]
    if buffer is None:
        return np.zeros(len(values), dtype)
    return np.frombuffer(buffer, dtype, values.offset + len(values))[values.offset :]
