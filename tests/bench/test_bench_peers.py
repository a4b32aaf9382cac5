"""The benchmark's baselines find the very matches that ceql finds: otherwise their times would say nothing."""

from __future__ import annotations

import importlib
import json
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from bench.pattern import Group, Pattern, Step
from bench.peers import joins_worker, naive, pycer
from bench.peers.joins import DuckDB, DuckDBBuckets
from bench.peers.worker import Asked

import ceql

TYPES = "ABC"


def events(seed: int, count: int = 40) -> pa.Table:
    dice = np.random.default_rng(seed)
    return pa.table(
        {
            "type": pa.array(np.array(list(TYPES))[dice.integers(0, len(TYPES), count)]),
            "x": dice.integers(0, 4, count),
            "k": pa.array(np.array(["u", "v"])[dice.integers(0, 2, count)]),
            "time": pa.array(np.cumsum(dice.integers(0, 3, count)), pa.timestamp("ms")),
        }
    )


def step(dice: random.Random, plus: bool) -> Step:
    types = tuple(dice.sample(TYPES, dice.choice((1, 1, 2))))
    names = [dice.choice(("x", "x", "k"))] if dice.random() < 0.2 else []
    tests = tuple((name, "=", "u") if name == "k" else (name, dice.choice(("<", ">=")), 2) for name in names)
    return Step(types, tests, plus)


def sequence(dice: random.Random, key: str | None) -> Pattern:
    """What a join can do."""
    parts = [step(dice, False) for _ in range(dice.randint(1, 3))]
    for k in range(1, len(parts)):
        if dice.random() < 0.5:
            comparison = (
                "x",
                dice.choice(("=", "<", "<=", ">", ">=")),
                dice.randrange(k),
                "x",
                dice.choice((-1, 0, 2)),
            )
            parts[k] = replace(parts[k], against=(comparison,))
    return Pattern(tuple(parts), dice.choice((None, 5, 10)), key, consume=False, limit=None)


def pattern(dice: random.Random) -> Pattern:
    """Of any kind."""
    parts: list[Step | Group] = [step(dice, dice.random() < 0.3) for _ in range(dice.randint(1, 3))]
    if dice.random() < 0.4:
        inner = tuple(step(dice, dice.random() < 0.2) for _ in range(2))
        parts.insert(dice.randint(0, len(parts)), Group(inner))
    key = dice.choice((None, "k"))
    consume, limit = dice.random() < 0.5, dice.choice((None, 1, 4))
    window = dice.choice((None, 8)) if consume and limit else dice.choice((3, 8))
    return Pattern(tuple(parts), window, key, consume, limit)


def matches(table: pa.Table, wanted: Pattern) -> list[tuple[int, ...]]:
    return sorted(map(tuple, ceql.compile(wanted.ceql()).run(table).to_arrow()["events"].to_pylist()))


@pytest.mark.parametrize("seed", range(60))
def test_partial_matches(seed: int) -> None:
    dice = random.Random(seed)
    wanted, table = pattern(dice) if seed % 2 else sequence(dice, dice.choice((None, "k"))), events(seed, 24)
    rows, attributes = naive.events_of(table, wanted)
    engine = naive.Engine(wanted, attributes)
    by_event = [engine.feed(position, event) for position, event in enumerate(rows)]
    expected = matches(table, wanted)
    found = sorted(match for made in by_event for match in made)
    if wanted.limit is None:
        assert found == expected
    else:  # which are kept is each one's own choice, how many is not
        everything = engine_without_limit(table, wanted)
        assert [match[-1] for match in sorted(found, key=last)] == [match[-1] for match in sorted(expected, key=last)]
        assert {*found, *expected} <= set(everything)


def engine_without_limit(table: pa.Table, wanted: Pattern) -> list[tuple[int, ...]]:
    free = Pattern(wanted.parts, wanted.window, wanted.key, wanted.consume, None)
    rows, attributes = naive.events_of(table, free)
    engine = naive.Engine(free, attributes)
    return [match for position, event in enumerate(rows) for match in engine.feed(position, event)]


def last(match: tuple[int, ...]) -> int:
    return match[-1]


@pytest.mark.parametrize("engine", ["duckdb", "duckdb, buckets", "polars", "polars, buckets"])
@pytest.mark.parametrize("key", [None, "k"])
def test_joins(engine: str, key: str | None) -> None:
    importlib.import_module(engine.split(",")[0])
    for seed in range(12):
        wanted, table = sequence(random.Random(seed), key), events(seed)
        if wanted.window is None and "buckets" in engine:
            assert DuckDBBuckets().refuses(wanted)
            continue
        found = joins_worker.ENGINES[engine](table, wanted)()
        rows = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert rows == matches(table, wanted), wanted.ceql()


@pytest.mark.parametrize("seed", range(20))
def test_a_pattern_goes_through_json(seed: int) -> None:
    wanted = pattern(random.Random(seed)) if seed % 2 else sequence(random.Random(seed), None)
    assert Pattern.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted
    ceql.compile(wanted.ceql())
    ceql.compile(wanted.prime().ceql())


def test_runs_of_the_baseline() -> None:
    wanted = Pattern((Step(("A",)), Step(("B",))), 5)
    table = events(1)
    job = Asked(table, wanted, wanted.ceql(), 1, 10.0, memory=False)
    run = naive.run(*naive.events_of(table, wanted), job)
    found = matches(table, wanted)
    assert (run.events, run.matches, run.triggers) == (len(table), len(found), len({match[-1] for match in found}))
    assert run.error == ""


def test_what_a_join_refuses() -> None:
    steps = (Step(("A",)), Step(("B",)))
    assert DuckDB().refuses(Pattern(steps, consume=False, limit=None)) == ""
    assert DuckDB().refuses(Pattern(steps, limit=None)) == "a join cannot consume"
    assert DuckDB().refuses(Pattern((Group(steps),), consume=False, limit=None))
    assert DuckDB().refuses(Pattern(steps, consume=False))


def test_the_dialect_of_core() -> None:
    """Its windows are one less than they say."""
    text = pycer.query(Pattern((Step(("A",)), Step(("B",), (("x", ">", 2),))), 10, "k"))
    assert text == (
        "SELECT * FROM S WHERE A AS e0 ; B AS e1 FILTER e1[x > 2] PARTITION BY [k] WITHIN 11 [time] "
        "CONSUME BY ANY LIMIT 1000"
    )
