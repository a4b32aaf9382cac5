"""Other operators: disjunction, iteration, filters and PARTITION BY on the stock market, queries Q1 to Q7.

Q1 is SELL ; BUY ; BUY ; SELL, Q4 the same with (BUY OR SELL) in the middle, Q7 has an iteration there. Q2 and Q5 add
filters, Q3 and Q6 PARTITION BY. The window is 10 seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.experiments.asking import asked
from bench.experiments.sequences import ALONE, SERIES, engine_alone, targets
from bench.figures import Figures, Task
from bench.page import RATE_CAPTION, Page
from bench.plot import Panel
from bench.settings import Settings, event_file
from bench.workloads import stock

TITLE = "Other operators (core-vldb2022, Figure 9)"
PANEL = "stock market"


def tasks(settings: Settings) -> Iterator[Task]:
    events = event_file(stock.market, settings.events)
    for name, pattern in stock.operators().items():
        yield from asked(settings, PANEL, name, events, pattern, SERIES)


def show(settings: Settings, figures: Figures, page: Page) -> None:
    names = list(stock.operators())
    page.text(f"{__doc__.split(chr(10), 2)[2].strip()} {RATE_CAPTION}")
    for name in names:
        engine_alone(figures, PANEL, name)
    curves = {}
    for series in SERIES:
        found = [(k, figures.get(PANEL, series, name)) for k, name in enumerate(names)]
        curves[series] = [(float(k), figure.rate) for k, figure in found if figure and figure.counts]
    page.plot(
        "Throughput of other operators", [Panel(PANEL, "query", "events per second", curves, x_names=names)], columns=1
    )
    page.rates(figures, PANEL, names, (*SERIES[:2], ALONE, *SERIES[2:]), "query")
    targets(page, figures, PANEL, names)
