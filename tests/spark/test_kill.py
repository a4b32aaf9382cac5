"""A streaming query that is killed again and again, at any moment, gives each match once in the end.

`stream_to_files` is the query, in a process of its own: driver, JVM and Python workers are killed together, with
SIGKILL, and the next process goes on from the checkpoint. While one runs, the next one starts up, up to where it
would read the checkpoint; so a kill costs a few seconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceql
import hand_made
import stream_to_files
import ways

KILLS = int(os.environ.get("CEQL_KILLS", "0"))
SEED = 5
BACKLOG = 6  # files that are there to be read when a process starts, more than it will live to see
PATIENCE = 300  # seconds for what takes a few
START = 1_700_000_000_000  # milliseconds
FILE = 100  # milliseconds of events
SCHEMA = pa.schema(
    [
        ("type", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("v", pa.int32()),
        ("id", pa.int64()),
    ]
)


class Source:
    """A folder of files that grows: events of eight keys, shuffled as far as the watermark allows."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self._folder = folder
        self._draw = draw
        self._waiting: list[tuple[float, dict[str, Any]]] = []  # by arrival
        self.events: list[dict[str, Any]] = []
        self.files = 0
        folder.mkdir()

    def add_file(self) -> None:
        """The next file: what arrives in its time."""
        draw, begin = self._draw, self.files * FILE
        for number in range(self.files * 24, (self.files + 1) * 24):
            at = begin + (number % 24) * FILE // 24
            event = {
                "type": draw.choice("AABBC"),
                "time": (START + at) * 1000,
                "k": f"key {draw.randrange(8)}",
                "v": draw.randrange(8),
                "id": number,
            }
            self._waiting.append((at + draw.random() * (stream_to_files.DELAY - 1), event))
        self._waiting.sort(key=lambda waiting: waiting[0])
        arrived = sum(arrival < begin + FILE for arrival, _ in self._waiting)
        self._write([event for _, event in self._waiting[:arrived]])
        del self._waiting[:arrived]

    def finish(self) -> None:
        """What is still on its way, and an event that moves the watermark past all others."""
        self._write([event for _, event in self._waiting])
        self._write([{"type": "Z", "time": (START + 10**9) * 1000, "k": "", "v": 0, "id": -1}])

    def _write(self, events: list[dict[str, Any]]) -> None:
        self.events += events
        file = self._folder / f"{self.files:04}.parquet"
        hidden = self._folder / f"_{file.name}"  # Spark does not see it before it is whole
        pq.write_table(pa.Table.from_pylist(events, SCHEMA), hidden)
        os.utime(hidden, (1_000_000 + self.files,) * 2)  # files are read in order of their age
        hidden.rename(file)
        self.files += 1


class Child:
    """A process that runs `stream_to_files`, and all that it has started."""

    def __init__(self, folder: Path, number: int, *options: str) -> None:
        self._errors = folder / f"stderr-{number}"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, stream_to_files.__file__, str(folder), *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def go(self) -> None:
        """Let it start the query."""
        self._expect("ready")
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self._expect("started")

    def _expect(self, line: str) -> None:
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        assert said == line, f"{said!r} instead of {line!r}: {self.errors}"

    @property
    def errors(self) -> str:
        return self._errors.read_text()[-5000:]

    @property
    def ended(self) -> bool:
        """Whether it has come to its end; it must not fail."""
        code = self.process.poll()
        assert code in (None, 0), self.errors
        return code == 0

    def all(self) -> Iterator[tuple[int, int, str]]:
        """The processes of its session, which Spark's workers are in: id, parent's id, command."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            pid, parent, command = line.split(maxsplit=2)
            with suppress(ProcessLookupError):
                if os.getsid(int(pid)) == self.process.pid:
                    yield int(pid), int(parent), command

    def kill(self) -> None:
        """Kill everything at once."""
        while pids := [pid for pid, _, command in self.all() if "<defunct>" not in command]:
            for pid in pids:
                _kill(pid)
            self.process.poll()
        with suppress(BrokenPipeError):
            self.process.communicate()  # closes its pipes

    def kill_workers(self) -> int:
        """Kill the Python workers alone; how many there were."""
        family = list(self.all())
        daemons = {pid for pid, _, command in family if "spark.daemon" in command}  # ceql's or Spark's own
        workers = [pid for pid, parent, _ in family if parent in daemons]
        for pid in workers:
            _kill(pid)
        return len(workers)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def sink_files(folder: Path) -> list[str]:
    """The files that the sink's log lists; others are of micro-batches that were killed."""
    paths = set()
    for log in (folder / "sink" / "_spark_metadata").iterdir():
        if log.name.removesuffix(".compact").isdigit():
            entries = [json.loads(line) for line in log.read_text().splitlines()[1:]]  # the first is the version
            paths |= {unquote(urlsplit(entry["path"]).path) for entry in entries}
    return sorted(paths)


