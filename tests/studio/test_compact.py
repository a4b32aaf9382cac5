"""The compact graph that the page draws: the ways through it are the matches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.studio.served import Studio

STREAM = "ABBXCABCB"
QUERIES = (
    "SELECT * WHERE A ; B+ ; C",
    "SELECT * WHERE A ; (B OR C)+ ; C",
    "SELECT * WHERE A ; B+ ; C CONSUME BY ANY",
    "SELECT a, b WHERE A AS a ; B AS b",
)


def ways(nodes: list[Any], node: int, after: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """The events of each way from a node to the start of a match."""
    own = nodes[node]
    if own["kind"] == "output":
        after = (own["step"], *after)
    if own["kind"] == "bottom":
        return [after]
    return [way for child in own["children"] for way in ways(nodes, child, after)]


@pytest.mark.parametrize("query", QUERIES)
def test_ways_are_matches(studio: Studio, tmp_path: Path, query: str) -> None:
    path = tmp_path / "few.jsonl"
    path.write_text("".join(json.dumps({"type": t, "time": k}) + "\n" for k, t in enumerate(STREAM)))
    run = studio.run(query, studio.tell("/api/data", path=str(path))["id"])
    graph = studio.ask(f"/api/run/{run['id']}/steps/0")["graph"]
    assert graph["note"] is None
    found = [way for step in graph["steps"] for root in step["roots"] for way in ways(graph["nodes"], root)]
    shown = len(graph["steps"])  # the page stops some events after the match
    expected = [
        tuple(event["row"] for event in studio.ask(f"/api/run/{run['id']}/match/{k}")["events"])
        for k in range(run["matches"])
    ]
    assert sorted(found) == sorted(events for events in expected if events[-1] < shown)
    assert found


def test_what_is_not_drawn_is_said(studio: Studio, fraud: str) -> None:
    run = studio.run(fraud, studio.load())
    assert studio.ask(f"/api/run/{run['id']}/steps/0")["graph"]["note"] is None
    data = studio.load()
    compared = "SELECT * WHERE Payment AS a ; Payment AS b FILTER a.amount < b.amount PARTITION BY card LIMIT 1"
    run = studio.run(compared, data)
    graph = studio.ask(f"/api/run/{run['id']}/steps/0")["graph"]
    assert (graph["nodes"], "look-up table" in graph["note"]) == ([], True)
    run = studio.run(compared.replace(";", ":"), data)  # neighbours are compared on the loop that is drawn
    graph = studio.ask(f"/api/run/{run['id']}/steps/0")["graph"]
    assert (len(graph["nodes"]) > 0, graph["note"]) == (True, None)


def test_the_preferred_match_is_drawn_among_all(studio: Studio, tmp_path: Path) -> None:
    path = tmp_path / "few.jsonl"
    path.write_text("".join(json.dumps({"type": t, "time": k}) + "\n" for k, t in enumerate(STREAM)))
    query = "SELECT * WHERE A -> B+? -> C? AFTER MATCH SKIP PAST LAST EVENT"
    run = studio.run(query, studio.tell("/api/data", path=str(path))["id"])
    assert run["matches"] == 2
    steps = studio.ask(f"/api/run/{run['id']}/steps/0")
    assert steps["graph"]["note"] is None
    assert any(event["entered"] for event in steps["events"])
