"""The page that ships is the one that its sources make, and its grammar knows the words of the language."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src/ceql/studio/static"
GRAMMAR = ROOT / "src/ceql/syntax/ceql.tmLanguage.json"


def hashed(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.skipif(not (ROOT / "frontend").exists(), reason="the sources of the page are not in the archive")
def test_the_built_page_matches_its_sources() -> None:
    manifest = json.loads((STATIC / "manifest.json").read_text())
    sources = [*(ROOT / "frontend/src").iterdir(), GRAMMAR]
    sources += [
        ROOT / "frontend" / name for name in ("package.json", "package-lock.json", "tsconfig.json", "build.mjs")
    ]
    assert manifest["sources"] == {path.relative_to(ROOT).as_posix(): hashed(path) for path in sources}, "make studio"
    built = [path for path in STATIC.iterdir() if path.name != "manifest.json"]
    assert manifest["built"] == {path.relative_to(ROOT).as_posix(): hashed(path) for path in built}, "make studio"


def test_the_page_loads_nothing_from_elsewhere() -> None:
    html = (STATIC / "index.html").read_text()
    assert re.findall(r'(?:src|href)="(?!/static/|#)([^"]*)"', html) == []
    assert "url(http" not in (STATIC / "style.css").read_text()


def scope_of(text: str) -> str:
    """The scope that the grammar gives to a text, which must be one token."""
    for pattern in json.loads(GRAMMAR.read_text())["patterns"]:
        if (found := re.match(pattern["match"], text)) and found.group() == text:
            return str(pattern["name"])
    return "none"


def test_the_grammar_for_editors_knows_all_reserved_words() -> None:
    lark = (ROOT / "src/ceql/syntax/ceql.lark").read_text()
    listed = re.search(r"NAME: /\(\?!\(\?:([a-z|]+)\)", lark)
    assert listed is not None
    words = listed[1].split("|")
    assert len(words) > 20
    for word in words:
        assert re.match(r"keyword|constant\.language", scope_of(word.upper())), word
    assert scope_of("Payment").startswith("entity.name.type")
    assert scope_of("amount").startswith("variable")
    assert scope_of("'it''s'").startswith("string")
    assert scope_of("1.5").startswith("constant.numeric")
