"""Brute-force log-in as a stream on Spark: many failures of a user, then a success, as the files arrive."""

# %% [markdown]
# # Brute-force log-in, as a stream
# Someone guesses a password: five or more failures in a row, then a success, within two minutes. The log is
# generated; three of its users are attacked. It arrives in files, and Spark's structured streaming reads them.

# %%
import random
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
from pyarrow import parquet

ATTACKED = ["mia", "noah", "zoe"]


def log(seed: int = 7) -> pa.Table:
    """An hour of log-ins of forty users; times are in milliseconds."""
    dice = random.Random(seed)
    users = [f"user{k:02}" for k in range(37)] + ATTACKED
    rows = [
        (dice.randrange(3_600_000), dice.choice(users), "Fail" if dice.random() < 0.2 else "Ok") for _ in range(4000)
    ]
    for k, user in enumerate(ATTACKED):
        begin = 600_000 + 900_000 * k
        rows = [row for row in rows if row[1] != user or not begin - 120_000 <= row[0] <= begin + 120_000]
        rows += [(begin + 7_000 * i, user, "Fail") for i in range(6 + k)] + [(begin + 60_000 + 5_000 * k, user, "Ok")]
    time, user, type = zip(*sorted(rows), strict=True)
    return pa.table(
        {"time": pa.array([1_717_200_000_000 + t for t in time], pa.timestamp("ms", "UTC")), "user": user, "type": type}
    )


events = log()
print(events.num_rows, "log-ins,", sum(kind == "Fail" for kind in events["type"].to_pylist()), "of them failed")

# %% [markdown]
# `Fail:{5,}` is five or more in a row, and `:` joins the success to the last of them: among the events of that user,
# nothing lies between. MAX keeps the longest run.

# %%
GUESSED = """
SELECT MAX COUNT(fails) AS failures, ok
WHERE Fail:{5,} AS fails : Ok AS ok
PARTITION BY user
WITHIN 2 MINUTES
"""

# %% [markdown]
# First over the whole table, to see what is there.

# %%
import ceql

attacks = ceql.match(GUESSED.replace("COUNT(fails) AS failures, ok", "fails, ok"), events)
print(attacks)
attacks.timeline()

# %% [markdown]
# Now as a stream. The watermark says how late events may come; a match comes out once the watermark has passed its
# end. Each of the three files is one micro-batch, and the state lives in Spark's checkpoint.

# %%
from ceql.spark import match, session

folder = Path(mkdtemp())
(folder / "log").mkdir()
for k in range(3):
    size = events.num_rows // 3 + 1
    parquet.write_table(events.slice(k * size, size), folder / "log" / f"{k}.parquet")

spark = session(config={"spark.sql.shuffle.partitions": "2"})
schema = spark.read.parquet(str(folder / "log")).schema
stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "log"))
alarms = match(stream.withWatermark("time", "10 seconds"), GUESSED, buckets=2)
writer = alarms.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
writer.trigger(availableNow=True).start(str(folder / "alarms")).awaitTermination()

# %%
raised = spark.read.parquet(str(folder / "alarms")).orderBy("end_time").select("user", "failures").collect()
print([tuple(row) for row in raised])
assert sorted(row.user for row in raised) == ATTACKED
spark.stop()
