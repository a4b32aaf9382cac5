"""Rules that change while a stream runs: each finds what it finds alone in the events of its time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ceql
from ceql.spark import match, metrics, metrics_by_rule
from test_restart import DELAY, END, START, Event, Stream, expected, some

PAIR = "SELECT a, b WHERE A AS a ; B AS b PARTITION BY k WITHIN 50 MILLISECONDS"
JOINED = "SELECT a, b WHERE A AS a ; B AS b FILTER a.k = b.k AND b.id < a.id + 9 WITHIN 50 MILLISECONDS"
TWICE = "SELECT a, COUNT(a) AS n WHERE A{2} AS a PARTITION BY k WITHIN 20 MILLISECONDS"
KEYLESS = "SELECT * WHERE A AS a : B AS b FILTER a.id < 60 WITHIN 4 MILLISECONDS"


class Ruled:
    """A stream of events with a folder of rules."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.stream = Stream(spark, folder)
        self.folder = folder / "rules"
        self.folder.mkdir()
        self.rows: list[Any] = []
        self.progress: list[Any] = []
        self._files = 0

    def rule(self, name: str, text: str | None, version: str = "1", at: int | None = None, **more: Any) -> None:
        """A change of the rules, from a time in milliseconds on."""
        row = {"name": name, "text": text, "version": version, **more}
        if at is not None:
            row["valid_from"] = f"2023-11-14T22:13:{20 + at / 1000:09.6f}Z"
        (self.folder / f"{self._files:03}.json").write_text(json.dumps(row))
        self._files += 1

    def match(self, **options: Any) -> DataFrame:
        given: dict[str, Any] = {"keys": ["k", []], "order_by": "id", "buckets": 3, "events": "ids", "id": "id"}
        return match(self.stream.read(), rules=str(self.folder), errors="error", **(given | options))

    def run(self, **options: Any) -> None:
        run = self.stream.run(self.match(**options))
        self.rows += run.rows
        self.progress += run.progress

    def found(self, name: str) -> Counter[Any]:
        return Counter(tuple(row["events"]) for row in self.rows if row["query"] == name and row["events"] is not None)

    def between(self, lowest: int, highest: int = 10**9) -> list[Event]:
        """The events of these times."""
        return [event for event in self.stream.events if lowest <= event[1] < highest]


@pytest.fixture
def ruled(spark: SparkSession, tmp_path: Path) -> Ruled:
    assert START == 1_700_000_000_000  # 2023-11-14T22:13:20Z
    return Ruled(spark, tmp_path)


def test_rules_take_effect_at_their_times(ruled: Ruled) -> None:
    numbers = iter(range(500))
    ruled.rule("pair", PAIR)
    ruled.rule("keyless", KEYLESS, at=33)
    ruled.rule("joined", JOINED, at=62)
    ruled.rule("bad", "SELECT * WHERE A FILTER A.nothing = 1")
    ruled.rule("wrong", "SELECT * WHERE A (", version="7")
    ruled.stream.add(*(some(numbers, begin, count=8) for begin in (0, 30)))
    ruled.run()
    watermark = max(event[1] for event in ruled.stream.events) - DELAY
    ruled.rule("pair", PAIR.replace("AS b", "AS b ").lower().replace("a as", "A as").replace("; b as", "; B as"), "2")
    ruled.rule("twice", TWICE)
    ruled.rule("keyless", None, enabled=False, at=64)
    ruled.rule("joined", JOINED.replace("+ 9", "+ 5"), "2", at=93)
    ruled.rule("pair", "SELECT nonsense", "3")
    ruled.stream.add(*(some(numbers, begin, count=8) for begin in (36, 60)))
    ruled.run()
    ruled.stream.add(*(some(numbers, begin, count=8) for begin in (66, 90, 96)), [END])
    ruled.run()

    errors = {(row["query"], row["version"]): row["error"] for row in ruled.rows if row["error"] is not None}
    assert errors.keys() == {("bad", "1"), ("wrong", "7"), ("pair", "3")}
    assert "nothing" in errors["bad", "1"]
    assert len([row for row in ruled.rows if row["error"] is not None]) == 3
    # `pair` has gone on with its state, since it means the same
    assert ruled.found("pair") == expected(ruled.stream.events, PAIR)
    assert {row["version"] for row in ruled.rows if row["query"] == "pair" and row["events"]} == {"1", "2"}
    assert ruled.found("twice") == expected(ruled.between(watermark + 1), TWICE) != Counter()
    assert ruled.found("keyless") == expected(ruled.between(33, 64), KEYLESS) != Counter()
    changed = expected(ruled.between(93), JOINED.replace("+ 9", "+ 5"))
    assert ruled.found("joined") == expected(ruled.between(62, 93), JOINED) + changed != Counter()
    one = next(row for row in ruled.rows if row["query"] == "twice")
    assert one["measures"] == {"n": "2"}
    assert one["k"] in "xyz"
    assert sum(metrics(p)["matches"] for p in ruled.progress) == sum(row["events"] is not None for row in ruled.rows)
    counted = Counter[str]()  # rules change in the middle of a micro-batch, too
    for progress in ruled.progress:
        counted.update({name: own["matches"] for name, own in metrics_by_rule(progress).items()})
    assert +counted == Counter(row["query"] for row in ruled.rows if row["events"] is not None)


