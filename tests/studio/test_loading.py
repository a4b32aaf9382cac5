"""The studio loads regular files that fit into memory, and says what is wrong with all other paths."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.studio.served import Studio

EVENTS = '{"type": "A", "time": 1}\n'


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, str]]:
    """Paths that are no files of events, each with a part of what is said of it."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "fifo.jsonl")
    # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as found:
        found.bind("socket.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "huge.jsonl").write_text(EVENTS)
    os.truncate(tmp_path / "huge.jsonl", 1 << 43)
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    return {
        "/dev/zero": ("/dev/zero", "is a device"),
        "a link to it": (str(tmp_path / "zero.jsonl"), "is a device"),
        "a pipe": (str(tmp_path / "fifo.jsonl"), "is a pipe"),
        "a socket": (str(tmp_path / "socket.jsonl"), "is a socket"),
        "a folder": (str(tmp_path / "folder.jsonl"), "is a folder"),
        "this folder": (".", "is a folder"),
        "a file larger than memory": (str(tmp_path / "huge.jsonl"), "8,192 GiB"),
        "a link to itself": (str(tmp_path / "loop.jsonl"), "cannot read"),
        "another user's file": ("~no-such-user/e.csv", "no such file"),
        "a file that is not there": ("/no/such/file.csv", "no such file"),
        "no name of a file": ("a\0b", "no such file"),
        "nothing": ("", "say which file"),
        "blanks": ("  ", "say which file"),
    }


def test_only_files_are_loaded(studio: Studio, odd: dict[str, tuple[str, str]]) -> None:
    for kind, (path, said) in odd.items():
        for body in ({"path": path}, {"path": path, "follow": True}, {"streams": {"Door": path}}):
            answer = studio.tell("/api/data", 422, **body)
            assert said in answer["problem"], (kind, body, answer)


def test_an_empty_file_has_no_events(studio: Studio, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert "is empty" in studio.tell("/api/data", 422, path=str(path))["problem"]
    assert studio.tell("/api/data", path=str(path), follow=True)["live"]  # something may still come


@pytest.mark.parametrize("extra", [[], ["--follow"]])
def test_the_command_line_takes_files_alone(odd: dict[str, tuple[str, str]], extra: list[str]) -> None:
    for kind in ("/dev/zero", "a pipe", "a folder", "nothing"):
        path, said = odd[kind]
        assert said in refused("SELECT * WHERE A", path, *extra), kind
    assert "is a pipe" in refused("SELECT * FROM Door WHERE Door", f"Door={odd['a pipe'][0]}")


def test_a_query_is_no_huge_file(odd: dict[str, tuple[str, str]]) -> None:
    assert "is too long for a query" in refused(odd["a file larger than memory"][0])


def refused(*arguments: str) -> str:
    """What `ceql studio` says when it does not start."""
    command = [sys.executable, "-m", "ceql", "studio", *arguments, "--port", "0", "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (2, 3), done
    return done.stderr
