"""Cases through Spark, many in one job: starting a job costs more than running a case.

Every event gets its position as the column `pos`, which identifies it in the result and orders ties. What comes back is
compared with what the engine finds in one process, which the other tests hold to the oracle.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ceql
import paths
from ceql.spark import match

POSITION, STAMP = "pos", "stamp"
EPOCH = 1_700_000_000_000  # in milliseconds: where the times of a stream begin
LATENESS = 3  # in milliseconds, as the cases count time


@dataclass(frozen=True)
class Example:
    """A query and its events, ready for Spark."""

    query: ceql.Query
    tables: dict[str | None, pa.Table]
    options: dict[str, Any]

    @classmethod
    def of(cls, text: str, events: list[dict[str, Any]], time_unit: str = "ms", **options: Any) -> Example:
        query = ceql.compile(text)
        given = paths.inputs(query, events)
        tables = dict(given) if isinstance(given, dict) else {None: given}
        time = options.pop("time", "time")
        whole = [e.get(time) for e in events]
        timed = bool(events) and all(isinstance(t, int) for t in whole) and whole == sorted(whole)
        streams = query.plan.query.streams
        of = [e.get(paths.BOOKKEEPING) for e in events]
        for name, table in tables.items():
            mine = [k for k in range(len(events)) if name is None or of[k] == name or len(streams) < 2]
            positions = pa.array(mine, pa.int64())
            stamps = pa.array([EPOCH + (whole[k] if timed else k) for k in mine], pa.int64())
            table = table.append_column(POSITION, positions)
            table = table.append_column(STAMP, stamps.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")))
            tables[name] = _without_nulls(table)
        options["type"] = options.get("type", "type")
        if timed and isinstance(table.schema.field(time).type, type(pa.int64())):
            return cls(query, tables, {**options, "time": time, "time_unit": time_unit})
        return cls(query, tables, {**options, "time": POSITION, "time_unit": time_unit})

    @property
    def input(self) -> Any:
        return self.tables.get(None, self.tables)

    def frames(self, spark: SparkSession, shuffle: int | None = None) -> Any:
        def frame(table: pa.Table) -> DataFrame:
            if shuffle is not None:
                order = list(range(table.num_rows))
                random.Random(shuffle).shuffle(order)
                table = table.take(pa.array(order, pa.int64()))
            return spark.createDataFrame(table)

        made = {name: frame(table) for name, table in self.tables.items()}
        return made.get(None, made)

    def expected(self, timed: bool = True) -> Counter[str]:
        """What the engine finds."""
        matches = self.query.run(self.input, **self.options)
        rows = matches.events()
        place = dict(zip(rows["position"].to_pylist(), rows[POSITION].to_pylist(), strict=True))
        found = [
            _canonical(
                tuple(place[p] for p in m.events),
                {name: tuple(place[p] for p in own) for name, own in m.bindings.items()},
                m.start_time if timed else None,
                m.end_time if timed else None,
                m.partition,
            )
            for m in self.query.run(self.input, **self.options)
        ]
        return Counter(found)


def _without_nulls(table: pa.Table) -> pa.Table:
    """Columns of the null type, which Spark knows only without a use, as text."""
    for k, field in enumerate(table.schema):
        if pa.types.is_null(field.type):
            table = table.set_column(k, field.name, pa.nulls(table.num_rows, pa.string()))
    return table


def _canonical(events: Any, bindings: Any, start: Any, end: Any, keys: Any) -> str:
    return json.dumps([events, sorted(bindings.items()), start, end, [str(v) for v in keys.values()]])


def read(example: Example, row: dict[str, Any], timed: bool = True) -> str:
    """A row of the result as the engine's match would be written."""
    names = list(row)
    at = names.index("start_time")
    keys = {name: row[name] for name in names[:at]}
    variables = dict(zip(example.query.plan.columns, (row[n] for n in names[at + 2 : -1]), strict=True))
    start, end = (row["start_time"], row["end_time"]) if timed else (None, None)
    return _canonical(row["events"], {n: tuple(v) for n, v in variables.items()}, start, end, keys)


