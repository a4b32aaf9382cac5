"""The program that `test_cluster` runs to see what the first tasks of executors compile.

Run as `python first_task.py folder`, with the address in CEQL_MASTER or CEQL_REMOTE. Prints the matches of each query,
and how many kernels were sent.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import ceql.spark
import client


def main(folder: Path) -> None:
    settings = {"spark.remote": os.environ["CEQL_REMOTE"]} if "CEQL_REMOTE" in os.environ else {}
    if "CEQL_MASTER" in os.environ:
        empty = {"NUMBA_CACHE_DIR": str(folder / "empty"), "CEQL_COMPILED": str(folder / "compiled")}
        settings = {f"spark.executorEnv.{name}": value for name, value in empty.items()}
    spark = ceql.spark.session(os.environ.get("CEQL_MASTER"), config=settings)
    events = spark.read.schema(client.SCHEMA).parquet(str(folder / "events"))
    queries = (client.KEYED, client.WHOLE)
    found = [ceql.spark.match(events, query, partitions=3, order_by="id").count() for query in queries]
    print(json.dumps({"found": found, "sent again": ceql.spark.ship_kernels(spark)}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
