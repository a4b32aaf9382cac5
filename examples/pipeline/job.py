"""Rules over a Kafka topic of JSON events. Alerts go to a topic and, each once, to a table; bad records to a topic.

    python job.py --rules rules --table alerts --checkpoint checkpoint          # until it is stopped
    python job.py --rules rules --table alerts --checkpoint checkpoint --once   # all there is, then end
    python job.py --send events.parquet                                         # put events into the topic

docs/kafka.md walks through it.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from ceql.spark import match, serve_metrics, session

VALUE = "id LONG, type STRING, time TIMESTAMP, amount DOUBLE, country STRING"
"""What the value of a record holds, as JSON; the card is the record's key."""
PACKAGES = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
OPTIONS: Any = {"order_by": "id", "events": "ids", "id": "id", "match_id": "match_id"}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def read_rules(folder: Path) -> dict[str, str]:
    """The rules by name: a file each."""
    return {file.stem: file.read_text() for file in sorted(folder.glob("*.ceql"))}


def opened(records: DataFrame) -> DataFrame:
    """Kafka's records, whose key and value are bytes, with the event that each holds: NULLs for what cannot be read."""
    return records.withColumn("event", F.from_json(F.col("value").cast("string"), VALUE))


def decoded(records: DataFrame) -> DataFrame:
    """The events of records. One without a time cannot be placed in a stream: `undecoded` has it."""
    events = opened(records).where("event.time IS NOT NULL")
    return events.select(F.col("key").cast("string").alias("card"), "event.*")


def undecoded(records: DataFrame) -> DataFrame:
    """The records that hold no event, with where they stood."""
    place = F.concat_ws(":", "topic", "partition", "offset").cast("binary").alias("value")
    headers = F.array(F.struct(F.lit("record").alias("key"), place))
    return opened(records).where("event.time IS NULL").select("key", "value", headers.alias("headers"))


def alerts(events: DataFrame, given: argparse.Namespace) -> DataFrame:
    """The matches of all rules. An event that was sent twice within the delay counts once."""
    events = events.withWatermark("time", given.delay).dropDuplicatesWithinWatermark(["id"])
    if not given.live:
        return match(events, read_rules(Path(given.rules)), **OPTIONS)
    return match(events, rules=given.live, keys="card", errors="error", **OPTIONS)


def in_batch(events: DataFrame, given: argparse.Namespace) -> DataFrame:
    """What the rules find in a table of events; a rule that came while the stream ran, in those since then."""
    events = events.where("time IS NOT NULL").dropDuplicates(["id"])
    if not given.live:
        return match(events, read_rules(Path(given.rules)), **OPTIONS).select("match_id", "query")
    rows = [json.loads(line) for file in sorted(Path(given.live).glob("*.json")) for line in file.open()]
    found = []
    for row in rows:
        seen = events.where(F.col("time") >= row["valid_from"]) if row.get("valid_from") else events
        found.append(match(seen, {row["name"]: row["text"]}, **OPTIONS).select("match_id", "query"))
    return reduce(DataFrame.unionAll, found)


def encoded(found: DataFrame) -> DataFrame:
    """Kafka's records: readers leave out a `match_id` that they have seen."""
    value = F.to_json(F.struct(*found.columns))
    return found.select(F.col("card").alias("key"), value.alias("value"))


