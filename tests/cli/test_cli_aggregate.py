"""`ceql run --aggregate`: totals for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from ceql.cli.app import app

QUERY = "SELECT * WHERE A AS a ; B+ AS b PARTITION BY k"
LINES = """type,time,k,v
A,2026-01-01T00:00:00,1,5
B,2026-01-01T00:00:10,1,7
B,2026-01-01T00:00:20,2,8
B,2026-01-01T00:01:20,1,9
"""


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text(LINES)
    return path


def call(*arguments: object):
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def test_a_table_for_people(events: Path) -> None:
    done = call(
        QUERY, events, "--aggregate", "n=COUNT(*)", "--aggregate", "SUM(b.v)", "--by", "k", "--every", "1 minute"
    )
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "k  bucket               n  SUM(b.v)",
        "1  2026-01-01 00:00:00  1         7",
        "1  2026-01-01 00:01:00  2        25",
    ]


def test_files_and_json(events: Path, tmp_path: Path) -> None:
    asked = ["--aggregate", "n=COUNT(*)", "--aggregate", "mean=AVG(b.v)"]
    done = call(QUERY, events, *asked, "--format", "json")
    assert json.loads(done.stdout) == {"n": 3, "mean": 8.0}
    assert call(QUERY, events, *asked, "-o", tmp_path / "out.parquet").exit_code == 0
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == [{"n": 3, "mean": 8.0}]
    assert call(QUERY, events, *asked, "--format", "csv").stdout.splitlines() == ['"n","mean"', "3,8"]


def test_nothing_matches(events: Path) -> None:
    done = call("SELECT * WHERE B AS b ; A AS a", events, "--aggregate", "n=COUNT(*)", "--format", "json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, {"n": 0})


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--by", "k"], 2, "--by needs --aggregate"),
        (["--aggregate", "n=COUNT(*)", "--count"], 2, "--aggregate prints totals"),
        (["--aggregate", "n=COUNT(*)", "--aggregate", "n=COUNT(b)"], 2, "two columns 'n'"),
        (["--aggregate", "n=SUM(b.w)"], 3, "no column 'w'"),
        (["--aggregate", "n=SUMM(b.v)"], 2, "Did you mean 'SUM'?"),
        (["--aggregate", "n=COUNT(*)", "--every", "5"], 2, "give it as --every '1 minute'"),
        (["--aggregate", "n=COUNT(*)", "--every", "1 minuet"], 2, "--every: not a duration"),
        (["--aggregate", "n=COUNT(*)", "--by", "w"], 3, "--by names 'w'"),
    ],
)
def test_errors(events: Path, arguments: list[str], code: int, message: str) -> None:
    done = call(QUERY, events, *arguments)
    assert message in done.stderr
    assert done.exit_code == code


def test_episodes(events: Path) -> None:
    done = call(QUERY, events, "--episodes", "5 minutes", "--format", "json")
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (done.exit_code, row["k"], row["matches"], row["events"]) == (0, 1, 3, 3)
    assert call("SELECT * WHERE B AS b ; A AS a", events, "--episodes", "1 minute").exit_code == 1
    apart = call("SELECT * WHERE B AS b", events, "--episodes", "30 seconds").stdout.splitlines()
    assert [line.split()[-2:] for line in apart] == [["matches", "events"], ["2", "2"], ["1", "1"]]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--episodes", "1 minute", "--count"], 2, "--episodes prints a row for each episode"),
        (["--episodes", "soon"], 2, "--episodes: not a duration"),
        (["--episodes", "5"], 2, "--episodes is a duration"),
    ],
)
def test_errors_of_episodes(events: Path, arguments: list[str], code: int, message: str) -> None:
    done = call(QUERY, events, *arguments)
    assert message in done.stderr
    assert done.exit_code == code