def test_a_rule_is_in_effect_in_the_micro_batch_that_reads_it(ruled: Ruled) -> None:
    """Micro-batch by micro-batch, it finds what a rule of the same text finds that was there all along."""
    numbers = iter(range(500))
    ruled.rule("old", PAIR)
    ruled.stream.add(*(some(numbers, begin, count=8) for begin in (0, 30)))
    ruled.run()
    behind = {event[3] for event in ruled.stream.events if event[1] <= 37 - DELAY}
    waiting = {event[3] for event in ruled.stream.events} - behind
    ruled.rule("new", PAIR)
    ruled.stream.add(*(some(numbers, begin, count=8) for begin in (36, 60, 66, 90)), [END])
    micro_batches = ruled.stream.run(ruled.match()).by_batch
    alerts = [
        {name: {tuple(row["events"]) for row in rows if row["query"] == name} for name in ("old", "new")}
        for _, rows in sorted(micro_batches.items())
    ]
    assert all(own["new"] == {ids for ids in own["old"] if not behind & set(ids)} for own in alerts)
    assert any(waiting & set(ids) for own in alerts for ids in own["new"])
    assert sum(bool(own["new"]) for own in alerts) >= 3
    assert any(behind & set(ids) for own in alerts for ids in own["old"])


def test_a_row_that_makes_no_rule_is_told(ruled: Ruled) -> None:
    """As NULL, a time that is none would let its rule begin at once."""
    ruled.rule("pair", PAIR)
    ruled.rule("off", PAIR, enabled="no")
    ruled.rule("maybe", PAIR, enabled="maybe")
    ruled.rule("when", PAIR, valid_from="yesterday")
    ruled.rule("never", "SELECT * WHERE A+ AS x FILTER x[id > PREV.id] PARTITION BY k")
    (ruled.folder / "cut.json").write_text('{"name": "cut", "text": "SELECT a\n')
    ruled.stream.add([("A", 0, "x", 1), ("B", 5, "x", 2)], [END])
    rows = ruled.stream.spark.readStream.schema("name string, text string, enabled string, valid_from string")
    both: list[Any] = [str(ruled.folder), rows.json(str(ruled.folder))]
    for number, rules in enumerate(both):
        found = match(ruled.stream.read(), rules=rules, keys="k", errors="error")
        run = ruled.stream.run(found, str(number))
        errors = {row["query"]: row["error"] for row in run.rows if row["error"] is not None}
        assert {row["query"] for row in run.rows if row["error"] is None} == {"pair"}
        assert errors.keys() == {"maybe", "when", "never", None}
        assert errors["maybe"] == "enabled is no boolean: maybe"
        assert errors["when"] == "valid_from is no timestamp: yesterday"
        assert "can never match" in errors["never"]
        assert "no JSON" in errors[None]


