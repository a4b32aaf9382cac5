"""The file of `-o` and standard output: what is there before stays until the result is whole, and failures are told."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from ceql.cli import run as cli_run
from ceql.cli.app import app

QUERY = "SELECT * WHERE A ; B WITHIN 10 EVENTS"
LINES = "".join(json.dumps({"type": letter, "k": 1}) + "\n" for letter in "ABAB" * 500)
OUTPUTS = ["out.jsonl", "out.csv", "out.parquet", "out.arrow", "out.txt"]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text(LINES)
    return path


def call(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def ceql(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ceql", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options)


def test_the_output_may_not_be_an_input(events, tmp_path):
    (tmp_path / "link.jsonl").symlink_to(events)
    for out in (events, tmp_path / "link.jsonl", tmp_path / "." / "in.jsonl"):
        done = call("run", QUERY, events, "-o", out)
        assert done.exit_code == 2
        assert "has the events: -o must be another file" in done.stderr
    with events.open() as stdin:
        assert ceql("run", QUERY, "-o", events, stdin=stdin).returncode == 2
    assert events.read_text() == LINES


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_broken_input_leaves_the_old_output(events, tmp_path, name):
    out = tmp_path / name
    out.write_text("before")
    events.write_text(LINES + "no event\n")
    assert call("run", QUERY, events, "-o", out).exit_code == 3
    assert out.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", name]


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_result_takes_the_place_of_the_old_output(events, tmp_path, name):
    out, link = tmp_path / name, tmp_path / f"link{Path(name).suffix}"
    out.write_text("before")
    out.chmod(0o600)
    link.symlink_to(out)
    assert call("run", QUERY, events, "-o", link).exit_code == 0
    assert link.is_symlink()
    assert out.read_bytes()[:6] != b"before"
    assert out.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == sorted(["in.jsonl", name, link.name])


def test_ctrl_c_keeps_what_was_found(events, tmp_path, monkeypatch):
    def interrupted(matches, writer, *_):
        writer.add(matches, next(matches.to_batches()), None)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_run, "_write", interrupted)
    out = tmp_path / "out.parquet"
    assert call("run", QUERY, events, "-o", out).exit_code == 130
    assert parquet.read_table(out).num_rows > 0


def test_matches_of_a_stream_can_be_watched(tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    command = [sys.executable, "-m", "ceql", "run", QUERY, "-o", str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write('{"type": "A"}\n')
        process.stdin.flush()
        assert out.read_text() == "before"
        process.stdin.write('{"type": "B"}\n')
        process.stdin.flush()
        while out.read_text() == "before":
            assert process.poll() is None
        assert json.loads(out.read_text())["events"] == [0, 1]
        process.stdin.write('{"type": "A"}\n{"type": "B"}\n')
        process.stdin.close()
        assert process.wait() == 0
    assert len(out.read_text().splitlines()) == 3


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_is_told_and_leaves_the_old_output(events, tmp_path, name):
    out = tmp_path / name
    out.write_text("before")
    # a limit on the size of files, in place of a disk that is full
    done = ceql("run", QUERY, events, "-o", out, preexec_fn=no_room)
    assert done.returncode == 5, done.stderr
    assert "cannot write the result" in done.stderr
    assert "Traceback" not in done.stderr
    assert out.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", name]


@pytest.mark.parametrize("format", ["table", "json", "csv", "arrow"])
def test_standard_output_on_a_full_disk_is_told(events, format):
    with open("/dev/full", "w") as full:
        done = ceql("run", QUERY, events, "--format", format, stdout=full)
    assert done.returncode == 5
    assert "cannot write the result" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_device_is_written_in_place(events):
    assert call("run", QUERY, events, "-o", "/dev/null", "--format", "json").exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_a_bug_does_not_look_like_no_match(events, monkeypatch):
    monkeypatch.setattr(cli_run, "_open_files", lambda job, bar: 1 // 0)
    done = call("run", QUERY, events, "--format", "json")
    assert done.exit_code == 70
    assert "ZeroDivisionError" in done.stderr


def test_too_little_memory_is_a_limit(events, monkeypatch):
    def no_memory(job, bar):
        raise pa.ArrowMemoryError("malloc of size 99 failed")

    monkeypatch.setattr(cli_run, "_open_files", no_memory)
    assert call("run", QUERY, events, "--format", "json").exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", QUERY, "x" * 300 + ".csv"], 3),
        (["run", QUERY, "~nobody-of-this-name/x.csv"], 3),
        (["run", QUERY, "in.jsonl", "-o", "x" * 300 + ".csv"], 2),
        (["run", QUERY, "in.jsonl", "--time", "\udcff"], 2),
        (["explain", QUERY, "--schema", "in.jsonl", "--type", "\udcff"], 2),
        (["run", "x" * 300, "in.jsonl"], 2),
    ],
)
def test_names_that_no_file_and_no_column_can_have(events, monkeypatch, arguments, code):
    monkeypatch.chdir(events.parent)
    assert call(*arguments).exit_code == code


def test_a_query_that_is_no_text():
    command = [sys.executable, "-m", "ceql", "run", "-", "in.jsonl"]
    utf8 = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, input=b"SELECT \xff", capture_output=True, check=False, env=utf8)
    assert done.returncode == 2
    assert b"is no text" in done.stderr
