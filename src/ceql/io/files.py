"""Files to Arrow record batches, chosen by suffix: Parquet (also directories), CSV, JSON lines, Arrow IPC.

Each format has a `Reader`: a schema, and batches that can be read again and again. A text file of up to `WHOLE_BYTES`
is read whole, so that a column's type is inferred from all of its values; a larger one is read in blocks.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol, cast

import pyarrow as pa

from ceql.errors import CeqlError, DataError
from ceql.io.schemas import conform, unify_schemas

WHOLE_BYTES = 1 << 26
_BLOCK_BYTES = 1 << 24
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON = (".jsonl", ".ndjson", ".json")
_IPC = (".arrow", ".feather", ".ipc")
_KNOWN = ".parquet, .csv, .tsv, .jsonl, .ndjson, .json (JSON lines), .arrow, .feather, .ipc, or a directory of Parquet"


class Reader(Protocol):
    """A file of events that can be read again and again."""

    open_schema: bool
    in_memory: bool

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def rows(self) -> int | None: ...

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]: ...


def open_file(path: str | os.PathLike[str]) -> Reader:
    """The reader for `path`. Errors about the path itself are raised here, not at the first batch."""
    path = Path(path).expanduser()
    if not path.exists():
        raise DataError(f"no such file: {path}")
    if path.is_dir():
        return _Parquet(path)
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
        if suffix not in _DELIMITERS and suffix not in _JSON:
            raise DataError(f"cannot tell the format of {path.name}: only CSV and JSON lines may be gzipped")
    if suffix == ".parquet":
        return _Parquet(path)
    if suffix in _DELIMITERS:
        return _Csv(path, _DELIMITERS[suffix])
    if suffix in _JSON:
        return _JsonLines(path)
    if suffix in _IPC:
        return _Ipc(path)
    raise DataError(f"cannot tell the format of {path.name} from its suffix; known are {_KNOWN}")


class _Parquet:
    """A Parquet file, or a directory of them (hive partitions become columns) in order of their paths."""

    open_schema = False
    in_memory = False

    def __init__(self, path: Path):
        self._path = path

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

    @property
    def rows(self) -> int | None:
        return int(self._dataset.count_rows())

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        names = _columns_to_read(columns, self.schema)
        with _reading(self._path):
            for batch in self._dataset.to_batches(columns=names, batch_size=batch_rows):
                yield batch.replace_schema_metadata(None)


class _Csv:
    """A CSV file with a header. An empty field without quotes, `null` and `NULL` are NULL in every column."""

    open_schema = False

    def __init__(self, path: Path, delimiter: str):
        self._path = path
        self._delimiter = delimiter
        self.in_memory = _is_small(path)

    @cached_property
    def _table(self) -> pa.Table:
        from pyarrow import csv

        with _reading(self._path):
            return csv.read_csv(self._path, parse_options=self._parsing(), convert_options=self._converting(None))

    @cached_property
    def schema(self) -> pa.Schema:
        return self._table.schema if self.in_memory else self._stream(None).schema

    @property
    def rows(self) -> int | None:
        return int(self._table.num_rows) if self.in_memory else None

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        names = _columns_to_read(columns, self.schema)
        with _reading(self._path, "a column's type is taken from the first part of a large CSV; convert it to Parquet"):
            if self.in_memory:
                yield from _selected(self._table, names).to_batches(batch_rows)
            else:
                yield from self._stream(names)

    def _stream(self, names: list[str] | None) -> Any:
        from pyarrow import csv

        with _reading(self._path):
            return csv.open_csv(
                self._path,
                read_options=csv.ReadOptions(block_size=_BLOCK_BYTES),
                parse_options=self._parsing(),
                convert_options=self._converting(names),
            )

    def _parsing(self) -> Any:
        from pyarrow import csv

        return csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)

    def _converting(self, names: list[str] | None) -> Any:
        from pyarrow import csv

        return csv.ConvertOptions(
            include_columns=names,
            null_values=["", "null", "NULL"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )


class _JsonLines:
    """One JSON object per line. A large file is read in blocks whose columns may grow, like dicts."""

    def __init__(self, path: Path):
        self._path = path
        self.in_memory = _is_small(path)
        self.open_schema = not self.in_memory

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
        return pa.schema([]) if first is None else first.schema

    @property
    def rows(self) -> int | None:
        return int(self._table.num_rows) if self.in_memory else None

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if self.in_memory:
            names = _columns_to_read(columns, self.schema)
            yield from _selected(self._table, names).to_batches(batch_rows)
            return
        schema = self.schema if columns is None else pa.schema([])
        for block in self._blocks():
            names = _columns_to_read(columns, block.schema)
            for batch in _selected(block, names).to_batches(batch_rows):
                conformed = conform(batch, schema, open_schema=True)
                schema = conformed.schema
                yield conformed

    def _blocks(self) -> Iterator[pa.Table]:
        from pyarrow import json

        with _reading(self._path), _open_bytes(self._path) as file:
            started = False
            while lines := _whole_lines(file):
                if not lines.strip():
                    continue
                if not started and lines.lstrip().startswith(b"["):
                    raise DataError(f"{self._path} holds a JSON array; one object per line is expected")
                started = True
                # parsed as one block of Arrow's, which refuses an object that is larger than a block
                options = json.ReadOptions(block_size=max(1 << 20, len(lines) + 1))
                yield json.read_json(pa.BufferReader(lines), read_options=options)


class _Ipc:
    """Arrow IPC, as a file (memory-mapped) or as a stream."""

    open_schema = False
    in_memory = False
    rows = None

    def __init__(self, path: Path):
        self._path = path

    @cached_property
    def schema(self) -> pa.Schema:
        return self._open(None).schema

    def batches(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        names = _columns_to_read(columns, self.schema)
        with _reading(self._path):
            reader = self._open(names)
            if isinstance(reader, pa.RecordBatchFileReader):
                found = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                found = iter(reader)
            for batch in found:
                yield batch if names is None else batch.select(names)

    def _open(self, names: list[str] | None) -> Any:
        included = None if names is None else [self.schema.get_field_index(name) for name in names]
        with _reading(self._path):
            options = pa.ipc.IpcReadOptions(included_fields=included)
            file = pa.memory_map(str(self._path))
            if file.read(6) == b"ARROW1":
                return pa.ipc.open_file(file, options=options)
            file.seek(0)
            return pa.ipc.open_stream(file, options=options)


class _reading:
    """Turns Arrow's errors about a broken file into a DataError that names the file."""

    def __init__(self, path: Path, hint: str | None = None):
        self._path = path
        self._hint = hint

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (pa.ArrowException, OSError, EOFError)) and not isinstance(error, CeqlError):
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


def _is_small(path: Path) -> bool:
    expansion = 8 if path.suffix.lower() == ".gz" else 1
    return path.stat().st_size * expansion <= WHOLE_BYTES


def _open_bytes(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb")


def _whole_lines(file: IO[bytes]) -> bytes:
    """The next block of the file, up to the end of a line."""
    block = file.read(_BLOCK_BYTES)
    return block if not block or block.endswith(b"\n") else block + file.readline()
