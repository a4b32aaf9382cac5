"""Somebody who waits for the compiler is told so, once, and nobody else is."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ceql.jit import told

SLOW = """
import logging, sys, time
from ceql.jit import kernel, ways
{before}

@kernel
def twice(number):
    return 2 * number

@kernel
def thrice(number):
    return 3 * number

from numba.core import event

class Slow(event.Listener):
    def on_start(self, event):
        time.sleep({seconds})

    def on_end(self, event):
        pass

event.register("numba:compile", Slow())
print(twice(21), thrice(14))
"""
LINE = (
    "compiling the engine for what reads and writes events, once on this machine, about 2 s; "
    "`ceql warm` does it beforehand"
)


def said(folder: Path, seconds: float, before: str = "") -> tuple[str, str]:
    program = folder / "slow.py"
    program.write_text(SLOW.format(seconds=seconds, before=before))
    given = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, str(program)], env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


def test_a_process_says_once_that_it_compiles(tmp_path: Path) -> None:
    assert said(tmp_path, 1.5) == ("42 42", f"ceql: {LINE}")
    assert said(tmp_path, 1.5) == ("42 42", "")  # what is loaded is not told


def test_those_who_log_find_it_in_their_log(tmp_path: Path) -> None:
    log = "logging.basicConfig(format='%(levelname)s %(name)s: %(message)s')"
    assert said(tmp_path, 1.5, log) == ("42 42", f"WARNING ceql: {LINE}")


def test_a_page_can_ask(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "_state", told._Told())
    monkeypatch.setattr(told, "PATIENCE", 0.01)
    assert told.now() == ""
    with caplog.at_level(logging.WARNING, logger="ceql"), told.waiting("ceql.engine.groups.loop"):
        assert told.now() == "Compiling the engine for conditions between events"
        with told.waiting("ceql.engine.states.loop"):  # a kernel within a kernel
            assert told.now() == "Compiling the engine for conditions between events"
        until = time.monotonic() + 10
        while not caplog.messages and time.monotonic() < until:
            time.sleep(0.01)
    assert told.now() == ""
    assert ["conditions between events" in message for message in caplog.messages] == [True]
    assert told.since_last() > 0
    assert told.since_last() == 0
