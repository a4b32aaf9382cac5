"""A consumption policy: whenever something is complete, all events so far are forgotten. Queries Q1 to Q6.

The stream has types A to E, all equally likely. Q1 and Q2 are sequences, Q3 a disjunction and an event, Q4 to Q6 have
iterations: A+ ; B, then A+ ; B+ ; C, then (A+ ; B)+ ; C. At most a thousand matches of an event are listed; Q5 and Q6
have some with millions.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.experiments.asking import asked
from bench.experiments.sequences import ALONE, SERIES, engine_alone, targets
from bench.figures import Figures, Task
from bench.page import RATE_CAPTION, Page
from bench.settings import Settings, event_file
from bench.workloads import letters

TITLE = "Consumption (foundations-cep-2018, Table 2)"
PANEL = "uniform"


def tasks(settings: Settings) -> Iterator[Task]:
    events = event_file(letters.uniform, settings.events)
    for name in letters.QUERIES:
        yield from asked(settings, PANEL, name, events, letters.query(name), SERIES)


def show(settings: Settings, figures: Figures, page: Page) -> None:
    names = list(letters.QUERIES)
    page.text(f"{__doc__.split(chr(10), 2)[2].strip()} {RATE_CAPTION}")
    for name in names:
        engine_alone(figures, PANEL, name)
    series = (*SERIES[:2], ALONE, *SERIES[2:])
    page.rates(figures, PANEL, names, series, "query")
    rows: list[list[object]] = []
    averages: list[object] = ["matches at a time"]
    for name in names:
        ours = figures.get(PANEL, "ceql", name)
        averages.append(ours.matches / max(ours.triggers, 1) if ours else "")
    rows.append(averages)
    for who in SERIES:
        found = [figures.get(PANEL, who, name) for name in names]
        if any(found):
            rows.append([who, *("" if f is None else "—" if f.error else 1e6 / f.rate for f in found)])
    page.text("As in the paper, seconds for a million events (for those that were cut off, at the rate that they had):")
    page.table(["", *names], rows)
    targets(page, figures, PANEL, names)
