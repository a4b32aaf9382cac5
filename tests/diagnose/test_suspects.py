"""What `diagnose` says of times, lengths and the usual mistakes with events, on data as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ceql
from ceql.diagnose.findings import Length

MINUTES = 2000  # events, one each minute from 2013-01-01 06:00 on
START = 1_357_020_000


def minutes(unit: int = 1, **columns: Any) -> dict[str, Any]:
    row = np.arange(MINUTES)
    kinds = np.where(row % 2 == 0, "A", "B")
    return {"type": kinds, "id": row, "k": row // 20, "time": (START + row * 60) * unit, **columns}


def test_the_span_of_the_events_is_shown_as_dates_with_their_rate() -> None:
    times = pd.to_datetime(minutes()["time"], unit="s")
    found = ceql.compile("SELECT * WHERE A ; B").diagnose(pd.DataFrame(minutes(time=times)))
    assert found.times is not None
    assert (found.times.first, found.times.last) == ("2013-01-01 06:00:00", "2013-01-02 15:19:00")
    assert "from 2013-01-01 06:00:00 to 2013-01-02 15:19:00: 1.388 days, 1 per minute" in str(found)


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_plain_numbers_are_shown_as_dates_too(unit: str, factor: int) -> None:
    found = ceql.compile("SELECT * WHERE A ; B").diagnose(pl.DataFrame(minutes(factor)), time_unit=unit)
    assert found.times is not None
    assert found.times.first == f"{START * factor} {unit} (2013-01-01 06:00:00)"
    assert found.times.suspect is None


@pytest.mark.parametrize(("said", "meant", "factor"), [("s", "ms", 10**3), ("ms", "s", 1), ("s", "us", 10**6)])
def test_a_unit_of_time_that_is_off_by_a_thousand(said: str, meant: str, factor: int) -> None:
    query = ceql.compile("SELECT * WHERE A ; B ; C WITHIN 10 MINUTES")
    found = query.diagnose(pa.table(minutes(factor)), time_unit=said)
    power = {("s", "ms"): 3, ("ms", "s"): 3, ("s", "us"): 6}[said, meant]
    assert found.reasons[-1] == (
        f"By another unit (off by 10^{power}) the times begin at 2013-01-01 06:00:00: pass time_unit='{meant}'."
    )
    assert query.diagnose(pa.table(minutes(factor)), time_unit=meant).reasons == ("No event has the type 'C'.",)


def test_times_in_1970_were_made_with_the_wrong_unit() -> None:
    table = pa.table(minutes(time=pa.array(minutes()["time"] * 1000, pa.timestamp("ns"))))
    found = ceql.compile("SELECT * WHERE B ; A : A").diagnose(table)
    assert found.reasons[-1] == (
        "By another unit (off by 10^6) the times begin at 2013-01-01 06:00:00: the column was made with the wrong unit."
    )


def test_times_that_count_from_zero_may_be_in_a_finer_unit() -> None:
    events = [{"type": "A", "time": 0}, {"type": "B", "time": 5000}]
    query = ceql.compile("SELECT * WHERE A ; B WITHIN 10 SECONDS")
    found = query.diagnose(events, time_unit="s")
    assert found.length == Length("5000 SECONDS", "10 SECONDS", complete=True, fits=False, unit="ms")
    assert found.reasons == (
        "Without WITHIN 10 SECONDS, matches would end at 1 position: the shortest needs WITHIN 5000 SECONDS.",
        "If the times are in 'ms', the shortest match is within the window: pass time_unit='ms'.",
    )
    assert query.diagnose(events, time_unit="ms").matches == 1


@pytest.mark.parametrize(
    ("formula", "window", "shortest"),
    [
        ("A ; B", "30 SECONDS", "1 MINUTE"),
        ("A ; B", "0 EVENTS", "1 EVENT"),
        ("A ; B", "0 [k]", "0 [k]"),
        ("A AS a ; B AS b FILTER a.k < b.k", "2 MINUTES", "3 MINUTES"),
        ("A AS a ; B AS b FILTER a.k < b.k", "2 EVENTS", "3 EVENTS"),
        ("A AS a ; A AS b FILTER a.k = b.k", "1 MINUTE", "2 MINUTES"),
        ("A AS a ; A AS b FILTER a.k = b.k", "1 EVENT", "2 EVENTS"),
        ("A ; B PARTITION BY k", "10 SECONDS", "1 MINUTE"),
        ("A ; A PARTITION BY type", "0 EVENTS", "1 EVENT"),
    ],
)
def test_the_window_that_it_reports_finds_the_shortest_match(formula: str, window: str, shortest: str) -> None:
    table = pa.table(minutes())
    found = ceql.compile(f"SELECT * WHERE {formula} WITHIN {window}").diagnose(table, time_unit="s")
    assert found.length is not None
    assert (found.length.shortest, found.length.complete) == (shortest, True)
    assert ceql.compile(f"SELECT * WHERE {formula} WITHIN {shortest}").run(table, time_unit="s").count() > 0
    if not found.length.fits:
        assert found.matches == 0
        assert found.reasons[0].endswith(f": the shortest needs WITHIN {shortest}.")


def test_the_length_of_what_was_nearly_a_match() -> None:
    found = ceql.compile("SELECT * WHERE A ; A ; B ; C WITHIN 1 MINUTE").diagnose(pa.table(minutes()), time_unit="s")
    assert found.length == Length("3 MINUTES", "1 MINUTE", complete=False, fits=False)
    assert "the shortest run that got so far takes 3 MINUTES; the window is 1 MINUTE" in str(found)


def test_a_key_that_is_nearly_unique(tmp_path: Path) -> None:
    path = tmp_path / "minutes.csv"
    pd.DataFrame(minutes()).to_csv(path, index=False)
    found = ceql.compile("SELECT * WHERE A ; B PARTITION BY id WITHIN 1 HOUR").diagnose(path, time_unit="s")
    assert found.reasons == (
        "Without PARTITION BY [id], matches would end at 1,000 positions: no substream has a whole match of its own.",
        "The key is nearly unique: PARTITION BY makes 2,000 substreams of 2,000 events. "
        "Use one that the events of a match share.",
    )


def test_the_clause_that_took_most_away_is_blamed_first() -> None:
    row = np.arange(MINUTES)
    few = np.where(row < 1000, row, 0)  # from 1000 on, all have one key
    table = pa.table(minutes(id=few, type=np.where(row < 999, "A", np.where(row < 1997, "B", "C"))))
    found = ceql.compile("SELECT * WHERE A ; C PARTITION BY id WITHIN 1 MINUTE").diagnose(table, time_unit="s")
    assert [r.positions for r in found.rungs] == [3, 3, 0]
    table = pa.table(minutes(id=np.where(row == 1998, 0, row)))
    found = ceql.compile("SELECT * WHERE A ; A PARTITION BY id WITHIN 1 MINUTE").diagnose(table, time_unit="s")
    assert [r.positions for r in found.rungs] == [999, 1, 0]
    assert found.reasons[:2] == (
        "PARTITION BY [id] leaves 1 of 999 positions at which matches would end.",
        "Without WITHIN 1 MINUTE, matches would end at 1 position: the shortest needs WITHIN 1998 MINUTES.",
    )


def test_an_iterator_out_of_order_is_told_the_lateness_that_it_takes() -> None:
    def events() -> Iterator[dict[str, Any]]:
        for hour, kind in [(5, "B"), (3, "A"), (9, "B"), (1, "A")]:
            yield {"type": kind, "time": datetime(2020, 1, 1) + timedelta(hours=hour)}

    query = ceql.compile("SELECT * WHERE A ; B")
    found = query.diagnose(events())
    assert found.reasons[-1] == (
        "2 events came too late and took no part: lateness='8 hours' takes them in, and so does sorting the events."
    )
    assert query.diagnose(events(), lateness="8 hours").matches == 4


def test_a_column_of_times_that_was_not_named() -> None:
    times = pd.to_datetime(minutes()["time"], unit="s")[::-1]
    frame = pd.DataFrame(minutes(ts=times)).drop(columns="time").assign(type=["B"] * 1000 + ["A"] * 1000)
    found = ceql.compile("SELECT * WHERE A ; B").diagnose(frame)
    assert found.reasons[-1] == (
        "No column of times was named, so events are taken as they come; to put them in order, pass time='ts'."
    )
    assert ceql.compile("SELECT NEXT * WHERE A ; B").diagnose(frame, time="ts").positions == 1000


def test_a_type_in_other_case_on_an_iterator() -> None:
    found = ceql.compile("SELECT * WHERE login").diagnose({"type": kind} for kind in ["Login", "Logout"])
    assert found.reasons == ("No event has the type 'login'. Did you mean 'Login'?",)


def test_a_column_named_type_that_is_something_else() -> None:
    flights = pa.table({"type": ["economy", "business"], "delay": [5, 40]})
    query = ceql.compile("SELECT * FROM Flight WHERE Flight AS f FILTER f[delay > 30]")
    assert query.diagnose(flights).reasons == (
        "No event has the type 'Flight'. If the name of the stream is the type of its events, pass type=None.",
    )
    assert query.diagnose(flights, type=None).matches == 1
