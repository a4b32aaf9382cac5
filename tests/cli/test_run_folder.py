"""`ceql run FOLDER`: the queries of a folder in one pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from ceql.cli.app import app

EVENTS = [
    {"type": "A", "v": 1, "k": "x", "time": 1},
    {"type": "B", "v": 3, "k": "x", "time": 2},
    {"type": "B", "v": 1, "k": "y", "time": 3},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "pair.ceql").write_text("SELECT * WHERE A ; B")
    (rules / "big.ceql").write_text("SELECT b, MAX(b.v) AS most WHERE B AS b FILTER b.v > 2 PARTITION BY k")
    (rules / "notes.txt").write_text("no query")
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def test_formats(folder: Path) -> None:
    rules, events = folder / "rules", folder / "events.jsonl"
    shown = run(rules, events)
    assert shown.exit_code == 0
    assert [line.split()[0] for line in shown.output.splitlines() if ".." in line] == ["big", "pair", "pair"]
    lines = [json.loads(line) for line in run(rules, events, "--format", "json").output.splitlines()]
    assert lines[0] == {
        "query": "big", "start": 1, "end": 1, "start_time": 2, "end_time": 2, "k": "x", "events": [1],
        "bindings": {"b": [1]}, "measures": {"most": "3"},
    }  # fmt: skip
    assert [line["query"] for line in lines] == ["big", "pair", "pair"]
    flat = run(rules, events, "--format", "csv").output.splitlines()
    assert flat[0].startswith('"query","start"')
    assert len(flat) == 4
    assert run(rules, events, "-o", folder / "found.parquet").exit_code == 0
    assert pq.read_table(folder / "found.parquet").column("query").to_pylist() == ["big", "pair", "pair"]
    assert run(rules, events, "--count").output == "1\tbig\n2\tpair\n"
    assert len(run(rules, events, "--format", "json", "--limit-output", 2).output.splitlines()) == 2


def test_a_pipe_is_read_as_it_comes(folder: Path) -> None:
    text = (folder / "events.jsonl").read_text()
    command = [sys.executable, "-m", "ceql", "run", str(folder / "rules"), "--format", "json"]
    lines = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [json.loads(line)["query"] for line in lines] == ["big", "pair", "pair"]


def test_what_does_not_go(folder: Path) -> None:
    events = folder / "events.jsonl"
    nothing = run(folder, events)
    assert (nothing.exit_code, "has no queries" in nothing.output) == (2, True)
    assert "--events goes with one query" in run(folder / "rules", events, "--events").output
    (folder / "rules" / "wrong.ceql").write_text("SELECT * WERE A")
    wrong = run(folder / "rules", events)
    assert wrong.exit_code == 2
    assert "query 'wrong'" in wrong.output
