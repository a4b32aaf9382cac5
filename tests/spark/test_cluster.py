"""On a standalone cluster and through Spark Connect it is as in one process: `make spark-cluster`.

The servers are processes of this machine. They take a minute or two, so `make test` leaves this out.
"""

from __future__ import annotations

import json
import os
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceql
import client
import servers
from ceql import warm

pytestmark = pytest.mark.skipif("CEQL_CLUSTER" not in os.environ, reason="make spark-cluster runs it")
CLIENT = Path(client.__file__)
ROWS = 300


@pytest.fixture
def events(tmp_path: Path) -> pa.Table:
    """Events in order of time, in files that a stream takes one after another."""
    draw = random.Random(3)
    rows = [
        {"type": draw.choice("ABC"), "time": 1_700_000_000_000_000 + 2000 * n, "k": draw.choice("vwxyz"), "id": n}
        for n in range(ROWS)
    ]
    for n, kind in ((ROWS - 2, "A"), (ROWS - 1, "B")):  # a match that waits for the watermark
        rows[n] |= {"type": kind, "k": "x"}
    schema = pa.schema(
        [("type", pa.string()), ("time", pa.timestamp("us", "UTC")), ("k", pa.string()), ("id", pa.int64())]
    )
    table = pa.Table.from_pylist(rows, schema)
    (tmp_path / "events").mkdir()
    for k in range(2):
        file = tmp_path / "events" / f"{k}.parquet"
        pq.write_table(table.slice(k * ROWS // 2, ROWS // 2), file)
        os.utime(file, (1_000_000 + k,) * 2)
    return table


def check(found: dict[str, Any], events: pa.Table) -> None:
    keyed = sorted(list(m.events) for m in ceql.match(client.KEYED, events))
    assert found["keyed"] == keyed
    assert found["chunked"] == sorted(list(m.events) for m in ceql.match(client.WHOLE, events))
    assert found["rows"] == 2 * len(keyed)
    assert sorted(found["stream"] + found["rest"]) == keyed
    assert found["rest"]
    assert "would give nothing, ever" in found["refused"]
    assert found["error"].startswith("DataError: two events of one substream have the same time")


def test_a_standalone_cluster(tmp_path: Path, events: pa.Table) -> None:
    with servers.cluster(tmp_path) as master:
        found = json.loads(servers.run(CLIENT, str(tmp_path), environment={"CEQL_MASTER": master}))
    check(found, events)
    assert found["places"] == 2


@pytest.mark.skipif(find_spec("grpc") is None, reason="Spark Connect needs pip install 'ceql[connect]'")
def test_spark_connect(tmp_path: Path, events: pa.Table) -> None:
    with servers.connect_server(tmp_path) as remote:
        found = json.loads(servers.run(CLIENT, str(tmp_path), environment={"CEQL_REMOTE": remote}))
    check(found, events)


FIRST = Path(client.__file__).with_name("first_task.py")


def check_first_task(said: str, folder: Path, events: pa.Table) -> None:
    queries = (client.KEYED, client.WHOLE)
    assert json.loads(said) == {"found": [ceql.match(query, events).count() for query in queries], "sent again": 0}
    assert not list((folder / "empty").rglob("*.nbc"))
    assert not (folder / "compiled").exists()


def test_the_first_tasks_of_a_cluster_compile_nothing(tmp_path: Path, events: pa.Table) -> None:
    assert not warm.check(), "`ceql warm` makes the driver ready"
    with servers.cluster(tmp_path) as master:
        said = servers.run(FIRST, str(tmp_path), environment={"CEQL_MASTER": master})
    check_first_task(said, tmp_path, events)


@pytest.mark.skipif(find_spec("grpc") is None, reason="Spark Connect needs pip install 'ceql[connect]'")
def test_the_first_tasks_of_connect_compile_nothing(tmp_path: Path, events: pa.Table) -> None:
    assert not warm.check(), "`ceql warm` makes the driver ready"
    empty = {"NUMBA_CACHE_DIR": str(tmp_path / "empty"), "CEQL_COMPILED": str(tmp_path / "compiled")}
    settings = {f"spark.executorEnv.{name}": value for name, value in empty.items()}
    with servers.connect_server(tmp_path, **settings) as remote:
        said = servers.run(FIRST, str(tmp_path), environment={"CEQL_REMOTE": remote})
    check_first_task(said, tmp_path, events)
