"""Spark's daemon of Python workers, with ceql loaded before it forks them.

Spark takes it where `spark.python.daemon.module` is `ceql.spark.daemon`; `ceql.spark.session()` sees to that.
A worker of Spark's own daemon begins with nothing: it imports NumPy, Arrow, Numba and ceql and loads the compiled
kernels, two seconds of the processor for each. Here the daemon has done all of that, and a worker has it from its first
task on. What was loaded is also taken out of Python's garbage collection, which Spark runs after every task.

A process should not fork while it has threads: their locks would stay locked in the child. Arrow's allocator has one,
which it stops and forgets around a fork by itself; if there is any other, or anything fails, Spark's own daemon takes
over. Kernels are loaded here but never compiled: where the cache lacks one, the first task compiles it, as ever.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SAFE = {"jemalloc_bg_thd"}
"""Threads that see to forks by themselves, as Linux names them."""


def load() -> None:
    """Import what tasks need, and load the kernels that most of them call, as far as they are in the cache."""
    import pyspark.worker  # noqa: F401

    from ceql.jit.ways import NotCompiledError, nothing_compiled
    from ceql.spark.rehearsal import rehearse

    with suppress(NotCompiledError), nothing_compiled():
        rehearse()
    gc.collect()
    gc.freeze()


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """Send what is printed to the log: Spark reads the port of the daemon from its standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def may_fork() -> bool:
    """Whether this process has no threads that a fork would break."""
    try:
        names = [task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    except OSError:  # not Linux, where a daemon is used as well
        return False
    return sum(name not in _SAFE for name in names) == 1


def main() -> None:
    """Be the daemon."""
    try:
        with _silent_stdout():
            load()
        ready = may_fork()
    except Exception as error:
        print(f"ceql: workers start with nothing loaded: {error!r}", file=sys.stderr)
        ready = False
    if not ready:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
