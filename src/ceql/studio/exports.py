"""Exports from the studio: the query as a program or command, the matches as a file."""

from __future__ import annotations

import io
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from ceql.cli.demo.show import SAMPLE
from ceql.errors import DataError
from ceql.io.formats import format_of, format_of_name
from ceql.recognition.result_columns import renumbered
from ceql.results.text import to_python
from ceql.studio.data import Data
from ceql.studio.match_index import MatchIndex


def code(query: str, data: Data | None) -> dict[str, str]:
    """The query over the data as Python, as PySpark and as a command."""
    paths = _paths(data)
    named = {name: path for name, path in paths.items() if name is not None}
    options = _options(data)
    text = query.strip().replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    arguments = "".join(f", {name}={value!r}" for name, value in options.items())
    python = f'''import ceql

matches = ceql.match("""
{text}
""", {named or paths[None]!r}{arguments})
print(matches)
matches.to_arrow()                # or to_pandas(), to_polars(), events()
'''
    files = " ".join(f"{name}={shlex.quote(path)}" for name, path in named.items()) or shlex.quote(paths[None])
    flags = "".join(f" --{name.replace('_', '-')} {shlex.quote(value or '')}" for name, value in options.items())
    command = f"cat > query.ceql <<'CEQL'\n{query.strip()}\nCEQL\nceql run query.ceql {files}{flags}\n"
    return {"python": python, "pyspark": _pyspark(text, paths, arguments, data), "cli": command}


def _pyspark(text: str, paths: dict[str | None, str], arguments: str, data: Data | None) -> str:
    if data is not None and data.columns.time is None:
        return "# Spark has no order of rows: choose the column of times first, or add one.\n"
    readers = {name: _reader(path, data) for name, path in paths.items()}
    named = ",\n".join(f"    {name!r}: {reader}" for name, (reader, _) in readers.items())
    read = readers[None][0] if None in readers else f"{{\n{named},\n}}"
    imports = {"from pyspark.sql import SparkSession"} | {line for _, line in readers.values() if line}
    head = "\n".join(sorted(imports, key=lambda line: (line.startswith("from"), line)))
    return f'''{head}

from ceql.spark import match

spark = SparkSession.builder.getOrCreate()
events = {read}
matches = match(events, """
{text}
"""{arguments})
matches.show()
'''


def _paths(data: Data | None) -> dict[str | None, str]:
    """The files by the names of their streams; None for the only one."""
    if data is None:
        return {None: "events.parquet"}
    if data.parts:
        known = data.origin.get("streams", {})
        return {name: str(known.get(name) or f"{name}.parquet") for name in data.parts}
    return {None: str(data.origin.get("path") or (SAMPLE if "example" in data.origin else data.name))}


def _options(data: Data | None) -> dict[str, str | None]:
    """The arguments that are not those that a call has anyway."""
    if data is None:
        return {}
    columns, names = data.columns, data.table.schema.names
    named = {"type": columns.type, "time": columns.time}
    found = {name: column for name, column in named.items() if column != name and (column or name in names)}
    if columns.time_unit is not None:
        found["time_unit"] = columns.time_unit
    return found


def _reader(path: str, data: Data | None) -> tuple[str, str]:
    """An expression that reads a file on Spark, and the line that imports what it needs."""
    match _format(Path(path)):
        case "csv":
            return f"spark.read.csv({path!r}, header=True, inferSchema=True)", ""
        case "tsv":
            return f"spark.read.csv({path!r}, sep='\\t', header=True, inferSchema=True)", ""
        case "json":
            times = _to_times(data)
            return f"spark.read.json({path!r}){times}", "from pyspark.sql import functions as F" if times else ""
        case "arrow":
            return f"spark.createDataFrame(pa.ipc.open_file({path!r}).read_all())", "import pyarrow as pa"
    return f"spark.read.parquet({path!r})", ""


def _format(path: Path) -> str | None:
    """The format of a file, which is not here if it was uploaded."""
    try:
        return format_of(path)
    except (OSError, DataError):
        return format_of_name(path)


def _to_times(data: Data | None) -> str:
    """JSON has times as text; the studio has read them."""
    if data is None or data.columns.time is None:
        return ""
    name, kind = data.columns.time, data.table.schema.field(data.columns.time).type
    if not pa.types.is_timestamp(kind):
        return ""
    function = "to_timestamp" if kind.tz else "to_timestamp_ntz"
    return f".withColumn({name!r}, F.{function}({name!r}))"


def matches_file(index: MatchIndex, format: str) -> bytes:
    """The matches as Parquet, or as CSV with lists as text. Rows have the numbers that they have in the file."""
    table = index.table
    data = index.run.data
    if data.given is not None:
        table = pa.Table.from_batches([renumbered(index.batch, data.given)])
    out = io.BytesIO()
    if format == "parquet":
        parquet.write_table(table, out)
    else:
        csv.write_csv(pa.table({name: _flat(table[name]) for name in table.schema.names}), out)
    return out.getvalue()


def _flat(column: pa.ChunkedArray) -> Any:
    if not pa.types.is_nested(column.type):
        return column
    return pa.array([None if value is None else str(value) for value in to_python(column)], pa.string())
