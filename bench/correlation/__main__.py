"""`python -m bench.correlation [QUESTION ...]`: all questions, or some, by the names of their files.

The tables are printed, and written with the plots to bench/results/. BENCH_SCALE=0.01 tries the benchmark itself out.
"""

from __future__ import annotations

import platform
import sys
import time

import polars as pl
import pyarrow as pa

import ceql
from bench.correlation import clause, conjunctive, guarantees, memory, rivals
from bench.correlation.guarantees import RESULTS
from bench.correlation.measure import RUNS, SCALE, Report
from bench.run import machine

QUESTIONS = {
    "clause": clause.run,
    "conjunctive": conjunctive.run,
    "rivals": rivals.run,
    "memory": memory.run,
    "guarantees": guarantees.run,
}


def main(names: list[str]) -> int:
    import duckdb

    unknown = [name for name in names if name not in QUESTIONS]
    if unknown:
        print(f"no question {', '.join(unknown)}; there are {', '.join(QUESTIONS)}", file=sys.stderr)
        return 2
    pa.set_cpu_count(1)
    report = Report()
    versions = (
        f"ceql {ceql.__version__}, polars {pl.__version__}, DuckDB {duckdb.__version__}, pyarrow {pa.__version__}"
    )
    where = f"{machine()}, Python {platform.python_version()}, one thread, medians of {RUNS}; {versions}"
    report.markdown += ["# Queries that compare events with each other", "", f"{where}."]
    print(f"\nQueries that compare events with each other; {where}")
    if SCALE != 1:
        report.note(f"A TRIAL at scale {SCALE:g}: these figures mean nothing.")
    begun = time.perf_counter()
    for name in names or QUESTIONS:
        QUESTIONS[name](report)
    for line in report.missed:
        report.note(f"NOT MET: {line}")
    file = RESULTS / f"{'-'.join(['correlation', *names])}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(report.markdown) + "\n")
    print(f"\n{time.perf_counter() - begun:.0f} s; tables and plots: {file.parent}")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
