"""A recogniser's state as bytes: arrays in Arrow IPC under a small header. No pickle, nothing executable.

The blob begins with a mark, the format's version and a checksum of all that follows: a JSON header, then one Arrow IPC
stream for each named part. The header has the query's fingerprint. A blob of another query or another format is refused
with the reason.

The checksum tells damage, not malice. So whoever restores a part looks at its numbers before they are used
(`engine.common.check`, `engine.states.check`), under `guarded`.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.engine.common.check import require
from ceql.errors import CeqlError, DataError
from ceql.io.plain_types import plain_batch
from ceql.jit import Array
from ceql.recognition.narrow import FEW, narrowed, widened

MAGIC = b"CEQS"
VERSION = 9
_OLD_MAGIC = b"CEQL"  # of the first versions
_DIGEST = 16
_CODEC = "lz4"
_READING = pa.ipc.IpcReadOptions(use_threads=False)  # they cost more than what they would do
NARROWED = "narrowed"
"""The entry of a header that says how narrow arrays are widened."""
_SMALL = "small"
_FRONT = len(MAGIC) + 4 + _DIGEST

Parts = tuple[dict[str, Any], dict[str, Array], dict[str, list[pa.RecordBatch]]]
State = tuple[dict[str, Any], dict[str, Array], dict[str, pa.RecordBatch]]
"""That of one recognition: a header, arrays, and tables of one batch."""


def write(
    header: Mapping[str, Any],
    arrays: Mapping[str, Array],
    tables: Mapping[str, Sequence[pa.RecordBatch]],
    narrow: bool = False,
) -> bytes:
    """One blob of a header, numpy arrays and lists of record batches.

    With `narrow` the arrays take fewer bytes, for states that are written often.
    """
    parts: dict[str, bytes] = {}
    codec = _CODEC if narrow else None
    if narrow:
        notes, arrays = narrowed(arrays)
        header = {**header, NARROWED: notes}
    for name, array in arrays.items():
        flat = pa.RecordBatch.from_arrays([pa.array(array.reshape(-1))], names=["values"])
        parts[f"array:{name}"] = to_ipc([flat], codec)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    for name, batches in tables.items():
        parts[f"table:{name}"] = to_ipc(batches, codec) if batches else b""
    index = [[name, len(data)] for name, data in parts.items()]
    head = json.dumps({**header, "shapes": shapes, "parts": index}).encode()
    return sealed(VERSION, [struct.pack("<Q", len(head)), head, *parts.values()])


def sealed(version: int, content: Sequence[bytes]) -> bytes:
    """Content with mark, version and checksum before it."""
    number = struct.pack("<I", version)
    return b"".join([MAGIC, number, _digest(number, *content), *content])


def read(blob: bytes) -> Parts:
    """The parts that `write` was given. `DataError` if the blob is no snapshot, damaged, or of another format."""
    with guarded():
        blob = bytes(blob)
        if blob[:4] == _OLD_MAGIC:
            raise DataError(_of_other_version("an early format"))
        if blob[:4] != MAGIC:
            raise DataError("these bytes are not a snapshot of a recogniser")
        (version,) = struct.unpack("<I", blob[4:8])
        if version != VERSION:
            raise DataError(_of_other_version(f"format {version}"))
        content = memoryview(blob)[_FRONT:]
        if blob[8:_FRONT] != _digest(blob[4:8], content):
            raise DataError("the snapshot is damaged: its checksum does not agree with its content")
        return _read_parts(content)


def _of_other_version(format: str) -> str:
    return (
        f"the snapshot has {format}, and this version of ceql reads format {VERSION}: finish the stream with the "
        "version that took it, or start anew from the events"
    )


@contextmanager
def guarded() -> Iterator[None]:
    """What fails in here fails because a snapshot is damaged."""
    try:
        yield
    except CeqlError:
        raise
    except Exception as error:
        raise DataError(f"the snapshot is damaged: {error or type(error).__name__}") from error


def joined(states: Sequence[State]) -> tuple[list[dict[str, Any]], dict[str, Array], dict[str, list[pa.RecordBatch]]]:
    """The states of several recognitions as parts of one blob: headers, arrays and tables.

    Names of arrays and tables have a number before them. Small arrays are one after another in a single one, since a
    part of a blob takes hundreds of bytes; the headers say which they are.
    """
    headers, arrays, small = list[dict[str, Any]](), dict[str, Array](), [np.zeros(0, np.int64)]
    for k, (header, own, _) in enumerate(states):
        little = {name: array for name, array in own.items() if array.dtype == np.int64 and array.size < FEW}
        small += [array.reshape(-1) for array in little.values()]
        arrays |= {f"{k}/{name}": array for name, array in own.items() if name not in little}
        headers.append({**header, _SMALL: [[name, list(array.shape)] for name, array in little.items()]})
    arrays[_SMALL] = np.concatenate(small)
    tables = {f"{k}/{name}": [table] for k, (_, _, own) in enumerate(states) for name, table in own.items()}
    return headers, arrays, tables


def parted(
    headers: Sequence[dict[str, Any]], arrays: Mapping[str, Array], tables: Mapping[str, Sequence[pa.RecordBatch]]
) -> list[State]:
    """The states that were `joined`, one for each header; other arrays and tables may stand beside theirs."""
    states: list[State] = [(header, {}, {}) for header in headers]
    at = 0
    for header, own, _ in states:
        for name, shape in header.get(_SMALL, ()):
            size = math.prod(shape)
            own[name] = arrays[_SMALL][at : at + size].reshape(shape).copy()
            at += size
    for name, array in arrays.items():
        number, mark, part = name.partition("/")
        if mark:
            states[int(number)][1][part] = array
    for name, batches in tables.items():
        number, mark, part = name.partition("/")
        if mark and batches:
            states[int(number)][2][part] = batches[0]
    return states


def _digest(*content: bytes | memoryview) -> bytes:
    hash = hashlib.blake2b(digest_size=_DIGEST)
    for part in content:
        hash.update(part)
    return hash.digest()


def _read_parts(content: memoryview) -> Parts:
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(bytes(content[8 : 8 + length]))
    at = 8 + length
    arrays: dict[str, Array] = {}
    tables: dict[str, list[pa.RecordBatch]] = {}
    for name, size in header["parts"]:
        data, at = content[at : at + size], at + size
        if size < 0 or len(data) != size:
            raise DataError("the snapshot is cut short")
        kind, _, name = name.partition(":")
        batches = [_checked(batch) for batch in pa.ipc.open_stream(data, options=_READING)] if size else []
        if kind == "table":
            tables[name] = batches
        else:
            (column,) = batches[0].columns
            if column.null_count or not pa.types.is_integer(column.type):
                raise DataError(f"the snapshot is damaged: '{name}' is no array of integers")
            arrays[name] = column.to_numpy(zero_copy_only=False).copy().reshape(header["shapes"][name])
    if at != len(content):
        raise DataError("the snapshot is damaged: it is longer than it says")
    if NARROWED in header:
        arrays = widened(header[NARROWED], arrays)
    return header, arrays, tables


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)
    return plain_batch(batch)


def to_ipc(batches: Sequence[pa.RecordBatch], codec: str | None = None) -> bytes:
    """Record batches of one schema as an Arrow IPC stream, compressed where a codec is named."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def schema_to_text(schema: pa.Schema) -> str:
    """A schema as text that JSON can hold."""
    return bytes(schema.serialize()).hex()


def schema_from_text(text: str) -> pa.Schema:
    """The schema that `schema_to_text` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))


def check_header(header: Mapping[str, Any]) -> None:
    """Refuse the header of a recognition's state that makes no sense."""
    position, ends, symbols = header["position"], header["ends"], header["symbols"]
    numbers = [position, header["oldest"], header["partitions"], *(n for end in ends for n in end)]
    whole = all(type(n) is int and -(1 << 63) <= n < 1 << 63 for n in numbers)
    require(whole, "the header holds something that is not a 64-bit integer")
    require(0 <= header["oldest"] <= position < 1 << 62, "the position is wrong")
    require(all(0 <= end <= position for end, _ in ends), "a batch ends after the last event")
    require(all(a <= b for before, after in pairwise(ends) for a, b in zip(before, after, strict=True)), "time falls")
    bits = [int(text, 16) for text in symbols]
    require(bits[:1] == [0] and len(set(bits)) == len(bits) and min(bits) == 0, "a symbol comes twice")
