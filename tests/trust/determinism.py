"""`make determinism`: the same events give the same matches in the same order, byte for byte, however they are fed.

For each of `QUERIES` over random events the matches are hashed: of one run, of feeds of random sizes, and of such feeds
with snapshots in between. The same is done for a short stream with the compiler and without it.
`python determinism.py [EVENTS]`.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import ceql

QUERIES = (
    "SELECT * WHERE A ; B ; C FILTER A[v < 100] AND C[v > 900] WITHIN 12 EVENTS",
    "SELECT NEXT * WHERE A+ ; B FILTER A[v < 50] AND B[v > 900] WITHIN 30 EVENTS",
    "SELECT * WHERE A AS a ; B AS b FILTER a.v > 990 AND a.k = b.k WITHIN 200 EVENTS",
    "SELECT * WHERE A AS a ; B AS b ; C AS c FILTER a.v > 995 AND a.v < b.v AND b.k != c.k WITHIN 60 EVENTS",
    "SELECT ANY * WHERE A ; B ; C PARTITION BY k WITHIN 500 EVENTS",
)
SHORT = 1_000  # events of the stream that is recognised without the compiler too
BLOCK = 1 << 17


def blocks(count: int) -> Iterator[pa.RecordBatch]:
    """Random events."""
    for first in range(0, count, BLOCK):
        rows, dice = min(BLOCK, count - first), np.random.default_rng(first)
        yield pa.record_batch(
            {
                "type": pa.array(np.array(["A", "B", "C"])[dice.integers(0, 3, rows)]),
                "time": np.arange(first, first + rows),
                "k": dice.integers(0, 50, rows),
                "v": dice.integers(0, 1000, rows),
            }
        )


class Digest:
    """The bytes of matches by column, which do not depend on how matches are cut into batches."""

    def __init__(self) -> None:
        self.matches = 0
        self._columns: dict[str, hashlib._Hash] = defaultdict(hashlib.sha256)

    def add(self, matches: ceql.Matches) -> None:
        for batch in matches.to_batches():
            self.matches += batch.num_rows
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if pa.types.is_list(column.type):
                    self._columns[f"{name} lengths"].update(column.value_lengths().to_numpy().tobytes())
                    column = column.flatten()
                self._columns[name].update(column.to_numpy(zero_copy_only=False).tobytes())

    def __str__(self) -> str:
        whole = hashlib.sha256(repr([(n, h.hexdigest()) for n, h in sorted(self._columns.items())]).encode())
        return f"{whole.hexdigest()[:16]} {self.matches}"


def in_one_run(query: ceql.Query, count: int) -> str:
    digest = Digest()
    digest.add(query.run(pa.Table.from_batches(blocks(count))))
    return str(digest)


def in_feeds(query: ceql.Query, count: int, seed: int, snapshots: bool) -> str:
    dice, digest = random.Random(seed), Digest()
    recognizer = query.recognizer(keep_rows=False)
    for block in blocks(count):
        first = 0
        while first < block.num_rows:
            rows = dice.choice((1, 7, 100, 5_000, 60_000))
            digest.add(recognizer.feed(block.slice(first, rows)))
            first += rows
            if snapshots and dice.random() < 0.2:
                recognizer = query.restore(recognizer.snapshot())
    digest.add(recognizer.finish())
    return str(digest)


def main(count: int) -> int:
    wrong = 0
    for text in QUERIES:
        query = ceql.compile(text)
        found = [in_one_run(query, count), in_feeds(query, count, 1, False), in_feeds(query, count, 2, True)]
        wrong += len(set(found)) > 1
        print(f"{'same' if len(set(found)) == 1 else f'DIFFERENT {found}'}: {found[0]} matches: {text}", flush=True)
    return wrong


def short() -> list[str]:
    """The hashes of a short stream."""
    return [in_one_run(ceql.compile(text), SHORT) for text in QUERIES]


def short_without_compiler() -> list[str]:
    """The same by kernels that run as plain Python."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, "short"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    if sys.argv[1:] == ["short"]:
        print("\n".join(short()))
    else:
        differ = main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
        differ += short() != short_without_compiler()
        print("NOT the same" if differ else "all the same, with and without the compiler")
        sys.exit(bool(differ))
