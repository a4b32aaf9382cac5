"""Ten million events in Parquet: sequences of types by key, times a hundred microseconds apart."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

FILES = 8
SPACING = 100  # microseconds between events
BEGIN = 1_700_000_000_000_000
TYPES = [f"T{k}" for k in range(30)]


def table(first: int, count: int, seed: int) -> pa.Table:
    """`count` events from number `first` on: a type of thirty, a side of two, name, price, volume, ts, and keys."""
    random = np.random.default_rng(seed)
    names = np.array([f"STK{k:03d}" for k in range(300)])
    return pa.table(
        {
            "type": pa.array(np.array(TYPES)[random.integers(0, len(TYPES), count)]),
            "side": pa.array(np.array(["BUY", "SELL"])[random.integers(0, 2, count)]),
            "name": pa.array(names[random.integers(0, len(names), count)]),
            "price": random.uniform(0, 100, count),
            "volume": random.integers(1, 10_000, count),
            "ts": pa.array(BEGIN + (first + np.arange(count)) * SPACING, pa.timestamp("us", "UTC")),
            "k10": random.integers(0, 10, count),
            "k1000": random.integers(0, 1_000, count),
            "k100000": random.integers(0, 100_000, count),
        }
    )


def parquet_folder(folder: Path, count: int) -> Path:
    """A folder with `count` events in several files, made once."""
    target = folder / f"events-{count}"
    if not (target / "done").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        each = count // FILES
        for k in range(FILES):
            parquet.write_table(table(k * each, each, k), target / f"{k:02}.parquet", row_group_size=250_000)
        (target / "done").touch()
    return target
