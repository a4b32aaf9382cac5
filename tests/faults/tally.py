"""How much of the long tests runs, and the count of what they did.

`make test` takes a sample; `make faults` sets CEQL_FAULTS to the number of lines of each case, 0 for all of them.
"""

from __future__ import annotations

import os
from collections import Counter

WHOLE = "CEQL_FAULTS" in os.environ
LINES = int(os.environ.get("CEQL_FAULTS", "3"))
counts: Counter[str] = Counter()


def note(**numbers: int) -> None:
    """Add to what the summary shows."""
    counts.update(numbers)
