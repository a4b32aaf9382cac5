"""`examples/pipeline` against a real broker, while its driver, an executor and the broker are killed: `make kafka`.

    python tests/spark/pipeline.py EVENTS FOLDER

The events are out of order and some are sent twice. In the end, table and topic of alerts must be what the rules
find in one batch over the same events: each alert once in the table.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

import broker
import maven
import servers

JOB = Path(__file__).parents[2] / "examples" / "pipeline" / "job.py"
TOPICS = ("payments", "alerts", "bad-records")
DELAY = 60  # seconds that events may be late
STEP = 10  # milliseconds from one event to the next
PATIENCE = 3600
AGAIN = 3  # times that a job may end by itself, in the long form
START = 1_700_000_000_000  # milliseconds
KINDS = np.array(["Payment", "Withdrawal", "Login", "PasswordChange"])


def events(count: int, seed: int = 5) -> pa.Table:
    """Events as they arrive: late by up to a third of the delay, one in a hundred twice; the last ends the stream.

    Some have no time.
    """
    draw = np.random.default_rng(seed)
    ids = np.arange(count)
    time = START + ids * STEP
    arrival = time + draw.uniform(0, DELAY * 1000 / 3, count)
    again = draw.choice(count, count // 100, replace=False)
    which = np.concatenate([ids, again])
    order = np.argsort(np.concatenate([arrival, arrival[again] + draw.uniform(0, DELAY * 1000 / 6, len(again))]))
    which = which[order]
    kinds = KINDS[draw.choice(4, count, p=[0.6, 0.25, 0.1, 0.05])]
    table = pa.table(
        {
            "id": ids,
            "type": kinds,
            "time": pa.array(time, pa.timestamp("ms", "UTC"), mask=ids % 997 == 5).cast(pa.timestamp("us", "UTC")),
            "card": pa.array(draw.integers(0, max(100, count // 200), count)).cast(pa.string()),
            "amount": np.round(draw.exponential(150, count), 2),
            "country": np.array(["CL", "BE", "FR", "AT"])[draw.integers(0, 4, count)],
        }
    ).take(pa.array(which))
    # one for each partition would do; a watermark is that of the whole stream
    last = {
        "id": -1,
        "type": "End",
        "time": (START + count * STEP) * 1000 + 10**11,
        "card": "",
        "amount": 0,
        "country": "",
    }
    end = pa.table({name: pa.array([last[name]], field.type) for name, field in zip(table.column_names, table.schema)})  # noqa: B905
    return pa.concat_tables([table, end])


class Job:
    """A process that runs the job, and all that it has started.

    If it ends by itself, it is started again so many times (`again`), as the runbook has it: where a broker is killed,
    or the machine is too busy for Spark's ten seconds to start a worker, a driver may end.
    """

    def __init__(self, folder: Path, address: str, *given: str, name: str = "job", again: int = 0) -> None:
        self.log = folder / f"{name}.log"
        self._folder, self._again = folder, again
        command = [sys.executable, str(JOB), "--servers", address, "--jars", str(folder / "jars")]
        command += ["--checkpoint", str(folder / "checkpoint"), "--table", str(folder / "table"), *given]
        command += ["--live", str(folder / "live"), "--progress", str(folder / "progress")]
        self._command = [*command, "--delay", f"{DELAY} seconds"]
        self.start()

    def start(self) -> None:
        """Start it, once more."""
        # left alone, PySpark takes the folder above the one it runs in, if that looks like Spark
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(servers.HOME)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=self._folder
            )

    def _forgive(self) -> None:
        assert self._again > 0, self.log.read_text()[-5000:]
        self._again -= 1
        print(f"{self.log.stem} has ended by itself, with {self.process.returncode}, and is started again", flush=True)
        self.start()

    def wait(self) -> None:
        """Wait for its end; it must not fail."""
        while self.process.wait(PATIENCE) != 0:
            self._forgive()

    def kill(self) -> None:
        """Kill it and its JVM and workers at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def expect(self, condition: Callable[[], bool]) -> None:
        """Wait for something, while it runs."""
        until = time.monotonic() + PATIENCE
        while not condition():
            if self.process.poll() is not None:
                self._forgive()
            assert time.monotonic() < until, f"nothing happens for {PATIENCE} s: {self.log.read_text()[-3000:]}"
            time.sleep(0.1)


