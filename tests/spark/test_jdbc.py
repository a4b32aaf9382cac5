"""Flat results in places that take flat rows alone: PostgreSQL through JDBC, and CSV."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import maven
from ceql.spark import match, nested_to_text

EVENTS = [
    ("A", "2024-05-01 12:00:00.000001", "x", 1.5),
    ("A", "2024-05-01 12:00:01", "x", None),
    ("B", "2024-05-01 12:00:02", "x", 2.0),
]
QUERY = "SELECT a[time, v], b[v], COUNT(a) AS n, DURATION AS took WHERE A+ AS a ; B AS b PARTITION BY k WITHIN 1 MINUTE"
SCRIPT = """
import sys
sys.path[:0] = [{folder!r}]
from ceql.spark import match, nested_to_text, session
import test_jdbc
spark = session("local[1]", config={{"spark.jars": {jar!r}, "spark.sql.session.timeZone": "UTC"}})
found = match(test_jdbc.events(spark), test_jdbc.QUERY, events="columns").transform(nested_to_text)
found.write.jdbc({url!r}, "alerts", properties={{"user": "ceql", "driver": "org.postgresql.Driver"}})
"""


def events(spark: SparkSession):  # type: ignore[no-untyped-def]
    frame = spark.createDataFrame(EVENTS, "type string, time string, k string, v double")
    return frame.withColumn("time", frame["time"].cast("timestamp"))


@contextmanager
def postgres() -> Iterator[int]:
    """A server of its own, on loopback; gives its port."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found or shutil.which("psql") is None:
        pytest.skip("no PostgreSQL on this machine: apt-get install postgresql")
    binaries = found[-1].parent
    # as root, the server runs as its own user, who cannot look into pytest's folders
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="ceql-postgres-"))
    if as_user:
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)

    def run(*command: str) -> None:
        done = subprocess.run([*as_user, *command], capture_output=True, text=True, cwd=folder, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    control, data = str(binaries / "pg_ctl"), str(folder / "data")
    try:
        run(str(binaries / "initdb"), "-D", data, "-U", "ceql", "-A", "trust", "--no-sync")
        run(control, "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        yield port
    finally:
        subprocess.run([*as_user, control, "-D", data, "-m", "immediate", "stop"], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def test_into_postgresql(tmp_path: Path) -> None:
    try:
        jar = next(maven.jars("postgresql").glob("*.jar"))
    except maven.NoJarsError as error:
        pytest.skip(str(error))
    with postgres() as port:
        url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
        script = tmp_path / "write.py"
        script.write_text(SCRIPT.format(folder=str(Path(__file__).parent), jar=str(jar), url=url))
        helpers = str(Path(maven.__file__).parent)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([helpers, os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        shown = "k, end_time, a::json->0->>'time', json_array_length(a::json), b_v, n, took"
        ask = f"SET TIME ZONE 'UTC'; SELECT {shown} FROM alerts"
        command = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "ceql", "-d", "postgres", "-qtAc", ask]
        rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    first, second, both = (row.split("|") for row in sorted(rows, key=lambda row: (row.split("|")[5], row)))
    assert first[:4] == ["x", "2024-05-01 12:00:02+00", "2024-05-01T12:00:00.000001", "1"]
    assert second[2:6] == ["2024-05-01T12:00:01.000000", "1", "2", "1"]
    assert both[2:6] == ["2024-05-01T12:00:00.000001", "2", "2", "2"]
    assert "00:01.999999" in first[6]


def test_into_csv(spark: SparkSession, tmp_path: Path) -> None:
    found = match(events(spark), QUERY, events="columns").transform(nested_to_text)
    found.write.csv(str(tmp_path / "csv"), header=True, escape='"')
    rows = spark.read.csv(str(tmp_path / "csv"), header=True, escape='"').collect()
    arrays = sorted(json.loads(row["a"])[0]["v"] or 0 for row in rows)
    assert arrays == [0, 1.5, 1.5]
    assert {row["n"] for row in rows} == {"1", "2"}
    sets = match(events(spark), {"one": QUERY}).transform(nested_to_text)
    assert {kind for _, kind in sets.dtypes} <= {"string", "timestamp"}
    assert set(json.loads(sets.collect()[0]["bindings"])) == {"a", "b"}
