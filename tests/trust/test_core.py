"""The core (all but `cli`, `spark` and `studio`) runs no code of others and talks to nobody."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ceql

PACKAGE = Path(ceql.__file__).parent
OUTSIDE = {"cli", "spark", "studio"}  # `tests/test_layers.py` keeps the core from importing them
FORBIDDEN_MODULES = {
    "pickle", "cPickle", "shelve", "marshal", "dill", "cloudpickle", "ctypes", "cffi", "code", "runpy",
    "socket", "ssl", "http", "urllib", "requests", "ftplib", "smtplib", "asyncio", "multiprocessing", "subprocess",
}  # fmt: skip
# A kernel is machine code, and Numba keeps it pickled: docs/trust.md says who may write it. `ceql warm` compiles in
# several processes; `tests/test_layers.py` keeps the core from importing it.
ALLOWED = [("jit/cache.py", "pickle"), ("warm.py", "multiprocessing")]
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "compile"}
FORBIDDEN_ATTRIBUTES = {"system", "popen", "loads_pickle", "read_pickle", "to_pickle", "allow_pickle"}


def core() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] not in OUTSIDE:
            yield from ((str(place), node) for node in ast.walk(ast.parse(path.read_text())))


def modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def test_nothing_is_imported_that_loads_code_or_opens_connections() -> None:
    found = [(place, name) for place, node in core() for name in modules(node)]
    assert len(found) > 500
    assert [(place, name) for place, name in found if name.split(".")[0] in FORBIDDEN_MODULES] == ALLOWED
    froms = [(place, node) for place, node in core() if isinstance(node, ast.ImportFrom)]
    imported = [(place, alias.name) for place, node in froms for alias in node.names]
    assert [place for place, name in imported if name == "ProcessPoolExecutor"] == ["warm.py"]


def test_only_kernels_are_unpickled() -> None:
    tree = ast.parse((PACKAGE / "jit/cache.py").read_text())
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle"]
    assert [ast.unparse(node) for node in used] == ["pickle.loads"]
    (load,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and used[0] in ast.walk(node))
    assert load.name == "load_overload"
    assert ast.unparse(load).count("path = find(self._function, _arguments(signature))") == 1
    assert ast.unparse(load).count("pickle.loads(path.read_bytes())") == 1


def test_no_text_becomes_code() -> None:
    called = [
        (place, node.func.id)
        for place, node in core()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS
    ]
    own = {
        ("query.py", "compile"),
        ("row_patterns/as_query.py", "compile"),
        ("query_set.py", "compile"),
    }  # `ceql.compile`
    optional = {("results/matches.py", "__import__")}  # pandas and polars, if they are there
    assert set(called) == own | optional
    attributes = [(place, node.attr) for place, node in core() if isinstance(node, ast.Attribute)]
    assert [(place, name) for place, name in attributes if name in FORBIDDEN_ATTRIBUTES] == []


def test_nobody_asks_for_the_time_of_day() -> None:
    clocks = {"now", "utcnow", "today", "time_ns", "localtime", "gmtime"}
    asked = [(place, node.attr) for place, node in core() if isinstance(node, ast.Attribute) and node.attr in clocks]
    assert asked == []
    imported = [
        alias.name
        for _, node in core()
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
    ]
    assert set(imported) == {"perf_counter"}  # for metrics, and for how long the compiler takes
    assert "time" not in [name for _, node in core() if isinstance(node, ast.Import) for name in modules(node)]


WATCHED = """
import sys
def watch(event, arguments):
    if event.split(".")[0] in ("socket", "subprocess", "ftplib", "smtplib", "urllib", "winreg") or event == "os.system":
        print(event, arguments)
        sys.stdout.flush()
sys.addaudithook(watch)
import ceql
query = ceql.compile("SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v WITHIN 5 EVENTS")
recognizer = query.recognizer()
recognizer.feed([{"type": "A", "v": 1}]).to_arrow()
again = query.restore(recognizer.snapshot())
print(again.feed([{"type": "B", "v": 2}]).count(), len(query.explain()) > 0, bool(str(query.diagnose([{"type": "A"}]))))
"""


def test_a_run_opens_no_connection_and_starts_no_process() -> None:
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "1 True True\n", done.stdout
