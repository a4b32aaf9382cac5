"""Progress bars on stderr, shown once a command has run for a second: events read, and the stages of Spark."""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ceql.cli.exit_codes import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 1.0
_PERIOD = 0.2


class EventProgress:
    """Shows how much of the files has been read, by their bytes, and how many events; in the end, how long it took."""

    def __init__(self, wanted: bool, told: bool = False):
        self.wanted = wanted
        self.told = told
        """Whether a line in the end says how many events were read, how fast, and what was found."""
        self.total = 0.0
        self.seconds = 0.0
        self.rows = 0
        self._bytes = 0.0
        self._since = monotonic()
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> None:
        self._since = monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds = monotonic() - self._since
        if self._progress is not None:
            self._progress.stop()

    def tell(self, matches: int | None = None, more: bool = False) -> None:
        """Says what was read and found; `more` if there are more matches than that."""
        if self.told and self.rows:
            say(summary(self.rows, self.seconds, matches, more))

    def advance(self, rows: int, bytes: float) -> None:
        self.rows += rows
        self._bytes += bytes
        if self._progress is None and self.wanted and monotonic() - self._since > _PATIENCE:
            self._start()
        if self._progress is not None:
            self._progress.update(self._task, completed=self._bytes, rows=self.rows)

    def _start(self) -> None:
        self._progress = Progress(
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]:,} events"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", total=self.total, rows=self.rows)
        self._progress.start()


def summary(events: int, seconds: float, matches: int | None = None, more: bool = False) -> str:
    """What a command did, in a line.

    >>> summary(2_000_000, 0.5, 1)
    '2,000,000 events in 0.50 s (4.0 million a second), 1 match'
    >>> summary(1, 12.25, 100, more=True)
    '1 event in 12 s, the first 100 matches'
    """
    rate = events / seconds if seconds else 0.0
    fast = f"{rate / 1e6:.1f} million" if rate >= 1e6 else f"{rate:,.0f}"
    took = f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2f} s"
    read = f"{events:,} event{'s' * (events != 1)} in {took}{f' ({fast} a second)' if events > 1 else ''}"
    if matches is None:
        return read
    return f"{read}, {'the first ' if more else ''}{matches:,} match{'es' * (matches != 1)}"


class StageProgress:
    """Shows how many tasks of each running stage of Spark are done, while an action runs in the `with` block."""

    def __init__(self, spark: SparkSession, wanted: bool, console: Console | None = None, patience: float = _PATIENCE):
        self._tracker = spark.sparkContext.statusTracker() if wanted and hasattr(spark, "_jvm") else None
        self._console = console or Console(stderr=True)
        self._patience = patience
        self._done = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._tracker is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._tracker is not None:
            self._thread.join()

    def _watch(self) -> None:
        if self._done.wait(self._patience):
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"))
        with Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True) as progress:
            bars = {}
            while True:
                active = self._active()
                for stage, (done, tasks) in active.items():
                    if stage not in bars:
                        bars[stage] = progress.add_task(f"stage {stage}", total=tasks)
                    progress.update(bars[stage], completed=done)
                for stage in bars.keys() - active.keys():
                    progress.remove_task(bars.pop(stage))
                if self._done.wait(_PERIOD):
                    return

    def _active(self) -> dict[int, tuple[int, int]]:
        """For each running stage, how many tasks are done and how many there are."""
        assert self._tracker is not None
        infos = {stage: self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()}
        return {stage: (info.numCompletedTasks, info.numTasks) for stage, info in infos.items() if info is not None}
