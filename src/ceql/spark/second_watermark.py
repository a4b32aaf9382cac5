"""Refuses a second watermark behind `match`, and tells of one that could not be refused.

Spark has one watermark for a streaming query: the least of all that `withWatermark` asks for. One on the matches begins
with the first match, and the first match waits for the watermark to begin: each waits for the other, and nothing ever
comes, without an error. Spark itself refuses a second watermark behind a stateful step, but only once the watermark has
begun.

So the DataFrame that `match` gives, and those that are derived from it by its own methods, refuse `withWatermark`.
None is needed where every match is decided by its last event: `end_time` carries the watermark of the events then
(`streaming.opened`).

Views and unions get around it. Then the stateful step sees that events wait though no watermark has begun, which it
logs: it might be another stream without any event so far, so that it is no error.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import NoReturn

from pyspark.sql import DataFrame

from ceql.errors import ArgumentError
from ceql.spark.frame_methods import with_methods

WHAT_TO_DO = (
    "Write the matches to a table or a topic and put the watermark into a second streaming query that reads it, or add "
    "the matches up in foreachBatch()"
)
_YEAR = 366 * 86_400 * 10**6
_log = logging.getLogger("ceql")


def refusing(found: DataFrame, waits: bool) -> DataFrame:
    """The DataFrame itself, from now on without `withWatermark`; `waits`: some matches are decided after their end."""
    refuse = _refuse_any if waits else _refuse_needless
    return with_methods(found, lambda name, method: refuse if name == "withWatermark" else method)


_NOTHING = (
    "behind match() would give nothing, ever: Spark has one watermark for a streaming query, the least of all, so that "
    "match() would wait for its own matches. "
)


def _refuse_needless(eventTime: str, delayThreshold: str) -> NoReturn:
    raise ArgumentError(
        f"withWatermark({eventTime!r}, {delayThreshold!r}) {_NOTHING}Leave it out: end_time carries the watermark of "
        "the events, and windows, joins and dropDuplicatesWithinWatermark can go by it"
    )


def _refuse_any(eventTime: str, delayThreshold: str) -> NoReturn:
    raise ArgumentError(
        f"withWatermark({eventTime!r}, {delayThreshold!r}) {_NOTHING}{WHAT_TO_DO} (NOT at the end and AFTER MATCH "
        "decide a match some time after its last event, so that its end_time may be behind the watermark)"
    )


def tell_if_held_back(earliest: int) -> None:
    """Log that events wait without any watermark, though earlier micro-batches had events; `earliest` is the time of
    the first of them in microseconds. Soon after 1970 there is none for a while."""
    if earliest > _YEAR:
        _tell()


@cache
def _tell() -> None:
    _log.warning(
        "events came in an earlier micro-batch, and there is still no watermark. If another stream of the query had no "
        "event so far, this will pass. If a withWatermark() stands behind match(), in a view or a union, there "
        "will never be any match. %s",
        WHAT_TO_DO,
    )
