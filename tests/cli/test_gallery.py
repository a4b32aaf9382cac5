"""The stories of the gallery: notebooks have the code and the outputs of their scripts. `make examples` runs all."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from typing import Any

import pytest

import notebooks

ROOT = Path(__file__).parents[2]
STORIES = sorted(path.stem for path in notebooks.STORIES.glob("*.py"))
ON_SPARK = {name for name in STORIES if "ceql.spark" in (notebooks.STORIES / f"{name}.py").read_text()}
ALL = os.environ.get("CEQL_EXAMPLES") == "all"
LARGEST = 300_000  # bytes of a notebook


def notebook(name: str) -> Any:
    return json.loads((notebooks.STORIES / f"{name}.ipynb").read_text())


def printed(name: str) -> str:
    """What the cells of a notebook have printed."""
    outputs = [output for cell in notebook(name)["cells"] for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output["output_type"] == "error"]
    return "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")


def test_there_are_eight_and_three_are_on_spark() -> None:
    assert (len(STORIES), len(ON_SPARK)) == (8, 3)
    assert [name for name in STORIES if "readStream" in (notebooks.STORIES / f"{name}.py").read_text()]


@pytest.mark.parametrize("name", STORIES)
def test_notebooks_have_the_cells_of_their_scripts(name: str) -> None:
    own = [notebooks.Cell(cell["cell_type"], "".join(cell["source"])) for cell in notebook(name)["cells"]]
    assert own == notebooks.cells((notebooks.STORIES / f"{name}.py").read_text()), f"make notebooks STORIES={name}"
    assert (notebooks.STORIES / f"{name}.ipynb").stat().st_size < LARGEST
    shown = [output for cell in notebook(name)["cells"] for output in cell.get("outputs", []) if "data" in output]
    assert any("<svg" in "".join(output["data"].get("text/html", "")) for output in shown)
    assert f"gallery/{name}.svg" in (ROOT / "docs/gallery.md").read_text()
    assert (ROOT / f"docs/gallery/{name}.svg").read_text().startswith("<svg")


@pytest.mark.filterwarnings("default")  # as a user would run it
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(name in ON_SPARK and not ALL, reason="it starts Spark: make examples")
        )
        for name in STORIES
    ],
)
def test_stories_print_what_their_notebooks_show(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(notebooks.STORIES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == printed(name)
