"""An upward trend of a stock: the third query of the paper on CORE, with all sales in between."""

# %% [markdown]
# # Market trend
# Query Q3 of core-vldb2022 finds an upward trend of a stock: a price below 100, then prices from 100 to 2000, then
# one above 2000. The market here is generated: six stocks whose prices wander, and two of which rise.

# %%
import numpy as np
import pyarrow as pa

RISING = {"ACME", "ZETA"}
STOCKS = ["ACME", "BETA", "CRUX", "DELTA", "ECHO", "ZETA"]


def market(trades: int = 3000, seed: int = 5) -> pa.Table:
    """BUY and SELL events with name, price and volume, one a second."""
    dice = np.random.default_rng(seed)
    price = dict.fromkeys(STOCKS, 80.0)
    rows = []
    for second in range(trades):
        name = STOCKS[dice.integers(len(STOCKS))]
        drift = 0.04 if name in RISING and 900 < second < 1900 else 0.0
        price[name] *= float(np.exp(dice.normal(drift, 0.05)))
        price[name] = min(price[name], 95.0) if name not in RISING or second < 900 else price[name]
        rows.append(
            (("BUY", "SELL")[dice.integers(2)], second, name, round(price[name], 2), int(dice.integers(1, 9)) * 100)
        )
    type, time, names, prices, volumes = zip(*rows, strict=True)
    times = pa.array([1_400_000_000 + second for second in time], pa.timestamp("s"))
    return pa.table({"type": type, "time": times, "name": names, "price": prices, "volume": volumes})


events = market()
print(events.slice(0, 3).to_pylist())

# %% [markdown]
# The query of the paper, without its FROM. MAX keeps the trends that no other contains. Without MAX, every choice of
# sales in the middle is a match.

# %%
import ceql

TREND = """
SELECT MAX *
WHERE (BUY OR SELL) AS l ; (BUY OR SELL)+ AS m ; (BUY OR SELL) AS h
FILTER l[price < 100] AND m[price >= 100] AND m[price <= 2000] AND h[price > 2000]
PARTITION BY name
"""
every = ceql.match(TREND.replace("MAX", ""), events)
print(f"{every.count():.3e} choices of sales make a trend; counting them lists none")
print(ceql.match(TREND, events).count(), "of them are maximal")

# %% [markdown]
# To look at the trends, ask for those in a row: with `:` in place of `;`, nothing else of that stock lies in between.

# %%
ROW = """
SELECT l, m, h, COUNT(m) AS sales, SUM(m.volume) AS volume
WHERE (BUY OR SELL) AS l : (BUY OR SELL):+ AS m : (BUY OR SELL) AS h
FILTER l[price < 100] AND m[price >= 100 AND price <= 2000] AND h[price > 2000]
PARTITION BY name
"""
trends = ceql.match(ROW, events)
print(
    trends.to_arrow().select(["name", "start_time", "end_time", "sales", "volume"]).to_pandas().to_string(index=False)
)
assert {match.partition["name"] for match in trends} == RISING

# %%
trends.timeline()
