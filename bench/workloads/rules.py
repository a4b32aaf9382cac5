"""Events of a web shop with accounts, and detection rules over them: as many as are asked for, no two alike.

Most events are of types that no rule names. A rule has two or three steps of one user within minutes, with conditions
on country, amount or score.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

SHARES = {
    "view": 30, "click": 20, "search": 10, "ping": 10.5, "payment": 5, "chat": 5, "login": 4, "logout": 4, "ship": 4,
    "login_failed": 2, "transfer": 2, "error": 1, "refund": 1, "signup": 0.5, "password_reset": 0.5, "add_card": 0.5,
}  # fmt: skip
COUNTRIES = ("DE", "FR", "US", "CN", "RU", "BR")
_SHAPES = (
    "login_failed AS a ; login_failed AS b ; login AS c FILTER c.country = '{country}' AND c.score > {score}",
    "login AS a ; payment AS b ; transfer AS c FILTER b.amount > {amount} AND a.country = '{country}'",
    "password_reset AS a ; (payment OR transfer) AS b FILTER b.amount > {amount}",
    "signup AS a ; add_card AS b ; payment+ AS c FILTER c.amount > {amount} AND b.score > {score}",
    "refund AS a ; refund AS b ; error AS c FILTER a.amount > {amount} AND b.country = '{country}'",
)


def events(count: int, users: int = 20_000, seed: int = 7) -> pa.Table:
    """A stream of so many events."""
    draw = np.random.default_rng(seed)
    shares = np.array(list(SHARES.values()))
    kinds = np.array(list(SHARES))[draw.choice(len(SHARES), count, p=shares / shares.sum())]
    return pa.table(
        {
            "type": kinds,
            "time": pa.array(np.cumsum(draw.integers(0, 200, count))).cast(pa.timestamp("ms")),
            "user": draw.integers(0, users, count),
            "amount": draw.exponential(100, count),
            "country": np.array(COUNTRIES)[draw.integers(0, len(COUNTRIES), count)],
            "score": draw.integers(0, 100, count),
        }
    )


def rules(count: int) -> dict[str, str]:
    """So many rules, by name."""
    found = {}
    for number in range(count):
        draw = random.Random(number)
        steps = _SHAPES[number % len(_SHAPES)].format(
            country=draw.choice(COUNTRIES), amount=draw.randrange(100, 1500, 50), score=draw.randrange(50, 99)
        )
        minutes = draw.choice([5, 10, 30, 60])
        found[f"rule_{number:03}"] = f"SELECT * WHERE {steps} PARTITION BY user WITHIN {minutes} MINUTES"
    return found
