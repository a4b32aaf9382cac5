"""Buckets give what the engine gives, however rows arrive and wherever a stream is cut; without Spark, so in bulk."""

from __future__ import annotations

import random
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import corpus
import generators
import hand_made
import ways
from ceql import DataError, Suppression
from ceql.recognition import snapshot
from ceql.spark import streaming_checks
from ceql.spark.bucket import Bucket
from ceql.spark.task_spec import TIME, TaskSpec, attribute_column
from ceql.syntax import tree
from ceql.syntax.parser import parse
from next_cases import preferred_cases

SKIPPED = {  # keys made by hand are floats; test_streaming has these
    "keys compare by value: no rounding of large whole numbers",
    "a join of whole numbers and floats is by value, and exact",
    "keys of whole numbers and floats are equal by value, and exact",
    "the same where it counts nanoseconds: all are near",  # Spark's times are in microseconds
}
CASES = [
    c
    for c in corpus.load()
    if c.error is None and c.title not in SKIPPED and not hand_made.waits_for_events(parse(c.query))
]
EXAMPLES = settings(suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize(("number", "case"), list(enumerate(corpus.some(CASES, 2))), ids=str)
def test_corpus(number: int, case: corpus.Case) -> None:
    """In one of three ways in turn, with CEQL_CORPUS=all in each of them."""
    example = ways.Example.of(case.query, case.events, **case.keywords)
    if hand_made.reads_plain_times(example):
        pytest.skip("times of a stream are timestamps; test_streaming has cases with them")
    expected = hand_made.expected(example)
    for seed in range(3) if corpus.THOROUGH else [number % 3]:
        exact, most = ((0.0, 5), (0.5, 1), (1.0, 3))[seed]
        ids = hand_made.needs_ids(example) or seed > 0
        shipped = hand_made.ship(example, buckets=3, exact=exact, seed=seed, ids=ids)
        operator = hand_made.run(shipped, random.Random(seed), most)
        assert operator.found == expected
        assert operator.late == []


@settings(EXAMPLES, max_examples=40)
@given(
    preferred_cases(generators.uncorrelated_cases)() | preferred_cases(generators.conditioned_cases)(),
    st.randoms(use_true_random=False),
)
def test_random_preferred_matches(case: generators.Generated, draw: random.Random) -> None:
    """The watermark decides; a window of time says when."""
    query = replace(case.query, window=case.query.window or tree.TimeWindow(3_000_000))
    assume(isinstance(query.window, tree.TimeWindow))
    hand_made.check(case._replace(query=query), draw)


@settings(EXAMPLES, max_examples=150)
@given(generators.uncorrelated_cases(), st.randoms(use_true_random=False))
def test_random_cases(case: generators.Generated, draw: random.Random) -> None:
    hand_made.check(case, draw)


@settings(EXAMPLES, max_examples=150)
@given(generators.correlated_cases(), st.randoms(use_true_random=False))
def test_random_correlated_cases(case: generators.Generated, draw: random.Random) -> None:
    hand_made.check(case, draw)


@settings(EXAMPLES, max_examples=60)
@given(generators.conditioned_cases() | generators.aggregated_cases(), st.randoms(use_true_random=False))
def test_random_conditions_between_events(case: generators.Generated, draw: random.Random) -> None:
    hand_made.check(case, draw)


@settings(EXAMPLES, max_examples=50)
@given(
    generators.uncorrelated_cases(named=True)
    | generators.correlated_cases(named=True)
    | generators.conditioned_cases(named=True),
    st.randoms(use_true_random=False),
)
def test_random_cases_of_two_streams(case: generators.Generated, draw: random.Random) -> None:
    hand_made.check(case, draw)


@settings(EXAMPLES, max_examples=25)
@given(
    st.lists(
        generators.uncorrelated_cases() | generators.correlated_cases() | generators.conditioned_cases(),
        min_size=2,
        max_size=5,
    ),
    st.randoms(use_true_random=False),
)
def test_random_sets(cases: list[generators.Generated], draw: random.Random) -> None:
    hand_made.check_together(cases, draw)


def test_random_sets_that_change() -> None:
    found = 0

    @settings(EXAMPLES, max_examples=80)
    @given(
        st.lists(generators.uncorrelated_cases() | generators.conditioned_cases(), min_size=3, max_size=6),
        st.randoms(use_true_random=False),
    )
    def run(cases: list[generators.Generated], draw: random.Random) -> None:
        nonlocal found
        found += hand_made.check_changed(cases, draw)

    run()
    assert found > 20


class Killed(hand_made.Operator):
    """An operator whose micro-batches are cut short, and run again from the states before, as after a kill."""

    def micro_batch(self, rows: Sequence[int], clock: int) -> None:
        for _ in range(2):
            cut_short = hand_made.Operator(self.shipped, dict(self.states), dict(self.timers))
            cut_short._canonical = self._canonical  # type: ignore[method-assign]
            hand_made.Operator.micro_batch(cut_short, rows, clock)
        super().micro_batch(rows, clock)

    def _canonical(self, row: dict[str, Any]) -> str:
        return repr((row["suppressed"], list(row.values())[-1]))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A ; B PARTITION BY k WITHIN 9 MILLISECONDS",
        "SELECT * WHERE A AS a ; B AS b FILTER a.pos + 9 > b.pos WITHIN 9 MILLISECONDS",
        "SELECT * WHERE A ; NOT B PARTITION BY k WITHIN 4 MILLISECONDS",
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_the_same_alerts_are_suppressed_through_kills(query: str, seed: int) -> None:
    draw = random.Random(seed)
    times = sorted(draw.sample(range(200), 120))
    example = example_at(query, *((draw.choice("AABC"), time, draw.choice("xyz")) for time in times))
    shipped = hand_made.ship(example, buckets=2)
    assert isinstance(shipped.spec, TaskSpec)
    count, period = draw.choice([(1, 15), (2, 30), (3, 60)])
    spec = replace(shipped.spec, suppresses=True, suppress=(count, period * 10**6))
    operator = Killed(replace(shipped, spec=spec))
    arrived, clock = hand_made.arrivals(shipped, draw), 0
    for rows in hand_made.cut(arrived, draw, 7):
        operator.micro_batch(rows, clock)
        newest = max([clock, *(shipped.stamps[k] for k in rows)])
        clock = max(clock, newest - ways.LATENESS)
    hand_made.finish(operator)
    matches = example.query.run(example.input, **example.options)
    kept = Suppression(f"{count} per {period} milliseconds").of(matches, time_unit="ms")
    assert operator.found == Counter(repr((row["suppressed"], row["events"])) for row in kept.to_pylist())
    assert kept.num_rows < matches.count()
    assert not operator.states, "the periods are over"


def example_at(query: str, *events: tuple[str, int, str]) -> ways.Example:
    """An example of events given as type, time and key."""
    return ways.Example.of(query, [{"type": kind, "time": time, "k": key} for kind, time, key in events])


def test_a_watermark_that_does_not_begin_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    example = example_at("SELECT * WHERE A ; B PARTITION BY k", ("A", 1, "x"), ("B", 10, "x"), ("B", 20, "x"))
    streaming_checks._tell.cache_clear()
    operator = hand_made.Operator(hand_made.ship(example))
    operator.micro_batch([0], 0)  # the first micro-batch has none yet
    assert not caplog.messages
    operator.micro_batch([1], 0)
    operator.micro_batch([2], 0)
    (line,) = caplog.messages
    assert "there is still no watermark" in line
    assert "withWatermark() stands behind match()" in line


def test_what_a_worker_warns_of_is_heard() -> None:
    """In a process like a worker, where nobody has set logging up."""
    code = """
from dataclasses import replace
from ceql.spark.bucket import CheckpointTerms, sealed
from ceql.spark.packing import SEAL
from ceql.spark.streaming import BucketProcessor
class State:
    def get(self): return (sealed(before),)
    def update(self, value): pass
before = CheckpointTerms("1", "", 1, None, "time", (), (), (), queries=(("theft", "1", "1"), ("bot", "2", "2")))
now = replace(before, fingerprint="2", queries=(("theft", "3", "3"),))
processor = BucketProcessor({}, now, frozenset(), False)
processor.begin(None, State())
list(processor.handleInputRows((SEAL,), iter(()), None))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING ceql: the stream goes on with another set of queries: 'bot' gone, 'theft' changed" in done.stderr


def test_the_watermark_releases_what_it_reaches() -> None:
    example = example_at("SELECT * WHERE A ; B PARTITION BY k", ("A", 1, "x"), ("B", 10, "x"), ("C", 100, "y"))
    operator = hand_made.Operator(hand_made.ship(example))
    operator.micro_batch([0, 1], ways.EPOCH)
    for at in (1, 2, 9):
        operator.micro_batch([], ways.EPOCH + at)
        assert not operator.found
    operator.micro_batch([], ways.EPOCH + 10)
    assert operator.found == hand_made.expected(example)


def test_rows_at_the_watermark_are_late() -> None:
    example = example_at("SELECT * WHERE A ; B WITHIN 9 MILLISECONDS", ("A", 1, "x"), ("A", 4, ""), ("B", 5, ""))
    operator = hand_made.Operator(hand_made.ship(example))
    operator.micro_batch([0, 1], ways.EPOCH + 1)
    operator.micro_batch([2], ways.EPOCH + 4)
    hand_made.finish(operator)
    assert operator.late == [0]
    assert list(operator.found) == [key for key in hand_made.expected(example) if key.startswith("[[1, 2]")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A ; B PARTITION BY k WITHIN 10 MILLISECONDS",
        "SELECT NEXT * WHERE A ; B PARTITION BY k WITHIN 10 MILLISECONDS",
        "SELECT * WHERE A ; B WITHIN 10 MILLISECONDS",
        "SELECT * WHERE A ; B WITHIN 5 EVENTS",
        "SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k AND x.time < y.time WITHIN 10 MILLISECONDS",
        "SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k WITHIN 5 EVENTS",
        "SELECT * WHERE A+ AS x ; B AS y FILTER x[k = PREV.k OR PREV.k IS NULL] WITHIN 4 MILLISECONDS",
    ],
)
def test_a_state_does_not_grow_with_the_stream(query: str) -> None:
    example = example_at(query, *(("A", 2 * n, f"key {n % 90}") for n in range(300)))
    shipped = hand_made.ship(example, buckets=1)
    operator = hand_made.Operator(shipped)
    sizes = []
    for n, stamp in enumerate(shipped.stamps):
        operator.micro_batch([n], stamp - 3)
        sizes.append(sum(map(len, operator.states.values())))
    assert max(sizes[200:]) <= max(sizes[:100]) + 64  # numbers have more digits


def test_a_state_goes_on_in_another_time_zone() -> None:
    example = example_at("SELECT * WHERE A ; B", ("A", 1, "x"), ("A", 3, "x"), ("B", 5, "x"))
    shipped = hand_made.ship(example, ids=False)
    operator = hand_made.Operator(shipped)
    operator.micro_batch([0, 1], ways.EPOCH)
    operator.micro_batch([], ways.EPOCH + 1)  # one waits, and one is part of a match
    rows = shipped.rows
    for name in [name for name in rows.schema.names if pa.types.is_timestamp(rows.schema.field(name).type)]:
        column = rows.column(name).cast(pa.timestamp("us", "Asia/Tokyo"))
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    operator.shipped = replace(shipped, rows=rows)
    operator.micro_batch([2], ways.EPOCH + 1)
    hand_made.finish(operator)
    assert operator.found == hand_made.expected(example)


def test_a_column_of_another_type_is_refused() -> None:
    example = example_at("SELECT * WHERE A ; B", ("A", 1, "x"), ("B", 5, "x"))
    shipped = hand_made.ship(example)
    operator = hand_made.Operator(shipped)
    operator.micro_batch([0], ways.EPOCH)
    name = attribute_column("pos")
    index = shipped.rows.schema.get_field_index(name)
    column = shipped.rows.column(index).cast(pa.float64())
    operator.shipped = replace(shipped, rows=shipped.rows.set_column(index, name, column))
    with pytest.raises(DataError, match="columns had other types"):
        operator.micro_batch([1], ways.EPOCH)


def test_rows_without_a_time_are_refused() -> None:
    example = example_at("SELECT * WHERE A ; B", ("A", 1, "x"))
    shipped = hand_made.ship(example)
    index = shipped.rows.schema.get_field_index(TIME)
    nothing = pa.nulls(1, shipped.rows.schema.field(index).type)
    operator = hand_made.Operator(replace(shipped, rows=shipped.rows.set_column(index, TIME, nothing)))
    with pytest.raises(DataError, match="an event has no time"):
        operator.micro_batch([0], ways.EPOCH)


STORED: list[dict[str, Any]] = [
    case
    for case in tomllib.loads((Path(__file__).parents[1] / "snapshots.toml").read_text())["case"]
    if "columns" in case and "options" not in case
]


def stopped(case: dict[str, Any]) -> tuple[hand_made.Operator, list[int]]:
    """A stream after its first part, its one bucket with matches under way and rows that wait; and the other rows."""
    events = [dict(zip(case["columns"], event, strict=True)) for event in case["before"] + case["after"]]
    shipped = hand_made.ship(ways.Example.of(case["query"], events), buckets=1, exact=1.0)
    operator = hand_made.Operator(shipped)
    first = [k for k, stamp in enumerate(shipped.stamps) if stamp < ways.EPOCH + len(case["before"])]
    operator.micro_batch(first, ways.EPOCH - 1)
    operator.micro_batch([], ways.EPOCH + len(case["before"]) - 2)
    return operator, list(range(len(first), len(shipped.stamps)))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in STORED])
def test_states_go_on(case: dict[str, Any]) -> None:
    whole, rest = stopped(case)
    begun = whole.found.copy()
    restored = replace(whole, found=begun.copy(), states=dict(whole.states))
    for operator in (whole, restored):
        operator.micro_batch(rest, ways.EPOCH + len(case["before"]) - 2)
        hand_made.finish(operator)
    assert restored.found == whole.found > begun


def test_a_forbidden_event_is_remembered_though_no_match_is_under_way() -> None:
    query = "SELECT * WHERE NOT B AS n ; (A AS a ; C AS c) FILTER n.v > a.v WITHIN 5 MILLISECONDS"
    events = [{"type": kind, "v": v, "time": time} for kind, v, time in [("B", 9, 1), ("A", 1, 3), ("C", 1, 4)]]
    shipped = hand_made.ship(ways.Example.of(query, events, time_unit="ms"), buckets=1)
    operator, stamps = hand_made.Operator(shipped), shipped.stamps
    operator.micro_batch([0], stamps[0] - 1)
    operator.micro_batch([], stamps[0] + 1)
    assert operator.states
    operator.micro_batch([1, 2], stamps[0] + 1)
    operator.micro_batch([], stamps[2] + 1)
    assert not operator.found
    operator.micro_batch([], stamps[2] + 100)
    assert not operator.states


@pytest.mark.parametrize("by", [-1, 1])
def test_a_state_of_another_version_is_refused(by: int) -> None:
    operator, _ = stopped(STORED[0])
    (blob,) = operator.states.values()
    other = snapshot.sealed(snapshot.VERSION + by, [blob[24:]])
    with pytest.raises(DataError, match=f"the snapshot has format {snapshot.VERSION + by}, and this version of ceql"):
        Bucket.from_bytes(other, operator.shipped.spec, operator.shipped.terms)
