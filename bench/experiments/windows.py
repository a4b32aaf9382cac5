"""Throughput by the size of the window: P'_3 with windows from T to 4T, and on to 1000T.

P'_3 is a sequence of three filtered events and one that never comes. T is 10 seconds, and 2.7 hours for the taxis.
Whether ceql's curve is flat is measured once more in one process, with all windows in turn, so that a slow spell of
the machine meets all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import ceql
from bench.experiments.asking import asked
from bench.experiments.data import Data, data_for
from bench.experiments.sequences import ALONE, SERIES, engine_alone, targets
from bench.figures import Figure, Figures, Place, Task
from bench.measure import run_all
from bench.page import RATE_CAPTION, Page, curve
from bench.plot import Panel
from bench.settings import Settings, event_file, read_events

TITLE = "Windows of T to 1000T (core-vldb2022, Figure 8)"
TIMES = (1, 2, 3, 4)
MORE = (10, 100, 1000)  # too long for those that keep partial matches
FEW = (1, 4, 100)
FLAT = 1.15
IN_TURN = "ceql, in turn"
RUNS = 7


def tasks(settings: Settings) -> Iterator[Task]:
    for data, workload in data_for(settings.quick).items():
        events = event_file(workload.events, settings.events)
        for factor in settings.several(FEW, (*TIMES, *MORE)):
            pattern = workload.pattern(3, window=int(workload.window * factor), never=True)
            able = SERIES if factor <= TIMES[-1] else SERIES[:2]
            yield from asked(settings, data, factor, events, pattern, able)
        factors = settings.several(FEW, (*TIMES, *MORE))
        places = tuple(Place(data, IN_TURN, factor) for factor in factors)
        yield Task(places, partial(_in_turn, events, workload, factors))


def _in_turn(events: str, workload: Data, factors: list[float]) -> list[Figure]:
    queries = {}
    for factor in factors:
        pattern = workload.pattern(3, window=int(workload.window * factor), never=True)
        queries[str(factor)] = ceql.compile(pattern.ceql())
    timed = run_all(queries, read_events(events), RUNS)
    return [timed[str(factor)][0] for factor in factors]


def show(settings: Settings, figures: Figures, page: Page) -> None:
    factors = settings.several(FEW, (*TIMES, *MORE))
    page.text(f"{__doc__.split(chr(10), 2)[2].strip()} {RATE_CAPTION}")
    panels = []
    for data in data_for(settings.quick):
        for factor in factors:
            engine_alone(figures, data, factor)
        curves = {name: curve(figures, data, name, factors) for name in SERIES}
        panels.append(
            Panel(data, "window, times T", "events per second", curves, log_x=True, ticks=[1, 4, 10, 100, 1000])
        )
    page.plot("Throughput by the size of the window", panels)
    for data in data_for(settings.quick):
        page.title(data[0].upper() + data[1:])
        page.rates(figures, data, factors, (*SERIES[:2], ALONE, *SERIES[2:]), "times T")
        targets(page, figures, data, factors)
        works = [y for _, y in curve(figures, data, IN_TURN, factors, "cpu_ns")]
        if works:
            spread = max(works) / min(works)
            shown = ", ".join(f"{work:.1f}" for work in works)
            page.text(f"In turn, ceql takes {shown} ns of processor time per event: {spread:.2f} times at most.")
            page.check(spread <= FLAT, f"{data}: {spread:.2f} times between windows ({FLAT} asked)")
