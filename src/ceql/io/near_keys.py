"""Numbers of integer keys that are near each other, found without hashing: a table from the key to its number.

In: a column of integers. Out: the number of each row's key, for those that are known; the others are asked of the table
of all keys (`io.numbering`) and remembered here. This table can be dropped at any time: it knows nothing that the other
does not. Keys that spread over a far wider range than they are many are left to the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ceql.io.numbering_kernels import number_near
from ceql.jit import Array

_WIDEST = 1 << 22  # a table of 16 MB
_SPARSE, _SMALL = 32, 1 << 16  # places for each key, and those that any table may have
_UNKNOWN = -1
_FIRST = 1 << 14  # rows of a batch that are looked up first; then twice as many


def is_near(type: pa.DataType) -> bool:
    """Whether keys of this type may be in the table."""
    return bool(pa.types.is_integer(type)) and type != pa.uint64()


class NearKeys:
    """The numbers of integer keys from `_low` on."""

    def __init__(self) -> None:
        self._low = 0
        self._table: Array = np.zeros(0, np.int32)
        self._place: Array = np.zeros(0, np.int64)  # of each number, where the table has it; -1: nowhere

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return int(self._table.nbytes + self._place.nbytes)

    def numbers(self, column: pa.Array, ask: Callable[[pa.Array], Array]) -> Array:
        """The number of each row, -1 for NULL; `ask` gives those of keys that are not known here."""
        null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        keys = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
        keys = keys.astype(np.int64, copy=False)
        numbers: Array = np.empty(len(keys), np.int32)
        unknown: Array = np.empty(len(keys), np.int64)
        begin, size = 0, _FIRST
        while begin < len(keys):  # a key that comes again is known by then, but for those of the same piece
            end = min(begin + size, len(keys))
            count = number_near(keys[begin:end], self._low, self._table, numbers[begin:end], unknown)
            if count:
                rows = unknown[:count] + begin
                if null is not None:
                    rows = rows[~null[rows]]
                if len(rows):
                    numbers[rows] = found = ask(column.take(pa.array(rows)))
                    self._remember(keys[rows], found)
            begin, size = end, 2 * size
        if null is not None:
            numbers[null] = -1
        return numbers

    def _remember(self, keys: Array, numbers: Array) -> None:
        low, high = int(keys.min()), int(keys.max())
        if len(self._table):
            low, high = min(low, self._low), max(high, self._low + len(self._table) - 1)
        span = high - low + 1
        if span > len(self._table):
            if span > min(_WIDEST, _SPARSE * (int(numbers.max()) + 1) + _SMALL):
                return
            size = min(_WIDEST, max(span, 2 * len(self._table)))
            table = np.full(size, _UNKNOWN, np.int32)
            table[self._low - low : self._low - low + len(self._table)] = self._table
            self._place = np.where(self._place >= 0, self._place + self._low - low, -1)
            self._low, self._table = low, table
        most = int(numbers.max()) + 1
        if most > len(self._place):
            more = np.full(max(most - len(self._place), len(self._place)), -1, np.int64)
            self._place = np.concatenate([self._place, more])
        self._table[keys - self._low] = numbers
        self._place[numbers] = keys - self._low

    def forget(self, numbers: Array) -> None:
        """Forget the keys of these numbers, which will be given to others."""
        known = numbers[numbers < len(self._place)]
        places = self._place[known]
        self._table[places[places >= 0]] = _UNKNOWN
        self._place[known] = -1
