"""The benchmark's own workings: what is kept, what is compared, what is shown. Nothing is measured here."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench import figures as kept
from bench import run
from bench.experiments import asking
from bench.figures import Figure, Figures, Folder, Place, Task, median_figure
from bench.page import Page, times
from bench.pattern import Pattern
from bench.peers.peer import Job, Peer, Run
from bench.plot import Panel, draw
from bench.settings import Settings, event_file
from bench.workloads import letters

OURS = Figure(wall=0.5, cpu=0.4, spread=0.1, runs=3, events=1000, matches=7, triggers=3)


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "RESULTS", tmp_path)
    return tmp_path


def about(**changes):
    return {
        "date": "2026-01-01",
        "quick": False,
        "machine": {"cores": 2},
        "peers": {},
        "settings": {"events": 9},
    } | changes


def test_a_run_goes_on_where_it_was(results):
    task = Task((Place("p", "ceql", 3),), lambda: [OURS])
    first = Folder("day", about(), again=False)
    assert not first.figures("x").has(task)
    first.figures("x").add(task, task.measure())
    second = Folder("day", about(date="2026-01-02"), again=False)
    assert second.path == first.path
    assert second.figures("x").has(task)
    assert second.figures("x").get("p", "ceql", 3) == OURS
    assert second.about["date"] == "2026-01-01"
    second.finish()
    assert Folder("day", about(), again=False).path != first.path


@pytest.mark.parametrize("other", [about(machine={"cores": 4}), about(settings={"events": 8}), about(quick=True)])
def test_other_settings_and_machines_begin_anew(results, other):
    first = Folder("day", about(), again=False)
    assert Folder("day", other, again=False).path != first.path
    assert Folder("day", about(), again=True).path != first.path


def test_what_follows_from_figures_is_not_stored(results):
    figures = Folder("day", about(), again=False).figures("x")
    figures.derive(Place("p", "half", 3), OURS)
    assert figures.get("p", "half", 3) == OURS
    assert not figures.file.exists()


def test_runs_that_were_cut_off_are_compared_by_their_rates():
    figure = median_figure([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [100, 50, 200])
    assert (figure.events, figure.wall, figure.cpu) == (200, 2.0, 4.0)
    assert figure.rate == 100
    assert figure.spread == 1.5


def test_other_matches_are_not_compared():
    slow = replace(OURS, wall=5.0)
    assert times(OURS, slow) == 10
    assert times(OURS, replace(slow, note="other matches: 6 at 3 events, not 7 at 3")) is None
    assert times(OURS, Figure(error="aborted")) is None


def test_a_table_says_why_a_figure_is_missing(tmp_path):
    figures = Figures(tmp_path / "x.json")
    places = (Place("p", "ceql", 3), Place("p", "CORE", 3), Place("p", "DuckDB", 3))
    others = [replace(OURS, wall=5.0, note="other matches: 6"), Figure(error="a join cannot consume")]
    figures.add(Task(places, list), [OURS, *others])
    page = Page(tmp_path, "x")
    page.rates(figures, "p", [3], ["ceql", "CORE", "DuckDB", "never asked"], "n")
    text = "\n".join(page.lines)
    assert "| n | matches | at events | ceql | CORE | DuckDB | times CORE | times DuckDB |" in text
    assert "| 3 | 7 | 3 | 2.00 k · 400,000 · 10% | 200 · 400,000 · 10% * | — |  |  |" in text
    assert "- CORE, 3: other matches: 6" in text
    assert "- DuckDB, 3: a join cannot consume" in text


def test_plots_are_light_and_dark_and_always_the_same(tmp_path):
    panels = [Panel("p", "n", "rate", {"ceql": [(3, 1e6), (6, 1e5)], "CORE": [(3, 1e4)], "none": []}, ticks=[3, 6])]
    names = draw(tmp_path, "x", "title", panels)
    assert names == ["x-light.svg", "x-dark.svg", "x-light.png", "x-dark.png"]
    first = (tmp_path / "x-dark.svg").read_text()
    assert "CORE" in first
    draw(tmp_path, "x", "title", panels)
    assert (tmp_path / "x-dark.svg").read_text() == first


class Fake(Peer):
    name = "fake"

    def __init__(self, *runs: Run) -> None:
        self.runs = runs

    def ask(self, job: Job, patience: float = 0.0) -> list[Run]:
        return list(self.runs)


def test_a_peer_that_finds_something_else_is_told_so(monkeypatch, tmp_path):
    monkeypatch.setattr("bench.settings.FOLDER", tmp_path)
    events = event_file(letters.uniform, 100)
    pattern = letters.query("Q1")
    matches, triggers = asking.right(events, pattern.ceql(), 60)
    assert 0 < triggers < matches
    settings = Settings(quick=True)
    good, bad = Run(60, 1.0, 1.0, matches, triggers), Run(60, 1.0, 1.0, matches - 1, triggers)
    assert asking.ask(settings, Fake(good), events, pattern).note == ""
    assert asking.ask(settings, Fake(bad), events, pattern).note.startswith("other matches")
    peer = Fake(bad)
    monkeypatch.setattr(Fake, "first_only", True)  # and the query consumes: one match for each event is what it gives
    assert asking.ask(settings, peer, events, pattern).note == ""
    assert asking.ask(settings, Fake(Run(error="no")), events, pattern).error == "no"


class Broken(Peer):
    def __init__(self, said: str) -> None:
        self.said = said

    def refuses(self, pattern: Pattern) -> str:
        return ""

    def command(self, job: Path) -> list[str]:
        return [sys.executable, "-c", f"import sys; sys.exit({self.said!r})"]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("first\nthis is why", "this is why"),
        ("memory allocation of 1073741824 bytes failed\nstack backtrace:\nnote: more", "aborted: out of memory"),
        ("duckdb.OutOfMemoryException: Out of Memory Error: no\nSee also https://", "aborted: out of memory"),
    ],
)
def test_why_a_peer_has_failed(said, error):
    assert Broken(said).ask(Job("none", letters.query("Q1"))) == [Run(error=error)]


def test_a_workload_that_changes_makes_another_file(monkeypatch, tmp_path):
    monkeypatch.setattr("bench.settings.FOLDER", tmp_path)
    before = event_file(letters.uniform, 10)
    assert event_file(letters.uniform, 10) == before
    monkeypatch.setattr("inspect.getsource", lambda module: "other source")
    assert event_file(letters.uniform, 10) != before


def test_the_newest_full_run_becomes_a_page(results, monkeypatch, tmp_path, capsys):
    machine = {
        "processor": "p",
        "cores": 2,
        "gigabytes": 1,
        "system": "s",
        "python": "3",
        "packages": {},
        "sources": "x",
    }
    settings = {"events": 9, "seconds": 1.0, "runs": 3}
    folder = Folder("day", about(machine=machine, settings=settings), again=False).path
    (folder / "windows.md").write_text('## Windows\n\n### Stock market\n\n<img alt="w" src="windows-light.svg">\n')
    (folder / "windows-light.svg").write_text("<svg/>")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "benchmarks").mkdir()
    (docs / "benchmarks/windows.md").write_text(f"# Windows\n\nHow.\n\n{run.MARK}\nold\n")
    monkeypatch.setattr(run, "DOCS", docs)
    assert run.publish() == 0
    text = (docs / "benchmarks/windows.md").read_text()
    assert text.startswith("# Windows\n\nHow.\n")
    assert "old" not in text
    assert "\n## Stock market\n" in text
    assert 'src="windows-light.svg"' in text
    assert (docs / "benchmarks" / "windows-light.svg").exists()
