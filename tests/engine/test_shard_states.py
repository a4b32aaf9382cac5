"""States of divided machines go on where they were.

They are taken with machines that divide early (`checks.use_shards`), and are restored as any user's would be.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ceql
import checks
from ceql.engine.common import shares
from ceql.engine.common.sharded import Sharded

QUERIES = {
    "clause": "SELECT * WHERE A AS a ; B+ AS b ; C AS c PARTITION BY k WITHIN 9 EVENTS",
    "value": "SELECT * WHERE A AS a ; B AS b ; C AS c FILTER a.k = b.k AND b.k = c.k WITHIN 300 EVENTS",
}


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


@pytest.mark.parametrize("threads", [1, "all"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_state_of_shards_goes_on(name: str, threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query, number, (before, after) = ceql.compile(QUERIES[name]), shares.SHARDS, halves()
    with monkeypatch.context() as patch:
        checks.use_shards(patch.setattr)
        patch.setattr(shares, "SHARDS", number)
        recognizer = query.recognizer()
        recognizer.feed(before).to_arrow()
        blob = recognizer.snapshot()
    whole = query.recognizer()
    whole.feed(before).to_arrow()
    restored = query.restore(blob, threads=threads)
    assert isinstance(restored._recognitions[0].machine, Sharded)
    expected = whole.feed(after).to_arrow()
    assert expected.num_rows > 50
    assert restored.feed(after).to_arrow() == expected
    assert restored.finish().to_arrow() == whole.finish().to_arrow()
