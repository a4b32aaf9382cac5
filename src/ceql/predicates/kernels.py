"""Column classes, added to the rows' codes in place: `codes[i] = codes[i] * classes + class of row i`.

Class 0 is NULL. Text is classified straight from Arrow's offsets and bytes: its length and first eight bytes
pick a slot of a small hash table of the query's literals, which is compared to the end only where they agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ceql.engine.jit import kernel

Array = np.ndarray[Any, np.dtype[Any]]

MIX1 = np.uint64(0x9E3779B97F4A7C15)
MIX2 = np.uint64(0xC2B2AE3D27D4EB4F)


@kernel
def is_valid(bitmap: Array, i: int) -> bool:
    return (bitmap[i >> 3] >> (i & 7)) & 1 == 1


@kernel
def add_cuts(codes: Array, values: Array, bitmap: Array, shift: int, cuts: Array, classes: int) -> None:
    """Class 1 + number of cuts at or below the value; for floats, NaN is the last class."""
    nulls = len(bitmap) > 0
    few = len(cuts) <= 8
    for i in range(len(codes)):
        v = values[i]
        c = 1
        if v != v:
            c = classes - 1
        elif few:
            for k in range(len(cuts)):
                c += v >= cuts[k]
        else:
            c += np.searchsorted(cuts, v, side="right")
        if nulls and not is_valid(bitmap, i + shift):
            c = 0
        codes[i] = codes[i] * classes + c


@kernel
def add_table(codes: Array, indices: Array, table: Array, classes: int) -> None:
    """Class by table, for small integers (dictionary indices, stream numbers); -1 is NULL."""
    for i in range(len(codes)):
        k = indices[i]
        codes[i] = codes[i] * classes + (table[k] if k >= 0 else 0)


@kernel
def first_word(data: Array, words: Array, start: int, length: int) -> int:
    """The first eight bytes of a text as an integer, zeros past its end."""
    at = start >> 3
    if at + 1 < len(words):
        shift = np.uint64((start & 7) << 3)
        word = words[at] >> shift
        if shift > np.uint64(0):
            word |= words[at + 1] << (np.uint64(64) - shift)
        if length < 8:
            word &= (np.uint64(1) << np.uint64(length << 3)) - np.uint64(1)
        return word
    word = np.uint64(0)
    for k in range(min(length, 8)):
        word |= np.uint64(data[start + k]) << np.uint64(k << 3)
    return word


@kernel
def text_slot(word: int, length: int, mask: int) -> int:
    mixed = (word * MIX1) ^ (np.uint64(length) * MIX2)
    return np.int64((mixed >> np.uint64(40)) & np.uint64(mask))


@kernel
def add_text(
    codes: Array,
    offsets: Array,
    data: Array,
    words: Array,
    bitmap: Array,
    shift: int,
    slots: Array,
    literal_words: Array,
    literal_offsets: Array,
    literal_data: Array,
    classes: int,
) -> None:
    """Class 2 + k for the k-th literal, 1 for any other text. `slots` maps a hash to a literal or -1."""
    nulls = len(bitmap) > 0
    mask = len(slots) - 1
    for i in range(len(codes)):
        start = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - start
        word = first_word(data, words, start, length)
        slot = text_slot(word, length, mask)
        c = 1
        while slots[slot] >= 0:
            literal = slots[slot]
            begin = literal_offsets[literal]
            if literal_words[literal] == word and literal_offsets[literal + 1] - begin == length:
                same = True
                for k in range(8, length):
                    if data[start + k] != literal_data[begin + k]:
                        same = False
                        break
                if same:
                    c = 2 + literal
                    break
            slot = (slot + 1) & mask
        if nulls and not is_valid(bitmap, i + shift):
            c = 0
        codes[i] = codes[i] * classes + c


@kernel
def to_symbols(codes: Array, table: Array, symbols: Array) -> int:
    """Translate codes; the number of rows whose code the table does not know (symbol -1)."""
    missing = 0
    for i in range(len(codes)):
        s = table[codes[i]]
        symbols[i] = s
        missing += s < 0
    return missing


@kernel
def relevant_rows(symbols: Array, skipped: Array, rows: Array) -> int:
    """Write the indices of the rows whose symbol is not skipped; how many there are."""
    top = 0
    for i in range(len(symbols)):
        rows[top] = i
        top += 1 - skipped[symbols[i]]
    return top
