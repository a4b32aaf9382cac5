"""Snapshots that are damaged, and forged ones whose checksum is right: each is refused, or does no harm.

A kernel that reads or writes beyond its arrays would end the process, or with NUMBA_BOUNDSCHECK=1 raise an IndexError.
"""

from __future__ import annotations

import json
import os
import random
import re
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
import checks
from ceql.recognition import snapshot
from streams import STREAMS, Stream

TRIED = int(os.environ.get("CEQL_FAULTS", "40")) or 2000
FORGED = [stream for stream in STREAMS if "x.k" not in stream.query and "x.v" not in stream.query]
EXTREMES = (-(2**63), -(2**31), -3, -2, -1, 0, 1, 2, 7, 2**31, 2**62, 2**63 - 1)


def snapshot_of(stream: Stream) -> bytes:
    recognizer = stream.recognizer()
    for batch in list(stream.events())[:3]:
        recognizer.feed(batch).to_arrow()
    return recognizer.snapshot()


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.query)
def test_damage_is_found(stream: Stream) -> None:
    query, blob, dice = ceql.compile(stream.query), snapshot_of(stream), random.Random(stream.query)
    for _ in range(TRIED):
        damaged = bytearray(blob)
        match dice.randrange(4):
            case 0:
                damaged[dice.randrange(len(blob))] ^= 1 << dice.randrange(8)
            case 1:
                del damaged[dice.randrange(len(blob)) :]
            case 2:
                first = dice.randrange(len(blob))
                damaged[first : first + dice.randrange(1, 64)] = dice.randbytes(dice.randrange(65))
            case _:
                damaged += dice.randbytes(dice.randrange(1, 9))
        if damaged != blob:
            with pytest.raises(ceql.DataError, match="snapshot"):
                query.restore(bytes(damaged))


def forged(blob: bytes, dice: random.Random) -> bytes:
    """The same snapshot with some numbers changed, and the checksum that goes with them."""
    header, arrays, tables = snapshot.read(blob)
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        if dice.random() < 0.75:
            name = dice.choice([name for name, array in arrays.items() if array.size])
            shape = arrays[name].shape
            flat = arrays[name].reshape(-1).astype(np.int64)
            at = dice.randrange(len(flat))
            near = int(flat[at]) + dice.choice([-1, 1, 2, 5])
            flat[at] = np.clip(dice.choice([*EXTREMES, near, near]), -(2**63), 2**63 - 1)
            arrays[name] = flat.reshape(shape)
            if dice.random() < 0.1:
                arrays[name] = dice.choice([flat[:-1], flat.astype(np.int16), np.concatenate([flat, flat])])
        else:
            place: Any = header
            while True:
                keys = list(place) if isinstance(place, dict) else range(len(place))
                key = dice.choice(list(keys))
                if not isinstance(place[key], dict | list) or not place[key] or dice.random() < 0.1:
                    break
                place = place[key]
            place[key] = dice.choice([None, True, "", "x", [], {}, [1], 2.5, "5 seconds", *EXTREMES])
    header.pop("version", None)
    return snapshot.write(header, arrays, tables)


@pytest.mark.parametrize("stream", FORGED, ids=lambda stream: stream.query)
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


@pytest.mark.parametrize("stream", [STREAMS[2], STREAMS[6]], ids=lambda stream: stream.query)
def test_a_forged_snapshot_of_shards_is_refused_or_does_no_harm(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks.use_shards(monkeypatch.setattr)
    assert "shards" in snapshot.read(snapshot_of(stream))[1]
    test_a_forged_snapshot_is_refused_or_does_no_harm(stream)


def test_a_child_that_is_its_own_parent_is_refused() -> None:
    query = ceql.compile("SELECT * WHERE A ; B ; C")
    recognizer = query.recognizer()
    recognizer.feed(pa.table({"type": list("AABAB")})).to_arrow()
    header, arrays, tables = snapshot.read(recognizer.snapshot())
    outputs = np.flatnonzero(arrays["nodes"][:, 3] >= 0)
    arrays["nodes"][outputs[-1], 2] = outputs[-1]
    with pytest.raises(ceql.DataError, match="a child of a node does not come before it"):
        query.restore(snapshot.write(header, arrays, tables))


def test_what_is_no_snapshot_or_of_another_format() -> None:
    query = ceql.compile("SELECT * WHERE A ; B")
    blob = query.recognizer().snapshot()
    for other in (b"", b"CEQS", b"PK\x03\x04", os.urandom(100)):
        with pytest.raises(ceql.DataError, match="snapshot"):
            query.restore(other)
    newer = snapshot.sealed(snapshot.VERSION + 1, [blob[24:]])
    with pytest.raises(ceql.DataError, match=re.escape(f"newer than this version of ceql reads ({snapshot.VERSION})")):
        query.restore(newer)
    for version in (0, 4, -1, None, "1", 2**70):
        head = json.dumps({"version": version, "parts": []}).encode()
        with pytest.raises(ceql.DataError, match="the snapshot is damaged"):
            query.restore(b"CEQL" + struct.pack("<Q", len(head)) + head)
