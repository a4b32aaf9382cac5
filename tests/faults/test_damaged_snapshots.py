"""Snapshots that are damaged, and forged ones whose checksum is right: each is refused, or does no harm.

A kernel that reads or writes beyond its arrays would end the process, or with NUMBA_BOUNDSCHECK=1 raise an IndexError.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import ceql
import checks
import tally
from ceql.engine.common.graph import BOTTOM, KIND, B
from ceql.plans import Loop
from ceql.recognition import snapshot
from forging import damaged, forged, snapshot_of
from streams import STREAMS, Stream

TRIED = 500 if tally.WHOLE else 40


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.query)
def test_damage_is_found(stream: Stream) -> None:
    query, blob, dice = ceql.compile(stream.query), snapshot_of(stream), random.Random(stream.query)
    for _ in range(TRIED):
        changed = damaged(blob, dice)
        if changed != blob:
            with pytest.raises(ceql.DataError, match="snapshot"):
                query.restore(changed)
    tally.note(snapshots_damaged=TRIED)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.query)
def test_a_forged_snapshot_is_refused_or_does_no_harm(stream: Stream) -> None:
    query, blob, dice = ceql.compile(stream.query), snapshot_of(stream), random.Random(stream.query)
    refused = 0
    for _ in range(TRIED):
        changed = forged(blob, dice)
        try:
            recognizer = query.restore(changed)
        except ceql.CeqlError:
            refused += 1
            continue
        try:
            for batch in list(stream.events())[3:]:
                recognizer.feed(batch).head(1000)
            query.restore(recognizer.snapshot())
        except ceql.CeqlError:
            pass
    assert refused > TRIED // 4
    tally.note(snapshots_forged=TRIED, forged_and_refused=refused)


@pytest.mark.parametrize("stream", [STREAMS[2], STREAMS[6]], ids=lambda stream: stream.query)
def test_a_forged_snapshot_of_shards_is_refused_or_does_no_harm(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks.use_shards(monkeypatch.setattr)
    header, arrays, tables = snapshot.read(snapshot_of(stream))
    ((_, own, _),) = snapshot.parted(header["recognitions"], arrays, tables)
    assert "shards" in own
    test_a_forged_snapshot_is_refused_or_does_no_harm(stream)


@pytest.mark.parametrize("strategy", ["NEXT", "LAST", "MAX"])
@pytest.mark.parametrize("selected", ["*", "x, z"])
def test_a_forged_snapshot_of_what_a_strategy_chooses_from(
    strategy: str, selected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks.choose_on_graph(monkeypatch.setattr)
    formula = "A AS x ; (A OR B)+ AS y ; C AS z FILTER y[v >= PREV.v] AND z.v >= x.v"
    stream = Stream(f"SELECT {strategy} {selected} WHERE {formula} WITHIN 30 EVENTS")
    plan = ceql.compile(stream.query).plan
    assert plan.loop is Loop.GROUPS
    assert plan.chooses_on_graph
    test_a_forged_snapshot_is_refused_or_does_no_harm(stream)


def test_a_child_that_is_its_own_parent_is_refused() -> None:
    query = ceql.compile("SELECT * WHERE A ; B ; C")
    recognizer = query.recognizer()
    recognizer.feed(pa.table({"type": list("AABAB")})).to_arrow()
    header, arrays, tables = snapshot.read(recognizer.snapshot())
    (state,) = snapshot.parted(header["recognitions"], arrays, tables)
    nodes = state[1]["nodes"]
    outputs = np.flatnonzero((nodes[:, KIND] >= 0) & (nodes[:, KIND] != BOTTOM))
    nodes[outputs[-1], B] = outputs[-1]
    headers, arrays, own = snapshot.joined([state])
    with pytest.raises(ceql.DataError, match="a child of a node does not come before it"):
        query.restore(snapshot.write(header | {"recognitions": headers}, arrays, tables | own))


def test_what_is_no_snapshot_or_of_another_format() -> None:
    query = ceql.compile("SELECT * WHERE A ; B")
    blob = query.recognizer().snapshot()
    for other in (b"", b"CEQS", b"PK\x03\x04", random.Random(5).randbytes(100)):
        with pytest.raises(ceql.DataError, match="snapshot"):
            query.restore(other)
    newer = snapshot.sealed(snapshot.VERSION + 1, [blob[24:]])
    message = f"has format {snapshot.VERSION + 1}, and this version of ceql reads format {snapshot.VERSION}"
    with pytest.raises(ceql.DataError, match=message):
        query.restore(newer)
