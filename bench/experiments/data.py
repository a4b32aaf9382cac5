"""The three data sets of core-vldb2022, section 5: their streams, the queries P_n, and the windows T."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from bench.pattern import Pattern
from bench.workloads import homes, stock, taxi


class Data(NamedTuple):
    """A stream by its length, P_n by n (and P'_n), and T in milliseconds."""

    events: Callable[[int], pa.Table]
    pattern: Callable[..., Pattern]
    window: int


DATA = {
    "stock market": Data(stock.market, stock.pattern, 10_000),
    "smart homes": Data(homes.events, homes.pattern, 10_000),
    "taxi trips": Data(taxi.events, taxi.pattern, 9_720_000),
}


def data_for(quick: bool) -> dict[str, Data]:
    """All of them; for a quick run the first."""
    return dict(list(DATA.items())[:1]) if quick else DATA
