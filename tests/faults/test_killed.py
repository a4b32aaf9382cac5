"""A process that is killed with SIGKILL, again and again, loses no match and finds none twice: the next one goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import feed_and_keep
import streams
import tally

KILLS = 12 if tally.WHOLE else 3
FEEDS = 10 * KILLS + 5  # a process lives to see nine at most
KILLED = range(len(streams.STREAMS)) if tally.WHOLE else (4,)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are not killed so here")
@pytest.mark.parametrize("number", KILLED)
def test_sigkill(number: int, tmp_path: Path) -> None:
    dice = random.Random(number)
    expected = json.loads(json.dumps(streams.undisturbed(feed_and_keep.stream(number, FEEDS))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = 0
    while True:
        with subprocess.Popen(
            [sys.executable, feed_and_keep.__file__, str(tmp_path), str(number), str(FEEDS)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            seen = sum(1 for _ in zip(range(1 + dice.randint(0, 8) * (killed < KILLS)), process.stdout, strict=False))
            if killed < KILLS and seen:
                time.sleep(dice.uniform(0, 0.02))
                process.kill()
                killed += 1
            process.stdout.read()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
    assert killed == KILLS
    found = [json.loads((tmp_path / f"{k:03}.json").read_text()) for k in range(FEEDS + 1)]
    assert found == expected
    tally.note(processes_killed=killed, matches_compared=sum(len(part[0]) for part in found))
