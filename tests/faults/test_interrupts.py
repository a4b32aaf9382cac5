"""A feed is a transaction: an exception at any line leaves the recogniser as before the feed, or with all of it done.

The exception is injected at one line after the other. What is lost or done twice would show in the matches of that
feed, of those after it, or of a recogniser that is restored from a snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import cycle, product
from typing import Any

import pytest

import ceql
import checks
import injection
import streams
import tally
from streams import STREAMS, Stream

DISTURBED = 2  # the feed


def tried(lines: int, errors: Sequence[type[BaseException]]) -> Iterable[tuple[int, type[BaseException]]]:
    """The lines at which an exception is raised, of so many, and which: each at every line, or in turn at a sample."""
    every = range(1, lines + 1)
    if not tally.LINES:
        return product(every, errors)
    wanted = tally.LINES * len(errors) if tally.WHOLE else tally.LINES
    return zip(random.Random(lines).sample(every, min(wanted, lines)), cycle(errors))


def after_the_fault(
    stream: Stream, recognizer: ceql.Recognizer, batch: Any, fed: int, matches: ceql.Matches | None
) -> list[Any]:
    """What the disturbed feed gives once somebody looks after it, and what follows."""
    assert recognizer.fed in (fed, fed + batch.num_rows)
    if recognizer.fed == fed:
        matches = recognizer.feed(batch)
    elif matches is None:
        matches = recognizer.last
    found: list[Any] = [streams.read(matches)]
    del matches
    return found + what_follows(stream, recognizer)


def what_follows(stream: Stream, recognizer: ceql.Recognizer) -> list[Any]:
    """What the feeds after the disturbed one give, also to a recogniser that goes on from a snapshot."""
    found: list[Any] = []
    restored = ceql.compile(stream.query).restore(recognizer.snapshot())
    for batch in list(stream.events())[DISTURBED + 1 :]:
        found.append(streams.read(recognizer.feed(batch)))
        assert streams.read(restored.feed(batch)) == found[-1]
    found.append(streams.read(recognizer.finish()))
    tally.note(
        exceptions=1, recoveries=recognizer.metrics().recoveries, matches_compared=sum(len(part[0]) for part in found)
    )
    return found


@pytest.fixture(params=[None, checks.use_tiny_buffers, checks.use_shards], ids=["", "tiny", "shards"])
def tiny(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is not None:
        request.param(monkeypatch.setattr)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.query)
def test_an_exception_at_any_line_of_a_feed_and_its_reading(stream: Stream) -> None:
    expected = streams.undisturbed(stream)
    batches = list(stream.events())

    def disturbed(line: int | None, error: type[BaseException] = RuntimeError) -> int:
        recognizer = stream.recognizer()
        for batch in batches[:DISTURBED]:
            streams.read(recognizer.feed(batch))
        fed, matches = recognizer.fed, None
        with injection.raising(error, line) as run, suppress(error, ceql.ResourceError):
            matches = recognizer.feed(batches[DISTURBED])
            matches.to_arrow()
        found = after_the_fault(stream, recognizer, batches[DISTURBED], fed, matches)
        assert found == expected[DISTURBED:], f"{error.__name__} at line {line}"
        return run.count

    lines = disturbed(None)
    assert lines > 100
    for line, error in tried(lines, (KeyboardInterrupt, MemoryError, RuntimeError)):
        disturbed(line, error)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.query)
def test_an_interrupt_at_any_line_of_the_feed_after_matches_that_were_not_read(stream: Stream) -> None:
    expected = streams.undisturbed(stream)
    batches = list(stream.events())

    def disturbed(line: int | None) -> int:
        recognizer = stream.recognizer()
        for batch in batches[: DISTURBED - 1]:
            streams.read(recognizer.feed(batch))
        unread = recognizer.feed(batches[DISTURBED - 1])
        fed, matches = recognizer.fed, None
        with injection.raising(KeyboardInterrupt, line) as run, suppress(KeyboardInterrupt):
            matches = recognizer.feed(batches[DISTURBED])
        found = after_the_fault(stream, recognizer, batches[DISTURBED], fed, matches)
        assert found == expected[DISTURBED:], f"at line {line}"
        assert streams.read(unread) == expected[DISTURBED - 1], f"at line {line}"
        return run.count

    lines = disturbed(None)
    assert lines > 100
    for line, _ in tried(lines, [KeyboardInterrupt]):
        disturbed(line)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.query)
def test_an_interrupt_of_a_reading_that_nobody_takes_up_again(stream: Stream) -> None:
    expected = streams.undisturbed(stream)
    batches = list(stream.events())

    def disturbed(line: int | None) -> int:
        recognizer = stream.recognizer()
        for batch in batches[:DISTURBED]:
            streams.read(recognizer.feed(batch))
        matches: ceql.Matches | None = recognizer.feed(batches[DISTURBED])
        assert matches is not None
        with injection.raising(KeyboardInterrupt, line) as run, suppress(KeyboardInterrupt):
            for _ in matches.to_batches():
                pass
        matches = None
        assert what_follows(stream, recognizer) == expected[DISTURBED + 1 :], f"at line {line}"
        return run.count

    lines = disturbed(None)
    for line, _ in tried(lines, [KeyboardInterrupt]):
        disturbed(line)
