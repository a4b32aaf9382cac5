"""Sessions without a purchase, in memory and on Spark: what is in a cart is not bought within half an hour."""

# %% [markdown]
# # Sessions without a purchase
# What does *not* happen is an event as well. Someone puts something into the cart and does not buy within half an
# hour. The visits are generated: one session for each of 400 visitors.

# %%
import random

import pyarrow as pa


def visits(visitors: int = 400, seed: int = 11) -> pa.Table:
    """Views, carts and purchases; times are in seconds."""
    dice = random.Random(seed)
    rows = []
    for k in range(visitors):
        now = dice.randrange(86_400)
        for _ in range(dice.randrange(1, 6)):
            rows.append((now, f"visitor{k:03}", "View", dice.randrange(5, 200)))
            now += dice.randrange(10, 200)
        if dice.random() < 0.5:
            price = dice.randrange(5, 200)
            rows.append((now, f"visitor{k:03}", "Cart", price))
            if dice.random() < 0.6:
                rows.append((now + dice.randrange(30, 2400), f"visitor{k:03}", "Buy", price))
    time, visitor, type, price = zip(*sorted(rows), strict=True)
    return pa.table(
        {
            "time": pa.array([1_717_200_000 + t for t in time], pa.timestamp("s")),
            "visitor": visitor,
            "type": type,
            "price": price,
        }
    )


events = visits()
print(f"{events.num_rows:,} events,", events["type"].to_pylist().count("Cart"), "carts")

# %% [markdown]
# `NOT Buy` at the end waits until the window is over. In a stream, the alarm comes at that moment. The funnel beside
# it lists those who bought, with the time they took.

# %%
import ceql

LOST = """
SELECT v, cart, cart.price AS price
WHERE View AS v ; NOT View ; Cart AS cart ; NOT Buy
PARTITION BY visitor
WITHIN 30 MINUTES
"""
BOUGHT = "SELECT cart, buy WHERE Cart AS cart ; Buy AS buy PARTITION BY visitor WITHIN 30 MINUTES"
lost, bought = ceql.match(LOST, events), ceql.match(BOUGHT, events)
print(lost.count(), "lost,", bought.count(), "bought in time")
print(lost)

# %%
lost.timeline(12)

# %% [markdown]
# The same on Spark, for the value of what was left in carts.

# %%
from ceql.spark import match, session

spark = session()
frame = spark.createDataFrame(events.to_pandas())
left = match(frame, LOST).selectExpr("count(*) AS carts", "sum(price) AS value").collect()[0]
print(left.carts, "carts with goods worth", left.value)
assert left.carts == lost.count()
spark.stop()
