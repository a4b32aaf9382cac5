"""The examples run, and print what they are there to show."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ceql.cli.app import app
from ceql.cli.demo.show import SAMPLE

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("name", "shown"), [("stream.py", "snapshot of"), ("batch.py", "95,313,873,221,258,632,547")])
def test_scripts(name, shown, capsys):
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert shown in capsys.readouterr().out


def test_every_script_is_run():  # the flights, which need a data set, in test_workloads
    assert {path.name for path in FOLDER.glob("*.py")} == {"stream.py", "batch.py", "flights.py"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ceql")), ids=lambda path: path.name)
def test_queries(path):
    result = CliRunner().invoke(app, ["run", str(path), str(SAMPLE), "--format", "json"])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 7
