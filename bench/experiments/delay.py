"""Enumeration delay: what writing out a match costs, by how many there are at once and by how long they are.

The delay is what enumeration adds to counting the same matches on the graph, for each event of each match. It must
depend neither on the number of matches nor on their length. The sequence is one of the first loop, the chain and the
rule are of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import ceql
from bench.figures import Figure, Figures, Place, Task
from bench.measure import together
from bench.page import Page
from bench.plot import Panel
from bench.settings import Settings
from bench.workloads import keyed

TITLE = "Enumeration delay"
OUTPUT = 3_000_000  # events of matches, about
BURSTS = (3, 10, 30, 100, 300, 1_000)  # events of each type before the one that completes the matches
LENGTHS = (2, 3, 4, 6, 8, 12)
FEW_BURSTS, FEW_LENGTHS = (10, 300), (3, 8)
BY_NUMBER, BY_LENGTH = "by matches at an event", "by events of a match"
FLAT = 1.5


def sequence(length: int) -> ceql.Query:
    """No key: groups follow one another, and a window keeps them apart."""
    formula = " ; ".join(f"E{k} AS e{k}" for k in range(length))
    return ceql.compile(f"SELECT * WHERE {formula} CONSUME BY ANY")


def chain(length: int) -> ceql.Query:
    formula = " ; ".join(f"E{k} AS e{k}" for k in range(length))
    return ceql.compile(f"SELECT * WHERE ({formula} PARTITION BY [key]) WITHIN 1000000000 EVENTS")


def star(length: int) -> ceql.Query:
    atoms = [f"E{k}" for k in range(length)]
    body = ", ".join(f"{atom}(x)" for atom in atoms)
    return ceql.rule(f"Q(x) <- {body}", attributes={atom: ["key"] for atom in atoms}, within="1000000000 events")


MAKERS: dict[str, Callable[[int], ceql.Query]] = {"sequence": sequence, "chain": chain, "rule": star}


def tasks(settings: Settings) -> Iterator[Task]:
    for name, make in MAKERS.items():
        for burst in settings.several(FEW_BURSTS, BURSTS):
            number = int(burst) ** 2
            place = (Place(BY_NUMBER, name, number),)
            yield Task(place, partial(_delay, settings, make, 3, int(burst)))
        for length in settings.several(FEW_LENGTHS, LENGTHS):
            if name != "rule" or length <= 6:  # a rule of n atoms has states for each set of them
                place = (Place(BY_LENGTH, name, length),)
                yield Task(place, partial(_delay, settings, make, int(length), 2))


def _delay(settings: Settings, make: Callable[[int], ceql.Query], length: int, each: int) -> list[Figure]:
    query = make(length)
    number = each ** (length - 1)
    groups = max(1, min(OUTPUT // (length * number), 100_000))
    table = keyed.bursts(length, each, groups)
    timed = together(
        {
            "all": lambda: sum(batch.num_rows for batch in query.run(table).to_batches()),
            "counted": lambda: query.run(table).count(),
        },
        len(table),
        settings.runs,
    )
    (whole, found), (counted, also) = timed["all"], timed["counted"]
    assert found == also == groups * number, f"{query.text}: {found:,}, counted {also:,}, must be {groups * number:,}"
    delay = max(0.0, whole.cpu - counted.cpu) / (length * found) * 1e9
    return [replace(whole, more={"delay": delay, "counted": counted.cpu})]


def show(settings: Settings, figures: Figures, page: Page) -> None:
    page.text(__doc__.split("\n", 2)[2].strip())
    numbers = [int(burst) ** 2 for burst in settings.several(FEW_BURSTS, BURSTS)]
    lengths = settings.several(FEW_LENGTHS, LENGTHS)
    panels = []
    for title, xs in ((BY_NUMBER, numbers), (BY_LENGTH, lengths)):
        curves = {}
        rows: list[list[object]] = []
        for name in MAKERS:
            found = [(x, figures.get(title, name, x)) for x in xs]
            curves[name] = [(float(x), f.more["delay"]) for x, f in found if f and not f.error]
            rows.append([name, *(f"{f.more['delay']:.1f}" if f else "" for _, f in found)])
            values = [y for _, y in curves[name]]
            if title == BY_NUMBER and len(values) > 1:
                ratio = values[-1] / max(values[len(values) // 2], 1e-3)
                page.check(ratio < FLAT, f"delay, {name}: {ratio:.2f} times with most matches at once ({FLAT:g} asked)")
        by_number = title == BY_NUMBER
        panels.append(
            Panel(title, title, "ns per output event, CPU", curves, log_x=by_number, log_y=False, ticks=list(xs))
        )
        page.title(f"{title[0].upper()}{title[1:]}: ns of processor time for each event of each match")
        page.table(["", *(f"{x:,}" for x in xs)], rows)
    page.plot("Enumeration delay", panels, columns=2)
