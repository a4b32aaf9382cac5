"""A worker that has run a task, made ready for the next: what it has loaded is left out of garbage collections.

Spark collects garbage in a worker after every task. Numba, Arrow and ceql are two hundred thousand objects that will
never be garbage, and to look at them all takes a tenth of a second, which is more than many a task.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Keep what is there now from being looked at again; once for each process."""
    gc.freeze()
