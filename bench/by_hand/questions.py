"""The twelve questions: in words, in CEQL, in polars (`in_polars.py`), in SQL for DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from bench.by_hand import in_polars
from bench.workloads import analysts


@dataclass(frozen=True)
class Question:
    """What is asked of a table `e`, whose row numbers are its column `row` for those who need one."""

    title: str
    query: str
    columns: tuple[str, ...]
    """Of the answer."""
    table: Callable[[int], pa.Table]
    polars: Callable[[pl.LazyFrame], pl.LazyFrame]
    sql: str


BY_USER = "WINDOW w AS (PARTITION BY user ORDER BY row)"


def _lags(column: str, steps: int) -> list[str]:
    """A column so many events before, and so on to now."""
    return [f"lag({column}, {k}) OVER w" for k in range(steps, 0, -1)] + [column]


def _rows(*names: str) -> str:
    return ", ".join(f"{lag} AS {name}" for lag, name in zip(_lags("row", len(names) - 1), names, strict=True))


def _neighbours(column: str, names: str, condition: str) -> str:
    """Neighbours of a user; in the condition, each name stands for the column of its event."""
    values = ", ".join(f"{lag} AS v{n}" for lag, n in zip(_lags(column, len(names) - 1), names, strict=True))
    inner = f"SELECT {_rows(*names)}, {values} FROM e {BY_USER}"
    return f"SELECT {', '.join(names)} FROM ({inner}) WHERE {condition}"


QUESTIONS = (
    Question(
        "a reading more than 8 times the one before",
        "SELECT a, b FROM E WHERE E AS a : E AS b FILTER b.v / a.v > 8 PARTITION BY user",
        ("a", "b"),
        analysts.readings,
        in_polars.ratio,
        _neighbours("v", "ab", "vb / va > 8"),
    ),
    Question(
        "a cart, then a payment, within 10 minutes",
        "SELECT ANY c, p WHERE cart AS c ; pay AS p PARTITION BY user WITHIN 10 MINUTES",
        ("c", "p"),
        analysts.clicks,
        in_polars.cart_pay,
        """SELECT c.row AS c, p.row AS p
           FROM (FROM e WHERE type = 'pay') p ASOF JOIN (FROM e WHERE type = 'cart') c
             ON p.user = c.user AND p.row > c.row
           WHERE p.time - c.time <= INTERVAL 10 MINUTES""",
    ),
    Question(
        "runs of four and more over a threshold, whole",
        "SELECT MAX hi, after FROM E WHERE E:{4,} AS hi : E AS after FILTER hi[v > 70] AND after[v <= 70] "
        "PARTITION BY user",
        ("hi", "after"),
        analysts.readings,
        in_polars.runs,
        """SELECT list(row ORDER BY row) FILTER (high) AS hi, max(row) AS after
           FROM (SELECT user, row, v > 70 AS high, coalesce(sum((v <= 70)::INT) OVER (
                   PARTITION BY user ORDER BY row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS run FROM e)
           GROUP BY user, run HAVING count(*) > 4 AND NOT bool_and(high)""",
    ),
    Question(
        "late, late again, then cancelled, within two days",
        "SELECT a, b, c FROM E WHERE E AS a ; E AS b ; E AS c "
        "FILTER a[delay >= 60] AND b[delay >= 60] AND c[cancelled = TRUE] PARTITION BY user WITHIN 2 DAYS",
        ("a", "b", "c"),
        analysts.flights,
        in_polars.late_cancelled,
        """WITH pairs AS MATERIALIZED (
             SELECT a.row AS a, c.row AS c FROM e a JOIN e c ON a.user = c.user AND a.row < c.row
             WHERE a.delay >= 60 AND c.cancelled AND c.time - a.time <= INTERVAL 2 DAYS)
           SELECT x.a AS a, y.a AS b, x.c AS c FROM pairs x JOIN pairs y ON x.c = y.c AND x.a < y.a""",
    ),
    Question(
        "a funnel of three: a view, the next cart, the next payment, within 30 minutes",
        "SELECT v, c, p WHERE view AS v -> cart AS c -> pay AS p PARTITION BY user WITHIN 30 MINUTES",
        ("v", "c", "p"),
        analysts.clicks,
        in_polars.funnel,
        """WITH paid AS (
             SELECT c.user, c.row AS c, p.row AS p, p.time
             FROM (FROM e WHERE type = 'cart') c ASOF JOIN (FROM e WHERE type = 'pay') p
               ON c.user = p.user AND c.row < p.row)
           SELECT v.row AS v, c, p FROM (FROM e WHERE type = 'view') v ASOF JOIN (
               SELECT c.user, c.row AS c, p, paid.time
               FROM (FROM e WHERE type = 'cart') c LEFT JOIN paid ON paid.c = c.row) n
             ON v.user = n.user AND v.row < n.c
           WHERE n.time - v.time <= INTERVAL 30 MINUTES""",
    ),
    Question(
        "a stuck sensor: the same reading five times in a row",
        "SELECT a, b, c, d, e FROM E WHERE E AS a : E AS b : E AS c : E AS d : E AS e "
        "FILTER a.level = b.level AND b.level = c.level AND c.level = d.level AND d.level = e.level PARTITION BY user",
        tuple("abcde"),
        analysts.readings,
        in_polars.stuck,
        _neighbours("level", "abcde", "va = vb AND vb = vc AND vc = vd AND vd = ve"),
    ),
    Question(
        "two alarms, the second before anybody acknowledged the first, within an hour",
        "SELECT a, b WHERE alarm AS a ; NOT (ack OR alarm) ; alarm AS b PARTITION BY user WITHIN 1 HOUR",
        ("a", "b"),
        analysts.alarms,
        in_polars.alarms,
        f"""SELECT a, b FROM (
              SELECT lag(row) OVER w AS a, row AS b, type, lag(type) OVER w AS before, time - lag(time) OVER w AS passed
              FROM e WHERE type IN ('alarm', 'ack') {BY_USER})
            WHERE type = 'alarm' AND before = 'alarm' AND passed <= INTERVAL 1 HOUR""",
    ),
    Question(
        "a W of five readings",
        "SELECT a, b, c, d, e FROM E WHERE E AS a : E AS b : E AS c : E AS d : E AS e "
        "FILTER b.v < a.v AND c.v > b.v AND d.v < c.v AND e.v > d.v PARTITION BY user",
        tuple("abcde"),
        analysts.readings,
        in_polars.w_shape,
        _neighbours("v", "abcde", "vb < va AND vc > vb AND vd < vc AND ve > vd"),
    ),
    Question(
        "sessions: log-ins with no pause of more than half an hour",
        "SELECT COUNT(s) AS n FROM E WHERE (E AS first : E:* AS more) AS s FILTER more[time - PREV.time <= 30 MINUTES] "
        "PARTITION BY user AFTER MATCH SKIP PAST LAST EVENT",
        ("start", "end", "n"),
        analysts.logins,
        in_polars.sessions,
        f"""SELECT min(row) AS start, max(row) AS "end", count(*) AS n FROM (
              SELECT user, row, sum(begins::INT) OVER w AS session FROM (
                SELECT user, row, coalesce(time - lag(time) OVER w > INTERVAL 30 MINUTES, TRUE) AS begins
                FROM e {BY_USER})
              {BY_USER})
            GROUP BY user, session""",
    ),
    Question(
        "log-ins from two countries within an hour",
        "SELECT a, b FROM E WHERE E AS a ; E AS b FILTER a.country != b.country PARTITION BY user WITHIN 1 HOUR",
        ("a", "b"),
        analysts.logins,
        in_polars.countries,
        """WITH t AS (SELECT row, user, time, country, epoch_us(time) // 3600000000 AS hour FROM e)
           SELECT a.row AS a, b.row AS b
           FROM t b JOIN (SELECT *, hour AS h FROM t UNION ALL SELECT *, hour + 1 AS h FROM t) a
             ON a.user = b.user AND a.h = b.hour
           WHERE a.row < b.row AND a.country <> b.country AND b.time - a.time <= INTERVAL 1 HOUR""",
    ),
    Question(
        "rework: a check, the next repair, the next check",
        "SELECT c, r, d WHERE check AS c -> repair AS r -> check AS d PARTITION BY user",
        ("c", "r", "d"),
        analysts.steps,
        in_polars.rework,
        """WITH k AS (SELECT row, user FROM e WHERE type = 'check'),
                r AS (SELECT row, user FROM e WHERE type = 'repair')
           SELECT c, r, k.row AS d FROM (
             SELECT k.user, k.row AS c, r.row AS r FROM k ASOF JOIN r ON k.user = r.user AND k.row < r.row) x
             ASOF JOIN k ON x.user = k.user AND x.r < k.row""",
    ),
    Question(
        "five readings over a threshold, then a drop",
        "SELECT hi, f FROM E WHERE E:{5} AS hi : E AS f FILTER hi[v > 60] AND f[v < 20] PARTITION BY user",
        ("hi", "f"),
        analysts.readings,
        lambda frame: in_polars.over_then_drop(frame).select(hi=pl.concat_list("a", "b", "c", "d", "e"), f="f"),
        f"SELECT [a, b, c, d, e] AS hi, f FROM "
        f"({_neighbours('v', 'abcdef', 'va > 60 AND vb > 60 AND vc > 60 AND vd > 60 AND ve > 60 AND vf < 20')})",
    ),
)
