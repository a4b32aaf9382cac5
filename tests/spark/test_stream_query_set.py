"""Many queries over one stream: the matches of each are those that it finds by itself, from a checkpoint as well."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import ceql
from ceql.spark import end_of_input, errors, match, metrics
from test_restart import Event, Stream, expected, some

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
        (together(stream, changed), "another set of queries: 'measured' added, 'silent' gone, 'pair' changed; start"),
        (stream.match(SET["pair"]), "made by another query.*silent: SELECT a WHERE"),
    ]:
        with pytest.raises(ceql.DataError, match=f"(?s){told}"), errors():
            stream.run(result)
