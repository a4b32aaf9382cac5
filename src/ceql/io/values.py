"""Columns to the pairs of `io.numbering` and back. Equal values have equal pairs.

All numbers are of one kind, however they are stored. A whole number of up to 64 bits is a word; any other number is a
double if a double holds it exactly, else a decimal without trailing zeros. Times are ticks of the type in which the key
is shown; while that type is unknown, they are the text that shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isinf
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError
from ceql.io.numbering import Values, packed
from ceql.io.numbering_kernels import PADDING
from ceql.io.schemas import codes_of, is_text
from ceql.io.sort_keys import decimal_words, decode, encode
from ceql.jit import Array

Value = bool | int | float | Decimal | bytes | str

INT, UINT, FLOAT, BOOL, DECIMAL = -1, -2, -3, -4, -8  # kinds that are a word; a decimal of scale s is DECIMAL - s
TEXT, BINARY, LONG, TIME = 0, 1, 2, 3  # kinds that are bytes; LONG is a number of many digits as text
_MOST_DIGITS = 1000  # after the point, of a decimal that is a word
_FIVES = 5 ** np.arange(28)
_SOME_ROWS = 1 << 9  # fewer are not worth looking for their least and greatest


# --- columns to pairs ---


def to_values(column: pa.Array, shown: pa.DataType) -> Values:
    """The values of a column; `shown` is the type in which they are shown (null while it is unknown)."""
    if pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
        column = column.dictionary_decode()
    if pa.types.is_dictionary(column.type):
        if not len(column.dictionary):
            return _plain(pa.nulls(len(column)), shown)
        indices = column.indices.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        found = _plain(column.dictionary, shown).take(indices)
        return found._replace(ok=found.ok & _is_valid(column.indices)) if column.indices.null_count else found
    return _plain(column, shown)


def _plain(column: pa.Array, shown: pa.DataType) -> Values:
    type = column.type
    if pa.types.is_null(type):
        return _words(np.zeros(len(column), np.int64), INT, np.zeros(len(column), np.bool_))
    if pa.types.is_temporal(type):
        if pa.types.is_null(shown):
            return _bytes(_time_texts(column), TIME)
        try:
            column = column if type == shown else column.cast(shown)
        except pa.ArrowInvalid as error:
            raise DataError(f"a key of type {type} does not fit {shown}, the type of all keys: {error}") from error
        return _words(encode(column, ""), INT, _is_valid(column))
    if is_text(type):
        return _bytes(column.cast(pa.large_string()), TEXT)
    if pa.types.is_boolean(type):
        return _words(column.cast(pa.int64()).fill_null(0).to_numpy(), BOOL, _is_valid(column))
    if pa.types.is_floating(type):
        return _floats(column)
    if pa.types.is_decimal(type):
        return _decimals(column)
    if pa.types.is_integer(type):
        word = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
        at = np.where(word >= 1 << 63, UINT, INT) if type == pa.uint64() else INT
        return _words(word.astype(np.int64, copy=False), at, _is_valid(column))
    return _bytes(column.cast(pa.large_binary()), BINARY)


def _time_texts(column: pa.Array) -> pa.Array:
    """Times as text. Equal times have equal text, whatever their unit."""
    type = column.type
    if pa.types.is_timestamp(type):
        column = column.cast(pa.timestamp("us", type.tz))
    elif pa.types.is_time(type):
        column = column.cast(pa.time64("ns"))
    elif pa.types.is_duration(type):
        column = column.cast(pa.duration("us")).cast(pa.int64())
    return column.cast(pa.large_string())


def _is_valid(column: pa.Array) -> Array:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _words(word: Array, kind: int | Array, ok: Array) -> Values:
    at = kind if isinstance(kind, np.ndarray) else np.full(len(word), kind, np.int64)
    return Values(word, at, np.zeros(0, np.uint8), ok)


def _bytes(column: pa.Array, kind: int) -> Values:
    if not len(column):
        return _words(np.zeros(0, np.int64), INT, np.zeros(0, np.bool_))
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64, column.offset + len(column) + 1)[column.offset :]
    begin, end = int(bounds[0]), int(bounds[-1])
    # copied, since Arrow lends read-only memory, for which Numba would compile the kernel again
    used = np.zeros(end - begin + PADDING, np.uint8)
    if end > begin:
        used[: end - begin] = np.frombuffer(data, np.uint8)[begin:end]
    return Values(np.diff(bounds) << 2 | kind, bounds[:-1] - begin, used, _is_valid(column))


def _floats(column: pa.Array) -> Values:
    value = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    ok = value == value
    whole = np.floor(value) == value
    with np.errstate(invalid="ignore"):
        word = value.astype(np.int64)
        small = whole & (value >= -(2.0**63)) & (value < 2.0**63)
        if small.all():
            return _words(word, INT, ok)
        large = whole & (value >= 2.0**63) & (value < 2.0**64)
        word = np.where(small, word, value.view(np.int64))
        at = np.where(small, INT, np.where(large, UINT, FLOAT))
        if large.any():
            word = np.where(large, np.where(large, value, 0).astype(np.uint64).view(np.int64), word)
    return _words(word, at, ok)


def _decimals(column: pa.Array) -> Values:
    """Vectorised for decimals of up to 64 bits."""
    try:
        word, high = decimal_words(column)
    except pa.ArrowInvalid:  # decimal256 that does not fit in decimal128
        return from_python(column.to_pylist())
    if (high != word >> 63).any() or column.type.scale < 0:
        return from_python(column.to_pylist())
    scale = np.full(len(word), column.type.scale)
    for _ in range(column.type.scale):
        zero = (word % 10 == 0) & (scale > 0)
        if not zero.any():
            break
        word = np.where(zero, word // 10, word)
        scale -= zero
    five = _FIVES[np.minimum(scale, len(_FIVES) - 1)]
    odd = word // five  # where this is exact, the value is odd / 2 ** scale
    double = (scale > 0) & (scale < len(_FIVES)) & (odd * five == word) & (odd.astype(float).astype(np.int64) == odd)
    word = np.where(double, np.ldexp(odd.astype(float), -scale).view(np.int64), word)
    at = np.where(scale == 0, INT, np.where(double, FLOAT, DECIMAL - scale))
    return _words(word, at, _is_valid(column))


def from_python(values: Iterable[Value | None]) -> Values:
    """Values converted one by one: numbers too long for words, and the keys of old snapshots."""
    pairs = [_pair(value) for value in values]
    at = np.array([kind for _, kind, _ in pairs], np.int64)
    texts = [text for _, _, text in pairs]
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    word = np.array([w for w, _, _ in pairs], np.int64)
    data = np.frombuffer(bytearray(b"".join([*texts, bytes(PADDING)])), np.uint8)
    return Values(word, np.where(at >= 0, starts, at), data, at != DECIMAL)


def _pair(value: Value | None) -> tuple[int, int, bytes]:
    """The word, the kind (0 for bytes) and the bytes."""
    match value:
        case None:
            return 0, DECIMAL, b""  # a decimal of no digits is none
        case bool():
            return int(value), BOOL, b""
        case str():
            return len(value.encode()) << 2 | TEXT, 0, value.encode()
        case bytes():
            return len(value) << 2 | BINARY, 0, value
        case float() if isinf(value):
            return _bits(value), FLOAT, b""
    exact = Fraction(value)
    if exact.denominator == 1 and -(1 << 63) <= exact < 1 << 64:
        return (int(exact), INT, b"") if exact < 1 << 63 else (int(exact) - (1 << 64), UINT, b"")
    if Fraction(float(exact)) == exact:
        return _bits(float(exact)), FLOAT, b""
    scale = next(s for s in range(400) if (exact * 10**s).denominator == 1)
    digits = int(exact * 10**scale)
    if -(1 << 63) <= digits < 1 << 63:
        return digits, DECIMAL - scale, b""
    text = f"{digits}e-{scale}".encode()
    return len(text) << 2 | LONG, 0, text


def _bits(value: float) -> int:
    return int(np.float64(value).view(np.int64))


# --- columns with few different values ---


class Coded(NamedTuple):
    """A column with few different values: the code of each row (`size` for NULL), and the values of codes."""

    codes: Array
    size: int
    values: Callable[[Array], pa.Array]


def coded(column: pa.Array) -> Coded | None:
    """The column by codes, if it has at most half as many values as rows: it has a dictionary, or whole numbers that
    are near each other."""
    most = len(column) // 2
    if pa.types.is_dictionary(column.type):
        size = len(column.dictionary)
        return (
            Coded(codes_of(column), size, lambda used: column.dictionary.take(pa.array(used))) if size <= most else None
        )
    if not pa.types.is_integer(column.type) or column.type == pa.uint64() or most < _SOME_ROWS:
        return None
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or high - low >= most:
        return None
    plain = column.fill_null(low) if column.null_count else column
    codes = plain.to_numpy(zero_copy_only=False).astype(np.int64) - low
    if column.null_count:
        codes[column.is_null().to_numpy(zero_copy_only=False)] = high - low + 1
    return Coded(codes, high - low + 1, lambda used: pa.array(used + low).cast(column.type))


def numbers_by_code(column: Coded, numbers: Callable[[pa.Array], Array]) -> Array:
    """The `numbers` of a column, which is asked once for each value that occurs; -1 for NULL."""
    occurs = np.zeros(column.size + 1, np.bool_)
    occurs[column.codes] = True
    used = np.flatnonzero(occurs[:-1])
    by_code: Array = np.full(len(occurs), -1, np.int32)
    by_code[used] = numbers(column.values(used))
    return by_code[column.codes]


# --- pairs to columns ---


def to_array(values: Values, type: pa.DataType) -> pa.Array:
    """The values as a column of `type`; as text if that is the null type."""
    if pa.types.is_null(type):
        return pa.array([str(v) for v in to_python(values)], pa.large_string())
    if pa.types.is_temporal(type):
        return decode(values.word, type)
    if pa.types.is_boolean(type):
        return pa.array(values.word != 0)
    if (values.at >= 0).all() and not pa.types.is_decimal(type):
        return _texts(values).cast(pa.large_string() if is_text(type) else pa.large_binary()).cast(type)
    if pa.types.is_integer(type) and (values.at == INT).all():
        return pa.array(values.word).cast(type)
    if type == pa.uint64() and (values.at == np.where(values.word < 0, UINT, INT)).all():
        return pa.array(values.word.view(np.uint64))
    if pa.types.is_floating(type) and np.isin(values.at, (INT, FLOAT)).all():
        floats = np.where(values.at == INT, values.word.astype(float), values.word.view(float))
        return pa.array(floats.astype(type.to_pandas_dtype()), type)
    if pa.types.is_decimal(type) and (whole := _unscaled(values, type.scale)) is not None:
        return decode(whole, type)
    found = to_python(values)
    if pa.types.is_floating(type) or pa.types.is_decimal(type):
        found = [(float if pa.types.is_floating(type) else Decimal)(v) for v in found]
    return pa.array(found, type)


def _unscaled(values: Values, scale: int) -> Array | None:
    """The values times 10 ** scale; None unless all of these are whole numbers that a double holds exactly."""
    if not ((values.at == INT) | (values.at == FLOAT) | (values.at < DECIMAL)).all() or scale > 22:
        return None
    own = np.where(values.at < DECIMAL, DECIMAL - values.at, 0)
    times = np.where(values.at == FLOAT, values.word.view(float), values.word) * 10.0 ** (scale - own)
    exact = (own <= scale) & (np.abs(times) < 1 << 53) & (times == np.floor(times))
    return times.astype(np.int64) if exact.all() else None


def _texts(values: Values) -> pa.Array:
    """The bytes of each value; none where the value is a word."""
    data, offsets = packed(values.word, values.at, values.data)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values.word), buffers)


def to_python(values: Values) -> list[Any]:
    """The values as Python objects."""
    texts = _texts(values).to_pylist()
    return [_value(*pair) for pair in zip(values.word.tolist(), values.at.tolist(), texts, strict=True)]


def _value(word: int, at: int, text: bytes) -> Value:
    if at >= 0:
        match word & 3:
            case 1:  # BINARY
                return text
            case 2:  # LONG
                return Decimal(text.decode())
            case _:
                return text.decode()
    match at:
        case -1:  # INT
            return word
        case -2:  # UINT
            return word + (1 << 64)
        case -3:  # FLOAT
            return float(np.int64(word).view(np.float64))
        case -4:  # BOOL
            return bool(word)
        case _:
            return Decimal(f"{word}e-{DECIMAL - at}")


# --- in order ---


def order_of(values: Values) -> Array:
    """The rows in ascending order: texts by their bytes, numbers by their values, and each kind by itself."""
    texts = (values.at >= 0) & (values.word & 3 != LONG)
    words = np.flatnonzero(~texts)
    found = [np.flatnonzero(texts)]
    if len(found[0]):
        some = values.take(found[0])
        found[0] = found[0][pc.sort_indices(_texts(some)).to_numpy()]
    some = values.take(words)
    scale = np.where(some.at < DECIMAL, DECIMAL - some.at, 0)
    most = int(scale.max(initial=0))
    plain = ((some.at == INT) | (some.at == BOOL) | (some.at < DECIMAL)).all()
    if plain and most <= 18 and (np.abs(some.word.astype(float)) * 10.0 ** (most - scale) < 9e18).all():
        found.append(words[np.argsort(some.word * 10 ** (most - scale), kind="stable")])
    else:
        numbers = to_python(some)
        found.append(words[np.array(sorted(range(len(numbers)), key=numbers.__getitem__), np.int64)])
    return np.concatenate(found)


# --- for snapshots ---


def to_state(values: Values) -> list[pa.Array]:
    """The values as three columns, which `from_state` reads."""
    return [pa.array(values.word), pa.array(np.minimum(values.at, 0)), _texts(values)]


def from_state(columns: Sequence[pa.Array]) -> Values:
    """The values that `to_state` wrote."""
    word, kind, texts = columns
    if texts.type != pa.large_binary() or any(column.null_count for column in columns):
        raise DataError("the snapshot is damaged: its keys have another form")
    found = _bytes(texts, 0)
    words, at = word.to_numpy(), kind.to_numpy()
    # a word of a value in bytes has their number, by which kernels read them
    if (((words ^ found.word) >> 2 != 0) & (at >= 0)).any() or (at < DECIMAL - _MOST_DIGITS).any():
        raise DataError("the snapshot is damaged: a key is longer or shorter than it says")
    return found._replace(word=words, at=np.where(at < 0, at, found.at))
