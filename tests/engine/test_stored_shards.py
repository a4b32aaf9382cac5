"""States of divided machines that were stored go on where they were: `tests/snapshots/vN/shards_*.bin.gz`.

They were taken with machines that divide early (`checks.use_shards`), and are restored as any user's would be.
`python test_stored_shards.py N` stores today's, with `src`, `tests/helpers` and `tests/faults` in PYTHONPATH.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ceql
import checks
from ceql.engine.common import shares
from ceql.recognition import snapshot

FOLDER = Path(__file__).parents[1] / "snapshots"
QUERIES = {
    "clause": "SELECT * WHERE A AS a ; B+ AS b ; C AS c PARTITION BY k WITHIN 9 EVENTS",
    "value": "SELECT * WHERE A AS a ; B AS b ; C AS c FILTER a.k = b.k AND b.k = c.k WITHIN 300 EVENTS",
}
STORED = sorted(FOLDER.glob("v*/shards_*.bin.gz"))


def name_of(path: Path) -> str:
    return path.name.removeprefix("shards_").removesuffix(".bin.gz")


def halves() -> tuple[pa.Table, pa.Table]:
    rows = range(600)
    events = pa.table(
        {
            "type": ["ABC"[k * k % 7 % 3] for k in rows],
            "time": pa.array(rows, pa.int64()),
            "k": [k * 7919 % 31 for k in rows],
            "v": [k * 104729 % 97 for k in rows],
        }
    )
    return events.slice(0, 300), events.slice(300)


def taken(name: str) -> bytes:
    recognizer = ceql.compile(QUERIES[name]).recognizer()
    recognizer.feed(halves()[0]).to_arrow()
    return recognizer.snapshot()


@pytest.mark.parametrize("threads", [1, "all"])
@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name} {name_of(path)}")
def test_a_stored_state_goes_on(path: Path, threads: Any) -> None:
    query = ceql.compile(QUERIES[name_of(path)])
    blob, (before, after) = gzip.decompress(path.read_bytes()), halves()
    assert snapshot.read(blob)[1]["shards"].tolist() == [shares.SHARDS]
    whole = query.recognizer()
    whole.feed(before).to_arrow()
    restored = query.restore(blob, threads=threads)
    expected = whole.feed(after).to_arrow()
    assert expected.num_rows > 50
    assert restored.feed(after).to_arrow() == expected
    assert restored.finish().to_arrow() == whole.finish().to_arrow()


def test_each_is_stored() -> None:
    assert {name_of(path) for path in STORED} == set(QUERIES)


if __name__ == "__main__":
    number = shares.SHARDS
    checks.use_shards()
    shares.SHARDS = number
    for name in QUERIES:
        (FOLDER / f"v{sys.argv[1]}" / f"shards_{name}.bin.gz").write_bytes(gzip.compress(taken(name), mtime=0))
