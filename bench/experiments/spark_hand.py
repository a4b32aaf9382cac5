"""Seven questions on Spark: processor seconds of ceql, and of the SQL that an expert writes.

`python -m bench.experiments.spark_hand [ROWS] [QUESTION ...]` prints a row for each, from Parquet, in one session with
two cores, set as docs/spark-production.md says for batch jobs. The processor time is that of the JVM and all Python
workers. Both answers have the times of the first and the last event of each match, whose counts and hashes must be
equal. They run in turn; the first round of each compiles and is not counted, and the ratio is the median of the rounds'
ratios. The SQL lets no task sort all rows, where a window of time allows it to be divided.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

import ceql.spark
from bench.peers.peer import FOLDER
from bench.spark.data import parquet_folder
from bench.spark.parts import _noop, _timed, session_on

ROUNDS = 5
SECOND = "INTERVAL 1 SECOND"
HOT = "CASE WHEN volume < 5000 THEN 0 ELSE k1000 END AS hot"  # half of all rows have one key


@dataclass(frozen=True)
class Question:
    """What is asked of the view `e`: the streams as SQL by name ("": the events), a query, and SQL for s and t, the
    times of the first and the last event."""

    title: str
    streams: dict[str, str]
    query: str
    sql: str


def last(condition: str, partition: str) -> str:
    """The time of the latest row so far that satisfies a condition."""
    return f"last_value(CASE WHEN {condition} THEN ts END, true) OVER ({partition} ORDER BY ts)"


def pairs(source: str, first: str, second: str, partition: str, kept: str = "true") -> str:
    """A second event, with the latest first one in the second before it."""
    inner = f"SELECT *, {last(first, partition)} AS s FROM ({source}) WHERE {first} OR {second}"
    return f"SELECT s, ts AS t FROM ({inner}) WHERE {second} AND ts - s <= {SECOND} AND {kept}"


def back(column: str, steps: int, partition: str = "PARTITION BY k1000") -> str:
    """A column so many rows before."""
    return f"lag({column}, {steps}) OVER ({partition} ORDER BY ts)"


LIKE = "PARTITION BY {} WITHIN 1 SECOND"
BUCKETS = """SELECT type, ts, bucket, own
    FROM (SELECT type, ts, unix_seconds(ts) AS own FROM e WHERE type IN ('T0', 'T1'))
    LATERAL VIEW explode(if(type = 'T0', array(own, own + 1), array(own))) AS bucket"""
RUNS = """SELECT min(ts) AS s, max(ts) AS t FROM (
      SELECT k1000, ts, price, coalesce(sum(int(price <= 80)) OVER (
        PARTITION BY k1000 ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS run FROM e)
    GROUP BY k1000, run HAVING count(*) > 3 AND min(price) <= 80"""

QUESTIONS = (
    Question(
        "a sequence by key, one key with half of the rows",
        {"": f"SELECT type, ts, {HOT} FROM e"},
        f"SELECT ANY x, y WHERE T0 AS x ; T1 AS y {LIKE.format('hot')}",
        pairs(f"SELECT type, ts, {HOT} FROM e", "type = 'T0'", "type = 'T1'", "PARTITION BY hot"),
    ),
    Question(
        "a checkout without a purchase",
        {"": "SELECT type, ts, k1000 FROM e"},
        f"SELECT x WHERE T0 AS x ; NOT T1 {LIKE.format('k1000')}",
        f"""SELECT ts AS s, ts AS t FROM (
              SELECT *, last_value(CASE WHEN type = 'T1' THEN ts END, true) OVER (
                PARTITION BY k1000 ORDER BY ts DESC) AS bought FROM e WHERE type IN ('T0', 'T1'))
            WHERE type = 'T0' AND (bought IS NULL OR bought - ts > {SECOND})""",
    ),
    Question(
        "rising three in a row",
        {"E": "SELECT ts, price, k1000 FROM e"},
        "SELECT a, b, c FROM E WHERE E AS a : E AS b : E AS c FILTER a.price < b.price AND b.price < c.price "
        "PARTITION BY k1000",
        f"""SELECT s, ts AS t FROM (SELECT ts, price, {back("ts", 2)} AS s, {back("price", 1)} AS b,
              {back("price", 2)} AS a FROM e) WHERE a < b AND b < price""",
    ),
    Question(
        "runs of three and more over a threshold, whole",
        {"E": "SELECT ts, price, k1000 FROM e"},
        "SELECT MAX hi, after FROM E WHERE E:{3,} AS hi : E AS after FILTER hi[price > 80] AND after[price <= 80] "
        "PARTITION BY k1000",
        RUNS,
    ),
    Question(
        "two streams",
        {
            "Clicks": "SELECT ts, k1000 FROM e WHERE side = 'BUY'",
            "Pays": "SELECT ts, k1000 FROM e WHERE side = 'SELL' AND price < 10",
        },
        f"SELECT ANY c, p FROM Clicks, Pays WHERE Clicks AS c ; Pays AS p {LIKE.format('k1000')}",
        pairs(
            "SELECT ts, k1000, side FROM e WHERE side = 'BUY' OR price < 10",
            "side = 'BUY'",
            "side = 'SELL'",
            "PARTITION BY k1000",
        ),
    ),
    Question(
        "no key",
        {"": "SELECT type, ts FROM e"},
        "SELECT ANY x, y WHERE T0 AS x ; T1 AS y WITHIN 1 SECOND",
        pairs(BUCKETS, "type = 'T0'", "type = 'T1'", "PARTITION BY bucket", "bucket = own"),
    ),
    Question(
        "no key, neighbours",
        {"E": "SELECT ts, price FROM e"},
        "SELECT a, b FROM E WHERE E AS a : E AS b FILTER a.price < 1 AND b.price > 90 WITHIN 1 SECOND",
        f"""SELECT s, ts AS t FROM (SELECT ts, price, {back("ts", 1, "")} AS s, {back("price", 1, "")} AS a FROM e)
            WHERE a < 1 AND price > 90 AND ts - s <= {SECOND}""",
    ),
)


def answers(spark: SparkSession, question: Question) -> tuple[DataFrame, DataFrame]:
    """The same rows, s and t, by ceql and by SQL."""
    streams = {name: spark.sql(text) for name, text in question.streams.items()}
    events = streams.get("", streams)
    own = ceql.spark.match(events, question.query, time="ts", events="ids", id="ts")
    return own.selectExpr("start_time AS s", "end_time AS t"), spark.sql(question.sql)


def fingerprint(answer: DataFrame) -> tuple[int, ...]:
    """How many rows there are, and a hash of all, whatever their order."""
    return tuple(answer.selectExpr("count(*)", "coalesce(sum(pmod(xxhash64(s, t), 1000000007)), 0)").collect()[0])


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    wanted = [int(word) for word in sys.argv[2:]] or range(len(QUESTIONS))
    spark = session_on("local[2]")
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", 2**31 - 1)
    spark.read.parquet(str(parquet_folder(FOLDER / "spark", rows))).createOrReplaceTempView("e")
    print(f"{rows:,} rows, local[2]; seconds of the processor (by the clock)")
    for number in wanted:
        question = QUESTIONS[number]
        own, other = answers(spark, question)
        found, expected = fingerprint(own), fingerprint(other)
        if found != expected:
            raise AssertionError(f"{question.title}: ceql has {found}, SQL {expected}")
        rounds = [[_timed(partial(_noop, answer), 1) for answer in (own, other)] for _ in range(ROUNDS + 1)][1:]
        cells = ""
        for timed in zip(*rounds, strict=True):
            wall, cpu = (statistics.median(one[k][0] for one in timed) for k in range(2))
            cells += f"{cpu:8.2f} ({wall:.2f})"
        ratio = statistics.median(mine[1][0] / theirs[1][0] for mine, theirs in rounds)
        print(f"{number} {question.title:50}{found[0]:>12,}{cells}{ratio:8.2f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
