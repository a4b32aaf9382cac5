"""What one would write instead: self-joins in DuckDB, polars and Spark SQL, every match written out, one thread each.

Sequences of filtered stock events, sequences of one account, and queries that compare further values: B and C about one
item (which ceql looks up), A and C about one item (which B carries on), and the rule T(x), S(x, y), R(x, y).
For the last three the joins are also written with buckets of time as a further key, as one who knows their cost would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from bench.experiments.asking import asked
from bench.figures import Figure, Figures, Place, Task
from bench.page import RATE_CAPTION, Page, curve, times
from bench.pattern import Pattern, Step
from bench.peers import correlated_joins
from bench.plot import Panel
from bench.settings import Settings, event_file
from bench.workloads import keyed, stock

TITLE = "Self-joins"
LENGTHS = (2, 3, 4)
FEW_LENGTHS = (3,)
SIZES = (10_000, 100_000, 1_000_000)
FEW_SIZES = (100_000,)
SERIES = ("ceql", "DuckDB", "polars", "Spark SQL")
STOCK = "filtered stock events, by length"
ACCOUNT = "A ; B ; C of one account, by events"
BY_ACCOUNT = Pattern(tuple(Step((type,)) for type in "ABC"), window=20_000, key="account", consume=False, limit=None)


def tasks(settings: Settings) -> Iterator[Task]:
    events = event_file(stock.market, settings.events)
    for length in settings.several(FEW_LENGTHS, LENGTHS):
        pattern = replace(stock.pattern(int(length)), consume=False, limit=None)
        yield from asked(settings, STOCK, length, events, pattern, SERIES)
    for size in settings.several(FEW_SIZES, SIZES):
        events = event_file(keyed.payments, int(size), correlated_joins.KEYS, correlated_joins.ITEMS)
        yield from asked(settings, ACCOUNT, size, events, BY_ACCOUNT, SERIES)
    for query, title in correlated_joins.TITLES.items():
        for size in settings.several(FEW_SIZES, SIZES):
            places = tuple(Place(title, who, size) for who in correlated_joins.WHO)
            yield Task(places, partial(_correlated, settings, query, int(size)))


def _correlated(settings: Settings, query: str, size: int) -> list[Figure]:
    found = [correlated_joins.ask(who, query, size, settings.runs) for who in correlated_joins.WHO]
    wanted = found[0][1]
    return [
        figure if figure.error or rows == wanted else replace(figure, note="other matches") for figure, rows in found
    ]


def show(settings: Settings, figures: Figures, page: Page) -> None:
    page.text(f"{__doc__.split(chr(10), 2)[2].strip()} {RATE_CAPTION}")
    page.text("Matches are compared by their number, those of the last three queries by a hash of their rows.")
    lengths, sizes = settings.several(FEW_LENGTHS, LENGTHS), settings.several(FEW_SIZES, SIZES)
    parts: dict[str, tuple[list[float], tuple[str, ...]]] = {STOCK: (lengths, SERIES), ACCOUNT: (sizes, SERIES)}
    parts |= dict.fromkeys(correlated_joins.TITLES.values(), (sizes, correlated_joins.WHO))
    panels = []
    for title, (xs, series) in parts.items():
        curves = {name: curve(figures, title, name, xs) for name in series}
        by_length = title == STOCK
        label = "events in the sequence" if by_length else "events in the stream"
        panels.append(Panel(title, label, "events per second", curves, log_x=not by_length, ticks=list(xs)))
    page.plot("Against self-joins", panels, columns=2)
    for title, (xs, series) in parts.items():
        page.title(title)
        page.rates(figures, title, xs, series, "n" if title == STOCK else "events")
        for x in xs:
            for name in series[1:]:
                ratio = times(figures.get(title, "ceql", x), figures.get(title, name, x))
                if ratio is not None:
                    page.check(ratio >= 1, f"{title}, {x:,}: {ratio:.2f} times {name} (1 asked)")
