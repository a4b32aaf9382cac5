"""The process that `test_kill` kills: a streaming query from a folder of files to another, from its checkpoint.

Run as `python stream_to_files.py folder [rules]`: one query, or the rules of a folder, which may change meanwhile. It
says `ready` when Spark is up, waits for a line, says `started`, and ends with `done` when it has read all there is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ceql.spark import match, session

QUERY = "SELECT a, b, c WHERE A AS a ; B+ AS b ; C AS c FILTER b[v > 3] PARTITION BY k WITHIN 400 MILLISECONDS"
DELAY = 300  # of the watermark, in milliseconds
SUPPRESS = {"few": "2 per 300 milliseconds"}
SCHEMA = "type string, time timestamp, k string, v int, id long"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # it does not live long
}


def main(folder: Path, ruled: bool) -> None:
    spark = session("local[2,4]", config=SETTINGS)  # a task may fail four times
    spark.sparkContext.setLogLevel("OFF")
    say("ready")
    sys.stdin.readline()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "source"))
    events = events.withWatermark("time", f"{DELAY} milliseconds")
    options: dict[str, Any] = {"order_by": "id", "events": "ids", "id": "id", "buckets": 4}
    if ruled:
        found = match(events, rules=str(folder / "rules"), keys="k", errors="error", suppress=SUPPRESS, **options)
    else:
        found = match(events, QUERY, **options)
    writer = found.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "sink"))
    say("started")
    query.awaitTermination()
    say("done")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), len(sys.argv) > 2)
