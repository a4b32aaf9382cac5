"""What a peer is, and how it is asked.

    job, a JSON file:  events   path of an Arrow IPC file, in order of time; `type` is text, `time` a timestamp in ms,
                                other columns are text, int64 or float64
                       pattern  the query (`bench.pattern.Pattern` as JSON)
                       query    the same in CEQL
                       runs     how often to run
                       seconds  after so long no further events are read; what was read is finished
                       memory   measure memory instead of time

    for each run, a line of JSON on standard output:
                       events     how many were read
                       wall, cpu  seconds for them, all matches written to memory, the CPU time of all threads
                       matches    how many were enumerated, at most `limit` for each event that completes some
                       triggers   how many events completed matches
                       megabytes  if memory was asked for: the most that the engine held, without the events
                       engine     CPU seconds of the engine without those who hand it events, where they can be told
                       or error: why there is nothing

Before the first run the events are in memory, in the form that is the peer's fastest to read, and whatever compiles
has been compiled on a run that is not counted.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import venv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from bench.pattern import Pattern

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("BENCH_FOLDER", Path.home() / ".cache" / "ceql-bench"))
OUT_OF_MEMORY = re.compile(r"out of memory|memory allocation of \d+ bytes failed|MemoryError", re.IGNORECASE)
PATIENCE = 60.0  # seconds that a worker has besides those of its runs: to begin, to warm up, to finish what it read


class Unavailable(Exception):
    """Why a peer is left out."""


@dataclass(frozen=True)
class Job:
    """What a worker is asked."""

    events: str
    pattern: Pattern
    runs: int = 3
    seconds: float = 5.0
    memory: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "pattern": self.pattern.to_json(),
            "query": self.pattern.ceql(),
            "runs": self.runs,
            "seconds": self.seconds,
            "memory": self.memory,
        }


@dataclass(frozen=True)
class Run:
    """What a worker answers, once for each run."""

    events: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    matches: int = 0
    triggers: int = 0
    megabytes: float = 0.0
    engine: float = 0.0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Peer:
    """Another engine. Adapters say what is theirs."""

    name: ClassVar[str]
    first_only: ClassVar[bool] = False
    """Whether it gives one match for each event that completes some, where the papers' policy is asked for."""

    def prepare(self) -> str:
        """Install what is missing, once, below `FOLDER`; its version. Raises `Unavailable` with the reason."""
        raise NotImplementedError

    def refuses(self, pattern: Pattern) -> str:
        """Why it cannot be asked this query; empty if it can."""
        raise NotImplementedError

    def command(self, job: Path) -> list[str]:
        """How its worker is started for the job in that file."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Environment variables for its worker."""
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def ask(self, job: Job, patience: float = PATIENCE) -> list[Run]:
        """All runs of a job; one with an error if there are none. `patience`: seconds besides those of the runs."""
        refusal = self.refuses(job.pattern)
        if refusal:
            return [Run(error=refusal)]
        patience += job.runs * job.seconds
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "job.json"
            file.write_text(json.dumps(job.to_json()))
            process = subprocess.Popen(
                self.command(file),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=self.environment(),
                start_new_session=True,
            )
            try:
                out, err = process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                out, err = process.communicate()
                err = f"aborted: not done in {patience:.0f} s"
        found = [Run(**json.loads(line)) for line in out.splitlines() if line.startswith('{"')]
        if not found:
            if OUT_OF_MEMORY.search(err):  # advice and backtraces follow: the last line would not tell
                return [Run(error="aborted: out of memory")]
            said = [line for line in err.strip().splitlines() if line.strip()]
            return [Run(error=said[-1][:300] if said else f"ended with exit code {process.returncode}")]
        return found


def python_environment(name: str, interpreter: str | None, *packages: str) -> Path:
    """The Python of a virtual environment below `FOLDER` that has the packages; made if it is not there."""
    folder = FOLDER / "peers" / name
    python = folder / "bin" / "python"
    done = folder / "ready"
    wanted = "\n".join(packages)
    if done.exists() and done.read_text() == wanted:
        return python
    if interpreter is None:
        venv.create(folder, with_pip=True, clear=True)
    else:
        _install([interpreter, "-m", "venv", "--clear", str(folder)], name)
    _install([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], name)
    done.write_text(wanted)
    return python


def _install(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.strip().splitlines() if "ERROR" in line] or done.stderr.splitlines()
        raise Unavailable(f"{name} cannot be installed: {said[-1] if said else command}")
