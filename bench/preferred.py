"""What AFTER MATCH costs over patterns that make backtracking matchers explode, over a funnel, and where runs carry
values.

`python -m bench.preferred [EVENTS]` counts the preferred matches of each pattern over as many A's, and prints events
per second, beside a plain backtracking matcher over a few. Then come the visits of 100,000 users: a funnel with
its drop-off, the same steps with ANY, and prices compared with earlier ones of the same user. Last come windows with
many starts under way, which share their runs. Seconds are those of the processor.
"""

from __future__ import annotations

import re
import sys
import time

import numpy as np
import pyarrow as pa

import ceql

# the pattern, and the regular expression that means the same to a backtracking matcher
PATTERNS = {
    "(A:+):+ : B": "(a+)+b",
    "(A OR A):* : B": "(a|a)*b",
    "(A?):{20} : A:{20} : B": "(a?){20}a{20}b",
}
FEW = 22  # A's for the backtracking matcher
USERS = 100_000
FUNNEL = "View -> (Cart -> (Pay)?)? PARTITION BY user WITHIN 30 MINUTES AFTER MATCH SKIP PAST LAST EVENT"
STEPS = "View ; Cart ; Pay PARTITION BY user WITHIN 30 MINUTES"
COMPARED = (
    "View AS a -> View+ AS b -> View AS c FILTER b.price < a.price AND c.price > a.price",
    "View+ AS a FILTER SUM(a.price) <= 300",
    "View+? AS a FILTER COUNT(DISTINCT a.price) >= 3",
)
MANY = ("(A:+):+ : B", "(A OR A):* : B", "A+ ; B", "A ; B ; C")


def seconds(query: ceql.Query, events: pa.Table) -> tuple[float, int]:
    """How long it takes to count the matches, and how many there are."""
    query.run(events.slice(0, 1_000)).count()  # loads what is compiled
    begun = time.process_time()
    matches = query.run(events).count()
    return time.process_time() - begun, matches


def visits(count: int) -> pa.Table:
    rng = np.random.default_rng(0)
    kinds = pa.array(["View", "Cart", "Pay"])
    steps = rng.choice(3, count, p=[0.7, 0.2, 0.1]).astype(np.int32)
    start = np.datetime64("2026-01-01", "ms")
    return pa.table(
        {
            "type": pa.DictionaryArray.from_arrays(pa.array(steps), kinds),
            "time": start + np.arange(count),
            "user": rng.integers(0, USERS, count),
            "price": rng.integers(1, 100, count),
        }
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    letters = pa.table({"type": pa.array([*"A" * (count - 1), "C"]).dictionary_encode()})
    for pattern, regex in PATTERNS.items():
        query = ceql.compile(f"SELECT * WHERE {pattern} AFTER MATCH SKIP PAST LAST EVENT")
        took, matches = seconds(query, letters)
        begun = time.process_time()
        re.match(regex, "a" * FEW + "c")
        backtracking = time.process_time() - begun
        print(
            f"{pattern:26} {count / took / 1e6:6.2f} million events/s, {matches} matches; "
            f"a backtracking matcher took {backtracking:.3f} s for {FEW}",
            flush=True,
        )
    events = visits(count)
    for text in (f"SELECT * WHERE {FUNNEL}", f"SELECT ANY * WHERE {STEPS}"):
        took, matches = seconds(ceql.compile(text), events)
        print(f"{took:6.2f} s for {count:,} events, {matches:,} matches: {text}", flush=True)
    for formula in COMPARED:
        clauses = "PARTITION BY user WITHIN 30 MINUTES AFTER MATCH SKIP PAST LAST EVENT"
        took, matches = seconds(ceql.compile(f"SELECT * WHERE {formula} {clauses}"), events)
        print(f"{count / took / 1e6:6.2f} million events/s, {matches:,} matches: {formula}", flush=True)
    waiting = pa.table({"type": pa.array([*"A" * (count - 1), "B"]).dictionary_encode()})
    took, matches = seconds(ceql.compile("SELECT * WHERE A -> B AFTER MATCH SKIP TO NEXT EVENT"), waiting)
    print(f"{count / took / 1e6:6.2f} million events/s, {matches:,} matches: the next B of each A", flush=True)
    mixed = pa.array(np.random.default_rng(0).choice(list("ABC"), count, p=[0.45, 0.1, 0.45])).dictionary_encode()
    for formula in MANY:
        for skip in ("PAST LAST EVENT", "TO NEXT EVENT"):
            clauses = f"WITHIN 1000 EVENTS AFTER MATCH SKIP {skip}"
            took, matches = seconds(ceql.compile(f"SELECT * WHERE {formula} {clauses}"), pa.table({"type": mixed}))
            print(f"{count / took / 1e6:6.2f} million events/s, {matches:,} matches: {formula} {clauses}", flush=True)


if __name__ == "__main__":
    main()
