"""The latest values of each substream in words of 4 or 8 bytes: lags of numbers and times without looking for rows.

A substream has a row of a table: bits that say which of its latest values there are, then these, the last one first.
So an event reads what it asks for and shifts the row, near one another in memory, whatever the size of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from ceql.jit import Array
from ceql.recognition.lag_kernels import shift_words

_WORDS: Mapping[int, type] = {64: np.int64, 32: np.int32}
"""By the bits of a value."""


def in_words(type: pa.DataType) -> bool:
    """Whether values of this type are words."""
    return bool(pa.types.is_primitive(type)) and not pa.types.is_null(type) and type.bit_width in _WORDS


class LagWords:
    """The latest values of one attribute."""

    def __init__(self, type: pa.DataType, depth: int, count: int) -> None:
        self.type = type
        self._table: Array = np.zeros((count, depth + 1), np.int64)

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return int(self._table.nbytes)

    def lags(self, column: pa.Array, partitions: Array, steps: Sequence[int], count: int) -> list[pa.Array]:
        """The values so many events before, of `count` substreams; those of the column are past then."""
        if count > len(self._table):
            more = max(count - len(self._table), len(self._table))
            self._table = np.concatenate([self._table, np.zeros((more, self._table.shape[1]), np.int64)])
        rows, words = len(column), _WORDS[self.type.bit_width]
        values: Array = np.frombuffer(column.buffers()[1], words)[column.offset : column.offset + rows]
        # as lent by Arrow, it cannot be written to, and kernels are compiled for arrays that can
        values = np.require(values, None, ["C", "W"])
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else np.ones(0, np.bool_)
        taken: Array = np.empty((len(steps), rows), words)
        bits: Array = np.zeros((len(steps), -(-rows // 8)), np.uint8)
        lacking: Array = np.zeros(len(steps), np.int64)
        shift_words(partitions, values, valid, self._table, np.array(steps, np.int64), taken, bits, lacking)
        buffers = ([pa.py_buffer(one), pa.py_buffer(two)] for one, two in zip(bits, taken, strict=True))
        return [pa.Array.from_buffers(self.type, rows, own, int(n)) for own, n in zip(buffers, lacking, strict=True)]

    def forget(self, partitions: Array) -> None:
        """Forget the values of these substreams."""
        self._table[partitions[partitions < len(self._table)], 0] = 0

    def known(self, partitions: Array) -> Array:
        """Which of the latest values of these substreams there are, the last one first."""
        bits = np.zeros(len(partitions), np.int64)
        inside = partitions < len(self._table)
        bits[inside] = self._table[partitions[inside], 0]
        return np.asarray((bits[:, None] >> np.arange(self._table.shape[1] - 1)) & 1 > 0)

    def values(self, partitions: Array, wanted: Array) -> pa.Array:
        """The values of these substreams where `wanted`, one after the other."""
        rows, steps = np.nonzero(wanted)
        known = self.known(partitions)[rows, steps]
        words: Array = np.zeros(len(rows), _WORDS[self.type.bit_width])
        words[known] = self._table[partitions[rows[known]], steps[known] + 1]
        bits = np.packbits(known, bitorder="little")
        return pa.Array.from_buffers(self.type, len(rows), [pa.py_buffer(bits), pa.py_buffer(words)])

    def put(self, last: Array, column: pa.Array) -> None:
        """Let substreams have the values at these rows of a column; -1 stands for none."""
        words: Array = np.frombuffer(column.fill_null(0).buffers()[1], _WORDS[self.type.bit_width])
        words = words[column.offset if not column.null_count else 0 :][: len(column)]
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        known = (last >= 0) & np.append(valid, False)[last]
        self._table[: len(last), 1:] = np.where(known, np.append(words, 0)[last], 0)
        self._table[: len(last), 0] = (known << np.arange(last.shape[1])).sum(axis=1)
