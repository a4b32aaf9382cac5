"""What the studio exports as Python and as commands runs as it is; `tests/spark/test_studio_export.py` runs PySpark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv
from tests.studio.served import Studio

QUOTED = """SELECT * WHERE A AS a ; B
FILTER a[who = 'it''s \\ "me"']"""


def in_python(code: str) -> int:
    scope: dict[str, Any] = {"print": lambda _: None}
    exec(code, scope)
    return int(scope["matches"].count())


def in_shell(code: str, folder: Path) -> int:
    """How many matches the exported command prints."""
    command = folder / "ceql"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ceql "$@" --format json\n')
    command.chmod(0o700)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return len(done.stdout.splitlines())


def test_the_example(studio: Studio, fraud: str, tmp_path: Path) -> None:
    code = studio.tell("/api/code", query=fraud, data=studio.load())
    assert in_python(code["python"]) == 7
    assert in_shell(code["cli"], tmp_path) == 7


@pytest.mark.parametrize("name", ["e.csv", "the 'events' of $HOME", "a=b.csv"])
def test_odd_names_and_texts(studio: Studio, tmp_path: Path, name: str) -> None:
    table = pa.table({"type": ["A", "A", "B"], "time": [1, 2, 3], "who": ['it\'s \\ "me"', "else", "x"]})
    csv.write_csv(table, tmp_path / name)
    data = studio.tell("/api/data", path=str(tmp_path / name))["id"]
    assert studio.run(QUOTED, data)["matches"] == 1
    code = studio.tell("/api/code", query=QUOTED, data=data)
    assert in_python(code["python"]) == 1
    assert in_shell(code["cli"], tmp_path) == 1


@pytest.mark.parametrize("asked", [{"type": "what", "time": "at", "unit": "ms"}, {"type": "what"}])
def test_other_columns(studio: Studio, tmp_path: Path, asked: dict[str, str]) -> None:
    csv.write_csv(pa.table({"what": ["A", "B"], "at": [1000, 2000], "type": [1, 2]}), tmp_path / "e.csv")
    data = studio.tell("/api/data", path=str(tmp_path / "e.csv"), **asked)["id"]
    query = "SELECT * WHERE A ; B WITHIN 2 EVENTS"
    assert studio.run(query, data)["matches"] == 1
    code = studio.tell("/api/code", query=query, data=data)
    assert in_python(code["python"]) == 1
    assert in_shell(code["cli"], tmp_path) == 1
