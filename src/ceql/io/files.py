"""Files to Arrow record batches: Parquet (also directories), CSV, JSON lines, Arrow IPC.

Each format has a `Reader`: a schema, and batches that can be read again and again. A text file of up to `WHOLE_BYTES`
is read whole, so that a column's type is inferred from all of its values; a larger one is read in blocks.
"""

from __future__ import annotations

import gzip
import os
import weakref
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol, cast

import pyarrow as pa

from ceql.errors import CeqlError, DataError
from ceql.io import json_text
from ceql.io.csv_quotes import Quotes
from ceql.io.formats import copied, format_of, is_gzipped, is_pipe
from ceql.io.parquet_pieces import ParquetPieces
from ceql.io.schemas import conform, unify_schemas
from ceql.io.soundness import check_fully

WHOLE_BYTES = 1 << 26
_BLOCK_BYTES = 1 << 24
_DELIMITERS = {"csv": ",", "tsv": "\t"}


class Reader(Protocol):
    """A file of events that can be read again and again."""

    open_schema: bool
    in_memory: bool
    is_parsed: bool
    """Whether it is text, which has to be parsed as a whole."""
    done: float
    """How much of the file the last pass has read, from 0 to 1."""
    skipped: int
    """How many bad lines the last pass has skipped."""

    @property
    def size(self) -> int:
        """The bytes of the file."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def rows(self) -> int | None: ...

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]: ...


def open_file(path: str | os.PathLike[str], format: str | None = None, skip: bool = False) -> Reader:
    """The reader for `path`, by its suffix or content unless `format` is one of `formats.FORMATS`.

    Errors about the path itself are raised here, not at the first batch. A pipe is copied to a temporary file first.
    `skip`: leave out lines of text that are no events, and count them.
    """
    if not os.fspath(path):
        raise DataError("the path of the events is empty")
    path = Path(os.path.expanduser(path))
    if not os.path.exists(path):  # also for names that are too long, of which Path makes an error
        raise DataError(f"no such file: {path}")
    if path.is_dir():
        return Parquet(path)
    with _reading(path):
        if is_pipe(path):
            with open(path, "rb") as pipe:
                return open_copy(copied(pipe), format, skip)
        return _reader(path, format or format_of(path), skip)


def open_copy(path: Path, format: str | None = None, skip: bool = False) -> Reader:
    """The reader for a temporary file, which is removed when the reader is no longer used."""
    try:
        reader = _reader(path, format or format_of(path), skip)
    except BaseException:
        path.unlink()
        raise
    weakref.finalize(reader, path.unlink, missing_ok=True)
    return reader


def _reader(path: Path, format: str, skip: bool) -> Reader:
    if format in _DELIMITERS:
        return _Csv(path, _DELIMITERS[format], skip)
    if format == "json":
        return _JsonLines(path, skip)
    return Parquet(path) if format == "parquet" else _Ipc(path)


class Parquet:
    """A Parquet file, or a directory of them (hive partitions become columns) in order of their paths."""

    open_schema = False
    in_memory = False
    is_parsed = False
    done = 0.0
    skipped = 0

    def __init__(self, path: Path):
        self._path = path

    @cached_property
    def size(self) -> int:
        return sum(os.path.getsize(file) for file in self._dataset.files)

    @cached_property
    def _dataset(self) -> Any:
        import pyarrow.dataset as ds

        with _reading(self._path):
            # only inside a directory does a name such as day=3 stand for a column
            partitioning = "hive" if self._path.is_dir() else None
            dataset = ds.dataset(self._path, format="parquet", partitioning=partitioning)
        if not dataset.files:
            raise DataError(f"{self._path} has no Parquet files")
        return dataset

    @property
    def schema(self) -> pa.Schema:
        return self._dataset.schema.remove_metadata()

    @cached_property
    def pieces(self) -> ParquetPieces:
        """The same rows in pieces, each of which can be read by itself."""
        with _reading(self._path):
            return ParquetPieces(self._dataset, _reading)

    @cached_property
    def rows(self) -> int | None:
        with _reading(self._path):
            return int(self._dataset.count_rows())

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        names = _columns_to_read(columns, self.schema)
        read, total = 0, self.rows or 1
        with _reading(self._path):
            for batch in self._dataset.to_batches(columns=names, batch_size=batch_rows):
                read += batch.num_rows
                self.done = read / total
                yield check_fully(batch.replace_schema_metadata(None))


class _Csv:
    """A CSV file with a header. An empty field without quotes, `null` and `NULL` are NULL in every column.

    Quotes are looked through before Arrow parses. Arrow reads by itself, in threads of its own: one of them that still
    runs Python code when the process ends would abort it.
    """

    open_schema = False
    is_parsed = True
    done = 0.0
    skipped = 0

    def __init__(self, path: Path, delimiter: str, skip: bool):
        self._path = path
        self._delimiter = delimiter
        self._skip = skip
        self._zipped = is_gzipped(path)
        self.size = path.stat().st_size
        self.in_memory = _is_small(self.size, self._zipped)

    @cached_property
    def _table(self) -> pa.Table:
        from pyarrow import csv

        with _reading(self._path):
            return csv.read_csv(
                pa.BufferReader(b"".join(self._looked_through())),
                parse_options=self._parsing(),
                convert_options=self._converting(None),
            )

    @cached_property
    def schema(self) -> pa.Schema:
        if self.in_memory:
            return self._table.schema
        with _reading(self._path):
            # the reader looks blocks ahead; the second one ends the last line of the first
            first = pa.BufferReader(b"".join(block for k, block in enumerate(self._looked_through()) if k < 2))
            return self._stream(first, None).schema

    @property
    def rows(self) -> int | None:
        return int(self._table.num_rows) if self.in_memory else None

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        names = _columns_to_read(columns, self.schema)
        with _reading(self._path, "a column's type is taken from the first part of a large CSV; convert it to Parquet"):
            if self.in_memory:
                yield from _pieces(self, _selected(self._table, names), batch_rows)
                return
            types = self.schema
            with pa.OSFile(str(self._path)) as file:
                for batch in self._stream(self._plain(file), names, types):
                    self.done = file.tell() / self.size
                    yield batch

    def _looked_through(self) -> Iterator[bytes]:
        """The blocks of the file; raises an error if it has a quote that is never closed."""
        with pa.OSFile(str(self._path)) as file:
            plain, quotes = self._plain(file), Quotes(self._delimiter, self._path)
            while block := plain.read(_BLOCK_BYTES):
                quotes.look(block)
                yield block
            quotes.look(b"")

    def _plain(self, file: pa.NativeFile) -> pa.NativeFile:
        return pa.CompressedInputStream(file, "gzip") if self._zipped else file

    def _stream(self, file: pa.NativeFile, names: list[str] | None, types: pa.Schema | None = None) -> Any:
        """The batches; with `types`, which were inferred before, since it takes time to infer them again."""
        from pyarrow import csv

        self.skipped = 0
        with _reading(self._path):
            return csv.open_csv(
                file,
                read_options=csv.ReadOptions(block_size=_BLOCK_BYTES),
                parse_options=self._parsing(),
                convert_options=self._converting(names, types),
            )

    def _parsing(self) -> Any:
        from pyarrow import csv

        return csv.ParseOptions(
            delimiter=self._delimiter,
            newlines_in_values=True,
            invalid_row_handler=self._skip_row if self._skip else None,
        )

    def _skip_row(self, row: Any) -> str:
        self.skipped += 1
        return "skip"

    def _converting(self, names: list[str] | None, types: pa.Schema | None = None) -> Any:
        from pyarrow import csv

        return csv.ConvertOptions(
            include_columns=names,
            column_types=types,
            null_values=["", "null", "NULL"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )


class _JsonLines:
    """One JSON object per line. A large file is read in blocks whose columns may grow, like dicts."""

    is_parsed = True
    done = 0.0
    skipped = 0

    def __init__(self, path: Path, skip: bool):
        self._path = path
        self._skip = skip
        self._zipped = is_gzipped(path)
        self.size = path.stat().st_size
        self.in_memory = _is_small(self.size, self._zipped)
        self.open_schema = not self.in_memory
        self._first: tuple[pa.Table, float, int] | None = None
        """The first block, which was parsed for its columns, how much of the file it is, and its bad lines."""

    @cached_property
    def _table(self) -> pa.Table:
        blocks = list(self._blocks())
        schema = unify_schemas(block.schema for block in blocks)
        batches = [conform(batch, schema) for block in blocks for batch in block.to_batches()]
        return pa.Table.from_batches(batches, schema)

    @cached_property
    def schema(self) -> pa.Schema:
        if self.in_memory:
            return self._table.schema
        first = next(self._blocks(), None)
        self._first = None if first is None else (first, self.done, self.skipped)
        return pa.schema([]) if first is None else first.schema

    @property
    def rows(self) -> int | None:
        return int(self._table.num_rows) if self.in_memory else None

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if self.in_memory:
            names = _columns_to_read(columns, self.schema)
            yield from _pieces(self, _selected(self._table, names), batch_rows)
            return
        schema = self.schema if columns is None else pa.schema([])
        for block in self._blocks():
            names = _columns_to_read(columns, block.schema)
            for batch in _selected(block, names).to_batches(batch_rows):
                conformed = conform(batch, schema, open_schema=True)
                schema = conformed.schema
                yield conformed

    def _blocks(self) -> Iterator[pa.Table]:
        self.skipped = 0
        line = 1
        with _reading(self._path), open(self._path, "rb") as raw:
            file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if self._zipped else raw
            while lines := _whole_lines(file):
                self.done = raw.tell() / self.size
                known, self._first = self._first, None
                if known is not None and known[1] == self.done:
                    self.skipped += known[2]
                    yield known[0]
                elif not lines.isspace() and (table := self._parsed(lines, line)) is not None:
                    yield table
                line += lines.count(b"\n")

    def _parsed(self, lines: bytes, first: int) -> pa.Table | None:
        if first == 1 and lines.lstrip().startswith(b"[") and not self._skip:
            raise DataError(f"{self._path} holds a JSON array; one object per line is expected")
        try:
            return json_text.parse(lines)
        except pa.ArrowInvalid:
            good, bad = json_text.sifted(json_text.numbered(lines, first))
            if not bad:
                raise
            if not self._skip:
                raise DataError(f"cannot read {self._path}: {bad[0][1]}") from None
            self.skipped += len(bad)
            return json_text.parse(b"\n".join(line for _, line in good)) if good else None


class _Ipc:
    """Arrow IPC, as a file or as a stream.

    It is read, not mapped into memory: what was checked cannot change later, and a file that another process cuts short
    is an error, not the end of this process.
    """

    open_schema = False
    in_memory = False
    is_parsed = False
    rows = None
    done = 0.0
    skipped = 0

    def __init__(self, path: Path):
        self._path = path
        self.size = path.stat().st_size

    @cached_property
    def schema(self) -> pa.Schema:
        return self._open(None)[0].schema

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        names = _columns_to_read(columns, self.schema)
        with _reading(self._path):
            reader, file = self._open(names)
            count = 0
            if isinstance(reader, pa.RecordBatchFileReader):
                count = reader.num_record_batches
                found = (reader.get_batch(i) for i in range(count))
            else:
                found = iter(reader)
            for i, batch in enumerate(found, 1):
                self.done = i / count if count else file.tell() / self.size
                yield check_fully(batch if names is None else batch.select(names))

    def _open(self, names: list[str] | None) -> tuple[Any, Any]:
        included = None if names is None else [self.schema.get_field_index(name) for name in names]
        with _reading(self._path):
            options = pa.ipc.IpcReadOptions(included_fields=included)
            file = pa.OSFile(str(self._path))
            if file.read(6) == b"ARROW1":
                return pa.ipc.open_file(file, options=options), file
            file.seek(0)
            return pa.ipc.open_stream(file, options=options), file


_BROKEN = (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeDecodeError)


class _reading:
    """Turns the errors of readers about a broken file into a DataError that names the file."""

    def __init__(self, path: Path, hint: str | None = None):
        self._path = path
        self._hint = hint

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _BROKEN) and not isinstance(error, CeqlError):
            hint = f" ({self._hint})" if self._hint else ""
            raise DataError(f"cannot read {self._path}: {error}{hint}") from error


def _columns_to_read(columns: Sequence[str] | None, schema: pa.Schema) -> list[str] | None:
    """Those of `columns` that the file has, in the file's order; None stands for all.

    If it has none of them, the first column, so that the number of rows is known.
    """
    if columns is None:
        return None
    wanted = set(columns)
    return [name for name in schema.names if name in wanted] or schema.names[:1]


def _selected(table: pa.Table, names: list[str] | None) -> pa.Table:
    return table if names is None else table.select(names)


def _pieces(reader: Reader, table: pa.Table, batch_rows: int) -> Iterator[pa.RecordBatch]:
    read = 0
    for batch in table.to_batches(batch_rows):
        read += batch.num_rows
        reader.done = read / table.num_rows
        yield batch


def _is_small(size: int, zipped: bool) -> bool:
    return size * (8 if zipped else 1) <= WHOLE_BYTES


def _whole_lines(file: IO[bytes]) -> bytes:
    """The next block of the file, up to the end of a line."""
    block = file.read(_BLOCK_BYTES)
    return block if not block or block.endswith(b"\n") else block + file.readline()
