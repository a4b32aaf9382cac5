"""The stress test: nothing is complete until the last event, which completes everything at once.

Q1 is A ; B ; C and Q2 is A ; B ; C ; D, with neither window nor consumption, on random streams of 200 to 2,000 events.
The time without the last event is that of processing; what the last event adds is that of writing out all matches. CORE
hands out matches every tenth of a second, which is all that can be seen of its processing time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.experiments.asking import ask
from bench.figures import Figure, Figures, Place, Task
from bench.page import Page, curve, number
from bench.pattern import Pattern
from bench.peers.peer import Peer
from bench.plot import Panel
from bench.settings import Settings, event_file
from bench.workloads import letters

TITLE = "Stress: everything at the last event (foundations-cep-2018, Figure 4)"
COUNTS = (200, 400, 800, 1200, 1600, 2000)
FEW = (200, 800, 2000)
SERIES = ("ceql", "CORE", "Flink CEP", "partial matches")
PARTS = ("processing", "all", "memory")


def tasks(settings: Settings) -> Iterator[Task]:
    parts = PARTS[:2] if settings.quick else PARTS
    for name in letters.STRESS:
        pattern = letters.query(name, consume=False, limit=None)
        for peer in settings.peers:
            if peer.name in SERIES:
                tired: list[str] = []  # why this peer is not asked for more
                for count in settings.several(FEW, COUNTS):
                    for part in parts:
                        place = Place(f"{name}, {part}", peer.name, count)
                        yield Task((place,), _measure(settings, peer, pattern, name, int(count), part, tired))


def _measure(
    settings: Settings, peer: Peer, pattern: Pattern, name: str, count: int, part: str, tired: list[str]
) -> Callable[[], list[Figure]]:
    def measure() -> list[Figure]:
        if tired:
            return [Figure(error=f"not tried: {tired[0]} before")]
        events = event_file(letters.stress, name, count, part == "all")
        figure = ask(settings, peer, events, pattern, part == "memory")
        if figure.error or figure.events < count - (part != "all"):
            tired.append(figure.error or "cut off")
            figure = Figure(error=tired[0])
        return [figure]

    return measure


def show(settings: Settings, figures: Figures, page: Page) -> None:
    counts = settings.several(FEW, COUNTS)
    page.text(__doc__.split("\n", 2)[2].strip())
    panels = []
    for name in letters.STRESS:
        for count in counts:
            for series in SERIES:
                _derive(figures, name, series, count)
        for part, value, label in (
            ("processing", "wall", "seconds"),
            ("enumeration", "wall", "seconds"),
            ("memory", "megabytes", "MB"),
        ):
            curves = {series: curve(figures, f"{name}, {part}", series, counts, value) for series in SERIES}
            panels.append(Panel(f"{name}, {part}", "events", label, curves, ticks=list(counts)))
    page.plot("The stress test", panels)
    for name in letters.STRESS:
        page.title(name)
        rows: list[list[object]] = []
        for count in counts:
            whole = figures.get(f"{name}, all", "ceql", count)
            for series in SERIES:
                found = [
                    figures.get(f"{name}, {part}", series, count) for part in ("processing", "enumeration", "memory")
                ]
                if any(found):
                    texts = ["" if f is None else "—" if f.error else f"{number(f.wall * 1e3)}" for f in found[:2]]
                    memory = found[2]
                    texts.append("" if memory is None else "—" if memory.error else number(memory.megabytes))
                    whys = [f.error for f in found if f and f.error]
                    rows.append([series, int(count), whole.matches if whole else "", *texts, whys[0] if whys else ""])
        page.table(["", "events", "matches", "processing, ms", "enumeration, ms", "MB", ""], rows)
        last = figures.get(f"{name}, all", "ceql", counts[-1])
        if last and last.matches:
            delay = last.wall / last.matches / len(letters.QUERIES[name].steps) * 1e9
            page.text(f"{last.matches:,} matches in {last.wall:.2f} s: {delay:.1f} ns for each event of each match.")


def _derive(figures: Figures, name: str, series: str, count: float) -> None:
    before, whole = figures.get(f"{name}, processing", series, count), figures.get(f"{name}, all", series, count)
    if before is None or whole is None:
        return
    place = Place(f"{name}, enumeration", series, count)
    if before.error or whole.error:
        figures.derive(place, Figure(error=before.error or whole.error))
    else:
        more = max(whole.wall - before.wall, 0.0)
        figures.derive(place, Figure(more, max(whole.cpu - before.cpu, 0.0), whole.spread, whole.runs, whole.events))
