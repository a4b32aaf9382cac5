"""Checks the footer of a Parquet file, so that a damaged one is an error and not the end of the process.

Arrow's C++ code throws where a column of a row group contradicts the schema, and the functions that show these columns
to Python do not catch it. Its reader does: it looks at all of them before it reads anything. So the reader is started
on a file that ends the reading at the first byte.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import Any

import pyarrow as pa


def check_columns(metadata: Any, size: int) -> None:
    """Raises an error of Arrow's if a column of a row group cannot be asked for anything; `size`: of the file."""
    import pyarrow.parquet as pq

    if not metadata.num_row_groups or not metadata.num_columns:
        return
    file = pq.ParquetFile(pa.PythonFile(_Unread(size), "r"), metadata=metadata, pre_buffer=True)
    with suppress(_Reached):
        next(file.iter_batches(1, row_groups=range(metadata.num_row_groups), use_threads=False), None)


def statistics(metadata: Any, group: int, column: int) -> Any:
    """The statistics of a column of a row group, None if it has none; its columns were checked before."""
    chunk = metadata.row_group(group).column(column)
    if chunk.physical_type != metadata.schema.column(column).physical_type:
        raise pa.ArrowInvalid(
            f"column '{chunk.path_in_schema}' is {chunk.physical_type} in row group {group}, and "
            f"{metadata.schema.column(column).physical_type} in the schema"
        )
    return chunk.statistics


class _Reached(Exception):
    """The reader has found nothing wrong with the footer and wants to read."""


class _Unread(io.RawIOBase):
    """A file of some size of which no byte is read."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        raise _Reached
