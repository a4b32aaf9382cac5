"""Plots in one style: small panels side by side, curves labelled where they end, for light and for dark pages.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; a series has the same colour and the same
marker in every plot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

Points = list[tuple[float, float]]

MARKS = {
    "ceql": ("#0072B2", "o"),
    "CORE": ("#D55E00", "s"),
    "CORE, engine alone": ("#E69F00", "s"),
    "Flink CEP": ("#009E73", "^"),
    "partial matches": ("#CC79A7", "D"),
    "DuckDB": ("#E69F00", "v"),
    "DuckDB, buckets": ("#D55E00", "v"),
    "polars": ("#56B4E9", "P"),
    "polars, buckets": ("#56B4E9", "D"),
    "Spark SQL": ("#7F7F7F", "X"),
    "by hand": ("#7F7F7F", "o"),
}
OTHER_MARKS = [
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
]
THEMES = {
    "light": {"page": "#ffffff", "ink": "#1f2328", "faint": "#d8dee4", "lift": 0.0},
    "dark": {"page": "#0d1117", "ink": "#e6edf3", "faint": "#30363d", "lift": 0.25},
}


@dataclass
class Panel:
    """One pair of axes. `x_names` are for an x that is no number: the values are then 0, 1, 2, ..."""

    title: str
    x_label: str
    y_label: str
    series: dict[str, Points]
    log_x: bool = False
    log_y: bool = True
    x_names: list[str] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)


def draw(folder: Path, name: str, title: str, panels: list[Panel], columns: int = 3) -> list[str]:
    """Write NAME-light and NAME-dark as SVG and PNG; their file names, SVG first."""
    written = []
    for theme, look in THEMES.items():
        for ending in ("svg", "png"):
            file = folder / f"{name}-{theme}.{ending}"
            _draw(file, title, panels, columns, look)
            written.append(file.name)
    return sorted(written, key=lambda file: file.endswith("png"))


def _draw(file: Path, title: str, panels: list[Panel], columns: int, look: dict[str, Any]) -> None:
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    settings: dict[Any, Any] = {
        "figure.facecolor": look["page"],
        "axes.facecolor": look["page"],
        "axes.edgecolor": look["faint"],
        "axes.labelcolor": look["ink"],
        "text.color": look["ink"],
        "xtick.color": look["ink"],
        "ytick.color": look["ink"],
        "grid.color": look["faint"],
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "ceql",  # the same figures make the same file
        "svg.fonttype": "none",
    }
    with mpl.rc_context(settings):
        figure, grid = plt.subplots(rows, columns, figsize=(3.9 * columns, 3.1 * rows + 0.4), squeeze=False)
        flat = list(grid.flat)
        for axes, panel in zip(flat, panels, strict=False):
            _panel(axes, panel, look)
        for axes in flat[len(panels) :]:
            axes.axis("off")
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
        figure.tight_layout(rect=(0, 0, 1, 0.97), w_pad=1.5)
        for axes, panel in zip(flat, panels, strict=False):
            _labels(figure, axes, panel, look)
        figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)
        plt.close(figure)


def _panel(axes: Any, panel: Panel, look: dict[str, Any]) -> None:
    axes.set_title(panel.title, loc="left")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(True, axis="y", linewidth=0.6)
    for k, (name, points) in enumerate(panel.series.items()):
        if points:
            colour, marker = mark(name, k, look)
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, color=colour, marker=marker, markersize=4, linewidth=1.6, clip_on=False)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    _axis_text(axes, panel)
    low, high = axes.get_xlim()  # room for the labels at the right
    axes.set_xlim(low, high * (high / low) ** 0.42 if panel.log_x else high + 0.42 * (high - low))


def _axis_text(axes: Any, panel: Panel) -> None:
    """Few, plain numbers on the axes."""
    if panel.x_names:
        axes.set_xticks(range(len(panel.x_names)), panel.x_names)
    elif panel.ticks:
        axes.set_xticks(panel.ticks, [short(tick) for tick in panel.ticks])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _labels(figure: Any, axes: Any, panel: Panel, look: dict[str, Any]) -> None:
    """A name beside the last point of each curve, moved up or down where two would overlap."""
    ends = []
    for k, (name, points) in enumerate(panel.series.items()):
        if points:
            across, up = axes.transData.transform(points[-1])
            ends.append([up, across, name, mark(name, k, look)[0]])
    ends.sort()
    height = 11 * figure.dpi / 72
    for before, end in pairwise(ends):
        end[0] = max(end[0], before[0] + height)
    top = axes.transAxes.transform((0, 1.02))[1]
    for after, end in zip([[top + height], *ends[::-1]], ends[::-1], strict=False):
        end[0] = min(end[0], after[0] - height)
    for up, across, name, colour in ends:
        x, y = axes.transData.inverted().transform((across + 8, up))
        axes.text(x, y, name, color=colour, va="center", ha="left", fontsize=8, clip_on=False)


def mark(name: str, number: int, look: dict[str, Any]) -> tuple[str, str]:
    """Colour and marker of a series."""
    colour, marker = MARKS.get(name, OTHER_MARKS[number % len(OTHER_MARKS)])
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    lift = look["lift"]
    lifted = (round(part + (255 - part) * lift) for part in (red, green, blue))
    return "#" + "".join(f"{part:02x}" for part in lifted), marker


def short(value: float) -> str:
    """1000000 as 1M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
