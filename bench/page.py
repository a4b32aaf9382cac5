"""What an experiment shows: tables and plots as Markdown, what was asked for and missed, and ratios to guard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figure, Figures
from bench.plot import Panel, draw

RATE_CAPTION = (
    "Cells: events per second by the clock · nanoseconds of processor time for each event · spread of the runs. Times "
    "are ceql's rate divided by the other's."
)


@dataclass
class Page:
    """The Markdown of one experiment."""

    folder: Path
    name: str
    lines: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def text(self, text: str) -> None:
        self.lines += [text, ""]

    def title(self, text: str) -> None:
        self.lines += [f"### {text}", ""]

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """The first column is text, the others stand to the right."""
        self.lines.append("| " + " | ".join(header) + " |")
        self.lines.append("|" + "|".join(["---", *("---:" for _ in header[1:])]) + "|")
        self.lines += ["| " + " | ".join(number(cell) for cell in row) + " |" for row in rows]
        self.lines.append("")

    def plot(self, title: str, panels: list[Panel], columns: int = 3, name: str = "") -> None:
        panels = [panel for panel in panels if any(panel.series.values())]
        if not panels:
            return
        stem = f"{self.name}-{name}" if name else self.name
        draw(self.folder, stem, title, panels, columns)
        self.lines += [
            "<picture>",
            f'<source media="(prefers-color-scheme: dark)" srcset="{stem}-dark.svg">',
            f'<img alt="{title}" src="{stem}-light.svg">',
            "</picture>",
            "",
        ]

    def check(self, holds: bool, asked: str) -> None:
        """Keep `asked`, which says what was asked and what came, if it does not hold."""
        if not holds:
            self.missed.append(asked)

    def rates(
        self,
        figures: Figures,
        panel: str,
        xs: Sequence[float | str],
        series: Sequence[str],
        x_label: str,
        ours: str = "ceql",
    ) -> None:
        """A table of throughput: a row for each x, a column for each series and for its ratio to ours."""
        shown = [name for name in series if any(figures.get(panel, name, x) for x in xs)]
        others = [name for name in shown if name != ours]
        rows: list[list[object]] = []
        for x in xs:
            own = figures.get(panel, ours, x)
            row: list[object] = [_x(x), own.matches if own else "", own.triggers if own else ""]
            row += [rate_cell(figures.get(panel, name, x)) for name in shown]
            for name in others:
                ratio = times(own, figures.get(panel, name, x))
                row.append("" if ratio is None else ratio)
            rows.append(row)
        self.table([x_label, "matches", "at events", *shown, *(f"times {name}" for name in others)], rows)
        for name in shown:
            for x in xs:
                figure = figures.get(panel, name, x)
                if figure and (figure.note or figure.error):
                    self.lines += [f"- {name}, {_x(x)}: {figure.error or figure.note}"]
        self.lines += [""]


def times(ours: Figure | None, theirs: Figure | None) -> float | None:
    """How many times faster ours is by the clock, where the two may be compared."""
    if ours is None or theirs is None or not ours.counts or not theirs.counts or not theirs.rate:
        return None
    return ours.rate / theirs.rate


def curve(
    figures: Figures, panel: str, series: str, xs: Sequence[float], value: str = "rate"
) -> list[tuple[float, float]]:
    """The points of a curve that were measured and count."""
    points = []
    for x in xs:
        figure = figures.get(panel, series, x)
        if figure and figure.counts and getattr(figure, value) > 0:
            points.append((float(x), float(getattr(figure, value))))
    return points


def rate_cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if figure.error:
        return "—"
    spread = f"{figure.spread:.0%}" if figure.runs > 1 else "one run"
    return f"{_size(figure.rate)} · {number(figure.cpu_ns)} · {spread}" + ("" if figure.counts else " *")


def number(cell: object) -> str:
    """Integers with separators of thousands, other numbers with three digits that count."""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _size(value: float) -> str:
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return number(value / size) + letter
    return number(value)


def _x(x: float | str) -> str:
    return f"{x:,g}" if isinstance(x, float) else number(x)
