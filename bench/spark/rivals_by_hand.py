"""What one would write without ceql: self-joins, loops over groups, a state for each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import pandas
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import ceql.spark
from bench.spark.data import TYPES
from ceql.spark import streaming
from ceql.spark.bucket import Bucket
from ceql.spark.packing import BUCKET, DATA, SEAL
from ceql.spark.streaming import STATE, STEPPED, BucketUpdate

SECOND = 1_000_000


def self_join(df: DataFrame, length: int) -> DataFrame:
    """A sequence of types by key within ten seconds, as joins with bounds of time."""
    parts = [
        df.where(F.col("type") == TYPES[k]).select(F.col("k1000"), F.col("ts").alias(f"t{k}")) for k in range(length)
    ]

    def join(left: DataFrame, k: int) -> DataFrame:
        later = F.col(f"t{k}") > F.col(f"t{k - 1}")
        soon = F.col(f"t{k}") <= F.col("t0") + F.expr("INTERVAL 10 SECONDS")
        return left.join(parts[k], "k1000").where(later & soon)

    return reduce(join, range(1, length), parts[0])


def compared_join(df: DataFrame) -> DataFrame:
    """A T0 and a T1 of one key within ten seconds whose prices are compared."""
    left = df.where("type = 'T0'").select("k1000", F.col("ts").alias("t0"), F.col("price").alias("p0"))
    right = df.where("type = 'T1'").select("k1000", F.col("ts").alias("t1"), F.col("price").alias("p1"))
    soon = (F.col("t1") > F.col("t0")) & (F.col("t1") <= F.col("t0") + F.expr("INTERVAL 10 SECONDS"))
    return left.join(right, "k1000").where(soon & (F.col("p1") > 50 * F.col("p0")))


def lag(df: DataFrame) -> DataFrame:
    """A SELL below a price whose neighbour before it, of the same key, is a BUY."""
    by_time = Window.partitionBy("k1000").orderBy("ts")
    before = [F.lag(name).over(by_time).alias(f"{name}_before") for name in ("side", "ts")]
    pairs = df.select("k1000", "side", "price", "ts", *before)
    return pairs.where("side = 'SELL' AND price < 1 AND side_before = 'BUY'")


def loop_by_group(df: DataFrame, length: int) -> DataFrame:
    """The same as a loop over the rows of a key that keeps partial matches."""
    schema = ", ".join(["k1000 long", *(f"t{k} timestamp" for k in range(length))])
    step_of = {name: k for k, name in enumerate(TYPES[:length])}

    def run(rows: pandas.DataFrame) -> pandas.DataFrame:
        rows = rows.sort_values("ts")
        partial: list[list[tuple[Any, ...]]] = [[] for _ in range(length)]
        found = []
        for name, ts in zip(rows["type"], rows["ts"], strict=True):
            k = step_of[name]
            if k == 0:
                partial[0].append((ts,))
                continue
            partial[k - 1] = [p for p in partial[k - 1] if (ts - p[0]).value <= 10 * SECOND * 1000]
            grown = [(*p, ts) for p in partial[k - 1]]
            if k == length - 1:
                found += grown
            else:
                partial[k] += grown
        key = rows["k1000"].iloc[0]
        return pandas.DataFrame([(key, *f) for f in found], columns=["k1000", *(f"t{k}" for k in range(length))])

    wanted = df.where(F.col("type").isin(TYPES[:length])).select("k1000", "type", "ts")
    return wanted.groupBy("k1000").applyInPandas(run, schema)


def state_by_key(df: DataFrame) -> DataFrame:
    """A streaming BUY ; SELL ; BUY below a price, with a state for each key."""

    def run(key: tuple[Any, ...], frames: Iterable[pandas.DataFrame], state: GroupState) -> Iterator[pandas.DataFrame]:
        # of each step the latest start, and the events so far: enough for one match per end
        first, second = state.get if state.exists else (None, None)
        found = []
        for frame in frames:
            ordered = frame.sort_values("ts")
            times = ordered["ts"].astype("int64") // 1000
            for side, price, ts in zip(ordered["side"], ordered["price"], times, strict=True):
                if side == "SELL":
                    if first is not None and ts - first <= 20 * SECOND:
                        second = first
                    continue
                if price < 1 and second is not None and ts - second <= 20 * SECOND:
                    found.append((key[0], second, int(ts)))
                first = int(ts)
        state.update((first, second))
        yield pandas.DataFrame(found, columns=["k", "start", "end"])

    return df.groupBy("k").applyInPandasWithState(
        run, "k long, start long, end long", "first long, second long", "append", GroupStateTimeout.NoTimeout
    )


def on_group_state(df: DataFrame, query: str) -> DataFrame:
    """`match` on the older state API: the same steps, called by applyInPandasWithState."""
    original = streaming.stepped

    def instead(
        blobs: DataFrame, processor: streaming.BucketProcessor, seed: streaming.Seed | None = None
    ) -> DataFrame:
        (spec,), terms, kinds = processor._specs.values(), processor._terms, processor._kinds

        def step(key: Any, frames: Iterable[pandas.DataFrame], state: GroupState) -> Iterator[pandas.DataFrame]:
            if key[0] == SEAL:
                return
            before = bytes(state.get[0]) if state.exists else None
            arrived = [] if state.hasTimedOut else [bytes(blob) for frame in frames for blob in frame[DATA]]
            update = BucketUpdate(Bucket(spec, terms), kinds, before, state.getCurrentWatermarkMs())
            for row in update.run(arrived):
                yield pandas.DataFrame([row], columns=STEPPED.names)
            if update.after is not None:
                state.update((update.after,))
                if update.wakes_at is not None:
                    state.setTimeoutTimestamp(update.wakes_at)
            elif state.exists:
                state.remove()

        return blobs.groupBy(BUCKET).applyInPandasWithState(
            step, STEPPED, STATE, "append", GroupStateTimeout.EventTimeTimeout
        )

    streaming.stepped = instead  # type: ignore[assignment]
    try:
        return ceql.spark.match(df, query, type="side", time="ts", events="ids", id="ts")
    finally:
        streaming.stepped = original
