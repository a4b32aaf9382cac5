"""Events in a file that Java reads without a library: columns, big-endian.

number of columns, number of events    int32 each
for each column: name                  as `DataInput.readUTF` reads it
                 kind                  one byte: t text, i int64, f float64
                 dictionary            text only: how many entries (int32), then these
                 values                int32 numbers of entries, or int64, or float64
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.ipc


def java_events(arrow: Path) -> Path:
    """The events of an Arrow file in that form, in a file beside it, made if it is absent or older."""
    made = arrow.with_suffix(".flink.bin")
    if made.exists() and made.stat().st_mtime >= arrow.stat().st_mtime:
        return made
    with pa.memory_map(str(arrow)) as source:
        table = pa.ipc.open_file(source).read_all()
    part = made.with_suffix(f".{os.getpid()}")
    with part.open("wb") as out:
        out.write(struct.pack(">ii", table.num_columns, table.num_rows))
        for name in table.column_names:
            _write(out, name, table[name].combine_chunks())
    part.replace(made)
    return made


def _write(out: BinaryIO, name: str, column: pa.Array) -> None:
    if column.null_count:
        raise ValueError(f"{name} has nulls")
    out.write(_text(name))
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        out.write(b"t" + struct.pack(">i", len(coded.dictionary)))
        out.write(b"".join(_text(entry) for entry in coded.dictionary.to_pylist()))
        out.write(coded.indices.to_numpy(zero_copy_only=False).astype(">i4").tobytes())
    elif pa.types.is_floating(column.type):
        out.write(b"f" + column.to_numpy(zero_copy_only=False).astype(">f8").tobytes())
    else:
        values = column.cast(pa.timestamp("ms")) if pa.types.is_timestamp(column.type) else column
        out.write(b"i" + np.asarray(values.cast(pa.int64())).astype(">i8").tobytes())


def _text(value: str) -> bytes:
    coded = value.encode()
    return struct.pack(">H", len(coded)) + coded
