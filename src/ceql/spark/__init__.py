"""Complex event recognition on Spark: a DataFrame of events and a query in, a DataFrame of matches out.

    from ceql.spark import match
    match(payments, "SELECT * WHERE ...", time="time")

Batch or streaming, by what the DataFrame is. `pip install "ceql[spark]"`.
"""

from ceql.spark.aggregate import aggregate
from ceql.spark.api import explain, late_rows, match, matcher
from ceql.spark.session import prepare, session
from ceql.spark.sql import register

__all__ = ["aggregate", "explain", "late_rows", "match", "matcher", "prepare", "register", "session"]
