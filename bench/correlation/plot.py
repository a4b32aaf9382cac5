"""Line plots as SVG, by hand: a line for each series, its name at its end, in colours that all eyes tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

Points = Sequence[tuple[float, float]]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 50, 60


def line_plot(path: Path, title: str, x_name: str, y_name: str, series: Mapping[str, Points], log_x: bool) -> None:
    """Write a plot whose y axis begins at zero, so that what is flat looks flat."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    low, high = min(xs), max(xs)
    if not log_x:
        low = 0.0
    step = _step(max(ys) * 1.05 / 5)
    top = step * math.ceil(max(ys) * 1.05 / step)

    def across(x: float) -> float:
        share = math.log(x / low) / (math.log(high / low) or 1) if log_x else (x - low) / ((high - low) or 1)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LEFT}" y="40" fill="#555">{escape(y_name)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle" fill="#555">'
        f"{escape(x_name)}</text>",
    ]
    for k in range(round(top / step) + 1):
        y = up(k * step)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{k * step:g}</text>')
    parts += [
        f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{_short(x)}</text>'
        for x in _ticks(sorted(set(xs)), log_x, high)
    ]
    ends = _apart([up(points[-1][1]) for points in series.values()])
    for k, (name, points) in enumerate(series.items()):
        colour = COLOURS[k % len(COLOURS)]
        placed = [(across(x), up(y)) for x, y in points]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        dash = ("", "7 4", "2 3")[k // 2 % 3]
        parts.append(
            f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        parts += [_marker(k, x, y, colour) for x, y in placed]
        parts.append(f'<text x="{placed[-1][0] + 10:.1f}" y="{ends[k] + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>\n"]))


def _marker(number: int, x: float, y: float, colour: str) -> str:
    if number % 2 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
    corner = f'x="{x - 3.5:.1f}" y="{y - 3.5:.1f}"'
    return f'<rect {corner} width="7" height="7" fill="white" stroke="{colour}" stroke-width="2"/>'


def _step(least: float) -> float:
    """The least of 1, 2, 5, 10, ... that is not smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * k for k in (1, 2, 5, 10) if power * k >= least * 0.999)


def _ticks(xs: list[float], log_x: bool, high: float) -> list[float]:
    if log_x:
        return xs if len(xs) <= 8 else xs[:: math.ceil(len(xs) / 8)]
    step = _step(high / 6)
    return [k * step for k in range(int(high / step + 1e-9) + 1)]


def _short(x: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if x >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:g}"


def _apart(heights: list[float], least: float = 16.0) -> list[float]:
    """Labels that would overlap, moved down."""
    moved = list(heights)
    order = sorted(range(len(heights)), key=heights.__getitem__)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + least)
    return moved
