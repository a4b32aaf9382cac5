"""Throughput and memory by the length of a sequence, with and without output.

P_n is a sequence of n filtered events in a window, on the three data sets; P'_n adds an event that never comes, so that
only updates are measured. An event that completes matches consumes all before it, and at most a thousand of its matches
are enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench.experiments.asking import asked
from bench.experiments.data import DATA, data_for
from bench.figures import Figures, Place, Task
from bench.page import RATE_CAPTION, Page, curve, times
from bench.peers.pycer import Pycer
from bench.plot import Panel
from bench.settings import Settings, event_file

TITLE = "Sequences of n events (core-vldb2022, Figure 7)"
LENGTHS = (3, 6, 9, 12, 24)
FEW = (3, 9, 24)
SERIES = ("ceql", "CORE", "Flink CEP", "partial matches")
ALONE = "CORE, engine alone"
MEMORY = "stock market"  # where memory is measured
FORMS = {"with output": False, "without output": True}


def tasks(settings: Settings) -> Iterator[Task]:
    for data, workload in data_for(settings.quick).items():
        events = event_file(workload.events, settings.events)
        for form, never in FORMS.items():
            for length in settings.several(FEW, LENGTHS):
                pattern = workload.pattern(int(length), never=never)
                yield from asked(settings, f"{data}, {form}", length, events, pattern, SERIES)
    if not settings.quick:
        workload = DATA[MEMORY]
        events = event_file(workload.events, settings.events)
        for form, never in FORMS.items():
            for length in LENGTHS:
                pattern = workload.pattern(length, never=never)
                yield from asked(settings, f"{MEMORY}, {form}, memory", length, events, pattern, SERIES, memory=True)


def engine_alone(figures: Figures, panel: str, x: float | str) -> None:
    """CORE's own thread, without Python's, which hands it the events: as fast as the C++ could be by itself."""
    whole = figures.get(panel, Pycer.name, x)
    if whole and whole.counts and "engine" in whole.more:
        seconds = whole.more["engine"] * whole.events
        alone = replace(whole, wall=seconds, cpu=seconds)
        figures.derive(Place(panel, ALONE, x), alone)


def show(settings: Settings, figures: Figures, page: Page) -> None:
    lengths = settings.several(FEW, LENGTHS)
    page.text(f"{__doc__.split(chr(10), 2)[2].strip()} Streams of {settings.events:,} events. {RATE_CAPTION}")
    series = (*SERIES[:2], ALONE, *SERIES[2:])
    panels = []
    for form in FORMS:
        for data in data_for(settings.quick):
            title = f"{data}, {form}"
            for length in lengths:
                engine_alone(figures, title, length)
            curves = {name: curve(figures, title, name, lengths) for name in SERIES}
            panels.append(Panel(title, "events in the sequence", "events per second", curves, ticks=list(lengths)))
    page.plot("Throughput by the length of the sequence", panels)
    for panel in panels:
        page.title(panel.title[0].upper() + panel.title[1:])
        page.rates(figures, panel.title, lengths, series, "n")
        targets(page, figures, panel.title, lengths)
    if any(figures.get(panel.title, ALONE, length) for panel in panels for length in lengths):
        page.text(f"“{ALONE}” is the processor time of CORE's C++ thread, without the Python that hands it the events.")
    if not settings.quick:
        _memory(figures, page)


def targets(page: Page, figures: Figures, panel: str, xs: list[float] | list[str]) -> None:
    """Ahead of everyone, ten times CORE's C++, a hundred times Flink CEP."""
    least = {"CORE": 10.0, ALONE: 10.0, "Flink CEP": 100.0, "partial matches": 1.0}
    for x in xs:
        for name, factor in least.items():
            ratio = times(figures.get(panel, "ceql", x), figures.get(panel, name, x))
            if ratio is not None:
                page.check(ratio >= factor, f"{panel}, {x}: {ratio:.1f} times {name} ({factor:g} asked)")


def _memory(figures: Figures, page: Page) -> None:
    page.title("Memory")
    page.text("The most that an engine held besides the events, in MB; for Flink CEP after a collection of garbage.")
    panels = []
    for form in FORMS:
        curves = {name: curve(figures, f"{MEMORY}, {form}, memory", name, LENGTHS, "megabytes") for name in SERIES}
        panels.append(Panel(f"{MEMORY}, {form}", "events in the sequence", "MB", curves, ticks=list(LENGTHS)))
    page.plot("Memory by the length of the sequence", panels, columns=2, name="memory")
    rows: list[list[object]] = []
    for panel in panels:
        for name in SERIES:
            found = [figures.get(f"{panel.title}, memory", name, length) for length in LENGTHS]
            if any(found):
                cells = ["" if f is None else "—" if f.error else f.megabytes for f in found]
                rows.append([f"{panel.title}: {name}", *cells])
    page.table(["MB", *map(str, LENGTHS)], rows)
