"""What one takes along from the studio: the query as a program or command, the matches as a file."""

from __future__ import annotations

import io
import shlex
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from ceql.cli.demo.show import SAMPLE
from ceql.recognition.result_columns import renumbered
from ceql.results.text import to_python
from ceql.studio.data import Data
from ceql.studio.match_index import MatchIndex


def code(query: str, data: Data | None) -> dict[str, str]:
    """The query over the data as Python, as PySpark and as a command."""
    paths = _paths(data)
    named = {name: path for name, path in paths.items() if name is not None}
    events = repr(named) if named else repr(paths[None])
    read = "{" + ", ".join(f"{name!r}: {_reader(path)}" for name, path in named.items()) + "}"
    files = " ".join(f"{name}={shlex.quote(path)}" for name, path in named.items()) or shlex.quote(paths[None])
    options = _options(data)
    text = query.strip().replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    arguments = "".join(f", {name}={value!r}" for name, value in options.items())
    python = f'''import ceql

matches = ceql.match("""
{text}
""", {events}{arguments})
print(matches)
matches.to_arrow()                # or to_pandas(), to_polars(), events()
'''
    pyspark = f'''from pyspark.sql import SparkSession

from ceql.spark import match

spark = SparkSession.builder.getOrCreate()
events = {read if named else _reader(paths[None])}
matches = match("""
{text}
""", events{arguments})
matches.show()
'''
    flags = "".join(f" --{name.replace('_', '-')} {shlex.quote(value or '')}" for name, value in options.items())
    command = f"cat > query.ceql <<'CEQL'\n{query.strip()}\nCEQL\nceql run query.ceql {files}{flags}\n"
    return {"python": python, "pyspark": pyspark, "cli": command}


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


def _reader(path: str) -> str:
    if path.endswith((".csv", ".csv.gz")):
        return f"spark.read.csv({path!r}, header=True, inferSchema=True)"
    if path.endswith((".json", ".jsonl", ".ndjson")):
        return f"spark.read.json({path!r})"
    return f"spark.read.parquet({path!r})"


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
