"""`ceql run --spark`: finds matches in files, folders and tables on a Spark cluster, or on all cores."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ceql import errors
from ceql.cli.arguments import OfRun, refuse
from ceql.cli.exit_codes import ExitCode, UsageError, say
from ceql.cli.inputs import STDIN, single_or_named
from ceql.cli.progress import StageProgress
from ceql.cli.table import print_table, struct_rows
from ceql.cli.writers import TABLE_LIMIT, Format, choose_format
from ceql.query import Query

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import Column, DataFrame, SparkSession

TABLE = "table:"
"""The prefix that marks a table among the files."""
_SUFFIXES = {
    ".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".orc": "orc",
}  # fmt: skip
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""The option of JSON that keeps microseconds, which Spark would leave out."""
_COMPRESSED = re.compile(r"\.(gz|bz2|zst|lz4|snappy|deflate)$")


def sources(events: list[str] | None, tables: list[str] | None) -> list[str]:
    """Files and tables in the form that `ceql.cli.inputs.read_events` takes.

    >>> sources(["a.parquet"], ["db.payments", "Fails=db.fails"])
    ['a.parquet', 'table:db.payments', 'Fails=table:db.fails']
    """
    found = list(events or [])
    for table in tables or []:
        stream, named, name = table.rpartition("=")
        found.append(f"{stream}{named}{TABLE}{name}")
    return found


def on_spark(job: OfRun) -> ExitCode:
    """Counts, writes or prints the matches. The exit code says whether there are any."""
    options = {**job.columns, "memory": job.memory << 20, "order_by": job.order_by or ()}
    refuse(
        "does not go with --spark",
        {
            "--lateness": options.pop("lateness"),
            "--skip-bad-lines": job.skip_bad_lines,
            "--why": job.why,
            "--input-format": job.input_format,
            "--threads": job.threads if job.threads != "auto" else None,
        },
    )
    job.events = sources(job.events, job.table)
    query, files = job.inputs()
    format = _check(job, files)
    with translated_errors(), _session(job.master) as spark:
        from ceql.spark import match
        from ceql.spark.lacking_types import tell_of_types

        frames = {name: _read(spark, paths, job.columns["time"]) for name, paths in files.items()}
        found = match(single_or_named(frames), query, **options)
        bar = StageProgress(spark, job.progress and sys.stderr.isatty())
        if job.only_count:
            with bar:
                n = found.count()
            print(n)
        elif job.out is not None:
            with bar:
                n = _write(found, format, job.out, job.limit_output)
        elif format is Format.table:
            n = _show(found, job, query, bar)
        else:
            n = _print(found, format, job.limit_output)
        if not n:
            tell_of_types(found)
    return ExitCode.DONE if n else ExitCode.NO_MATCH


def _check(job: OfRun, files: dict[str | None, list[str]]) -> Format:
    """The format. Checks all that can be checked before Spark is started, which takes seconds."""
    format = choose_format(job.format, job.file)
    if format is Format.arrow or (format is Format.table and job.out is not None):
        raise UsageError(f"--spark does not write {format.value} files: parquet, csv or json")
    if job.out is not None and Path(job.out).exists():
        raise UsageError(f"{job.out} exists already: --spark makes a folder of this name")
    for path in (path for paths in files.values() for path in paths):
        if path == STDIN:
            raise UsageError("--spark reads files, folders or a --table, not standard input")
        if not path.startswith(TABLE):
            _format_of(path)
    require_pyspark()
    return format


def require_pyspark() -> None:
    """Raises an error that says what to install if PySpark is missing."""
    if find_spec("pyspark") is None:
        raise errors.CeqlError("--spark needs PySpark: pip install 'ceql[spark]'")


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    """The running session, or a new one that is stopped at the end and logs nothing: errors come as exceptions."""
    from pyspark.sql import SparkSession

    from ceql.spark import session

    running = SparkSession.getActiveSession() is not None
    spark = session(master, config={} if running else {"spark.sql.session.timeZone": "UTC"})
    if running:
        yield spark
        return
    try:
        if hasattr(spark, "_jvm"):
            spark.sparkContext.setLogLevel("OFF")
        yield spark
    finally:
        spark.stop()


