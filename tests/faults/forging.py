"""Snapshots with some bytes or numbers changed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ceql.recognition import snapshot
from streams import Stream

EXTREMES = (-(2**63), -(2**31), -3, -2, -1, 0, 1, 2, 7, 2**31, 2**62, 2**63 - 1)


def snapshot_of(stream: Stream) -> bytes:
    """The state after three feeds."""
    recognizer = stream.recognizer()
    for batch in list(stream.events())[:3]:
        recognizer.feed(batch).to_arrow()
    return recognizer.snapshot()


def damaged(blob: bytes, dice: random.Random) -> bytes:
    """The same snapshot with some bytes changed, left out or added."""
    found = bytearray(blob)
    match dice.randrange(4):
        case 0:
            found[dice.randrange(len(blob))] ^= 1 << dice.randrange(8)
        case 1:
            del found[dice.randrange(len(blob)) :]
        case 2:
            first = dice.randrange(len(blob))
            found[first : first + dice.randrange(1, 64)] = dice.randbytes(dice.randrange(65))
        case _:
            found += dice.randbytes(dice.randrange(1, 9))
    return bytes(found)


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
