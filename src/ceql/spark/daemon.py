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
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_SAFE = {"jemalloc_bg_thd"}
"""Threads that see to forks by themselves, as Linux names them."""

_PATIENCE = 20  # tenths of a second


class _NotCachedError(BaseException):
    """A kernel would have to be compiled. No `except Exception` on the way may take it for a failure of its own."""


def load() -> None:
    """Import what tasks need, and load the kernels that most of them call, as far as they are in the cache."""
    import pyspark.worker  # noqa: F401

    from ceql.spark.rehearsal import rehearse

    if not _is_compiling():
        with _nothing_compiled():
            rehearse()
    gc.collect()
    gc.freeze()


def _is_compiling() -> bool:
    """Whether a process compiles kernels, for longer than it is worth to wait: to load some, one has to wait for it."""
    import fcntl

    from ceql.jit import cache_root

    try:
        with (cache_root() / "lock").open("ab") as file:
            for _ in range(_PATIENCE):
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return False
                time.sleep(0.1)
    except OSError:  # there is no such folder yet, or no locks
        return False
    return True


@contextmanager
def _nothing_compiled() -> Iterator[None]:
    """End this block, in silence, where Numba begins to compile."""
    from numba.core import event

    class Refusal(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            raise _NotCachedError

        def on_end(self, event: Any) -> None:
            """Nothing: Numba asks for both."""

    refusal = Refusal()
    event.register("numba:compile", refusal)
    try:
        yield
    except _NotCachedError:
        pass
    finally:
        event.unregister("numba:compile", refusal)


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
