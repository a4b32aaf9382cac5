"""JSON lines from a pipe: reads all whole lines that have arrived, and waits only if there are none.

A slow pipe gives one line at a time, so that a match is seen at once; a fast one gives blocks, each parsed as a whole.
An error about a line has its number, and is raised after all lines before it have been handed out.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterator

import pyarrow as pa

from ceql.cli.times import TextTimes
from ceql.errors import DataError
from ceql.io import json_text
from ceql.io.formats import format_of_bytes
from ceql.io.source import Source
from ceql.io.sources import OnceSource, TableSource

_READ = 1 << 18
_BLOCK = 1 << 22


class JsonLines:
    """The events that begin with the bytes `head` and go on on a file descriptor.

    With `skip`, lines that are no events and events without a time are left out. `names` has the attributes seen.
    """

    def __init__(self, descriptor: int, head: bytes = b"", time: str | None = None, skip: bool = False):
        self._descriptor = descriptor
        self._head = head
        self._times = TextTimes(time, skip)
        self._columns: pa.Schema | None = None
        self._skip = skip
        self._line = 1
        self._bad = 0
        self.names: set[str] = set()

    @property
    def skipped(self) -> int:
        return self._bad + self._times.skipped

    def __iter__(self) -> Iterator[TableSource]:
        rest = b""
        arrived = self._head or self._read()
        while arrived:
            whole, newline, rest = (rest + arrived).rpartition(b"\n")
            if newline:
                yield from self._parse(whole)
            arrived = self._read()
        if rest:
            yield from self._parse(rest)

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

    def _parse(self, text: bytes) -> Iterator[TableSource]:
        lines = json_text.numbered(text, self._line)
        self._line += text.count(b"\n") + 1
        if not lines:
            return
        if self._columns is None:
            self._columns = _text_time(lines[0][1], self._times.name)
        table, _ = _table(lines, self._columns)
        bad: list[tuple[int, str]] = []
        if table is None:
            lines, bad = json_text.sifted(lines)
            if self._skip:
                self._bad += len(bad)
            elif bad:
                lines = [line for line in lines if line[0] < bad[0][0]]
            if lines:
                table, problem = _table(lines, self._columns)
                if table is None:
                    raise DataError(json_text.with_number(problem, lines))
        if table is not None:
            self.names.update(table.schema.names)
            yield _block(self._times.convert(table))
        if bad and not self._skip:
            is_csv = bad[0][0] == 1 and format_of_bytes(text) in ("csv", "tsv")
            raise DataError(bad[0][1] + "; if this is CSV, say --input-format csv" * is_csv)


def _block(table: pa.Table) -> TableSource:
    """The events of some lines. An attribute that none of them has is NULL."""
    return TableSource(None, 1 << 16, lambda: table, open_schema=True)


def _text_time(line: bytes, time: str | None) -> pa.Schema:
    """A schema that keeps the time as text if it is text, since Arrow reads only some texts as times."""
    try:
        is_text = isinstance(json.loads(line)[time], str)
    except (ValueError, RecursionError, TypeError, LookupError):
        is_text = False
    return pa.schema([(time, pa.string())] if is_text else [])


def _table(lines: json_text.Numbered, columns: pa.Schema) -> tuple[pa.Table | None, str]:
    """The lines as a table, or Arrow's error message. Arrow does not check that text is UTF-8."""
    text = b"\n".join(line for _, line in lines) + b"\n"
    try:
        text.decode("utf-8")
        table = json_text.parse(text, columns)
    except (UnicodeDecodeError, pa.ArrowException) as error:
        return None, str(error)
    # with an object on several lines, or several on one, the line numbers of later messages would be wrong
    return (table, "") if table.num_rows == len(lines) else (None, "one JSON object per line is expected")
