"""Single rows of a Parquet column: only pages that have some of them are decompressed, and only these rows are decoded.

In: a column of a row group of a file. Out: the values of the rows that are asked for. Flat columns of numbers, times
and text are read so, in the encodings that writers use for them. Of all others, and of pages that make no sense, this
reader says so (`Unreadable`), and Arrow's reader has the last word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ceql.io import parquet_kernels as kernels
from ceql.io.sort_keys import Int64s
from ceql.io.soundness import is_utf8
from ceql.jit import Array

_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip", "BROTLI": "brotli"}
_ENCODINGS = {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY", "BIT_PACKED"}
_NUMBERS: dict[str, np.dtype[Any]] = {
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FLOAT": np.dtype("<f4"),
    "DOUBLE": np.dtype("<f8"),
}
_TYPES: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "INT32": (pa.types.is_int32, pa.types.is_uint32, pa.types.is_date32),
    "INT64": (pa.types.is_int64, pa.types.is_uint64),
    "FLOAT": (pa.types.is_float32,),
    "DOUBLE": (pa.types.is_float64,),
    "BYTE_ARRAY": (pa.types.is_string, pa.types.is_large_string),
}
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_PAGE_ENCODINGS = (kernels.PLAIN, kernels.CODES, kernels.OLD_CODES)
_BLOCK_BYTES = 1 << 19
_BLOCK_PAGES = 1 << 10  # that are found at once
_KEPT_PAGES = 2  # rows are asked for in order, and those of matches that overlap lie next to each other


ReadAt = Callable[[int, int], pa.Buffer]
"""Gives bytes of a file: from where on, and how many."""


class Unreadable(Exception):
    """The column has something that this reader does not know."""


NOT_READ = (Unreadable, IndexError, ValueError, OSError, pa.ArrowException)
"""What is raised of a column that cannot be read so, damaged ones included."""


def holds_times(column: Any, type: pa.DataType) -> bool:
    """Whether a column of a file's schema holds times as numbers of the unit that the type has."""
    if column.physical_type != "INT64" or not pa.types.is_timestamp(type):
        return False
    logical = json.loads(column.logical_type.to_json())
    return bool(_UNITS.get(logical.get("timeUnit")) == type.unit)


def is_readable(chunk: Any, column: Any, type: pa.DataType) -> bool:
    """Whether rows of a column can be read, by what the file says of it: `chunk` of a row group, `column` of all."""
    if column.max_repetition_level or column.max_definition_level > 1 or "." in column.path:
        return False
    if chunk.compression not in _CODECS or not _ENCODINGS.issuperset(chunk.encodings):
        return False
    known = _TYPES.get(column.physical_type, ())
    return any(is_one(type) for is_one in known) or holds_times(column, type)


class _Run(NamedTuple):
    """Some of the rows, one after the other, whose values are of the same kind."""

    first: int
    following: int
    page: Array | None
    """The page that has them as plain values; None, if they are codes."""
    start: int
    """Where its values begin."""


