"""The gate of `make bench-check`: what it calls slower, and what it does not. The times here are made up."""

from __future__ import annotations

import subprocess
from itertools import count, cycle

import pytest
from bench.gate import trees
from bench.gate.__main__ import Found, check, chosen, measure
from bench.gate.interval import FEWEST, interval
from bench.gate.rows import ROWS
from bench.gate.worker import RowError, Tree
from bench.peers.peer import ROOT

import ceql

NOISE = [1.0, 1.3, 0.98, 1.02, 1.0, 2.5, 1.01, 0.99, 1.0, 1.04, 0.97]  # of a busy machine
MORE_NOISE = [1.02, 1.0, 1.6, 0.97, 1.0, 1.01, 1.3]


class Fake:
    """A tree and its process in one: each row takes `times`, with noise; new processes take the next of `times`."""

    def __init__(self, name, times, noise, matches=7, error=""):
        self.name, self.times, self.noise = name, iter(times), cycle(noise)
        self.matches, self.error = matches, error

    def start(self):
        return self

    def __enter__(self):
        self.time = next(self.times)
        return self

    def __exit__(self, *_):
        pass

    def run(self, row):
        if self.error:
            raise RowError(self.error)
        return self.time * next(self.noise), self.matches


def base(**given):
    return Fake("base", count(1, 0), NOISE, **given)


def now(times=None, **given):
    return Fake("now", times or count(1, 0), MORE_NOISE, **given)


def test_the_interval_leaves_out_as_many_ratios_as_chance_allows():
    # 2 * (1 + 20 + 190 + 1140) / 2**20 = 0.26 % may lie outside, with one more it were 1.2 %
    found = interval([float(k) for k in range(20)])
    assert str(found) == "9.50 [3.00, 16.00]"
    few = interval([float(k) for k in range(FEWEST)])
    assert (few.low, few.high) == (0.0, FEWEST - 1.0)
    with pytest.raises(ValueError, match="7 ratios tell nothing; at least 8 are needed"):
        interval([1.0] * 7)


@pytest.mark.parametrize(
    ("times", "lost"),
    [
        ([1, 1, 1], False),
        ([1, 1.2, 1.2], True),
        ([1, 1.2, 1], False),  # the second round does not confirm it
        ([1, 1.07, 1.07], False),
        ([1, 0.5, 0.5], False),
    ],
    ids=["the same", "slower", "slower once", "within the limit", "faster"],
)
def test_only_what_is_slower_twice_is_lost(times, lost, capsys):
    assert check(["a", "b"], base(), now(times), 1.1) == int(lost)
    out = capsys.readouterr().out
    assert ("LOST: a" in out, "LOST: b" in out) == (lost, lost)
    assert ("again, in new processes" in out) == (times[1] == 1.2)


def test_noise_that_hides_the_ratio_is_no_loss():
    wild = Fake("now", [1.15], [0.2, 3.0, 1.0, 0.5, 2.0])
    with base() as one, wild as two:
        found = measure("a", one, two, 1.1)
    assert len(found.pairs) >= 60
    assert found.cells(1.1).endswith("unsure")
    assert not found.slower(1.1)


def test_neither_tree_always_goes_first():
    asked = []

    class Noted(Fake):
        def run(self, row):
            asked.append(self.name)
            return super().run(row)

    with Noted("base", [1], [1.0]) as one, Noted("now", [1], [1.0]) as two:
        measure("a", one, two, 1.1)
    assert asked[:8] == ["base", "now", "now", "base", "base", "now", "now", "base"]


def test_other_matches_and_errors_of_this_tree_are_lost(capsys):
    assert check(["a"], base(), now(matches=8), 1.1) == 1
    assert "8 matches, the base has 7" in capsys.readouterr().out
    assert check(["a"], base(), now(error="now: ValueError: no"), 1.1) == 1
    assert "FAILS: now: ValueError: no" in capsys.readouterr().out


def test_a_row_that_the_base_cannot_run_is_not_compared(capsys):
    assert check(["a"], base(error="base: SyntaxError: new"), now(), 1.1) == 0
    assert "not compared: base: SyntaxError: new" in capsys.readouterr().out
    assert not Found(note="new").slower(1.1)


def test_rows_are_chosen_as_files_in_a_shell():
    assert chosen([]) == list(ROWS)
    assert chosen(["count-rule", "sequence-?"]) == ["sequence-3", "sequence-6", "count-rule"]
    with pytest.raises(SystemExit, match="no row counts; there are sequence-3, "):
        chosen(["dense", "counts"])


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_a_query(row):
    assert isinstance(ROWS[row].query(), ceql.Query)


def test_a_process_runs_the_rows_of_a_tree(tmp_path):
    with trees.ours().start() as worker:
        seconds, matches = worker.run("all-window")
        assert seconds > 0
        assert matches == ROWS["all-window"].action()()
        with pytest.raises(RowError, match="this tree: KeyError: 'none'"):
            worker.run("none")
    with (
        Tree("elsewhere", tmp_path, tmp_path).start() as worker,
        pytest.raises(RuntimeError, match="elsewhere has end"),
    ):
        worker.run("dense")  # it says where ceql was found instead


def test_the_base_is_a_tag_or_what_the_file_says(tmp_path, monkeypatch):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path / "tree", check=True, capture_output=True)

    package = tmp_path / "tree" / "src" / "ceql"
    package.mkdir(parents=True)
    (package / "query.py").write_text("old")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    (package / "query.py").write_text("new")
    monkeypatch.setattr(trees, "ROOT", tmp_path / "tree")
    monkeypatch.setattr(trees, "FOLDER", tmp_path)
    assert trees.default_base() == (ROOT / "bench" / "base").read_text().strip()
    git("tag", "v1")
    assert trees.default_base() == "v1"
    made = trees.base("v1")
    assert (made.source / "ceql" / "query.py").read_text() == "old"
    assert trees.base("v1") == made
    assert made.cache != trees.ours().cache
    with pytest.raises(SystemExit, match="git rev-parse --verify v2"):
        trees.base("v2")