def test_the_stream_gains_a_column_and_loses_it(ruled: Ruled) -> None:
    """A rule that reads the column is in effect while there is one; the others go on."""
    numbers = iter(range(500))
    wider = "SELECT a, b WHERE A AS a ; B AS b FILTER b[extra = 1] PARTITION BY k WITHIN 50 MILLISECONDS"
    ruled.rule("pair", PAIR)
    watermarks = []
    for begin, extra in ((0, False), (30, True), (60, False)):
        if extra:
            ruled.rule("wider", wider)
        ruled.stream.add(some(numbers, begin, count=8), some(numbers, begin + 20, count=8))
        events = ruled.stream.read()
        found = match(
            events.withColumn("extra", F.lit(1)) if extra else events,
            rules=str(ruled.folder), keys="k", errors="error", order_by="id", buckets=3, events="ids", id="id",
        )  # fmt: skip
        ruled.rows += ruled.stream.run(found).rows
        watermarks.append(max(event[1] for event in ruled.stream.events) - DELAY)
    ruled.stream.add([END])
    ruled.run(keys="k")
    assert [row for row in ruled.rows if row["error"] is not None] == []
    assert ruled.found("pair") == expected(ruled.stream.events, PAIR)
    own = expected(ruled.between(watermarks[0] + 1, watermarks[1] + 1), PAIR)
    came = {pair: n for pair, n in own.items() if pair[1] >= 16}  # those of before have NULL there
    assert ruled.found("wider") == Counter(came) != Counter()


def test_events_without_a_time_are_rejected(ruled: Ruled) -> None:
    ruled.rule("pair", PAIR)
    ruled.stream.add([("A", 0, "x", 1), ("B", 5, "x", 2)], [END])
    files = ruled.stream.spark.readStream.schema("type string, time timestamp, k string, id long")
    events = files.parquet(str(ruled.stream.folder / "source"))
    events = events.selectExpr("type", "if(id = 1, NULL, time) AS time", "k", "id")
    events = events.withWatermark("time", f"{DELAY} milliseconds")
    for query, folder in ((None, "one"), ({"pair": PAIR}, "two"), (PAIR, "three")):
        options: dict[str, Any] = {"rules": str(ruled.folder), "keys": "k"} if query is None else {}
        result = match(events, query, order_by="id", rejects="rejected", **options)
        run = ruled.stream.run(result, folder)
        (one,) = [row["rejected"] for row in run.rows if row["rejected"] is not None]
        assert one["event"]["id"] == 1
        assert "time column is NULL" in one["reason"]
        assert sum(metrics(p)["rejected_rows"] for p in run.progress) == 1


def test_what_makes_no_sense_is_refused(ruled: Ruled) -> None:
    ruled.stream.add([END])
    events, folder = ruled.stream.read(), str(ruled.folder)
    batch = ruled.stream.spark.createDataFrame([("x", "y")], "name string, text string")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"rules": batch}, "rules= is a streaming DataFrame"),
        ({"rules": folder, "keys": "kk"}, r"no column 'kk' \(given as keys=\)"),
        ({"rules": folder, "query": PAIR}, "pass a query, or rules="),
        ({"rules": folder, "errors": "version"}, "errors='version' is already a column"),
        ({"rules": ruled.stream.spark.readStream.schema("name string, rule string").json(folder)}, "no column 'text'"),
        ({"errors": "e", "query": PAIR}, "errors= goes with rules="),
        ({}, "takes a query after the DataFrame"),
    ]
    for options, message in cases:
        with pytest.raises((ceql.CeqlError, ValueError), match=message):
            match(events, **options)


def test_a_rule_without_the_keys_of_the_stream_is_told(ruled: Ruled) -> None:
    ruled.rule("keyless", KEYLESS)
    ruled.rule("pair", PAIR)
    ruled.stream.add([("A", 0, "x", 1), ("B", 5, "x", 2)], [END])
    ruled.run(keys="k")
    (error,) = [row for row in ruled.rows if row["error"] is not None]
    assert error["query"] == "keyless"
    assert "PARTITION BY must have all of these columns" in error["error"]
    assert ruled.found("pair") == Counter({(1, 2): 1})
