"""The command `ceql`: what it prints, where it stops, and how it ends."""

from __future__ import annotations

import csv
import json
import os
import platform
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from typer.testing import CliRunner

import ceql
from ceql.cli.app import app
from ceql.cli.demo import payments
from ceql.cli.demo.generate import generate

EVENTS = [
    {"type": "A", "k": 1, "v": 10, "time": "2024-01-01T00:00:00"},
    {"type": "A", "k": 2, "v": 20, "time": "2024-01-01T00:00:01.5"},
    {"type": "B", "k": 1, "v": 30, "time": "2024-01-01T00:00:02"},
    {"type": "B", "k": 2, "v": 40, "time": "2024-01-01T00:01:00"},
]
QUERY = "SELECT x, y WHERE A AS x ; B AS y PARTITION BY k"
FOUND = [
    {"start": 0, "end": 2, "k": 1, "events": [0, 2], "x": 0, "y": 2},
    {"start": 1, "end": 3, "k": 2, "events": [1, 3], "x": 1, "y": 3},
]
LETTERS = "SELECT * WHERE A ; B"


def lines_of(events) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def letters(word: str) -> str:
    return lines_of({"type": letter} for letter in word)


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = tmp_path / "events.jsonl"
    path.write_text(lines_of(EVENTS))
    return str(path)


def call(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def positions(output: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in output.splitlines()]
    return [{k: v for k, v in match.items() if "time" not in k} for match in found]


# --- a process of its own: pipes, signals ---


def start(*arguments: str, **options) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ceql", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # no buffer: a line that is read must not take with it what comes after
    return subprocess.Popen(command, bufsize=0, **{**pipes, **options})


def piped(stdin: str | bytes, *arguments: object) -> tuple[int, str, str]:
    with start(*map(str, arguments)) as process:
        out, err = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, timeout=120)
        return process.returncode, out.decode(), err.decode()


