"""`ceql new`: a query to begin with. `--why` and the summary: what a run says besides its matches."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

from ceql.cli.app import app
from ceql.cli.demo.show import SAMPLE


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_as_told(text: str) -> Any:
    """What the line `Run it` of a query gives."""
    (told,) = [line for line in text.splitlines() if line.startswith("-- Run it:")]
    _, _, *arguments = shlex.split(told.removeprefix("-- Run it:"))
    return call("run", *arguments, "--format", "json")


def test_the_example_of_a_new_query_has_matches(here: Path) -> None:
    told = call("new", SAMPLE)
    assert told.exit_code == 0, told.output
    text = (here / "payments.ceql").read_text()
    assert "Payment (17,633), Withdrawal (2,367)" in text
    assert "2024-05-17 02:26:49 .. 2024-05-17 23:59:56" in text
    assert "PARTITION BY card" in text
    found = run_as_told(text)
    assert found.exit_code == 0
    assert f"{len(found.stdout.splitlines()):,} matches in 20,000 events" in told.stderr


def test_a_file_is_never_written_over(here: Path) -> None:
    (here / "payments.ceql").write_text("mine")
    told = call("new", SAMPLE)
    assert (told.exit_code, (here / "payments.ceql").read_text()) == (2, "mine")
    assert "is there already: name another file with -o" in told.stderr


@pytest.mark.parametrize(
    "table",
    [
        {"Kind": ["a b", "c", "a b"], "paid_at": ["2024-01-01T00:00:00", "2024-01-01T00:01:00", "2024-01-02T00:00:00"]},
        {"ts": [1, 2, 3, 4], "user": ["x", "y", "x", "y"], "v": [1.5, None, 2.5, 0.0]},
        {"value": [1, 2, 3]},
        {"type": ["only"], "note": ["it's one"]},
        {"type": ["A", "B"], "user": [{"id": 1}, {"id": 2}], "many": [[1], [2]], "select": [True, None]},
    ],
)
def test_every_kind_of_file_gets_a_query_that_runs(here: Path, table: dict[str, list[Any]]) -> None:
    parquet.write_table(pa.table(table), here / "my.parquet")
    told = call("new", "my.parquet", "-o", "q.ceql")
    assert told.exit_code == 0, told.output
    found = run_as_told((here / "q.ceql").read_text())
    assert found.exit_code == 0, found.output
    assert found.stdout


def test_a_new_query_is_printed(here: Path) -> None:
    csv.write_csv(pa.table({"type": ["A", "B"], "time": [1, 2]}), here / "e.csv")
    told = call("new", "e.csv", "-o", "-")
    assert told.stdout.endswith("WITHIN 100 EVENTS\n")
    assert "WHERE A AS a -> B AS b" in told.stdout
    assert os.listdir() == ["e.csv"]


@pytest.mark.parametrize("arguments", [["--time", "nope"], ["--type", "nope"]])
def test_a_column_that_is_not_there_is_named(here: Path, arguments: list[str]) -> None:
    told = call("new", SAMPLE, *arguments)
    assert (told.exit_code, "no column 'nope'" in told.stderr) == (2, True)


# --- why, and what a run says on a terminal ---

NEVER = "SELECT * WHERE Payment AS p FILTER p[amount > 99999]"


@pytest.mark.parametrize("more", [[], ["--count"], ["--format", "json"]])
def test_why_says_why_apart_from_the_result(more: list[str]) -> None:
    told = call("run", NEVER, SAMPLE, "--why", *more)
    assert told.exit_code == 1
    assert "'amount > 99999' is false for all 17,633 events" in told.stderr
    assert told.stdout == ("0\n" if more == ["--count"] else "")
    assert call("run", NEVER, SAMPLE, *more).stderr == ""


def test_why_is_silent_where_there_are_matches() -> None:
    told = call("run", "SELECT * WHERE Payment AS p FILTER p[amount > 1000]", SAMPLE, "--why", "--count")
    assert (told.exit_code, told.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([NEVER, "-", "--why"], "--why reads the events again"),
        ([NEVER, str(SAMPLE), "--why", "--episodes", "1 minute"], "--why goes with matches"),
        ([NEVER, str(SAMPLE), "--why", "--spark"], "--why does not go with --spark"),
    ],
)
def test_why_is_refused_where_it_could_say_nothing(arguments: list[str], said: str) -> None:
    told = call("run", *arguments)
    assert (told.exit_code, said in told.stderr) == (2, True)


def on_a_terminal(*arguments: object) -> tuple[str, str]:
    """What a command prints to a file, and on the terminal that its messages go to."""
    screen, its_end = pty.openpty()
    command = [sys.executable, "-c", "import ceql.cli; ceql.cli.main()", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=its_end) as process:
        os.close(its_end)
        out, shown = process.communicate(timeout=120)[0].decode(), b""
        while True:
            try:
                shown += os.read(screen, 1 << 16)
            except OSError:  # the other end is closed
                break
    os.close(screen)
    return out, shown.decode()


def test_a_run_ends_with_what_it_read_and_found() -> None:
    query = "SELECT * WHERE Payment AS p FILTER p[amount > 1000]"
    out, shown = on_a_terminal("run", query, SAMPLE, "--format", "json", "--limit-output", 2)
    assert len([json.loads(line) for line in out.splitlines()]) == 2
    assert "20,000 events in " in shown
    assert " a second), the first 2 matches" in shown
    out, shown = on_a_terminal("run", query, SAMPLE, "--count", "--no-progress")
    assert (int(out) > 0, shown) == (True, "")
    out, shown = on_a_terminal("run", NEVER, SAMPLE)
    assert "no match was found; --why says why" in shown
