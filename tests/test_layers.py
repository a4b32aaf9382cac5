"""The order of the folders of `src/ceql`: a file imports from its own folder and those before it, from no others.

All imports count, also those inside functions and those for the type checker alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src"
# Those of one line come at the same place: they do not import each other, unless TOGETHER says so.
ORDER = (
    ("errors",),
    ("jit",),
    ("syntax",),
    ("io",),
    ("engine.common",),
    ("engine.groups",),
    ("engine.states", "engine.preferred", "engine.straight"),
    ("analysis",),
    ("automata",),
    ("plans",),
    ("plan",),
    ("predicates",),
    ("recognition",),
    ("results",),
    ("explain",),
    ("diagnose",),
    ("query", "query_set", "recognizer"),
    ("row_patterns", "notebook"),
    ("__init__",),
    ("warm",),
    ("spark",),
    ("cli", "studio", "__main__"),
)
TOGETHER = {"query", "query_set", "recognizer", "cli", "studio", "__main__"}
PLACES = {folder: place for place, folders in enumerate(ORDER) for folder in folders}
ENGINE = {"errors", "jit", "engine.common", "engine.groups"}  # the engine knows nothing of text, Arrow, Spark
APART = {"spark", "cli", "studio"}  # only those who use them import them


class Import(NamedTuple):
    file: str  # below src/ceql
    module: str  # below ceql: "io.files"
    inside: bool  # a function


def modules() -> dict[str, Path]:
    """The modules of the package, by name below `ceql`; the package itself is `__init__`."""
    found = {}
    for path in sorted((SOURCE / "ceql").rglob("*.py")):
        parts = path.relative_to(SOURCE / "ceql").with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


MODULES = modules()


def folder(module: str) -> str:
    """
    >>> folder("io.files"), folder("plan"), folder("engine.states.loop"), folder("engine")
    ('io', 'plan', 'engine.states', 'engine.common')
    """
    first, *rest = module.split(".")
    return f"engine.{rest[0] if rest else 'common'}" if first == "engine" else first


def targets(node: ast.AST) -> Iterator[str]:
    """The modules of the package that an import statement names."""
    match node:
        case ast.Import(names):
            named = [alias.name for alias in names]
        case ast.ImportFrom(str(module), names, 0):
            named = [f"{module}.{alias.name}" for alias in names]
        case ast.ImportFrom():
            pytest.fail("relative imports are not used here")
        case _:
            return
    for name in named:
        top, _, rest = name.partition(".")
        if top == "ceql":  # the last part may be a name in a module
            yield rest if rest in MODULES else rest.rpartition(".")[0] or "__init__"


def imports() -> Iterator[Import]:
    for path in MODULES.values():
        file = path.relative_to(SOURCE / "ceql").as_posix()
        whole = ast.parse(path.read_text())
        inside = {
            id(node)
            for function in ast.walk(whole)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
        }
        for node in ast.walk(whole):
            yield from (Import(file, target, id(node) in inside) for target in targets(node))


def is_sound(found: Import) -> bool:
    mine = folder(found.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
    other = folder(found.module)
    if mine == other:
        return True
    if mine.startswith("engine") and other not in ENGINE:
        return False
    if PLACES[mine] == PLACES[other]:
        return {mine, other} <= TOGETHER
    if other in APART and not found.inside:
        return False
    return PLACES[other] < PLACES[mine]


def test_every_folder_has_its_place() -> None:
    assert {folder(module) for module in MODULES} == set(PLACES)


def test_files_import_only_from_the_folders_before_theirs() -> None:
    assert [found for found in imports() if not is_sound(found)] == []


@pytest.mark.parametrize(
    ("file", "module", "inside", "sound"),
    [
        ("io/files.py", "errors", False, True),
        ("io/files.py", "io.sorted_runs", False, True),
        ("io/files.py", "predicates.bind", True, False),
        ("engine/states/loop.py", "engine.common.chunk", False, True),
        ("engine/groups/loop.py", "engine.states.loop", False, False),
        ("engine/common/chunk.py", "engine.states.loop", False, False),
        ("engine/common/chunk.py", "io.sort_keys", False, False),
        ("diagnose/report.py", "explain.text", False, True),
        ("explain/text.py", "diagnose.report", True, False),
        ("query.py", "recognizer", False, True),
        ("__init__.py", "query", False, True),
        ("results/matches.py", "__init__", False, False),
        ("cli/app.py", "spark.api", False, False),
        ("cli/app.py", "spark.api", True, True),
        ("query.py", "spark", True, False),
    ],
)
def test_the_rules(file: str, module: str, inside: bool, sound: bool) -> None:
    assert is_sound(Import(file, module, inside)) == sound
