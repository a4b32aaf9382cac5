"""Files that the documentation and the files for contributors name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "tests/snapshots/README.md"]
NAMED = re.compile(r"`((?:src|tests|bench|docs|examples)/[\w./-]+)`")
LINKED = re.compile(r"\]\((?!https?:)([^)#\s]+)")


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    named = {ROOT / name for name in NAMED.findall(text)} | {page.parent / name for name in LINKED.findall(text)}
    assert not [path for path in named if not path.exists()]
