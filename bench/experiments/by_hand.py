"""Questions of analysts (ceql, polars, DuckDB).

Each question is asked of ceql, and written by hand in polars and in SQL for DuckDB, as one writes it who knows them
well (`bench/by_hand`). Each has a process of its own, with the events in memory as it likes them best: an Arrow table,
a frame, a table of DuckDB. Their answers, the rows of the matched events, are compared in full. Ratios are ceql's time
divided by that of the better of the two.

`python -m bench.experiments.by_hand [ROWS] [QUESTION ...]` prints some of it at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from bench.by_hand.questions import QUESTIONS, Question
from bench.by_hand.worker import CEQL, DUCKDB, POLARS
from bench.figures import Figure, Figures, Place, Task, median_figure
from bench.page import Page
from bench.settings import Settings, event_file

TITLE = "Questions of analysts (ceql, polars, DuckDB)"
WHO = (CEQL, POLARS, DUCKDB)
THREADS = (2, 1)
GOAL, LIMIT, AT_LEAST = 1.0, 1.5, 9  # nine questions of twelve within the goal, the others within the limit


def panel(threads: int) -> str:
    return "two threads" if threads == 2 else "one thread"


def tasks(settings: Settings) -> Iterator[Task]:
    rows = settings.events if settings.quick else 10 * settings.events
    for threads in THREADS[:1] if settings.quick else THREADS:
        for number, question in enumerate(QUESTIONS):
            places = tuple(Place(panel(threads), who, question.title) for who in WHO)
            yield Task(places, partial(measure, number, rows, threads, settings.runs))


def measure(number: int, rows: int, threads: int, runs: int) -> list[Figure]:
    """The figures of all three, after their answers were compared."""
    question = QUESTIONS[number]
    events = event_file(question.table, rows)
    with TemporaryDirectory() as folder:
        figures = [_ask(number, who, events, threads, runs, Path(folder, who)) for who in WHO]
        own, *others = (_answer(question, Path(folder, who)) for who in WHO)
        for who, other in zip(WHO[1:], others, strict=True):
            if not own.equals(other):
                counts = f"ceql has {len(own):,} matches, {who} {len(other):,}, or others"
                raise AssertionError(f"{question.title}: {counts}")
    return figures


def _ask(number: int, who: str, events: str, threads: int, runs: int, answer: Path) -> Figure:
    job = {"question": number, "who": who, "events": events, "threads": threads, "runs": runs, "answer": str(answer)}
    text = json.dumps(job | {"default": threads == 2})
    environment = os.environ | {"POLARS_MAX_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    process = subprocess.run(
        [sys.executable, "-m", "bench.by_hand.worker", text], env=environment, capture_output=True, text=True
    )
    if process.returncode:
        raise RuntimeError(f"{who}: {process.stderr[-1000:]}")
    found = json.loads(process.stdout.splitlines()[-1])
    sizes = [found["events"]] * runs
    return median_figure(found["walls"], found["cpus"], sizes, found["matches"], megabytes=found["megabytes"])


def _answer(question: Question, file: Path) -> pl.DataFrame:
    """The rows of an answer, in order."""
    found = pl.read_ipc(file).select(question.columns)
    lists = [name for name, kind in found.schema.items() if isinstance(kind, pl.List)]
    whole = found.with_columns(pl.exclude(lists).cast(pl.Int64), pl.col(lists).cast(pl.List(pl.Int64)))
    return whole.sort([name for name in reversed(question.columns) if name not in lists])


def show(settings: Settings, figures: Figures, page: Page) -> None:
    page.text(__doc__.split("\n\n")[1].replace("\n", " "))
    first = figures.get(panel(THREADS[0]), CEQL, QUESTIONS[0].title)
    if first is not None:
        page.text(f"Each table has {first.events:,} events.")
    for threads in THREADS:
        _show(figures, page, threads)


def _show(figures: Figures, page: Page, threads: int) -> None:
    rows: list[list[object]] = []
    ratios = {}
    for question in QUESTIONS:
        found = [figures.get(panel(threads), who, question.title) for who in WHO]
        known = [figure for figure in found if figure is not None and not figure.error]
        if len(known) < len(WHO):
            rows += [[question.title, figure.error] for figure in found[:1] if figure is not None]
            continue
        own, *others = known
        ratios[question.title] = (
            own.cpu / min(other.cpu for other in others),
            own.wall / min(other.wall for other in others),
        )
        cells = [f"{figure.wall:.2f} · {figure.cpu:.2f} · {figure.megabytes:,.0f}" for figure in known]
        rows.append([question.title, f"{own.matches:,}", *cells, *(f"{x:.2f}" for x in ratios[question.title][::-1])])
    if not rows:
        return
    page.title(f"In {panel(threads)}: seconds by the clock · seconds of the processor · megabytes")
    page.table(["", "matches", *WHO, "clock", "processor"], rows)
    if threads == THREADS[0]:
        within = sum(processor <= GOAL for processor, _ in ratios.values())
        page.check(within >= AT_LEAST, f"{within} of {len(ratios)} questions within {GOAL:g} times the better's time")
        for title, (processor, _) in ratios.items():
            page.check(processor <= LIMIT, f"{title}: {processor:.2f} times the better's processor time")


def main() -> None:
    """Print a table of some questions in two threads."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    threads = int(os.environ.get("THREADS", THREADS[0]))
    wanted = [int(word) for word in sys.argv[2:]] or range(len(QUESTIONS))
    print(f"{rows:,} events, {panel(threads)}; seconds by the clock (of the processor), megabytes")
    for number in wanted:
        own, *others = measure(number, rows, threads, 3)
        cells = "".join(f"{f'{f.wall:.2f} ({f.cpu:.2f}) {f.megabytes:.0f}':>20}" for f in (own, *others))
        ratio = own.cpu / min(other.cpu for other in others), own.wall / min(other.wall for other in others)
        print(f"{number:2} {QUESTIONS[number].title[:44]:46}{cells}{ratio[1]:7.2f} ({ratio[0]:.2f})", flush=True)


if __name__ == "__main__":
    main()
