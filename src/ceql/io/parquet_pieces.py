"""Parquet files in pieces: whole row groups, with what their statistics say of the values.

In: a dataset of Parquet files. Out: its pieces in order of the rows. A piece is one or more row groups of a file, as
many as make a batch. It knows between which values each column lies, and reads the columns that are asked for, those of
text as codes into a dictionary where the file has them so. Nothing is read before it is asked for but the files'
metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError
from ceql.io.parquet_footer import check_columns, statistics
from ceql.io.plain_types import plain_type
from ceql.io.schemas import is_text

_PIECE_ROWS = 1 << 17  # row groups smaller than this are read together
_MOST_ROWS = 1 << 23  # larger row groups would take too much memory at once
_MOST_BYTES = 1 << 29
_PLAIN_TEXT = 4  # bytes that a text takes at least where it is not a code
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
Reading = Callable[[Path], AbstractContextManager[None]]
"""Turns errors about a broken file into ours, which name it."""


class Bounds(NamedTuple):
    """What is known of the values of a column without looking at its rows."""

    ends: pa.Array | None = None
    """No value but NULL and NaN is below the first of these two or above the second."""
    nulls: bool = True
    """Whether there may be NULLs."""
    values: pa.Array | None = None
    """All values that may occur."""


class Piece:
    """Some row groups of one file, next to each other."""

    def __init__(self, file: _File, groups: Sequence[int], first: int, rows: int) -> None:
        self._file = file
        self._groups = list(groups)
        self.first = first
        """The number of its first row, counted through all files."""
        self.rows = rows

    def bounds(self, name: str) -> Bounds:
        """What the statistics say of a column; nothing, where they do not."""
        found = [self._file.bounds(group, name) for group in self._groups]
        nulls = any(bounds.nulls for bounds in found)
        ends = [bounds.ends for bounds in found if bounds.ends is not None]
        if len(ends) < len(found):
            return Bounds(None, nulls)
        every = pa.concat_arrays(ends)
        in_order = pc.array_sort_indices(every)
        return Bounds(every.take(in_order.take(pa.array([0, len(every) - 1]))), nulls)

    def read(self, columns: Sequence[str], coded: frozenset[str]) -> pa.Table:
        """The rows of these columns, those of `coded` as codes into dictionaries."""
        return self._file.read(self._groups, columns, coded)


class _File:
    """One file of a dataset."""

    def __init__(self, fragment: Any, schema: pa.Schema, reading: Reading) -> None:
        self._reading = partial(reading, Path(fragment.path))
        self._fragment = fragment
        self._schema = schema
        self._coded: dict[frozenset[str], Any] = {}
        with self._reading():
            self._metadata = fragment.metadata
            self._state = self._now()
            check_columns(self._metadata, self._state[1] or 0)
        self._columns = {self._metadata.schema.column(k).path: k for k in range(self._metadata.num_columns)}

    def _now(self) -> tuple[Any, ...]:
        """What changes when somebody writes to the file."""
        found = self._fragment.filesystem.get_file_info(self._fragment.path)
        return found.type, found.size, found.mtime_ns

    def check_unchanged(self) -> None:
        """Raise an error if somebody has written to the file."""
        if self._now() != self._state:
            raise DataError(f"{self._fragment.path} has changed since the query was begun; run it again")

    @cached_property
    def _keys(self) -> dict[str, Any]:
        """The columns that the names of folders give."""
        import pyarrow.dataset as ds

        return dict(ds.get_partition_keys(self._fragment.partition_expression))

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        return {field.name: field.type for field in self._fragment.physical_schema}

    def group_rows(self) -> list[tuple[int, int]]:
        """The rows and bytes of each row group."""
        groups = [self._metadata.row_group(k) for k in range(self._metadata.num_row_groups)]
        return [(group.num_rows, group.total_byte_size) for group in groups]

    def has_codes(self, name: str) -> bool:
        """Whether a column of text is written as codes, but for few of its values."""
        index = self._columns.get(name)
        if index is None:
            return False
        chunks = [self._metadata.row_group(k).column(index) for k in range(self._metadata.num_row_groups)]
        size, values = sum(c.total_uncompressed_size for c in chunks), sum(c.num_values for c in chunks)
        return all(chunk.has_dictionary_page for chunk in chunks) and size < _PLAIN_TEXT * values

    def bounds(self, group: int, name: str) -> Bounds:
        type = plain_type(self._schema.field(name).type)
        if name in self._keys:
            value = self._keys[name]
            return Bounds(None if value is None else _array([value, value], type), value is None)
        index = self._columns.get(name)
        if index is None or self._types.get(name) != self._schema.field(name).type:
            return Bounds()
        with self._reading():
            found = statistics(self._metadata, group, index)
        if found is None:
            return Bounds()
        nulls = not (found.has_null_count and found.null_count == 0)
        return Bounds(self._ends(found, index, type) if found.has_min_max else None, nulls)

    def _ends(self, found: Any, index: int, type: pa.DataType) -> pa.Array | None:
        if pa.types.is_timestamp(type):
            if not _holds_times(self._metadata.schema.column(index), type):
                return None
            return pa.array([found.min_raw, found.max_raw], pa.int64()).cast(type)
        kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_date32, pa.types.is_decimal, is_text)
        if not any(is_one(type) for is_one in kinds) or pa.types.is_dictionary(type) or pa.types.is_float16(type):
            return None
        try:
            return _array([found.min, found.max], type)
        except (OverflowError, ValueError):  # such as a text that was cut in the middle of a letter
            return None

    def read(self, groups: list[int], columns: Sequence[str], coded: frozenset[str]) -> pa.Table:
        coded = coded & set(columns)
        schema = self._schema
        for name in coded:
            field = pa.field(name, pa.dictionary(pa.int32(), pa.string()))
            schema = schema.set(schema.get_field_index(name), field)
        with self._reading():
            self.check_unchanged()
            fragment = self._fragment_with(coded).subset(row_group_ids=groups, schema=schema)
            table = fragment.to_table(schema=schema, columns=list(columns), batch_size=_PIECE_ROWS)
            rows = sum(self._metadata.row_group(group).num_rows for group in groups)
            if table.num_rows != rows:
                raise pa.ArrowInvalid(f"{table.num_rows} rows were read, and its footer says that there are {rows}")
        return table.replace_schema_metadata(None)

    def _fragment_with(self, coded: frozenset[str]) -> Any:
        """The file for a format that reads these columns as codes."""
        import pyarrow.dataset as ds

        if coded not in self._coded:
            format = ds.ParquetFileFormat(dictionary_columns=sorted(coded))
            fragment = format.make_fragment(
                self._fragment.path, self._fragment.filesystem, self._fragment.partition_expression
            )
            fragment.ensure_complete_metadata()
            self._coded[coded] = fragment
        return self._coded[coded]


class ParquetPieces:
    """The pieces of a dataset, in order of its rows."""

    def __init__(self, dataset: Any, reading: Reading) -> None:
        self.schema: pa.Schema = dataset.schema.remove_metadata()
        self._files = [_File(fragment, self.schema, reading) for fragment in dataset.get_fragments()]
        self.pieces: list[Piece] = []
        self.rows = 0
        self.fits = True
        """Whether each piece can be held in memory at once."""
        for file in self._files:
            groups: list[int] = []
            held = 0
            sizes = file.group_rows()
            for k, (rows, size) in enumerate(sizes):
                self.fits = self.fits and rows <= _MOST_ROWS and size <= _MOST_BYTES
                groups.append(k)
                held += rows
                if held and (held >= _PIECE_ROWS or k == len(sizes) - 1):
                    self.pieces.append(Piece(file, groups, self.rows, held))
                    self.rows += held
                    groups, held = [], 0

    def coded(self, names: Sequence[str]) -> frozenset[str]:
        """Those of these columns that hold text and are written as codes."""
        text = [n for n in names if n in self.schema.names and is_text(self.schema.field(n).type)]
        plain = [name for name in text if not pa.types.is_dictionary(self.schema.field(name).type)]
        return frozenset(name for name in plain if self._files and all(file.has_codes(name) for file in self._files))


def _holds_times(column: Any, type: pa.DataType) -> bool:
    """Whether a column of a file's schema holds times as numbers of the unit that the type has."""
    unit = json.loads(column.logical_type.to_json()).get("timeUnit")
    return bool(column.physical_type == "INT64" and _UNITS.get(unit) == type.unit)


def _array(values: list[Any], type: pa.DataType) -> pa.Array | None:
    try:
        return pa.array(values, type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
