"""Every test that docs/trust.md and docs/found.md name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = "".join((ROOT / "docs" / name).read_text() for name in ("trust.md", "found.md"))
NAMED = re.findall(r"`(tests/[\w/]+\.py): (\w+)`", PAGE)
TARGETS = set(re.findall(r"`make ([a-z]+)", PAGE))


def test_the_tests_exist() -> None:
    assert len(NAMED) > 15
    for file, name in NAMED:
        tree = ast.parse((ROOT / file).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (file, name)


def test_the_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "faults" in TARGETS
    for target in TARGETS:
        assert re.search(rf"^(\w+ )*{target}( \w+)*:", makefile, re.MULTILINE), target


def test_every_finding_has_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| (.+) \|$", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 20
    for number, tests in rows:
        assert re.search(r"`tests/[\w/]+\.py: \w+`", tests), number
