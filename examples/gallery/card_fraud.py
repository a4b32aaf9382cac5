"""Card fraud, in memory and on Spark: tiny payments that try a stolen card, then much cash abroad."""

# %% [markdown]
# # Card fraud
# A thief tries a stolen card with tiny payments and then draws a lot of cash abroad, all within minutes. The events
# are a day of 20,000 card payments, which come with ceql.

# %%
import ceql
from ceql.cli.demo import payments

events = payments()
print(events.slice(1000, 3).to_pylist())

# %% [markdown]
# `Payment+` is one or more payments, with anything in between. MAX keeps, of all choices of tiny payments, the one
# that no other contains. PARTITION BY looks at each card by itself.

# %%
FRAUD = """
SELECT MAX tries[amount], cash[amount, country], COUNT(tries) AS n
WHERE Payment+ AS tries ; Withdrawal AS cash
FILTER tries[amount < 2] AND cash[amount >= 500 AND country != 'CL']
PARTITION BY card
WITHIN 10 MINUTES
"""
frauds = ceql.match(FRAUD, events)
print(frauds)

# %%
frauds.timeline()

# %% [markdown]
# The same on Spark: a DataFrame goes in, and a DataFrame comes out. `order_by` says which of two events at the same
# time comes first, since the rows of a DataFrame have no order.

# %%
from ceql.spark import match, session

spark = session()
frame = spark.createDataFrame(events.to_pandas())
found = match(frame, FRAUD, order_by=["amount"])
found.selectExpr("card", "end_time", "n", "cash.amount[0] AS drawn", "cash.country[0] AS country").orderBy(
    "end_time"
).show()

# %%
assert found.count() == frauds.count() == 7
spark.stop()
