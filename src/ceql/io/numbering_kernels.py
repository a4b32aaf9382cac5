"""The kernels of `io.numbering`, which says what a key is and keeps the arrays.

Kernels read past the end of a text and cut off the excess, so arrays of bytes have `PADDING` bytes more than are used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.jit import FACTOR, LOWER, Array, Word, inlined, kernel, mix

FREE = np.iinfo(np.int64).min  # the `at` of the first pair, where no key has this number
PADDING = 8  # how many bytes past the last one are read
COUNT, FREED, END = 0, 1, 2  # registers: numbers ever given, how many of them are free, the end of the bytes
_LARGE = 1 << 14  # slots that are not in the nearest caches
_SEED = 0x2545F4914F6CDD1D


class Table(NamedTuple):
    """The arrays of an `Numbering`, as the kernels see them."""

    slots: Array  # int64, a power of two of them: half a hash, and the number + 1; 0 is empty
    keys: Array  # int64, a row of pairs for each number
    data: Array  # uint8
    free: Array  # int32, a stack of numbers to give again: the least is on top
    registers: Array  # int64


@inlined
def byte(data: Array, at: int, k: int) -> Word:
    # Numba does not check whether an unsigned index is negative
    return np.int64(data[np.uint64(at + k)]) << (k << 3)


@inlined
def eight_bytes(data: Array, at: int, end: int) -> Word:
    """Up to eight bytes from `at` on, not past `end`, as a word. The compiler makes this one load."""
    word = (
        byte(data, at, 0) | byte(data, at, 1) | byte(data, at, 2) | byte(data, at, 3)
        | byte(data, at, 4) | byte(data, at, 5) | byte(data, at, 6) | byte(data, at, 7)
    )  # fmt: skip
    past = max(8 - (end - at), 0) << 2  # half of the bits to cut off: a shift by 64 is undefined
    return (word << past) << past


@inlined
def half_hash(keys: Array, row: int, data: Array) -> Word:
    """The upper half of the hash of a key, signed."""
    h: Word = np.int64(_SEED)
    for k in range(0, keys.shape[1], 2):
        word = keys[row, k]
        at = keys[row, k + 1]
        if at < 0:
            h = mix(h, word + at)
        else:
            h ^= word
            end = at + (word >> 2)
            while at < end:
                h = mix(h, eight_bytes(data, at, end))
                at += 8
    return (h * FACTOR) >> 32


@inlined
def is_same(a: Array, i: int, a_data: Array, b: Array, j: int, b_data: Array) -> bool:
    for k in range(0, a.shape[1], 2):
        word = a[i, k]
        at = a[i, k + 1]
        other = b[j, k + 1]
        if word != b[j, k] or (at != other and (at < 0 or other < 0)):
            return False
        if at >= 0:
            end = at + (word >> 2)
            shift = other - at
            while at < end:
                if eight_bytes(a_data, at, end) != eight_bytes(b_data, at + shift, end + shift):
                    return False
                at += 8
    return True


@kernel
def number_rows(rows: Array, data: Array, numbers: Array, block: Array, first: int, table: Table) -> int:
    """Write the number of each key from row `first` on, except where `numbers` has -1. A new key gets a new number.

    Returns the row for which the table has no room, else the number of rows. `block` is scratch space.
    """
    slots = table.slots
    mask = np.uint64(len(slots) - 1)
    for begin in range(first, len(numbers), len(block)):
        end = min(begin + len(block), len(numbers))
        look_ahead(rows, data, block, begin, end, table)
        for i in range(begin, end):
            if numbers[i] < 0:
                continue
            half = block[i - begin, 0]
            s = np.uint64(half) & mask
            while True:
                slot = slots[s]
                n = (slot & LOWER) - 1
                if slot >> 32 == half and n >= 0 and is_same(rows, i, data, table.keys, n, table.data):
                    numbers[i] = n
                    break
                if slot == 0:
                    n = new_number(rows, i, data, table)
                    if n < 0:
                        return i
                    slots[s] = half << 32 | (n + 1)
                    numbers[i] = n
                    break
                s = (s + np.uint64(1)) & mask
    return len(numbers)


@inlined
def look_ahead(rows: Array, data: Array, block: Array, begin: int, end: int, table: Table) -> None:
    """Hash a block of rows. If the table is larger than the caches, also touch all that the look-ups will read.

    One after the other, each row would wait for memory three times; this way the processor fetches many at a time.
    """
    slots, keys = table.slots, table.keys
    for i in range(begin, end):
        block[i - begin, 0] = half_hash(rows, i, data)
    if len(slots) < _LARGE:
        return
    for i in range(end - begin):
        block[i, 1] = max((slots[block[i, 0] & (len(slots) - 1)] & LOWER) - 1, 0)
    for i in range(end - begin):
        at = np.int64(0)
        for k in range(1, keys.shape[1], 2):
            at = max(at, keys[block[i, 1], k])
        block[i, 1] = at
    for i in range(end - begin):
        block[i, 1] = table.data[block[i, 1]]


@inlined
def new_number(rows: Array, i: int, data: Array, table: Table) -> Word:
    """Copies the key of row i and returns its number; -1 if there is no room."""
    registers = table.registers
    count = registers[COUNT]
    freed = registers[FREED]
    if 2 * (count - freed) >= len(table.slots):
        return -1
    n: Word = np.int64(table.free[freed - 1]) if freed > 0 else count
    if n >= len(table.keys) or not copy_key(rows, i, data, n, table):
        return -1
    if freed > 0:
        registers[FREED] = freed - 1
    else:
        registers[COUNT] = count + 1
    return n


@inlined
def copy_key(rows: Array, i: int, data: Array, n: int, table: Table) -> bool:
    """Make row i the key of number n. Returns False if there is no room for its bytes."""
    to = table.registers[END]
    size = 0
    for k in range(0, rows.shape[1], 2):
        if rows[i, k + 1] >= 0:
            size += rows[i, k] >> 2
    if to + size + PADDING > len(table.data):
        return False
    for k in range(0, rows.shape[1], 2):
        word = rows[i, k]
        at = rows[i, k + 1]
        table.keys[n, k] = word
        table.keys[n, k + 1] = at
        if at >= 0:
            table.keys[n, k + 1] = to
            for b in range(word >> 2):
                table.data[to + b] = data[at + b]
            to += word >> 2
    table.registers[END] = to
    return True


@kernel
def number_near(keys: Array, low: int, table: Array, numbers: Array, unknown: Array) -> int:
    """Write the numbers that a table from `low` on has for keys, and the rows of those that it lacks: so many."""
    count = 0
    end = low + len(table)
    for i in range(len(keys)):
        number: Word = np.int32(-1)
        if low <= keys[i] < end:
            number = table[keys[i] - low]
        numbers[i] = number
        unknown[count] = i
        count += number < 0
    return count


@kernel
def hash_keys(table: Table, numbers: Array, hashes: Array) -> None:
    """Write a hash of the key of each of these numbers: 32 bits that do not depend on the number."""
    for i in range(len(numbers)):
        hashes[i] = half_hash(table.keys, numbers[i], table.data) & LOWER


@kernel
def move_slots(old: Array, keys: Array, new: Array) -> None:
    """Fill the empty slots `new` with those of `old` whose numbers still have a key."""
    mask = len(new) - 1
    for i in range(len(old)):
        slot = old[i]
        if slot != 0 and keys[(slot & LOWER) - 1, 1] != FREE:
            s = (slot >> 32) & mask
            while new[s] != 0:
                s = (s + 1) & mask
            new[s] = slot


@kernel
def gather(data: Array, at: Array, ends: Array, to: Array) -> None:
    """Copy the bytes that start at each `at` one after the other to `to`, where they end at `ends`."""
    begin = 0
    for i in range(len(at)):
        end = ends[i]
        for b in range(end - begin):
            to[begin + b] = data[at[i] + b]
        begin = end
