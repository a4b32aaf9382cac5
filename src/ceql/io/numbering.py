"""Numbering: equal keys get the same small number, a whole batch of keys at a time.

A key has one value for each of its parts, and each value is a pair (word, at). A negative `at` names the kind of the
value, which is the word itself. Otherwise the value is `word >> 2` bytes that start at `at` in an array of bytes, and
the last two bits of the word name its kind. Equal values have equal pairs (`io.values` makes them), so keys compare as
words and bytes.

The table uses open addressing with linear probing. A slot has 64 bits, half of the hash and the number, so slots move
without looking at keys. `release` builds new slots instead of deleting from them, since its callers release many keys
at a time. Kernels allocate nothing: one that runs out of room returns and continues at the same row with larger arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceql.errors import DataError
from ceql.io.numbering_kernels import (
    COUNT,
    END,
    FREE,
    FREED,
    PADDING,
    Table,
    gather,
    hash_keys,
    move_slots,
    number_rows,
)
from ceql.jit import Array

_LEAST = 1024  # slots
_BLOCK = 128  # rows that are looked up at a time


class Values(NamedTuple):
    """A column of values as pairs."""

    word: Array
    at: Array
    data: Array
    ok: Array  # False for NULL and NaN, whose pairs mean nothing

    def take(self, rows: Array) -> Values:
        """These rows of the column."""
        return Values(self.word[rows], self.at[rows], self.data, self.ok[rows])


class Numbering:
    """Gives numbers to keys of `parts` parts. Released numbers are given again, the least first."""

    def __init__(self, parts: int) -> None:
        self.table = Table(
            slots=np.zeros(_LEAST, np.int64),
            keys=np.full((_LEAST // 2, 2 * parts), FREE),
            data=np.zeros(PADDING, np.uint8),
            free=np.zeros(0, np.int32),
            registers=np.zeros(3, np.int64),
        )
        self._block = np.zeros((_BLOCK, 2), np.int64)

    def __len__(self) -> int:
        """One more than the greatest number given so far."""
        return int(self.table.registers[COUNT])

    @property
    def known(self) -> int:
        """How many numbers have a key."""
        return int(self.table.registers[COUNT] - self.table.registers[FREED])

    @property
    def used(self) -> Array:
        """The numbers that have a key."""
        used = np.ones(len(self), np.bool_)
        used[self.table.free[: self.table.registers[FREED]]] = False
        return np.flatnonzero(used)

    @property
    def nbytes(self) -> int:
        """The memory that the keys take."""
        return int(sum(array.nbytes for array in self.table))

    def numbers(self, parts: Sequence[Values]) -> tuple[Array, Array]:
        """The number of each row's key, -1 where a part is not `ok`; and the released numbers that were given again."""
        rows, data, ok = _side_by_side(parts)
        numbers = np.where(ok, np.int32(0), np.int32(-1))
        before, released = int(self.table.registers[FREED]), self.table.free
        row = 0
        with np.errstate(over="ignore"):  # where Numba is switched off
            while (row := number_rows(rows, data, numbers, self._block, row, self.table)) < len(numbers):
                self._grow(rows[row])
        return numbers, released[self.table.registers[FREED] : before][::-1].copy()

    def values(self, numbers: Array) -> list[Values]:
        """The keys with these numbers, part by part."""
        keys = self.table.keys[numbers]
        ok = np.ones(len(keys), np.bool_)
        pairs = ((keys[:, k].copy(), keys[:, k + 1].copy()) for k in range(0, keys.shape[1], 2))
        return [Values(word, at, self.table.data, ok) for word, at in pairs]

    def hashes(self, numbers: Array) -> Array:
        """A hash of the key of each of these numbers: 32 bits that follow from the key alone."""
        found = np.empty(len(numbers), np.int64)
        with np.errstate(over="ignore"):
            hash_keys(self.table, np.ascontiguousarray(numbers, np.int64), found)
        return found

    def _grow(self, row: Array) -> None:
        """Make room for at least this key."""
        table = self.table
        count, freed, end = table.registers.tolist()
        slots, keys, data = table.slots, table.keys, table.data
        if 2 * (count - freed) >= len(slots):
            slots = np.zeros(2 * len(slots), np.int64)
            move_slots(table.slots, keys, slots)
        number = int(table.free[freed - 1]) if freed else count
        if number >= len(keys):
            keys = np.concatenate([keys, np.full((max(len(keys), number + 1 - len(keys)), keys.shape[1]), FREE)])
        if end + byte_size(row) + PADDING > len(data):
            data = np.concatenate([data, np.zeros(max(len(data), byte_size(row) + PADDING), np.uint8)])
        self.table = table._replace(slots=slots, keys=keys, data=data)

    def release(self, numbers: Array) -> None:
        """Forget the keys of these numbers. A number without a key is ignored."""
        table = self.table
        numbers = numbers[numbers < min(len(self), len(table.keys))]
        numbers = numbers[table.keys[numbers, 1] != FREE]
        if not len(numbers):
            return
        table.keys[numbers, 1] = FREE
        free = np.zeros(len(self), np.bool_)
        free[table.free[: table.registers[FREED]]] = free[numbers] = True
        self._set_free(np.flatnonzero(free))
        used = self.used
        # what was needed is likely to be needed again: slots shrink by and by
        slots = np.zeros(max(_LEAST, len(table.slots) // 2, 1 << (4 * len(used)).bit_length()), np.int64)
        move_slots(table.slots, table.keys, slots)
        room = max(_LEAST // 2, 2 * (int(used[-1]) + 1 if len(used) else 0))
        keys = table.keys[:room].copy() if 2 * room < len(table.keys) else table.keys
        self.table = self.table._replace(slots=slots, keys=keys)
        live = byte_size(keys[used])
        if 2 * live < table.registers[END]:
            at = keys[used, 1::2]
            data, starts = packed(keys[used, 0::2].ravel(), at.ravel(), table.data)
            keys[used, 1::2] = np.where(at >= 0, starts[:-1].reshape(at.shape), at)
            table.registers[END] = live
            self.table = self.table._replace(data=data)

    def _set_free(self, numbers: Array) -> None:
        """Say which numbers have no key; they ascend."""
        self.table = self.table._replace(free=numbers.astype(np.int32)[::-1].copy())
        self.table.registers[FREED] = len(numbers)

    @classmethod
    def restored(cls, numbers: Array, parts: Sequence[Values], count: int) -> Numbering:
        """A numbering in which these keys have these numbers, as if it had given `count` numbers before."""
        if len(np.unique(numbers)) < len(numbers) or not ((numbers >= 0) & (numbers < count)).all():
            raise DataError("the snapshot is damaged: a key has the number of another, or one that was not given")
        self = cls(len(parts))
        self.table = self.table._replace(free=numbers[::-1].astype(np.int32))
        self.table.registers[[COUNT, FREED]] = len(numbers)
        self.numbers(parts)
        if self.table.registers[FREED] or self.table.registers[COUNT] != len(numbers):
            raise DataError("the snapshot is damaged: a key comes twice, or is none")
        self.table.registers[COUNT] = count
        self._set_free(np.setdiff1d(np.arange(count), numbers))
        return self


def _side_by_side(columns: Sequence[Values]) -> tuple[Array, Array, Array]:
    """A row of pairs for each row of the columns, the bytes that they point to, and whether all its values are `ok`."""
    rows = np.empty((len(columns[0].word), 2 * len(columns)), np.int64)
    ok, base = columns[0].ok, 0
    for k, values in enumerate(columns):
        rows[:, 2 * k] = values.word
        rows[:, 2 * k + 1] = np.where(values.at >= 0, values.at + base, values.at) if base else values.at
        ok = ok & values.ok if k else ok
        base += len(values.data)
    return rows, columns[0].data if len(columns) == 1 else np.concatenate([c.data for c in columns]), ok


def byte_size(rows: Array) -> int:
    """How many bytes these keys have besides their words."""
    return int(np.where(rows[..., 1::2] >= 0, rows[..., 0::2] >> 2, 0).sum())


def packed(words: Array, at: Array, data: Array) -> tuple[Array, Array]:
    """The bytes of these pairs one after the other, padded; and where each begins, followed by where the last ends."""
    starts = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.where(at >= 0, words >> 2, 0), out=starts[1:])
    to = np.empty(starts[-1] + PADDING, np.uint8)
    gather(data, np.ascontiguousarray(at), starts[1:], to)
    return to, starts
