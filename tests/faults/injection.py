"""Exceptions at lines of the package, as a signal would raise them there."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import ceql

_PACKAGE = str(Path(ceql.__file__).parent)


class Lines:
    """How many lines of the package have run."""

    count = 0


@contextmanager
def raising(error: type[BaseException], at: int | None = None) -> Iterator[Lines]:
    """Raise `error` before the line `at` (from 1) of the package that runs in this block; without it, only count.

    When a `with` ends, its first line is traced once more. No signal can come between that and the release of a lock,
    nor at a `try`, which does nothing; so nothing is raised there.
    """
    lines = Lines()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        entered: set[int] = set()

        def trace_lines(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                line = frame.f_lineno
                text = linecache.getline(frame.f_code.co_filename, line).strip()
                if line in entered or text == "try:":
                    return trace_lines
                if text.startswith("with "):
                    entered.add(line)
                lines.count += 1
                if lines.count == at:
                    raise error(f"injected in {frame.f_code.co_filename}, line {line}")
            return trace_lines

        return trace_lines

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)
