"""Files that the documentation and the files for contributors name are there, with what the map says is in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import docs_check

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
NAMED = re.compile(r"`((?:src|tests|bench|docs|examples)/[\w./-]+)`")
LINKED = re.compile(r"\]\((?!https?:)([^)#\s]+)")
# of the map: `folder/file.py`, `folder/file.py: name, Class.method`
MAPPED = re.compile(r"`(\w+(?:/\w+)*\.(?:py|lark))(?:: ([\w., ]+))?`")


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    named = {ROOT / name for name in NAMED.findall(text)} | {page.parent / name for name in LINKED.findall(text)}
    assert not [path for path in named if not path.exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nothing_is_said_to_be_where_it_is_not(page: Path) -> None:
    """ceql is neither on PyPI nor at a public address: it is installed from a checkout, or as a wheel made there."""
    assert re.findall(r"git clone|github\.com/\w+|pip install \W?ceql\b(?!-).*", page.read_text()) == []


def names_in(body: list[ast.stmt]) -> Iterator[str]:
    """What a module or class defines; `Class.method` for what is in a class."""
    for node in body:
        match node:
            case ast.ClassDef(name=name, body=inner):
                yield name
                yield from (f"{name}.{own}" for own in names_in(inner))
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_the_map_is_right() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    mapped = [(file, names) for file, names in MAPPED.findall(text) if not file.startswith("tests/")]
    assert len(mapped) > 100
    source = ROOT / "src/ceql"
    folders = (source, source / "engine/states", source / "engine/groups")  # the two loops' own files are named alone
    assert [file for file, _ in mapped if not any((folder / file).exists() for folder in folders)] == []
    wrong = [
        f"{file}: {name}"
        for file, names in mapped
        for name in names.split(", ")
        if name and name not in set(names_in(ast.parse((source / file).read_text()).body))
    ]
    assert wrong == []


def test_pages_can_be_read_in_one_go() -> None:
    assert [fault for page in docs_check.pages() for fault in page.faults] == []


def test_figures_above_a_chart_are_those_of_its_tables() -> None:
    checked = 0
    for paragraph in (ROOT / "docs/benchmarks.md").read_text().split("\n\n"):
        for behind in re.findall(r"\[Tables\]\((benchmarks/\w+\.md)\)", paragraph):
            tables = (ROOT / "docs" / behind).read_text()
            figures = re.findall(r"\d[\d,]*\.\d+|\d+,\d{3}", paragraph)
            assert [figure for figure in figures if figure not in tables] == [], behind
            checked += len(figures)
    assert checked > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_belongs_to_an_item_of_a_list_is_indented_by_four(page: Path) -> None:
    """The site takes what is indented by less out of the list, and the items after it with it."""
    assert re.findall(r"(?m)^\n {2,3}\S.*", page.read_text()) == []


def test_what_is_too_long_is_told() -> None:
    long = docs_check.Page("x.md", 1501, (docs_check.Block(3, False, 81),))
    assert long.faults == ["x.md: 1501 words, of at most 1500", "x.md:3: 81 words, of at most 80"]
