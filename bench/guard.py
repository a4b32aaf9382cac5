"""`make bench-check`: ratios against yardsticks in the same process, compared with those in bench/baseline.json.

Never seconds: machines differ, and so do their moods. A ratio that seems to have fallen is measured again before it
counts, since other work on the machine makes all figures worse and none better.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.experiments import filters
from bench.figures import Figures, newest

BASELINE = Path(__file__).parent / "baseline.json"
LOSS = 0.20
ATTEMPTS = 3

Case = Callable[[], tuple[Callable[[], Any], Callable[[], Any], int]]


def ratio(make: Case) -> float:
    """The yardstick's processor time divided by ceql's: more is better."""
    ours, theirs = filters.measure(make, filters.RUNS)
    return theirs.cpu / ours.cpu


def check(events: int) -> int:
    """1 if a ratio is a fifth below the baseline in all attempts, or if there is none to compare with."""
    wanted: dict[str, float] = json.loads(BASELINE.read_text())["ratios"]
    cases = filters.cases(events)
    for name in set(cases) ^ set(wanted):
        print(f"{name}: in {'the baseline' if name in wanted else 'the experiment'} only; make bench-keep")
    lost = list(set(cases) ^ set(wanted))
    print(f"{'':<44} {'baseline':>9} {'now':>9} {'change':>8}")
    for name in [name for name in wanted if name in cases]:
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


def keep() -> int:
    """Make the ratios of the newest full run the baseline."""
    folder = newest()
    if folder is None:
        print("no full run in bench/results: make bench-full")
        return 1
    about = json.loads((folder / "run.json").read_text())
    found = filters.ratios(Figures(folder / "filters.json"), list(filters.cases(about["settings"]["events"])))
    ratios = {name: round(ratio, 4) for name, ratio in found.items()}
    kept = {"date": about["date"], "machine": about["machine"], "ratios": ratios}
    BASELINE.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{BASELINE}: {len(ratios)} ratios of the run in {folder}")
    return 0
