"""The demonstration on Spark: the sample in Parquet files, then as a stream whose files arrive one by one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet
from rich.console import Console

from ceql.cli.demo.show import SEQUENCE, payments, show_query
from ceql.cli.spark import require_pyspark, translated_errors
from ceql.cli.table import print_table, struct_rows
from ceql.query import compile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 5
PARTITIONS = 2
DELAY = "1 minute"


def demo_on_spark() -> None:
    """Prints the matches of the query in files, and then in a stream as it arrives."""
    require_pyspark()
    events = payments()
    zoned = events["time"].cast(pa.timestamp("us", "UTC"))  # Spark's watermarks are on instants
    pieces = _pieces(events.set_column(events.column_names.index("time"), "time", zoned))
    with TemporaryDirectory(prefix="ceql-demo-") as name, translated_errors(), _session(Path(name, "log")) as spark:
        _batch(spark, pieces, Path(name, "batch"))
        _stream(spark, pieces, Path(name))


@contextmanager
def _session(log: Path) -> Iterator[SparkSession]:
    """A session whose processes log to `log`, which is shown only after an error."""
    from ceql.spark import session

    started = perf_counter()
    config = {"spark.sql.shuffle.partitions": str(PARTITIONS), "spark.sql.session.timeZone": "UTC"}
    try:
        with _stderr_to(log):
            spark = session(app="ceql demo", config=config)
        java = spark.sparkContext._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
        took = perf_counter() - started
        print(
            f"(Spark {spark.version} on Java {java}, with {spark.sparkContext.master}, was started in {took:.0f} s.)\n"
        )
        yield spark
        spark.stop()
    except Exception:
        sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
        raise


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """Makes `file` the standard error of the processes that are started meanwhile."""
    before, log = os.dup(2), os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(log)


def _batch(spark: SparkSession, pieces: list[pa.Table], folder: Path) -> None:
    from ceql.spark import match

    folder.mkdir()
    for piece in pieces:
        _write(piece, folder)
    print(f"The same events in {len(pieces)} Parquet files, and the same query on all cores, or on a whole cluster:\n")
    show_query(SEQUENCE)
    started = perf_counter()
    found = match(spark.read.parquet(str(folder)), SEQUENCE).toArrow()
    took = perf_counter() - started
    expected = compile(SEQUENCE).run(pa.concat_tables(pieces)).count()
    same = "as many as" if found.num_rows == expected else f"but there are {expected}"
    print(f"{found.num_rows} matches, {same} without Spark, found in {took:.1f} s")
    print_table(*_rows(found))


def _stream(spark: SparkSession, pieces: list[pa.Table], folder: Path) -> None:
    from ceql.spark import match

    console = Console(highlight=False, soft_wrap=True)
    print(
        "And as a stream: the files arrive one after the other, and matches are shown as they happen. Events may be out"
    )
    print(f"of order by {DELAY}, so a match waits that long, until no earlier event can come:\n")
    schema = spark.read.parquet(str(folder / "batch")).schema
    (folder / "stream").mkdir()
    arriving = spark.readStream.schema(schema).parquet(str(folder / "stream")).withWatermark("time", DELAY)
    matches = 0

    def show(batch: DataFrame, number: int) -> None:
        nonlocal matches
        found = batch.toArrow()
        matches += found.num_rows
        for time, card, tries, cash in _rows(found)[1]:
            console.print(f"  [bold red]fraud[/]  {time}  card {card:>3}  {tries:<16}  {cash}")

    checkpoint = str(folder / "checkpoint")
    found = match(arriving, SEQUENCE, buckets=PARTITIONS)
    query = found.writeStream.foreachBatch(show).option("checkpointLocation", checkpoint).start()
    try:
        for number, piece in enumerate(pieces, 1):
            until = piece["time"][-1].as_py()
            console.print(f"[dim]file {number}: {piece.num_rows:,} events until {until:%H:%M:%S}[/]")
            _write(piece, folder / "stream")
            query.processAllAvailable()
    finally:
        query.stop()
    print(f"\n{matches} matches in the stream")


def _pieces(events: pa.Table) -> list[pa.Table]:
    size = -(-events.num_rows // FILES)
    return [events.slice(start, size) for start in range(0, events.num_rows, size)]


def _write(piece: pa.Table, folder: Path) -> None:
    """Writes a file that appears as a whole: until it is renamed, its name begins with a dot, which Spark ignores."""
    name = f"{piece['time'][0].as_py():%H%M%S}.parquet"
    parquet.write_table(piece, folder / f".{name}")
    os.replace(folder / f".{name}", folder / name)


def _rows(found: pa.Table) -> tuple[list[str], list[list[str]]]:
    found = found.sort_by([("end_time", "ascending"), ("start_time", "ascending")])
    return struct_rows(found, compile(SEQUENCE).plan.projections, hidden=set())
