"""Run a job with `pycer`, in its own environment.

Events are handed over as boxed values, made before the clock starts: the attributes that the query names, the time and
the position, which tells events apart in the output. They are taken in lists of a thousand, the fastest way there is.
The engine puts them in a queue without bounds and works in a thread of its own, so that handing over says nothing about
how far it is. Its output is one text with a line for each match, which can be asked for once: that waits for the
engine (it looks up every tenth of a second or so), and ends it. The clock stops when the text is there.

Since nothing can be cut short, the run that is not counted finds out how many events can be read in `seconds`, and the
others read so many. For memory, events are handed over at half the rate that the engine has, so that few wait in its
queue; the text of all matches is included, for it cannot be taken out earlier.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time

import pyarrow as pa
import pyarrow.compute as pc
import pycer

from bench.peers.peer import Run
from bench.peers.pycer import TIME, declaration, query
from bench.peers.worker import BATCH, Asked, Clock, answer, asked, resident, settled

AT_ONCE = 1000  # events handed over in one call
LONG = 0.5  # seconds: a try that took less says little about the rate


class Boxed:
    """The events as pycer's values, and the stream they are of."""

    def __init__(self, job: Asked) -> None:
        self._job = job
        self.all = job.table.num_rows
        self.events: list[pycer.PyEvent] = []
        self.need(BATCH)

    def need(self, count: int) -> None:
        """Have the first `count` events, as far as there are so many."""
        done = len(self.events)
        if count <= done:
            return
        pattern, table = self._job.pattern, self._job.table.slice(done, count - done)
        kinds = table["type"].to_pylist()
        known = pc.unique(self._job.table["type"]).to_pylist()
        types = sorted({*known, *(kind for step in pattern.steps for kind in step.types)})
        numbers = {name: k for k, name in enumerate(types)}
        named = {attribute for step in pattern.steps for attribute, _, _ in step.conditions}
        attributes = {"position": "int", TIME: "int"}
        columns = [map(pycer.PyIntValue, range(done, done + table.num_rows))]
        columns.append(map(pycer.PyIntValue, table[TIME].cast(pa.int64()).to_pylist()))
        for name in sorted((named | ({pattern.key} if pattern.key else set())) - {TIME}):
            kind = table.schema.field(name).type
            if pa.types.is_integer(kind):
                attributes[name], box = "int", pycer.PyIntValue
            elif pa.types.is_floating(kind):
                attributes[name], box = "double", pycer.PyDoubleValue
            else:
                attributes[name], box = "string", pycer.PyStringValue
            columns.append(map(box, table[name].to_pylist()))
        self.declaration = declaration(types, attributes)
        self.events += [
            pycer.PyEvent(numbers[kind], list(values))
            for kind, values in zip(kinds, zip(*columns, strict=True), strict=True)
        ]


def run(boxed: Boxed, text: str, count: int, pause: float | None = None) -> Run:
    """The first `count` events; with a pause after each thousand, memory is measured."""
    slices = [boxed.events[start : min(start + AT_ONCE, count)] for start in range(0, count, AT_ONCE)]
    server = pycer.PyOfflineServer()
    server.declare_stream(boxed.declaration)
    server.add_query(text)
    watch = None if pause is None else Watch()
    clock, own = Clock(), time.thread_time()
    for events in slices:
        server.send_events(events)
        if pause is not None:
            time.sleep(pause)
    found = server.get_output()
    wall, cpu = clock()
    engine = cpu - (time.thread_time() - own)  # the engine has a thread of its own
    growth = watch.stop() if watch else 0.0
    lines = found.splitlines()
    return Run(count, wall, cpu, len(lines), len(set(map(last_position, lines))), growth, engine)


def last_position(line: str) -> str:
    """Of a match as text: `[start,end], ((id: 0 attributes: [position time ... ]) ... )`."""
    return line[line.rindex("attributes: [") + len("attributes: [") :].split(" ", 1)[0]


class Watch:
    """The most memory while it runs, above what there was. A thread looks, since the engine is not ours to stop."""

    def __init__(self) -> None:
        self._before = self._most = settled()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._end.wait(0.01):
            self._most = max(self._most, resident())

    def stop(self) -> float:
        self._end.set()
        self._thread.join()
        return max(self._most, resident()) - self._before


def affordable(boxed: Boxed, text: str, seconds: float) -> tuple[int, float]:
    """How many events can be read in that time, and in a second. Tries double until one takes long enough to tell."""
    count = min(BATCH, boxed.all)
    while True:
        boxed.need(count)
        tried = run(boxed, text, count)
        if tried.wall > min(LONG, seconds) or count == boxed.all:
            rate = count / tried.wall
            count = min(boxed.all, max(1, int(rate * seconds)))
            boxed.need(count)
            return count, rate
        count = min(2 * count, boxed.all)


def main() -> None:
    job = asked(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it writes logs where it is
        boxed = Boxed(job)
        text = query(job.pattern)
        count, rate = affordable(boxed, text, job.seconds)
        pause = 2 * AT_ONCE / rate if job.memory else None
        for _ in range(job.runs):
            answer(run(boxed, text, count, pause))
        os.chdir("/")


if __name__ == "__main__":
    main()
