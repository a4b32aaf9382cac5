"""The cache of compiled kernels knows every module that a kernel is made of, and is never in the way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ceql
from ceql.jit.cache import imports

PACKAGE = Path(ceql.__file__).parent


def test_every_import_counts() -> None:
    for module in sorted(PACKAGE.rglob("*.py")):
        named = set()
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ceql":
                place = PACKAGE.joinpath(*(node.module or "").split(".")[1:])
                paths = [place, *(place / alias.name for alias in node.names)]
                named |= {path.with_suffix(".py") for path in paths if path.with_suffix(".py").exists()}
        assert named == set(imports(module)), module


PROGRAM = """
import logging, resource, sys
from ceql.jit import kernel
logging.basicConfig()

@kernel
def twice(number):
    return 2 * number

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
print(twice(21))
"""


def answer(folder: Path, cache: Path, most: int = 1 << 30) -> tuple[str, bool]:
    """What a process prints that compiles a kernel, and whether it warns; no file may have more bytes than `most`."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, str(program), str(most)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), "compiled kernels cannot be kept" in done.stderr


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert answer(tmp_path, tmp_path / "file/cache") == ("42", True)
    assert not list(tmp_path.rglob("*.nbc"))  # nor is code put elsewhere, where it would become stale


@pytest.mark.skipif(sys.platform == "win32", reason="the size of files is not limited there")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    assert answer(tmp_path, tmp_path / "cache", most=0) == ("42", True)
    assert answer(tmp_path, tmp_path / "cache") == ("42", False)


def test_a_cache_that_is_damaged(tmp_path: Path) -> None:
    assert answer(tmp_path, tmp_path / "cache") == ("42", False)
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    file.write_bytes(file.read_bytes()[:20])
    assert answer(tmp_path, tmp_path / "cache") == ("42", True)
    assert answer(tmp_path, tmp_path / "cache") == ("42", False)


COUNTING = """
import sys, time
from numba.core import event
from ceql.jit import kernel

@kernel
def twice(number):
    return 2 * number

class Count(event.Listener):
    def on_start(self, event):
        print("compiles", flush=True)
        time.sleep(1)  # the others come meanwhile

    def on_end(self, event):
        pass

event.register("numba:compile", Count())
print(twice(21))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_one_of_several_processes_compiles(tmp_path: Path) -> None:
    program = tmp_path / "counting.py"
    program.write_text(COUNTING)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(program)]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=300)[0].split() for process in running]
    assert sorted(said) == [["42"], ["42"], ["compiles", "42"]]


INTERRUPTED = """
import os, signal
from numba.core.codegen import JITCodeLibrary

found = JITCodeLibrary._object_compiled_hook
calls = []

def interrupted(module, code):
    calls.append(code)
    if len(calls) == 1:
        os.kill(os.getpid(), signal.SIGINT)
    found(module, code)

JITCodeLibrary._object_compiled_hook = interrupted  # LLVM calls it, and takes no exception from it
from ceql.jit import kernel

@kernel
def twice(number):
    return 2 * number

try:
    twice(21)
except KeyboardInterrupt:
    print("interrupted", twice(21), twice(2.5))
"""


def test_an_interrupt_that_the_compiler_cannot_pass_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(INTERRUPTED)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "interrupted 42 5.0", done.stderr
    assert "ignored" not in done.stderr
