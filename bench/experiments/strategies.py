"""Selection strategies on two random streams: S1 has types A to E equally often, S2 has many A and few D.

The queries are those of the paper's Table 1, with its consumption policy, without which matches would grow with the
stream, and with LIMIT 1, since the paper counts one match for each event. Flink CEP gets them with its skip-till-next:
a greedy procedure of its own, which finds the same events that complete matches, but not the matches of any strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from bench.experiments.asking import asked
from bench.figures import Figures, Task
from bench.page import Page, number, rate_cell
from bench.plot import Panel
from bench.settings import Settings, event_file
from bench.workloads import letters

TITLE = "Selection strategies (foundations-cep-2018, Figure 5)"
STREAMS: dict[str, Callable[..., pa.Table]] = {"S1": letters.uniform, "S2": letters.skewed}
STRATEGIES = ("NEXT", "LAST", "MAX")
FLINK = "Flink CEP"


def tasks(settings: Settings) -> Iterator[Task]:
    for stream, make in STREAMS.items():
        events = event_file(make, settings.events)
        for name in letters.QUERIES:
            for strategy in STRATEGIES:
                pattern = letters.query(name, strategy=strategy, limit=1)
                who = ["ceql", FLINK] if (stream, strategy) == ("S1", "NEXT") else ["ceql"]
                yield from asked(settings, f"{stream}, {strategy}", name, events, pattern, who)


def show(settings: Settings, figures: Figures, page: Page) -> None:
    names = list(letters.QUERIES)
    page.text(__doc__.split("\n", 2)[2].strip())
    panels = []
    for stream in STREAMS:
        found = {strategy: (f"{stream}, {strategy}", "ceql") for strategy in STRATEGIES}
        found[FLINK] = (f"{stream}, NEXT", FLINK)
        curves = {}
        rows: list[list[object]] = []
        for label, (panel, series) in found.items():
            row = [figures.get(panel, series, name) for name in names]
            if not any(row):
                continue
            shown = label if label == FLINK else f"ceql, {label}"
            curves[shown] = [(float(k), f.rate) for k, f in enumerate(row) if f and not f.error and f.rate]
            rows.append([shown, *(rate_cell(f) for f in row)])
            rows.append(["matches", *("" if f is None else "—" if f.error else number(f.matches) for f in row)])
        page.title(stream)
        page.table(["events per second · ns CPU · spread", *names], rows)
        panels.append(Panel(stream, "query", "events per second", curves, x_names=names))
        for name in names:
            ours, theirs = figures.get(f"{stream}, NEXT", "ceql", name), figures.get(f"{stream}, NEXT", FLINK, name)
            if ours and theirs and theirs.rate:
                page.check(ours.rate > theirs.rate, f"{stream}, {name}: slower than {FLINK}")
    page.text("A star stands for other matches than ceql's.")
    page.plot("Throughput under selection strategies", panels, columns=2)