def merging(table: str) -> Callable[[DataFrame], None]:
    """Writes alerts that a Delta table does not have yet: a micro-batch that is run again changes nothing."""

    def write(rows: DataFrame) -> None:
        rows.limit(0).write.format("delta").mode("ignore").save(table)  # the table, if there is none
        rows.createOrReplaceTempView("new_alerts")
        rows.sparkSession.sql(
            f"MERGE INTO delta.`{table}` AS known USING new_alerts AS found ON known.match_id = found.match_id "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    return write


def writing(table: str, format: str, topic: Callable[[DataFrame], None]) -> Callable[[DataFrame, int], None]:
    """What is done with the alerts of a micro-batch: Kafka first, then the table.

    Without Delta, a micro-batch has a folder of its own, which is replaced if it is run again.
    """
    merge = merging(table)

    def write(rows: DataFrame, number: int) -> None:
        rows = rows.persist()  # both sinks read it; the rules run once
        try:
            if "error" in rows.columns:
                for rule, error in rows.where("error IS NOT NULL").select("query", "error").collect():
                    print(f"rule {rule} is left out: {error}", flush=True)
                rows = rows.where("error IS NULL").drop("error")
            topic(encoded(rows))
            if format == "delta":
                merge(rows)
            else:
                rows.write.mode("overwrite").parquet(f"{table}/batch={number}")
        finally:
            rows.unpersist()

    return write


def start(spark: SparkSession, given: argparse.Namespace) -> list[Any]:
    """The streaming queries: of alerts, and of what is no event."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", given.servers)
    source = source.option("subscribe", given.events).option("startingOffsets", "earliest")
    source = source.option("maxOffsetsPerTrigger", given.batch).option("failOnDataLoss", "true")

    def to_topic(rows: DataFrame) -> None:
        sink = rows.write.format("kafka").option("kafka.bootstrap.servers", given.servers)
        sink.option("topic", given.alerts).save()

    trigger: Any = {"availableNow": True} if given.once else {"processingTime": given.every}
    found = alerts(decoded(source.load()), given)
    writer = found.writeStream.foreachBatch(writing(given.table, given.format, to_topic))
    writer = writer.option("checkpointLocation", given.checkpoint).queryName("alerts")
    bad = undecoded(source.load()).writeStream.format("kafka").option("kafka.bootstrap.servers", given.servers)
    bad = bad.option("topic", given.bad).option("checkpointLocation", f"{given.checkpoint}-bad")
    bad = bad.queryName("bad records")
    return [writer.trigger(**trigger).start(), bad.trigger(**trigger).start()]


def send(spark: SparkSession, given: argparse.Namespace) -> None:
    """The rows of a Parquet file as records, in their order."""
    events = spark.read.parquet(given.send).coalesce(1)
    value = F.to_json(F.struct(*(name for name in events.columns if name != "card")))
    records = events.select(F.col("card").alias("key"), value.alias("value"))
    sink = records.write.format("kafka").option("kafka.bootstrap.servers", given.servers)
    sink.option("topic", given.events).save()


class Progress(StreamingQueryListener):
    """Writes down what each micro-batch did, a line each."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        with self._file.open("a") as lines:
            lines.write(json.dumps(json.loads(event.progress.json)) + "\n")

    def onQueryTerminated(self, event: Any) -> None: ...


def check(spark: SparkSession, given: argparse.Namespace) -> bool:
    """Compare table and topic with what the rules find in a file of the same events, in one batch."""
    batch = in_batch(spark.read.parquet(given.check), given)
    wanted = {row["match_id"]: row["query"] for row in batch.collect()}
    table = [row["match_id"] for row in spark.read.format(given.format).load(given.table).select("match_id").collect()]
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", given.servers)

    def sent(topic: str, path: str) -> list[str]:
        values = source.option("subscribe", topic).load().select(F.col("value").cast("string").alias("value"))
        return [row[0] for row in values.select(F.get_json_object("value", path)).collect()]

    topic = sent(given.alerts, "$.match_id")
    bad = {int(id) for id in sent(given.bad, "$.id")}
    timeless = {row[0] for row in spark.read.parquet(given.check).where("time IS NULL").select("id").collect()}
    report = {
        "alerts": len(wanted),
        "by rule": dict(sorted(Counter(wanted.values()).items())),
        "in the table": len(table),
        "missing": len(set(wanted) - set(table)),
        "not found in batch": len(set(table) - set(wanted)),
        "twice in the table": len(table) - len(set(table)),
        "in the topic": len(topic),
        "missing in the topic": len(set(wanted) - set(topic)),
        "twice in the topic": len(topic) - len(set(topic)),
        "records that are no event": len(timeless),
        "of these missing in their topic": len(timeless - bad),
        "events in their topic": len(bad - timeless),
    }
    print(json.dumps(report), flush=True)
    return sorted(table) == sorted(wanted) and set(topic) == set(wanted) and bad == timeless


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--servers", default="localhost:9092")
    options.add_argument("--events", default="payments", help="the topic of events")
    options.add_argument("--alerts", default="alerts", help="the topic of alerts")
    options.add_argument("--bad", default="bad-records", help="the topic of records that are no event")
    options.add_argument("--rules", default=str(Path(__file__).with_name("rules")), help="a folder of .ceql files")
    options.add_argument("--live", help="in their place, a folder of JSON rows of rules, which may grow")
    options.add_argument("--table", default="alerts", help="the folder of the table of alerts")
    options.add_argument("--format", choices=["parquet", "delta"], default="parquet")
    options.add_argument("--checkpoint", default="checkpoint")
    options.add_argument("--delay", default="1 minute", help="how late an event may come")
    options.add_argument("--every", default="0 seconds", help="how often a micro-batch starts")
    options.add_argument("--batch", default="50000", help="the most records of a micro-batch")
    options.add_argument("--once", action="store_true", help="read all there is, and end")
    options.add_argument("--master", help="Spark's master")
    options.add_argument("--cores", default="2", help="the cores that the job has")
    options.add_argument("--jars", help="a folder of jars, if Spark is not to fetch them")
    options.add_argument("--progress", help="a file to which each micro-batch adds its progress, as JSON")
    options.add_argument("--metrics", type=int, metavar="PORT", help="a port of this machine for Prometheus")
    options.add_argument("--send", metavar="FILE", help="put the events of this Parquet file into the topic")
    options.add_argument("--check", metavar="FILE", help="with --once: at the end, compare with a batch over this file")
    return options.parse_args(given)


def main() -> None:
    given = arguments()
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.minPartitionNum": "1",  # events of a file are sent in their order
        "spark.sql.shuffle.partitions": given.cores,  # a checkpoint keeps it; with Spark's 200, each takes minutes
        "spark.python.daemon.module": "ceql.spark.daemon",  # workers that start at once
        "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
        "spark.ui.showConsoleProgress": "false",
    }
    if given.jars is None:
        settings["spark.jars.packages"] = PACKAGES
    else:
        settings["spark.jars"] = ",".join(map(str, sorted(Path(given.jars).glob("*.jar"))))
    if given.format == "delta":
        settings |= DELTA
    spark = session(given.master, config=settings)
    if given.send:
        send(spark, given)
        return
    if given.progress:
        spark.streams.addListener(Progress(given.progress))
    if given.metrics:
        serve_metrics(spark, given.metrics)
    queries = start(spark, given)
    print("started", flush=True)
    if not given.once:
        spark.streams.awaitAnyTermination()  # if one has failed, the job ends, and is started again from outside
    for query in queries:
        query.awaitTermination()
    if given.check and not check(spark, given):
        raise SystemExit("the alerts differ from those of the batch")


if __name__ == "__main__":
    main()
