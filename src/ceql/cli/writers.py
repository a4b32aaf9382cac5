"""Writers of matches: JSON lines, CSV, Parquet, Arrow. (`table` has the one for people.)

A writer takes batches as they are found and is always closed, so that an interrupted command leaves a whole file.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
from pyarrow import csv, parquet

from ceql.cli.exit_codes import UsageError
from ceql.cli.formatting import to_json
from ceql.errors import DataError
from ceql.recognition.result_columns import true_name, variable_fields
from ceql.results.match_set import MatchSet
from ceql.results.matches import Matches
from ceql.results.text import to_python, to_rows

Found = Matches | MatchSet
Projections = dict[str, tuple[str, ...]]


class Format(StrEnum):
    """The values of `--format`."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"


TABLE_LIMIT = 100  # matches of a table on the terminal
SUFFIXES = {
    ".txt": Format.table, ".json": Format.json, ".jsonl": Format.json, ".ndjson": Format.json, ".csv": Format.csv,
    ".parquet": Format.parquet, ".arrow": Format.arrow, ".feather": Format.arrow, ".ipc": Format.arrow,
}  # fmt: skip


class Writer(Protocol):
    """Takes batches of matches, and the rows of their events where these are wanted."""

    def add(self, matches: Found, batch: pa.RecordBatch, rows: pa.Table | None) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


def choose_format(format: Format | None, out: Path | None) -> Format:
    """The format that was asked for, else that of the suffix, else the table."""
    if format is None and out is not None:
        if out.suffix.lower() not in SUFFIXES:
            raise UsageError(f"cannot tell the format of {out.name} from its suffix; add --format")
        format = SUFFIXES[out.suffix.lower()]
    format = format or Format.table
    if out is None and format is Format.parquet:
        raise UsageError("Parquet needs a file to go to: add -o FILE.parquet")
    if out is None and format is Format.arrow and sys.stdout.isatty():
        raise UsageError("Arrow data is not for a terminal: add -o FILE.arrow, or pipe it on")
    return format


class JsonWriter:
    """One match per line. Each variable has its position or positions; its events, if there are rows."""

    def __init__(self, file: IO[str], projections: Projections):
        self._file = file
        self._projections = projections

    def add(self, matches: Found, batch: pa.RecordBatch, rows: pa.Table | None) -> None:
        for match in match_dicts(batch, rows, self._projections):
            self._file.write(to_json(match) + "\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.flush()
        if self._file is not sys.stdout:
            self._file.close()


def match_dicts(batch: pa.RecordBatch, rows: pa.Table | None, projections: Projections) -> list[dict[str, Any]]:
    """The matches as dicts. Rows stand under the variables, or under `events` if there are none."""
    found = to_rows(batch)
    if rows is None:
        return found
    fields = variable_fields(batch.schema) or [batch.schema.field("events")]
    events = iter(_positioned(rows, batch))
    for match in found:
        mine = {position: next(events) for position in match["events"]}
        for field in fields:
            names = projections.get(true_name(field))
            bound = match[field.name]
            if isinstance(bound, list):
                match[field.name] = [_project(mine[position], names) for position in bound]
            elif bound is not None:
                match[field.name] = _project(mine[bound], names)
    return found


class ColumnWriter:
    """CSV, Parquet or Arrow. The columns are those of the result, or of `Matches.events` if there are rows."""

    def __init__(self, format: Format, out: Path | None):
        self._format = format
        self._out = out
        self._stream: Any = None
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        self._matches = 0
        if out is not None:
            self._stream = pa.OSFile(str(out), "wb")

    def add(self, matches: Found, batch: pa.RecordBatch, rows: pa.Table | None) -> None:
        n = batch.num_rows
        if rows is not None and isinstance(matches, Matches):
            batch = matches.event_rows(batch, rows, self._matches)
        self._matches += n
        self.write_batch(batch)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Writes rows that need no more than to be flat in CSV."""
        if self._format is Format.csv:
            batch = _flat(batch)
        if self._writer is None:
            self._schema = batch.schema
            self._writer = self._open(batch.schema)
        if not batch.schema.equals(self._schema):
            raise DataError("the columns of the events have changed, and a table cannot; use --format json")
        self._writer.write(batch)

    def begin(self, schema: pa.Schema) -> None:
        """Opens the file if there were no matches, so that it has its columns."""
        if self._writer is None:
            self._writer = self._open(
                _flat(pa.RecordBatch.from_pylist([], schema)).schema if self._format is Format.csv else schema
            )

    def write(self, table: pa.Table) -> None:
        """Writes rows as they are, after `begin`."""
        self._writer.write(table)

    def _open(self, schema: pa.Schema) -> Any:
        if self._stream is None:
            self._stream = pa.PythonFile(sys.stdout.buffer, "w")
        match self._format:
            case Format.csv:
                return csv.CSVWriter(self._stream, schema)
            case Format.parquet:
                return parquet.ParquetWriter(self._stream, schema, compression="zstd")
            case _ if self._out is None:
                return pa.ipc.new_stream(self._stream, schema)
            case _:
                return pa.ipc.new_file(self._stream, schema)

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._out is not None:
            self._stream.close()


def write_table(table: pa.Table, format: Format, out: Path | None) -> None:
    """Writes a table that is no table of matches, as CSV, Parquet or Arrow."""
    if format is Format.csv:  # which has no decimals of 76 digits
        wide = [pa.types.is_decimal256(type) for type in table.schema.types]
        columns = [c.cast(pa.string()) if w else c for c, w in zip(table.columns, wide, strict=True)]
        table = pa.table(columns, table.column_names)
    writer = ColumnWriter(format, out)
    try:
        writer.begin(table.schema)
        writer.write(table)
    finally:
        writer.close()


def _positioned(rows: pa.Table, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows with their positions first. An attribute `position` gets an underscore, as in `Matches.events`."""
    positions = batch.column("events").flatten().to_pylist()
    return [
        {"position": position, **{("position_" if name == "position" else name): v for name, v in row.items()}}
        for position, row in zip(positions, to_rows(rows), strict=True)
    ]


def _project(row: dict[str, Any], names: tuple[str, ...] | None) -> dict[str, Any]:
    return row if names is None else {name: v for name, v in row.items() if name in names or name == "position"}


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with columns that CSV can hold: nested ones as JSON, binary ones as hex, durations in ISO 8601."""
    columns = [
        pa.array([None if v is None else to_json(v) for v in to_python(column)], pa.string())
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
        else pa.array(to_python(column), pa.string())
        if pa.types.is_duration(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
