"""JSON lines from a pipe: reads all whole lines that have arrived, and waits only if there are none.

A slow pipe gives one line at a time, so that a match is seen at once; a fast one gives blocks, each parsed as a whole.
An error about a line has its number, and is raised after all lines before it have been handed out.
"""

from __future__ import annotations

import json
import os
import re
import select
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import json as arrow_json

from ceql.cli.times import TextTimes
from ceql.errors import DataError
from ceql.io.sources import OnceSource, Source

_READ = 1 << 18
_BLOCK = 1 << 22


class LineBlock(Source):
    """The events of some lines. An attribute that none of them has is NULL."""

    _open_schema = True

    def __init__(self, table: pa.Table):
        super().__init__(None, 1 << 16)
        self._table = table

    def _schema(self) -> pa.Schema:
        return self._table.schema

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches())


class JsonLines:
    """The events on a file descriptor. `skipped` counts the bad lines, if these are skipped."""

    def __init__(self, descriptor: int, time: str | None = None, skip_bad_lines: bool = False):
        self._descriptor = descriptor
        self._times = TextTimes(time)
        self._columns: pa.Schema | None = None
        self._skip = skip_bad_lines
        self._line = 0
        self.skipped = 0

    def __iter__(self) -> Iterator[LineBlock]:
        rest = b""
        while arrived := self._read():
            whole, newline, rest = (rest + arrived).rpartition(b"\n")
            if newline:
                yield from self._parse(whole.split(b"\n"))
        if rest:
            yield from self._parse([rest])

    def source(self) -> Source:
        """All lines as one source, which can be read only once."""
        return OnceSource(None, 1 << 16, lambda: ((batch for block in self for batch in block.batches()), True))

    def _read(self) -> bytes:
        """The bytes that have arrived; waits only if there are none. Empty at the end."""
        arrived = os.read(self._descriptor, _READ)
        size = len(arrived)
        parts = [arrived]
        while arrived and size < _BLOCK and select.select([self._descriptor], [], [], 0)[0]:
            arrived = os.read(self._descriptor, _READ)
            size += len(arrived)
            parts.append(arrived)
        return b"".join(parts)

    def _parse(self, lines: list[bytes]) -> Iterator[LineBlock]:
        first = self._line + 1
        self._line += len(lines)
        numbered = [(first + k, line) for k, line in enumerate(lines) if line.strip()]
        if not numbered:
            return
        if self._columns is None:
            self._columns = _text_time(numbered[0][1], self._times.name)
        table, problem = _table([line for _, line in numbered], self._columns)
        if table is not None:
            yield LineBlock(self._times.convert(table))
            return
        good: list[tuple[int, bytes]] = []
        error: str | None = None
        for number, line in numbered:
            wrong = what_is_wrong(line)
            if wrong is None:
                good.append((number, line))
            elif self._skip:
                self.skipped += 1
            else:
                error = f"line {number} is no event: {wrong}"
                break
        if good:
            table, problem = _table([line for _, line in good], self._columns)
            if table is None:
                raise DataError(_with_number(problem, [number for number, _ in good]))
            yield LineBlock(self._times.convert(table))
        if error is not None:
            raise DataError(error)


def what_is_wrong(line: bytes) -> str | None:
    """Why a line is not an event, or None.

    >>> what_is_wrong(b'{"a": 1}'), what_is_wrong(b"[1]")
    (None, 'a JSON object is expected, not a list')
    """
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error)
    if isinstance(value, dict):
        return None
    return f"a JSON object is expected, not a {type(value).__name__}"


def _text_time(line: bytes, time: str | None) -> pa.Schema:
    """A schema that keeps the time as text if it is text, since Arrow reads only some texts as times."""
    try:
        is_text = isinstance(json.loads(line)[time], str)
    except (ValueError, RecursionError, TypeError, LookupError):
        is_text = False
    return pa.schema([(time, pa.string())] if is_text else [])


def _table(lines: list[bytes], columns: pa.Schema) -> tuple[pa.Table | None, str]:
    """The lines as a table, or Arrow's error message. Arrow does not check that text is UTF-8."""
    text = b"\n".join(lines) + b"\n"
    try:
        text.decode("utf-8")
        options = arrow_json.ReadOptions(block_size=max(1 << 20, len(text) + 1))
        parsing = arrow_json.ParseOptions(explicit_schema=columns)
        table = arrow_json.read_json(pa.BufferReader(text), options, parsing)
    except (UnicodeDecodeError, pa.ArrowException) as error:
        return None, str(error)
    # with an object on several lines, or several on one, the line numbers of later messages would be wrong
    return (table, "") if table.num_rows == len(lines) else (None, "one JSON object per line is expected")


def _with_number(problem: str, numbers: list[int]) -> str:
    row = re.search(r"in row (\d+)", problem)
    if row and int(row[1]) < len(numbers):
        return f"line {numbers[int(row[1])]}: {problem}"
    return f"lines {numbers[0]} to {numbers[-1]}: {problem}"
