"""The inputs that the command line names: the query, and the files of each stream as one source."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from ceql.cli.exit_codes import UsageError, say
from ceql.cli.times import TextTimes
from ceql.errors import naming
from ceql.io.files import Reader, open_copy, open_file
from ceql.io.formats import copied, format_of_bytes
from ceql.io.schemas import conform, is_text, unify_schemas
from ceql.io.source import Source
from ceql.query import Query, compile
from ceql.query_set import QuerySet

T = TypeVar("T")
STDIN = "-"
SUFFIX = ".ceql"
FROM_TERMINAL = "reading events from the terminal, one JSON object per line; Ctrl-D ends"
_NAMED = re.compile(r"(\w+)=(.+)", re.DOTALL)
_SELECT = re.compile(r"\bselect\b", re.IGNORECASE)


def read_query(argument: str) -> Query:
    """The query: in the file of this name, on standard input (`-`), or `argument` itself."""
    return compile(read_text(argument))


def read_text(argument: str) -> str:
    """The text of a query, or of SQL: from the file of this name, from standard input (`-`), or `argument` itself."""
    if argument == STDIN:
        try:
            return sys.stdin.read()
        except UnicodeDecodeError as error:
            raise UsageError(f"the query on standard input is no text: {error}") from error
    path = Path(argument)
    if _is_file(path):
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the query {path}: {error}") from error
    if _SELECT.search(argument):
        return argument
    raise UsageError(f"{argument!r} is neither a file nor a query (a query has SELECT in it)")


def read_events(query: Query, arguments: Iterable[str], named: Iterable[str]) -> dict[str | None, list[str]]:
    """The files of each stream. Standard input is the file `-`. Without FROM, the only stream has no name."""
    streams: tuple[str | None, ...] = query.plan.query.streams or (None,)
    files: dict[str | None, list[str]] = {}
    for argument in arguments:
        match = None if os.path.exists(argument) else _NAMED.fullmatch(argument)
        name, path = match.groups() if match else (streams[0], argument)
        if match is None and len(streams) > 1:
            listed = " ".join(f"{stream}=FILE" for stream in streams)
            raise UsageError(f"the query reads FROM several streams: say which is which, with {listed}")
        files.setdefault(name, []).append(path)
    for argument in named:
        match = _NAMED.fullmatch(argument)
        if match is None:
            raise UsageError(f"--stream takes NAME=FILE, not {argument!r}")
        files.setdefault(match[1], []).append(match[2])
    if not files and len(streams) == 1:
        files[streams[0]] = [STDIN]
    for name in files:
        if name not in streams:
            raise UsageError(f"the query's FROM lists no stream '{name}'")
    for stream in streams:
        if stream not in files:
            raise UsageError(f"the query reads FROM '{stream}': pass {stream}=FILE")
    if any(STDIN in paths for paths in files.values()) and sum(map(len, files.values())) > 1:
        raise UsageError("standard input (-) must be the only source of events")
    return files


def single_or_named(inputs: dict[str | None, T]) -> T | dict[str, T]:
    """What `Query.run` takes: the only input, or a dict of inputs if the streams have names."""
    named = {name: found for name, found in inputs.items() if name is not None}
    return named or inputs[None]


def total(counts: Iterable[int | None]) -> int | None:
    """The sum; None if a count is unknown."""
    found = 0
    for count in counts:
        if count is None:
            return None
        found += count
    return found


class Files(Source):
    """Files of one stream, read one after the other; `-` is standard input, which is copied to a file first.

    If the column `time` is text, as in JSON, it is read as ISO 8601. `on_read` is called with the rows and the bytes of
    each batch. With `skip`, lines that are no events and events without a time are left out, and `skipped` counts them.
    """

    sound = True

    def __init__(
        self,
        name: str | None,
        paths: Iterable[str],
        time: str | None = None,
        format: str | None = None,
        skip: bool = False,
        on_read: Callable[[int, float], None] | None = None,
    ):
        super().__init__(name, 1 << 16)
        self._parts = [_open(path, format, skip) for path in paths]
        self._times = TextTimes(time, skip)
        self._skip = skip
        self._on_read = on_read
        self._open_schema = any(part.open_schema for part in self._parts)
        self._names: set[str] = set()

    @property
    def names(self) -> set[str]:
        """The attributes: those of the schema, or of an open one, those that have been seen."""
        return self._names if self.open_schema else set(self.schema.names)

    @property
    def rows(self) -> int | None:
        return total(part.rows for part in self._parts)

    def look_through(self, column: str) -> Iterator[pa.RecordBatch]:
        told, self._on_read = self._on_read, None
        try:
            yield from super().look_through(column)
        finally:
            self._on_read = told

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(part.size for part in self._parts)

    @property
    def skipped(self) -> int:
        """How many lines or events the last pass has left out."""
        return self._times.skipped + sum(part.skipped for part in self._parts)

    def _schema(self) -> pa.Schema:
        return unify_schemas(self._part_schema(part) for part in self._parts)

    def _part_schema(self, part: Reader) -> pa.Schema:
        index = part.schema.get_field_index(self._times.name) if self._times.name is not None else -1
        if index < 0 or not is_text(part.schema.field(index).type):
            return part.schema
        first = next(part.batches([part.schema.names[index]], self.batch_rows), None)
        if first is None:
            return part.schema
        return part.schema.set(index, self._times.convert(pa.table(first)).schema.field(part.schema.names[index]))

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        schemas = [self._part_schema(part) for part in self._parts]
        self._times.skipped = 0
        for part, schema in zip(self._parts, schemas, strict=True):
            read = 0.0
            for batch in part.batches(None if self.open_schema else columns, self.batch_rows):
                self._names.update(batch.schema.names)
                for piece in self._converted(batch) if self._skip or schema != part.schema else [batch]:
                    yield piece if self.open_schema else conform(piece, self._wanted(columns))
                if self._on_read is not None:
                    self._on_read(batch.num_rows, (part.done - read) * part.size)
                    read = part.done

    def _converted(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        converted: list[pa.RecordBatch] = self._times.convert(pa.table(batch)).combine_chunks().to_batches()
        return converted

    def _wanted(self, columns: list[str] | None) -> pa.Schema:
        return self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])


def _open(path: str, format: str | None, skip: bool) -> Reader:
    if path == STDIN:
        if sys.stdin.isatty():
            say(FROM_TERMINAL)
        return open_copy(copied(sys.stdin.buffer, first_bytes()), format, skip)
    return open_file(path, format, skip)


class Skipping(Protocol):
    """What counts the lines that it has left out."""

    @property
    def skipped(self) -> int: ...


def say_skipped(sources: Iterable[Skipping]) -> None:
    """Says how many lines were left out, if any were."""
    skipped = sum(source.skipped for source in sources)
    if skipped:
        say(f"{skipped:,} bad {'line was' if skipped == 1 else 'lines were'} skipped")


@cache
def first_bytes() -> bytes:
    """The bytes of standard input that arrive first. Whoever reads it afterwards begins with them."""
    return os.read(sys.stdin.fileno(), 1 << 18)


def read_folder(folder: Path) -> QuerySet:
    """The queries of a folder, each under the name of its file."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.is_file())
    if not paths:
        raise UsageError(f"the folder {folder} has no queries: no file whose name ends in {SUFFIX}")
    queries: dict[str, Query] = {}
    for path in paths:
        with naming(path.stem):
            queries[path.stem] = compile(read_text(str(path)))
    return QuerySet(queries)


def is_live(format: str | None) -> bool:
    """Whether standard input has JSON lines, which are recognised as they arrive."""
    if format is not None or sys.stdin.isatty():
        return format in (None, "json")
    # without a word from the user, text is JSON: the first of its lines may be bad
    return format_of_bytes(first_bytes()) not in ("parquet", "arrow")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a query may be too long for a file name, or have a NUL in it
        return False
