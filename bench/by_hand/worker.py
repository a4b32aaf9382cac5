"""One question, asked of one of the three, in a process of its own: `python -m bench.by_hand.worker JOB`.

JOB is JSON: the number of the question, who, the file of the events, threads, runs, and where the answer goes. Prints
seconds by the clock and of the processor of each run, and the megabytes that the runs took besides what was there.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CEQL, POLARS, DUCKDB = "ceql", "polars", "DuckDB"


def _action(job: dict[str, Any]) -> tuple[Callable[[], Any], int]:
    """What answers the question, and of how many events; what comes before, such as loading, is not timed."""
    import polars as pl
    import pyarrow as pa

    from bench.by_hand.questions import QUESTIONS

    question = QUESTIONS[job["question"]]
    pa.set_cpu_count(job["threads"])
    with pa.OSFile(job["events"]) as source:
        table = pa.ipc.open_file(source).read_all()
    if job["who"] == CEQL:
        import ceql

        query = ceql.compile(question.query)
        options = {} if job["default"] else {"threads": job["threads"]}
        return lambda: pl.DataFrame(query.run(table, **options).to_arrow().select(question.columns)), len(table)
    if job["who"] == POLARS:
        frame = pl.DataFrame(table).rechunk().with_row_index("row")
        return lambda: question.polars(frame.lazy()).collect(), len(table)
    import duckdb

    database = duckdb.connect(config={"threads": job["threads"]})
    database.register("events", table)
    database.execute("CREATE TABLE e AS SELECT row_number() OVER () - 1 AS row, * FROM events")
    return lambda: pl.DataFrame(database.sql(question.sql).to_arrow_table()), len(table)


def _megabytes(name: str) -> float:
    """A figure of this process, such as VmHWM, the most memory since it was last asked."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1e3


def main() -> None:
    job = json.loads(sys.argv[1])
    action, events = _action(job)
    answer = action()
    answer.write_ipc(job["answer"])
    walls, cpus, megabytes = [], [], 0.0
    for _ in range(job["runs"]):
        del answer
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before = _megabytes("VmRSS")
        cpu, wall = time.process_time(), time.perf_counter()
        answer = action()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        megabytes = max(megabytes, _megabytes("VmHWM") - before)
    found = {"walls": walls, "cpus": cpus, "megabytes": megabytes, "matches": len(answer), "events": events}
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
