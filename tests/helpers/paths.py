"""The ways to run a query, each giving what the oracle gives: matches in output order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import ceql
import generators
import oracle

Events = list[dict[str, Any]]
BOOKKEEPING = "__stream__"


def table(events: Events) -> pa.Table:
    """Events as a table; generated ones have their columns typed even where all is NULL."""
    names = list(dict.fromkeys(name for event in events for name in event if name != BOOKKEEPING))
    known = {name: pa.type_for_alias(kind) for name, kind in generators.COLUMNS.items()}
    generated = set(names) <= set(known) and (not events or "w" in names)
    if generated:
        schema = pa.schema(list(known.items()))
        return pa.Table.from_pylist([{n: e.get(n) for n in schema.names} for e in events], schema)
    return pa.Table.from_pylist([{n: e.get(n) for n in names} for e in events])


def in_merged_order(case: generators.Generated) -> generators.Generated:
    """The case with its events as the streams merge: by time, then in the order of FROM."""
    streams = case.query.streams
    if len(streams) < 2:
        return case
    return case._replace(events=sorted(case.events, key=lambda e: (e["time"], streams.index(e[BOOKKEEPING]))))


def inputs(query: ceql.Query, events: Events) -> Any:
    """One table, or one for each stream that the query's FROM lists."""
    streams = query.plan.query.streams
    if len(streams) < 2 and not any(BOOKKEEPING in e for e in events):
        return table(events)
    whole = table(events)
    of = [e.get(BOOKKEEPING) for e in events]
    return {s: whole.filter(pa.array([name == s for name in of], pa.bool_())) for s in streams}


def to_oracle(matches: ceql.Matches) -> list[oracle.Match]:
    return [oracle.Match(m.start, m.end, m.events, frozenset(m.bindings.items())) for m in matches]


def run_whole(query: ceql.Query, events: Events, **options: Any) -> list[oracle.Match]:
    return to_oracle(query.run(inputs(query, events), **options))


def run_in_batches(query: ceql.Query, events: Events, rows: int, **options: Any) -> list[oracle.Match]:
    return to_oracle(query.run(inputs(query, events), batch_rows=rows, **options))


def run_in_pieces(
    query: ceql.Query, events: Events, cuts: list[int], restore: Callable[[int], bool], **options: Any
) -> list[oracle.Match]:
    """The push API: pieces between the cuts, with a snapshot and restore where wanted."""
    recognizer = query.recognizer(**options)
    found: list[oracle.Match] = []
    whole = table(events)
    streams = query.plan.query.streams
    of = [e.get(BOOKKEEPING, streams[0] if streams else None) for e in events]
    for k, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True)):
        piece = whole.slice(begin, end - begin)
        if len(streams) > 1:
            mine = {s: piece.filter(pa.array([n == s for n in of[begin:end]], pa.bool_())) for s in streams}
            found += to_oracle(recognizer.feed(mine))
        else:
            found += to_oracle(recognizer.feed(piece))
        if restore(k):
            recognizer = query.restore(recognizer.snapshot())
    return found + to_oracle(recognizer.finish())
