"""Signals come when they like: the matches of all feeds together are those of an undisturbed run."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import ceql
import streams
import tally
from streams import STREAMS, Stream

TRIED = 100 if tally.WHOLE else 6

pytestmark = [
    pytest.mark.skipif(
        not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread(),
        reason="there are no signals here",
    ),
    # a signal may come while Python runs a destructor or a callback of its collector (hypothesis has one). Python then
    # reports the exception and drops it: the feed goes on undisturbed, as these tests allow
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Interrupt(BaseException):
    """What the signal raises."""


def interrupted(seconds: float, action: Callable[[], object]) -> None:
    """Do something, and be interrupted after so long, unless it has ended.

    What the action then raises may be another exception: NumPy turns what is raised in its comparisons into TypeError.
    """
    armed, fired = True, False

    def handle(*_: Any) -> None:
        nonlocal fired
        if armed:
            fired = True
            raise Interrupt

    before = signal.signal(signal.SIGALRM, handle)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            action()
        finally:
            armed = False
    except BaseException:
        armed = False
        if not fired:
            raise
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def feed_and_read(recognizer: ceql.Recognizer, batch: pa.RecordBatch) -> None:
    streams.read(recognizer.feed(batch))


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.query)
def test_signals_in_feeds_and_readings(stream: Stream) -> None:
    stream = Stream(stream.query, stream.options, feeds=3, rows=120)
    batches = list(stream.events())
    begin = time.perf_counter()
    expected = streams.undisturbed(stream)
    usual = (time.perf_counter() - begin) / len(batches)
    dice = random.Random(stream.query)
    for _ in range(TRIED):
        recognizer, found = stream.recognizer(), []
        for batch in batches:
            fed = recognizer.fed
            interrupted(dice.uniform(0, usual) + 1e-6, partial(feed_and_read, recognizer, batch))
            assert recognizer.fed in (fed, fed + batch.num_rows)
            if recognizer.fed == fed:
                recognizer.feed(batch)
            found.append(streams.read(recognizer.last))
        assert [*found, streams.read(recognizer.finish())] == expected
        matches = sum(len(part[0]) for part in expected)
        tally.note(signals=len(batches), recoveries=recognizer.metrics().recoveries, matches_compared=matches)
