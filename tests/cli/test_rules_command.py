"""`ceql rules`: a folder of rules as a team keeps it, checked as its CI does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ceql.cli.app import app

GOOD = """-- severity: high
-- owner: payments
-- tags: card, theft
-- version: 3
SELECT a, b, b.v - a.v AS d WHERE A AS a ; B AS b FILTER b.v > a.v WITHIN 1 HOUR
"""
EVENTS = [
    {"type": kind, "time": f"2024-01-01T00:0{k}:00", "v": v, "id": f"e{k}"}
    for k, (kind, v) in enumerate([("A", "1"), ("B", "0"), ("B", "5")])
]
YAML = """
name: pairs
severity: low
text: SELECT * WHERE A ; A
tests:
  - name: two
    events:
      - {type: A, time: 2024-01-01T00:00:00}
      - {type: A, time: 2024-01-01T00:00:01}
    matches: [[0, 1]]
  - {events: pairs.csv, count: 3, time_unit: s}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    events = [{**event, "v": int(event["v"])} for event in EVENTS]
    (tmp_path / "rise.ceql").write_text(GOOD)
    tests = [
        {"name": "by number", "events": events, "matches": [[0, 2]]},
        {"name": "by id", "events": events, "matches": [["e0", "e2"]], "id": "id"},
        {"name": "by variable", "events": events, "matches": [{"a": 0, "b": [2], "d": 4}], "count": 1},
        {"name": "no B, and no word about it", "events": events[:1], "count": 0},
    ]
    (tmp_path / "rise.tests.json").write_text(json.dumps(tests))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "pairs.yaml").write_text(YAML)
    (tmp_path / "more" / "pairs.csv").write_text("type,time\nA,1\nA,2\nA,3\n")
    return tmp_path


def ceql(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_good_rules_pass(folder: Path) -> None:
    result = ceql("rules", "check", folder, "--require", "severity", "--tested")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "ok   pairs (low): 2 tests",
        "ok   rise (high, payments): 4 tests",
        "2 rules, 6 tests: none failed",
    ]


def test_what_is_wrong_is_told(folder: Path) -> None:
    (folder / "wrong.ceql").write_text("SELECT * WHERE A (")
    (folder / "rise2.ceql").write_text("-- name: rise\nSELECT * WHERE A")
    (folder / "odd.yaml").write_text("text: SELECT * WHERE A\nseverty: high")
    (folder / "no.yaml").write_text("text: [")
    (folder / "owned.ceql").write_text("-- ownr: x\nSELECT * WHERE A")
    (folder / "when.ceql").write_text("-- valid_from: 2024-05-01 12:00\nSELECT * WHERE A")
    (folder / "maybe.yaml").write_text("text: SELECT * WHERE A\nenabled: 'no'")
    unknown = [{"events": [{"type": "A"}], "matches": [{"aa": 0}]}]
    (folder / "off.yaml").write_text(
        json.dumps({"text": "SELECT a WHERE A AS a", "owner": "x", "enabled": False, "tests": unknown})
    )
    (folder / "never.ceql").write_text("-- owner: x\nSELECT * WHERE A+ AS x FILTER x[v > PREV.v]")
    (folder / "cold.ceql").write_text("-- owner: x\nSELECT * WHERE A ; B")
    tests = [{"events": [{"type": "A"}, {"type": "B"}, {"type": "B"}], "matches": [[0, 1], [1, 2]], "count": 3}]
    tests.append({"events": [{"type": "A"}, {"type": "b"}], "count": 1})
    (folder / "cold.tests.json").write_text(json.dumps(tests))
    result = ceql("rules", "check", folder, "--require", "owner")
    assert result.exit_code == 2
    for told in (
        "odd.yaml: a rule has no 'severty'. Did you mean 'severity'?",
        "no.yaml: it is no YAML",
        "FAIL wrong",
        "there are 2 rules of this name",
        "it does not say its owner",
        "test 1: it finds 2, and 3 are expected",
        "test 1: missing: [1, 2]",
        "test 1: not expected: [0, 2]",
        "owned.ceql: a rule has no 'ownr'. Did you mean 'owner'?",
        "when.ceql: valid_from is a time with its zone, such as 2024-05-01T12:00:00Z, not '2024-05-01 12:00'",
        "maybe.yaml: enabled is true or false, not 'no'",
        "FAIL off (x, off)",
        "test 1: its matches have no variable or measure 'aa'",
        "the query can never match: PREV is NULL on the first event",
        "test 2: no event has the type 'B'",
        "12 rules, 9 tests: 12 failed",
    ):
        assert told in result.output, result.output


def test_rules_as_rows(folder: Path) -> None:
    result = ceql("rules", "rows", folder, "--valid-from", "2024-01-01T00:00:00Z")
    assert result.exit_code == 0
    pairs, rise = map(json.loads, result.output.splitlines())
    assert pairs == {
        "name": "pairs",
        "text": "SELECT * WHERE A ; A",
        "enabled": True,
        "valid_from": "2024-01-01T00:00:00Z",
    }
    assert (rise["version"], rise["text"]) == ("3", GOOD)
    assert ceql("rules", "rows", folder, "--valid-from", "2024-01-01").exit_code == 2
    (folder / "wrong.ceql").write_text("SELECT")
    assert ceql("rules", "rows", folder).exit_code == 2
    (folder / "wrong.ceql").write_text("-- name: rise\nSELECT * WHERE A")
    result = ceql("rules", "rows", folder)
    assert result.exit_code == 2
    assert "there are 2 rules of this name" in result.output


def test_folders_that_are_none(tmp_path: Path) -> None:
    assert ceql("rules", "check", tmp_path).exit_code == 2
    assert ceql("rules", "check", tmp_path / "nowhere").exit_code == 2
