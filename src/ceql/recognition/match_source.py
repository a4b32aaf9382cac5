"""Defines what finds the matches that a result shows: a run over an input, a feed, or matches that are kept.

A source has any number of queries, and gives their matches in rounds (`recognition.together`). `results.Matches` shows
those of a source of one query, `results.MatchSet` those of several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.analysis.selection import Selection
from ceql.errors import DataError
from ceql.plans import Plan
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.result_columns import ResultColumns
from ceql.recognition.together import Round
from ceql.recognition.totals_table import Request
from ceql.syntax import tree as t

if TYPE_CHECKING:
    from ceql.recognition.kept_rows import KeptRows

Positions = npt.NDArray[np.int64]


class RowsKept(Enum):
    """Which batches of matches a source still has the events of."""

    NONE = "none"
    LAST = "the one that came last"
    ALL = "all that came"


class MatchSource(ABC):
    """Queries with their input."""

    @property
    def replayable(self) -> bool:
        """Whether a pass can be made again and again."""
        return False

    @property
    def restarts(self) -> bool:
        """Whether a pass that did not come to its end can be begun again, though the input is read only once."""
        return False

    @property
    def rows_kept(self) -> RowsKept:
        return RowsKept.LAST

    @property
    @abstractmethod
    def plans(self) -> Sequence[Plan]:
        """The queries."""

    @property
    @abstractmethod
    def bounds(self) -> Sequence[BoundPlan] | None:
        """The queries over the columns of the events; None while these are not known."""

    @abstractmethod
    def rounds(self, rows: bool = False) -> Iterator[Round]:
        """A pass over the input, in batches of bounded size; with `rows`, one whose events can be asked for."""

    @abstractmethod
    def counts(self) -> list[int]:
        """The number of each query's matches, by a pass that does not enumerate them where that is possible."""

    @abstractmethod
    def add_up(self, aggregation: Aggregation) -> None:
        """Add up all matches of the only query, by a pass that enumerates them only where it must."""

    @abstractmethod
    def late(self) -> pa.Table:
        """The events of the last pass that came too late."""

    @abstractmethod
    def rows(self, positions: Positions) -> pa.Table:
        """The events at these positions, in this order, repeats too: of a round that `rows_kept` says."""

    def rows_again(self, found: Sequence[pa.RecordBatch]) -> KeptRows:
        """The events of these matches, by another pass over an input that can be read again."""
        raise NotImplementedError

    def foreseen(self) -> int | None:
        """The number of the only query's matches, if another pass can count them without enumerating any."""
        return None

    @property
    def schemas(self) -> list[pa.Schema]:
        """The columns of each query's matches."""
        bounds = self.bounds
        if bounds is not None:
            return [bound.result.schema for bound in bounds]
        return [ResultColumns(plan.columns, singles=plan.selection.singles).schema for plan in self.plans]

    # --- of the only query ---

    def batches(self, rows: bool = False) -> Iterator[pa.RecordBatch]:
        """The matches of a pass."""
        return (batch for found, _ in self.rounds(rows) for _, batch in found)

    def count(self) -> int:
        """The number of matches."""
        (count,) = self.counts()
        return count

    @property
    def query(self) -> t.Query:
        return self.plans[0].query

    @property
    def schema(self) -> pa.Schema:
        """The columns of the matches."""
        return self.schemas[0]

    @property
    def selection(self) -> Selection:
        return self.plans[0].selection

    @property
    def type(self) -> str | None:
        """The column of types."""
        bounds = self.bounds
        return bounds[0].type if bounds is not None else None

    @property
    def time(self) -> str | None:
        """The column of times."""
        bounds = self.bounds
        return bounds[0].time if bounds is not None else None

    def aggregation(self, request: Request) -> Aggregation:
        """What is to be added up, over the columns of the events."""
        if self.bounds is None:
            raise DataError("no events were fed yet, so their columns are not known")
        return Aggregation(request, self.bounds[0])
