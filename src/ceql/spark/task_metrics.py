"""Counts of tasks as Spark's observed metrics: under `observedMetrics` in a stream's progress, in an `Observation`
of a batch.

The tasks count. A stream's step adds one row of counts, as JSON, to what it gives for a bucket; a batch task that is
asked for metrics adds one at its end. `observed` adds these rows up on their way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ceql.jit.told import since_last
from ceql.spark.prepare import Prepared
from ceql.spark.result_types import arrow_types, as_rows
from ceql.spark.task_recognizer import TaskRecognizer, larger
from ceql.spark.task_report import reported
from ceql.spark.task_spec import TaskSpec

METRICS = "ceql"
"""The first part of the names of observed metrics."""
_numbers = count(1)  # two of them in one streaming query must not have the same name
BY_BUCKET = "by_bucket"
"""The observed metric that has the counts of each bucket as JSON, with those of each rule."""
COUNTERS = ("events", "matches", "suppressed", "rejected")
"""Counts of each rule since a micro-batch began; its sizes are those at the end."""
_COUNTS = "ceql counts"
"""The column of a batch's result in which tasks put their counts."""


@dataclass
class Counts:
    """What a task, or a bucket of a stream, counts."""

    shipped: int = 0
    """Rows that came from the JVM."""
    relevant: int = 0
    """Events that were recognised: without those that can change nothing."""
    groups: int = 0
    """Substreams (keys) that are remembered, since they have partial matches."""
    compiling_ms: int = 0
    """Milliseconds that the worker waited for the compiler."""
    state_bytes: int = 0
    """Bytes of the state that is kept for the next micro-batch."""

    @classmethod
    def of(cls, recognizer: TaskRecognizer, shipped: int) -> Counts:
        """The counts of a batch task at its end."""
        return cls(shipped, recognizer.relevant, recognizer.groups, since_last())

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in NAMES))

    def to_json(self, **more: Any) -> str:
        """The numbers by name, and what else is to be told."""
        return json.dumps(asdict(self) | more)


NAMES = tuple(Counts.__dataclass_fields__)


def observed_name(given: str | None = None) -> str:
    """The name of the metrics of one `match` in a streaming query."""
    return f"{METRICS}_{given or next(_numbers)}"


def sums(counts: Any) -> list[Any]:
    """The totals of a column of counts, for `DataFrame.observe`."""
    return [
        F.coalesce(F.sum(F.get_json_object(counts, f"$.{name}").cast("long")), F.lit(0)).alias(name) for name in NAMES
    ]


def metrics(progress: Any) -> dict[str, int]:
    """What a micro-batch did, from a `StreamingQueryProgress` (`query.lastProgress`) or its dict.

    - `events`: rows that the sources gave (Spark's `numInputRows`);
    - `shipped`: rows that went to Python, the JVM having dropped those that mean nothing to the query;
    - `relevant`: events that were recognised, when the watermark had passed them;
    - `late_rows`: rows that came too late; `rejected_rows`: rows that make no sense;
    - `matches`;
    - `compiling_ms`: milliseconds that workers waited for the compiler, 0 once kernels are there;
    - `groups`: keys with partial matches, and `state_bytes`: the size of the state, of the buckets that had something
      to do.

    The numbers of several `match`es in one streaming query are added up.
    """
    names = ("shipped", "relevant", "late_rows", "rejected_rows", "matches", "groups", "compiling_ms", "state_bytes")
    found = dict.fromkeys(("events", *names), 0)
    found["events"] = int(read_report(progress).get("numInputRows", 0))
    for _, row in observed(progress):
        for own in names:
            found[own] += int(row[own])
    return found


def read_report(progress: Any) -> Mapping[str, Any]:
    """A `StreamingQueryProgress` as a dict."""
    given: Mapping[str, Any] = progress if isinstance(progress, Mapping) else json.loads(progress.json)
    return given


def observed(progress: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The metrics of each `match` in a streaming query, by name."""
    for name, row in (read_report(progress).get("observedMetrics") or {}).items():
        if name.startswith(f"{METRICS}_"):
            yield name, row if isinstance(row, Mapping) else row.asDict()


# --- batches ---


def observed_batch(rows: DataFrame, prepared: Prepared, name: str | Observation) -> DataFrame:
    """The matches of the rows of tasks, with metrics that are observed under a name."""
    schema = StructType([*prepared.schema.fields, StructField(_COUNTS, StringType())])
    spec = prepared.spec

    wanted = arrow_types(schema)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _counting(batches, spec, wanted)

    counts = F.col(f"`{_COUNTS}`")
    found = F.count_if(counts.isNull()).alias("matches")
    counted = rows.mapInArrow(reported("match", run), schema).observe(name, found, *sums(counts)[:-1])
    return counted.where(counts.isNull()).drop(_COUNTS)


def _counting(batches: Iterable[pa.RecordBatch], spec: TaskSpec, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The matches of a task, and a row with its counts at the end."""
    recognizer: TaskRecognizer | None = None
    shipped = 0

    def widened(found: pa.RecordBatch) -> pa.RecordBatch:
        return as_rows([*found.columns, None], wanted)

    for batch in larger(batches):
        recognizer = TaskRecognizer(spec, batch.schema) if recognizer is None else recognizer
        shipped += batch.num_rows
        yield from map(widened, recognizer.feed(batch))
    if recognizer is not None:
        counts = Counts.of(recognizer, shipped)
        yield from map(widened, recognizer.finish())
        yield as_rows([None] * (len(wanted) - 1) + [pa.array([counts.to_json()])], wanted)
