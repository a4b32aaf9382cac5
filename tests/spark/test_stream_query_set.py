"""Many queries over one stream: the matches of each are those that it finds by itself, from a checkpoint as well."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import ceql
from ceql.spark import end_of_input, errors, match, metrics
from test_restart import DELAY, END, Event, Stream, expected, some

SET = {
    "pair": "SELECT a, b WHERE A AS a ; B AS b PARTITION BY k WITHIN 50 MILLISECONDS",
    "joined": "SELECT a, b WHERE A AS a ; B AS b FILTER a.k = b.k AND b.id < a.id + 9 WITHIN 50 MILLISECONDS",
    "silent": "SELECT a WHERE A AS a ; NOT B PARTITION BY k WITHIN 3 MILLISECONDS",
    "measured": "SELECT a, COUNT(a) AS n WHERE A{2} AS a PARTITION BY k WITHIN 20 MILLISECONDS",
    "keyless": "SELECT * WHERE A AS a : B AS b FILTER a.id < 20 WITHIN 4 MILLISECONDS",
    "anything": "SELECT NEXT * WHERE B AS x ; A AS y FILTER x.id > 12",
}
LATE = ("A", 1, "x", 99)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def together(stream: Stream, queries: dict[str, str] | None = None, **options: Any) -> DataFrame:
    options = dict[str, Any](order_by="id", buckets=3, late="late") | options
    return match(stream.read(), queries or SET, events="ids", id="id", **options)


def found(rows: list[Any]) -> dict[str, Counter[Any]]:
    matches = [row for row in rows if row["query"] is not None]
    return {name: Counter(tuple(row["events"]) for row in matches if row["query"] == name) for name in SET}


def alone(events: list[Event]) -> dict[str, Counter[Any]]:
    return {name: expected(events, query) for name, query in SET.items()}


def test_a_set_goes_on_where_it_stopped(stream: Stream) -> None:
    """With late events, metrics, what is owed at the end, and what a batch finds."""
    numbers = iter(range(100))
    stream.add(*(some(numbers, begin) for begin in (0, 30)))
    first = stream.run(together(stream))
    assert any(found(first.rows).values())
    stream.add(*(some(numbers, begin) for begin in (34, 60)))
    on_time = stream.events.copy()
    stream.add([LATE])
    other_order = dict(reversed(SET.items()))
    second = stream.run(together(stream, other_order))
    checkpoint = str(stream.folder / "checkpoint")
    rest = end_of_input(stream.read(), SET, checkpoint, order_by="id", events="ids", id="id").collect()
    assert any(found(rest).values())
    assert found(first.rows + second.rows + rest) == alone(on_time)
    table = stream.spark.read.parquet(str(stream.folder / "source")).where("id <> 99")
    batch = match(table, SET, events="ids", id="id", order_by="id")
    assert batch.columns == [name for name in together(stream).columns if name != "late"]
    matches = [row for row in first.rows + second.rows if row["query"] is not None]
    assert Counter(map(str, batch.collect())) == Counter(map(str, [_without_late(row) for row in matches] + rest))
    n = next(row for row in rest + first.rows + second.rows if row["query"] == "measured")
    assert n["measures"] == {"n": "2"}
    assert n["bindings"] == {"a": n["events"]}

    # events of two groups of rows: those with the key, and those without
    assert [row["late"] for row in second.rows if row["late"] is not None] == [99, 99]
    totals = [metrics(p) for run in (first, second) for p in run.progress]
    assert sum(t["late_rows"] for t in totals) == 2
    assert sum(t["matches"] for t in totals) == len(matches)
    assert sum(t["shipped"] for t in totals) == 2 * len(stream.events)
    assert totals[-1]["state_bytes"] > 0


def _without_late(row: Row) -> Row:
    return Row(**{name: value for name, value in row.asDict().items() if name != "late"})


def test_a_set_that_does_not_fit_the_checkpoint_is_refused(stream: Stream) -> None:
    rules = {name: SET[name] for name in ("pair", "silent")}
    stream.add([("A", 0, key, n) for n, key in enumerate("pqrstuvwxyz")], [("Z", 100, "x", 20)])
    stream.run(together(stream, rules))
    stream.add([("B", 110, "x", 30)])
    changed = rules | {"pair": SET["pair"].replace("B AS b", "C AS b"), "measured": SET["measured"]}
    del changed["silent"]
    for result, told in [
        (
            together(stream, changed, strict=True),
            "another set of queries: 'measured' added, 'silent' gone, 'pair' changed; leave out strict=True, or start",
        ),
        (stream.match(SET["pair"]), "made by another query.*silent: SELECT a WHERE"),
    ]:
        with pytest.raises(ceql.DataError, match=f"(?s){told}"), errors():
            stream.run(result)


def test_a_set_that_has_changed_goes_on(stream: Stream) -> None:
    """Unchanged rules keep their states, removed ones are dropped, the others begin behind the watermark."""
    first = {name: SET[name] for name in ("pair", "silent", "joined")}
    second = {
        "keyless": SET["keyless"],
        "joined": "SELECT a[id], b WHERE A AS a ; B AS b FILTER b.id < a.id+9 and a.k=b.k WITHIN 50 MILLISECONDS",
        "pair": SET["pair"].replace("WITHIN 50", "WITHIN 49"),
    }
    numbers = iter(range(200))
    stream.add(*(some(numbers, begin) for begin in (0, 30)))
    before = stream.run(together(stream, first)).rows
    watermark, come = max(event[1] for event in stream.events) - DELAY, len(stream.events)
    stream.add(*(some(numbers, begin) for begin in (36, 60)), [END])
    after = stream.run(together(stream, second)).rows
    behind = [event for event in stream.events if event[1] > watermark]
    assert found(before + after)["joined"] == expected(stream.events, SET["joined"])
    assert found(after)["pair"] == expected(behind, second["pair"])
    # no rule before had its keys, or lack of them, so that no events waited for it
    assert found(after)["keyless"] == expected(stream.events[come:], SET["keyless"])
    assert all(found(after)[name] for name in second)
    assert any(a in {e[3] for e in stream.events if e[1] <= watermark} for a, _ in found(after)["joined"])
    assert not found(after)["silent"]
    # back again: what was removed begins anew
    stream.add([("A", 10**6 + 100, "x", 900)], [("A", 10**6 + 200, "x", 901)])
    back = stream.run(together(stream, first | {"anything": SET["anything"]})).rows
    assert set(found(back)["silent"]) == {(900,)}


def test_columns_that_no_rule_needs_may_change(stream: Stream) -> None:
    narrow = "type string, time timestamp, k string, id int, v int, old string"
    wide = "new double, type string, old double, time timestamp, k string, id long, v long"
    query = {"pair": "SELECT a, b, SUM(a.v) AS s WHERE A AS a ; B AS b FILTER b.v >= a.v PARTITION BY id"}

    def read(schema: str) -> DataFrame:
        files = stream.spark.readStream.schema(schema).json(str(stream.folder / "json"))
        return files.withWatermark("time", "1 millisecond")

    def add(name: str, *events: dict[str, Any]) -> None:
        (stream.folder / "json").mkdir(exist_ok=True)
        (stream.folder / "json" / f"{name}.json").write_text("\n".join(map(json.dumps, events)))

    def at(second: int, **more: Any) -> dict[str, Any]:
        return {"time": f"2024-01-01T00:00:{second:02}Z", "k": "x", **more}

    add("1", *(at(1, type="A", id=id, v=id, old="1.5") for id in range(5)), at(5, type="Z", id=0))
    stream.run(match(read(narrow), query, order_by="id"))
    big = 1 << 40
    add("2", *(at(9, type="B", id=id, v=big, new=0.5) for id in range(5)), at(30, type="Z", id=0))
    rows = stream.run(match(read(wide), query, order_by="id")).rows
    assert sorted(row["id"] for row in rows) == list(range(5))
    (one,) = [row for row in rows if row["id"] == 3]
    assert [event.asDict()["new"] for event in one["events"]] == [None, 0.5]
    assert [event.asDict()["old"] for event in one["events"]] == [1.5, None]
    assert one["events"][1]["v"] == big
    add("3", at(40, type="A", id=1, v="x"))
    text = "SELECT * WHERE A AS a FILTER a[v = 'x'] PARTITION BY id"
    with pytest.raises(ceql.DataError, match=r"column 'v' was int64 .* and is string now"), errors():
        stream.run(match(read(wide.replace("v long", "v string")), {"pair": text}, order_by="id"))
