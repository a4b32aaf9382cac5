"""CORE, the C++ engine of the papers' authors, through its Python wheel `pycer`.

Its CEQL is the papers': sequences, `+`, OR, FILTER, PARTITION BY, CONSUME BY ANY and LIMIT mean what they mean in ceql,
and give the same matches. It is told otherwise in these points:

- `WITHIN n [time]` keeps what spans at most n - 1; `WITHIN n SECONDS` goes by the clock on the wall, not by events.
  So the window is written in milliseconds plus one, on the attribute.
- Every event type must be declared, also one that never comes.
- Strategies are parsed and have no effect.

See `bench.peers.pycer_worker` for how events get in and matches out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.pattern import Pattern
from bench.peers.peer import Peer, Unavailable, python_environment

PACKAGE = "pycer==0.1.6"
TIME = "time"


class Pycer(Peer):
    name = "CORE"

    def __init__(self) -> None:
        self._python: Path | None = None

    def prepare(self) -> str:
        self._python = python_environment("pycer", _interpreter(), PACKAGE, "pyarrow")
        return PACKAGE.replace("==", " ")

    def refuses(self, pattern: Pattern) -> str:
        if pattern.compares:
            return "its filters are of single events"
        return "" if pattern.strategy == "ALL" else "it parses strategies and ignores them"

    def command(self, job: Path) -> list[str]:
        if self._python is None:
            self.prepare()
        return [str(self._python), "-m", "bench.peers.pycer_worker", str(job)]


def _interpreter() -> str:
    """A Python 3.13, the only one that there is a wheel for."""
    if sys.version_info[:2] == (3, 13):
        return sys.executable
    candidates = [*sorted(map(str, Path.home().glob(".pyenv/versions/3.13*/bin/python"))), shutil.which("python3.13")]
    for candidate in candidates:
        if candidate is not None:
            text = "import sys; print(sys.version_info[:2] == (3, 13))"
            said = subprocess.run([candidate, "-c", text], capture_output=True, text=True)
            if said.stdout.strip() == "True":
                return candidate
    raise Unavailable("pycer needs Python 3.13, which is not here")


def declaration(types: list[str], attributes: dict[str, str]) -> str:
    """A stream whose events all have the same attributes, with CORE's names of their types."""
    columns = ", ".join(f"{name}:{kind}" for name, kind in attributes.items())
    return f"CREATE STREAM S {{ {', '.join(f'EVENT {name} {{{columns}}}' for name in types)} }}"


def query(pattern: Pattern) -> str:
    """The query in CORE's dialect: ceql's, but for the stream's name and the window."""
    text = pattern.ceql().replace("* WHERE ", "* FROM S WHERE ", 1)
    if pattern.window is not None:
        text = text.replace(f"WITHIN {pattern.window} MILLISECONDS", f"WITHIN {pattern.window + 1} [{TIME}]")
    return text
