"""Complex event recognition on Spark: a DataFrame of events and a query in, a DataFrame of matches out.

    from ceql.spark import match
    match(payments, "SELECT * WHERE ...", time="time")

Batch or streaming, by what the DataFrame is. `pip install "ceql[spark]"`.
"""

from ceql.spark.aggregate import aggregate
from ceql.spark.api import explain, late_rows, match, matcher
from ceql.spark.checkpoint import emitted_until, end_of_input
from ceql.spark.episodes import episodes
from ceql.spark.result_frames import match_id, matches_to_rows, result_schema
from ceql.spark.row_patterns import sql
from ceql.spark.session import prepare, session
from ceql.spark.ship import ship_kernels
from ceql.spark.sql_function import register
from ceql.spark.task_metrics import metrics
from ceql.spark.worker_errors import errors

__all__ = [
    "aggregate",
    "emitted_until",
    "end_of_input",
    "episodes",
    "errors",
    "explain",
    "late_rows",
    "match",
    "match_id",
    "matcher",
    "matches_to_rows",
    "metrics",
    "prepare",
    "register",
    "result_schema",
    "session",
    "ship_kernels",
    "sql",
]
