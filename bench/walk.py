"""Counts what a first read of a CSV file calls of ceql: files, functions, and changes of package.

A change of package is a call from one folder of `src/ceql` into another, or the return from it. The count does not see
inside compiled kernels, nor what finds their compiled code (`jit`). The query has been read once before, so that
nothing is compiled or loaded meanwhile.
`python -m bench.walk` (`make walk`) prints the counts of a query on single events and of one that compares events.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ceql

PACKAGE = f"{Path(ceql.__file__).parent}/"
QUERIES = {
    "single events": "SELECT * WHERE A ; B",
    "compared events": "SELECT * WHERE A AS a ; B AS b ; A AS c FILTER b.v > a.v AND c.v > b.v",
}
EVENTS = 10


@dataclass
class Walk:
    """What was called so far; `changes` counts crossings between packages, both ways."""

    files: set[str] = field(default_factory=set)
    functions: set[CodeType] = field(default_factory=set)
    changes: int = 0
    _inside: list[str] = field(default_factory=list)

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):  # as comprehensions are
            return
        if code.co_filename.startswith(f"{PACKAGE}jit/"):
            return
        here = code.co_filename.removeprefix(PACKAGE).rpartition("/")[0]
        if event == "call":
            self.files.add(code.co_filename)
            self.functions.add(code)
            self.changes += bool(self._inside) and self._inside[-1] != here
            self._inside.append(here)
        elif event == "return" and self._inside:
            self._inside.pop()
            self.changes += bool(self._inside) and self._inside[-1] != here


def walk(action: Callable[[], object]) -> Walk:
    """What an action calls."""
    seen = Walk()
    sys.setprofile(seen.see)
    try:
        action()
    finally:
        sys.setprofile(None)
    return seen


def first_read(text: str) -> Walk:
    """What a compiled query calls to read a file and give its matches."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "events.csv")
        lines = [f"{'AB'[k % 2]},{k},{k * 7 % 10}" for k in range(EVENTS)]
        file.write_text("\n".join(["type,time,v", *lines, ""]))
        ceql.compile(text).run(file).to_arrow()
        query = ceql.compile(text)
        return walk(lambda: query.run(file).to_arrow())


def main() -> None:
    print(f"{'first read':<18} {'files':>6} {'functions':>10} {'changes of package':>19}")
    for name, text in QUERIES.items():
        seen = first_read(text)
        print(f"{name:<18} {len(seen.files):>6} {len(seen.functions):>10} {seen.changes:>19}")


if __name__ == "__main__":
    main()
