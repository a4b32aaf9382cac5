"""CSV on its way to the parser: finds a quote that is never closed.

A quoted field may hold line breaks, so a quote that nobody closes makes a parser take all lines that follow, up to the
next quote or the end of the file, for one field. That would lose events in silence. Two signs give it away: the file
ends inside of a field, or a field of several lines ends with a quote that neither a delimiter nor a line break follows.
"""

from __future__ import annotations

import io
from typing import IO, Any

import numpy as np

from ceql.errors import DataError
from ceql.jit import Array, kernel

_QUOTE = ord('"')
_LF, _CR = ord("\n"), ord("\r")
_BOM = b"\xef\xbb\xbf"
_INSIDE, _OPENED, _BROKEN, _SKIP = range(4)  # registers


class Unquoted(io.RawIOBase):
    """The bytes of `file`, of which each is looked at once. `path` is for messages."""

    def __init__(self, file: IO[bytes], delimiter: str, path: object):
        self._file = file
        self._delimiter = ord(delimiter)
        self._path = path
        self._registers = np.zeros(4, np.int64)
        self._rest = b"\n"  # the byte before the next one to look at, and that one if it has come
        self._lines = 0  # before the rest
        self._line = 1  # in which the last field with quotes begins
        self._done = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        block = self._file.read(size)
        self._look(block)
        return block

    def readinto(self, buffer: Any, /) -> int:
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def _look(self, block: bytes) -> None:
        if self._done:
            return
        self._done = not block
        if self._rest == b"\n" and block.startswith(_BOM):
            block = block[len(_BOM) :]
        if self._registers[_INSIDE] or b'"' in block or b'"' in self._rest:
            self._follow(self._rest + (block or b"\n"))
        # the last byte counts when it has been looked at
        self._lines += self._rest.count(b"\n", 1) + block.count(b"\n", 0, max(0, len(block) - 1))
        self._rest = (self._rest + block[-2:])[-2:]
        if self._done and self._registers[_INSIDE]:
            raise self._error("is never closed")

    def _follow(self, data: bytes) -> None:
        registers = self._registers
        registers[_OPENED] = 0  # what began before, began before these bytes
        wrong = follow(np.frombuffer(data, np.uint8), self._delimiter, registers)
        opened = int(registers[_OPENED])
        if opened:
            self._line = self._lines + data.count(b"\n", 1, opened) + 1
        if wrong:
            raise self._error("is closed lines later, before something that is neither a delimiter nor a line break")
        if registers[_INSIDE]:
            registers[_BROKEN] |= b"\n" in data[max(opened, 1) : -1]

    def _error(self, what: str) -> DataError:
        return DataError(f"cannot read {self._path}: the quote that opens a field in line {self._line} {what}")


@kernel
def follow(data: Array, delimiter: int, registers: Array) -> int:
    """Follow the quotes, but for the first and last byte. Returns 1 if a field of several lines ends in mid-air."""
    inside, opened, broken, skip = registers[0], registers[1], registers[2], registers[3]
    for at in range(1, len(data) - 1):
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
