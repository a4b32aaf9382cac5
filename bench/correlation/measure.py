"""Times, tables and verdicts: medians of interleaved repetitions, printed as they come and kept as Markdown."""

from __future__ import annotations

import gc
import hashlib
import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import ceql

SCALE = float(os.environ.get("BENCH_SCALE", 1))  # 0.01: a trial of the benchmark itself; its figures mean nothing
RUNS = 3
Array = np.ndarray[Any, np.dtype[Any]]


def scaled(count: int) -> int:
    """That many events, or fewer in a trial."""
    return max(1000, int(count * SCALE))


@dataclass(frozen=True)
class Timing:
    """Seconds: the median by the clock and of the processor, and how far apart the repetitions were."""

    wall: float
    cpu: float
    spread: float

    @classmethod
    def of(cls, walls: list[float], cpus: list[float]) -> Timing:
        middle = statistics.median(walls)
        return cls(middle, statistics.median(cpus), (max(walls) - min(walls)) / middle)

    @property
    def shown_spread(self) -> str:
        return f"{self.spread:.0%}"


def once(action: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds by the clock and of the processor, and the result."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    result = action()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def together(actions: Mapping[str, Callable[[], Any]], runs: int = RUNS) -> dict[str, tuple[Timing, Any]]:
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
    return {name: (Timing.of(walls[name], cpus[name]), results[name]) for name in actions}


def run_all(queries: Mapping[str, ceql.Query], table: pa.Table, runs: int = RUNS) -> dict[str, tuple[Timing, pa.Table]]:
    """Time queries over a table, from Arrow to Arrow."""

    def action(query: ceql.Query) -> Callable[[], pa.Table]:
        return lambda: query.run(table).to_arrow()

    return together({name: action(query) for name, query in queries.items()}, runs)


def positions(matches: pa.Table, variables: list[str]) -> Array:
    """The matches as rows of positions; each variable has one event."""
    columns = [matches.column(name).combine_chunks().flatten().to_numpy() for name in variables]
    return np.stack(columns, axis=1) if len(matches) else np.zeros((0, len(variables)), np.int64)


def digest(rows: Array) -> str:
    """A hash of the rows, whatever their order."""
    ordered = rows[np.lexsort(rows.T[::-1])] if len(rows) else rows
    return hashlib.sha256(np.ascontiguousarray(ordered, np.int64).tobytes()).hexdigest()[:16]


def megabytes() -> float:
    """Resident memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


@dataclass
class Report:
    """What is printed, and the same as Markdown."""

    missed: list[str] = field(default_factory=list)
    markdown: list[str] = field(default_factory=list)
    _widths: list[int] = field(default_factory=list)

    def title(self, text: str) -> None:
        print(f"\n{text}", flush=True)
        self.markdown += ["", f"## {text}", ""]

    def note(self, text: str) -> None:
        print(f"  {text}", flush=True)
        self.markdown += ["", text, ""]

    def table(self, *headers: str) -> None:
        """Begin a table. A header that ends in spaces makes its column that wide; the first column is text."""
        self._widths = [len(header) for header in headers]
        self._line([header.strip() for header in headers])
        self.markdown += ["", "| " + " | ".join(header.strip() for header in headers) + " |"]
        self.markdown.append("|" + "|".join(["---", *("---:" for _ in headers[1:])]) + "|")

    def row(self, *cells: object) -> None:
        """Integers get separators of thousands, other numbers two digits after the point or three that count."""
        texts = [_text(cell) for cell in cells]
        self._line(texts)
        self.markdown.append("| " + " | ".join(texts) + " |")

    def plot(self, name: str, caption: str) -> None:
        self.markdown += ["", f"![{caption}]({name})", ""]

    def check(self, holds: bool, text: str) -> None:
        """Keep `text`, which says what was asked and what came, if it does not hold."""
        if not holds:
            self.missed.append(text)

    def _line(self, cells: list[str]) -> None:
        first, *others = zip(cells, self._widths, strict=True)
        print("  " + " ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]), flush=True)


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if cell >= 100 else f"{cell:.1f}" if cell >= 10 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
