"""Rising vital signs: a pulse that rises while the pressure falls, by conditions between events."""

# %% [markdown]
# # Rising vital signs
# A pulse that rises from reading to reading is a sign, and a blood pressure that falls meanwhile makes it an alarm.
# Both compare events with each other. The ward is generated: eight patients, a reading a minute; patients 3 and 6 get
# worse.

# %%
import numpy as np
import pyarrow as pa

WORSE = {3: 120, 6: 200}  # patient: the minute at which it begins


def ward(minutes: int = 300, seed: int = 2) -> pa.Table:
    """Readings of pulse (beats a minute) and pressure (mmHg, systolic), in turn."""
    dice = np.random.default_rng(seed)
    rows = []
    for patient in range(8):
        for minute in range(minutes):
            since = minute - WORSE.get(patient, minutes)
            bad = since / 10 if 0 <= since < 12 else 0.0
            value = 75 + 40 * bad + dice.normal(0, 1.5) if minute % 2 == 0 else 125 - 35 * bad + dice.normal(0, 2)
            rows.append(
                (60 * minute + patient, "Pulse" if minute % 2 == 0 else "Pressure", patient, round(float(value)))
            )
    time, type, patient, value = zip(*sorted(rows), strict=True)
    return pa.table(
        {
            "time": pa.array([1_717_200_000 + t for t in time], pa.timestamp("s")),
            "type": type,
            "patient": patient,
            "value": value,
        }
    )


events = ward()
print(f"{events.num_rows:,} readings")

# %% [markdown]
# A first pulse; then four or more readings of the pulse, each at least three beats above the one before (`PREV` is
# the event before of that variable); then a pressure below 100 that is at least 20 less than one before the rise.
# NEXT keeps one match of many: the one that takes the next fitting event each time.

# %%
import ceql

ALARM = """
SELECT NEXT before, first, up, low, first.value AS from_pulse, LAST(up.value) AS to_pulse, low.value AS pressure
WHERE Pressure AS before ; Pulse AS first ; Pulse{4,} AS up ; Pressure AS low
FILTER up[value >= PREV.value + 3] AND low[value < 100] AND before.value >= low.value + 20
PARTITION BY patient
WITHIN 15 MINUTES
CONSUME BY PARTITION
"""
alarms = ceql.match(ALARM, events)
print(
    alarms.to_arrow()
    .select(["patient", "start_time", "end_time", "from_pulse", "to_pulse", "pressure"])
    .to_pandas()
    .to_string(index=False)
)

# %%
alarms.timeline()

# %% [markdown]
# `explain` says at which event each condition is decided, and by what.

# %%
text = str(ceql.compile(ALARM).explain())
print(text[text.index("Conditions across events") :].split("\n\n")[0])

# %%
assert {match.partition["patient"] for match in alarms} == set(WORSE)
