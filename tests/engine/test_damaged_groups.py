"""Changed states of the loop over groups are refused, or harmless. They are sealed anew, so no checksum tells."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
from ceql.engine.groups.machine import GroupMachine

STORED = tomllib.loads((Path(__file__).parents[1] / "snapshots/cases.toml").read_text())["case"]
NAMES = ("compared", "found_in_order", "carried", "sets", "past_a_free_event")
CASES = {case["name"]: case for case in STORED if case["name"] in NAMES}
NUMBERS = [-3, -2, -1, 0, 1, 2, 3, 5, 7, 10, 100, 10**6, 2**40, 2**63 - 1, -(2**63), -(2**63) + 1]


def table(case: dict[str, Any], part: str) -> pa.Table:
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in case["columns"].items()])
    rows = [dict(zip(schema.names, event, strict=True)) for event in case[part]]
    return pa.Table.from_pylist(rows, schema)


def damaged(arrays: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """The arrays with some of their numbers changed."""
    for _ in range(draw.choice([1, 1, 2, 5])):
        name = draw.choice([name for name in arrays if arrays[name].size])
        arrays[name] = arrays[name].copy()
        arrays[name].reshape(-1)[draw.randrange(arrays[name].size)] = draw.choice(NUMBERS)
    return arrays


@pytest.mark.parametrize("name", CASES)
def test_a_state_that_was_changed_is_refused_or_harmless(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, draw, whole = CASES[name], random.Random(name), GroupMachine.state
    query = ceql.compile(case["query"])
    recognizer = query.recognizer()
    list(recognizer.feed(table(case, "before")))
    refused = 0
    for _ in range(40):
        with monkeypatch.context() as patch:
            patch.setattr(GroupMachine, "state", lambda self, *given: damaged(whole(self, *given), draw))
            blob = recognizer.snapshot()
        try:
            restored = query.restore(blob)
            list(restored.feed(table(case, "after")))
        except ceql.CeqlError:
            refused += 1
    assert refused > 5
    assert list(query.restore(recognizer.snapshot()).feed(table(case, "after"))) == list(
        recognizer.feed(table(case, "after"))
    )


@pytest.mark.parametrize("what", ["nodes", "entries", "rows", "buckets", "cells"])
def test_numbers_of_rows_that_are_not_there_are_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["sets" if what == "cells" else "found_in_order"]
    query = ceql.compile(case["query"])
    recognizer = query.recognizer()
    list(recognizer.feed(table(case, "before")))
    whole = GroupMachine.state

    def far(self: GroupMachine, *given: Any) -> dict[str, Any]:
        arrays = whole(self, *given)
        arrays[what] = (
            np.full_like(arrays[what], 1 << 20) if arrays[what].size else np.full((1, arrays[what].shape[1]), 1 << 20)
        )
        return arrays

    monkeypatch.setattr(GroupMachine, "state", far)
    with pytest.raises(ceql.DataError, match="damaged"):
        query.restore(recognizer.snapshot())
