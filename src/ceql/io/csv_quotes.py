"""CSV on its way to the parser: finds a quote that is never closed.

A quoted field may hold line breaks, so a quote that nobody closes makes a parser take all lines that follow, up to the
next quote or the end of the file, for one field. That would lose events in silence. Two signs give it away: the file
ends inside of a field, or a field of several lines ends with a quote that neither a delimiter nor a line break follows.
"""

from __future__ import annotations

import numpy as np

from ceql.errors import DataError
from ceql.jit import Array, kernel

_QUOTE = ord('"')
_LF, _CR = ord("\n"), ord("\r")
_BOM = b"\xef\xbb\xbf"
_SEAM = 1 << 10
_QUOTES, _ONES, _HIGHS = (np.uint64(0x0101010101010101 * byte) for byte in (_QUOTE, 0x01, 0x80))
_NO_BITS = np.uint64(0)
_INSIDE, _OPENED, _BROKEN, _SKIP = range(4)  # registers


class Quotes:
    """Looks at each byte of a file once, block by block. `path` is for messages."""

    def __init__(self, delimiter: str, path: object):
        self._delimiter = ord(delimiter)
        self._path = path
        self._registers = np.zeros(4, np.int64)
        self._rest = b"\n"  # the byte before the next one to look at, and that one if it has come
        self._lines = 0  # before the rest
        self._line = 1  # in which the last field with quotes begins
        self._done = False

    def look(self, block: bytes) -> None:
        """Look at the next block; an empty one is the end of the file."""
        if self._done:
            return
        self._done = not block
        if self._rest == b"\n" and block.startswith(_BOM):
            block = block[len(_BOM) :]
        # the bytes at the seam have a neighbour on its other side; a large block is not copied for them
        seam = self._rest + (block[:2] if len(block) > _SEAM else block or b"\n")
        self._follow(seam)
        if len(block) > _SEAM:
            self._follow(block)
        self._rest = (self._rest + block[-2:])[-2:]
        if self._done and self._registers[_INSIDE]:
            raise self._error("is never closed")

    def _follow(self, data: bytes) -> None:
        """Follow the quotes in all but the first and last byte, and count their lines."""
        registers, opened = self._registers, 0
        each = np.frombuffer(data, np.uint8)
        if registers[_INSIDE] or b'"' in data:
            registers[_OPENED] = 0  # what began before, began before these bytes
            words = np.frombuffer(data, np.uint64, len(data) // 8)
            wrong = follow(each, words, self._delimiter, registers)
            opened = int(registers[_OPENED])
            if opened:
                self._lines += count_lines(each[1:opened])
                self._line = self._lines + 1
            if wrong:
                raise self._error(
                    "is closed lines later, before something that is neither a delimiter nor a line break"
                )
            if registers[_INSIDE] and not registers[_BROKEN]:
                registers[_BROKEN] = b"\n" in data[max(opened, 1) : -1]
        self._lines += count_lines(each[max(opened, 1) : -1])

    def _error(self, what: str) -> DataError:
        return DataError(f"cannot read {self._path}: the quote that opens a field in line {self._line} {what}")


@kernel
def count_lines(data: Array) -> int:
    """The line breaks among these bytes; several times as quick as `bytes.count`, where there are many."""
    found = 0
    for at in range(len(data)):
        found += data[at] == _LF
    return found


@kernel
def follow(data: Array, words: Array, delimiter: int, registers: Array) -> int:
    """Follow the quotes, but for the first and last byte. Returns 1 if a field of several lines ends in mid-air.

    `words` are the same bytes, eight by eight: most of them have no quote, which one comparison tells.
    """
    inside, opened, broken, skip = registers[0], registers[1], registers[2], registers[3]
    for word in range((len(data) + 7) >> 3):
        if word < len(words):
            others = words[word] ^ _QUOTES  # a byte of 0 where there is a quote
            if (others - _ONES) & ~others & _HIGHS == _NO_BITS:
                continue
        for at in range(max(1, 8 * word), min(8 * word + 8, len(data) - 1)):
            if data[at] != _QUOTE:
                continue
            if skip:
                skip = 0  # the second of two quotes, which stand for one
            elif not inside:
                before = data[at - 1]
                if before == delimiter or before == _LF or before == _CR:  # noqa: SIM109 a tuple is slower
                    inside, opened, broken = 1, at, 0
            elif data[at + 1] == _QUOTE:
                skip = 1
            else:
                inside = 0
                after = data[at + 1]
                if after != delimiter and after != _LF and after != _CR:
                    for j in range(max(opened, 1), at):
                        broken |= data[j] == _LF
                    if broken:
                        registers[1] = opened
                        return 1
                opened = 0
    registers[0], registers[1], registers[2], registers[3] = inside, opened, broken, skip
    return 0