def wait_for_line(process: subprocess.Popen[bytes]) -> bytes:
    """The next line of output; fails when none comes, instead of hanging."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 120)
    assert ready, "nothing came"
    return process.stdout.readline()


# --- ceql run on files ---


def test_json_has_one_match_per_line(events):
    result = call("run", QUERY, events, "--format", "json")
    assert result.exit_code == 0
    assert positions(result.stdout) == FOUND
    assert json.loads(result.stdout.splitlines()[0])["start_time"] == "2024-01-01T00:00:00"
    assert json.loads(result.stdout.splitlines()[1])["start_time"] == "2024-01-01T00:00:01.5"


def test_json_with_events_has_the_rows_under_each_variable(events):
    result = call("run", QUERY, events, "--format", "json", "--events")
    first = json.loads(result.stdout.splitlines()[0])
    assert first["events"] == [0, 2]
    assert first["x"] == {"position": 0, **EVENTS[0]}
    assert first["y"] == {"position": 2, **EVENTS[2]}


def test_json_with_events_shows_the_selected_attributes(events):
    result = call("run", "SELECT x[v], y WHERE A AS x ; B AS y PARTITION BY k", events, "--format", "json", "--events")
    first = json.loads(result.stdout.splitlines()[0])
    assert first["x"] == {"position": 0, "v": 10}
    assert first["y"] == {"position": 2, **EVENTS[2]}


def test_json_of_distinct_matches_has_the_rows_under_events(events):
    result = call("run", "SELECT DISTINCT * WHERE A : B", events, "--format", "json", "--events")
    assert [e["v"] for e in json.loads(result.stdout)["events"]] == [20, 30]


@pytest.mark.parametrize(("select", "column", "shown"), [("DISTINCT ", "events", "kv"), ("", "events_", "v")])
def test_a_variable_called_events_shows_what_select_says(events, select, column, shown):
    query = f"SELECT {select}events[v] WHERE A AS events FILTER events[v = 10]"
    found = json.loads(call("run", query, events, "--format", "json", "--events").stdout)[column]
    row = found[0] if select else found
    assert row.keys() & {"k", "v"} == set(shown)
    assert ("k=1" in call("run", query, events, "--events").stdout) == ("k" in shown)


def test_the_table_is_for_people(events):
    result = call("run", QUERY, events, "--events")
    assert result.exit_code == 0
    head, _, first, second = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert head == ["match", "time", "k", "x", "y"]
    assert first == ["0..2", "2024-01-01", "00:00:00", "..", "00:00:02", "1", "v=10", "v=30"]
    assert second[0] == "1..3"


def test_the_table_obeys_no_escape_codes(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(lines_of([{"type": "A", "note": "\x1b[31m[bold]red"}]))
    result = call("run", "SELECT * WHERE A", path, "--events")
    assert "\x1b" not in result.stdout
    assert "\\x1b[31m[bold]red" in result.stdout


def test_a_table_on_standard_output_stops_at_a_hundred(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(letters("A" * 150))
    result = call("run", "SELECT * WHERE A", path)
    assert "99..99" in result.stdout
    assert "100..100" not in result.stdout
    assert "the first 100 matches" in result.stderr
    more = call("run", "SELECT * WHERE A", path, "--limit-output", 120)
    assert "119..119" in more.stdout
    assert "120..120" not in more.stdout
    assert more.stderr == ""


def test_the_limit_cuts_a_batch_with_its_events(events):
    result = call("run", QUERY, events, "--format", "json", "--events", "--limit-output", 1)
    assert [json.loads(line)["y"]["v"] for line in result.stdout.splitlines()] == [30]


def test_a_limit_ends_a_query_with_endless_matches(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(letters("A" * 200))
    result = call("run", "SELECT * WHERE A+", path, "--format", "json", "--limit-output", 1000)
    assert len(result.stdout.splitlines()) == 1000


@pytest.mark.parametrize(
    ("suffix", "read"),
    [("parquet", parquet.read_table), ("arrow", feather.read_table), ("feather", feather.read_table)],
)
def test_tables_go_to_files(events, tmp_path, suffix, read):
    out = tmp_path / f"out.{suffix}"
    assert call("run", QUERY, events, "-o", out).exit_code == 0
    table = read(out)
    assert table.drop_columns(["start_time", "end_time"]).to_pylist() == FOUND


def test_events_go_to_files_as_rows(events, tmp_path):
    out = tmp_path / "out.parquet"
    assert call("run", QUERY, events, "-o", out, "--events").exit_code == 0
    table = parquet.read_table(out)
    assert table["match"].to_pylist() == [0, 0, 1, 1]
    assert table["variables"].to_pylist() == [["x"], ["y"], ["x"], ["y"]]
    assert table["v"].to_pylist() == [10, 30, 20, 40]


def test_csv_has_lists_as_json(events):
    result = call("run", QUERY, events, "--format", "csv")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [json.loads(row["events"]) for row in rows] == [[0, 2], [1, 3]]
    assert [row["k"] for row in rows] == ["1", "2"]


def test_a_file_without_matches_has_its_columns(events, tmp_path):
    out = tmp_path / "out.parquet"
    assert call("run", "SELECT x WHERE C AS x", events, "-o", out).exit_code == 1
    assert parquet.read_table(out).column_names == ["start", "end", "start_time", "end_time", "events", "x"]


def test_arrow_can_be_piped_on(events):
    code, out, _ = subprocess_bytes(["run", QUERY, events, "--format", "arrow"])
    assert code == 0
    assert pa.ipc.open_stream(out).read_all()["events"].to_pylist() == [[0, 2], [1, 3]]


def subprocess_bytes(arguments: list[str]) -> tuple[int, bytes, bytes]:
    with start(*arguments) as process:
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


def test_bench_times_a_query(events):
    done = call("bench", QUERY, events, "--runs", 3)
    assert done.exit_code == 0
    assert done.output.startswith("4 events")
    assert "2 matches, medians of 3 runs" in done.output
    rows = [line.split() for line in done.output.splitlines() if line.startswith(("  counted", "  all written"))]
    assert len(rows) == 2
    assert all(float(row[-4].replace(",", "")) > 0 for row in rows)


def test_bench_says_what_it_cannot_do(events):
    assert call("bench", "SELECT * WHERE NEVER", events).exit_code == 1
    assert call("bench", QUERY, events, "--runs", 1).exit_code == 2


def test_a_query_in_a_file(events, tmp_path):
    query = tmp_path / "q.ceql"
    query.write_text(f"-- pairs\n{QUERY}\n")
    assert positions(call("run", query, events, "--format", "json").stdout) == FOUND


def test_files_of_one_stream_are_read_in_a_row(tmp_path):
    first, second = tmp_path / "1.parquet", tmp_path / "2.jsonl"
    parquet.write_table(pa.table({"type": ["A", "X"], "v": [1, 2]}), first)
    second.write_text(lines_of([{"type": "B", "w": 3}]))
    result = call("run", LETTERS, first, second, "--format", "json", "--events")
    assert json.loads(result.stdout) == {
        "start": 0,
        "end": 2,
        "events": [0, 2],
        "A": {"position": 0, "type": "A", "v": 1, "w": None},
        "B": {"position": 2, "type": "B", "v": None, "w": 3},
    }


@pytest.mark.parametrize("as_option", [True, False])
def test_several_streams(tmp_path, as_option):
    for name, times in (("Up", [1, 4]), ("Down", [2, 3])):
        (tmp_path / f"{name}.jsonl").write_text(lines_of({"time": t} for t in times))
    arguments = [f"{name}={tmp_path}/{name}.jsonl" for name in ("Down", "Up")]
    if as_option:
        arguments = [a for argument in arguments for a in ("--stream", argument)]
    result = call("run", "SELECT * FROM Up, Down WHERE Up : Down", *arguments, "--format", "json")
    assert positions(result.stdout) == [{"start": 0, "end": 1, "events": [0, 1], "Up": 0, "Down": 1}]


ZONED = ["10:00:00Z", "10:00:09.25Z", "12:00:05+02:00", "10:00:01Z"]
ZONED_EVENTS = [{"type": t, "at": f"2024-01-01T{at}"} for t, at in zip("AXBB", ZONED, strict=True)]
ZONED_OPTIONS = ["--time", "at", "--lateness", "5 seconds", "--format", "json"]


def test_times_with_a_zone_in_a_file_that_is_not_in_order(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(lines_of(ZONED_EVENTS))
    found = [json.loads(line) for line in call("run", LETTERS, path, *ZONED_OPTIONS).stdout.splitlines()]
    assert [(m["events"], m["end_time"]) for m in found] == [
        ([0, 3], "2024-01-01T10:00:01Z"),
        ([0, 2], "2024-01-01T10:00:05Z"),
    ]


def test_times_with_a_zone_on_a_pipe_whatever_the_first_one_looks_like():
    with start("run", LETTERS, *ZONED_OPTIONS) as process:
        for event in ZONED_EVENTS:
            process.stdin.write(lines_of([event]).encode())
            process.stdin.flush()
            time.sleep(0.05)
        out, err = process.communicate(timeout=120)
    assert [m["end_time"] for m in map(json.loads, out.splitlines())] == ["2024-01-01T10:00:05Z"], err
    assert b"1 event came later than --lateness allows" in err


def test_plain_numbers_as_times(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("kind,t\nA,0\nB,1500\n")
    options = ["--type", "kind", "--time", "t", "--time-unit", "ms", "--count"]
    assert call("run", LETTERS + " WITHIN 2 SECONDS", path, *options).stdout == "1\n"
    assert call("run", LETTERS + " WITHIN 1 SECOND", path, *options).stdout == "0\n"


def test_the_count_is_exact(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(letters("A" * 100))
    result = call("run", "SELECT * WHERE A+", path, "--count")
    assert (result.exit_code, result.stdout) == (0, f"{2**100 - 1}\n")


# --- ceql run on a pipe ---


def test_standard_input_is_read_as_json_lines():
    code, out, _ = piped(lines_of(EVENTS), "run", QUERY, "--format", "json")
    assert code == 0
    assert positions(out) == FOUND


def test_the_last_line_needs_no_end_and_blank_lines_are_no_events():
    code, out, _ = piped('{"type": "A"}\n\n  \r\n{"type": "B"}', "run", LETTERS, "-", "--format", "json")
    assert (code, positions(out)) == (0, [{"start": 0, "end": 1, "events": [0, 1], "A": 0, "B": 1}])


def test_a_match_is_seen_when_it_happens():
    with start("run", LETTERS) as process:
        process.stdin.write(letters("AB").encode())
        process.stdin.flush()
        assert wait_for_line(process).startswith(b"0..1")
        process.stdin.write(letters("B").encode())
        process.stdin.flush()
        assert wait_for_line(process).startswith(b"0..2")
        process.stdin.close()
        assert process.wait(120) == 0


def test_columns_may_come_later_and_grow():
    stream = [{"type": "A", "v": 1}, {"type": "B", "v": 2.5, "w": "x"}, {"type": "B"}]
    query = "SELECT * WHERE A ; B FILTER B[v > 2 AND w = 'x']"
    with start("run", query, "--format", "json", "--events") as process:
        for event in stream:
            process.stdin.write(lines_of([event]).encode())
            process.stdin.flush()
            time.sleep(0.05)
        process.stdin.close()
        found = [json.loads(line) for line in process.stdout]
        assert process.wait(120) == 0
    assert [match["events"] for match in found] == [[0, 1]]
    assert found[0]["B"] == {"position": 1, "type": "B", "v": 2.5, "w": "x"}


def test_lateness_holds_back_until_the_end():
    stream = lines_of({"type": t, "time": i} for t, i in (("B", 2), ("A", 1)))
    code, out, err = piped(stream, "run", LETTERS, "--lateness", "5", "--format", "json")
    assert (code, len(out.splitlines()), err) == (0, 1, "")
    code, out, err = piped(stream, "run", LETTERS, "--format", "json")
    assert (code, out) == (1, "")
    assert "1 event came later" in err


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"{oops", "line 3 is no event: Expecting property name"),
        (b"[1, 2]", "line 3 is no event: a JSON object is expected, not a list"),
        (b"7", "line 3 is no event: a JSON object is expected, not a int"),
        (b'{"type": "\xff"}', "line 3 is no event: it is not UTF-8"),
        (b'{"type": "A"}{"type": "B"}', "line 3 is no event: Extra data"),
        (b'{"type": 7}', "line 3: "),
    ],
)
def test_a_bad_line_is_named_after_what_came_before_it(bad, why):
    stream = letters("AB").encode() + bad + b"\n" + letters("B").encode()
    code, out, err = piped(stream, "run", LETTERS, "--format", "json")
    assert code == 3
    assert why in err
    assert "Traceback" not in err
    if b"7}" not in bad:  # that one is seen only when the lines are put together
        assert [match["events"] for match in positions(out)] == [[0, 1]]


def test_bad_lines_can_be_skipped():
    stream = letters("A") + "{oops\n[]\n" + letters("B")
    code, out, err = piped(stream, "run", LETTERS, "--format", "json", "--skip-bad-lines")
    assert (code, [match["events"] for match in positions(out)]) == (0, [[0, 1]])
    assert "2 bad lines were skipped" in err


def test_counting_a_pipe():
    code, out, _ = piped(letters("A" * 70), "run", "SELECT * WHERE A+", "--count")
    assert (code, out) == (0, f"{2**70 - 1}\n")


def test_ctrl_c_leaves_what_was_written(tmp_path):
    out = tmp_path / "out.parquet"
    with start("run", LETTERS, "-o", str(out), "--format", "parquet") as process:
        process.stdin.write(letters("AB").encode())
        process.stdin.flush()
        deadline = time.monotonic() + 120
        while not (out.exists() and out.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.stderr.read() == b""
    assert parquet.read_table(out)["events"].to_pylist() == [[0, 1]]


def test_ctrl_c_while_enumerating(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(letters("A" * 64))
    with start("run", "SELECT * WHERE A+", str(path), "--format", "json") as process:
        json.loads(wait_for_line(process))
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=120)
        assert process.returncode == 130
    assert err == b""
    assert all(json.loads(line) for line in rest.splitlines()[:-1])


def test_a_closed_pipe_ends_quietly(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text(letters("A" * 64))
    with start("run", "SELECT * WHERE A+", str(path), "--format", "json") as process:
        json.loads(wait_for_line(process))
        process.stdout.close()
        assert process.wait(120) == 0
        assert process.stderr.read() == b""


def test_a_query_on_standard_input(events):
    code, out, _ = piped(QUERY, "run", "-", events, "--format", "json")
    assert (code, positions(out)) == (0, FOUND)


# --- how it ends ---


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (1, "", ["SELECT * WHERE C", "EVENTS"]),
        (2, "Did you mean 'WHERE'?", ["SELECT * WERE A", "EVENTS"]),
        (2, "neither a file nor a query", ["missing.ceql", "EVENTS"]),
        (2, "cannot both come from standard input", ["-"]),
        (2, "cannot both come from standard input", ["-", "-"]),
        (2, "the only source", [LETTERS, "-", "EVENTS"]),
        (2, "S=FILE T=FILE", ["SELECT * FROM S, T WHERE A", "EVENTS"]),
        (2, "no stream 'Q'", [LETTERS, "--stream", "Q=EVENTS"]),
        (2, "pass T=FILE", ["SELECT * FROM S, T WHERE A", "S=EVENTS"]),
        (2, "NAME=FILE", [LETTERS, "--stream", "EVENTS"]),
        (2, "not a duration", [LETTERS, "EVENTS", "--lateness", "soon"]),
        (2, "--time-unit", [LETTERS, "EVENTS", "--time-unit", "hours"]),
        (2, "needs a file", [LETTERS, "EVENTS", "--format", "parquet"]),
        (2, "cannot tell the format", [LETTERS, "EVENTS", "-o", "out.xyz"]),
        (2, "cannot write", [LETTERS, "EVENTS", "-o", "/no/such/folder/out.json"]),
        (2, "--count", [LETTERS, "EVENTS", "--count", "--events"]),
        (3, "no such file", [LETTERS, "missing.parquet"]),
        (3, "no column 'w'", ["SELECT * WHERE A FILTER A[w > 1]", "EVENTS"]),
        (3, "no column 'kind'", [LETTERS, "EVENTS", "--type", "kind"]),
        (3, "give it as --lateness '10 seconds'", [LETTERS, "EVENTS", "--lateness", "5"]),
        (3, "ISO 8601", [LETTERS, "EVENTS", "--time", "type"]),
    ],
)
def test_exit_codes(events, code, message, arguments):
    result = call("run", *(a.replace("EVENTS", events) for a in arguments))
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_limit_that_is_reached_has_a_code_of_its_own(tmp_path):
    path = tmp_path / "e.parquet"
    n = 400_000
    parquet.write_table(pa.table({"type": ["A"] * n}), path)
    result = call("run", "SELECT * WHERE A+ ; B", path, "--memory", 1)
    assert result.exit_code == 4
    assert "memory" in result.stderr


def test_without_its_extra_the_command_says_what_to_install(tmp_path):
    hide = "import sys; sys.modules['typer'] = None; import importlib.util as u; f = u.find_spec\n"
    hide += "u.find_spec = lambda n, *a: None if n == 'typer' else f(n, *a)\nimport ceql.cli; ceql.cli.main()"
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 3
    assert "pip install 'ceql[cli]'" in done.stderr


# --- the other commands ---


def test_version():
    first, *others = call("--version").stdout.splitlines()
    assert first == f"ceql {ceql.__version__}"
    known = dict(line.split(maxsplit=1) for line in others)
    assert known["pyarrow"] == pa.__version__
    assert known["Python"].startswith(platform.python_version())
    assert "Java" in known


def test_translate(tmp_path):
    sql = "SELECT * FROM T MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) DEFINE B AS x > A.x)"
    (tmp_path / "rising.sql").write_text(sql)
    told = call("translate", str(tmp_path / "rising.sql"))
    assert (told.exit_code, told.stdout) == (0, call("translate", sql).stdout)
    assert told.stdout.strip() == ceql.from_match_recognize(sql).text
    (tmp_path / "rows.csv").write_text("ts,x\n1,5\n2,7\n")
    ran = call("run", told.stdout, str(tmp_path / "rows.csv"), "--type", "", "--time", "ts", "--count")
    assert ran.stdout.strip() == "1"
    refused = call("translate", sql.replace("(A B)", "(A B $)"))
    assert refused.exit_code == 2
    assert "the anchor $ has no plain form" in refused.stderr
    flink = ceql.from_match_recognize(sql, dialect="flink").text
    assert call("translate", sql, "--dialect", "flink").stdout.strip() == flink != told.stdout.strip()
    assert "dialect= is one of" in call("translate", sql, "--dialect", "mysql").stderr


def test_sql(tmp_path):
    clause = "ORDER BY ts MEASURES A.x AS low, B.x AS high PATTERN (A B) DEFINE B AS x > A.x"
    sql = f"SELECT * FROM T MATCH_RECOGNIZE ({clause})"
    rows = tmp_path / "rows.csv"
    rows.write_text("ts,x\n1,5\n2,7\n3,1\n")
    told = call("sql", sql, str(rows), "--format", "json")
    assert (told.exit_code, told.stdout) == (0, '{"low": 5, "high": 7}\n')
    (tmp_path / "rising.sql").write_text(sql)
    written = call("sql", str(tmp_path / "rising.sql"), f"t={rows}", "-o", str(tmp_path / "found.csv"))
    assert written.exit_code == 0
    assert (tmp_path / "found.csv").read_text().split() == ['"low","high"', "5,7"]
    assert call("sql", sql.replace("x > A.x", "x > 9"), str(rows)).exit_code == 1
    assert "no table 'T'" in call("sql", sql, f"u={rows}").stderr
    assert "linear times carried values" in call("sql", sql, str(rows), "--explain").stdout


def test_explain(events):
    text = call("explain", QUERY)
    assert text.exit_code == 0
    assert text.stdout.strip() == str(ceql.compile(QUERY).explain()).strip()
    assert call("explain", QUERY, "--mermaid").stdout.strip() == ceql.compile(QUERY).automaton().to_mermaid().strip()
    assert call("explain", QUERY, "--dot").stdout.strip() == ceql.compile(QUERY).automaton().to_dot().strip()
    assert call("explain", QUERY, "--dot", "--mermaid").exit_code == 2
    assert call("explain", QUERY, "--schema", events).exit_code == 0
    assert call("explain", "SELECT").exit_code == 2
    across = "SELECT * WHERE A AS x ; B AS y FILTER x.v < y.v"
    assert "x.v: carried until y; found in order at y" in call("explain", across).stdout
    assert call("explain", across, "--dot").stdout.strip() == ceql.compile(across).automaton().to_dot().strip()


def test_diagnose(events):
    result = call("diagnose", "SELECT * WHERE A ; C", events)
    assert result.exit_code == 0
    assert "No event has the type 'C'" in result.stdout
    result = call("diagnose", "SELECT * WHERE A AS x ; B AS y FILTER x.v > y.v", events)
    assert result.exit_code == 0
    assert "What each condition across events leaves" in result.stdout


def test_the_sample_is_what_its_script_makes():
    assert payments().equals(generate())


def test_the_demo_finds_the_frauds():
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "ceql", "demo"], capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    assert done.stdout.count("7 matches in 20,000 events") == 2
    assert "amount=1450.0 country=US" in done.stdout
    assert "95,313,873,221,258,632,547 matches" in done.stdout


def test_a_query_that_can_find_nothing_is_told_in_the_words_of_the_command() -> None:
    code, out, err = piped(letters("ab"), "run", "SELECT * FROM E WHERE E")
    assert (code, out) == (1, "")
    assert err.startswith("ceql: no event has the type that the query names ('E'): the column 'type' has 'a', 'b'. ")
    assert "pass --type ''\n" in err
    code, out, err = piped(letters("ab"), "run", "SELECT * WHERE a ; b ; c")
    assert (code, out) == (1, "")
    assert "no event has the type 'c', without which the query cannot match: the column 'type' has 'a', 'b'" in err
    code, out, err = piped(letters("ab"), "explain", "SELECT * WHERE a+ AS x FILTER x[v > PREV.v]")
    assert code == 0
    assert err.startswith("ceql: the query can never match: PREV is NULL on the first event of a match")


def test_diagnose_reads_standard_input() -> None:
    times = lines_of({"type": kind, "time": 1_700_000_000_000 + ms} for kind, ms in [("A", 0), ("B", 90_000)])
    code, out, _ = piped(times, "diagnose", "SELECT * WHERE A ; B WITHIN 2 MINUTES", "--time-unit", "s")
    assert code == 0
    assert "the shortest needs WITHIN 25 HOURS" in out
    assert "the times begin at 2023-11-14 22:13:20: pass --time-unit 'ms'" in " ".join(out.split())


def test_threads(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"type": "A", "k": 1}\n{"type": "B", "k": 1}\n')
    for threads in ("2", "all"):
        assert call("run", "SELECT * WHERE A ; B PARTITION BY k", path, "--count", "--threads", threads).stdout == "1\n"
    result = call("run", "SELECT * WHERE A ; B PARTITION BY k", path, "--threads", "few")
    assert result.exit_code != 0
    assert "--threads" in result.stderr
