"""`ceql run --spark`: the same matches as without it, from and to what Spark reads and writes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException
from rich.console import Console
from typer.testing import CliRunner

from ceql.cli.app import app
from ceql.cli.progress import StageProgress
from ceql.cli.spark import _translated
from ceql.errors import CeqlError, DataError, ResourceError

EVENTS = [
    {"type": "A", "k": 1, "v": 10, "time": "2024-01-01T00:00:00"},
    {"type": "A", "k": 2, "v": 20, "time": "2024-01-01T00:00:01.5"},
    {"type": "B", "k": 1, "v": 30, "time": "2024-01-01T00:00:02"},
    {"type": "B", "k": 2, "v": 40, "time": "2024-01-01T00:01:00"},
]
QUERY = "SELECT x[v], y WHERE A AS x ; B AS y PARTITION BY k"
LETTERS = "SELECT * WHERE A ; B"

pytestmark = pytest.mark.usefixtures("spark")


def call(*arguments: object):
    return CliRunner().invoke(app, ["run", *(str(a) for a in arguments), "--spark"])


def lines_of(events) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text(lines_of(EVENTS))
    return path


def found(text: str) -> list[tuple[int, list[int], list[int]]]:
    matches = map(json.loads, text.splitlines())
    return sorted((m["k"], [e["v"] for e in m["x"]], [e["v"] for e in m["y"]]) for m in matches)


def test_json_has_one_match_per_line_with_its_events(events):
    result = call(QUERY, events, "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert found(result.stdout) == [(1, [10], [30]), (2, [20], [40])]
    first = json.loads(min(result.stdout.splitlines()))
    assert list(first) == ["k", "start_time", "end_time", "x", "y", "events"]
    assert first["x"] == [{"v": 10}]
    assert first["start_time"] == "2024-01-01T00:00:00.000000+01:00"


def test_times_keep_their_microseconds(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text(lines_of({**event, "time": str(event["time"])[:19] + ".123456"} for event in EVENTS))
    for match in map(json.loads, call(QUERY, path, "--format", "json").stdout.splitlines()):
        assert match["end_time"][19:26] == match["y"][0]["time"][19:26] == ".123456"
    out = tmp_path / "out.json"
    call(QUERY, path, "-o", out)
    for line in "".join(file.read_text() for file in out.glob("*.json")).splitlines():
        assert json.loads(line)["end_time"][19:26] == ".123456"


def test_the_table_is_for_people(events):
    result = call(QUERY, events)
    assert result.exit_code == 0, result.stderr
    head, _, first, second = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert head == ["time", "k", "x", "y"]
    assert first[-3:] == ["1", "10", "v=30"]
    assert second[-3:] == ["2", "20", "v=40"]


def test_a_table_of_many_matches_says_that_it_is_not_all(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("type,time\n" + "".join(f"A,{k}\n" for k in range(150)))
    result = call("SELECT * WHERE A PARTITION BY type", path)
    assert "these are 100 of the matches" in result.stderr
    assert call("SELECT * WHERE A PARTITION BY type", path, "--count").stdout == "150\n"
    few = call("SELECT * WHERE A PARTITION BY type", path, "--format", "json", "--limit-output", 3)
    assert len(few.stdout.splitlines()) == 3


def test_folders_patterns_and_formats_are_read_as_one_stream(tmp_path):
    folder = tmp_path / "days"
    folder.mkdir()
    for k, event in enumerate(EVENTS[:2]):
        parquet.write_table(pa.Table.from_pylist([event]), folder / f"{k}.parquet")
    (tmp_path / "more.json").write_text(lines_of(EVENTS[2:3]))
    (tmp_path / "most.csv").write_text("type,v,time,k\nB,40,2024-01-01T00:01:00,2\n")
    for first in (folder, folder / "*.parquet"):
        result = call(QUERY, first, tmp_path / "mo*.json", tmp_path / "most.csv", "--format", "json")
        assert result.exit_code == 0, result.stderr
        assert found(result.stdout) == [(1, [10], [30]), (2, [20], [40])]


def test_several_streams_and_tables(spark, tmp_path):
    (tmp_path / "up.json").write_text(lines_of({"time": t} for t in (1, 4)))
    spark.createDataFrame([(2,), (3,)], "time long").createOrReplaceTempView("downs")
    query = "SELECT * FROM Up, Down WHERE Up : Down WITHIN 10 [time]"
    result = call(query, f"Up={tmp_path}/up.json", "--table", "Down=downs", "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert [(m["start_time"], m["end_time"]) for m in map(json.loads, result.stdout.splitlines())] == [(1, 2)]
    spark.createDataFrame([("A", 1), ("B", 2)], "type string, at long").createOrReplaceTempView("letters")
    one = call(LETTERS, "--table", "letters", "--time", "at", "--time-unit", "s", "--count")
    assert (one.stdout, one.exit_code) == ("1\n", 0)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_matches_go_to_folders(spark, events, tmp_path, suffix):
    out = tmp_path / f"out.{suffix}"
    result = call(QUERY, events, "-o", out)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    if suffix == "csv":
        rows = spark.read.csv(str(out), header=True).collect()
        assert sorted((r.k, json.loads(r.y)[0]["v"]) for r in rows) == [("1", 30), ("2", 40)]
    else:
        rows = spark.read.format(suffix).load(str(out)).collect()
        assert sorted((r.k, r.y[0].v) for r in rows) == [(1, 30), (2, 40)]
    again = call(QUERY, events, "-o", out)
    assert again.exit_code == 2
    assert "exists already" in again.stderr


@pytest.mark.filterwarnings("default:no event has the type")
def test_no_match_is_told_by_the_exit_code_and_leaves_a_folder_with_columns(spark, events, tmp_path):
    out = tmp_path / "out.parquet"
    result = call("SELECT x WHERE C AS x PARTITION BY k", events, "-o", out)
    assert result.exit_code == 1
    assert "no event has the type that the query names ('C'): the column 'type' has 'A', 'B'" in result.stderr
    assert spark.read.parquet(str(out)).columns == ["k", "start_time", "end_time", "x", "events"]


def test_csv_on_standard_output(events):
    rows = list(csv.DictReader(io.StringIO(call(QUERY, events, "--format", "csv").stdout)))
    assert sorted((row["k"], json.loads(row["x"])) for row in rows) == [("1", [{"v": 10}]), ("2", [{"v": 20}])]


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (2, "--lateness does not go with --spark", [LETTERS, "EVENTS", "--lateness", "5 seconds"]),
        (2, "--skip-bad-lines does not go with --spark", [LETTERS, "EVENTS", "--skip-bad-lines"]),
        (2, "not standard input", [LETTERS]),
        (2, "does not write arrow", [LETTERS, "EVENTS", "-o", "out.arrow"]),
        (2, "does not write table", [LETTERS, "EVENTS", "-o", "out.txt"]),
        (2, "needs a file", [LETTERS, "EVENTS", "--format", "parquet"]),
        (2, "cannot tell the format of", [LETTERS, __file__]),
        (3, "no such file: missing", [LETTERS, "missing"]),
        (3, "missing.parquet", [LETTERS, "missing.parquet"]),
        (3, "no_such_table", [LETTERS, "--table", "no_such_table"]),
        (3, "no column 'w'", ["SELECT * WHERE A FILTER A[w > 1]", "EVENTS"]),
        (3, "is running already", [LETTERS, "EVENTS", "--master", "local[7]"]),
        (3, "soon", [LETTERS, "BAD"]),
    ],
)
def test_exit_codes(events, tmp_path, code, message, arguments):
    (tmp_path / "bad.json").write_text(lines_of([{"type": "A", "time": "soon"}]))
    paths = {"EVENTS": str(events), "BAD": str(tmp_path / "bad.json")}
    result = call(*(paths.get(a, a) for a in arguments))
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("option", "value"), [("--master", "local"), ("--table", "t"), ("--order-by", "v")])
def test_options_of_spark_need_it(events, option, value):
    result = CliRunner().invoke(app, ["run", LETTERS, str(events), option, value])
    assert result.exit_code == 2
    assert f"{option} needs --spark" in result.stderr


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        ("ceql.errors.DataError: a NULL\nin it\n\nDriver stacktrace:", DataError, "a NULL\nin it"),
        ("ceql.errors.ResourceError: memory is full SQLSTATE: 38000", ResourceError, "memory is full"),
        ("ValueError: what", CeqlError, "Spark: An exception was thrown from the Python worker"),
    ],
)
def test_what_a_worker_raises_is_what_is_said(raised, kind, message):
    text = f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: \nTraceback (most recent):\n{raised}\n"
    error = _translated(PySparkException(text))
    assert type(error) is kind
    assert str(error).startswith(message)


def test_the_bar_shows_stages(spark):
    screen = io.StringIO()

    def slow(batches):
        time.sleep(1)
        yield from batches

    with StageProgress(spark, wanted=True, console=Console(file=screen, force_terminal=True, width=100), patience=0):
        spark.range(4, numPartitions=4).mapInArrow(slow, "id long").count()
    assert "stage" in screen.getvalue()
    assert "/4" in screen.getvalue()


def test_a_process_of_its_own(events):
    """With a session of its own, in UTC and stopped in the end; stdout has the matches alone."""
    command = [sys.executable, "-m", "ceql", "run", QUERY, str(events), "--spark", "--master", "local[1]"]
    done = subprocess.run(
        [*command, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "TZ": "Asia/Tokyo"},
    )
    assert done.returncode == 0, done.stderr
    assert found(done.stdout) == [(1, [10], [30]), (2, [20], [40])]
    assert json.loads(min(done.stdout.splitlines()))["end_time"] == "2024-01-01T00:00:02.000000Z"
    assert "WARN " not in done.stderr


def test_without_its_extra_it_says_what_to_install(events, monkeypatch):
    monkeypatch.setattr("ceql.cli.spark.find_spec", lambda name: None)
    result = call(LETTERS, events)
    assert result.exit_code == 3
    assert "pip install 'ceql[spark]'" in result.stderr


def test_the_demo_finds_the_frauds():
    done = subprocess.run(
        [sys.executable, "-m", "ceql", "demo", "--spark"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "7 matches, as many as without Spark" in done.stdout
    assert "7 matches in the stream" in done.stdout
    assert done.stdout.count("card 213") == 1
    assert done.stdout.rindex("card 357") < done.stdout.index("file 2") < done.stdout.index("card 213")
