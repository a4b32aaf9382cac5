"""The site holds more than its pages: documents of the root, the notebooks, every file that a page links to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from pygments import lexers, token
from pygments.lexer import RegexLexer

from ceql.errors import CeqlError
from ceql.syntax.parser import parse

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # pages too, in lower case
NOTEBOOKS = "examples/gallery"  # pages too, in gallery
ASSETS = ("iframe-worker.js", "site.js", "site.css")
GRAMMAR = ROOT / "src/ceql/syntax/ceql.tmLanguage.json"
_FENCED = re.compile(r"(?ms)^```sql\n(.*?)^```$")
_PROMPTS = re.compile(r"(?m)^```python\n(?=>>> )")


_COLOURS = {
    "comment": token.Comment,
    "string": token.String,
    "constant.numeric": token.Number,
    "keyword.operator.ceql": token.Operator,
    "support.function": token.Name.Function,
    "entity.name.type": token.Name.Class,
    "variable": token.Name,
}  # other scopes are keywords


class CeqlLexer(RegexLexer):  # type: ignore[misc]
    """CEQL for Pygments, by the grammar that editors use; spaces and brackets are as they stand."""

    name, aliases = "CEQL", ("ceql",)
    tokens = {  # noqa: RUF012
        "root": [
            (
                rule["match"],
                next((kind for scope, kind in _COLOURS.items() if rule["name"].startswith(scope)), token.Keyword),
            )
            for rule in json.loads(GRAMMAR.read_text())["patterns"]
        ]
        + [(r"(?s).", token.Text)]
    }


def on_startup(**_: Any) -> None:
    """Let code blocks have the language `ceql`."""
    lexers.LEXERS["CeqlLexer"] = (CeqlLexer.__module__, CeqlLexer.name, CeqlLexer.aliases, (), ())
    lexers._lexer_cache[CeqlLexer.name] = CeqlLexer


def coloured(block: re.Match[str]) -> str:
    """A block that is marked as SQL, since other viewers know no CEQL, with the language that it has."""
    try:
        parse(block[1])
    except CeqlError:
        return block[0]
    return f"```ceql\n{block[1]}```"


def on_files(files: Files, config: Any) -> Files:
    """Add the documents, whose links are those of the root, the notebooks, the files that pages link to, and assets."""
    linked = {path for page in files.documentation_pages() for path in _outside(page).findall(page.content_string)}
    for name in DOCUMENTS:
        text = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=text))
    for notebook in sorted((ROOT / NOTEBOOKS).glob("*.ipynb")):
        text = notebook_page(json.loads(notebook.read_text()))
        files.append(File.generated(config, f"gallery/{notebook.stem}.md", content=text))
    for path in sorted(linked - set(DOCUMENTS)):
        files.append(File.generated(config, f"repository/{path}", abs_src_path=str(ROOT / path)))
    for name in ASSETS:
        files.append(File.generated(config, f"assets/{name}", abs_src_path=str(ROOT / "tools/site" / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files outside the documentation at those that the site holds, and mark prompts as such."""
    up = "../" * page.file.src_uri.count("/")

    def inside(link: re.Match[str]) -> str:
        path = link[1]
        if path in DOCUMENTS:
            return f"]({up}{path.lower()}"
        if path.startswith(NOTEBOOKS) and path.endswith(".ipynb"):
            return f"]({up}gallery/{Path(path).stem}.md"
        return f"]({up}repository/{path}"

    markdown = _FENCED.sub(coloured, _outside(page.file).sub(inside, markdown))
    return _PROMPTS.sub("```pycon\n", markdown)


def notebook_page(notebook: dict[str, Any]) -> str:
    """A notebook with its outputs as a page.

    >>> code = {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]}
    >>> print(notebook_page({"cells": [{"cell_type": "markdown", "source": ["# Sums"]}, code]}))
    # Sums
    <BLANKLINE>
    ```python
    1 + 1
    ```
    <BLANKLINE>
    ```text
    2
    ```
    <BLANKLINE>
    """
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", ())]
    return "\n\n".join(part for part in parts if part) + "\n"


def _output(output: dict[str, Any]) -> str:
    """What a cell shows: HTML where there is any, else text."""
    shown = output.get("data", {})
    if "text/html" in shown:
        return "".join(shown["text/html"]).replace("\n\n", "\n")
    text = "".join(output.get("text") or shown.get("text/plain", ""))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def _outside(page: File) -> re.Pattern[str]:
    """The links of a page that lead out of the documentation."""
    return re.compile(rf"\]\({re.escape('../' * (1 + page.src_uri.count('/')))}([\w./-]+)")
