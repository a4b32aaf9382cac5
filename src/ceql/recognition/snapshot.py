"""A recogniser's state as bytes: arrays in Arrow IPC under a small header. No pickle, nothing executable.

The blob is a JSON header, then one Arrow IPC stream for each named part. The header has the format's version and the
query's fingerprint; a blob of another query or a newer format is refused with the reason, and one of an older format
is brought up to date (`migrations`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ceql.errors import DataError
from ceql.io.plain_types import plain_batch, plain_schema
from ceql.jit import Array
from ceql.recognition.migrations import STEPS, migrate

MAGIC = b"CEQL"
VERSION = 1 + len(STEPS)


def write(
    header: Mapping[str, Any], arrays: Mapping[str, Array], tables: Mapping[str, Sequence[pa.RecordBatch]]
) -> bytes:
    """One blob of a header, numpy arrays and lists of record batches."""
    parts: dict[str, bytes] = {}
    for name, array in arrays.items():
        flat = pa.RecordBatch.from_arrays([pa.array(array.reshape(-1))], names=["values"])
        parts[f"array:{name}"] = to_ipc([flat])
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    for name, batches in tables.items():
        parts[f"table:{name}"] = to_ipc(batches) if batches else b""
    index = [[name, len(data)] for name, data in parts.items()]
    head = json.dumps({**header, "version": VERSION, "shapes": shapes, "parts": index}).encode()
    return b"".join([MAGIC, struct.pack("<Q", len(head)), head, *parts.values()])


def read(blob: bytes) -> tuple[dict[str, Any], dict[str, Array], dict[str, list[pa.RecordBatch]]]:
    """The parts that `write` was given, in today's form. `DataError` if the blob is no snapshot, damaged, or newer."""
    try:
        if blob[:4] != MAGIC:
            raise DataError("these bytes are not a snapshot of a recogniser")
        (length,) = struct.unpack("<Q", blob[4:12])
        header = json.loads(blob[12 : 12 + length])
        if header["version"] > VERSION:
            raise DataError(
                f"the snapshot has format {header['version']}, newer than this version of ceql reads ({VERSION})"
            )
        at = 12 + length
        arrays: dict[str, Array] = {}
        tables: dict[str, list[pa.RecordBatch]] = {}
        for name, size in header["parts"]:
            data, at = blob[at : at + size], at + size
            if len(data) != size:
                raise DataError("the snapshot is cut short")
            kind, _, name = name.partition(":")
            batches = [plain_batch(batch) for batch in pa.ipc.open_stream(data)] if size else []
            if kind == "table":
                tables[name] = batches
            else:
                values = batches[0].column(0).to_numpy(zero_copy_only=False)
                arrays[name] = values.copy().reshape(header["shapes"][name])
        return migrate(header["version"], (header, arrays, tables))
    except (ValueError, KeyError, struct.error, pa.ArrowInvalid) as error:
        raise DataError(f"the snapshot is damaged: {error}") from error


def to_ipc(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Record batches of one schema as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def schema_to_text(schema: pa.Schema) -> str:
    """A schema as text that JSON can hold."""
    return bytes(schema.serialize()).hex()


def schema_from_text(text: str) -> pa.Schema:
    """The schema that `schema_to_text` wrote. Older versions kept types that are not plain."""
    return plain_schema(pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text))))
