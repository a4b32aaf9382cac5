"""Matches of a table as a frame, the rows behind them, and a count too large to list."""

from __future__ import annotations

import ceql
from ceql.cli.demo import payments


def main() -> None:
    events = payments()
    abroad = ceql.match("SELECT * WHERE Withdrawal AS w FILTER w[country != 'CL' AND amount > 200]", events)
    print(abroad.to_arrow().num_rows, "withdrawals of more than 200 abroad")

    series = ceql.match("SELECT x WHERE Payment:+ AS x ; Withdrawal PARTITION BY card WITHIN 5 MINUTES", events)
    print(series)
    print(series.events().slice(0, 3).to_pylist())

    every = ceql.match("SELECT * WHERE Payment+ AS paid ; Withdrawal PARTITION BY card", events)
    print(f"{every.count():,} ways to pick payments before a withdrawal")
    print(every.aggregate(n="COUNT(*)", payments="COUNT(paid)", mean="AVG(paid.amount)").to_pylist())


if __name__ == "__main__":
    main()
