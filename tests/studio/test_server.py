"""The studio's server, asked as its page asks it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.studio.served import Studio, serving

import ceql
from ceql.cli.demo import payments
from ceql.jit import told
from ceql.studio.data import Columns
from ceql.studio.examples import EXAMPLES
from ceql.studio.loading import arriving, sample
from ceql.studio.security import HEADER
from ceql.studio.session import Limits, Session


def test_examples_run_and_have_matches(studio: Studio) -> None:
    data = studio.load()
    for example in EXAMPLES:
        status = studio.run(example.text, data)
        assert (status["state"], status["events"]) == ("done", 20_000), status
        assert status["matches"] == ceql.match(example.text, payments()).count() > 0


def test_the_same_message_and_suggestion_as_in_python(studio: Studio) -> None:
    query = "SELECT *\nWHERE Payment AS p FILTER p[amont > 3]"
    with pytest.raises(ceql.SchemaError) as raised:
        ceql.match(query, payments())
    (problem,) = studio.tell("/api/check", query=query, data=studio.load())["problems"]
    assert (problem["message"], problem["suggestion"]) == (raised.value.message, raised.value.suggestion)
    assert query[problem["from"] : problem["to"]] == "amont"
    assert (problem["line"], problem["column"]) == (2, 29)


def test_a_type_that_no_event_has_is_marked(studio: Studio) -> None:
    query = "SELECT * WHERE Paymnt ; Withdrawal"
    (problem,) = studio.tell("/api/check", query=query, data=studio.load())["problems"]
    assert (query[problem["from"] : problem["to"]], problem["severity"]) == ("Paymnt", "warning")
    assert problem["suggestion"] == "Did you mean 'Payment'?"


@pytest.mark.filterwarnings("ignore::ceql.NoMatchWarning")
def test_a_query_that_can_never_match_is_told_so(studio: Studio) -> None:
    query = "SELECT * WHERE Payment+ AS p FILTER p[amount > PREV.amount]"
    (problem,) = studio.tell("/api/check", query=query, data=studio.load())["problems"]
    assert (problem["severity"], "can never match" in problem["message"]) == ("warning", True)
    assert problem["suggestion"].startswith("Begin with an event of its own")


def test_matches_rows_and_exports_are_those_of_python(studio: Studio, fraud: str) -> None:
    run = studio.run(fraud, studio.load())["id"]
    found = ceql.match(fraud, payments()).to_arrow()
    rows = studio.ask(f"/api/run/{run}/matches", first=2, count=3)
    assert (rows["total"], len(rows["rows"])) == (7, 3)
    one = studio.ask(f"/api/run/{run}/match/2")
    assert [event["row"] for event in one["events"]] == found["events"][2].as_py()
    assert one["events"][0]["variables"] == ["try"]
    exported = parquet.read_table(io.BytesIO(studio.get(f"/api/run/{run}/matches.parquet").content))
    assert exported.equals(found)
    text = csv.read_csv(io.BytesIO(studio.get(f"/api/run/{run}/matches.csv").content))
    assert text["start"].to_pylist() == found["start"].to_pylist()


def test_the_timeline_has_all_matches_of_a_range(studio: Studio, fraud: str) -> None:
    run = studio.run(fraud, studio.load())["id"]
    whole = studio.ask("/api/overview", run=run, width=600)
    assert (sum(whole["events"]), sum(whole["matches"])) == (20_000, 7)
    lanes = studio.ask(f"/api/run/{run}/lanes", by="key")
    assert (lanes["total"], lanes["variables"], lanes["window"]) == (7, ["try", "cash"], 600.0)
    (span,) = lanes["lanes"][0]["spans"]
    assert [variable for _, variable, _ in span["marks"]] == [0, 0, 0, 1]
    part = studio.ask(f"/api/run/{run}/lanes", low=span["start"] - 1, high=span["end"] + 1, by="match")
    assert [lane["spans"][0]["match"] for lane in part["lanes"]] == [span["match"]]


def test_many_matches_are_answered_by_a_picture_of_bounded_size(studio: Studio, tmp_path: Path) -> None:
    n = 20_000
    table = pa.table({"type": ["A", "B"] * (n // 2), "time": range(n), "k": [0] * n})
    parquet.write_table(table, tmp_path / "events.parquet")
    data = studio.tell("/api/data", path=str(tmp_path / "events.parquet"))["id"]
    run = studio.run("SELECT * WHERE A ; B PARTITION BY k WITHIN 19 EVENTS", data)
    assert run["matches"] > 90_000
    for by in ("key", "match"):
        answer = studio.get(f"/api/run/{run['id']}/lanes", by=by, count=40, width=900)
        assert len(answer.content) < 40_000
    lane = studio.ask(f"/api/run/{run['id']}/lanes", by="key")["lanes"][0]
    assert sum(lane["bins"]["matches"]) == run["matches"]
    assert len(studio.ask(f"/api/run/{run['id']}/matches", first=50_000, count=100)["rows"]) == 100


def test_states_light_up_as_events_are_read(studio: Studio, fraud: str) -> None:
    run = studio.run(fraud, studio.load())["id"]
    graph = studio.tell("/api/automaton", query=fraud)
    assert [state["id"] for state in graph["states"] if state["final"]] == ["3"]
    events = studio.ask(f"/api/run/{run}/steps/0")["events"]
    assert [event["entered"] for event in events if event["variable"] >= 0] == [[0], [0, 1], [0, 1, 2], [3]]
    assert [event["ends"] for event in events].count(True) == 1


def test_states_of_conditions_between_events_light_up(studio: Studio) -> None:
    abroad = EXAMPLES[3].text
    run = studio.run(abroad, studio.load())["id"]
    own = [event for event in studio.ask(f"/api/run/{run}/steps/0")["events"] if event["variable"] >= 0]
    assert own[0]["entered"]
    assert own[-1]["ends"]
    assert own[-1]["entered"]


def test_events_out_of_order_are_sorted_and_keep_their_rows(studio: Studio, tmp_path: Path) -> None:
    table = pa.table({"type": ["B", "A", "C"], "time": [2, 1, 3]})
    csv.write_csv(table, tmp_path / "e.csv")
    data = studio.tell("/api/data", path=str(tmp_path / "e.csv"))
    assert data["sorted"]
    run = studio.run("SELECT * WHERE A ; B", data["id"])["id"]
    assert [event["row"] for event in studio.ask(f"/api/run/{run}/match/0")["events"]] == [1, 0]
    exported = parquet.read_table(io.BytesIO(studio.get(f"/api/run/{run}/matches.parquet").content))
    assert exported.equals(ceql.match("SELECT * WHERE A ; B", table).to_arrow())


def test_a_bad_file_is_named_in_the_message(studio: Studio) -> None:
    answer = studio.upload("broken.parquet", b"PAR1 no, not really")
    assert answer.status == 422
    assert "broken.parquet" in answer.json()["problem"]
    assert "/tmp" not in answer.json()["problem"]
    assert "no such file" in studio.tell("/api/data", 422, path="/no/such/file.csv")["problem"]


def test_an_upload_is_loaded(studio: Studio) -> None:
    lines = "".join(json.dumps({"type": t, "time": f"2024-01-01T00:00:0{k}Z"}) + "\n" for k, t in enumerate("AB"))
    answer = studio.upload("e.jsonl", lines.encode())
    assert (answer.json()["rows"], answer.json()["time"]) == (2, "time")
    assert studio.run("SELECT * WHERE A ; B WITHIN 5 SECONDS", answer.json()["id"])["matches"] == 1


# every choice of payments: there is no end to them
ENDLESS = "SELECT * WHERE Payment+ ; Withdrawal"


def test_a_run_can_be_cancelled(studio: Studio) -> None:
    status = studio.tell("/api/run", query=ENDLESS, data=studio.load())
    until = time.monotonic() + 60
    while status["state"] == "running" and time.monotonic() < until:
        status = studio.tell(f"/api/run/{status['id']}/cancel")
    assert status["state"] == "cancelled"
    assert status["matches"] < 1_000_000
    assert status["problem"] == f"cancelled after {status['events']:,} events"


def test_a_run_that_waits_for_the_compiler_says_so(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "now", lambda: "Compiling the engine")
    status = studio.tell("/api/run", query=ENDLESS, data=studio.load())
    assert (status["state"], status["compiling"]) == ("running", "Compiling the engine")
    until = time.monotonic() + 60
    while status["state"] == "running" and time.monotonic() < until:
        status = studio.tell(f"/api/run/{status['id']}/cancel")
    assert status["compiling"] == ""


def test_events_whose_matches_are_listed_have_been_read(studio: Studio) -> None:
    status = studio.tell("/api/run", query=ENDLESS, data=studio.load())
    until = time.monotonic() + 120
    while not status["matches"] and time.monotonic() < until:
        time.sleep(0.01)
        status = studio.ask(f"/api/run/{status['id']}")
    assert status["matches"] > 0
    assert status["events"] > 0
    stopped = status
    while stopped["state"] == "running" and time.monotonic() < until:
        stopped = studio.tell(f"/api/run/{status['id']}/cancel")
    assert 0 < stopped["events"] < 20_000
    assert stopped["problem"] == f"cancelled after {stopped['events']:,} events"


def test_a_run_stops_at_its_limit_of_time() -> None:
    with serving(Session(Limits(run_seconds=0.0))) as studio:
        status = studio.run(ENDLESS, studio.load())
    assert status["state"] == "stopped"
    assert "--time-limit" in status["problem"]


def test_a_growing_file_is_followed(studio: Studio, tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    path.write_text('{"type": "A", "time": 1}\n')
    data = studio.tell("/api/data", path=str(path), follow=True)
    assert data["live"]
    run = studio.tell("/api/run", query="SELECT * WHERE A ; B", data=data["id"])["id"]
    with path.open("a") as file:
        file.write('{"type": "B", "time": 2}\n{"type": "B", "time": 1}\n{"type": "B", "time": 3}\n')

    status: dict[str, Any] = {}
    until = time.monotonic() + 60
    while status.get("matches") != 2 and time.monotonic() < until:
        time.sleep(0.05)
        status = studio.ask(f"/api/run/{run}")
    assert (status["state"], status["matches"], status["late"]) == ("running", 2, 1)
    assert studio.ask(f"/api/run/{run}/match/1")["events"][1]["cells"] == ["B", "3"]
    assert studio.tell(f"/api/run/{run}/cancel")["state"] == "cancelled"


def test_explain_and_diagnose(studio: Studio, fraud: str) -> None:
    data = studio.load()
    assert "Automaton" in studio.tell("/api/explain", query=fraud, data=data)["text"]
    found = studio.tell("/api/diagnose", query=fraud.replace("500", "99999"), data=data)
    assert found["clauses"][-1]["matches"] == 0
    assert found["reasons"]


def test_other_columns_of_type_and_time(studio: Studio, tmp_path: Path) -> None:
    csv.write_csv(pa.table({"what": ["A", "B"], "at": [1000, 2000]}), tmp_path / "e.csv")
    asked = {"path": str(tmp_path / "e.csv"), "type": "what", "time": "at", "unit": "ms"}
    data = studio.tell("/api/data", **asked)["id"]
    run = studio.run("SELECT * WHERE A ; B WITHIN 1 SECOND", data)
    assert run["matches"] == 1
    assert studio.ask("/api/overview", run=run["id"])["seconds"]


def test_data_that_are_let_go_are_no_longer_followed(studio: Studio, tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    path.write_text('{"type": "A", "time": 1}\n')
    first = studio.tell("/api/data", path=str(path), follow=True)["id"]
    data = studio.session.data(first)
    for _ in range(4):
        studio.load()
    assert data is not None
    assert not data.live
    assert "no longer loaded" in studio.ask(f"/api/data/{first}", 410)["problem"]


def test_what_the_printed_address_shows_is_never_let_go(fraud: str) -> None:
    with serving(Session(query=fraud, data=sample("first", "fraud", Columns()))) as studio:
        for _ in range(6):
            studio.load()
        shown = studio.ask("/api/start")["data"]
        assert sum(studio.ask("/api/overview", data=shown["id"])["events"]) == 20_000
        assert studio.run(fraud, shown["id"])["matches"] == 7


def test_data_that_are_in_use_are_kept(studio: Studio) -> None:
    used = studio.load()
    for _ in range(6):
        studio.load()
        assert studio.ask(f"/api/data/{used}")["rows"] == 20_000


def test_a_run_may_begin_before_the_first_event_has_come(studio: Studio, tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    path.touch()
    data = studio.tell("/api/data", path=str(path), follow=True)
    run = studio.tell("/api/run", query="SELECT * WHERE A ; B WITHIN 1 HOUR", data=data["id"])["id"]
    assert studio.ask(f"/api/run/{run}")["events"] == 0
    with path.open("a") as file:
        file.write('{"type": "A", "time": "2024-01-01T00:00:00"}\n{"type": "B", "time": "2024-01-01T00:00:01"}\n')
    status: dict[str, Any] = {"state": "running"}
    until = time.monotonic() + 60
    while status["state"] == "running" and not status.get("matches") and time.monotonic() < until:
        time.sleep(0.05)
        status = studio.ask(f"/api/run/{run}")
    assert (status["state"], status["matches"], status["problem"]) == ("running", 1, None)
    known = studio.ask(f"/api/data/{data['id']}")
    assert (known["rows"], known["type"], known["time"]) == (2, "type", "time")


def test_the_command_prints_an_address_that_answers(tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text("type,time\nA,1\nB,2\n")
    command = [
        sys.executable,
        "-m",
        "ceql",
        "studio",
        "SELECT * WHERE A ; B",
        str(events),
        "--port",
        "0",
        "--no-browser",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(line.strip() for line in process.stdout if "http://127.0.0.1:" in line)
            page, token = address.split("#token=")
            with urllib.request.urlopen(page, timeout=60) as answer:
                assert b"ceql" in answer.read()
            asked = urllib.request.Request(f"{page}api/start", headers={HEADER: token})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                begun = json.load(answer)
            assert (begun["query"], begun["data"]["rows"]) == ("SELECT * WHERE A ; B", 2)
        finally:
            process.terminate()


def test_standard_input_is_followed(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"type": "A", "time": 1}\n')
    data = arriving("first", "standard input", {}, reading, Columns())
    assert (data.columns.type, data.columns.time, data.live) == ("type", "time", True)
    os.write(writing, b"no JSON\n")
    os.close(writing)
    until = time.monotonic() + 30
    while data.live and time.monotonic() < until:
        time.sleep(0.02)
    assert data.rows == 1
    assert "line 2" in str(data.problem)
