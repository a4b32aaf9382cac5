"""The example with Kafka, its source and sink replaced by files: the connector is a jar that PySpark does not bring.

The files have the columns of Kafka's source. All between source and sink is the example's own code.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import ceql
from ceql.cli.demo import payments

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka"
RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"


def load(name: str) -> Any:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records(events: list[dict[str, Any]], first: int) -> pa.Table:
    """Events as Kafka hands them over: by key in partitions, JSON in the value."""
    rows = []
    for number, event in enumerate(events, first):
        value = {**event, "time": event["time"].isoformat() + "Z"}
        rows.append(
            {
                "key": str(event["card"]).encode(),
                "value": json.dumps(value).encode(),
                "topic": "payments",
                "partition": event["card"] % 4,
                "offset": number,
                "timestamp": event["time"],
                "timestampType": 0,
            }
        )
    return pa.Table.from_pylist(rows, RECORDS)


@pytest.fixture
def cards(tmp_path: Path) -> pa.Table:
    """The payments of some cards, one of them a victim, as two files of records; and one record that is no JSON."""
    every = payments()
    example = load("fraud_stream")
    victims = {m.partition["card"] for m in ceql.match(example.QUERY, every)}
    chosen = every.filter(pa.compute.is_in(every["card"], pa.array([*sorted(victims)[:3], 5, 6, 7], pa.int16())))
    events = chosen.to_pylist()
    end = {**events[-1], "type": "End", "time": events[-1]["time"].replace(year=2100)}
    (tmp_path / "topic").mkdir()
    half = len(events) // 2
    broken = pa.Table.from_pylist([{"key": b"5", "value": b"{", "partition": 1, "offset": 10**6}], RECORDS)
    for k, table in enumerate(
        [records(events[:half], 0), pa.concat_tables([records([*events[half:], end], half), broken])]
    ):
        file = tmp_path / "topic" / f"{k}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_000_000 + k,) * 2)
    return chosen


def test_from_kafka_to_kafka(spark: SparkSession, tmp_path: Path, cards: pa.Table) -> None:
    example, sink = load("fraud_stream"), load("idempotent")

    def run() -> None:
        topic = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "topic"))
        found = example.encoded(example.frauds(example.decoded(topic)))
        writer = found.writeStream.foreachBatch(sink.by_batch(str(tmp_path / "frauds")))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def written() -> list[tuple[str, dict[str, Any]]]:
        rows = spark.read.parquet(str(tmp_path / "frauds")).collect()
        return [(key, json.loads(value)) for key, value in sorted((row["key"], row["value"]) for row in rows)]

    run()
    first = written()
    table = ceql.match(example.QUERY, cards)
    expected = sorted((str(m.partition["card"]), m.end_time.replace(tzinfo=UTC)) for m in table)
    assert expected
    assert sorted((key, datetime.fromisoformat(value["end_time"])) for key, value in first) == expected
    assert len({value["id"] for _, value in first}) == len(first)
    assert {"tries_amount", "cash_amount", "cash_country"} < first[0][1].keys()
    # a crash after the last write, before Spark has noted it: the micro-batch is run again, and replaces its rows
    done = tmp_path / "checkpoint" / "commits"
    last = max(int(file.name) for file in done.iterdir() if file.name.isdigit())
    (done / str(last)).unlink()
    (done / f".{last}.crc").unlink()
    run()
    assert written() == first
