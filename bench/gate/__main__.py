"""Fails if this tree is slower than an earlier commit: `python -m bench.gate [ROW ...] [--base COMMIT] [--limit 1.1]`.

Two processes, one for each tree, run a row in turn, so that a slow spell of the machine meets both. What counts is the
median ratio of their processor times, with an interval of 99%. A row is measured until the interval is on one side of
the limit, or its time is over. A row is lost if the whole interval is above the limit, and again in a second round with
new processes: a process may have an unlucky layout of its memory for as long as it lives.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from bench.gate import trees
from bench.gate.interval import Interval, interval
from bench.gate.rows import ROWS
from bench.gate.worker import RowError, Tree, Worker

LIMIT = 1.1
LEAST, STEP, MOST = 10, 4, 60  # pairs of runs: before the first look, between looks, at most
PATIENCE = 20.0  # seconds by the clock for a row


@dataclass
class Found:
    """The pairs of a row so far: seconds of the base and of this tree."""

    pairs: list[tuple[float, float]] = field(default_factory=list)
    error: str = ""  # of this tree
    note: str = ""  # why there are no pairs, through no fault of this tree

    @property
    def interval(self) -> Interval:
        return interval([ours / theirs for theirs, ours in self.pairs])

    def slower(self, limit: float) -> bool:
        return bool(self.error) or (not self.note and self.interval.exceeds(limit))

    def cells(self, limit: float) -> str:
        if self.error:
            return f"FAILS: {self.error}"
        if self.note:
            return f"not compared: {self.note}"
        theirs, ours = (sorted(times)[len(times) // 2] * 1e3 for times in zip(*self.pairs, strict=True))
        verdict = " SLOWER" if self.slower(limit) else "" if self.interval.decides(limit) else " unsure"
        return f"{theirs:>9.1f} {ours:>9.1f}   {self.interval!s:<20} {len(self.pairs):>5}{verdict}"


def measure(row: str, base: Worker, ours: Worker, limit: float) -> Found:
    """Pairs of runs until they decide, or enough is enough."""
    try:
        _, theirs = base.run(row)
    except RowError as error:
        return Found(note=str(error))
    try:
        _, own = ours.run(row)
    except RowError as error:
        return Found(error=str(error))
    if theirs != own:
        return Found(error=f"{own:,} matches, the base has {theirs:,}")
    found, begun = Found(), time.monotonic()
    while len(found.pairs) < MOST:
        for k in range(STEP if found.pairs else LEAST):
            order = (base, ours) if k % 2 else (ours, base)  # neither always goes first
            seconds = {worker: worker.run(row)[0] for worker in order}
            found.pairs.append((seconds[base], seconds[ours]))
        if found.interval.decides(limit) or time.monotonic() - begun > PATIENCE:
            break
    return found


def compile_all(rows: Sequence[str], both: Sequence[Tree]) -> None:
    """Run each row once in a process of its own, so that kernels are loaded, not compiled, where times are taken."""
    for tree in both:
        with tree.start() as worker:
            for k, row in enumerate(rows):
                _progress(f"compiling {tree.name}: {k + 1} of {len(rows)} rows")
                try:
                    worker.run(row)
                except RowError:
                    continue  # the first round says so
    _progress("")


def round_of(rows: Sequence[str], base: Tree, ours: Tree, limit: float) -> list[str]:
    """Measure rows in new processes and print them; those that are slower."""
    slower = []
    print(f"{'':<20} {'base, ms':>9} {'now, ms':>9}   {'now / base':<20} {'pairs':>5}")
    with base.start() as one, ours.start() as two:
        for row in rows:
            _progress(row)
            found = measure(row, one, two, limit)
            _progress("")
            print(f"{row:<20} {found.cells(limit)}", flush=True)
            if found.slower(limit):
                slower.append(row)
    return slower


def check(rows: Sequence[str], base: Tree, ours: Tree, limit: float) -> int:
    """1 if a row is slower than the limit in both rounds."""
    print(f"processor time of {ours.name} beside {base.name}; lost is what is surely above {limit:g} times, twice")
    begun = time.monotonic()
    compile_all(rows, (base, ours))
    slower = round_of(rows, base, ours, limit)
    if slower:
        print("\nagain, in new processes:")
        slower = round_of(slower, base, ours, limit)
    print(f"{len(rows)} rows, {time.monotonic() - begun:.0f} s")
    for row in slower:
        print(f"LOST: {row}")
    return 1 if slower else 0


def chosen(patterns: Sequence[str]) -> list[str]:
    """The rows that a pattern names, as * and ? do in a shell; all without patterns."""
    for pattern in patterns:
        if not any(fnmatch(row, pattern) for row in ROWS):
            raise SystemExit(f"no row {pattern}; there are {', '.join(ROWS)}")
    return [row for row in ROWS if not patterns or any(fnmatch(row, pattern) for pattern in patterns)]


def _progress(text: str) -> None:
    """A line that the next one overwrites, at a terminal alone."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{text}", end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gate", description=__doc__.split(":")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"these only, * and ? as in a shell: {', '.join(ROWS)}")
    parser.add_argument("--base", help="a commit; the newest tag, or what bench/base says")
    parser.add_argument("--limit", type=float, default=LIMIT, help="times that a row may take of what it took (1.1)")
    given = parser.parse_args()
    return check(chosen(given.rows), trees.base(given.base or trees.default_base()), trees.ours(), given.limit)


if __name__ == "__main__":
    sys.exit(main())
