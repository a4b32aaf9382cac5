"""Flink CEP: an automaton whose partial matches are kept one by one.

It runs in a process of its own, with one task (see `java/FlinkCep.java`). The events are objects in its memory. CEP
runs in the thread that reads them, so that nothing is copied between the two. It orders events by their time: they come
with a watermark for every twenty, which costs least.

Where the papers' policy is asked for, Flink skips past the last event of a match. It then gives one match for each
event that completes some. Otherwise it gives all matches. Flink has no `limit`: those beyond it are found, but not
kept.

    python -m bench.peers.flink     compares it with ceql on small streams (`check.py`)
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.pattern import Group, Pattern
from bench.peers.flink_events import java_events
from bench.peers.peer import FOLDER, Peer, Unavailable, python_environment

VERSION = "2.3.0"
SOURCE = Path(__file__).parent / "java" / "FlinkCep.java"
CLASSES = FOLDER / "peers" / "flink-classes"
OPENED = ("java.lang", "java.net", "java.io", "java.nio", "java.text", "java.time", "java.util", "java.util.concurrent")
OPTIONS = ["-Xmx8g", "-Dlog4j2.level=OFF", "-Dlog4j2.statusLoggerLevel=OFF"]


class Flink(Peer):
    """Flink CEP with one task."""

    name = "Flink CEP"
    first_only = True

    def prepare(self) -> str:
        _, javac = _java()
        jars = _jars()
        source = SOURCE.read_bytes()
        stamp = CLASSES / "ready"
        wanted = hashlib.sha256(source + javac.encode()).hexdigest()
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(CLASSES, ignore_errors=True)
            CLASSES.mkdir(parents=True)
            _said([javac, "-nowarn", "-cp", jars, "-d", str(CLASSES), str(SOURCE)])
            stamp.write_text(wanted)
        return f"Flink CEP {VERSION}, Java {_said([javac, '-version']).split()[-1]}"

    def refuses(self, pattern: Pattern) -> str:
        if pattern.strategy not in ("ALL", "NEXT"):
            return f"no strategy {pattern.strategy}"
        if any(isinstance(inner, Group) for part in pattern.parts if isinstance(part, Group) for inner in part.parts):
            return "Flink CEP loses or repeats matches of groups in groups"
        if pattern.key is not None and pattern.consume:
            return "what a match consumes are events of one key in Flink CEP, all events in CEQL"
        if pattern.strategy == "NEXT" and not pattern.consume:
            return "NEXT is of each first event in Flink CEP, of each last one in CEQL"
        return ""

    def command(self, job: Path) -> list[str]:
        events = java_events(Path(json.loads(job.read_text())["events"]))
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
        return [_java()[0], *OPTIONS, *opened, "-cp", f"{CLASSES}:{_jars()}", "FlinkCep", str(job), str(events)]


def _java() -> tuple[str, str]:
    """The commands java and javac of one installation: that of JAVA_HOME, or else what is on the path."""
    home = os.environ.get("JAVA_HOME")
    for path in (str(Path(home) / "bin") if home else "", os.environ.get("PATH", "")):
        java, javac = shutil.which("java", path=path), shutil.which("javac", path=path)
        if java and javac:
            return java, javac
    raise Unavailable("Flink CEP needs java and javac, on the path or in JAVA_HOME")


def _jars() -> str:
    """The class path of Flink: the jars that its Python package brings."""
    python = python_environment("flink", None, f"apache-flink-libraries=={VERSION}")
    for found in python.parents[1].glob("lib/python*/site-packages/pyflink/lib"):
        wanted = [*found.glob("flink-dist-*.jar"), *found.glob("flink-cep-*.jar"), *found.glob("log4j-*.jar")]
        if len(wanted) > 2:
            return ":".join(map(str, wanted))
    raise Unavailable(f"no jars of Flink CEP in apache-flink-libraries {VERSION}")


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{Path(command[0]).name}: {done.stderr.strip()[:300]}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    from bench.peers.check import main

    sys.exit(main([Flink.name]))
