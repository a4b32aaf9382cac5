"""A recogniser that is given up gives back its memory at once, and its results go on without it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import ceql
import checks
import streams
from streams import STREAMS, Stream


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Without Python's collector only what no cycle holds is given back."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("shards", [False, True], ids=["", "shards"])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.query)
def test_nothing_holds_a_recogniser(stream: Stream, shards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if shards:
        checks.use_shards(monkeypatch.setattr)
    batches = list(stream.events())
    recognizer = stream.recognizer()
    streams.read(recognizer.feed(batches[0]))
    recognizer = ceql.compile(stream.query).restore(recognizer.snapshot())
    recognizer.feed(batches[1]).head(1)
    recognition = recognizer._recognitions[0]
    assert recognition is not None
    watched: list[weakref.ref[Any]] = [
        weakref.ref(recognizer),
        weakref.ref(recognition),
        weakref.ref(recognition.machine),
    ]
    del recognizer, recognition
    assert [reference() for reference in watched] == [None, None, None]


def test_a_result_goes_on_without_its_recogniser() -> None:
    stream = STREAMS[4]
    expected, batches = streams.undisturbed(stream), list(stream.events())
    recognizer = stream.recognizer()
    for batch in batches[:2]:
        streams.read(recognizer.feed(batch))
    matches = recognizer.feed(batches[2])
    del recognizer
    assert matches.late().num_rows == 0
    assert (matches.to_arrow().to_pylist(), matches.events().to_pylist()) == expected[2]
    assert matches.count() == len(expected[2][0])
