"""Requests that make no sense are refused with a sentence (HTTP 400), and never are an error of the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.studio.served import Studio

QUERY = "SELECT * WHERE Payment ; Withdrawal"
ODD = (True, 0, 1.5, float("nan"), [], [1], {}, {"a": None})
TELLING = ("/api/data", "/api/check", "/api/run", "/api/explain", "/api/diagnose", "/api/automaton", "/api/code")


def post(studio: Studio, path: str, body: bytes) -> tuple[int, str]:
    answer = studio.send("POST", path, body, {"content-type": "application/json"})
    return answer.status, answer.json().get("problem", "")


@pytest.mark.parametrize("name", ["data", "query"])
@pytest.mark.parametrize("path", TELLING[1:])
def test_what_is_no_text_is_refused_by_its_name(studio: Studio, path: str, name: str) -> None:
    if path == "/api/automaton" and name == "data":
        pytest.skip("the automaton is that of the query alone")
    for value in ODD:
        body = {"query": QUERY, "data": None, name: value}
        assert post(studio, path, json.dumps(body).encode()) == (400, f"'{name}' must be text"), value


@pytest.mark.parametrize("name", ["add", "stream", "type", "time", "unit", "path", "example"])
def test_what_is_no_text_loads_nothing(studio: Studio, name: str) -> None:
    for value in ODD:
        body = {"example": "fraud"} if name not in ("path", "example") else {}
        assert studio.tell("/api/data", 400, **body | {name: value})["problem"] == f"'{name}' must be text", value


@pytest.mark.parametrize("streams", [[], "Door", {"Door": None}, {"Door": {}}])
def test_streams_are_paths_by_their_names(studio: Studio, streams: Any) -> None:
    assert "'streams' must" in studio.tell("/api/data", 400, streams=streams)["problem"]


@pytest.mark.parametrize("path", TELLING)
@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"data":' * 100_000, b'{"query": "\\ud800"}', b'{"path": "\\ud800"}', b"\xff", b"", b"null"],
    ids=["deep list", "deep object", "half a character", "half of a path", "no text", "nothing", "null"],
)
def test_what_is_no_json_object_of_text_is_refused(studio: Studio, path: str, body: bytes) -> None:
    assert post(studio, path, body) == (400, "a JSON object is expected")


def test_another_unit_of_time_is_refused(studio: Studio) -> None:
    said = "the unit of times must be one of s, ms, us, ns, not 'zz'"
    assert studio.tell("/api/data", 400, example="fraud", unit="zz")["problem"] == said
    answer = studio.send("POST", "/api/upload", b"type,time\nA,1\n", name="e.csv", unit="zz")
    assert (answer.status, answer.json()["problem"]) == (400, said)


@pytest.mark.parametrize("name", ["e." + "x" * 5000, "e.\0", "x" * 5000 + ".csv", "", "..", "e.csv\n", "e.a.b.c.d"])
def test_any_name_of_an_upload_is_fine(studio: Studio, name: str) -> None:
    answer = studio.upload(name, b"type,time\nA,1\n")
    assert (answer.status, answer.json().get("rows")) == (200, 1), answer.content


@pytest.fixture
def run(studio: Studio, tmp_path: Path) -> str:
    """A run whose matches are drawn as a histogram."""
    table = pa.table({"type": ["A", "B"] * 100, "time": range(200), "k": [0] * 200})
    parquet.write_table(table, tmp_path / "e.parquet")
    data = studio.tell("/api/data", path=str(tmp_path / "e.parquet"))["id"]
    return str(studio.run("SELECT * WHERE A ; B PARTITION BY k WITHIN 9 EVENTS", data)["id"])


NUMBERS = ("nan", "inf", "-inf", "1e400", "1e308", "-1e308", "9" * 30, "9" * 5000, "-1", "x", "", "²")


@pytest.mark.parametrize("name", ["low", "high", "width", "first", "count", "by"])
def test_odd_numbers_are_answered(studio: Studio, run: str, name: str) -> None:
    for value in NUMBERS:
        for path in (f"/api/run/{run}/lanes", f"/api/run/{run}/matches", "/api/overview"):
            given: dict[str, Any] = {"run": run, name: value}
            answer = studio.get(path, **given)
            assert answer.status == 200, (path, value, answer.content)
            assert len(answer.content) < 100_000


@pytest.mark.parametrize("number", [*NUMBERS, "1e3", "1000000"])
@pytest.mark.parametrize("view", ["match", "steps"])
def test_matches_that_are_not_there(studio: Studio, run: str, view: str, number: str) -> None:
    assert studio.get(f"/api/run/{run}/{view}/{quote(number)}").status in (404, 410)
