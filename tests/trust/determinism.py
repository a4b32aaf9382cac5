"""`make determinism`: the same events give the same matches in the same order, byte for byte, however they are fed.

For each of `QUERIES` over random events the matches are hashed: of one run, of feeds of random sizes, and of such feeds
with snapshots in between. The same is done for a short stream and for the cases of the corpus, with the compiler and
without it; and for the cases with machines that are divided into shards, in one thread and in several.
`python determinism.py [EVENTS]`, with `tests/helpers` in PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import ceql
import checks
import corpus
import paths

QUERIES = (
    "SELECT * WHERE A ; B ; C FILTER A[v < 100] AND C[v > 900] WITHIN 12 EVENTS",
    "SELECT NEXT * WHERE A+ ; B FILTER A[v < 50] AND B[v > 900] WITHIN 30 EVENTS",
    "SELECT * WHERE A AS a ; B AS b FILTER a.v > 990 AND a.k = b.k WITHIN 200 EVENTS",
    "SELECT * WHERE A AS a ; B AS b ; C AS c FILTER a.v > 995 AND a.v < b.v AND b.k != c.k WITHIN 60 EVENTS",
    "SELECT * WHERE A AS a ; B ; C AS c FILTER a.v > 950 AND a.k = c.k AND c.v > a.v WITHIN 40 EVENTS",
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


def of_case(case: corpus.Case, **options: Any) -> str:
    """The hash of the matches of a case, measures and keys included, in their order."""
    query = ceql.compile(case.query)
    found = query.run(paths.inputs(query, case.events), **case.keywords, **options).to_arrow()
    return hashlib.sha256(f"{found.schema.types} {found.to_pylist()}".encode()).hexdigest()[:16]


def cases(every: int) -> list[corpus.Case]:
    """Every so-manieth case of the corpus that is no error; all of them with CEQL_CORPUS=all."""
    return corpus.some([case for case in corpus.load() if case.error is None], every)


def short(every: int) -> list[str]:
    """The hashes of a short stream, and of cases of the corpus."""
    return [in_one_run(ceql.compile(text), SHORT) for text in QUERIES] + [of_case(case) for case in cases(every)]


def short_without_compiler(every: int) -> list[str]:
    """The same by kernels that run as plain Python."""
    return _elsewhere("short", every, NUMBA_DISABLE_JIT="1")


def in_shards(every: int) -> list[str]:
    """Which of these cases differ if their machines are divided, in one thread or in several."""
    checks.use_tiny_buffers()  # as shards do: the order of matches of one start and one end may depend on them
    whole = [of_case(case) for case in cases(every)]
    checks.use_shards()
    found = zip(cases(every), whole, strict=True)
    return [
        f"{case} in {threads} threads"
        for case, expected in found
        for threads in (1, 3)
        if of_case(case, threads=threads) != expected
    ]


def differing_in_shards(every: int) -> list[str]:
    """The same in a process of its own, since it changes how machines work."""
    return _elsewhere("shards", every)


def _elsewhere(what: str, every: int, **environment: str) -> list[str]:
    environment = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, what, str(every)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    if sys.argv[1:2] in (["short"], ["shards"]):
        for line in (short if sys.argv[1] == "short" else in_shards)(int(sys.argv[2])):
            print(line)
    else:
        differ = main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
        differ += short(1) != short_without_compiler(1)
        apart = differing_in_shards(1)
        print(*apart, sep="\n", end="\n" * bool(apart))
        print(f"{len(cases(1))} cases of the corpus with and without the compiler, in shards, in 1 and 3 threads")
        print("NOT the same" if differ or apart else "all the same")
        sys.exit(bool(differ or apart))
