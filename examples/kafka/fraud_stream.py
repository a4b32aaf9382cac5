"""Frauds in a stream of payments: a Kafka topic of JSON in, a Kafka topic of JSON out.

    docker compose -f examples/kafka/compose.yml up -d
    python examples/kafka/fraud_stream.py --send      # the sample payments, into the topic `payments`
    python examples/kafka/fraud_stream.py             # frauds into the topic `frauds`, until it is stopped

Spark fetches its Kafka connector when the session starts (`spark.jars.packages`). docs/kafka.md says what to mind.
"""

from __future__ import annotations

import argparse

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ceql.cli.demo import payments
from ceql.spark import match, match_id, session

QUERY = """
    SELECT tries[amount], cash[amount, country]
    WHERE Payment ; Payment ; Payment AS tries ; Withdrawal AS cash
    FILTER Payment[amount < 2] AND cash[amount >= 500 AND country != 'CL']
    PARTITION BY card
    WITHIN 10 MINUTES
"""
VALUE = "type STRING, time TIMESTAMP, amount DOUBLE, country STRING"
"""What the value of a record holds, as JSON; the card is the record's key."""


def decoded(records: DataFrame) -> DataFrame:
    """Events from Kafka's records: key and value are bytes. Offset and partition tell events of the same time apart."""
    value = F.from_json(F.col("value").cast("string"), VALUE)
    card = F.col("key").cast("string").alias("card")
    events = records.select(card, value.alias("event"), "partition", "offset")
    # JSON that cannot be read gives NULLs. An event without a time cannot be placed: it is left out here
    return events.select("card", "event.*", "partition", "offset").where("time IS NOT NULL")


def frauds(events: DataFrame, lateness: str = "1 minute") -> DataFrame:
    """The matches. Records of one partition come in order, those of different ones do not: the watermark waits."""
    stream = events.withWatermark("time", lateness)
    return match(stream, QUERY, order_by=["partition", "offset"], events="columns")


def encoded(found: DataFrame) -> DataFrame:
    """Kafka's records from matches: the card is the key, so that the frauds of a card stay in order.

    `id` is the same whenever a match is found again, so that readers can leave out what they have seen.
    """
    value = F.to_json(F.struct(match_id(found).alias("id"), *found.columns))
    return found.select(F.col("card").alias("key"), value.alias("value"))


def read(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """The records of a topic, from its beginning where there is no checkpoint."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    return source.option("subscribe", topic).option("startingOffsets", "earliest").load()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--servers", default="localhost:9092")
    options.add_argument("--checkpoint", default="fraud_checkpoint")
    options.add_argument("--send", action="store_true", help="send the sample payments, and end")
    given = options.parse_args()
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    spark = session(config={"spark.jars.packages": connector, "spark.sql.session.timeZone": "UTC"})
    if given.send:
        sample = spark.createDataFrame(payments())
        records = sample.select(F.col("card").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))
        records.write.format("kafka").option("kafka.bootstrap.servers", given.servers).option(
            "topic", "payments"
        ).save()
        return
    found = encoded(frauds(decoded(read(spark, given.servers, "payments"))))
    writer = found.writeStream.format("kafka").option("kafka.bootstrap.servers", given.servers)
    writer.option("topic", "frauds").option("checkpointLocation", given.checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
