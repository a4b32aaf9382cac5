"""Small numbers for keys: a hash table over a whole batch of keys at a time.

A key is a row of pairs (word, at), one pair for each part. Where `at` is negative, the word is the value and `at` says
of which kind; else the value is `word >> 2` bytes, which stand at `at` of an array of bytes, and the word's last two
bits say of which kind. Equal values have equal pairs (`io.values`), so that keys are compared as words and bytes.

The table is open addressing with linear probing over slots of 64 bits: half of the hash, and the number. Slots move
without a look at the keys. Nothing is deleted from them in place: `release` makes them anew, since it is called for
many keys at a time, by those who have just looked through all substreams. Kernels allocate nothing; one that is out of
room returns, and goes on from the same row with larger arrays.
"""

from __future__ import annotations

import numpy as np

from ceql.io.numbering_kernels import COUNT, END, FREE, FREED, PADDING, Table, gather, move_slots, number_rows
from ceql.jit import Array

_LEAST = 1024  # slots: so few keys that they hardly ever meet
_BLOCK = 128  # rows that are looked up at a time


class Numbering:
    """Numbers for keys of so many parts. Released numbers are given again, the least first."""

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
        """How many numbers were given so far; all are below."""
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

    def numbers(self, rows: Array, data: Array, wanted: Array) -> tuple[Array, Array]:
        """The number of each row's key, -1 where not `wanted`; and the numbers that were given again for it."""
        numbers = np.where(wanted, np.int32(0), np.int32(-1))
        before, given_up = int(self.table.registers[FREED]), self.table.free
        row = 0
        with np.errstate(over="ignore"):  # where Numba is switched off
            while (row := number_rows(rows, data, numbers, self._block, row, self.table)) < len(numbers):
                self._grow(rows[row])
        return numbers, given_up[self.table.registers[FREED] : before][::-1].copy()

    def _grow(self, row: Array) -> None:
        """Make room for this key at least."""
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
        """Forget the keys of these numbers; those that have none are passed over."""
        table = self.table
        numbers = numbers[numbers < min(len(self), len(table.keys))]
        numbers = np.unique(numbers[table.keys[numbers, 1] != FREE])
        if not len(numbers):
            return
        table.keys[numbers, 1] = FREE
        self._set_free(np.concatenate([table.free[: table.registers[FREED]], numbers]))
        used = self.used
        slots = np.zeros(max(_LEAST, 1 << (4 * len(used)).bit_length()), np.int64)
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
        self.table = self.table._replace(free=np.sort(numbers.astype(np.int32), kind="stable")[::-1].copy())
        self.table.registers[FREED] = len(numbers)

    def restore(self, numbers: Array, rows: Array, data: Array, count: int) -> None:
        """Give these keys these numbers, in a table that is empty still, as one that gave `count` numbers before."""
        self.table = self.table._replace(free=numbers[::-1].astype(np.int32))
        self.table.registers[[COUNT, FREED]] = len(numbers)
        self.numbers(rows, data, np.ones(len(rows), np.bool_))
        self.table.registers[COUNT] = count
        self._set_free(np.setdiff1d(np.arange(count), numbers))


def byte_size(rows: Array) -> int:
    """How many bytes these keys have beside their words."""
    return int(np.where(rows[..., 1::2] >= 0, rows[..., 0::2] >> 2, 0).sum())


def packed(words: Array, at: Array, data: Array) -> tuple[Array, Array]:
    """The bytes of these pairs, one after the other, padded, and where each begins; last, where all end."""
    starts = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.where(at >= 0, words >> 2, 0), out=starts[1:])
    to = np.empty(starts[-1] + PADDING, np.uint8)
    gather(data, np.ascontiguousarray(at), starts[1:], to)
    return to, starts
