"""Episodes on Spark: matches of a key that overlap or are near each other become one row, by Spark SQL functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, NumericType

from ceql.errors import ArgumentError, SchemaError, did_you_mean
from ceql.recognition.options import duration
from ceql.spark.guard_columns import quoted

Gap = str | int | float | timedelta | None
_OWN = ("start_time", "end_time", "matches", "events")
_EPISODE, _LATEST = "ceql episode", "ceql latest"


def episodes(df: DataFrame, gap: Gap = None, *, by: Sequence[str] | str = ()) -> DataFrame:
    """Matches of a key that overlap, or are no more than `gap` apart, united: `ceql.Matches.episodes` on Spark.

    `df` is the result of `match` over a batch, and `by` names the columns that hold the key: those of PARTITION BY,
    or any other. Columns: those of `by`, `start_time`, `end_time`, `matches` (how many), and if the result has the
    array `events`, `events` (how many different ones). Events that agree in all that the result shows are one: let
    it show what tells them apart, or pass `events="ids"` to `match`.

    `gap` is from the latest end so far to the next start: `"5 minutes"` or a timedelta; a number where times are.
    Without it, matches must overlap or touch. Without `by`, all rows go through one task.

    A stream is refused, since an episode may go on as long as matches come.
    """
    if df.isStreaming:
        raise ArgumentError(
            "episodes is for batches: of a stream of matches, call it in foreachBatch() for the matches of each "
            "micro-batch, or let a second streaming query read them and group by "
            "session_window('start_time', '5 minutes') and the key"
        )
    keys = [by] if isinstance(by, str) else list(by)
    kinds = {field.name: field.dataType for field in df.schema.fields}
    for name in ("start_time", "end_time", *keys):
        if name not in kinds:
            hint = did_you_mean(name, list(kinds)) or f"The columns are {', '.join(kinds)}."
            raise SchemaError(f"episodes: there is no column '{name}'", suggestion=hint)
    if clash := [name for name in keys if name in _OWN]:
        raise ArgumentError(f"by= names '{clash[0]}', which is a column of episodes; rename it before")
    own = [F.col(quoted(name)) for name in keys]
    rows = Window.partitionBy(*own).orderBy("start_time", "end_time")
    before = rows.rowsBetween(Window.unboundedPreceding, -1)
    latest = F.max("end_time").over(before)
    begins = latest.isNull() | (F.col("start_time") > _later(latest, gap, kinds["end_time"]))
    numbered = df.withColumn(_LATEST, begins.cast("int")).withColumn(_EPISODE, F.sum(_LATEST).over(rows))
    counted: list[Column] = [
        F.min("start_time").alias("start_time"),
        F.max("end_time").alias("end_time"),
        F.count(F.lit(1)).alias("matches"),
    ]
    if isinstance(kinds.get("events"), ArrayType):
        different = F.array_distinct(F.flatten(F.collect_list("events")))
        counted.append(F.size(different).cast("bigint").alias("events"))
    return numbered.groupBy(*own, _EPISODE).agg(*counted).drop(_EPISODE)


def _later(time: Column, gap: Gap, kind: DataType) -> Column:
    """A time, and the gap after it."""
    if gap is None:
        return time
    is_number = isinstance(kind, NumericType)
    if isinstance(gap, str | timedelta) and not is_number:
        try:
            nanoseconds = duration(gap) if isinstance(gap, str) else gap // timedelta(microseconds=1) * 1000
        except ValueError as error:
            raise ArgumentError(f"gap: {error}") from error
        if nanoseconds >= 0:
            seconds = f"{nanoseconds // 10**9}.{nanoseconds % 10**9 // 1000:06}"
            return time + F.expr(f"make_dt_interval(0, 0, 0, CAST('{seconds}' AS DECIMAL(18, 6)))")
    elif isinstance(gap, int | float) and not isinstance(gap, bool) and is_number and gap >= 0:
        return time + F.lit(gap)
    if is_number:
        raise ArgumentError(f"times are plain numbers: gap= is a number in their unit from 0 up, not {gap!r}")
    raise ArgumentError(f"gap= is a duration such as '5 minutes' or a timedelta, not {gap!r}")
