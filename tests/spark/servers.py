"""Spark's own servers as processes of this machine: a standalone cluster, and a server of Spark Connect.

They are those of the PySpark wheel, bound to 127.0.0.1, on ports that are free.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

import ceql.spark

HOME = Path(pyspark.__file__).parent
SECONDS = 180  # for a server to come up; the machine may be busy


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """A master and its workers, of one core each; gives the master's address."""
    with ExitStack() as stack:
        command = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = stack.enter_context(_server(folder / "master.log", command))
        address = _wait(log, r"Starting Spark master at (spark://\S+)")
        for k in range(workers):
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            place = ["--work-dir", str(folder / f"worker{k}"), address]
            own = stack.enter_context(
                _server(folder / f"worker{k}.log", ["org.apache.spark.deploy.worker.Worker", *options, *place])
            )
            _wait(own, "Successfully registered with master")
        yield address


@contextmanager
def connect_server(folder: Path, master: str = "local[2]", **settings: str) -> Iterator[str]:
    """A server of Spark Connect; gives the address for `SparkSession.builder.remote`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **settings,
    }
    command = ["org.apache.spark.deploy.SparkSubmit", "--master", master]
    for key, value in given.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with _server(folder / "connect.log", command) as log:
        _wait(log, r"Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"


def run(script: Path, *arguments: str, environment: dict[str, str] | None = None, python: str = sys.executable) -> str:
    """What a script prints to stdout, run as a process of its own, which must succeed."""
    done = subprocess.run(
        [python, str(script), *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    return done.stdout


@contextmanager
def _server(log: Path, command: list[str]) -> Iterator[Path]:
    ceql.spark.prepare()  # for JAVA_HOME
    log.parent.mkdir(parents=True, exist_ok=True)
    settings = log.with_suffix(".properties")
    settings.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\nappender.out.type = Console\n"
        "appender.out.name = out\nappender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %m%n%ex\n"
    )
    options = f"-Dlog4j2.configurationFile={settings.as_uri()} -XX:TieredStopAtLevel=1"
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": options,
        "SPARK_WORKER_OPTS": options,
        "SPARK_SUBMIT_OPTS": options,
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *command], env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(log: Path, pattern: str) -> str:
    """Wait until the log has a line like this; gives its first group."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[found.re.groups]
        time.sleep(0.2)
    raise TimeoutError(f"{log}: {log.read_text(errors='replace')[-4000:]}")
