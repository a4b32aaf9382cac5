"""Times in this process: medians of repetitions that take turns, and rows of matches to compare."""

from __future__ import annotations

import gc
import hashlib
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import ceql
from bench.figures import Figure, median_figure

RUNS = 3
Array = np.ndarray[Any, np.dtype[Any]]


def once(action: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds by the clock and of the processor, and the result."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    result = action()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def together(actions: Mapping[str, Callable[[], Any]], events: int, runs: int = RUNS) -> dict[str, tuple[Figure, Any]]:
    """Time several actions in turn, so that a slow spell of the machine meets all of them; with their last results.

    A first round that is not counted warms them up: what is compiled or determinised is so by then.
    """
    results = {name: action() for name, action in actions.items()}
    walls: dict[str, list[float]] = {name: [] for name in actions}
    cpus: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(runs):
        for name, action in actions.items():
            results.pop(name)
            wall, cpu, results[name] = once(action)
            walls[name].append(wall)
            cpus[name].append(cpu)
    return {
        name: (median_figure(walls[name], cpus[name], [events] * runs, _rows(results[name])), results[name])
        for name in actions
    }


def run_all(queries: Mapping[str, ceql.Query], table: pa.Table, runs: int = RUNS) -> dict[str, tuple[Figure, pa.Table]]:
    """Time queries over a table, from Arrow to Arrow."""

    def action(query: ceql.Query) -> Callable[[], pa.Table]:
        return lambda: query.run(table).to_arrow()

    return together({name: action(query) for name, query in queries.items()}, len(table), runs)


def positions(matches: pa.Table, variables: Sequence[str]) -> Array:
    """The matches as rows of positions; each variable has one event."""
    columns = [matches.column(name).to_numpy() for name in variables]
    return np.stack(columns, axis=1) if len(matches) else np.zeros((0, len(variables)), np.int64)


def digest(rows: Array) -> str:
    """A hash of the rows, whatever their order."""
    ordered = rows[np.lexsort(rows.T[::-1])] if len(rows) else rows
    return hashlib.sha256(np.ascontiguousarray(ordered, np.int64).tobytes()).hexdigest()[:16]


def megabytes() -> float:
    """Resident memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def _rows(result: Any) -> int:
    return len(result) if isinstance(result, pa.Table | np.ndarray) else result if isinstance(result, int) else 0