def found(folder: Path) -> Counter[Any]:
    rows: Counter[Any] = Counter()
    for file in sink_files(folder):
        for row in pq.ParquetFile(file).read().to_pylist():
            rows[row["k"], *(tuple(row[name]) for name in ("events", "a", "b", "c"))] += 1
    return rows


def expected(events: list[dict[str, Any]]) -> Counter[Any]:
    table = pa.Table.from_pylist(sorted(events, key=lambda e: (e["time"], e["id"])), SCHEMA)
    ids = table["id"].to_pylist()
    rows: Counter[Any] = Counter()
    for m in ceql.match(stream_to_files.QUERY, table):
        own = (m.bindings.get(name, ()) for name in "abc")
        rows[m.partition["k"], *(tuple(ids[p] for p in named) for named in (m.events, *own))] += 1
    return rows


class Checkpoint:
    """What the checkpoint says of the progress."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def batches(self, log: str) -> set[int]:
        """The micro-batches in a log: `offsets` has those begun, `commits` those done."""
        path = self._folder / log
        return {int(file.name) for file in path.iterdir() if file.name.isdigit()} if path.exists() else set()

    @property
    def done(self) -> int:
        return len(self.batches("commits"))

    @property
    def is_in_a_batch(self) -> bool:
        return self.batches("offsets") > self.batches("commits")

    def wait_for(self, done: int, child: Child) -> None:
        """Wait until so many micro-batches are done, or the process is."""
        wait_for(lambda: self.done >= done or child.ended)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"nothing happens for {PATIENCE} s"
        time.sleep(0.02)


def compile_kernels() -> None:
    """Compile what the workers run; they would be killed before they have."""
    events = [{"type": kind, "time": at, "k": "x", "v": 5} for at, kind in enumerate("ABCABBC")]
    for exact in (0.0, 1.0):
        shipped = hand_made.ship(ways.Example.of(stream_to_files.QUERY, events), exact=exact)
        assert hand_made.run(shipped, random.Random(0)).found


@pytest.mark.skipif(KILLS == 0, reason="takes minutes: make kill")
def test_killed_again_and_again(tmp_path: Path) -> None:
    compile_kernels()
    draw = random.Random(SEED)
    source = Source(tmp_path / "source", random.Random(SEED))
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    children = [Child(tmp_path, 0)]
    kills: list[tuple[int, float, int]] = []  # after how many micro-batches and seconds; how many were done in the end
    in_a_batch = 0
    try:
        while len(kills) < KILLS or not (in_a_batch >= KILLS // 2 and checkpoint.done >= KILLS // 6):
            assert len(kills) < 5 * KILLS, kills
            child, before = children[-1], checkpoint.done
            while source.files < before + BACKLOG:
                source.add_file()
            child.go()
            children.append(Child(tmp_path, len(children)))
            progress, moment = draw.choice([0, 0, 0, 1]), draw.uniform(0, 1.5)
            checkpoint.wait_for(before + progress, child)
            time.sleep(moment)
            if not child.ended:
                child.kill()
                kills.append((progress, round(moment, 3), checkpoint.done))
                in_a_batch += checkpoint.is_in_a_batch
        killed_at = checkpoint.done
        source.finish()
        child = children[-1]
        child.go()
        workers = 0
        for progress in (1, 3):  # a task whose worker dies is run again
            checkpoint.wait_for(killed_at + progress, child)
            workers += child.kill_workers()
        wait_for(lambda: child.ended)
    finally:
        for child in children:
            child.kill()
        print(f"seed {SEED}, {len(kills)} kills, {in_a_batch} in a micro-batch: {kills}; {source.files} files")
    assert found(tmp_path) == expected(source.events)
    assert workers > 0


RULES = {
    "first": stream_to_files.QUERY,
    "second": "SELECT a, c WHERE A AS a ; C AS c FILTER c.v > a.v PARTITION BY k WITHIN 200 MILLISECONDS",
}
CHANGED = {"first": RULES["first"].replace("v > 3", "v > 5"), "second": RULES["second"]}
FEW = "SELECT a, b WHERE A AS a ; B AS b FILTER b[v > 1] PARTITION BY k WITHIN 100 MILLISECONDS"


def write_rules(folder: Path, number: int, at: int | None, rules: dict[str, str], version: str) -> None:
    """A file of rules, which are in effect from a time (in milliseconds) on."""
    clock = "" if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000)) + f".{at % 1000:03}Z"
    since = {"valid_from": clock} if clock else {}
    lines = [json.dumps({"name": name, "text": text, "version": version} | since) for name, text in rules.items()]
    if number == 1:
        lines.append(json.dumps({"name": "bad", "text": "SELECT", "version": version}))
    hidden = folder / f"_{number}.json"
    hidden.write_text("\n".join(lines))
    hidden.rename(folder / f"{number}.json")


def by_rule(folder: Path) -> tuple[Counter[Any], list[str]]:
    """The matches of each version of a rule, and the rules that are told to be wrong."""
    rows, wrong = Counter[Any](), list[str]()
    for file in sink_files(folder):
        for row in pq.ParquetFile(file).read().to_pylist():
            if row["error"] is not None:
                wrong.append(row["query"])
            else:
                rows[row["query"], row["version"], row["k"], tuple(row["events"]), row["suppressed"]] += 1
    return rows, wrong


@pytest.mark.skipif(KILLS == 0, reason="takes minutes: make kill")
def test_rules_change_while_it_is_killed(tmp_path: Path) -> None:
    compile_kernels()
    draw = random.Random(SEED)
    source, folder = Source(tmp_path / "source", random.Random(SEED)), tmp_path / "rules"
    folder.mkdir()
    write_rules(folder, 0, None, {"first": RULES["first"], "few": FEW}, "1")
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    children = [Child(tmp_path, 0, "rules")]
    changed_at, kills = 0, 0
    try:
        while kills < max(4, KILLS // 4):
            child, before = children[-1], checkpoint.done
            while source.files < before + BACKLOG:
                source.add_file()
            if not changed_at and kills >= 1:
                changed_at = START + source.files * FILE + 17  # the watermark is far behind
                write_rules(folder, 1, changed_at, CHANGED, "2")
            child.go()
            children.append(Child(tmp_path, len(children), "rules"))
            checkpoint.wait_for(before + draw.choice([0, 1, 2]), child)
            time.sleep(draw.uniform(0, 1.5))
            if not child.ended:
                child.kill()
                kills += 1
        for _ in range(6):
            source.add_file()
        source.finish()
        children[-1].go()
        wait_for(lambda: children[-1].ended)
    finally:
        for child in children:
            child.kill()
        print(f"seed {SEED}, {kills} kills; {source.files} files, rules changed at {changed_at - START} ms")
    ordered = sorted(source.events, key=lambda e: (e["time"], e["id"]))
    wanted = Counter[Any]()
    for name, version, text, since, until in [
        ("first", "1", RULES["first"], 0, changed_at),
        ("first", "2", CHANGED["first"], changed_at, 1 << 50),
        ("second", "2", CHANGED["second"], changed_at, 1 << 50),
    ]:
        part = [event for event in ordered if since * 1000 <= event["time"] < until * 1000]
        for m in ceql.match(text, pa.Table.from_pylist(part, SCHEMA)):
            wanted[name, version, m.partition["k"], tuple(part[p]["id"] for p in m.events), None] += 1
    kept = ceql.Suppression(stream_to_files.SUPPRESS["few"]).of(ceql.match(FEW, pa.Table.from_pylist(ordered, SCHEMA)))
    for row in kept.to_pylist():
        ids = tuple(ordered[p]["id"] for p in row["events"])
        wanted["few", "1", row["k"], ids, row["suppressed"]] += 1
    assert sum(kept["suppressed"].to_pylist()) > kept.num_rows / 10
    rows, wrong = by_rule(tmp_path)
    assert rows == wanted
    assert {version for _, version, *_ in rows} == {"1", "2"}
    assert wrong == ["bad"]
