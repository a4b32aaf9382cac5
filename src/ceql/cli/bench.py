"""`ceql bench`: times a query over the user's own events, which are read into memory first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

from ceql.cli.inputs import Files, single_or_named
from ceql.io.schemas import conform, unify_schemas
from ceql.query import Query


@dataclass(frozen=True)
class Timing:
    """Seconds by the clock and of processor time, for each run."""

    walls: list[float]
    cpus: list[float]

    @property
    def spread(self) -> float:
        return (max(self.walls) - min(self.walls)) / median(self.walls)


def read_all(sources: dict[str | None, Files]) -> dict[str | None, pa.Table]:
    """All events, in memory."""
    return {name: _read(files) for name, files in sources.items()}


def bench(query: Query, tables: dict[str | None, pa.Table], columns: dict[str, Any], runs: int) -> bool:
    """Times the query over the events, first counting the matches, then writing them. Returns whether there are any."""
    events = single_or_named(tables)
    count = sum(table.num_rows for table in tables.values())
    matches = query.run(events, **columns).count()  # also compiles the kernels
    counted = _timed(lambda: query.run(events, **columns).count(), runs)
    listed = _timed(lambda: _write_all(query.run(events, **columns)), runs)
    bytes_ = sum(table.nbytes for table in tables.values())
    console = Console()
    console.print(f"{count:,} events ({bytes_ / 1e6:,.1f} MB in memory), {matches:,} matches, medians of {runs} runs")
    shown = Table("", "events per second", "ns per event", "ns CPU", "spread", box=box.SIMPLE)
    for column in shown.columns[1:]:
        column.justify = "right"
    for name, timing in (("counted", counted), ("all written", listed)):
        wall, cpu = median(timing.walls), median(timing.cpus)
        each = 1e9 / max(count, 1)
        rate = count / wall if wall else 0.0
        shown.add_row(name, f"{rate:,.0f}", f"{wall * each:,.1f}", f"{cpu * each:,.1f}", f"{timing.spread:.0%}")
    console.print(shown)
    return matches > 0


def _read(files: Files) -> pa.Table:
    batches = list(files.batches())
    schema = unify_schemas([files.schema, *(batch.schema for batch in batches)])  # JSON lines may differ
    return pa.Table.from_batches([conform(batch, schema) for batch in batches], schema)


def _timed(action: Callable[[], object], runs: int) -> Timing:
    timing = Timing([], [])
    for _ in range(runs):
        cpu, wall = time.process_time(), time.perf_counter()
        action()
        timing.walls.append(time.perf_counter() - wall)
        timing.cpus.append(time.process_time() - cpu)
    return timing


def _write_all(matches: Any) -> int:
    """Writes all matches to Arrow, a batch at a time, and drops them."""
    batches: list[pa.RecordBatch] = matches.to_batches()
    return sum(batch.num_rows for batch in batches)
