"""Runs queries over damaged copies of a Parquet file: `python tests/trust/damaged_parquet.py FOLDER`.

It is a process of its own because damage may end one. The footer says where columns are and what they hold, so each of
its bytes is changed, by some of all changes in turn; of the pages, bytes are changed by a fixed generator of numbers.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ceql

N = 40
TABLE = pa.table(
    {
        "type": ["A", "B"] * (N // 2),
        "name": [f"n{k % 5}" for k in range(N)],
        "price": np.arange(N) * 1.0,
        "time": pa.array(np.arange(N) * 1000, pa.timestamp("us")),
    }
)
QUERY = ceql.compile("SELECT * WHERE A AS a ; B AS b FILTER a[name = 'n1'] AND b[price > 30] WITHIN 10 SECONDS")
SET = ceql.compile_all({"a": "SELECT * WHERE A ; B WITHIN 3 EVENTS"})
CHANGES = [lambda byte: byte ^ 1, lambda byte: byte ^ 4, lambda byte: byte ^ 128, lambda byte: (byte + 8) % 256]
PAGES = 150


def damaged(sound: bytes) -> Iterator[bytes]:
    """Copies of a file, each with one or three other bytes."""
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    for at in range(footer, len(sound) - 8):
        yield sound[:at] + bytes([CHANGES[at % len(CHANGES)](sound[at])]) + sound[at + 1 :]
    # a text column whose physical type is that of a number
    at = sound.index(b"\x15\x0c", footer)
    yield sound[: at + 1] + b"\x08" + sound[at + 2 :]
    dice = random.Random(5)
    for k in range(PAGES):
        copy = bytearray(sound)
        for _ in range(1 + 2 * (k % 2)):
            copy[dice.randrange(4, footer)] = dice.randrange(256)
        yield bytes(copy)


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    refused = 0
    for version in ("1.0", "2.0"):
        path = folder / f"v{version}.parquet"
        pq.write_table(TABLE, path, row_group_size=N // 2, data_page_version=version, compression="none")
        for content in damaged(path.read_bytes()):
            path.write_bytes(content)
            for ask in (lambda path=path: QUERY.run(path).events(), lambda path=path: SET.run(path).count()):
                try:
                    ask()
                except ceql.SchemaError:
                    refused += 1
                except ceql.DataError as error:
                    if path.name not in str(error):
                        raise
                    refused += 1
    print(refused)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
