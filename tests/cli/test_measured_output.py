"""The command shows measures in every format; durations as people read them, in JSON and CSV in ISO 8601."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from pathlib import Path

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from ceql.cli.app import app

QUERY = "SELECT COUNT(b) AS n, AVG(b.v) AS mean, DURATION WHERE A AS a ; B+ AS b FILTER COUNT(b) >= 2"
EVENTS = [("A", "08:00:00", 1), ("B", "08:05:00", 2), ("B", "08:06:30", 5)]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    rows = [{"type": kind, "time": f"2026-01-01T{time}", "v": v} for kind, time, v in EVENTS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def written(events: Path, name: str) -> Path:
    out = events.parent / name
    done = CliRunner().invoke(app, ["run", QUERY, str(events), "-o", str(out)])
    assert done.exit_code == 0, done.output
    return out


def test_json_has_durations_in_iso_8601(events: Path) -> None:
    (match,) = [json.loads(line) for line in written(events, "out.jsonl").read_text().splitlines()]
    assert (match["n"], match["mean"], match["DURATION"]) == (2, 3.5, "PT6M30S")


def test_csv_has_them_too(events: Path) -> None:
    with written(events, "out.csv").open() as file:
        (match,) = csv.DictReader(file)
    assert (match["n"], match["mean"], match["DURATION"]) == ("2", "3.5", "PT6M30S")


def test_a_table_shows_durations_to_people(events: Path) -> None:
    lines = written(events, "out.txt").read_text()
    assert "6 min 30 s" in lines
    assert "n" in lines.split()
    assert "mean" in lines.split()


def test_parquet_has_types(events: Path) -> None:
    table = parquet.read_table(written(events, "out.parquet"))
    assert table.column("DURATION").to_pylist() == [timedelta(minutes=6, seconds=30)]
    assert table.column("n").to_pylist() == [2]
