"""A sink that writes each match once, though a micro-batch may be run again: a folder for each, which is replaced.

Spark runs a micro-batch again after a failure, with the same number and the same rows. So what it writes must replace
what it wrote before. With Delta, `txnAppId` and `txnVersion` do the same; with a database, a MERGE on the match's id.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame


def by_batch(folder: str) -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`: the rows of micro-batch n as Parquet in `folder/batch=n`; read `folder` as one table."""

    def write(rows: DataFrame, number: int) -> None:
        rows.write.mode("overwrite").parquet(f"{folder}/batch={number}")

    return write
