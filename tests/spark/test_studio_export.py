"""The PySpark programs that the studio exports run as they are, for files of every format."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from pyspark.sql import SparkSession
from tests.studio.served import Studio, serving

from ceql.studio.examples import EXAMPLES
from ceql.studio.session import Session

QUERY = "SELECT * WHERE Door AS d ; Load AS l FILTER l[watts > 100] WITHIN 15 SECONDS"
BEGUN = datetime(2024, 5, 1, 23, 59, 50)
SECONDS = (0, 1, 5, 10, 20, 21)  # Spark has no order of events at the same time
TABLE = pa.table(
    {
        "type": ["Door", "Load", "Load", "Door", "Load", "Load"],
        "time": [BEGUN + timedelta(seconds=k) for k in SECONDS],
        "watts": [0, 150, 20, 0, 300, 900],
        "who": ['it\'s "me"', "b,c", "d\\e", "f", "g", "h"],
    }
)
LINES = "".join(
    f'{{"type": "{row["type"]}", "time": "{row["time"].isoformat()}", "watts": {row["watts"]}}}\n'
    for row in TABLE.to_pylist()
).encode()


def as_csv(delimiter: str = ",") -> bytes:
    out = io.BytesIO()
    csv.write_csv(TABLE, out, csv.WriteOptions(delimiter=delimiter))
    return out.getvalue()


WRITERS: dict[str, Callable[[Path], Any]] = {
    "e.parquet": lambda path: parquet.write_table(TABLE, path),
    "e.csv": lambda path: path.write_bytes(as_csv()),
    "e.csv.gz": lambda path: path.write_bytes(gzip.compress(as_csv())),
    "e.tsv": lambda path: path.write_bytes(as_csv("\t")),
    "e.jsonl": lambda path: path.write_bytes(LINES),
    "e.json.gz": lambda path: path.write_bytes(gzip.compress(LINES)),
    "e.feather": lambda path: feather.write_feather(TABLE, path),
    "the 'events'": lambda path: path.write_bytes(LINES),
}


@pytest.fixture
def studio() -> Any:
    with serving(Session()) as found:
        yield found


def rows(program: str, capsys: pytest.CaptureFixture[str]) -> int:
    """Run a program as a user would; how many matches it has."""
    scope: dict[str, Any] = {}
    exec(program, scope)
    assert "|" in capsys.readouterr().out  # show() has drawn a table
    return int(scope["matches"].count())


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_any_format(
    spark: SparkSession, studio: Studio, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    WRITERS[name](tmp_path / name)
    data = studio.tell("/api/data", path=str(tmp_path / name))["id"]
    found = studio.run(QUERY, data)
    assert (found["state"], found["matches"]) == ("done", 3), found
    assert rows(studio.tell("/api/code", query=QUERY, data=data)["pyspark"], capsys) == 3


def test_the_example(spark: SparkSession, studio: Studio, capsys: pytest.CaptureFixture[str]) -> None:
    code = studio.tell("/api/code", query=EXAMPLES[0].text, data=studio.load())
    assert rows(code["pyspark"], capsys) == 7


def test_other_columns_and_a_unit(
    spark: SparkSession, studio: Studio, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv.write_csv(pa.table({"what": ["A", "B"], "at": [1000, 2000]}), tmp_path / "e.csv")
    data = studio.tell("/api/data", path=str(tmp_path / "e.csv"), type="what", time="at", unit="ms")["id"]
    query = "SELECT * WHERE A ; B WITHIN 1 SECOND"
    assert rows(studio.tell("/api/code", query=query, data=data)["pyspark"], capsys) == 1


def test_several_streams(
    spark: SparkSession, studio: Studio, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    door = TABLE.filter(pa.compute.equal(TABLE["type"], "Door")).select(["time", "who"])
    load = TABLE.filter(pa.compute.equal(TABLE["type"], "Load")).select(["time", "watts"])
    csv.write_csv(door, tmp_path / "Door.csv")
    csv.write_csv(load, tmp_path / "Load.tsv", csv.WriteOptions(delimiter="\t"))
    named = {"Door": str(tmp_path / "Door.csv"), "Load": str(tmp_path / "Load.tsv")}
    data = studio.tell("/api/data", streams=named)["id"]
    query = "SELECT * FROM Door, Load " + QUERY.partition("* ")[2]
    assert studio.run(query, data)["matches"] == 3
    assert rows(studio.tell("/api/code", query=query, data=data)["pyspark"], capsys) == 3


def test_events_without_times_have_no_order_on_spark(studio: Studio, tmp_path: Path) -> None:
    csv.write_csv(pa.table({"type": ["A", "B"], "v": [1, 2]}), tmp_path / "e.csv")
    data = studio.tell("/api/data", path=str(tmp_path / "e.csv"))["id"]
    code = studio.tell("/api/code", query="SELECT * WHERE A ; B", data=data)["pyspark"]
    assert code.startswith("# Spark")
    exec(code, {})
