"""Damaged files, and what becomes of a query over them.

`python damage.py FORMAT COUNT` damages a file of this format in COUNT ways, runs queries over each, and counts how they
end. A way that ends the process, or in an exception that is no `CeqlError`, is not among them: the caller sees the
process die.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import ceql

FORMATS = ("arrow", "lz4.arrow", "stream.arrow", "parquet", "csv", "csv.gz", "jsonl", "jsonl.gz")
_ROWS = 300
_QUERIES = (
    "SELECT * WHERE A AS a ; B AS b FILTER a[v > 50 AND s LIKE 'x%'] AND b[s > 'xx'] WITHIN 40 EVENTS",
    "SELECT * WHERE A AS a ; B AS b FILTER a.user = b.user AND a[user != 'u3'] AND a.s < b.s WITHIN 20 EVENTS",
    "SELECT * WHERE A AS a ; B AS b FILTER a[view LIKE '%3'] PARTITION BY user, s, view WITHIN 20 EVENTS",
)
_NESTED = "SELECT * WHERE A ; B FILTER A[ctx.a = 1] AND B[ctx.b = 'q'] WITHIN 3 EVENTS"


def table() -> pa.Table:
    """Events of all layouts that point from one buffer into another."""
    draw = np.random.default_rng(0)
    small = draw.integers(0, 9, _ROWS).tolist()
    return pa.table(
        {
            "type": pa.array(draw.choice(["A", "B", "C"], _ROWS)),
            "user": pa.array([f"u{k}" for k in small]).dictionary_encode(),
            "v": pa.array(draw.integers(0, 100, _ROWS)),
            "s": pa.array(["x" * k for k in small]),
            "view": pa.array([f"a text of more than 12 bytes, number {k}" for k in small], pa.string_view()),
            "list": pa.array([list(range(k)) for k in small]),
            "ctx": pa.array([{"a": k, "b": "q" * k} for k in small]),
            "time": pa.array(np.arange(_ROWS) * 1000, pa.timestamp("us")),
        }
    )


def written(format: str) -> bytes:
    """The events as a file of this format."""
    events, sink = table(), io.BytesIO()
    plain = events.set_column(1, "user", events["user"].cast(pa.string()))
    plain = plain.set_column(4, "view", events["view"].cast(pa.string()))
    match format:
        case "arrow" | "lz4.arrow":
            options = pa.ipc.IpcWriteOptions(compression="lz4" if format != "arrow" else None)
            with pa.ipc.new_file(sink, events.schema, options=options) as file:
                file.write_table(events, max_chunksize=100)
        case "stream.arrow":
            with pa.ipc.new_stream(sink, events.schema) as stream:
                stream.write_table(events, max_chunksize=100)
        case "parquet":
            pyarrow.parquet.write_table(plain, sink, row_group_size=100, compression="none")
        case "csv" | "csv.gz":
            pyarrow.csv.write_csv(plain.drop(["list", "ctx"]), sink)
        case _:
            sink.write(b"".join(json.dumps(row, default=str).encode() + b"\n" for row in plain.to_pylist()))
    return gzip.compress(sink.getvalue()) if format.endswith(".gz") else sink.getvalue()


def damaged(data: bytes, seed: int) -> bytes:
    """`data` cut short, or with some bytes changed."""
    draw = random.Random(seed)
    if draw.random() < 0.15:
        return data[: draw.randrange(len(data))]
    found = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5, 20, 100])):
        at = draw.randrange(len(found))
        if draw.random() < 0.5:
            found[at] ^= 1 << draw.randrange(8)
        elif draw.random() < 0.5:
            found[at] = draw.choice([0, 127, 128, 255])
        else:
            found[at : at + 4] = draw.choice([b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff\xff\xff\xff", bytes(4)])
    return bytes(found)


def queries(format: str) -> tuple[str, ...]:
    """Queries that read all columns that files of this format have."""
    return _QUERIES if "csv" in format else (*_QUERIES, _NESTED)


def outcomes(format: str, seeds: range) -> Counter[str]:
    """How queries over damaged files end: with a result, or with an error of ceql's."""
    data = written(format)
    compiled = [ceql.compile(text) for text in queries(format)]
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"events.{format}"
        for seed in seeds:
            path.write_bytes(damaged(data, seed))
            print(format, seed, end="\r", file=sys.stderr, flush=True)  # the last words, if the process dies
            for query in compiled:
                try:
                    query.run(path).events()
                    found["result"] += 1
                except ceql.CeqlError:
                    found["error"] += 1
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(outcomes(sys.argv[1], range(int(sys.argv[2])))))
