"""Metrics by rule: in the progress, and as Prometheus reads them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from ceql.spark import match, metrics_by_rule, serve_metrics
from test_restart import DELAY, END, QUERY, Stream, some

SET = {
    "pair": QUERY,
    'odd "name"\\': "SELECT b, a WHERE B AS b ; A AS a PARTITION BY k WITHIN 60 MILLISECONDS",
    "never": "SELECT * WHERE C ; D PARTITION BY k WITHIN 20 MILLISECONDS",
}
ROOT = Path(__file__).parents[2]
DASHBOARD, DOCS = ROOT / "examples" / "pipeline" / "dashboard.json", ROOT / "docs"


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


def test_what_makes_no_sense_is_counted_by_rule(spark: SparkSession, tmp_path: Path) -> None:
    """An event without a time is counted for each rule that would have read it, in buckets that are new as well."""
    stream = Stream(spark, tmp_path)
    stream.add([("A", 0, "x", 1), ("B", 5, "x", 2), ("C", 6, "y", 3), ("E", 7, "z", 4)], [END])
    source = spark.readStream.schema("type string, time timestamp, k string, id long")
    events = source.parquet(str(tmp_path / "source"))
    timeless = events.selectExpr("type", "if(id IN (1, 3, 4), NULL, time) AS time", "k", "id")
    timeless = timeless.withWatermark("time", f"{DELAY} milliseconds")
    rules = {**SET, "neighbours": "SELECT * WHERE A AS a : B AS b FILTER b.id > a.id PARTITION BY k"}
    (tmp_path / "rules").mkdir()
    rows = [json.dumps({"name": name, "text": text}) for name, text in rules.items()]
    (tmp_path / "rules" / "0.json").write_text("\n".join(rows))
    ways: dict[str, Any] = {
        "set": match(timeless, rules, order_by="id"),
        "stream of rules": match(timeless, rules=str(tmp_path / "rules"), keys="k", order_by="id"),
    }
    for name, found in ways.items():
        counted: Counter[str] = Counter()
        for progress in stream.run(found, name).progress:
            counted.update({rule: own["rejected"] for rule, own in metrics_by_rule(progress).items()})
        of_neighbours = counted.pop("neighbours")
        assert +counted == {"pair": 1, 'odd "name"\\': 1, "never": 1}, name
        assert of_neighbours >= 1, "what it asks of neighbours cannot be told"


def test_all_that_the_dashboard_and_the_manual_ask_for_is_there(spark: SparkSession, tmp_path: Path) -> None:
    """Each selector of an expression is a sample of the page: its name, its labels, a counter where it is a rate."""
    stream = Stream(spark, tmp_path)
    stream.add(some(iter(range(50)), 0, count=20), [END])
    served = serve_metrics(spark, 0)
    try:
        run = stream.run(match(stream.read(), SET, order_by="id", buckets=3, suppress="1 per hour"))
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        kafka = [{"metrics": {"maxOffsetsBehindLatest": "12"}}]  # as its source reports
        served.take(json.loads(run.progress[-1].json) | {"sources": kafka})
        kinds, labels = exposed(page(served.port))
    finally:
        served.stop()
    assert all(labels.values()), labels
    dashboard, asked = json.loads(DASHBOARD.read_text()), set[str]()
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for target in targets:
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        for name, matched, rated in selectors(target["expr"]):
            assert matched | shown <= labels[name], target
            assert rated == (kinds[name] == "counter"), target
            asked.add(name)
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    for one in variables.values():
        if one["type"] == "query":
            selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"]).groups()  # type: ignore[union-attr]
            ((name, matched, _),) = selectors(selector)
            assert matched | {label} <= labels[name], one
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard)))
    assert used <= variables.keys() | {"__all"}, "a variable that is not defined"
    for expression in re.findall(r"`([^`]*ceql_[^`]*)`", (DOCS / "operations.md").read_text()):
        for name, _, rated in selectors(expression):
            assert rated <= (kinds[name] == "counter"), expression
            asked.add(name)
    assert asked == kinds.keys(), "what nobody looks at"


def selectors(expression: str) -> list[tuple[str, set[str], bool]]:
    """The metrics of a PromQL expression, the labels that are matched, and whether a rate is taken."""
    found = re.findall(r"(rate\()?(?<!\$)\b(ceql_\w+)(?:\{([^}]*)\})?(\[\w+\])?", expression)
    assert found, expression
    for rate, _, _, over in found:
        assert bool(rate) == bool(over), expression
    return [(name, set(re.findall(r"(\w+)=~?\"", inner)), bool(rate)) for rate, name, inner, _ in found]


def exposed(text: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The kinds of metrics of a page in Prometheus' format, and the labels of their samples."""
    kinds, labels, helped = dict[str, str](), dict[str, set[str]](), set[str]()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kinds[name] = line.split(" ")
            labels[name] = set()
        else:
            sample = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\S+)', line)
            assert sample is not None, line
            labels[sample[1]] |= set(re.findall(r'(\w+)="', sample[2]))
            float(sample[3])
    assert helped == kinds.keys()
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())
    return kinds, labels


def page(port: int, path: str = "/metrics") -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        return str(answer.read().decode())


def sizes(text: str, name: str) -> dict[str, int]:
    found = re.findall(rf'^ceql_rule_{name}\{{query="[^"]+",rule="(.*)"\}} (\d+)$', text, re.MULTILINE)
    return {rule: int(value) for rule, value in found if value != "0"}
