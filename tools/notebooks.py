"""`make notebooks`: the stories of examples/gallery as notebooks with their outputs, and a picture of each.

`python tools/notebooks.py [NAME ...]`, by default all. A story is a script whose cells begin with `# %%`, or with
`# %% [markdown]` for text. The notebook has the same cells, run one after the other; the last timeline that it shows
becomes docs/gallery/NAME.svg.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
STORIES = ROOT / "examples/gallery"
PICTURES = ROOT / "docs/gallery"
_BORDER = re.compile(r"^# %%(?P<text> \[markdown\])?\n", re.MULTILINE)
_TIMELINE = re.compile(r"^\S.*\.timeline\(\d*\)$")


class Cell(NamedTuple):
    """A cell of a story."""

    kind: str
    """`markdown` or `code`."""
    source: str


def cells(script: str) -> list[Cell]:
    """The cells of a script; what comes before the first one is for those who read the file.

    >>> cells("'''A story.'''\\n\\n# %% [markdown]\\n# # Title\\n# Text.\\n\\n# %%\\nprint(1)\\n")
    [Cell(kind='markdown', source='# Title\\nText.'), Cell(kind='code', source='print(1)')]
    """
    borders = list(_BORDER.finditer(script))
    found = []
    for border, after in zip(borders, [*borders[1:], None], strict=True):
        source = script[border.end() : after.start() if after is not None else None].strip("\n")
        if border["text"]:
            lines = (line.removeprefix("#").removeprefix(" ") for line in source.split("\n"))
            found.append(Cell("markdown", "\n".join(lines)))
        else:
            found.append(Cell("code", source))
    return found


def run(name: str) -> None:
    """Write the notebook and the picture of a story."""
    import nbformat
    from nbclient import NotebookClient

    own = cells((STORIES / f"{name}.py").read_text())
    made = []
    for cell in own:
        if cell.kind == "markdown":
            made.append(nbformat.v4.new_markdown_cell(cell.source))
            continue
        made.append(nbformat.v4.new_code_cell(cell.source))
        last = cell.source.rpartition("\n")[2]
        if _TIMELINE.match(last):
            made.append(nbformat.v4.new_code_cell(f"print(({last}).to_svg())", metadata={"picture": True}))
    notebook = nbformat.v4.new_notebook(cells=made)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    for cell in notebook.cells:
        if "picture" in cell.metadata:
            PICTURES.mkdir(exist_ok=True)
            (PICTURES / f"{name}.svg").write_text("".join(output.get("text", "") for output in cell.outputs))
    notebook.cells = [cell for cell in notebook.cells if "picture" not in cell.metadata]
    (STORIES / f"{name}.ipynb").write_text(json.dumps(plain(notebook), indent=1, ensure_ascii=False) + "\n")


def plain(notebook: Any) -> dict[str, Any]:
    """A notebook without what is different in every run: numbers of cells, moments, versions, what goes to the log."""
    language = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    shown = []
    runs = 0
    for number, cell in enumerate(notebook.cells):
        own = {
            "cell_type": cell.cell_type,
            "id": f"cell-{number}",
            "metadata": {},
            "source": cell.source.splitlines(True),
        }
        if cell.cell_type == "code":
            runs += 1
            kept = [json.loads(json.dumps(output)) for output in cell.outputs if output.get("name") != "stderr"]
            for output in kept:
                if "execution_count" in output:
                    output["execution_count"] = runs
            own |= {"execution_count": runs, "outputs": kept}
        shown.append(own)
    return {"cells": shown, "metadata": language, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    for name in sys.argv[1:] or sorted(path.stem for path in STORIES.glob("*.py")):
        print(name, flush=True)
        run(name)


if __name__ == "__main__":
    main()
