"""From files: `python -m bench.files [ROWS]`, ceql beside its readers, and polars with the same filters.

A file of stock events with eleven columns is written as Parquet, Arrow, CSV and JSON lines, once, into the folder of
`BENCH_FOLDER`. The query is a sequence of three filtered events. Each of these runs in turn, several times: ceql finds
the matches, shows their events, or counts them; the format's reader reads the columns that the query needs; polars
evaluates the filters of the three steps on the file, and takes the rows that satisfy any of them: the columns that the
query needs, or all, as `events()` shows. Everybody has one thread; `POLARS_MAX_THREADS=2` in the environment gives
everybody two. Processor time and time by the clock are medians, and the ratio is to polars.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import csv

import ceql
from bench.measure import together
from bench.workloads import stock

NEEDED = ["type", "name", "price", "time"]
LENGTH = 3
LINES_SHARE = 5  # text formats get this part of the rows
RUNS = 5


def wide(count: int) -> pa.Table:
    """Stock events, and six columns more that the query does not ask for."""
    random = np.random.default_rng(1)
    table = stock.events(count)
    venues = np.array([f"venue {k}" for k in range(40)])
    brokers = np.array([f"broker-{k:05d}" for k in range(5000)])
    more = {
        "venue": pa.array(venues[random.integers(0, len(venues), count)]),
        "broker": pa.array(brokers[random.integers(0, len(brokers), count)]),
        "order": pa.array(random.integers(0, 1 << 40, count)),
        "bid": random.uniform(0, 100, count),
        "ask": random.uniform(0, 100, count),
        "fee": random.uniform(0, 1, count),
    }
    for name, column in more.items():
        table = table.append_column(name, pa.chunked_array([pa.array(column)]))
    return table


def written(count: int) -> dict[str, Path]:
    """The files, by format."""
    folder = Path(os.environ.get("BENCH_FOLDER", tempfile.gettempdir())) / "files"
    folder.mkdir(parents=True, exist_ok=True)
    few = count // LINES_SHARE
    paths = {
        "parquet": folder / f"stock-{count}.parquet",
        "arrow": folder / f"stock-{few}.arrow",
        "csv": folder / f"stock-{few}.csv",
        "json": folder / f"stock-{few}.jsonl",
    }
    if not all(path.exists() for path in paths.values()):
        table = wide(count)
        pq.write_table(table, paths["parquet"])
        table = table.slice(0, few)
        with pa.ipc.new_file(paths["arrow"], table.schema) as writer:
            writer.write_table(table, 1 << 17)
        csv.write_csv(table, paths["csv"])
        texts = table.set_column(4, "time", table["time"].cast(pa.string()))
        _polars().from_arrow(texts).write_ndjson(paths["json"])
    return paths


def _polars() -> Any:
    import polars

    return polars


def _scan(format: str, path: Path) -> Any:
    polars = _polars()
    scans = {
        "parquet": polars.scan_parquet,
        "arrow": polars.scan_ipc,
        "csv": partial(polars.scan_csv, try_parse_dates=False),
        "json": polars.scan_ndjson,
    }
    return scans[format](path)


def _read(format: str, path: Path) -> int:
    """The rows of the needed columns, by the reader of pyarrow."""
    if format == "csv":
        options = csv.ConvertOptions(include_columns=NEEDED)
        return int(csv.read_csv(path, convert_options=options).num_rows)
    if format == "json":
        from pyarrow import json

        return int(json.read_json(path).num_rows)
    return sum(batch.num_rows for batch in ds.dataset(path, format=format).to_batches(columns=NEEDED))


def actions(format: str, path: Path) -> dict[str, Callable[[], Any]]:
    """What is timed."""
    query = ceql.compile(stock.sequence(LENGTH))
    filters = stock.filters(LENGTH)
    relevant = filters[0]
    for step in filters[1:]:
        relevant = relevant | step
    return {
        "polars, filters": lambda: _scan(format, path).select([step.sum() for step in filters]).collect(),
        "polars, rows": lambda: _scan(format, path).filter(relevant).select(NEEDED).collect(),
        "polars, whole rows": lambda: _scan(format, path).filter(relevant).collect(),
        "pyarrow, columns": lambda: _read(format, path),
        "ceql, matches": lambda: query.run(path).to_arrow(),
        "ceql, count": lambda: query.run(path).count(),
        "ceql, events()": lambda: query.run(path).events(),
    }


def main(count: int, formats: list[str]) -> None:
    pa.set_cpu_count(int(os.environ["POLARS_MAX_THREADS"]))
    for format, path in written(count).items():
        if formats and format not in formats:
            continue
        rows = count if format == "parquet" else count // LINES_SHARE
        found = together(actions(format, path), rows, RUNS)
        base, _ = found["polars, filters"]
        print(f"{format}: {rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        for name, (figure, _) in found.items():
            print(f"  {name:18} {figure.wall:7.3f} s  cpu {figure.cpu:7.3f} s  x {figure.cpu / base.cpu:5.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000, sys.argv[2:])
