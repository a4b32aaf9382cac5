"""What `ceql` reads, as one types it in a shell: files of any name, pipes, spoilt lines; and what it says of them."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from typer.testing import CliRunner

from ceql.cli.app import app

PAIRS = "SELECT * WHERE A ; B"
TABLE = pa.table({"type": ["A", "X", "B"], "v": [1, 2, 3], "time": [10, 20, 30]})
LINES = "".join(json.dumps(row) + "\n" for row in TABLE.to_pylist())
CEQL = [sys.executable, "-m", "ceql"]


def ceql(*arguments: object, stdin: str | bytes = b"") -> tuple[int, str, str]:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run([*CEQL, *map(str, arguments)], input=data, capture_output=True, timeout=120, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def here(*arguments: object) -> tuple[int, str, str]:
    """The same without a process of its own."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.stdout, done.stderr


def in_terminal(*arguments: object, command: list[str] = CEQL) -> tuple[int, str]:
    """What a terminal shows when the command runs in it."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    command = [*command, *map(str, arguments)]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        try:
            while part := os.read(master, 1 << 16):
                shown += part
        except OSError:  # the other end is closed
            pass
        os.close(master)
        return process.wait(120), re.sub(r"\x1b\[[\d;?]*\w", "", shown.decode())


def write(format: str, path: Path) -> None:
    match format:
        case "parquet":
            parquet.write_table(TABLE, path)
        case "arrow":
            feather.write_feather(TABLE, str(path), compression="uncompressed")
        case "stream":
            with pa.ipc.new_stream(str(path), TABLE.schema) as writer:
                writer.write_table(TABLE)
        case "csv":
            csv.write_csv(TABLE, path, csv.WriteOptions(quoting_style="needed"))
        case "tsv":
            csv.write_csv(TABLE, path, csv.WriteOptions(delimiter="\t", quoting_style="needed"))
        case "json":
            path.write_text(LINES)
        case "gzip":
            path.write_bytes(gzip.compress(LINES.encode()))


CONTENTS = ["parquet", "arrow", "stream", "csv", "tsv", "json", "gzip"]


@pytest.mark.parametrize("format", CONTENTS)
def test_the_content_tells_the_format_where_the_name_does_not(tmp_path, format):
    for name in ("events", "events.log", "events.2024-05-01"):
        write(format, tmp_path / name)
        assert here("run", PAIRS, tmp_path / name, "--count")[:2] == (0, "1\n")


@pytest.mark.parametrize("format", ["parquet", "gzip"])
def test_process_substitution(tmp_path, format):
    write(format, tmp_path / "events")
    command = f"{sys.executable} -m ceql run '{PAIRS}' <(cat {tmp_path}/events) --count"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_text_that_is_no_table_is_refused(tmp_path):
    path = tmp_path / "app.log"
    path.write_text("Starting up, in a moment\nReady\n")
    code, _, err = here("run", PAIRS, path)
    assert (code, "cannot tell the format of app.log" in err) == (3, True)


def test_the_format_that_is_given_counts(tmp_path):
    write("csv", tmp_path / "events.dat.json")
    assert here("run", PAIRS, tmp_path / "events.dat.json", "--count")[0] == 3
    assert here("run", PAIRS, tmp_path / "events.dat.json", "--count", "--input-format", "csv")[:2] == (0, "1\n")


@pytest.mark.parametrize(
    ("command", "format", "shown"),
    [
        ("run --format json", "parquet", '"events": [0, 2]'),
        ("run --format json", "arrow", '"events": [0, 2]'),
        ("run --format json", "stream", '"events": [0, 2]'),
        ("run --format json --input-format json", "json", '"events": [0, 2]'),
        ("run --format json --input-format csv", "csv", '"events": [0, 2]'),
        ("diagnose", "json", "3 events"),
        ("diagnose --input-format tsv", "tsv", "3 events"),
        ("bench --runs 3", "json", "3 events"),
        ("bench --runs 3 -", "stream", "3 events"),
    ],
)
def test_standard_input_in_every_format(tmp_path, command, format, shown):
    write(format, tmp_path / "events")
    name, *options = command.split()
    code, out, err = ceql(name, PAIRS, *options, stdin=(tmp_path / "events").read_bytes())
    assert code == 0, err
    assert shown in out


def test_csv_on_standard_input_is_offered():
    code, _, err = ceql("run", PAIRS, stdin="type,v\nA,1\nB,2\n")
    assert (code, "line 1 is no event" in err, "say --input-format csv" in err) == (3, True, True)


def test_nothing_is_left_of_standard_input(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [*CEQL, "diagnose", PAIRS]
    subprocess.run(command, input=LINES.encode(), env=environment, capture_output=True, timeout=120, check=True)
    assert list(tmp_path.glob("ceql-*")) == []


# --- spoilt lines ---

SPOILT_JSON = """{"type": "A", "time": "2024-01-01T00:00:00"}
{oops
{"type": "B"}
{"type": "B", "time": "yesterday"}
[1, 2]
{"type": "B", "time": null}
{"type": "B", "time": "2024-01-01T00:00:09"}
"""
SPOILT_CSV = "type,time\nA,2024-01-01T00:00:00\nB\nB,\nB,yesterday\nB,1,2,3\nB,2024-01-01T00:00:09\n"
SPOILT_NUMBERS = "type,time\nA,1\nB\nB,\nB,n/a\nB,1,2,3\nB,9\n"


@pytest.mark.parametrize(
    ("name", "text", "skipped"),
    [("e.jsonl", SPOILT_JSON, 5), ("e.csv", SPOILT_CSV, 4), ("e.csv", SPOILT_NUMBERS, 4)],
)
@pytest.mark.parametrize("way", ["file", "pipe"])
def test_spoilt_lines_are_skipped_and_counted(tmp_path, name, text, skipped, way):
    path = tmp_path / name
    path.write_text(text)
    options = ["--skip-bad-lines", "--count"]
    if way == "file":
        assert here("run", PAIRS, path, "--count")[0] == 3
        code, out, err = here("run", PAIRS, path, *options)
    else:
        options += ["--input-format", "json" if name.endswith("jsonl") else "csv"]
        code, out, err = ceql("run", PAIRS, *options, stdin=text)
    assert (code, out, err) == (0, "1\n", f"ceql: {skipped} bad lines were skipped\n")


def test_a_spoilt_line_of_a_file_is_named(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(SPOILT_JSON)
    code, _, err = here("run", PAIRS, path)
    assert (code, "e.jsonl: line 2 is no event: Expecting property name" in err) == (3, True)


def test_diagnose_skips_lines_too(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(SPOILT_JSON)
    code, out, err = here("diagnose", PAIRS, path, "--skip-bad-lines")
    assert (code, "2 events" in out, err) == (0, True, "ceql: 5 bad lines were skipped\n")


# --- what it says ---


def test_an_attribute_that_never_comes_is_named_at_the_end():
    code, _, err = ceql("run", "SELECT * WHERE A FILTER A[vv > 0]", stdin=LINES)
    assert (code, err) == (1, "ceql: none of the events has an attribute 'vv'. Did you mean 'v'?\n")
    code, out, err = ceql("run", "SELECT * WHERE A FILTER A[vv > 0]", "--count", stdin=LINES)
    assert (code, out, "'vv'" in err) == (1, "0\n", True)
    assert ceql("run", "SELECT A[v] WHERE A FILTER A[v > 0]", "--events", stdin=LINES)[2] == ""


def test_fields_of_nested_objects():
    lines = "".join(json.dumps({"type": "A", "ctx": {"path": path}}) + "\n" for path in ("/", "/x"))
    code, out, err = ceql("run", "SELECT * WHERE A FILTER A[ctx.path = '/']", "--format", "json", stdin=lines)
    assert (code, json.loads(out)["events"], err) == (0, [0], "")


def test_an_attribute_that_never_comes_is_named_while_a_stream_goes_on():
    command = [*CEQL, "run", "SELECT * WHERE A FILTER A[vv > 0]"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(LINES.replace('"time"', '"at"').encode() * 400)
        process.stdin.flush()
        assert b"events has an attribute 'vv'. Did you mean 'v'?" in process.stderr.readline()
        process.stdin.close()
        assert process.stderr.read() == b""  # said once


def test_a_terminal_hears_that_nothing_was_found(tmp_path):
    write("json", tmp_path / "e.jsonl")
    code, shown = in_terminal("run", "SELECT * WHERE B ; A", tmp_path / "e.jsonl")
    assert code == 1
    assert "no match was found; --why says why" in shown
    assert "no match" not in in_terminal("run", PAIRS, tmp_path / "e.jsonl")[1]
    assert ceql("run", "SELECT * WHERE B ; A", tmp_path / "e.jsonl") == (1, "", "")


IMPATIENT = "import ceql.cli, ceql.cli.progress as p; p._PATIENCE = 0; ceql.cli.main()"


@pytest.mark.parametrize("format", ["parquet", "stream", "gzip"])
def test_a_terminal_shows_how_far_it_is(tmp_path, format):
    write(format, tmp_path / "events")
    command = [sys.executable, "-c", IMPATIENT, "run", "SELECT * WHERE B ; A", str(tmp_path / "events")]
    assert re.search("(100|99)% 3 events", in_terminal(command=command)[1])


def test_numbers_are_shown_as_times(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("type,time,v\nA,1700000000000,1\nB,1700000001500,2\n")
    code, out, _ = here("run", PAIRS, path, "--time-unit", "ms")
    assert (code, "2023-11-14 22:13:20 .. 22:13:21.5" in out) == (0, True)
    code, out, _ = here("run", "SELECT A[time] WHERE A", path, "--time-unit", "ms", "--events")
    assert (code, out.count("2023-11-14 22:13:20")) == (0, 2)
    assert json.loads(here("run", PAIRS, path, "--time-unit", "ms", "--format", "json")[1])["end_time"] == 1700000001500
    path.write_text("type,time,v\nA,1700000000.25,1\nB,1700000001.5,2\n")
    assert "2023-11-14 22:13:20.25 .. 22:13:21.5" in here("run", PAIRS, path, "--time-unit", "s")[1]


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("--time-unit 's', 'ms', 'us' or 'ns'", [PAIRS + " WITHIN 1 MINUTE"]),
        ("--time-unit 's', 'ms', 'us' or 'ns'", [PAIRS, "--lateness", "1 minute"]),
        ("Pass --time, one of: type, v, time.", [PAIRS + " WITHIN 1 MINUTE", "--time", ""]),
        ("(given as --time)", [PAIRS, "--time", "when"]),
        ("(given as --type)", [PAIRS, "--type", "kind"]),
        ("pass --type (the columns are", [PAIRS, "--type", ""]),
        ("  SELECT * WHERE A FILTER A[type='A' AND w=1]\n", ["SELECT * WHERE A FILTER A[type='A' AND w=1]"]),
    ],
)
def test_messages_name_options(tmp_path, message, arguments):
    path = tmp_path / "e.parquet"
    parquet.write_table(TABLE, path)
    query, *options = arguments
    code, _, err = here("run", query, path, *options)
    assert code in (2, 3)
    assert message in err
    assert not any(python in err for python in ("type=,", "time=,", "time_unit=", "pass type=", "timedelta"))


def test_completion_is_there():
    environment = {**os.environ, "_CEQL_COMPLETE": "complete_bash", "COMP_WORDS": "ceql dia", "COMP_CWORD": "1"}
    done = subprocess.run(CEQL, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.stdout.split() == ["diagnose"]


def test_an_empty_path_is_not_the_folder() -> None:
    code, _, err = here("run", PAIRS, "")
    assert (code, err) == (3, "ceql: the path of the events is empty\n")


def test_a_broken_csv_ends_in_a_message_every_time(tmp_path: Path) -> None:
    lines = ["type,v", *(f"A,{k}" for k in range(300_000))]
    lines[250_000] = 'A,"3'
    (tmp_path / "in.csv").write_text("\n".join(lines))
    # a thread of the parser's that was still at work when the process ended has aborted some of them
    for _ in range(6):
        code, _, err = ceql("run", PAIRS, tmp_path / "in.csv")
        assert (code, "in line 250001 is never closed" in err) == (3, True), err
