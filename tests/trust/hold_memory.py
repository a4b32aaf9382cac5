"""Feeds a recogniser until its budget stops it, and prints how far resident memory rose above what was there before.

`python hold_memory.py NAME`, in a process of its own: what is resident depends on all that ran before.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import numpy as np
import pyarrow as pa

import ceql

MEMORY = 96 << 20
ROWS = 1 << 14
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "partial matches": ("SELECT * WHERE A ; B", {"keep_rows": False}),
    "kept rows": ("SELECT * WHERE A ; B FILTER A[v < 0.01]", {}),
    "keys": ("SELECT * WHERE A ; B PARTITION BY t", {"keep_rows": False}),
    "rows that wait": ("SELECT * WHERE A ; B", {"lateness": 1 << 50, "keep_rows": False}),
    "late rows": ("SELECT * WHERE A ; B WITHIN 5 EVENTS", {"keep_rows": False}),
    "groups": ("SELECT * WHERE A AS a ; B AS b FILTER a.k = b.k", {"keep_rows": False}),
    "matches that wait": ("SELECT * WHERE A ; NOT B WITHIN 900000000 EVENTS", {"keep_rows": False}),
    "absent events": ("SELECT * WHERE C AS c ; NOT A AS a ; B+ AS b FILTER a.v = b.v", {"keep_rows": False}),
    "rows of measures": ("SELECT SUM(a.v) WHERE A AS a ; B", {"keep_rows": False}),
    "groups in order": ("SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v", {"keep_rows": False}),
}


def batch(number: int, name: str) -> pa.RecordBatch:
    dice = np.random.default_rng(number)
    rows = np.arange(number * ROWS, (number + 1) * ROWS)
    return pa.record_batch(
        {
            "type": np.where(dice.integers(0, 100, ROWS) < 99, "A", "C"),
            "time": rows if name != "late rows" or not number else -rows,
            "k": rows,
            "t": pa.array(rows).cast(pa.string()),
            "v": dice.random(ROWS),
        }
    )


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(name: str) -> None:
    query, options = CASES[name]
    compiled = ceql.compile(query)
    warm = compiled.recognizer(**options)
    for k in range(4):
        warm.feed(batch(k, name)).count()
    warm.finish().count()
    del warm
    before = peak()
    recognizer = compiled.recognizer(memory=MEMORY, **options)
    error = None
    for number in range(2000):
        try:
            recognizer.feed(batch(number, name)).count()
        except ceql.ResourceError as reached:
            error = reached
            break
    rise = peak() - before
    found = recognizer.metrics().to_dict()
    print(json.dumps({"rise": rise, "limit": error and error.limit, "message": str(error), "metrics": found}))


if __name__ == "__main__":
    main(sys.argv[1])
