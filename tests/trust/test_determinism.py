"""The small part of `make determinism`."""

from __future__ import annotations

import pytest

import ceql
import determinism

EVENTS = 30_000
SAMPLE = 12  # every so-manieth case of the corpus


@pytest.mark.parametrize("text", determinism.QUERIES)
def test_the_same_bytes_however_events_are_fed(text: str) -> None:
    query = ceql.compile(text)
    whole = determinism.in_one_run(query, EVENTS)
    assert not whole.endswith(" 0")
    assert determinism.in_feeds(query, EVENTS, 1, snapshots=False) == whole
    assert determinism.in_feeds(query, EVENTS, 2, snapshots=True) == whole


def test_the_same_bytes_without_the_compiler() -> None:
    """The cases of the corpus too."""
    assert determinism.short(SAMPLE) == determinism.short_without_compiler(SAMPLE)


def test_the_same_bytes_in_shards_and_threads() -> None:
    assert determinism.differing_in_shards(SAMPLE) == []
