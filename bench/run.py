"""Running experiments: tasks with a progress bar, figures kept as they come, then the pages."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine
from bench.figures import Figure, Folder, newest
from bench.page import Page
from bench.peers.peer import ROOT
from bench.settings import Settings

EXPERIMENTS = [
    "filters",
    "sequences",
    "windows",
    "operators",
    "stress",
    "consumption",
    "strategies",
    "joins",
    "correlation",
    "conditions",
    "delay",
    "spark",
    "by_hand",
]
QUICK = ["filters", "sequences", "windows", "operators", "joins", "correlation", "conditions", "delay", "by_hand"]
PAGES = {"by_hand": "by-hand.md"}
"""The experiments whose page is elsewhere in the documentation than in benchmarks."""
DOCS = ROOT / "docs"
MARK = "<!-- below: written by `python -m bench docs` -->"


def run(settings: Settings, peers: dict[str, str], names: Sequence[str], again: bool) -> int:
    """Measure what is missing, write all pages, say what is asked of ceql and was not met."""
    about: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "quick": settings.quick,
        "machine": machine.describe(),
        "peers": peers,
        "settings": {"events": settings.events, "seconds": settings.seconds, "runs": settings.runs},
    }
    folder = Folder(f"{about['date']}{'-quick' if settings.quick else ''}", about, again)
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # tables are wide
    console.print(f"{folder.path}: {machine.in_words(about['machine'])}\n")
    begun = time.monotonic()
    missed = []
    for name in names:
        page = one(settings, folder, name, console)
        missed += [f"{name}: {line}" for line in page.missed]
    if set(names) >= set(QUICK if settings.quick else EXPERIMENTS):
        folder.finish()
    whole = write(folder.path)
    console.print(f"\n{time.monotonic() - begun:.0f} s; everything: {whole}")
    for line in missed:
        console.print(f"NOT MET: {line}", highlight=False)
    return 0


def one(settings: Settings, folder: Folder, name: str, console: Console) -> Page:
    """One experiment: its page, which is also written to the folder."""
    experiment = importlib.import_module(f"bench.experiments.{name}")
    figures = folder.figures(name)
    tasks = list(experiment.tasks(settings))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=console, transient=not console.is_terminal) as progress:
        bar = progress.add_task(experiment.TITLE.split(" (")[0], total=len(tasks), now="")
        for task in tasks:
            place = task.places[0]
            progress.update(bar, now=f"{place.panel}, {place.series}, {place.x}")
            if not figures.has(task):
                try:
                    found: Sequence[Figure] = task.measure()
                except Exception as error:  # the others go on; the page says what went wrong
                    found = [Figure(error=f"{type(error).__name__}: {error}"[:300])] * len(task.places)
                figures.add(task, found)
            progress.advance(bar)
        progress.update(bar, now="")
    page = Page(folder.path, name)
    experiment.show(settings, figures, page)
    text = [f"## {experiment.TITLE}", "", *page.lines]
    if page.missed:
        text += ["Asked for and not met:", "", *(f"- {line}" for line in page.missed), ""]
    (folder.path / f"{name}.md").write_text("\n".join(text))
    console.print(Markdown("\n".join(line for line in text if not _is_html(line))))
    return page


def write(folder: Path) -> Path:
    """All pages of a run as one."""
    about = json.loads((folder / "run.json").read_text())
    parts = [folder / f"{name}.md" for name in EXPERIMENTS]
    text = "\n".join([*heading(about), *(part.read_text() for part in parts if part.exists())])
    file = folder / "README.md"
    file.write_text(text)
    return file


def heading(about: dict[str, Any]) -> list[str]:
    """What was run, when, and on what."""
    settings = about["settings"]
    lines = [
        "# Benchmarks",
        "",
        f"Run on {about['date']}: {machine.in_words(about['machine'])}.",
        "",
        f"Streams of {settings['events']:,} events; medians of {settings['runs']} runs, of which each reads events for "
        f"at most {settings['seconds']:g} s; everybody has one thread unless it says otherwise.",
        "",
        "| peer | |",
        "|---|---|",
        *(f"| {name} | {version} |" for name, version in about["peers"].items()),
        "",
    ]
    return lines


def publish(names: Sequence[str] = ()) -> int:
    """Write the newest full run to the pages of its experiments, each below an introduction of ours, with its plots.

    With names, only to the pages of these experiments.
    """
    folder = newest()
    if folder is None:
        print("no full run in bench/results: make bench-full")
        return 1
    about = json.loads((folder / "run.json").read_text())
    for name in names or EXPERIMENTS:
        if (folder / f"{name}.md").exists():
            page = page_of(name)
            page.parent.mkdir(exist_ok=True)
            title, _, results = (folder / f"{name}.md").read_text().partition("\n")
            introduction = page.read_text().partition(MARK)[0] if page.exists() else title.removeprefix("#")
            page.write_text(f"{introduction.rstrip()}\n\n{MARK}\n{below(about, results, name in PAGES)}")
            for plot in folder.glob(f"{name}-*.svg"):
                shutil.copy(plot, page.parent)
            print(f"{page}: the run in {folder}")
    return 0


def page_of(name: str) -> Path:
    """The page of the documentation that shows an experiment."""
    return DOCS / PAGES.get(name, f"benchmarks/{name}.md")


def below(about: dict[str, Any], results: str, own: bool) -> str:
    """What stands below the mark: the run, and the results with headings one level up, since the page has the title.

    A page of its `own` says itself how long its streams are, and knows no peers.
    """
    text = "\n".join([*heading(about)[2 : 4 if own else None], results.strip(), ""])
    return re.sub(r"(?m)^###", "##", text)


def _is_html(line: str) -> bool:
    return line.startswith(("<picture", "<source", "<img", "</picture"))
