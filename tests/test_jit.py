"""The cache of compiled kernels knows every module that a kernel is made of."""

from __future__ import annotations

import ast
from pathlib import Path

import ceql
from ceql.jit import _imports

PACKAGE = Path(ceql.__file__).parent


def test_every_import_counts() -> None:
    for module in sorted(PACKAGE.rglob("*.py")):
        named = set()
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ceql":
                place = PACKAGE.joinpath(*(node.module or "").split(".")[1:])
                paths = [place, *(place / alias.name for alias in node.names)]
                named |= {path.with_suffix(".py") for path in paths if path.with_suffix(".py").exists()}
        assert named == set(_imports(module)), module
