"""A hundred rules over a stream for hours: each minute ten are replaced, each five minutes all processes are killed.

    python tests/spark/soak_rules.py SECONDS FOLDER [RULES [PERIOD]]

A rule counts from the watermark at which it came to the one at which it went: its matches in the sink must be those
that the engine finds between the two, each once. Memory and state are drawn over time: `FOLDER/soak.svg`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import ceql
import stream_of_rules

EVERY, ROWS = 0.5, 60  # seconds between two files; events of a file
KILL = 5  # periods between two kills
PATIENCE = 3600  # seconds for what takes a few; the machine may be busy
START = 1_700_000_000_000  # milliseconds
FILE = 200  # milliseconds of events
SCHEMA = pa.schema(
    [
        ("type", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("v", pa.int32()),
        ("id", pa.int64()),
    ]
)
TEXTS = (
    "SELECT a, b WHERE A AS a ; B AS b FILTER b[v > {v}] PARTITION BY k WITHIN {w} MILLISECONDS",
    "SELECT NEXT a, b, c WHERE A AS a ; B AS b ; C AS c FILTER a[v < {v}] PARTITION BY k WITHIN {w} MILLISECONDS",
    "SELECT a WHERE A AS a ; NOT C FILTER a[v > {v}] PARTITION BY k WITHIN {w} MILLISECONDS",
    "SELECT a, b WHERE A AS a ; B AS b FILTER b.v > a.v AND a[v > {v}] PARTITION BY k WITHIN {w} MILLISECONDS",
)


class Source:
    """Writes files of events in a thread of its own, while it is not paused."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._draw = folder, random.Random(5)
        self.events: list[dict[str, Any]] = []
        self.files = 0
        self.running = threading.Event()
        self._busy = threading.Lock()
        folder.mkdir()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while self.running.wait():
            with self._busy:
                if self.running.is_set():
                    self.write([self._event(n) for n in range(ROWS)])
            time.sleep(EVERY)

    def _event(self, number: int) -> dict[str, Any]:
        draw, at = self._draw, START + self.files * FILE + number * FILE // ROWS
        late = draw.randrange(stream_of_rules.DELAY // 4)
        key, kind = f"key {draw.randrange(8)}", draw.choice("AABBC")
        id = self.files * ROWS + number
        return {"type": kind, "time": max(START, at - late) * 1000, "k": key, "v": draw.randrange(100), "id": id}

    def write(self, events: list[dict[str, Any]]) -> None:
        """A file with these events."""
        self.events += events
        hidden = self._folder / f"_{self.files:07}"
        pq.write_table(pa.Table.from_pylist(events, SCHEMA), hidden)
        hidden.rename(self._folder / f"{self.files:07}.parquet")
        self.files += 1

    def pause(self) -> None:
        """Write nothing from now on."""
        self.running.clear()
        with self._busy:
            pass


class Rules:
    """The rules at work, and when each came and went, by the watermark in milliseconds."""

    def __init__(self, count: int) -> None:
        self._draw = random.Random(6)
        self._made = 0
        self.now: dict[str, str] = {}
        self.lives: dict[str, tuple[str, int, int | None]] = {}
        self._add(count, 0)

    def _add(self, count: int, since: int) -> None:
        for _ in range(count):
            text = TEXTS[self._made % len(TEXTS)].format(v=self._draw.randrange(90, 99), w=self._draw.randrange(20, 60))
            name = f"rule {self._made:05}"
            self.now[name], self.lives[name] = text, (text, since, None)
            self._made += 1

    def change(self, watermark: int) -> None:
        """A tenth of the rules go, and as many come."""
        gone = self._draw.sample(sorted(self.now), len(self.now) // 10)
        for name in gone:
            text, since, _ = self.lives[name]
            self.lives[name] = text, since, watermark
            del self.now[name]
        self._add(len(gone), watermark)


def watermark(folder: Path) -> int:
    """That of the last micro-batch which was finished."""
    last = max(int(file.name) for file in (folder / "checkpoint" / "commits").iterdir() if file.name.isdigit())
    lines = (folder / "checkpoint" / "offsets" / str(last)).read_text().split("\n")
    return int(json.loads(lines[1])["batchWatermarkMs"])


def start(folder: Path, rules: Rules) -> subprocess.Popen[str]:
    """The stream with the rules as they are now."""
    (folder / "rules.json").write_text(json.dumps(rules.now))
    (folder / "stop").unlink(missing_ok=True)
    with (folder / "log").open("a") as log:
        command = [sys.executable, stream_of_rules.__file__, str(folder)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    assert child.stdout is not None
    said = child.stdout.readline().strip()
    assert said == "started", (folder / "log").read_text()[-5000:]
    return child


def kill(child: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def stop(folder: Path, child: subprocess.Popen[str], memory: list[tuple[float, float]]) -> None:
    """Let it read all there is, and end."""
    (folder / "stop").touch()
    until = time.monotonic() + PATIENCE
    while child.poll() is None:
        assert time.monotonic() < until, f"the stream does not end within {PATIENCE} s"
        memory.append((time.time(), megabytes(child)))
        time.sleep(0.5)
    assert child.returncode == 0, (folder / "log").read_text()[-5000:]


def megabytes(child: subprocess.Popen[str]) -> float:
    """The resident memory of all processes of the stream."""
    listed = subprocess.run(
        ["ps", "-o", "rss=", "-g", str(child.pid)], capture_output=True, text=True, check=False
    ).stdout
    return sum(map(int, listed.split())) / 1024


def wait(seconds: float, child: subprocess.Popen[str], memory: list[tuple[float, float]]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert child.poll() is None, "the stream has ended"
        memory.append((time.time(), megabytes(child)))
        time.sleep(2)


def soak(seconds: float, folder: Path, count: int, period: float) -> bool:
    """Whether nothing was lost and nothing came twice."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source, rules, memory = Source(folder / "source"), Rules(count), list[tuple[float, float]]()
    begun, periods, kills, starts = time.monotonic(), 0, 0, []
    source.running.set()
    child = start(folder, rules)
    try:
        while time.monotonic() - begun < seconds:
            wait(period, child, memory)
            periods += 1
            before = time.monotonic()
            if periods % KILL == 0:
                kill(child)  # the rules stay: a micro-batch that was cut short is run again as it was
                kills += 1
            else:
                source.pause()
                stop(folder, child, memory)
                rules.change(watermark(folder))
                source.running.set()
                before = time.monotonic()
            child = start(folder, rules)
            starts.append(time.monotonic() - before)
            lived = time.monotonic() - begun
            print(f"{lived:.0f} s: {kills} kills, {periods - kills} changes, a start of {starts[-1]:.0f} s", flush=True)
        source.pause()
        source.write([{"type": "Z", "time": (START + 10**9) * 1000, "k": "", "v": 0, "id": -1}])
        stop(folder, child, memory)
    finally:
        source.pause()
        kill(child)
    starts.sort()
    lost, extra, found = compare(folder, rules, source.events)
    changes, took = periods - kills, starts[len(starts) // 2] if starts else 0
    print(
        f"{seconds:.0f} s, {len(source.events):,} events, {count} rules at a time and {len(rules.lives):,} in all, "
        f"{kills} kills, {changes} changes: {found:,} matches, {lost} lost, {extra} too many; "
        f"a start took {took:.0f} s (median)"
    )
    draw(folder, memory)
    return lost == extra == 0 and found > 0


def compare(folder: Path, rules: Rules, events: list[dict[str, Any]]) -> tuple[int, int, int]:
    """How many matches are missing, how many there are too many, and how many there are."""
    table = pa.concat_tables([pq.read_table(file, columns=["query", "events"]) for file in sink_files(folder)])
    found: dict[str, Counter[Any]] = {name: Counter() for name in rules.lives}
    for query, ids in zip(table["query"].to_pylist(), table["events"].to_pylist(), strict=True):
        found[query][tuple(ids)] += 1
    ordered = pa.Table.from_pylist(sorted(events, key=lambda event: (event["time"], event["id"])), SCHEMA)
    times = [value // 1000 for value in ordered["time"].cast(pa.int64()).to_pylist()]
    ids = ordered["id"].to_pylist()
    lost = extra = total = 0
    for name, (text, since, until) in rules.lives.items():
        first = next((k for k, at in enumerate(times) if at > since), len(times))
        last = len(times) if until is None else next((k for k, at in enumerate(times) if at > until), len(times))
        own = ordered.slice(first, last - first)
        recognizer = ceql.compile(text).recognizer(time="time")
        matches = list(recognizer.feed(own))
        matches += (
            recognizer.finish() if until is None else recognizer.advance(datetime.fromtimestamp(until / 1000, UTC))
        )
        wanted = Counter(tuple(ids[first + position] for position in match.events) for match in matches)
        lost += (wanted - found[name]).total()
        extra += (found[name] - wanted).total()
        total += found[name].total()
    return lost, extra, total


def sink_files(folder: Path) -> list[str]:
    """The files of the sink, of which Spark keeps a list; now and then it writes the whole list anew."""
    log = folder / "sink" / "_spark_metadata"
    lists = {int(file.stem): file for file in sorted(log.iterdir()) if file.name[0].isdigit()}
    whole = max((number for number, file in lists.items() if file.suffix == ".compact"), default=-1)
    lines = [line for number, file in lists.items() if number >= whole for line in file.read_text().splitlines()[1:]]
    return list(dict.fromkeys(json.loads(line)["path"].removeprefix("file://") for line in lines))


def draw(folder: Path, memory: list[tuple[float, float]]) -> None:
    """Memory, state and micro-batches over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    lines = [json.loads(line) for line in (folder / "progress").read_text().splitlines()]
    lines = [line for line in lines if line[1]]
    begun = memory[0][0]
    figure, (above, middle, below) = plt.subplots(3, 1, sharex=True, figsize=(9, 7))
    above.plot([at - begun for at, _ in memory], [size for _, size in memory])
    above.set_ylabel("memory, MB")
    middle.plot([at - begun for at, *_ in lines], [size / 1000 for *_, size in lines])
    middle.set_ylabel("state, KB")
    below.plot([at - begun for at, *_ in lines], [took / 1000 for _, _, took, _ in lines], ".")
    below.set_ylabel("micro-batch, s")
    below.set_xlabel("seconds")
    figure.savefig(folder / "soak.svg")
    print(f"drawn in {folder / 'soak.svg'}: largest memory {max(size for _, size in memory):,.0f} MB")


if __name__ == "__main__":
    given = sys.argv[1:]
    fine = soak(
        float(given[0]),
        Path(given[1]).absolute(),
        int(given[2]) if len(given) > 2 else 100,
        float(given[3]) if len(given) > 3 else 60,
    )
    raise SystemExit(0 if fine else "matches were lost, or came twice")
