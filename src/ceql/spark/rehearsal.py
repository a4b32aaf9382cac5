"""A stream of a few events through a bucket, for what it leaves behind: imported modules and loaded kernels.

The daemon of workers (see `daemon`) does this once before it forks. One query is on single events and one compares
events, so that both loops are there; both are by key, and both go through a state.
"""

from __future__ import annotations

import pyarrow as pa

from ceql.plan import make_plan
from ceql.recognition.options import Options
from ceql.spark.bucket import Bucket, CheckpointTerms
from ceql.spark.packing import BUCKET, DATA, Packing, pack
from ceql.spark.streaming import BucketUpdate
from ceql.spark.task_recognizer import batch_task
from ceql.spark.task_spec import TIME, TaskSpec, bits_column, key_column

_SINGLE = "SELECT * WHERE A AS x ; B AS y PARTITION BY k WITHIN 10 SECONDS"
_COMPARED = "SELECT * WHERE A AS x ; B AS y FILTER x.v < y.v PARTITION BY k WITHIN 10 SECONDS"


def rehearse() -> None:
    """Recognise a few events in every way that streams and batches do."""
    for query in (_SINGLE, _COMPARED):
        _run(query)


def _run(query: str) -> None:
    plan = make_plan(query)
    compared = ("v",) if query is _COMPARED else ()
    spec = TaskSpec(
        query=query,
        options=Options("type", "ts"),
        attributes=("ts", "v"),
        keys=("k",),
        key_columns=(key_column(0),),
        shown=("ts", "v"),
        ids=False,
        exact=tuple(range(len(plan.guards))),
        compared=compared,
        shared=(("ts", TIME), ("k", key_column(0))),
    )
    terms = CheckpointTerms(plan.fingerprint, query, 1, "type", "ts", (), spec.shown, (TIME,))
    for _ in batch_task(spec)([_rows(spec, 0)]):
        pass
    state: bytes | None = None
    for second in range(3):
        rows = _rows(spec, second)
        whole = rows.add_column(0, BUCKET, pa.array([0] * rows.num_rows, pa.int32()))
        blobs, _ = pack([Packing.whole(whole.schema.names, range(1))], [whole])
        update = BucketUpdate(Bucket(spec, terms), frozenset(), state, 1000 * second)
        for _ in update.run(blobs.column(DATA).to_pylist()):
            pass
        state = update.after


def _rows(spec: TaskSpec, second: int) -> pa.RecordBatch:
    """Six events of two keys after that second: types A and B by turns."""
    count = 6
    times = pa.array([1_000_000 * second + 1000 * (n + 1) for n in range(count)], pa.timestamp("us", "UTC"))
    bits = pa.array([1 + n % 2 for n in range(count)], pa.int16())
    columns = {TIME: times, bits_column(0): bits, key_column(0): pa.array([n // 3 for n in range(count)], pa.int64())}
    columns[spec.place["v"]] = pa.array([float(n) for n in range(count)])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
