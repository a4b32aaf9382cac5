"""Batch jobs: by key, by chunks of time, or in one task.

- *Keyed*: rows are shuffled by the keys of substreams and sorted by time inside a task. A task runs one recogniser
  over all its keys, not one for each.
- *Chunked*: without keys, a window of time or events cuts the stream into chunks that overlap by a window
  (`time_chunks`). With keys, a window of time does so as well: for streams of which a few keys have most events
  (`skewed`), since a key's events all go to one task otherwise.
- *Single*: a query that cannot be cut runs in one task.
"""

from __future__ import annotations

from enum import Enum

from pyspark.sql import DataFrame, Observation

from ceql.spark.prepare import Prepared
from ceql.spark.task_metrics import observed_batch
from ceql.spark.task_recognizer import batch_task
from ceql.spark.task_report import reported
from ceql.spark.task_spec import MAIN
from ceql.spark.time_chunks import chunked
from ceql.syntax import tree as t
from ceql.syntax.absence import trailing


class Division(Enum):
    """The ways to divide the work."""

    KEYED = "by key"
    CHUNKED = "by chunks of time"
    SINGLE = "in one task"


def divide(prepared: Prepared, skewed: bool = False) -> tuple[Division, str]:
    """The way that the meaning of the query allows, and the reason; `skewed` keys are cut by time where that is one."""
    plan = prepared.plan
    query = plan.query
    if prepared.spec.suppress is not None and not plan.shown_keys:
        return Division.SINGLE, "suppress= goes by all matches, since there are no keys"
    if query.consume is t.Consume.ANY:
        return Division.SINGLE, "CONSUME BY ANY forgets the events of all substreams at every match"
    uncut = _uncut(prepared)
    if prepared.spec.suppress is not None:
        skewed = False  # a key's matches are counted in one task
    if plan.partition and skewed and uncut is None and not isinstance(query.window, t.EventsWindow):
        return Division.CHUNKED, "the keys are skewed, and the window bounds how far back a match can reach"
    if plan.shown_keys:
        return Division.KEYED, "the PARTITION BY clause splits the stream into substreams"
    if plan.split_by:
        names = ", ".join(dict.fromkeys(ref.attribute for part in plan.split_by for ref in part.refs))
        return Division.KEYED, f"all events of a match agree in {names}, which splits the stream into substreams"
    if uncut is not None:
        return Division.SINGLE, uncut
    return Division.CHUNKED, "the window bounds how far back a match can reach"


def _uncut(prepared: Prepared) -> str | None:
    """Why the stream cannot be cut into chunks of time; None where it can."""
    query = prepared.plan.query
    if query.consume is t.Consume.PARTITION:
        return "CONSUME BY forgets all events at every match, so that no part stands by itself"
    if query.after_match is not None:
        return "AFTER MATCH goes on where a match has ended, which may lie in another chunk"
    if trailing(query.formula):
        return "NOT at the end looks beyond the events of a match, and into other chunks"
    match query.window:
        case None:
            return "without WITHIN or keys every event may belong with every other"
        case t.AttributeWindow(_, attribute) if attribute != prepared.bound.time:
            return f"a window over '{attribute}' says nothing about time"
    return None


def run(
    prepared: Prepared, partitions: int | None, skewed: bool = False, observe: str | Observation | None = None
) -> DataFrame:
    """The lazy DataFrame of matches, its metrics observed under a name if there is one."""
    rows = rows_in_tasks(prepared, partitions, skewed)
    if observe is not None:
        return observed_batch(rows, prepared, observe)
    return rows.mapInArrow(reported("match", batch_task(prepared.spec)), prepared.schema)


def rows_in_tasks(prepared: Prepared, partitions: int | None, skewed: bool = False) -> DataFrame:
    """The shipped rows, divided among tasks, in order."""
    frame = prepared.frame
    match divide(prepared, skewed)[0]:
        case Division.KEYED:
            keys = prepared.keys
            frame = frame.repartition(partitions, *keys) if partitions else frame.repartition(*keys)
        case Division.CHUNKED:
            frame = chunked(prepared, partitions)
        case Division.SINGLE:
            frame = frame.repartition(1)
    shipped = [*prepared.shipped, *([MAIN] if MAIN in frame.columns else [])]
    return frame.sortWithinPartitions(*prepared.order).select(*shipped)
