"""Reads the checkpoint of a streaming query that has stopped: how far it came, and what is still open.

The state is read through Spark's state data source, and left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ceql.errors import DataError
from ceql.query import Query
from ceql.query_set import QuerySet
from ceql.recognition import snapshot
from ceql.recognition.options import spelt_out
from ceql.spark.api import stream_job
from ceql.spark.bucket import Bucket, CheckpointTerms
from ceql.spark.match_options import DEFAULTS, MatchOptions, read_match
from ceql.spark.packing import SEAL
from ceql.spark.prepare import Frames, check_order
from ceql.spark.stream_job import spec_of
from ceql.spark.task_report import Task, reported
from ceql.spark.task_spec import Specs


def emitted_until(spark: SparkSession, checkpoint: str) -> datetime | None:
    """The watermark up to which a streaming query that has stopped has recognised its events.

    All matches that end at or before it have come out, and no others. None before the first watermark. With it a query
    can go on under a new checkpoint (see "Another number of buckets" in the manual).
    """
    done = _log(spark, checkpoint, "commits")
    if not done:
        raise DataError(f"there is no checkpoint of a streaming query in {checkpoint}, or no micro-batch was finished")
    lines = _log(spark, checkpoint, "offsets")[max(done)].split("\n")
    watermark = int(json.loads(lines[1])["batchWatermarkMs"])
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=watermark) if watermark > 0 else None


def _log(spark: SparkSession, checkpoint: str, name: str) -> dict[int, str]:
    """The files of one of Spark's logs by micro-batch."""
    files = spark.read.text(f"{checkpoint.rstrip('/')}/{name}", wholetext=True)
    rows = files.select(F.col("_metadata.file_name").alias("file"), "value").collect()
    return {int(row["file"]): row["value"] for row in rows if row["file"].isdigit()}


@spelt_out(MatchOptions, DEFAULTS)
def end_of_input(
    df: Frames,
    query: str | Query | QuerySet | Mapping[str, str | Query],
    checkpoint: str,
    *,
    operator: int = 0,
    **options: Unpack[MatchOptions],
) -> DataFrame:
    """The matches that a stream still owes if no event will come any more, as a DataFrame of a batch.

    A streaming query gives a match when the watermark has passed its last event, and the watermark stays behind the
    newest event by its delay. So the last matches of a finished stream do not come out. Run it to its end
    (`trigger(availableNow=True)`), and write what this gives to the same place:

        matches = match(stream, query, time="time")
        matches.writeStream.option("checkpointLocation", "checkpoint/")....start().awaitTermination()
        end_of_input(stream, query, "checkpoint/", time="time").write.mode("append").parquet("frauds/")

    The arguments are those that `match` had. `operator` is the number of this `match` among the stateful operators of
    the streaming query, where it has several. The checkpoint is only read. If the stream goes on after all, what came
    out here comes again.
    """
    check_order("end_of_input", df, query)
    job = stream_job(df, query, read_match(options), 1)
    session = job.groups[0].carrier.frame.sparkSession
    source = session.read.format("statestore").option("stateVarName", "state").option("operatorId", operator)
    states = source.load(checkpoint).where(F.col("key.bucket") != SEAL).select("key.bucket", "value.state")
    return states.mapInArrow(reported("end of input", _finishing(job.specs, job.terms)), job.schema)


def _finishing(specs: Mapping[int, Specs], terms: CheckpointTerms) -> Task:
    """The function that turns states of buckets into the matches that are left in them."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, blob in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                own = replace(terms, buckets=snapshot.read(blob)[0].get("buckets", 1))
                spec = spec_of(number, specs, own)
                if spec is not None:  # else no query is left of its keys
                    yield from Bucket.from_bytes(blob, spec, own).finish()

    return run
