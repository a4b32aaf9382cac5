"""The process that `soak_rules` stops and kills: rules over a stream of files, from its checkpoint.

Run as `python stream_of_rules.py folder`. The rules are those of `folder/rules.json`. When there is a file `stop`,
it reads all there is, and ends.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from ceql.spark import match, session

DELAY = 1000  # of the watermark, in milliseconds
SCHEMA = "type string, time timestamp, k string, v int, id long"
SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}


class Sizes(StreamingQueryListener):
    """Writes down how large the state is."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        own = next(row for name, row in progress["observedMetrics"].items() if name.startswith("ceql"))
        with self._file.open("a") as lines:
            took = progress["durationMs"]["triggerExecution"]
            lines.write(json.dumps([time.time(), progress["numInputRows"], took, own["state_bytes"]]) + "\n")

    def onQueryTerminated(self, event: Any) -> None: ...


def main(folder: Path) -> None:
    spark = session("local[2]", config=SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    spark.streams.addListener(Sizes(folder / "progress"))
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 50).parquet(str(folder / "source"))
    rules = json.loads((folder / "rules.json").read_text())
    stream = events.withWatermark("time", f"{DELAY} milliseconds")
    found = match(stream, rules, order_by="id", events="ids", id="id", buckets=4)
    writer = found.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start(str(folder / "sink"))
    print("started", flush=True)
    while query.isActive and not (folder / "stop").exists():
        time.sleep(0.1)
    query.processAllAvailable()
    query.stop()
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