def in_one_job(examples: Sequence[Example], results: Sequence[DataFrame]) -> DataFrame:
    """The results of many queries as one DataFrame: which, and the row as JSON."""
    rows = []
    for k, df in enumerate(results):
        row = F.to_json(F.struct(*[_shown(df, name) for name in df.columns]), {"ignoreNullFields": "false"})
        rows.append(df.select(F.lit(k).alias("case"), row.alias("row")))
    return reduce(DataFrame.unionAll, rows)


def _shown(df: DataFrame, name: str) -> Any:
    column = F.col(f"`{name}`")
    if df.schema[name].dataType.simpleString() in ("double", "boolean", "date"):
        return column.cast("string").alias(name)
    return column.alias(name)


def gather(examples: Sequence[Example], rows: Sequence[Any], timed: bool = True) -> list[Counter[str]]:
    found: list[Counter[str]] = [Counter() for _ in examples]
    for row in rows:
        found[row["case"]][read(examples[row["case"]], json.loads(row["row"]), timed)] += 1
    return found


def run_batch(spark: SparkSession, examples: Sequence[Example], partitions: int | None) -> list[Counter[str]]:
    results = [
        match(
            example.frames(spark, shuffle=k),
            example.query,
            order_by=POSITION,
            events="ids",
            id=POSITION,
            partitions=partitions,
            **example.options,
        )
        for k, example in enumerate(examples)
    ]
    return gather(examples, in_one_job(examples, results).collect())


def run_stream(spark: SparkSession, examples: Sequence[Example], folder: Path, seed: int) -> list[Counter[str]]:
    """Each example as a stream of small files, arriving out of order within the lateness, cut at random."""
    draw = random.Random(seed)
    results = []
    for k, example in enumerate(examples):
        frames = {}
        for name, table in example.tables.items():
            source = folder / f"{k}-{name}"
            write_files(table, source, draw)
            schema = spark.createDataFrame(table.slice(0, 0)).schema
            stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
            frames[name] = stream.withWatermark(STAMP, f"{LATENESS} milliseconds")
        results.append(
            match(
                frames.get(None, frames),
                example.query,
                type=example.options["type"],
                time=STAMP,
                order_by=POSITION,
                events="ids",
                id=POSITION,
                buckets=2,
            )
        )
    together = in_one_job(examples, results)
    name = f"found{seed}_{folder.name.replace('-', '_')}"
    writer = together.writeStream.format("memory").queryName(name).outputMode("append")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return gather(examples, spark.table(name).collect(), timed=False)


def write_files(table: pa.Table, folder: Path, draw: random.Random) -> None:
    """The rows in files, one for each micro-batch, and a last row far in the future that moves the watermark on."""
    folder.mkdir(parents=True)
    stamps = [s.value // 1000 for s in table[STAMP]]
    arrival = sorted(range(table.num_rows), key=lambda k: stamps[k] + draw.random() * (LATENESS - 0.001))
    cuts = sorted(draw.sample(range(1, len(arrival)), k=min(len(arrival) - 1, 3))) if len(arrival) > 1 else []
    files = [arrival[a:b] for a, b in zip([0, *cuts], [*cuts, len(arrival)], strict=True)]
    for k, rows in enumerate(files):
        pq.write_table(table.take(pa.array(rows, pa.int64())), folder / f"{k:03}.parquet")
    end = dict.fromkeys(table.schema.names) | {STAMP: (EPOCH + 10**9) * 1000}
    last = pa.Table.from_pydict({n: pa.array([v], table.schema.field(n).type) for n, v in end.items()})
    pq.write_table(last, folder / f"{len(files):03}.parquet")
    for k in range(len(files) + 1):  # the source takes files in order of their age
        os.utime(folder / f"{k:03}.parquet", (1_000_000 + k, 1_000_000 + k))


def batched(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[k : k + size] for k in range(0, len(items), size)]
