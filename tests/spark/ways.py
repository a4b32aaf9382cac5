"""Cases through Spark, many in one job: starting a job costs more than running a case.

Every event gets its position as the column `pos`, which identifies it in the result and orders ties. What comes back is
compared with what the engine finds in one process, which the other tests hold to the oracle.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import ceql
import paths
from ceql.recognition.options import Options
from ceql.spark import match, packing, streaming
from ceql.spark.match_options import MatchArguments
from ceql.spark.prepare import prepare
from ceql.spark.stream_job import job_of

POSITION, STAMP = "pos", "stamp"
ZONE = "Europe/Paris"  # of the session; not UTC, so that a slip shows
EPOCH = 1_700_000_000_000  # in milliseconds: where the times of a stream begin
MICROSECONDS = {"s": 10**6, "ms": 1000, "us": 1, "ns": 0.001}
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
        whole: list[Any] = [e.get(time) for e in events]
        timed = bool(events) and all(isinstance(t, int) for t in whole) and whole == sorted(whole)
        streams = query.plan.query.streams
        of = [e.get(paths.BOOKKEEPING) for e in events]
        for name, table in tables.items():
            mine = [k for k in range(len(events)) if name is None or of[k] == name or len(streams) < 2]
            positions = pa.array(mine, pa.int64())
            tick = MICROSECONDS[time_unit] if timed else 1000
            stamps = pa.array([EPOCH * 1000 + int((whole[k] if timed else k) * tick) for k in mine], pa.int64())
            table = table.append_column(POSITION, positions)
            table = table.append_column(STAMP, stamps.cast(pa.timestamp("us", "UTC")))
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
        time = self.options["time"]
        rows = [row for table in self.tables.values() for row in table.select(list({time, POSITION})).to_pylist()]
        streams = [k for k, table in enumerate(self.tables.values()) for _ in range(table.num_rows)]
        merged = sorted(range(len(rows)), key=lambda k: (rows[k][time], streams[k], k))
        place = [rows[k][POSITION] for k in merged]
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
    keys = _keys(example, [row[name] for name in names[:at]])
    columns = example.query.plan.columns
    variables = {column: row[name] for column, name in zip(columns, names[at + 2 :], strict=False)}  # measures follow
    start, end = (row["start_time"], row["end_time"]) if timed else (None, None)
    return _canonical(row["events"], {n: tuple(v) for n, v in variables.items()}, start, end, keys)


def _keys(example: Example, values: list[Any]) -> dict[str, Any]:
    """The keys of a row as `Match.partition` has them: by the names in the clause."""
    names = [part.refs[0].attribute for part in example.query.plan.shown_keys]
    return dict(zip(names, values, strict=True))


def in_one_job(examples: Sequence[Example], results: Sequence[DataFrame]) -> DataFrame:
    """The results of many queries as one DataFrame: which, and the row as JSON."""
    rows = []
    for k, df in enumerate(results):
        row = F.to_json(F.struct(*[_shown(df, name) for name in df.columns]), {"ignoreNullFields": "false"})
        rows.append(df.select(F.lit(k).alias("case"), row.alias("row")))
    return reduce(DataFrame.unionAll, rows)


def _shown(df: DataFrame, name: str) -> Any:
    column = F.col(f"`{name}`")
    if df.schema[name].dataType.simpleString() in ("boolean", "date"):
        return column.cast("string").alias(name)
    return column.alias(name)


def gather(examples: Sequence[Example], rows: Sequence[Any], timed: bool = True) -> list[Counter[str]]:
    found: list[Counter[str]] = [Counter() for _ in examples]
    for row in rows:
        found[row["case"]][read(examples[row["case"]], json.loads(row["row"]), timed)] += 1
    return found


def run_batch(spark: SparkSession, examples: Sequence[Example], partitions: Sequence[int | None]) -> list[Counter[str]]:
    """Each example in its number of partitions."""
    results = [
        match(
            example.frames(spark, shuffle=k),
            example.query,
            order_by=POSITION,
            events="ids",
            id=POSITION,
            partitions=partitions[k],
            **example.options,
        )
        for k, example in enumerate(examples)
    ]
    return gather(examples, in_one_job(examples, results).collect())


def run_stream(spark: SparkSession, examples: Sequence[Example], folder: Path, seed: int) -> list[Counter[str]]:
    """Each example as a stream of small files, arriving out of order within the lateness, cut at random.

    All share one stateful step, in which four buckets belong to each example, since a step of their own for each would
    take minutes. The rest is as `match` does it.
    """
    draw = random.Random(seed)
    prepared, terms, blobs = [], [], []
    for k, example in enumerate(examples):
        frames: dict[Any, DataFrame] = {}
        for name, table in example.tables.items():
            source = folder / f"{k}-{name}"
            write_files(table, source, draw)
            schema = spark.createDataFrame(table.slice(0, 0)).schema
            stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
            frames[name] = stream.withWatermark(STAMP, f"{LATENESS} milliseconds")
        arguments = MatchArguments(Options(example.options["type"], STAMP), (POSITION,), True, (POSITION,))
        prepared.append(prepare(frames.get(None, frames), example.query.plan, arguments))
        job = job_of(prepared[-1], 2)
        terms.append(job.terms)
        blobs.append(packing.packed(job, LATENESS).withColumn(packing.BUCKET, F.col(packing.BUCKET) + 1 + 4 * k))
    streaming.use_rocksdb(spark)
    together = reduce(DataFrame.unionAll, blobs).groupBy(packing.BUCKET)
    dispatch = _dispatcher([({0: p.spec}, a, frozenset[int](), True) for p, a in zip(prepared, terms, strict=True)])
    found = together.transformWithState(dispatch, "case int, kind int, rows long, data binary", "append", "EventTime")
    name = f"found{seed}_{folder.name.replace('-', '_')}"
    writer = found.writeStream.format("memory").queryName(name).outputMode("append")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    rows = []
    for row in spark.table(name).collect():
        if row.kind is None:  # counts
            continue
        assert row.kind == 0
        k = row["case"]
        unpack = streaming.unpacker(prepared[k].schema)
        blob = pa.RecordBatch.from_pydict({"kind": [0], "rows": [row.rows], "data": [bytes(row.data)]})
        for batch in unpack([blob]):
            batch = batch.drop_columns(["start_time", "end_time"]).append_column("start_time", pa.nulls(batch.num_rows))
            rows += [(k, m) for m in batch.to_pylist()]
    counts: list[Counter[str]] = [Counter() for _ in examples]
    for k, match_ in rows:
        counts[k][_of_stream(examples[k], match_)] += 1
    return counts


def _of_stream(example: Example, row: dict[str, Any]) -> str:
    names = [n for n in row if n not in ("start_time", "events")]
    variables = example.query.plan.columns
    first = len(names) - len(variables) - len(example.query.plan.query.measures)
    bound = {name: tuple(row[n]) for name, n in zip(variables, names[first:], strict=False)}
    return _canonical(row["events"], bound, None, None, _keys(example, [row[n] for n in names[:first]]))


def _dispatcher(given: list[Any]) -> Any:
    # local, so that workers get the class by value: they cannot import this module
    class Dispatch(streaming.BucketProcessor):
        def __init__(self) -> None:
            super().__init__(*given[0])

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            self._specs, self._terms, *_ = given[key[0] // 4]
            for row in super().handleInputRows((key[0] % 4 - 1,), rows, timerValues):
                yield Row(case=key[0] // 4, kind=row.kind, rows=row.rows, data=row.data)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
            self._specs, self._terms, *_ = given[key[0] // 4]
            for row in super().handleExpiredTimer((key[0] % 4 - 1,), timerValues, expiredTimerInfo):
                yield Row(case=key[0] // 4, kind=row.kind, rows=row.rows, data=row.data)

    return Dispatch()


def write_files(table: pa.Table, folder: Path, draw: random.Random) -> None:
    """The rows in two files, one for each micro-batch; the last has a row far in the future, that moves the
    watermark past all others."""
    folder.mkdir(parents=True)
    for k, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is None:  # as `createDataFrame` does
            table = table.set_column(k, field.name, pc.assume_timezone(table.column(k), ZONE))
    stamps = [s.value // 1000 for s in table[STAMP]]
    arrival = sorted(range(table.num_rows), key=lambda k: stamps[k] + draw.random() * (LATENESS - 0.001))
    cuts = sorted(draw.sample(range(1, len(arrival)), k=min(len(arrival) - 1, 1))) if len(arrival) > 1 else []
    end = dict.fromkeys(table.schema.names) | {STAMP: (EPOCH + 10**9) * 1000}
    last = pa.Table.from_pydict({n: pa.array([v], table.schema.field(n).type) for n, v in end.items()})
    for k, (begin, stop) in enumerate(zip([0, *cuts], [*cuts, len(arrival)], strict=True)):
        rows = table.take(pa.array(arrival[begin:stop], pa.int64()))
        file = folder / f"{k:03}.parquet"
        pq.write_table(rows if stop < len(arrival) else pa.concat_tables([rows, last]), file)
        os.utime(file, (1_000_000 + k, 1_000_000 + k))  # the source takes files in order of their age


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Without code generation, which costs more than everything else on so few rows."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
        spark.conf.unset("spark.sql.codegen.factoryMode")


def batched(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[k : k + size] for k in range(0, len(items), size)]
