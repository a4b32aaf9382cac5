"""Adds a column's classes to the codes of the rows, in place: `codes[i] = codes[i] * classes + class of row i`.

Class 0 is NULL. Text is classified straight from Arrow's offsets and bytes: its length and first eight bytes
pick a slot of a small hash table of the query's literals, and only if these agree, the rest is compared.
"""

from __future__ import annotations

import numpy as np

from ceql.jit import Array, inlined, kernel

_LEAST_WORD = np.iinfo(np.int64).min
_INFINITE = int(np.array(np.inf).view(np.int64))  # the words of NaN are beyond it, on either side


@inlined
def is_valid(bitmap: Array, i: int) -> bool:
    return (bitmap[i >> 3] >> (i & 7)) & 1 == 1


@kernel
def clear_nulls(codes: Array, bitmap: Array, shift: int, classes: int) -> None:
    """Make the last digit of every NULL row 0. The kernels that classify would be slower if they did this too."""
    for i in range(len(codes)):
        if not is_valid(bitmap, i + shift):
            codes[i] -= codes[i] % classes


@kernel
def add_cuts(codes: Array, values: Array, cuts: Array, count: int, classes: int) -> None:
    """Class 1 + number of cuts at or below the value; for floats, NaN is the last class.

    `cuts` is padded to a power of two less one; `count` of them are real. Up to seven cuts are compared one after the
    other. More are searched without branches, since a processor cannot guess which way a value goes.
    """
    if len(cuts) <= 7:
        for i in range(len(codes)):
            v = values[i]
            c = 1
            for k in range(count):
                c += v >= cuts[k]
            if v != v:
                c = classes - 1
            codes[i] = codes[i] * classes + c
        return
    half = (len(cuts) + 1) >> 1
    for i in range(len(codes)):
        v = values[i]
        below = 0
        step = half
        while step > 0:
            below += step * (v >= cuts[below + step - 1])
            step >>= 1
        c = 1 + min(below, count)
        if v != v:
            c = classes - 1
        codes[i] = codes[i] * classes + c


@kernel
def add_table(codes: Array, indices: Array, table: Array, classes: int) -> None:
    """The class that a table has for a small integer, such as a dictionary code; -1 is NULL."""
    for i in range(len(codes)):
        k = indices[i]
        codes[i] = codes[i] * classes + (table[k] if k >= 0 else 0)


@kernel
def text_slot(word: int, length: int, seed: int, shift: int) -> int:
    return ((word ^ length) * seed) >> shift


@inlined
def same_tail(data: Array, start: int, literal_data: Array, begin: int, length: int) -> bool:
    for k in range(np.uint64(8), length):
        if data[start + k] != literal_data[begin + k]:
            return False
    return True


@kernel
def add_text(
    codes: Array,
    offsets: Array,
    data: Array,
    words: Array,
    table: Array,
    seed: int,
    shift: int,
    has_long: bool,
    literal_offsets: Array,
    literal_data: Array,
    chain: Array,
    classes: int,
) -> None:
    """Class 1 + k for the k-th literal (from 1), 1 for any other text. Reads two words from the start of each text.

    `table` is a perfect hash table of (first eight bytes, length, k), so one probe decides, without a branch for texts
    of up to eight bytes. The first bytes are shifted to the top of the word, which clears the bytes past the end of the
    text. Longer literals that agree in both are linked by `chain`, which ends with 0.
    """
    one, eight = np.uint64(1), np.uint64(8)
    start = np.uint64(offsets[0])
    for i in range(len(codes)):
        stop = np.uint64(offsets[i + 1])
        length = stop - start
        at = start >> np.uint64(3)
        skew = (start & np.uint64(7)) << np.uint64(3)
        # two shifts, since a shift by 64 is undefined
        word = (words[at] >> skew) | ((words[at + one] << one) << (np.uint64(63) - skew))
        past = (eight - min(length, eight)) << np.uint64(2)
        word = (word << past) << past
        slot = text_slot(word, length, seed, shift)
        literal = table[slot, 2] * np.uint64((table[slot, 0] == word) & (table[slot, 1] == length))
        if has_long and length > eight:
            while literal > np.uint64(0):
                begin = np.uint64(literal_offsets[literal - one])
                if same_tail(data, start, literal_data, begin, length):
                    break
                literal = chain[literal]
        codes[i] = codes[i] * classes + 1 + np.int32(literal)
        start = stop


@kernel
def to_symbols(codes: Array, table: Array, symbols: Array) -> int:
    """Translate codes. Returns the number of rows whose code the table does not know (symbol -1)."""
    missing = 0
    for i in range(len(codes)):
        s = table[codes[i]]
        symbols[i] = s
        missing += s < 0
    return missing


@kernel
def to_relevant(codes: Array, table: Array, symbols: Array, rows: Array) -> tuple[int, int]:
    """Write the symbols other than 0, and their rows. Returns how many there are, and how many codes are unknown."""
    top = 0
    missing = 0
    for i in range(len(codes)):
        s = table[codes[i]]
        symbols[top] = s
        rows[top] = i
        top += s != 0
        missing += s < 0
    return top, missing


@kernel
def add_digits(codes: Array, rows: Array, kinds: Array, digits: Array, weights: Array) -> None:
    """Add a slot's digit to the codes of some rows; the kind of a row says how much the digit weighs."""
    for j in range(len(codes)):
        i = rows[j]
        codes[j] += weights[kinds[i]] * digits[i]


@kernel
def float_words(bits: Array, nan: int, to: Array) -> None:
    """Words that compare as the floats with these bits do, as `io.sort_keys` encodes them; `nan` for NaN."""
    for i in range(len(bits)):
        word = bits[i]
        if word < 0:
            word = _LEAST_WORD - word
        to[i] = nan if abs(word) > _INFINITE else word
