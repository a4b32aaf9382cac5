"""Measures what a newcomer waits for: twelve kinds of query in three cases (`make coldstart`).

- **wheel**: each kind in a process of its own, with the kernels of a platform wheel and an empty cache;
- **warm**: the same with the sources and a cache that `ceql.warm` has filled;
- **cold**: all kinds in one process, one after the other, from an empty cache. Later ones find what they share with
  earlier ones compiled already, so the order matters.

Seconds are those of the processor from `import ceql` to the first matches; kernels that were compiled are in brackets.
`--installed PYTHON` runs the twelve kinds in an environment with a platform wheel and an empty cache, prints the time
each takes, and fails if anything was compiled (`make dist-check`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parents[1] / "src"


class Kind(NamedTuple):
    """A kind of query, and whether its matches are counted or listed."""

    name: str
    query: str
    counted: bool = False


COMPARED = "SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v WITHIN 50 EVENTS"
KINDS = (
    Kind("A ; B", "SELECT * WHERE A ; B"),
    Kind("by key in a window", "SELECT * WHERE A ; B PARTITION BY k WITHIN 50 EVENTS"),
    Kind("count", "SELECT * WHERE A ; B WITHIN 50 EVENTS", counted=True),
    Kind("ANY", "SELECT ANY * WHERE A ; B WITHIN 50 EVENTS"),
    Kind("NEXT", "SELECT NEXT * WHERE A ; B+ ; C WITHIN 50 EVENTS"),
    Kind("equality", "SELECT * WHERE A AS a ; B AS b FILTER a.k = b.k WITHIN 50 EVENTS"),
    Kind("a.v < b.v", COMPARED),
    Kind("count of a.v < b.v", COMPARED, counted=True),
    Kind("MAX of rising runs", "SELECT MAX * WHERE A ; A+ AS b FILTER b[v > PREV.v] WITHIN 12 EVENTS"),
    Kind("NOT compared", "SELECT * WHERE A AS a ; NOT B AS n ; C AS c FILTER n.v > a.v WITHIN 50 EVENTS"),
    Kind("neighbours", "SELECT * WHERE A AS a : B AS b FILTER b.v > a.v"),
    Kind("AFTER MATCH", "SELECT * WHERE A -> (B ; C)? AFTER MATCH SKIP PAST LAST EVENT"),
)
# what a process runs: the queries that it is given as JSON, over 200 events
PROGRAM = """
import json, sys, time
begun = time.process_time()
import ceql
import pyarrow as pa
table = pa.table({
    "type": pa.array(["ABC"[k * k % 7 % 3] for k in range(200)], pa.string(), from_pandas=False),
    "k": pa.array([k * 5 % 11 for k in range(200)], pa.int64(), from_pandas=False),
    "v": pa.array([k * 7 % 101 for k in range(200)], pa.int64(), from_pandas=False),
})
for name, query, counted in json.loads(sys.argv[1]):
    matches = ceql.compile(query).run(table)
    found = matches.count() if counted else matches.to_arrow().num_rows
    assert found, f"{name}: no match, so not all of it was run"
    print(json.dumps([name, time.process_time() - begun]), flush=True)
    begun = time.process_time()
"""


class Taken(NamedTuple):
    """What a kind cost: processor seconds, kernels that were compiled for it, and seconds of the clock."""

    name: str
    seconds: float
    kernels: int
    clock: float


def run(kinds: Sequence[Kind], cache: Path, python: str = sys.executable, sources: Path | None = None) -> list[Taken]:
    """Run queries in one new process, with the compiled code in `cache`."""
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    given = {name: value for name, value in os.environ.items() if name not in left_out}
    if sources is not None:
        given["PYTHONPATH"] = str(sources)
    taken, before = [], 0
    with tempfile.NamedTemporaryFile() as noted:
        given |= {"NUMBA_CACHE_DIR": str(cache), "CEQL_COMPILED": noted.name}
        begun = time.monotonic()
        command = [python, "-c", PROGRAM, json.dumps(kinds)]
        with subprocess.Popen(command, env=given, cwd=cache, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                name, seconds = json.loads(line)
                compiled = len(Path(noted.name).read_text().splitlines())
                taken.append(Taken(name, seconds, compiled - before, time.monotonic() - begun))
                before, begun = compiled, time.monotonic()
    if process.returncode:
        raise SystemExit(f"the program failed, with exit code {process.returncode}")
    return taken


def each(cache: Path, python: str = sys.executable, sources: Path | None = None) -> list[Taken]:
    """Run each kind in a process of its own."""
    return [run([kind], cache, python, sources)[0] for kind in KINDS]


def measure(wheel: Path | None) -> dict[str, list[Taken]]:
    """All cases; that of the wheel only if there is one."""
    cases = {}
    with tempfile.TemporaryDirectory() as folder:
        cold, empty, site = (Path(folder, name) for name in ("cold", "empty", "site"))
        cold.mkdir()
        empty.mkdir()
        if wheel is not None:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
            run(KINDS[:1], empty, sources=site)  # compiles Python's own code
            cases["wheel"] = each(empty, sources=site)
        last = run(KINDS, cold, sources=SOURCES)
        cases["warm"] = each(cold, sources=SOURCES)
        cases["cold"] = last
    return cases


def check(python: str) -> int:
    """Run the kinds in an environment that has a platform wheel; 1 if anything was compiled."""
    with tempfile.TemporaryDirectory() as cache:
        run(KINDS[:1], Path(cache), python)  # the first start compiles Python's own code
        found = each(Path(cache), python)
        for taken in found:
            print(f"{taken.name:<20} {taken.clock:5.2f} s of wall {taken.seconds:5.2f} s of CPU", flush=True)
        left = sorted(path.name for path in Path(cache).rglob("*.nbc"))
    compiled = [taken.name for taken in found if taken.kernels]
    if compiled or left:
        print(f"something was compiled: {', '.join(compiled)} {' '.join(left)}", file=sys.stderr)
        return 1
    print("nothing was compiled")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", nargs="?", type=Path, help="a platform wheel, for the first case")
    parser.add_argument("--installed", metavar="PYTHON", help="check what is installed there")
    asked = parser.parse_args()
    if asked.installed:
        return check(os.path.abspath(asked.installed))  # runs start in other folders
    cases = measure(asked.wheel)
    print(f"{'s of CPU':<20}" + "".join(f"{case:>14}" for case in cases))
    for row in zip(*cases.values(), strict=True):
        cells = (f"{taken.seconds:.2f} ({taken.kernels})" for taken in row)
        print(f"{row[0].name:<20}" + "".join(f"{cell:>14}" for cell in cells))
    totals = (f"{sum(t.seconds for t in case):.2f} ({sum(t.kernels for t in case)})" for case in cases.values())
    print(f"{'all kinds':<20}" + "".join(f"{total:>14}" for total in totals))
    return 0


if __name__ == "__main__":
    sys.exit(main())
