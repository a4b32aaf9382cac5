"""A smart home: a plug draws much more power than before and stays there, while nobody is at home."""

# %% [markdown]
# # Smart-home anomaly
# Plugs report their power every half minute, and the door says when the last person leaves and the first one comes
# home. An oven that goes on while nobody is there is worth a message. The data are generated: five days of one home,
# with two accidents.

# %%
import numpy as np
import pyarrow as pa

PLUGS = {"fridge": 90.0, "tv": 120.0, "oven": 1800.0, "lamp": 40.0}
ACCIDENTS = {(1, "oven"): 11.0, (3, "tv"): 14.5}  # day and plug: the hour at which it goes on while nobody is there


def home(days: int = 5, seed: int = 3) -> pa.Table:
    """Loads of the plugs in watts, and the door."""
    dice = np.random.default_rng(seed)
    rows = []
    for day in range(days):
        for plug, watts in PLUGS.items():
            seconds = np.arange(day * 86_400 + hash_of(plug), (day + 1) * 86_400, 30)
            hour = seconds / 3600 - 24 * day
            on = (hour > 18) & (hour < 21) if plug != "fridge" else np.sin(hour * 9) > 0
            begin = ACCIDENTS.get((day, plug))
            if begin is not None:
                on = on | ((hour > begin) & (hour < begin + 1))
            load = np.where(on, watts, 1.0) * dice.uniform(0.9, 1.1, len(seconds))
            rows += [("Load", int(s), plug, round(float(w), 1)) for s, w in zip(seconds, load, strict=True)]
        rows += [("Away", day * 86_400 + 8 * 3600, None, None), ("Home", day * 86_400 + 17 * 3600, None, None)]
    rows.sort(key=lambda row: row[1])
    type, time, plug, watts = zip(*rows, strict=True)
    return pa.table(
        {
            "type": type,
            "time": pa.array([1_717_200_000 + t for t in time], pa.timestamp("s")),
            "plug": plug,
            "watts": watts,
        }
    )


def hash_of(plug: str) -> int:
    """A phase for each plug, so that they do not report at the same moment."""
    return sum(map(ord, plug)) % 30


events = home()
print(f"{events.num_rows:,} events")

# %% [markdown]
# Everybody leaves. Then a plug other than the fridge jumps from idle to more than ten times the load between two
# reports, and nobody has come home. The two reports are joined by their plug; the door has none. NOT says what must
# not happen in between, and CONSUME BY ANY begins anew after an alarm.

# %%
import ceql

LEFT_ON = """
SELECT away, low[plug, watts], high[watts]
WHERE Away AS away ; NOT Home ; Load AS low ; NOT Home ; Load AS high
FILTER low[watts < 20] AND low.plug = high.plug AND high.watts > 10 * low.watts AND low[plug != 'fridge']
   AND high.time - low.time <= 30 SECONDS
WITHIN 9 HOURS
CONSUME BY ANY
"""
accidents = ceql.match(LEFT_ON, events)
print(accidents)

# %%
accidents.timeline()

# %%
found = sorted((match.start_time.day - 1, match["low"]["plug"]) for match in accidents)
assert found == sorted(ACCIDENTS), found
