"""Throughput and memory by the length of a sequence, with and without output.

P_n is a sequence of n filtered events in a window, on the three data sets; P'_n adds an event that never comes, so that
only updates are measured. An event that completes matches consumes all before it, and at most a thousand of its matches
are enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.experiments.asking import asked
from bench.experiments.data import DATA
from bench.figures import Figure, Figures, Place, Task
from bench.page import RATE_CAPTION, Page, curve, times
from bench.peers.pycer import HAND_OVER as HAND_OVER_QUERY
from bench.peers.pycer import Pycer
from bench.plot import Panel
from bench.settings import Settings, event_file

TITLE = "Sequences of n events (core-vldb2022, Figure 7)"
LENGTHS = (3, 6, 9, 12, 24)
FEW = (3, 9, 24)
SERIES = ("ceql", "CORE", "Flink CEP", "partial matches")
ALONE = "CORE, engine alone"
HAND_OVER = "hand-over"
FORMS = {"with output": False, "without output": True}


def tasks(settings: Settings) -> Iterator[Task]:
    for data, workload in DATA.items():
        events = event_file(workload.events, settings.events)
        yield from asked(settings, data, HAND_OVER, events, HAND_OVER_QUERY, [Pycer.name])
        for form, never in FORMS.items():
            for length in settings.several(FEW, LENGTHS):
                pattern = workload.pattern(int(length), never=never)
                yield from asked(settings, f"{data}, {form}", length, events, pattern, SERIES)
    for data, workload in DATA.items():
        if settings.quick:
            continue
        events = event_file(workload.events, settings.events)
        for form, never in FORMS.items():
            for length in LENGTHS:
                pattern = workload.pattern(length, never=never)
                yield from asked(settings, f"{data}, {form}, memory", length, events, pattern, SERIES, memory=True)


def engine_alone(figures: Figures, panel: str, data: str, x: float | str) -> None:
    """CORE without the hand-over of events: its C++ as it would be if Python did not stand before it."""
    whole, hand_over = figures.get(panel, Pycer.name, x), figures.get(data, Pycer.name, HAND_OVER)
    if whole is None or hand_over is None or not whole.counts or hand_over.error:
        return
    less = whole.events / hand_over.events
    wall, cpu = whole.wall - hand_over.wall * less, whole.cpu - hand_over.cpu * less
    figures.derive(
        Place(panel, ALONE, x),
        Figure(max(wall, 0.0), max(cpu, 0.0), whole.spread, whole.runs, whole.events, whole.matches, whole.triggers),
    )


def show(settings: Settings, figures: Figures, page: Page) -> None:
    lengths = settings.several(FEW, LENGTHS)
    page.text(f"{__doc__.split(chr(10), 2)[2].strip()} Streams of {settings.events:,} events; {RATE_CAPTION}")
    series = (*SERIES[:2], ALONE, *SERIES[2:])
    panels = []
    for form in FORMS:
        for data in DATA:
            panel = f"{data}, {form}"
            for length in lengths:
                engine_alone(figures, panel, data, length)
            curves = {name: curve(figures, panel, name, lengths) for name in SERIES}
            panels.append(Panel(panel, "events in the sequence", "events per second", curves, ticks=list(lengths)))
    page.plot("Throughput by the length of the sequence", panels)
    for panel in panels:
        page.title(panel.title[0].upper() + panel.title[1:])
        page.rates(figures, panel.title, lengths, series, "n")
        targets(page, figures, panel.title, lengths)
    hand_over = {data: figures.get(data, Pycer.name, HAND_OVER) for data in DATA}
    costs = ", ".join(f"{figure.ns:.0f} ns ({data})" for data, figure in hand_over.items() if figure and figure.ns)
    if costs:
        page.text(f"“{ALONE}” is CORE less what handing over an event costs in its Python package: {costs}.")
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
        for data in DATA:
            panel = f"{data}, {form}, memory"
            curves = {name: curve(figures, panel, name, LENGTHS, "megabytes") for name in SERIES}
            panels.append(Panel(f"{data}, {form}", "events in the sequence", "MB", curves, ticks=list(LENGTHS)))
    page.plot("Memory by the length of the sequence", panels, name="memory")
    rows: list[list[object]] = []
    for panel in panels:
        for name in SERIES:
            found = [figures.get(f"{panel.title}, memory", name, length) for length in LENGTHS]
            if any(found):
                cells = ["" if f is None else "—" if f.error else f.megabytes for f in found]
                rows.append([f"{panel.title}: {name}", *cells])
    page.table(["MB", *map(str, LENGTHS)], rows)
