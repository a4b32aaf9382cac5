"""What all workers written in Python share: the job, clocks, memory, answers. Imports nothing of ceql."""

from __future__ import annotations

import ctypes
import gc
import json
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.pattern import Pattern
from bench.peers.peer import Run

BATCH = 10_000  # events between two looks at the memory


@dataclass(frozen=True)
class Asked:
    """The job as a worker sees it, its events loaded."""

    table: pa.Table
    pattern: Pattern
    query: str
    runs: int
    seconds: float
    memory: bool


def asked(file: str) -> Asked:
    """Read a job and its events."""
    pa.set_cpu_count(1)
    job: dict[str, Any] = json.loads(Path(file).read_text())
    with pa.OSFile(job["events"]) as source:
        table = pa.ipc.open_file(source).read_all().combine_chunks()
    pattern = Pattern.from_json(job["pattern"])
    return Asked(table, pattern, job["query"], job["runs"], job["seconds"], job["memory"])


def answer(run: Run) -> None:
    """Print a run."""
    sys.stdout.write("\n" + json.dumps(run.to_json()) + "\n")  # on a line of its own, whatever others have printed
    sys.stdout.flush()


def resident() -> float:
    """Megabytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def settled() -> float:
    """The same after what was freed has been given back, so that growth from here on is seen."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):  # only the C library of GNU has it
        ctypes.CDLL(None).malloc_trim(0)
    return resident()


def at_most(gigabytes: float) -> None:
    """Have allocations fail beyond that."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(gigabytes * 1e9), resource.RLIM_INFINITY))


class Clock:
    """Wall and CPU seconds since it was made; the CPU time is that of all threads."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def __call__(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._cpu
