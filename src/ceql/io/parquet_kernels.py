"""Reads single rows from the pages of a Parquet column, without decoding the rows between them.

A column of a row group is a sequence of pages: first the dictionary, if there is one, then data. Each has a header, in
Thrift's compact form, and a body, which may be compressed. The body of a page of data has the definition levels, which
say what is NULL, and the values: plain ones, or codes into the dictionary. Levels and codes come as runs of one number
repeated, or of numbers that are packed bit by bit. Every kernel trusts nothing that it reads: what does not make sense
gives BAD, and nothing outside of the given bytes is touched.
"""

from __future__ import annotations

import numpy as np

from ceql.jit import Array, Word, called, inlined, kernel

BAD = -1
# a page, as `find_pages` tells of it
KIND, START, PACKED, SIZE, COUNT, ENCODING = range(6)
DATA, DICTIONARY = 0, 2  # kinds
PLAIN, CODES, OLD_CODES = 0, 8, 2  # encodings
NULL = -1  # in place of a code, or of the number of a value
_TYPE, _SIZE, _PACKED, _DATA, _DICTIONARY, _PAGE_FIELDS = 1, 2, 3, 5, 7, 8
_COUNT, _ENCODING = 1, 2
_DEPTH = 6
_MOST = 1 << 31  # of whatever is counted, so that no sum overflows


@inlined
def _varint(data: Array, at: int, end: int) -> tuple[Word, Word]:
    """A number of seven bits per byte, and the place after it; that is BAD if it does not end."""
    value: Word = np.int64(0)
    shift = 0
    while at < end and shift < 63:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    return value, BAD


@called
def _header(data: Array, at: int, fields: Array, last: Array) -> int:
    """Read the header at `at`; returns the place after it. `fields[d, f]`: field f of the header (d = 0), or of the
    description of a page that is number d in it."""
    end = len(data)
    fields[:] = -1
    last[:] = 0
    depth, inside = 0, 0
    while at < end:
        byte = np.int64(data[at])
        at += 1
        if byte == 0:  # the end of a struct
            if depth == 0:
                return at
            depth -= 1
            continue
        kind, step = byte & 15, byte >> 4
        if step:
            last[depth] += step
        else:
            value, at = _varint(data, at, end)
            if at == BAD:
                return BAD
            last[depth] = (value >> 1) ^ -(value & 1)
        field = last[depth]
        if kind == 3:
            at += 1
        elif 4 <= kind <= 6:
            value, at = _varint(data, at, end)
            if at == BAD:
                return BAD
            if depth < 2 and 0 < field < _PAGE_FIELDS:
                fields[inside if depth else 0, field] = (value >> 1) ^ -(value & 1)
        elif kind == 7:
            at += 8
        elif kind == 8:
            value, at = _varint(data, at, end)
            if at == BAD or value > end - at:
                return BAD
            at += value
        elif kind == 12:
            depth += 1
            if depth == _DEPTH or (depth == 1 and not 0 < field < _PAGE_FIELDS):
                return BAD
            inside = field if depth == 1 else inside
            last[depth] = 0
        elif kind > 2:  # 1 and 2 are true and false; lists and maps are in no header
            return BAD
    return BAD


@kernel
def find_pages(data: Array, at: int, pages: Array, fields: Array, last: Array) -> int:
    """Find the pages whose headers are in `data`, from `at` on; returns how many there are.

    The body of the last one may lie beyond the end. `fields` and `last` are room to work in.
    """
    count = 0
    while at < len(data) and count < len(pages):
        at = _header(data, at, fields, last)
        if at == BAD:
            return count
        kind = fields[0, _TYPE]
        about = _DICTIONARY if kind == DICTIONARY else _DATA
        found = pages[count]
        found[KIND], found[START] = kind, at
        found[PACKED], found[SIZE] = fields[0, _PACKED], fields[0, _SIZE]
        found[COUNT], found[ENCODING] = fields[about, _COUNT], fields[about, _ENCODING]
        for k in range(len(found)):
            if not 0 <= found[k] < _MOST:
                return BAD
        if kind != DATA and kind != DICTIONARY:
            return BAD
        count += 1
        at += found[PACKED]
    return count


@inlined
def _number(data: Array, at: Word, width: Word) -> Word:
    """A number of so many bytes, the least significant one first."""
    value: Word = np.int64(0)
    for k in range(width):
        value |= np.int64(data[at + k]) << (8 * k)
    return value


@called
def _levels(page: Array, at: int, end: Word, rows: Array, values: Array) -> int:
    """Of each row, which of the page's values it has, NULL if none, from levels of one bit. The rows ascend."""
    row: Word = np.int64(0)
    before: Word = np.int64(0)
    j = 0
    while j < len(rows):
        head, at = _varint(page, at, end)
        if at == BAD or head > _MOST:
            return BAD
        if head & 1:
            length = (head >> 1) * 8
            for k in range(length):
                if j == len(rows):
                    return 0
                if at + (k >> 3) >= end:
                    return BAD
                bit = (np.int64(page[at + (k >> 3)]) >> (k & 7)) & 1
                if rows[j] == row + k:
                    values[j] = before if bit else NULL
                    j += 1
                before += bit
            at += head >> 1
        else:
            length = head >> 1
            if at >= end or page[at] > 1:
                return BAD
            bit = np.int64(page[at])
            at += 1
            while j < len(rows) and rows[j] < row + length:
                values[j] = before + rows[j] - row if bit else NULL
                j += 1
            before += bit * length
        row += length
    return 0


