"""The daemon of workers: what it has loaded, and when it leaves its place to Spark's own."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ceql import jit
from ceql.spark.task_recognizer import tell_if_interpreted

PROGRAM = """
import os, sys, threading
import ceql.spark.daemon as daemon
os.execv = lambda program, arguments: (print("exec", *arguments[1:], flush=True), os._exit(0))
import pyspark.daemon
pyspark.daemon.manager = lambda: print("manager", flush=True)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Spark's own daemon is used")


def said(program: str, **environment: str) -> list[str]:
    """What a process prints that is the daemon after `program`."""
    command = [sys.executable, "-c", PROGRAM + program + "\ndaemon.main()", "pyspark.worker"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | environment  # as Spark sets it
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_workers_have_everything_from_their_first_task_on(spark: SparkSession) -> None:
    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            loaded = all(name in sys.modules for name in ("ceql.spark.rehearsal", "numba", "pyarrow.compute"))
            yield pa.RecordBatch.from_pydict({"loaded": [loaded], "frozen": [gc.get_freeze_count()]})

    for row in spark.range(4).repartition(2).mapInArrow(look, "loaded boolean, frozen long").collect():
        assert row["loaded"]
        assert row["frozen"] > 0  # of Spark's own daemon, nothing is


def test_a_thread_or_a_failure_leaves_it_to_sparks_own_daemon() -> None:
    nothing = "daemon.load = lambda: print('this goes to the log')\n"
    assert said(nothing) == ["manager"]
    thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    assert said(nothing + thread) == ["exec -m pyspark.daemon pyspark.worker"]
    failure = "def load():\n    raise OSError('no room')\ndaemon.load = load"
    assert said(failure) == ["exec -m pyspark.daemon pyspark.worker"]


def test_nothing_is_compiled_before_the_fork(tmp_path: Path) -> None:
    assert said("", NUMBA_CACHE_DIR=str(tmp_path)) == ["manager"]
    assert not list(tmp_path.rglob("*.nbc"))


def test_a_kernel_that_is_missing_is_no_failure() -> None:
    missing = """
import ceql.spark.rehearsal
from ceql.jit import kernel
from ceql.recognition.snapshot import guarded
def rehearse():
    with guarded():  # as where the state of a bucket is read
        kernel(ceql.spark.rehearsal._run)(1)
ceql.spark.rehearsal.rehearse = rehearse
"""
    assert said(missing) == ["manager"]


def test_kernels_as_plain_python_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "INTERPRETED", True)
    with pytest.warns(RuntimeWarning, match="runs kernels as plain Python"):
        tell_if_interpreted.__wrapped__()
