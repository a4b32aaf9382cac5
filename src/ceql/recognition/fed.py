"""The matches of one feed of a recogniser: found as they are read, or when they must be."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.errors import CeqlError, DataError, ResourceError, SchemaError
from ceql.io.schemas import one_batch
from ceql.io.sorted_runs import EventBatch
from ceql.plans import Plan
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.intake import Intake
from ceql.recognition.journal import Journal, Work
from ceql.recognition.match_source import MatchSource, RowsKept
from ceql.recognition.rows import RowStore
from ceql.recognition.together import Round, merged
from ceql.recognition.totals_table import Request

_NO_ROWS = "this recogniser keeps no rows; make it with keep_rows=True"
_Result = TypeVar("_Result")


class Feeding(Protocol):
    """The recogniser, as its feeds know it."""

    def worked(self, seconds: float) -> None:
        """Add to the time that finding matches took."""

    def take_back(self, fed: Fed) -> None:
        """Be as before this feed, whose events cannot be recognised."""

    def late(self) -> pa.Table:
        """The events that came too late."""


class Fed(MatchSource):
    """The matches of one feed.

    Until the next feed, each pass begins with the first match. The next feed keeps what was not handed out by then.

    The recogniser has its last result, so the result knows the recogniser by a weak reference alone, and goes on
    without it. A cycle of the two would hold the memory of a recogniser that is given up until Python's collector looks
    through all objects, which may be hours later.
    """

    def __init__(
        self,
        recognizer: Feeding,
        turn: threading.RLock,
        plans: Mapping[str, Plan],
        intakes: tuple[Intake, Intake],
        batches: list[EventBatch],
        keep_rows: bool,
    ) -> None:
        """The feed of these batches; `intakes` are what was taken in before it, and with it."""
        self.before, self._intake = intakes
        self._recognizer = weakref.ref(recognizer)
        self._turn, self._plans, self._keep_rows = turn, plans, keep_rows
        self._batches = batches
        self._done = not batches  # whether there is nothing to find any more
        self._given: dict[int, int] = {}  # matches of each query that were handed out in this pass
        self._found = 0
        self._work: Work | None = None  # finds those that follow
        self._kept: list[Round] | None = None  # what was left when the next feed came
        self._own_rows: RowStore | None = None
        self._error: Exception | None = None
        self._pass: weakref.ref[_Pass] | None = None
        self._owners: list[weakref.ref[object]] = []

    def shown_by(self, result: _Result) -> _Result:
        """The result, which keeps matches from being given up as long as somebody holds it."""
        self._owners.append(weakref.ref(result))
        return result

    @property
    def waiting(self) -> int:
        """How many events are not recognised yet."""
        return 0 if self._done or self._kept is not None else sum(batch.data.num_rows for batch in self._batches)

    @property
    def plans(self) -> list[Plan]:
        return list(self._plans.values())

    @property
    def bounds(self) -> list[BoundPlan] | None:
        return self._intake.bounds

    @property
    def rows_kept(self) -> RowsKept:
        return RowsKept.ALL if self._keep_rows else RowsKept.NONE

    @property
    def restarts(self) -> bool:
        return self._kept is None or not self._given

    def rounds(self, rows: bool = False) -> Iterator[Round]:
        if self._kept is None:
            self._done = not self._batches
            self._given, self._work = {}, None
        found = _Pass(self)
        self._pass = weakref.ref(found)
        return found

    def next_of(self, reading: _Pass) -> Round | None:
        """The next matches of a pass."""
        refuse_nested(self._turn)
        with self._turn:
            if self._kept is not None:
                reading.kept += 1
                return self._kept[reading.kept - 1] if reading.kept <= len(self._kept) else None
            if self._error is not None:
                raise self._error
            if self._pass is None or self._pass() is not reading:
                raise DataError("these matches are being read anew, and this reader cannot go on")
            if self._done:
                return None
            begun = perf_counter()
            try:
                work, self._work = self._begun(), None  # an exception leaves no work that has gone on
                found = next(work, None)
            except Exception as error:
                self._failed(error)
            self._worked(begun)
            if found is None:
                self._done = True
            else:
                self._given = _counted(self._given, found)
                self._found = max(self._found, sum(self._given.values()))
                self._work = work
            return found

    def _begun(self) -> Work:
        """Finds the matches after those that were handed out."""
        if self._work is not None:
            return self._work
        intake = self._intake
        assert intake.journal is not None
        return _after(self._given, intake.journal.work(intake.feeds, self._batches, self._rows_to_fill))

    def _worked(self, begun: float) -> None:
        recognizer = self._recognizer()
        if recognizer is not None:
            recognizer.worked(perf_counter() - begun)

    def _take_back(self) -> None:
        recognizer = self._recognizer()
        if recognizer is not None:
            recognizer.take_back(self)

    @property
    def _rows_to_fill(self) -> RowStore | None:
        return self._intake.rows if self._keep_rows else None

    def _failed(self, error: Exception) -> NoReturn:
        """What the caller can mend leaves the feed to be done again; any other error takes it back."""
        if not isinstance(error, ResourceError | MemoryError):
            self._error = error
            self._take_back()
        raise error

    def find(self, memory: int) -> None:
        """Find all matches now, and keep them, with the rows they name."""
        message = "feed fewer events at once"
        self._keep([] if self._done else self._all_of(self._begun(), memory, "of this feed", message))

    def settle(self, memory: int) -> None:
        """Find the rest now, and keep it, with the rows it names, if anyone can still ask for it."""
        if self._kept is not None:
            return
        try:
            rest = self._rest(memory)
        except (ResourceError, MemoryError):
            raise
        except Exception as error:
            if self._done:  # all events are recognised: what failed is not to blame on them
                raise
            self._error = error
            self._take_back()
            message = f"the events fed before cannot be recognised, and were taken back: {error}"
            raise (DataError(message) if isinstance(error, CeqlError) else error) from error
        self._keep(rest)

    def _keep(self, rest: list[Round]) -> None:
        self._found = max(self._found, sum(self._given.values()) + sum(found.size for found in rest))
        if rest:
            self._own_rows = self._intake.rows.copy()
        self._kept = rest
        self._batches = []
        self.before = self._intake  # it is not taken back any more

    @property
    def found(self) -> int:
        """How many matches were read or counted, in whatever pass had most."""
        return self._found

    def take_found(self) -> int:
        """How many matches were found, to be added to a total once."""
        found, self._found = self._found, 0
        return found

    def _rest(self, memory: int) -> list[Round]:
        if self._done or self._error is not None:
            return []
        reading = self._pass() if self._pass is not None else None
        if not any(owner() is not None for owner in self._owners) or (self._given and reading is None):
            self._drop()
            return []
        work, self._work = self._begun(), None
        return self._all_of(work, memory, "that were not read", "read what feed() returns before feeding again")

    @staticmethod
    def _all_of(work: Work, memory: int, which: str, advice: str) -> list[Round]:
        rest: list[Round] = []
        size = 0
        for found in work:
            rest.append(found)
            size += found.nbytes
            if size > memory:
                raise ResourceError(
                    f"matches {which} take more than {memory:,} bytes; {advice}, or raise memory=", limit="memory"
                )
        return rest

    def _drop(self) -> None:
        """Come to the end of the events without their matches."""
        intake = self._intake
        assert intake.journal is not None
        work, self._work = self._begun(), None
        intake.journal.finish(intake.feeds, self._batches, self._rows_to_fill, work)

    def _at_once(self, work: Callable[[Journal], list[int]]) -> list[int] | None:
        """Do the feed whole by `work`, which counts each query's matches; None if they are found already."""
        refuse_nested(self._turn)
        with self._turn:
            if self._error is not None:
                raise self._error
            journal = self._intake.journal
            if self._kept is not None or self._done or journal is None:
                return None
            begun = perf_counter()
            try:
                found = work(journal)
            except Exception as error:
                self._failed(error)
            self._worked(begun)
            self._done = True
            self._found = sum(found)
            return found

    def counts(self) -> list[int]:
        def count(journal: Journal) -> list[int]:
            return journal.count(self._intake.feeds, self._batches, self._rows_to_fill)

        found = self._at_once(count)
        if found is not None:
            return found
        kept: dict[int, int] = {}
        for one in self._kept or ():
            kept = _counted(kept, one)
        return [kept.get(number, 0) for number in range(len(self.plans))]

    def aggregation(self, request: Request) -> Aggregation:
        if request.attributes and not self._keep_rows and self.bounds is not None:
            raise SchemaError(_NO_ROWS)
        return super().aggregation(request)

    def add_up(self, aggregation: Aggregation) -> None:
        def gather(journal: Journal) -> list[int]:
            journal.gather(self._intake.feeds, self._batches, self._rows_to_fill, aggregation, self._attributes_at)
            return [sum(aggregation.totals.counts.values())]

        if self._at_once(gather) is None:
            for found in self._kept or ():
                for _, batch in found.found:
                    aggregation.add(batch, self._attributes_at)

    def _attributes_at(self, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
        return one_batch(self.rows(positions))

    def late(self) -> pa.Table:
        recognizer, sequencer = self._recognizer(), self._intake.sequencer
        if recognizer is not None:
            return recognizer.late()
        return sequencer.late() if sequencer is not None else pa.table({})

    def rows(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        if not self._keep_rows:
            raise SchemaError(_NO_ROWS)
        rows = self._intake.rows if self._own_rows is None else self._own_rows
        return rows.take(positions)


class _Pass:
    """One reading of the matches of a feed, from the first on."""

    def __init__(self, fed: Fed) -> None:
        self._fed = fed
        self.kept = 0
        """How many rounds it has of those that were kept when the next feed came."""

    def __iter__(self) -> Iterator[Round]:
        return self

    def __next__(self) -> Round:
        found = self._fed.next_of(self)
        if found is None:
            raise StopIteration
        return found


def _counted(counts: dict[int, int], found: Round) -> dict[int, int]:
    """The counts of each query's matches, with these."""
    return counts | {number: counts.get(number, 0) + batch.num_rows for number, batch in found.found}


def _after(given: dict[int, int], work: Work) -> Work:
    """The matches that `work` finds, without the first ones of each query."""
    left = given.copy()
    for found in work:
        if not any(left.values()):
            yield found
            continue
        rest = []
        for number, batch in found.found:
            skip = min(left.get(number, 0), batch.num_rows)
            left[number] = left.get(number, 0) - skip
            if skip < batch.num_rows:
                rest.append((number, batch.slice(skip)))
        if rest:
            yield merged(rest)


def refuse_nested(turn: threading.RLock) -> None:
    """A signal handler or finaliser that feeds in the middle of a feed would find a state that is not whole."""
    if turn._is_owned():  # type: ignore[attr-defined]
        raise CeqlError("this recogniser is in the middle of a feed of the same thread, and cannot be used in it")
