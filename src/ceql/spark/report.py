"""Explains how a query would run on Spark, as text."""

from __future__ import annotations

from ceql.explain.text import section, wrapped
from ceql.spark.batch import Division, divide
from ceql.spark.prepare import Prepared
from ceql.spark.streaming import tasks
from ceql.spark.ties import some_can_swap
from ceql.spark.time_chunks import chunk_count


def report(prepared: Prepared, partitions: int | None, buckets: int, skewed: bool = False) -> str:
    """The whole text."""
    parts = [
        section("Division of work", wrapped(_division(prepared, partitions, buckets, skewed))),
        section("In the JVM", [line for text in _jvm(prepared) for line in wrapped(text, "- ", "  ")]),
        section("Shipped to Python", wrapped(", ".join(_shipped(prepared)))),
        section("Events of the same time", wrapped(_ties(prepared))),
    ]
    return "\n\n".join(parts) + "\n"


def _division(prepared: Prepared, partitions: int | None, buckets: int, skewed: bool) -> str:
    division, reason = divide(prepared, skewed and not prepared.streaming)
    if prepared.streaming:
        if division is Division.KEYED:
            return (
                f"Streaming: the keys are divided into {buckets} buckets by hash, each with one state; {reason}. "
                f"A micro-batch has {tasks(prepared)} tasks for them (spark.sql.shuffle.partitions when the query "
                "first starts)."
            )
        why = reason if division is Division.SINGLE else "there are no keys to divide by"
        return f"Streaming: one bucket, one state, one task at a time; {why}."
    match division:
        case Division.KEYED:
            number = f"{partitions} tasks" if partitions else "as many tasks as Spark's shuffle has"
            return f"By key, in {number}, one recogniser over all keys of a task; {reason}."
        case Division.CHUNKED:
            chunks = chunk_count(prepared, partitions)
            if chunks == 1:
                return f"In one task: on so few cores, chunks of time take longer; {reason}."
            return (
                f"In at most {chunks} chunks of time of like numbers of rows, each preceded "
                f"by a window of warm-up whose matches are left to the chunk before; {reason}."
            )
        case Division.SINGLE:
            return f"In one task: {reason}."


def _jvm(prepared: Prepared) -> list[str]:
    spec = prepared.spec
    lines = [f"{len(spec.exact) + len(spec.always)} of {len(prepared.guards)} conditions on events are decided."]
    lines += [
        f"Condition {k} is decided in Python, from {', '.join(sorted(prepared.guards[k].needs))}."
        for k in spec.undecided
    ]
    if spec.compared:
        lines.append(f"What is asked of several events is decided in Python, from {', '.join(spec.compared)}.")
    if prepared.drops:
        lines.append("Events that satisfy no condition are dropped.")
    elif prepared.plan.counts_events:
        lines.append("No event is dropped: WITHIN counts them all.")
    else:
        lines.append("No event is dropped: contiguity (:, :+ or STRICT) looks at them all.")
    if prepared.keys:
        lines.append("Events without a key (NULL) are dropped: they belong to no substream.")
    return lines


def _shipped(prepared: Prepared) -> list[str]:
    words = ["which conditions hold", "the time"]
    words += [f"the key {part.refs[0].attribute}" for part in prepared.plan.partition]
    words += list(prepared.spec.attributes)
    return words


def _ties(prepared: Prepared) -> str:
    by = prepared.spec.ordered_by
    rule = f"ordered by {', '.join(by)}; " if by else "not ordered (there is no order_by); "
    if some_can_swap(prepared.plan):
        return rule + "those left in doubt are refused where their order could change the matches."
    return rule + "those of one substream left in doubt are refused, since their order may matter to this query."
