"""Watch a stream that is fed piece by piece, stop, and go on elsewhere from a snapshot."""

from __future__ import annotations

import ceql
from ceql.cli.demo import payments

QUERY = """
SELECT ANY cash[amount, country]
WHERE Payment ; Payment ; Payment ; Withdrawal AS cash
FILTER Payment[amount < 2] AND cash[amount >= 500 AND country != 'CL']
PARTITION BY card
WITHIN 10 MINUTES
"""


def main() -> None:
    query = ceql.compile(QUERY)
    recognizer = query.recognizer()
    for number, batch in enumerate(payments().to_batches(max_chunksize=2_500)):
        for match in recognizer.feed(batch):
            print(f"batch {number}: card {match.partition['card']} at {match.end_time}")
        if number == 3:
            state = recognizer.snapshot()
            print(f"batch {number}: snapshot of {len(state):,} bytes; going on from it")
            recognizer = query.restore(state)
    for match in recognizer.finish():
        print(f"end: card {match.partition['card']} at {match.end_time}")


if __name__ == "__main__":
    main()
