"""The program that `test_cluster` runs as a client of a cluster or of a Connect server.

Run as `python client.py folder`, with the address in CEQL_MASTER or CEQL_REMOTE. It reads `folder/events`, and prints
what it found as JSON: by key, by chunks of time, in a stream with a restart, and what is said of an error.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ceql.spark
from ceql.spark import end_of_input, match, matches_to_rows

KEYED = "SELECT a, b WHERE A AS a ; B AS b PARTITION BY k WITHIN 50 MILLISECONDS"
WHOLE = "SELECT a, b WHERE A AS a ; B AS b FILTER a.id < b.id WITHIN 9 MILLISECONDS"
SCHEMA = "type string, time timestamp, k string, id long"


def main(folder: Path) -> None:
    spark = _session()
    events = spark.read.schema(SCHEMA).parquet(str(folder / "events"))
    options: dict[str, Any] = {"order_by": "id", "events": "ids", "id": "id"}
    found = {
        "keyed": _found(match(events, KEYED, partitions=4, **options)),
        "chunked": _found(match(events, WHOLE, partitions=3, **options)),
        "rows": match(events, KEYED, order_by="id").transform(matches_to_rows).count(),
    }
    try:
        with ceql.spark.errors():
            tied = events.withColumn("time", F.date_trunc("minute", "time"))
            match(tied, "SELECT NEXT * WHERE A ; B").count()
    except ceql.CeqlError as error:
        found["error"] = f"{type(error).__name__}: {error}"
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "events"))
    stream = stream.withWatermark("time", "5 milliseconds")
    try:
        match(stream, KEYED).select("end_time").withWatermark("end_time", "1 second")
    except ceql.CeqlError as error:
        found["refused"] = str(error)
    checkpoint = str(folder / "checkpoint")
    writer = match(stream, KEYED, buckets=4, **options).writeStream.format("parquet")
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(
        str(folder / "found")
    ).awaitTermination()
    found["stream"] = _found(spark.read.parquet(str(folder / "found")))
    found["rest"] = _found(end_of_input(stream, KEYED, checkpoint, **options))
    found["places"] = len(_places(spark))
    print(json.dumps(found))
    spark.stop()


def _session() -> SparkSession:
    if remote := os.environ.get("CEQL_REMOTE"):
        return ceql.spark.session(config={"spark.remote": remote})
    settings = {"spark.sql.shuffle.partitions": "4", "spark.executor.memory": "512m", "spark.ui.enabled": "false"}
    return ceql.spark.session(os.environ["CEQL_MASTER"], config={**settings, "spark.driver.host": "127.0.0.1"})


def _found(result: DataFrame) -> list[list[int]]:
    return sorted(list(row["events"]) for row in result.select("events").collect())


def _places(spark: SparkSession) -> set[str]:
    """The folders in which tasks run: each executor has its own."""

    def where(batches: Any) -> Any:
        import os
        import time

        import pyarrow as pa

        for batch in batches:
            time.sleep(0.5)
            yield pa.record_batch({"place": [os.getcwd()] * batch.num_rows})

    rows = spark.range(8).repartition(8, F.col("id")).mapInArrow(where, "place string").collect()
    return {row["place"] for row in rows}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
