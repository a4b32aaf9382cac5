"""Metrics by rule: in the progress, and as Prometheus reads them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from ceql.spark import match, metrics_by_rule, serve_metrics
from test_restart import END, QUERY, Stream, some

SET = {
    "pair": QUERY,
    'odd "name"\\': "SELECT b, a WHERE B AS b ; A AS a PARTITION BY k WITHIN 60 MILLISECONDS",
    "never": "SELECT * WHERE C ; D PARTITION BY k WITHIN 20 MILLISECONDS",
}
DASHBOARD = Path(__file__).parents[2] / "examples" / "pipeline" / "dashboard.json"


def test_what_each_rule_did(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    numbers = iter(range(200))
    stream.add(*(some(numbers, begin) for begin in (0, 30, 60)))
    served = serve_metrics(spark, 0)
    try:
        first = stream.run(match(stream.read(), SET, order_by="id", events="ids", id="id", buckets=3))
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        held = page(served.port)
        stream.add([END])
        second = stream.run(match(stream.read(), SET, order_by="id", events="ids", id="id", buckets=3))
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        text = page(served.port)
        with pytest.raises(HTTPError, match="404"):
            page(served.port, "/other")
    finally:
        served.stop()
    found = Counter(row["query"] for row in first.rows + second.rows)
    assert min(found[name] for name in SET if name != "never") > 0
    reported: Counter[str] = Counter()
    for progress in [*first.progress, *second.progress]:
        reported.update({name: own["matches"] for name, own in metrics_by_rule(progress).items()})
        assert "never" not in metrics_by_rule(progress)
    assert +reported == found
    shown = dict(re.findall(r'ceql_rule_matches_total\{query="[^"]+",rule="(.*)"\} (\d+)', text))
    assert {name.replace('\\"', '"').replace("\\\\", "\\"): int(n) for name, n in shown.items()} == found
    assert sizes(held, "partial")["pair"] > 0
    assert sizes(held, "state_bytes")["pair"] > 0
    assert sizes(text, "partial") == {}, "the window has left everything"
    assert re.search(rf"ceql_query_rows_total\{{.*\}} {len(stream.events)}\n", text)
    names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = {name for panel in panels for name in re.findall(r"ceql_\w+", panel["targets"][0]["expr"])}
    assert asked == names - {"ceql_query_batches_total"}


def page(port: int, path: str = "/metrics") -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        return str(answer.read().decode())


def sizes(text: str, name: str) -> dict[str, int]:
    found = re.findall(rf'^ceql_rule_{name}\{{query="[^"]+",rule="(.*)"\}} (\d+)$', text, re.MULTILINE)
    return {rule: int(value) for rule, value in found if value != "0"}
