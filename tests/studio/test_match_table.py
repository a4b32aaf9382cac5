"""The table of matches: the most telling columns first, sorted and filtered by the server; and what can be opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studio.served import Studio, serving

from ceql.studio.examples import EXAMPLES
from ceql.studio.session import Session

MEASURED = EXAMPLES[2].text


@pytest.fixture(scope="module")
def run(served: Studio) -> str:
    return str(served.run(MEASURED, served.load())["id"])


def table(served: Studio, run: str, **asked: Any) -> dict[str, Any]:
    return dict(served.ask(f"/api/run/{run}/matches", **asked))


def test_measures_come_first_and_rows_last(served: Studio, run: str) -> None:
    heads = table(served, run)["heads"]
    names = ["tries", "tried", "drawn", "cash.country", "DURATION", "card", "time", "rows"]
    assert [head["name"] for head in heads] == names
    assert [head["kind"] for head in heads] == ["measure"] * 5 + ["key", "time", "row"]


def test_selected_attributes_come_before_keys_and_events_after_times(served: Studio) -> None:
    query = "SELECT p[amount], w WHERE Payment AS p ; Withdrawal AS w PARTITION BY card WITHIN 2 MINUTES"
    found = served.run(query, served.load())["id"]
    heads = table(served, found)["heads"]
    assert [head["name"] for head in heads] == ["p.amount", "card", "time", "w", "rows"]
    amount = heads[0]["column"]
    cells = [float(row["cells"][0]) for row in table(served, found, sort=amount, count=500)["rows"]]
    assert cells == sorted(cells)
    assert len(cells) > 100


def test_matches_are_sorted_and_the_place_of_one_is_told(served: Studio, run: str) -> None:
    tried = next(head["column"] for head in table(served, run)["heads"] if head["name"] == "tried")
    found = table(served, run, sort=tried, descending=1, match=0)
    shown = [float(row["cells"][1]) for row in found["rows"]]
    assert shown == sorted(shown, reverse=True)
    assert found["rows"][found["place"]]["match"] == 0


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        ("tries > 4", [3, 4, 5]),
        ("tries>=4 and cash.country = 'ES'", [1, 3, 4, 5]),
        ("DURATION > 5 min", [3, 4]),
        ("time >= 2024-05-17 17:00:00", [5, 6]),
        ("us", [0]),
        ("card = 265 AND es", [4]),
        ("nothing has this", []),
    ],
)
def test_matches_are_filtered(served: Studio, run: str, wanted: str, matches: list[int]) -> None:
    found = table(served, run, filter=wanted)
    assert found["problem"] is None
    assert [row["match"] for row in found["rows"]] == matches
    assert (found["total"], found["all"]) == (len(matches), 7)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("tires > 4", "Did you mean 'tries'?"), ("tries > many", "'many' is no int64"), ("DURATION > long", "write 90 s")],
)
def test_a_filter_that_makes_no_sense_is_explained(served: Studio, run: str, wanted: str, said: str) -> None:
    found = table(served, run, filter=wanted)
    assert said in found["problem"]
    assert found["rows"] == []


def test_fields_of_nested_columns_are_told_by_their_paths(studio: Studio) -> None:
    events = b'{"type": "A", "user": {"id": 1, "geo": {"city": "Rome"}}}\n'
    columns = studio.upload("nested.jsonl", events).json()["columns"]
    assert [(c["name"], c["nested"], c["values"]) for c in columns if c["name"].startswith("user")] == [
        ("user", False, []),
        ("user.id", True, []),
        ("user.geo", True, []),
        ("user.geo.city", True, ["Rome"]),
    ]


def test_files_are_listed_below_the_first_folder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, other = tmp_path / "start", tmp_path / "other"
    (start / "sub").mkdir(parents=True)
    other.mkdir()
    for path in (start / "a.csv", start / "sub/b.JSONL.gz", start / "no.txt", start / ".hidden.csv", other / "c.csv"):
        path.write_text("x")
    (start / "out").symlink_to(other)
    monkeypatch.chdir(start)
    with serving(Session()) as studio:
        top = studio.ask("/api/files", folder="")
        assert (top["folders"], [file["name"] for file in top["files"]], top["parent"]) == (["sub"], ["a.csv"], None)
        below = studio.ask("/api/files", folder="sub")
        assert ([file["name"] for file in below["files"]], below["parent"]) == (["b.JSONL.gz"], "")
        for folder in ("..", "out", "../other", str(other), "/", "sub/../..", "a.csv", "\0", "missing"):
            assert "there is no folder" in studio.ask("/api/files", 422, folder=folder)["problem"]
