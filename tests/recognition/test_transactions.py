"""A feed is done whole or not at all, whatever is wrong with it; its matches wait until they are read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
from ceql.engine.states.machine import StateMachine
from ceql.io.sequencer import Sequencer
from ceql.recognition import journal
from ceql.recognition.frame import Recognition
from ceql.recognition.snapshot import State

Row = tuple[str, int]


def events(*rows: Row) -> pa.Table:
    return pa.table({"type": [kind for kind, _ in rows], "v": pa.array([v for _, v in rows], pa.int64())})


def found(matches: ceql.Matches) -> list[tuple[int, ...]]:
    return [match.events for match in matches]


def test_an_error_in_a_later_part_leaves_nothing_of_the_earlier_ones() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B").recognizer()
    rows = 200_000
    times = pa.array([*range(rows - 1), None], pa.int64())
    with pytest.raises(ceql.DataError, match="NULL"):
        recognizer.feed(pa.table({"type": ["A"] * rows, "time": times}))
    assert recognizer.fed == recognizer.position == 0
    assert found(recognizer.feed(pa.table({"type": ["A", "B"], "time": [5, 6]}))) == [(0, 1)]


def test_an_attribute_that_falls_too_far_takes_its_feed_back_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateMachine.__init__, "__defaults__", (3, 5, 8, 16))  # memory is given back early
    query = ceql.compile("SELECT * WHERE A ; B WITHIN 3 [v]")
    recognizer = query.recognizer()
    before = [("A", v) for v in range(0, 400, 2)]
    assert found(recognizer.feed(events(*before))) == []
    falls = recognizer.feed(events(("A", 399), ("A", 5), ("B", 6)))
    for _ in range(2):
        with pytest.raises(ceql.DataError, match="went back"):
            found(falls)
    assert recognizer.fed == recognizer.position == 200
    assert found(recognizer.feed(events(("B", 400)))) == [(199, 200)]
    restored = query.restore(recognizer.snapshot())
    assert found(restored.feed(events(("B", 401)))) == [(199, 201)]


def decimals(*rows: tuple[str, int]) -> pa.Table:
    """Events of which those with a large value cannot be recognised, which shows when they are read."""
    values = pa.array([Decimal(v) for _, v in rows], pa.decimal128(38, 0))
    return pa.table({"type": [kind for kind, _ in rows], "v": values, "note": [f"{kind} {v}" for kind, v in rows]})


def test_a_feed_that_was_refused_leaves_no_rows() -> None:
    recognizer = ceql.compile("SELECT * WHERE A AS x ; B FILTER x[v * v > 0]").recognizer()
    recognizer.feed(events(("A", 1))).to_arrow()
    with pytest.raises(ceql.DataError, match="overflow"):
        recognizer.feed(events(("A", 2**62))).to_arrow()
    assert recognizer.fed == 1
    matches = recognizer.feed(events(("B", 2)))
    assert matches.events().column("v").to_pylist() == [1, 2]


def test_a_feed_that_nobody_read_and_that_cannot_be_recognised_is_named_by_the_next() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B WITHIN 3 [v]").recognizer()
    recognizer.feed(decimals(("A", 1))).to_arrow()
    bad = recognizer.feed(decimals(("A", 10**30)))
    with pytest.raises(ceql.DataError, match="the events fed before cannot be recognised, and were taken back"):
        recognizer.feed(decimals(("B", 2)))
    assert recognizer.fed == 1
    assert found(recognizer.feed(decimals(("B", 2)))) == [(0, 1)]
    with pytest.raises(ceql.DataError, match="decimals too large"):
        bad.to_arrow()


class Interrupt(BaseException):
    """As a signal raises it."""


@contextmanager
def interrupted(kind: type[Any], name: str, call: int) -> Iterator[None]:
    """An interrupt comes when a method has been called so often and is about to return."""
    calls, original = [0], getattr(kind, name)

    def method(self: Any, *args: Any, **options: Any) -> Any:
        result = original(self, *args, **options)
        calls[0] += 1
        if calls[0] == call:
            raise Interrupt
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, name, method)
        with pytest.raises(Interrupt):
            yield


@pytest.mark.parametrize("read", [ceql.Matches.to_arrow, ceql.Matches.count, ceql.Matches.events, list, bool])
def test_the_matches_of_an_interrupted_reading_can_be_read_again(read: Any) -> None:
    table = pa.table({"type": ["A"] * 300 + ["B"] * 300})
    recognizer = ceql.compile("SELECT * WHERE A ; B").recognizer()
    matches = recognizer.feed(table)
    with interrupted(StateMachine, "_list" if read is not ceql.Matches.count else "_advance", 1):
        read(matches)
    assert matches.to_arrow().num_rows == 90_000
    assert recognizer.feed(pa.table({"type": ["B"]})).to_arrow().num_rows == 300


def test_a_result_that_an_interrupt_kept_from_its_receiver() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B").recognizer()
    with interrupted(ceql.Recognizer, "_take_in", 1):
        recognizer.feed(pa.table({"type": ["A", "B"]}))
    assert recognizer.fed == 2
    assert found(recognizer.last) == [(0, 1)]
    with interrupted(Sequencer, "push", 1):
        recognizer.feed(pa.table({"type": ["B"]}))
    assert recognizer.fed == 2
    assert found(recognizer.feed(pa.table({"type": ["B"]}))) == [(0, 2)]


def test_a_reader_cannot_go_on_beside_a_new_one() -> None:
    matches = ceql.compile("SELECT * WHERE A ; B").recognizer().feed(pa.table({"type": ["A"] * 300 + ["B"] * 300}))
    first = matches.to_batches()
    next(first)
    assert matches.to_arrow().num_rows == 90_000
    with pytest.raises(ceql.DataError, match="read anew"):
        next(first)


EXPLOSIONS = [
    "SELECT * WHERE A+ ; B",
    "SELECT * WHERE A+ ; B WITHIN 100 EVENTS",
    "SELECT * WHERE A+ ; B PARTITION BY k CONSUME BY ANY",
    "SELECT * WHERE A+ ; B WITHIN 100 [v]",
]


@pytest.mark.parametrize("read", [None, bool, ceql.Matches.head])
@pytest.mark.parametrize("query", EXPLOSIONS)
def test_matches_that_nobody_holds_are_not_enumerated(query: str, read: Any) -> None:
    table = pa.table({"type": ["A"] * 70 + ["B"], "k": [1] * 71, "v": list(range(71))})
    recognizer = ceql.compile(query).recognizer()
    matches = recognizer.feed(table)
    if read is not None:
        read(matches)
    del matches
    expected = 0 if "CONSUME" in query else 2**70 - 1
    after = pa.table({"type": ["B"], "k": [1], "v": [71]})
    assert recognizer.feed(after).count() == expected
    assert recognizer.position == 72


@pytest.mark.parametrize("strategy", ["NEXT", "LAST", "MAX"])
def test_a_strategy_without_readers_goes_on_the_same(strategy: str) -> None:
    query = ceql.compile(f"SELECT {strategy} * WHERE A+ ; B WITHIN 30 EVENTS CONSUME BY ANY")
    table = pa.table({"type": list("AABACABBAAB" * 5000)})
    read, unread = query.recognizer(), query.recognizer()
    read.feed(table).to_arrow()
    unread.feed(table)
    rest = pa.table({"type": list("ABAAB")})
    assert read.feed(rest).to_arrow().equals(unread.feed(rest).to_arrow())


@pytest.mark.parametrize("query", [*EXPLOSIONS, "SELECT MAX * WHERE A+ ; B WITHIN 50 EVENTS"])
def test_counting_a_feed_and_enumerating_the_next(query: str) -> None:
    dice = np.random.default_rng(3)
    tables = [
        pa.table({"type": dice.choice(list("ABC"), 12), "k": dice.integers(0, 2, 12), "v": np.arange(k, k + 12)})
        for k in range(0, 60, 12)
    ]
    counted, enumerated = ceql.compile(query).recognizer(), ceql.compile(query).recognizer()
    for k, table in enumerate(tables):
        whole = enumerated.feed(table).to_arrow()
        if k % 2:
            assert counted.feed(table).to_arrow().equals(whole)
        else:
            assert counted.feed(table).count() == whole.num_rows


def test_a_recogniser_goes_on_after_many_states_were_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LEAST_BYTES", 1)
    states: list[int] = []
    original = Recognition.state

    def state(self: Recognition) -> State:
        states.append(self.position)
        return original(self)

    monkeypatch.setattr(Recognition, "state", state)
    query = ceql.compile("SELECT * WHERE A ; B PARTITION BY k WITHIN 50 EVENTS")
    dice = np.random.default_rng(4)
    table = pa.table({"type": dice.choice(list("AB"), 2000), "k": dice.integers(0, 9, 2000)})
    recognizer = query.recognizer()
    tables = [recognizer.feed(batch).to_arrow() for batch in table.to_batches(max_chunksize=20)]
    assert len(states) >= 5
    assert pa.concat_tables(tables).equals(query.run(table).to_arrow())


def test_threads_take_turns() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B PARTITION BY k").recognizer()
    counts = [0] * 4

    def work(k: int) -> None:
        for _ in range(60):
            counts[k] += recognizer.feed(pa.table({"type": ["A", "B"], "k": [k, k]})).to_arrow().num_rows

    threads = [threading.Thread(target=work, args=[k]) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [60 * 61 // 2] * 4


def test_a_feed_in_the_middle_of_a_feed_is_refused() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B").recognizer()

    def nested() -> Any:
        yield {"type": "A"}
        recognizer.feed([{"type": "B"}])

    with pytest.raises(ceql.CeqlError, match="in the middle of a feed"):
        recognizer.feed(nested())
    assert recognizer.fed == 0


def test_rows_that_wait_for_a_silent_stream_are_bounded() -> None:
    recognizer = ceql.compile("SELECT * FROM S, T WHERE S>A ; T>B").recognizer(max_buffered_rows=10)
    table = pa.table({"type": ["A"] * 6, "time": list(range(6))})
    recognizer.feed(table, stream="S")
    with pytest.raises(ceql.ResourceError, match="stream 'T'") as error:
        recognizer.feed(table, stream="S")
    assert error.value.limit == "max_buffered_rows"
    assert recognizer.fed == 6
    recognizer.feed(pa.table({"type": ["B"], "time": [9]}), stream="T")
    assert recognizer.finish().count() == 6


@pytest.mark.parametrize("condition", ["", " FILTER A.v = B.v"])
def test_keys_of_partitions_that_never_hold_anything_are_forgotten(condition: str) -> None:
    query = ceql.compile(f"SELECT * WHERE (A ; B{condition}) PARTITION BY k WITHIN 10 SECONDS")
    recognizer = query.recognizer(time_unit="s")
    rows, most = 50_000, 0
    for k in range(12):
        keys = np.arange(k * rows, (k + 1) * rows)
        kinds = np.where(keys % 1000 == 0, "A", "B")  # a B opens nothing
        table = pa.table({"type": kinds, "k": keys, "v": keys, "time": np.full(rows, k)})
        recognizer.feed(table).to_arrow()
        most = max(most, recognizer.partitions)
    assert most < 250_000
    last = pa.table({"type": ["B", "B"], "k": [599_000, 598_999], "v": [599_000, 598_999], "time": [12, 12]})
    assert [match.partition for match in recognizer.feed(last)] == [{"k": 599_000}]
