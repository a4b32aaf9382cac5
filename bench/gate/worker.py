"""Runs rows for one tree, in a process whose PYTHONPATH begins with that tree's `src`; `Tree` starts and asks it.

Each line on standard input is a row's name. When the name changes, the row is made and run twice without counting. Each
answer is a line of JSON: the processor seconds of one run and its matches, or the error.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from bench.peers.peer import ROOT

# memory that a run gives back stays with the process: fetching pages anew each time is most of what makes two processes
# that do the same differ
STEADY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(2**28),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "PYTHONHASHSEED": "0",
}


class RowError(Exception):
    """A tree cannot run a row."""


@dataclass(frozen=True)
class Tree:
    """Sources of ceql, and the folder of their compiled kernels."""

    name: str
    source: Path
    cache: Path

    def start(self) -> Worker:
        return Worker(self)


class Worker:
    """A process that measures rows of a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        paths = os.pathsep.join([str(tree.source), str(ROOT)])
        environment = os.environ | STEADY | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tree.cache)}
        command = [sys.executable, "-m", __name__, str(tree.source)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def run(self, row: str) -> tuple[float, int]:
        """Processor seconds and matches."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(f"{row}\n")
        asked.flush()
        line = answers.readline()
        if not line:
            raise RuntimeError(f"the process that runs {self._tree.name} has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise RowError(f"{self._tree.name}: {answer['error']}")
        return answer["seconds"], answer["matches"]

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()


def timed(action: Callable[[], int]) -> tuple[float, int]:
    """Processor seconds of a run, all threads together, and its result. Garbage of earlier runs does not count."""
    gc.collect()
    begun = time.process_time()
    found = action()
    return time.process_time() - begun, found


def serve(source: Path) -> None:
    import pyarrow as pa

    import ceql
    from bench.gate.rows import ROWS

    if not Path(ceql.__file__).is_relative_to(source):
        raise SystemExit(f"ceql comes from {ceql.__file__}, not from {source}")
    pa.set_cpu_count(1)
    gc.disable()
    name, action = "", None
    for line in sys.stdin:
        try:
            if action is None or line.strip() != name:
                name, action = line.strip(), ROWS[line.strip()].action()
                action()
                action()
                gc.collect()
                gc.freeze()  # what is there now is not looked through before each run
            seconds, matches = timed(action)
            answer: dict[str, object] = {"seconds": seconds, "matches": matches}
        except Exception as error:
            action, answer = None, {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