class ColumnRows:
    """The rows of a column of a row group."""

    def __init__(self, chunk: Any, column: Any, type: pa.DataType, read: ReadAt) -> None:
        self._type = type
        self._number = _NUMBERS.get(column.physical_type)
        self._has_levels = column.max_definition_level == 1
        codec = _CODECS[chunk.compression]
        self._codec = None if codec is None else pa.Codec(codec)
        self._bytes = _Bytes(chunk, read)
        self._kept: dict[int, Array] = {}

    def take(self, rows: Int64s) -> pa.Array:
        """The values of these rows of the row group, which ascend."""
        found = np.empty(len(rows), np.int64)
        runs = list(self._runs(rows, found))
        self._bytes.release()
        return self._numbers(found, runs) if self._number is not None else self._texts(found, runs)

    @property
    def values(self) -> pa.Array:
        """The values that there are, if the column has a dictionary of texts; plain pages may have others."""
        if self._number is not None:
            raise Unreadable
        found: pa.Array = self._dictionary
        if not is_utf8(found):  # those who ask want to compare them
            raise Unreadable
        return found

    def sift(self, wanted: Array) -> Int64s:
        """The rows with a value that is wanted: the k-th of `values`, or the one after them, which stands for NULL."""
        found, first = [], 0
        for number, page in enumerate(self._bytes.pages()):
            data = self._page(number, page)
            if page.encoding == kernels.PLAIN:
                raise Unreadable
            rows = np.empty(page.rows + 1, np.int64)
            start = kernels.values_start(data, page.rows, self._has_levels)
            if start != kernels.BAD:
                count = kernels.sift_codes(data, start, page.rows, wanted[:-1], rows)
                if count == kernels.BAD:
                    raise Unreadable
                found.append(rows[:count] + first)
            else:
                codes, every = rows[:-1], np.arange(page.rows)
                if kernels.find_values(data, page.rows, self._has_levels, True, every, codes) == kernels.BAD:
                    raise Unreadable
                if codes.max(initial=kernels.NULL) >= len(wanted) - 1:
                    raise Unreadable
                found.append(np.flatnonzero(wanted[codes]) + first)
            first += page.rows
        if first != self._bytes.count:
            raise Unreadable
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _runs(self, rows: Int64s, found: Int64s) -> Iterator[_Run]:
        """Fill `found` with codes, and with the numbers of plain values in their pages."""
        first = following = end = 0  # of the codes that were found last
        for number, page in enumerate(self._bytes.pages()):
            begin = end
            end = int(rows.searchsorted(page.first + page.rows))
            if begin < end:
                data, is_coded = self._page(number, page), page.encoding != kernels.PLAIN
                here = rows[begin:end] - page.first
                start = kernels.find_values(data, page.rows, self._has_levels, is_coded, here, found[begin:end])
                if start == kernels.BAD:
                    raise Unreadable
                if is_coded:
                    following = end
                else:
                    if first < following:
                        yield _Run(first, following, None, 0)
                    yield _Run(begin, end, data, start)
                    first = following = end
            if end == len(rows):
                break
        if first < following:
            yield _Run(first, following, None, 0)
        if end < len(rows):
            raise Unreadable

    def _numbers(self, found: Int64s, runs: list[_Run]) -> pa.Array:
        assert self._number is not None
        values = np.zeros(len(found), self._number)
        for first, following, page, start in runs:
            where = found[first:following]
            numbers = self._dictionary if page is None else _numbers(page, start, self._number)
            if len(numbers):  # where there is NULL, the last one will do
                values[first:following] = numbers.take(where)
            elif (where != kernels.NULL).any():
                raise Unreadable
        valid = found != kernels.NULL
        bitmap = None if valid.all() else pa.array(valid).buffers()[1]
        return pa.Array.from_buffers(self._type, len(found), [bitmap, pa.py_buffer(values)])

    def _texts(self, found: Int64s, runs: list[_Run]) -> pa.Array:
        parts = [pa.array([], pa.string())]
        for first, following, page, start in runs:
            where = found[first:following]
            nulls = where == kernels.NULL
            if page is None:
                parts.append(self._dictionary.take(pa.array(where, mask=nulls)))
                continue
            texts = _texts(page, start, where[~nulls])
            if nulls.any():
                texts = texts.take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))
            parts.append(texts)
        return pa.concat_arrays(parts)

    @cached_property
    def _dictionary(self) -> Any:
        """The values that codes stand for."""
        described = self._bytes.dictionary
        if described is None:
            raise Unreadable
        page, count = self._unpacked(described), described.rows
        if self._number is None:
            return _texts(page, 0, np.arange(count))
        return _numbers(page, 0, self._number)[:count]

    def _page(self, number: int, described: _Page) -> Array:
        page = self._kept.get(number)
        if page is None:
            page = self._unpacked(described)
            while len(self._kept) >= _KEPT_PAGES:
                del self._kept[next(iter(self._kept))]
            self._kept[number] = page
        return page

    def _unpacked(self, described: _Page) -> Array:
        body = self._bytes.body(described)
        if self._codec is not None:
            body = self._codec.decompress(body, described.size)
        return np.frombuffer(body, np.uint8)


