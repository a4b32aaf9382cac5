"""`make chart`: the chart of the README, from the tables of docs/benchmarks/sequences.md."""

from __future__ import annotations

import re
from pathlib import Path

from bench.plot import Panel, Points, draw

PAGE = Path(__file__).parents[1] / "docs/benchmarks/sequences.md"
TITLES = ("Stock market, with output", "Smart homes, with output", "Taxi trips, with output")
TICKS: list[float] = [3, 6, 9, 12, 24]
PEERS = ("ceql", "CORE", "Flink CEP", "partial matches")
_SCALE = {"": 1.0, "k": 1e3, "M": 1e6}


def rate(cell: str) -> float:
    """Events per second of a cell.

    >>> rate("60.1 M · 16.6 · 7%")
    60100000.0
    """
    found = re.match(r"([\d.,]+) ?([kM]?)", cell)
    assert found is not None, cell
    return float(found[1].replace(",", "")) * _SCALE[found[2]]


def series(text: str, title: str) -> dict[str, Points]:
    """The curves of the table under a heading, by the length of the sequence."""
    lines = text.partition(f"## {title}\n")[2].strip().split("\n\n")[0].split("\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads, cells = rows[0], rows[2:]
    return {peer: [(float(row[0]), rate(row[heads.index(peer)])) for row in cells] for peer in PEERS}


def main() -> None:
    text = PAGE.read_text()
    panels = [
        Panel(
            title.partition(",")[0].lower(),
            "events in the sequence",
            "events per second",
            series(text, title),
            ticks=TICKS,
        )
        for title in TITLES
    ]
    for name in draw(PAGE.parent, "peers", "", panels):
        if name.endswith("png"):
            (PAGE.parent / name).unlink()


if __name__ == "__main__":
    main()
