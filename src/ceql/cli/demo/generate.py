"""Makes `payments.parquet`: a day of card payments with a few frauds in it. `python -m ceql.cli.demo.generate`

Every card is of a Chilean bank. People pay by day at home and now and then abroad, and draw cash. A thief
tries a stolen card with a few tiny payments, and then draws a lot of cash abroad, all within minutes.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

FILE = Path(__file__).with_name("payments.parquet")
EVENTS = 20_000
CARDS = 400
FRAUDS = 7
DAY = datetime(2024, 5, 17)
COUNTRIES = ["CL", "AR", "PE", "US", "ES", "FR"]


def generate(seed: int = 7) -> pa.Table:
    """The day's events in order of time."""
    random = np.random.default_rng(seed)
    events = []
    hours = np.clip(random.normal(14, 4, EVENTS), 0, 23.999)
    for hour in hours:
        cash = random.random() < 0.12
        amount = random.choice([20, 40, 50, 100, 200, 300]) if cash else max(0.5, random.lognormal(3.0, 1.1))
        country = "CL" if random.random() < 0.97 else str(random.choice(COUNTRIES[1:]))
        events.append((hour * 3600, "Withdrawal" if cash else "Payment", int(random.integers(CARDS)), amount, country))
    for card in random.choice(CARDS, FRAUDS, replace=False):
        second = random.uniform(1, 22) * 3600
        country = str(random.choice(COUNTRIES[3:]))
        for _ in range(random.integers(3, 6)):
            events.append((second, "Payment", int(card), random.uniform(0.5, 1.9), country))
            second += random.uniform(15, 90)
        events.append(
            (second + random.uniform(20, 120), "Withdrawal", int(card), random.integers(18, 31) * 50, country)
        )
    events = sorted(events)[-EVENTS:]
    seconds, types, cards, amounts, countries = zip(*events, strict=True)
    return pa.table(
        {
            "time": pa.array([DAY + timedelta(seconds=int(s)) for s in seconds], pa.timestamp("ms")),
            "type": pa.array(types),
            "card": pa.array(cards, pa.int16()),
            "amount": pa.array([round(float(a), 2) for a in amounts]),
            "country": pa.array(countries),
        }
    )


if __name__ == "__main__":
    parquet.write_table(generate(), FILE, compression="zstd", use_dictionary=["type", "country", "card"])
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")