class _Page(NamedTuple):
    """What is known of a page."""

    kind: int
    start: int
    """Where its body begins in the file."""
    packed: int
    size: int
    rows: int
    encoding: int
    first: int
    """Its first row."""


class _Bytes:
    """The pages of a column, found as they are asked for. Bytes are read in blocks, of which one is held."""

    def __init__(self, chunk: Any, read: ReadAt) -> None:
        self._read = read
        self.count: int = chunk.num_values
        self._most: int = chunk.total_uncompressed_size
        starts = [chunk.data_page_offset, *([chunk.dictionary_page_offset] if chunk.has_dictionary_page else [])]
        self._next = min(starts)  # where the next header begins
        self._end = self._next + chunk.total_compressed_size
        self._block = pa.py_buffer(b"")
        self._start = self._next  # of the block
        self._pages: list[_Page] = []
        self._first = 0
        self._found = np.zeros((_BLOCK_PAGES, 6), np.int64)
        self._room = np.zeros((8, 8), np.int64), np.zeros(8, np.int64)
        self._dictionary: _Page | None = None

    @property
    def dictionary(self) -> _Page | None:
        """The page of the dictionary, which comes first."""
        next(self.pages(), None)
        return self._dictionary

    def pages(self) -> Iterator[_Page]:
        """The pages of data, in order."""
        number = 0
        while True:
            while number == len(self._pages):
                if self._next >= self._end:
                    return
                self._find()
            yield self._pages[number]
            number += 1

    def _find(self) -> None:
        """Find some more pages."""
        at = self._next - self._start
        if not 0 <= at < self._block.size or not self._find_in_block(at):
            # the header may go on after the end of the block
            self._move(self._next, 0)
            if not self._find_in_block(0):
                raise Unreadable

    def _find_in_block(self, at: int) -> bool:
        count = kernels.find_pages(np.frombuffer(self._block, np.uint8), at, self._found, *self._room)
        if count == kernels.BAD:
            raise Unreadable
        for kind, start, packed, size, rows, encoding in self._found[:count].tolist():
            page = _Page(kind, self._start + start, packed, size, rows, encoding, self._first)
            self._next = page.start + packed
            if encoding not in _PAGE_ENCODINGS or self._next > self._end or size > self._most:
                raise Unreadable
            if kind == kernels.DICTIONARY:
                if self._dictionary is not None or 4 * rows > size:  # no value takes less
                    raise Unreadable
                self._dictionary = page
            else:
                self._pages.append(page)
                self._first += rows
                if self._first > self.count:  # room is made for as many as a page says it has
                    raise Unreadable
        return count > 0

    def body(self, page: _Page) -> pa.Buffer:
        """The bytes of a page, compressed or not."""
        if not self._start <= page.start <= page.start + page.packed <= self._start + self._block.size:
            self._move(page.start, page.packed)
        return self._block.slice(page.start - self._start, page.packed)

    def release(self) -> None:
        """Give up the block."""
        self._block = pa.py_buffer(b"")

    def _move(self, start: int, size: int) -> None:
        """Hold the block that begins here."""
        size = max(size, min(_BLOCK_BYTES, self._end - start))
        self._start, self._block = start, self._read(start, size)
        if self._block.size < size:
            raise Unreadable


def _numbers(page: Array, start: int, type: np.dtype[Any]) -> Array:
    return np.frombuffer(page, type, (len(page) - start) // type.itemsize, start)


def _texts(page: Array, start: int, values: Int64s) -> pa.Array:
    """These of a page's plain texts."""
    places = np.empty((len(values), 2), np.int64)
    size = kernels.find_texts(page, start, values, places)
    if size == kernels.BAD:
        raise Unreadable
    offsets, data = np.empty(len(values) + 1, np.int32), np.empty(size, np.uint8)
    kernels.copy_texts(page, places, offsets, data)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(data))
