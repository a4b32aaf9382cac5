"""What a terminal and a notebook show of matches, queries and recognisers."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import ceql
from ceql.cli.demo import show
from ceql.results import views
from ceql.results.timeline import COLOURS

SVG = "{http://www.w3.org/2000/svg}"
START = datetime(2024, 5, 17, 23, 59, 30)
EVENTS = [
    {"type": "Fail", "user": "ann", "time": START, "ip": "10.0.0.7", "why": "password"},
    {"type": "Fail", "user": "bob", "time": START + timedelta(seconds=5), "ip": "10.0.0.9", "why": "expired"},
    {"type": "Fail", "user": "ann", "time": START + timedelta(seconds=20), "ip": "10.0.0.8", "why": None},
    {"type": "Login", "user": "ann", "time": START + timedelta(seconds=50), "ip": "10.0.0.8", "why": None},
]
QUERY = "SELECT MAX fails[ip], login[ip, why] WHERE Fail+ AS fails ; Login AS login PARTITION BY user"


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_terminal_shows_what_select_says():
    head, _, row, note = repr(ceql.match(QUERY, EVENTS)).splitlines()
    assert head.split() == ["match", "end", "user", "fails.ip", "login.ip", "login.why"]
    assert row == "0..3   2024-05-18 00:00:20  ann   10.0.0.7, 10.0.0.8  10.0.0.8"
    assert note == "1 match"


def test_without_projection_events_show_all_but_type_time_and_keys():
    text = repr(ceql.match("SELECT x WHERE Fail AS x PARTITION BY user", pa.Table.from_pylist(EVENTS)))
    assert "ip=10.0.0.7 why=password" in text
    assert "type=" not in text
    assert "user=" not in text
    bare = ceql.match("SELECT * WHERE A ; B+", [{"type": "A"}, {"type": "B"}, {"type": "B"}])
    assert [line[1:] for line in lines(repr(bare))[2:5]] == [["#0", "#1"], ["#0", "#1;", "#2"], ["#0", "#2"]]


def test_distinct_matches_show_their_events():
    text = repr(ceql.match("SELECT DISTINCT * WHERE Fail ; Login PARTITION BY user", EVENTS))
    assert lines(text)[0] == ["match", "end", "user", "events"]
    assert "ip=10.0.0.8; ip=10.0" in text


def test_the_views_of_what_is_fed():
    query = ceql.compile(QUERY)
    found = query.recognizer().feed(EVENTS)
    assert "10.0.0.7" in repr(found)
    assert "10.0.0.7" in found._repr_html_()
    assert found.to_arrow().num_rows == 1
    positions = query.recognizer(keep_rows=False).feed(EVENTS)
    assert "0, 2" in repr(positions)
    assert "0, 2" in positions._repr_html_()
    kept = query.run(iter(EVENTS))
    kept.to_arrow()
    assert "0, 2" in repr(kept)


def test_the_notebook_shows_a_table_and_a_timeline():
    page = ceql.match(QUERY, EVENTS)._repr_html_()
    assert page.count("<tr>") == 2
    assert "<td>10.0.0.7, 10.0.0.8</td>" in page
    assert page.count("<circle") == 3  # one in the legend
    assert "<p>1 match</p>" in page
    assert "<svg" not in ceql.match("SELECT * WHERE Gone", EVENTS)._repr_html_()


def test_text_from_the_data_is_harmless():
    bad = "<script>alert(1)</script>\x1b[31m\n&"
    found = ceql.match(
        'SELECT * WHERE A PARTITION BY "<i>"' if False else "SELECT x WHERE A AS x PARTITION BY k",
        [
            {"type": "A", "k": bad, "<b>": bad, "time": 1},
        ],
    )
    assert "\x1b" not in repr(found)
    assert len(repr(found).splitlines()) == 4
    page = found._repr_html_()
    assert page.count("<script>") == 1  # ceql's own
    assert "alert(1)</script>" not in page
    assert "<b>" not in page
    assert "\x1b" not in page
    picture = found.timeline().to_svg()
    assert "<script>" not in picture
    ET.fromstring(picture)


def test_a_narrow_terminal_makes_columns_narrower_then_leaves_them_out():
    events = [{"type": "A", "long": "y" * 60, "list": list(range(20))}, {"type": "B", "v": 1}]
    first = ceql.match("SELECT x[long], y[v], z[list] WHERE (A AS x) AS z ; B AS y", events)._first(10)
    wide = views.text(first, width=200)
    assert "y" * 39 + "…" in wide
    assert "7, …]" in wide
    assert "yyyyy…" in views.text(first, width=40)
    assert max(map(len, views.text(first, width=40).splitlines())) <= 40
    assert "… and the columns y.v, z.list" in views.text(first, width=20)


def test_queries_recognisers_and_diagnoses_show_themselves():
    query = ceql.compile("""
        SELECT *
        WHERE A ; B
        PARTITION BY k
    """)
    assert repr(query) == "SELECT *\nWHERE A ; B\nPARTITION BY k"
    recognizer = query.recognizer(lateness=2, memory=50_000_000)
    assert repr(recognizer) == "<Recognizer: position 0, 0 rows waiting, 0.0 of 50 MB of memory>"
    recognizer.feed([{"type": "A", "k": 1, "time": 1}, {"type": "A", "k": 2, "time": 9}]).to_arrow()
    text = repr(recognizer)
    assert text.startswith("<Recognizer: position 1, 1 row waiting, 1 partition, ")
    assert text.endswith(" of 50 MB of memory>")
    recognizer.finish().to_arrow()
    assert "position 2, 0 rows waiting, 2 partitions" in repr(recognizer)
    assert repr(recognizer).endswith("finished>")
    diagnosis = query.diagnose([{"type": "A", "k": 1}])
    assert repr(diagnosis) == str(diagnosis)
    assert repr(diagnosis).startswith("Diagnosis\n  No match in 1 event.")


def marks(picture: str) -> list[ET.Element]:
    return [mark for mark in ET.fromstring(picture).iter() if mark.find(f"{SVG}title") is not None]


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def test_the_timeline_has_a_lane_for_each_match_and_a_mark_for_each_event():
    timeline = ceql.match(QUERY.replace("MAX ", ""), EVENTS).timeline()
    picture = timeline.to_svg()
    assert repr(timeline) == "<Timeline of 3 matches>"
    found = marks(picture)
    assert len(found) == 2 + 3 + 2
    assert {mark.get("fill") for mark in found} == set(COLOURS[:2])
    assert found[0].find(f"{SVG}title").text.startswith("fails: row 2\ntype=Fail user=ann")
    assert texts(picture)[:2] == ["fails", "login"]
    assert texts(picture).count("ann") == 3
    assert texts(picture)[-1] == "time, 2024-05-17 to 2024-05-18"
    assert "00:00:00" in texts(picture)
    assert "currentColor" in timeline._repr_html_()


def test_matches_that_lie_far_apart_begin_together():
    events = [
        {"type": kind, "time": START + timedelta(days=day, seconds=10 * (kind == "B"))}
        for day in range(5)
        for kind in "AB"
    ]
    picture = ceql.match("SELECT * WHERE A : B", events).timeline().to_svg()
    assert texts(picture)[-1] == "time since the first event of each match"
    assert len({mark.get("cx") for mark in marks(picture)} - {None}) == 1
    assert [text for text in texts(picture) if text.startswith("0, ")] == ["0, 2024-05-17 23:59:30"]


@pytest.mark.parametrize(
    "times",
    [
        [1, 2, 3],
        [0.5, 0.5, 0.5],
        [START.replace(tzinfo=UTC) + timedelta(microseconds=k) for k in range(3)],
        [date(2024, 1, 1), date(2024, 6, 1), date(2030, 1, 1)],
        None,
    ],
    ids=lambda times: type(times[0]).__name__ if times else "none",
)
def test_times_of_every_kind(times):
    columns = {"type": list("ABB")} | ({"time": times} if times else {})
    found = ceql.match("SELECT * WHERE A ; B", pl.DataFrame(columns))
    picture = found.timeline().to_svg()
    assert len(marks(picture)) == 4
    axis = "row" if times is None else "time"
    assert texts(picture)[-1].startswith(axis)
    assert "nan" not in picture


def test_the_picture_of_the_docs_is_what_is_drawn():
    path = Path(__file__).parents[2] / "docs/timeline.svg"
    assert path.read_text() == ceql.match(show.MAXIMAL, show.payments()).timeline().to_svg() + "\n"


def test_a_long_match_is_drawn_in_part():
    events = [{"type": "A"}] * 1000 + [{"type": "B"}]
    picture = ceql.match("SELECT NEXT x WHERE A+ AS x ; B", events).timeline().to_svg()
    assert len(marks(picture)) == 200


def test_marks_stand_out_on_light_and_dark():
    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colour in COLOURS:
        for ground in ("#ffffff", "#111111", "#1e1e1e"):
            darker, lighter = sorted([luminance(colour), luminance(ground)])
            assert (lighter + 0.05) / (darker + 0.05) >= 3
