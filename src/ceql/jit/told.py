"""Tells people that they wait for the compiler, and for how long.

A process says so once, when compiling has taken a second of its time: small kernels are done by then, and loading takes
no such time. It is a warning of the logger `ceql`. Whoever has given that logger no handler finds it on standard
error, where Spark's executors have their log, too; at a terminal a bar follows it. `now` is for pages.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from time import perf_counter

from ceql.jit import cache

log = logging.getLogger("ceql")
PATIENCE = 1.0
_BARS = 30
# What kernels of a package are for, and what those of an ordinary query take to compile, in seconds.
_PARTS = {
    "ceql.engine.groups": ("conditions between events", 10),
    "ceql.engine.states": ("conditions on single events", 5),
}


class _Told:
    """What this process has compiled."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.spent = 0.0
        self.since: float | None = None
        self.told = False
        self.reported = 0.0
        self.what, self.seconds = "", 0


_state = _Told()


def now() -> str:
    """What somebody waits for at this moment; "" if nothing is compiled."""
    state = _state
    return f"Compiling the engine for {state.what}" if state.since is not None else ""


def elapsed() -> float:
    """The seconds that this process has waited for the compiler."""
    since = _state.since
    return _state.spent + (0.0 if since is None else perf_counter() - since)


def since_last() -> int:
    """Milliseconds that this process has waited for the compiler since this was asked last."""
    before, _state.reported = _state.reported, elapsed()
    return round(1000 * (_state.reported - before))


@contextmanager
def waiting(module: str) -> Iterator[None]:
    """A kernel of that module is compiled in this block, here or by another process that this one waits for."""
    state = _state
    if state.since is not None:  # a kernel within a kernel
        yield
        return
    state.what, state.seconds = next(
        (said for package, said in _PARTS.items() if module.startswith(package)), ("what reads and writes events", 2)
    )
    done = Event()
    state.since = perf_counter()
    watcher = Thread(target=_watch, args=(done,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        state.spent += perf_counter() - state.since
        state.since = None
        done.set()
        watcher.join()


def _watch(done: Event) -> None:
    if done.wait(max(0.0, PATIENCE - _state.spent)):
        return
    _tell()
    if not _at_terminal():
        return
    while not done.wait(0.2):
        _draw()
    with suppress(OSError):
        print("\r" + " " * (_BARS + 12), end="\r", file=sys.stderr, flush=True)


def _tell() -> None:
    with _state.lock:
        if _state.told:
            return
        _state.told = True
    why = f" ({cache.misfits[0]}: what the package has compiled does not fit)" if cache.misfits else ""
    text = (
        f"compiling the engine for {_state.what}, once on this machine, about {_state.seconds} s{why}; "
        "`ceql warm` does it beforehand"
    )
    log.warning(text)
    if not _is_heard() and sys.stderr is not None:
        with suppress(OSError):
            print(f"ceql: {text}", file=sys.stderr, flush=True)


def _is_heard() -> bool:
    """Whether some handler takes the warnings of the logger."""
    logger: logging.Logger | None = log
    while logger is not None:
        if any(not isinstance(one, logging.NullHandler) and one.level <= logging.WARNING for one in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _at_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _draw() -> None:
    """A bar of the time that is expected; it waits near its end."""
    seconds = elapsed()
    share = min(seconds / max(_state.seconds, 1), 0.95)
    filled = int(_BARS * share)
    with suppress(OSError):
        print(f"\r[{'#' * filled}{'.' * (_BARS - filled)}] {seconds:3.0f} s", end="", file=sys.stderr, flush=True)


def silent() -> None:
    """Say nothing in this process: somebody else does."""
    _state.told = True