def write_rules(folder: Path) -> None:
    """The rules of the example, as rows."""
    live = folder / "live"
    live.mkdir(parents=True)
    rows = [{"name": file.stem, "text": file.read_text()} for file in sorted((JOB.parent / "rules").glob("*.ceql"))]
    (live / "first.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def add_rule(folder: Path, after: float) -> None:
    """One more rule, for events after so many seconds."""
    at = datetime.fromtimestamp(START / 1000 + after, UTC).isoformat()
    text = "SELECT a, b WHERE Login AS a : PasswordChange AS b PARTITION BY card WITHIN 1 MINUTE"
    hidden = folder / "_added"
    hidden.write_text(json.dumps({"name": "login_then_change", "text": text, "valid_from": at}) + "\n")
    hidden.rename(folder / "live" / "added.json")


def link_jars(folder: Path, *names: str) -> None:
    """The jars of these lists in one folder."""
    (folder / "jars").mkdir(parents=True)
    for name in names:
        for jar in maven.jars(name).glob("*.jar"):
            (folder / "jars" / jar.name).symlink_to(jar)


def done(folder: Path) -> int:
    """How many micro-batches are finished."""
    commits = folder / "checkpoint" / "commits"
    return sum(file.name.isdigit() for file in commits.iterdir()) if commits.exists() else 0


def executors() -> list[int]:
    """The executors among the descendants of this process."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}

    def is_mine(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [
        int(pid)
        for pid, _, *command in rows
        if "CoarseGrainedExecutorBackend" in " ".join(command) and is_mine(int(pid))
    ]


def main(count: int, folder: Path) -> None:
    """The long form: a cluster of two workers, Delta where its jar is for this Spark, and three kinds of kills."""
    format = "delta" if pyspark.__version__.startswith("4.2.") else "parquet"
    print(f"Spark {pyspark.__version__}, Kafka 4.3.1, table in {format}, {count:,} events", flush=True)
    link_jars(folder, "connector", *(["delta"] if format == "delta" else []))
    pq.write_table(events(count), folder / "events.parquet")
    write_rules(folder)
    started = time.monotonic()
    with broker.broker(folder / "broker", *TOPICS) as kafka, servers.cluster(folder) as master:
        options = ["--master", master, "--format", format, "--batch", str(max(1000, count // 25))]

        running = Job(folder, kafka.address, *options, again=AGAIN)
        sender = Job(
            folder, kafka.address, "--master", "local[1]", "--send", str(folder / "events.parquet"), name="sender"
        )
        try:
            for victim in ("driver", "executor", "broker", "driver"):
                before = done(folder)
                running.expect(lambda before=before: done(folder) >= before + 2)  # type: ignore[misc]
                time.sleep(1)
                print(
                    f"{time.monotonic() - started:.0f} s, {done(folder)} micro-batches: kill the {victim}", flush=True
                )
                if victim == "broker":
                    add_rule(folder, 0.8 * count * STEP / 1000)
                    print("and add a rule, for the last fifth of the events", flush=True)
                if victim == "driver":
                    running.kill()
                    running.start()
                elif victim == "executor":
                    os.kill(executors()[0], signal.SIGKILL)
                else:
                    kafka.kill()
                    time.sleep(3)
                    kafka.start()
            sender.wait()
            print(f"{time.monotonic() - started:.0f} s: all events are sent", flush=True)
        finally:
            running.kill()
            sender.kill()
        check = ["--once", "--check", str(folder / "events.parquet")]
        last = Job(folder, kafka.address, *options, *check, name="last", again=AGAIN)
        try:
            last.wait()
        finally:
            last.kill()
        report(folder, last)


def report(folder: Path, last: Job) -> None:
    """Print the comparison, throughput and latency."""
    print(next(line for line in last.log.read_text().splitlines() if line.startswith('{"alerts"')))
    every = [json.loads(line) for line in (folder / "progress").read_text().splitlines()]
    progress = [p for p in every if p["name"] == "alerts"]
    full = [p for p in progress if p["numInputRows"] > 0]
    seconds = sorted(p["durationMs"]["triggerExecution"] / 1000 for p in full)
    rows = sum(p["numInputRows"] for p in full)
    late = sum(
        row["late_rows"] for p in progress for name, row in p["observedMetrics"].items() if name.startswith("ceql")
    )
    print(
        f"{rows:,} records in {len(full)} micro-batches: {rows / sum(seconds):,.0f} records/s while they ran; "
        f"a micro-batch took {seconds[len(seconds) // 2]:.1f} s (median), {seconds[int(len(seconds) * 0.99)]:.1f} s "
        f"(p99); {late} late"
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that what was started is ended
    main(int(sys.argv[1]), Path(sys.argv[2]).absolute())