@called
def _codes(page: Array, at: Word, width: Word, values: Array, codes: Array) -> int:
    """The codes of these values of a page, which ascend where they are not NULL; `codes` may be `values` itself."""
    first: Word = np.int64(0)
    end, j = len(page), 0
    whole = (width + 7) >> 3
    mask = (np.int64(1) << width) - 1
    while True:
        while j < len(values) and values[j] == NULL:
            codes[j] = NULL
            j += 1
        if j == len(values):
            return 0
        head, at = _varint(page, at, end)
        if at == BAD or head > _MOST:
            return BAD
        packed = head & 1
        length = (head >> 1) * 8 if packed else head >> 1
        top = first + length
        code: Word = np.int64(0)
        if not packed:
            if at + whole > end:
                return BAD
            code = _number(page, at, whole)
        while j < len(values) and values[j] < top:
            if values[j] == NULL:
                codes[j] = NULL
            elif packed:
                bit = (values[j] - first) * width
                begin = at + (bit >> 3)
                size = ((bit & 7) + width + 7) >> 3
                if begin + size > end:
                    return BAD
                codes[j] = (_number(page, begin, size) >> (bit & 7)) & mask
            else:
                codes[j] = code
            j += 1
        at += (head >> 1) * width if packed else whole
        first = top


@kernel
def find_values(page: Array, count: int, has_levels: bool, is_coded: bool, rows: Array, found: Array) -> Word:
    """Of these rows of a page of data, which ascend: their codes into the dictionary, or which of the plain values each
    has; NULL where there is none. Returns where the plain values begin."""
    if len(rows) and (rows[0] < 0 or rows[-1] >= count):
        return BAD
    at: Word = np.int64(0)
    if has_levels:
        if len(page) < 4:
            return BAD
        at = 4 + _number(page, 0, 4)
        if at > len(page) or _levels(page, 4, at, rows, found) == BAD:
            return BAD
    else:
        for j in range(len(rows)):
            found[j] = rows[j]
    if not is_coded:
        return at
    width: Word = np.int64(page[at]) if at < len(page) else np.int64(0)  # a page of NULLs may have no values at all
    if width > 32:
        return BAD
    return _codes(page, at + 1, width, found, found)


@kernel
def values_start(page: Array, count: int, has_levels: bool) -> Word:
    """Where the values of a page of data begin, if it is plain to see that none is NULL; else BAD."""
    if not has_levels:
        return 0
    if len(page) < 4:
        return BAD
    end = 4 + _number(page, 0, 4)
    if end > len(page):
        return BAD
    head, at = _varint(page, 4, end)
    if at == BAD or at >= end or head & 1 or head >> 1 < count or page[at] != 1:
        return BAD
    return end


@kernel
def sift_codes(page: Array, at: Word, count: int, wanted: Array, rows: Array) -> Word:
    """The rows of a page without NULLs whose codes are wanted; returns how many there are."""
    if at >= len(page) or page[at] > 32:
        return BAD
    width, end = np.uint64(page[at]), len(page)
    whole, mask = (np.int64(width) + 7) >> 3, (np.uint64(1) << width) - np.uint64(1)
    at += 1
    done: Word = np.int64(0)
    top: Word = 0
    while done < count:
        head, at = _varint(page, at, end)
        if at == BAD or head > _MOST:
            return BAD
        if head & 1:
            length: Word = min((head >> 1) * 8, count - done)
            if at + ((length * np.int64(width) + 7) >> 3) > end:
                return BAD
            bits, held, place = np.uint64(0), np.uint64(0), at
            for k in range(length):
                while held < width:
                    bits |= np.uint64(page[place]) << held
                    held += np.uint64(8)
                    place += 1
                code: Word = np.int64(bits & mask)
                bits >>= width
                held -= width
                if code >= len(wanted):
                    return BAD
                rows[top] = done + k
                top += wanted[code]
            at += (head >> 1) * np.int64(width)
        else:
            length = min(head >> 1, count - done)
            if at + whole > end:
                return BAD
            code = _number(page, at, whole)
            if code >= len(wanted):
                return BAD
            at += whole
            if wanted[code]:
                for k in range(length):
                    rows[top + k] = done + k
                top += length
        done += length
    return top


@kernel
def find_texts(page: Array, at: int, values: Array, places: Array) -> int:
    """Where these of a page's plain texts, which ascend, begin and end; returns the bytes that they have together."""
    passed, size = 0, 0
    for j in range(len(values)):
        begin = at
        while passed <= values[j]:
            if at + 4 > len(page):
                return BAD
            begin = at + 4
            length = _number(page, at, 4)
            if length > len(page) - begin:
                return BAD
            at = begin + length
            passed += 1
        places[j, 0] = begin
        places[j, 1] = at
        size += at - begin
    return size


@kernel
def copy_texts(page: Array, places: Array, offsets: Array, data: Array) -> None:
    """Put the texts that lie at these places one after the other."""
    top = 0
    offsets[0] = 0
    for j in range(len(places)):
        for k in range(places[j, 0], places[j, 1]):
            data[top] = page[k]
            top += 1
        offsets[j + 1] = top
