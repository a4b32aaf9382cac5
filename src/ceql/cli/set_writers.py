"""Writers of the matches of a folder of queries: rows of the table that all queries have in common."""

from __future__ import annotations

from typing import IO

import pyarrow as pa

from ceql.cli.formatting import to_json
from ceql.cli.table import print_table
from ceql.cli.writers import ColumnWriter, Format, Found, JsonWriter
from ceql.results.text import between, cell, to_python, to_rows

_MAPS = ("bindings", "measures")


class SetColumnWriter(ColumnWriter):
    """CSV, Parquet or Arrow. In CSV, maps are JSON objects."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        super().write_batch(self._shown(batch))

    def begin(self, schema: pa.Schema) -> None:
        super().begin(self._shown(pa.RecordBatch.from_pylist([], schema)).schema)

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = batch.set_column(0, "query", batch.column("query").cast(pa.string()))
        if self._format is Format.csv:
            for name in _MAPS:
                texts = [to_json(dict(value)) for value in to_python(batch.column(name))]
                batch = batch.set_column(batch.schema.get_field_index(name), name, pa.array(texts, pa.string()))
        return batch


class SetJsonWriter(JsonWriter):
    """One match per line."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(file, {})

    def add(self, matches: Found, batch: pa.RecordBatch, rows: pa.Table | None) -> None:
        for row in to_rows(batch):
            self._file.write(to_json(row | {name: dict(row[name]) for name in _MAPS}) + "\n")


class SetTableWriter(SetJsonWriter):
    """A table for people. Of a stream, each match is a line as soon as it is there."""

    def __init__(self, file: IO[str], streaming: bool) -> None:
        super().__init__(file)
        self._streaming = streaming
        self._lines: list[list[str]] = []
        self._heads: list[str] = []

    def add(self, matches: Found, batch: pa.RecordBatch, rows: pa.Table | None) -> None:
        timed = "end_time" in batch.schema.names
        keys = batch.schema.names[5 if timed else 3 : batch.schema.get_field_index("events")]
        self._heads = ["query", "match", *(["time"] if timed else []), *keys, "events"]
        columns = {name: to_python(batch.column(name), " ") for name in batch.schema.names if name not in _MAPS}
        for k in range(batch.num_rows):
            line = [cell(columns["query"][k]), f"{columns['start'][k]}..{columns['end'][k]}"]
            if timed:
                line.append(between(columns["start_time"][k], columns["end_time"][k]))
            line += [cell(columns[key][k]) for key in keys]
            line.append(cell(", ".join(map(str, columns["events"][k]))))
            if self._streaming:
                self._file.write("  ".join(line) + "\n")
            else:
                self._lines.append(line)

    def close(self) -> None:
        if self._lines:
            print_table(self._heads, self._lines, self._file)
        super().close()
