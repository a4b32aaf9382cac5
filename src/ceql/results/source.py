"""Defines what finds the matches that a result shows."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.analysis.selection import Selection
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.totals_table import Request
from ceql.syntax import tree as t

Positions = npt.NDArray[np.int64]


class RowsKept(Enum):
    """Which batches of matches a source still has the events of."""

    NONE = "none"
    LAST = "the one that came last"
    ALL = "all that came"


class MatchSource(Protocol):
    """A query with its input, which finds the matches."""

    @property
    def query(self) -> t.Query: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def replayable(self) -> bool: ...

    @property
    def restarts(self) -> bool:
        """Whether a pass that did not come to its end can be begun again, though the input is read only once."""

    @property
    def selection(self) -> Selection: ...

    @property
    def type(self) -> str | None:
        """The column of types."""

    @property
    def time(self) -> str | None:
        """The column of times."""

    @property
    def rows_kept(self) -> RowsKept: ...

    def batches(self, rows: bool = False) -> Iterator[pa.RecordBatch]:
        """A pass over the input, in batches of bounded size; with `rows`, one whose events can be asked for."""

    def count(self) -> int:
        """The number of matches, by a pass that does not enumerate them."""

    def foreseen(self) -> int | None:
        """The number of matches, if another pass can count them without enumerating any."""

    def aggregation(self, request: Request) -> Aggregation:
        """What is to be added up, over the columns of the events."""

    def add_up(self, aggregation: Aggregation) -> None:
        """Add up all matches, by a pass that enumerates them only where it must."""

    def late(self) -> pa.Table:
        """The events of the last pass that came too late."""

    def rows(self, positions: Positions) -> pa.Table:
        """The events at these positions, in this order, repeats too: of a batch that `rows_kept` says."""
