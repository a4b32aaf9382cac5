"""What was measured: figures, the points that they belong to, and the folder that keeps them, so that a run can go on.

bench/results/<date>/run.json           machine, versions, settings
                     <experiment>.json  the figures, written after each point
                     <experiment>.md, <experiment>-<theme>.svg and .png
                     README.md          all of it
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One point of a plot: medians over the runs, with the spread of the main one.

    `note` says what is to be known about it, such as other matches than ceql's; `error` why there are no figures.
    """

    wall: float = 0.0
    """Seconds by the clock."""
    cpu: float = 0.0
    """Seconds of all processors."""
    spread: float = 0.0
    """(longest - shortest) / median of the times by the clock, for the same number of events."""
    runs: int = 0
    events: int = 0
    matches: int = 0
    triggers: int = 0
    megabytes: float = 0.0
    note: str = ""
    error: str = ""
    more: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Events per second by the clock."""
        return self.events / self.wall if self.wall else 0.0

    @property
    def ns(self) -> float:
        """Nanoseconds by the clock for each event."""
        return self.wall / self.events * 1e9 if self.events else 0.0

    @property
    def cpu_ns(self) -> float:
        """Nanoseconds of processor time for each event."""
        return self.cpu / self.events * 1e9 if self.events else 0.0

    @property
    def counts(self) -> bool:
        """Whether it may be compared with others."""
        return not self.error and not self.note.startswith("other matches")


class Place(NamedTuple):
    """Where a figure belongs: a place on a curve in a part of an experiment."""

    panel: str
    series: str
    x: float | str

    @property
    def key(self) -> str:
        return f"{self.panel} | {self.series} | {self.x}"


@dataclass(frozen=True)
class Task:
    """Something to measure: a figure for each place. Those that are compared with each other are measured in turns."""

    places: tuple[Place, ...]
    measure: Callable[[], Sequence[Figure]]


class Figures:
    """The figures of an experiment, by panel, series and x; kept in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._by_key: dict[str, Figure] = {}
        self._derived: dict[str, Figure] = {}
        if file.exists():
            stored = json.loads(file.read_text())
            self._by_key = {key: Figure(**value) for key, value in stored.items()}

    def has(self, task: Task) -> bool:
        return all(place.key in self._by_key for place in task.places)

    def add(self, task: Task, found: Sequence[Figure]) -> None:
        """Keep a task's figures, on disk too."""
        self._by_key |= {place.key: figure for place, figure in zip(task.places, found, strict=True)}
        text = json.dumps({key: asdict(value) for key, value in self._by_key.items()}, indent=1)
        part = self.file.with_suffix(".part")
        part.write_text(text + "\n")
        os.replace(part, self.file)

    def derive(self, place: Place, figure: Figure) -> None:
        """Show a figure that follows from others; it is not stored."""
        self._derived[place.key] = figure

    def get(self, panel: str, series: str, x: float | str) -> Figure | None:
        key = Place(panel, series, x).key
        return self._by_key.get(key) or self._derived.get(key)


def median_figure(
    walls: list[float],
    cpus: list[float],
    events: list[int],
    matches: int = 0,
    triggers: int = 0,
    megabytes: float = 0.0,
    note: str = "",
) -> Figure:
    """Runs that were cut off read different numbers of events: their times are made comparable before the median."""
    most = max(events)
    times = [wall * most / max(count, 1) for wall, count in zip(walls, events, strict=True)]
    works = [cpu * most / max(count, 1) for cpu, count in zip(cpus, events, strict=True)]
    middle = statistics.median(times)
    spread = (max(times) - min(times)) / middle if middle else 0.0
    return Figure(middle, statistics.median(works), spread, len(walls), most, matches, triggers, megabytes, note)


class Folder:
    """Where a run's results are. One that was broken off is gone on with, if settings and sources are the same."""

    def __init__(self, name: str, about: dict[str, Any], again: bool) -> None:
        RESULTS.mkdir(parents=True, exist_ok=True)
        unfinished = [] if again else [file for file in _runs() if _goes_on(json.loads(file.read_text()), about)]
        if unfinished:
            self.path = unfinished[0].parent
            about = {**about, "date": json.loads(unfinished[0].read_text())["date"]}
        else:
            names = (name if number == 1 else f"{name}-{number}" for number in count(1))
            self.path = next(path for path in map(RESULTS.joinpath, names) if not path.exists())
            self.path.mkdir()
        self.about = about
        self._write()

    def figures(self, experiment: str) -> Figures:
        return Figures(self.path / f"{experiment}.json")

    def finish(self) -> None:
        """The next run begins anew."""
        self.about["done"] = True
        self._write()

    def _write(self) -> None:
        (self.path / "run.json").write_text(json.dumps(self.about, indent=1) + "\n")


def newest() -> Path | None:
    """The folder of the newest full run."""
    full = [file for file in _runs() if not json.loads(file.read_text())["quick"]]
    return full[0].parent if full else None


def _runs() -> list[Path]:
    """What describes the runs, the newest first."""
    return sorted(RESULTS.glob("*/run.json"), key=lambda file: file.stat().st_mtime, reverse=True)


def _goes_on(stored: dict[str, Any], about: dict[str, Any]) -> bool:
    return not stored.get("done") and all(stored.get(name) == about[name] for name in ("machine", "settings", "quick"))
