"""`make bench-check`: ratios against yardsticks in the same process, compared with those in bench/baseline.json.

Never seconds: machines differ, and so do their moods. A ratio that seems to have fallen is measured again before it
counts, since other work on the machine makes all figures worse and none better.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine
from bench.experiments import filters

BASELINE = Path(__file__).parent / "baseline.json"
LOSS = 0.20
RUNS = 5
ATTEMPTS = 3

Case = Callable[[], tuple[Callable[[], Any], Callable[[], Any], int]]


def ratio(make: Case) -> float:
    """The yardstick's processor time divided by ceql's: more is better."""
    ours, theirs = filters.measure(make, RUNS)
    return theirs.cpu / ours.cpu


def check(events: int) -> int:
    """1 if a ratio is a fifth below the baseline in all attempts, or if there is none to compare with."""
    wanted: dict[str, float] = json.loads(BASELINE.read_text())["ratios"]
    cases = filters.cases(events)
    for name in set(cases) ^ set(wanted):
        print(f"{name}: in {'the baseline' if name in wanted else 'the experiment'} only; make bench-keep")
    lost = list(set(cases) ^ set(wanted))
    print(f"{'':<44} {'baseline':>9} {'now':>9} {'change':>8}")
    for name in wanted.keys() & cases.keys():
        best = 0.0
        for _ in range(ATTEMPTS):
            best = max(best, ratio(cases[name]))
            if best >= wanted[name] * (1 - LOSS):
                break
        else:
            lost.append(name)
        print(
            f"{name:<44} {wanted[name]:>9.3f} {best:>9.3f} {best / wanted[name] - 1:>+8.0%}{' LOST' * (name in lost)}",
            flush=True,
        )
    for name in lost:
        print(f"LOST: {name}")
    return 1 if lost else 0


def keep(events: int) -> int:
    """Write what is measured now as the baseline: medians of several attempts."""
    ratios = {}
    for name, make in filters.cases(events).items():
        ratios[name] = round(sorted(ratio(make) for _ in range(ATTEMPTS))[ATTEMPTS // 2], 4)
        print(f"{name:<44} {ratios[name]:>9.3f}", flush=True)
    about = {"date": time.strftime("%Y-%m-%d"), "machine": machine.describe(), "ratios": ratios}
    BASELINE.write_text(json.dumps(about, indent=1) + "\n")
    return 0
