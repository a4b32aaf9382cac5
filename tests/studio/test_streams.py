"""Several streams in the studio: they are loaded one by one and merged as a query's FROM says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.studio.served import Studio

import ceql
from ceql.studio.data import Columns
from ceql.studio.opening import _streams

QUERY = "SELECT * FROM {streams} WHERE Door AS d ; Load AS l FILTER l[watts > 100]"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    door = pa.table({"time": [10, 20, 30], "who": ["ann", "bob", "ann"]})
    load = pa.table({"time": [10, 15, 20, 31], "watts": [150, 20, 300, 900]})
    csv.write_csv(door, tmp_path / "Door.csv")
    parquet.write_table(load, tmp_path / "Load.parquet")
    return {"Door": str(tmp_path / "Door.csv"), "Load": str(tmp_path / "Load.parquet")}


@pytest.fixture
def both(studio: Studio, files: dict[str, str]) -> str:
    first = studio.tell("/api/data", path=files["Door"])["id"]
    joined = studio.tell("/api/data", path=files["Load"], add=first)
    assert (joined["rows"], joined["streams"], joined["name"]) == (7, ["Door", "Load"], "Door, Load")
    assert joined["origin"] == {"streams": files}
    return str(joined["id"])


@pytest.mark.parametrize("streams", [("Door", "Load"), ("Load", "Door")])
def test_matches_are_those_of_python(
    studio: Studio, both: str, files: dict[str, str], streams: tuple[str, str]
) -> None:
    query = QUERY.format(streams=", ".join(streams))
    run = studio.run(query, both)
    found = [studio.ask(f"/api/run/{run['id']}/match/{k}") for k in range(run["matches"])]
    rows = [tuple(event["row"] for event in match["events"]) for match in found]
    assert rows == [match.events for match in ceql.match(query, files)]  # at equal times, the order of FROM decides
    assert run["state"] == "done"
    assert run["events"] == 7
    watts = found[0]["columns"].index("watts")
    assert all(match["events"][1]["cells"][watts] in ("150", "300", "900") for match in found)
    assert len(studio.ask(f"/api/run/{run['id']}/steps/0")["events"]) >= 2
    assert studio.ask(f"/api/run/{run['id']}/lanes", by="match")["total"] == len(rows)
    assert studio.tell("/api/diagnose", query=query, data=both)["events"] == 7


def test_a_part_of_the_streams_is_enough(studio: Studio, both: str) -> None:
    run = studio.run("SELECT * FROM Load WHERE Load AS l FILTER l[watts > 100]", both)
    assert (run["matches"], run["events"]) == (3, 4)


def test_what_is_missing_is_said(studio: Studio, both: str, files: dict[str, str], tmp_path: Path) -> None:
    def problem(query: str, data: str) -> str:
        (found,) = studio.tell("/api/check", query=query, data=data)["problems"]
        return f"{found['message']}. {found['suggestion']}"

    assert (
        problem("SELECT * WHERE Door", both)
        == "several streams are loaded: Door, Load. Write FROM Door, Load before WHERE."
    )
    assert problem("SELECT * FROM Dor, Load WHERE Load", both) == "no stream 'Dor' is loaded. Did you mean 'Door'?"
    alone = studio.tell("/api/data", path=files["Door"])["id"]
    assert "one stream is loaded" in problem("SELECT * FROM Door, Load WHERE Load", alone)
    again = studio.tell("/api/data", 422, path=files["Door"], add=both)
    assert again["problem"] == "there is a stream 'Door' already; give this one another name"
    csv.write_csv(pa.table({"watts": [1]}), tmp_path / "untimed.csv")
    untimed = studio.tell("/api/data", 422, path=str(tmp_path / "untimed.csv"), add=both)
    assert "'untimed' has no column 'time'" in untimed["problem"]


def test_a_link_and_the_exported_code_name_all_files(studio: Studio, both: str, files: dict[str, str]) -> None:
    assert studio.tell("/api/data", streams=files)["streams"] == ["Door", "Load"]
    query = QUERY.format(streams="Door, Load")
    code = studio.tell("/api/code", query=query, data=both)
    assert repr(files) in code["python"]
    assert f"Door={files['Door']} Load={files['Load']}" in code["cli"]
    names: dict[str, object] = {}
    exec(code["python"], names)
    assert names["matches"].count() == 6  # type: ignore[attr-defined]


def test_the_command_line_names_streams(files: dict[str, str]) -> None:
    data = _streams([f"{name}={path}" for name, path in files.items()], False, Columns())
    assert (list(data.parts), data.rows) == (["Door", "Load"], 7)
