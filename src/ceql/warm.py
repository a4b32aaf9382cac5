"""Compiles all kernels beforehand: `ceql warm`, or `python -m ceql.warm` without what the command needs.

Compiles what is missing of `jit/signatures.txt` in as many processes as there are cores. A process takes one kernel in
one signature at a time, those that take longest first. Parts that several kernels share are loaded where another
process has compiled them already.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from time import perf_counter

from ceql import jit
from ceql.errors import CeqlError
from ceql.jit.cache import misfits

_BARS = 40


def missing() -> list[str]:
    """The lines of the list whose code is neither in the package nor in the user's cache."""
    from ceql.jit.cache import find
    from ceql.jit.signatures import read_all, write

    return [write(job.kernel, job.arguments) for job in read_all() if find(job.kernel.function, job.arguments) is None]


def compile_one(line: str) -> str:
    """Compile a kernel for a signature; what went wrong, or ""."""
    from numba.core.errors import NumbaError

    from ceql.jit.signatures import read
    from ceql.jit.told import silent

    silent()
    try:
        job = read(line)
        job.kernel.dispatcher.compile(job.arguments)
    except NumbaError as error:
        return f"{line.partition('(')[0]}: {' '.join(str(error).split())}"
    return ""


def warm(processes: int | None = None, quiet: bool = False) -> int:
    """Compile what is missing, and say so on standard error; the number of kernels compiled."""
    if jit.INTERPRETED:
        raise CeqlError("NUMBA_DISABLE_JIT is set: kernels run as plain Python, there is nothing to compile")
    lines = missing()
    if not lines:
        return 0
    count = min(processes or _cores(), len(lines))
    begun = perf_counter()
    why = f" ({misfits[0]}: what the package has compiled does not fit)" if misfits else ""
    bar = _Bar(len(lines), quiet, f"{_kernels(len(lines))} in {count} process{'es' if count > 1 else ''}{why}")
    failed = []
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        for done, future in enumerate(as_completed([pool.submit(compile_one, line) for line in lines]), 1):
            failed += [future.result()] if future.result() else []
            bar.show(done)
    bar.end(f"{_kernels(len(lines) - len(failed))} compiled in {perf_counter() - begun:.0f} s")
    if failed:
        raise CeqlError("these kernels did not compile:\n" + "\n".join(failed))
    return len(lines)


def check() -> list[str]:
    """What is missing, a line for each kernel."""
    names = [line.partition("(")[0] for line in missing()]
    return [f"{name} ({names.count(name)})" if names.count(name) > 1 else name for name in dict.fromkeys(names)]


def _kernels(count: int) -> str:
    return f"{count} kernel{'s' if count != 1 else ''}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Bar:
    """A line at the beginning and one at the end; at a terminal a bar between them."""

    def __init__(self, total: int, quiet: bool, what: str) -> None:
        self._total, self._quiet = total, quiet
        self._drawn = not quiet and sys.stderr.isatty()
        self._say(f"compiling {what}, once on this machine ...")
        self.show(0)

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"ceql: {text}", file=sys.stderr, flush=True)

    def show(self, done: int) -> None:
        if self._drawn:
            filled = _BARS * done // self._total
            bar = f"[{'#' * filled}{'.' * (_BARS - filled)}]"
            print(f"\r{bar} {done}/{self._total}", end="", file=sys.stderr, flush=True)

    def end(self, text: str) -> None:
        if self._drawn:
            print("\r" + " " * (_BARS + 20), end="\r", file=sys.stderr)
        self._say(text)


def main(given: list[str] | None = None) -> int:
    """The command: 0 if everything is compiled, 1 if not."""
    parser = argparse.ArgumentParser(prog="ceql warm", description="Compile the kernels of ceql beforehand.")
    parser.add_argument("--check", action="store_true", help="compile nothing, but say what is missing")
    parser.add_argument("--processes", type=int, metavar="N", help="as many processes; by default one for each core")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    asked = parser.parse_args(given)
    if asked.check:
        lacking = check()
        if not asked.quiet:
            print("\n".join(lacking) if lacking else "everything is compiled")
        return 1 if lacking else 0
    try:
        if not warm(asked.processes, asked.quiet) and not asked.quiet:
            print("ceql: everything is compiled", file=sys.stderr)
    except CeqlError as error:
        print(f"ceql: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