def _read(spark: SparkSession, paths: list[str], time: str) -> DataFrame:
    """One DataFrame of all paths. A column that a path lacks is NULL there. Times that are text become timestamps."""
    by_format: dict[str, list[str]] = {}
    frames = []
    for path in paths:
        if path.startswith(TABLE):
            frames.append(spark.table(path.removeprefix(TABLE)))
        else:
            by_format.setdefault(_format_of(path), []).append(path)
    for format, files in by_format.items():
        match format:
            case "csv":  # enforceSchema=False: columns in another order are an error, not mixed up
                frames.append(spark.read.csv(files, header=True, inferSchema=True, enforceSchema=False))
            case "json":
                frames.append(spark.read.json(files))
            case _:
                frames.append(spark.read.format(format).option("mergeSchema", True).load(files))
    first, *others = (_timed(frame, time) for frame in frames)
    for other in others:
        first = first.unionByName(other, allowMissingColumns=True)
    return first


def _timed(frame: DataFrame, time: str) -> DataFrame:
    text = dict(frame.dtypes).get(time) == "string"
    return frame.withColumn(time, _column(time).cast("timestamp")) if text else frame


def _format_of(path: str) -> str:
    """The format by the suffix of the path. If it has none, by the names of the files in the folder or pattern."""
    known = _by_suffix(path)
    if known is not None:
        return known
    inside = {
        _by_suffix(file.name)
        for folder in glob(path)
        for file in ([Path(folder)] if Path(folder).is_file() else Path(folder).rglob("*"))
        if file.is_file() and not file.name.startswith(("_", "."))
    }
    if len(inside) == 1 and None not in inside:
        return str(inside.pop())
    if "://" not in path and not glob(path):
        raise errors.DataError(f"no such file: {path}")
    raise UsageError(f"cannot tell the format of {path}: --spark reads *.parquet, *.csv, *.json, *.orc or a --table")


def _by_suffix(path: str) -> str | None:
    name = _COMPRESSED.sub("", path.lower().rstrip("/"))
    return _SUFFIXES.get(Path(name).suffix)


def _show(found: DataFrame, job: OfRun, query: Query, bar: StageProgress) -> int:
    """Prints a table of the first matches that Spark finds, in order of time. Returns how many."""
    limit = job.limit_output or TABLE_LIMIT
    with bar:
        table = found.limit(limit + 1).toArrow()
    more = table.num_rows > limit
    table = table.slice(0, limit).sort_by([("end_time", "ascending"), ("start_time", "ascending")])
    if table.num_rows:
        print_table(*struct_rows(table, query.plan.projections, {job.columns["type"], job.columns["time"]}))
    if more and job.limit_output is None:
        say(f"these are {limit} of the matches; --limit-output N shows more, -o FOLDER writes all, --count counts them")
    return int(table.num_rows)


def _write(found: DataFrame, format: Format, out: str, limit: int | None) -> int:
    """Writes a folder of files. Returns how many matches are in it."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation()
    found = found if limit is None else found.limit(limit)
    writer = found.observe(seen, F.count(F.lit(1)).alias("n")).select(*_flat(found, format)).write
    match format:
        case Format.csv:
            writer.csv(out, header=True)
        case Format.json:
            writer.json(out, ignoreNullFields=False, **_TIMES)
        case _:
            writer.parquet(out)
    return int(seen.get["n"])


def _print(found: DataFrame, format: Format, limit: int | None) -> int:
    """Prints matches as Spark finds them, partition after partition. Returns how many."""
    from pyspark.sql import functions as F

    found = found if limit is None else found.limit(limit)
    csv_lines = csv.writer(sys.stdout, lineterminator="\n")
    if format is Format.csv:
        csv_lines.writerow(found.columns)
        lines = found.select(*_flat(found, format))
    else:
        lines = found.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false", **_TIMES}))
    n = 0
    for line in lines.toLocalIterator():
        n += 1
        if format is Format.csv:
            csv_lines.writerow(line)
        else:
            print(line[0])
    return n


def _flat(found: DataFrame, format: Format) -> list[Column]:
    """All columns. For CSV they become text, nested ones JSON."""
    from pyspark.sql import functions as F

    if format is not Format.csv:
        return [_column(name) for name in found.columns]
    nested = ("array", "struct", "map")
    return [
        (F.to_json(_column(name), _TIMES) if kind.startswith(nested) else _column(name).cast("string")).alias(name)
        for name, kind in found.dtypes
    ]


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turns Spark's exceptions into ceql's errors. An error of a worker is found in the text of Spark's exception."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise _translated(error) from error


def _translated(error: PySparkException) -> errors.CeqlError:
    from ceql.spark.worker_errors import raised_in_task

    text = str(error)
    if (raised := raised_in_task(text)) is not None:
        return raised
    first = re.sub(r"^\[[A-Z_.]+\] | SQLSTATE: .*", "", text.strip().split("\n")[0])
    return errors.CeqlError(f"Spark: {first}")
