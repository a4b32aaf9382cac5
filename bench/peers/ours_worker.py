"""Run a job with ceql: the whole table at once, all matches to an Arrow table.

A first run is not counted, unless it took very long: then it is all there is.

Memory is that of a recogniser which is fed batches, whose matches are counted and dropped: so it includes the matches
of one batch.
"""

from __future__ import annotations

import sys

import pyarrow.compute as pc

import ceql
from bench.peers.peer import Run
from bench.peers.worker import BATCH, Asked, Clock, answer, asked, resident, settled

LONG = 15.0  # seconds


def timed(job: Asked, query: ceql.Query) -> None:
    first = run(job, query)
    if first.wall > LONG:
        answer(first)
        return
    for _ in range(job.runs):
        answer(run(job, query))


def run(job: Asked, query: ceql.Query) -> Run:
    clock = Clock()
    found = query.run(job.table).to_arrow()
    wall, cpu = clock()
    return Run(job.table.num_rows, wall, cpu, found.num_rows, pc.count_distinct(found["end"]).as_py())


def measured(job: Asked, query: ceql.Query) -> None:
    query.recognizer(keep_rows=False).feed(job.table.slice(0, BATCH)).to_arrow()
    for _ in range(job.runs):
        matches = triggers = 0
        before = most = settled()
        clock = Clock()
        recognizer = query.recognizer(keep_rows=False)
        for start in range(0, job.table.num_rows, BATCH):
            found = recognizer.feed(job.table.slice(start, BATCH)).to_arrow()
            matches += found.num_rows
            triggers += pc.count_distinct(found["end"]).as_py()
            most = max(most, resident())
            del found
        answer(Run(job.table.num_rows, *clock(), matches, triggers, most - before))
        del recognizer


if __name__ == "__main__":
    asked_for = asked(sys.argv[1])
    (measured if asked_for.memory else timed)(asked_for, ceql.compile(asked_for.query))
