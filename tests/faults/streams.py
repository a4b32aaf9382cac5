"""Queries with streams cut into feeds, and what a recogniser makes of them when nothing goes wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import ceql


@dataclass(frozen=True)
class Stream:
    """A query, the options of its recogniser, and feeds that each bring matches."""

    query: str
    options: dict[str, Any] = field(default_factory=dict)
    feeds: int = 5
    rows: int = 14

    def events(self) -> Iterator[pa.RecordBatch]:
        """The feeds."""
        dice = random.Random(self.query)
        for k in range(self.feeds):
            times = range(k * self.rows, (k + 1) * self.rows)
            jitter = 3 if "lateness" in self.options else 0
            yield pa.record_batch(
                {
                    "type": dice.choices("ABC", k=self.rows),
                    "time": pa.array([t + dice.randint(0, jitter) for t in times], pa.int64()),
                    "k": dice.choices(["x", "y", "z", f"only in {k}"], k=self.rows),
                    "v": pa.array([dice.randint(0, 9) for _ in times], pa.int64()),
                    "w": pa.array([t // 2 for t in times], pa.int64()),
                }
            )

    def recognizer(self) -> ceql.Recognizer:
        """A new recogniser."""
        return ceql.compile(self.query).recognizer(**self.options)


STREAMS = (
    Stream("SELECT * WHERE A ; B+ WITHIN 6 EVENTS"),
    Stream("SELECT ANY * WHERE A ; B ; C"),
    Stream("SELECT x WHERE A AS x ; B ; C AS z FILTER z[v > 4] PARTITION BY k WITHIN 20 EVENTS CONSUME BY PARTITION"),
    Stream("SELECT * WHERE A ; B WITHIN 4 [w]"),
    Stream("SELECT NEXT * WHERE A+ ; B WITHIN 8 EVENTS", {"lateness": 4}),
    Stream("SELECT MAX * WHERE A ; B+ ; C WITHIN 25 EVENTS"),
    Stream("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k WITHIN 12 EVENTS"),
    Stream("SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.v < y.v AND y.k != z.k WITHIN 9 EVENTS"),
    Stream("SELECT * WHERE A AS x ; B ; C AS z FILTER x.k = z.k AND x.v < z.v WITHIN 14 EVENTS"),
    Stream("SELECT * WHERE A ; NOT B WITHIN 2 EVENTS"),
    Stream("SELECT NEXT * WHERE A AS x ; B ; NOT C AS z FILTER z.v > x.v PARTITION BY k WITHIN 4 EVENTS"),
    Stream("SELECT * WHERE A AS x ; NOT C AS z ; B AS y FILTER z.v = y.v WITHIN 7 EVENTS"),
    Stream("SELECT COUNT(x), SUM(x.v) AS s, y.k WHERE A{1,3} AS x ; (B AS y ; C? WITHIN 4 EVENTS) WITHIN 9 EVENTS"),
    Stream("SELECT * WHERE A+ ; B ; NOT C PARTITION BY k WITHIN 6 EVENTS AFTER MATCH SKIP TO NEXT EVENT"),
    Stream("SELECT * WHERE A+ AS x ; B AS y FILTER y.v > x.v WITHIN 8 EVENTS AFTER MATCH SKIP PAST LAST EVENT"),
    Stream(
        "SELECT * WHERE A+ AS x ; (B AS y ; C AS z FILTER y.v != z.v) FILTER COUNT(DISTINCT x.v) >= 2 AND x.k != z.k "
        "WITHIN 9 EVENTS AFTER MATCH SKIP TO LAST y"
    ),
)


def read(matches: ceql.Matches) -> tuple[list[Any], list[Any]]:
    """All that a result shows."""
    found = matches.to_arrow()
    return found.to_pylist(), matches.events().to_pylist()


def undisturbed(stream: Stream) -> list[tuple[list[Any], list[Any]]]:
    """What each feed gives."""
    recognizer = stream.recognizer()
    return [read(recognizer.feed(batch)) for batch in stream.events()] + [read(recognizer.finish())]
