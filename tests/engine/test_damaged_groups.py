"""Changed states of the loop over groups are refused, or harmless. They are sealed anew, so no checksum tells."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
from ceql.engine.groups.machine import GroupMachine

STORED = tomllib.loads((Path(__file__).parents[1] / "snapshots.toml").read_text())["case"]
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


def restored_with(case: dict[str, Any], change: Callable[[dict[str, Any]], None], patch: pytest.MonkeyPatch) -> bool:
    """Whether the snapshot of a case is taken after its arrays were changed; then it goes on."""
    query = ceql.compile(case["query"])
    recognizer = query.recognizer()
    list(recognizer.feed(table(case, "before")))
    whole = GroupMachine.state

    def changed(self: GroupMachine, *given: Any) -> dict[str, Any]:
        arrays = {name: array.copy() for name, array in whole(self, *given).items()}
        change(arrays)
        return arrays

    with patch.context() as patched:
        patched.setattr(GroupMachine, "state", changed)
        blob = recognizer.snapshot()
    try:
        list(query.restore(blob).feed(table(case, "after")))
    except ceql.DataError:
        return False
    return True


@pytest.mark.parametrize("name", CASES)
def test_nodes_of_another_kind_are_refused_or_harmless(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list where there are none would be taken for an event."""
    for row in range(-12, 0):
        for kind in (-1, -2, -3, -5, -128, -129):

            def change(arrays: dict[str, Any], row: int = row, kind: int = kind) -> None:
                arrays["nodes"][max(row, -len(arrays["nodes"])), -1] = kind

            taken = restored_with(CASES[name], change, monkeypatch)
            assert not (taken and kind in (-2, -3))


def test_a_hash_table_of_an_odd_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks for a place in it would not come to an end."""

    def change(arrays: dict[str, Any]) -> None:
        arrays["sizes"][2] = len(arrays["cells"]) + 1 + len(arrays["cells"]) % 2

    assert not restored_with(CASES["sets"], change, monkeypatch)
