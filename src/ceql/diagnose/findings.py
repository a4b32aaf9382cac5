"""The findings of a diagnosis as plain frozen records. `report.py` writes them as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ceql.explain.text import preformatted


@dataclass(frozen=True, slots=True)
class SeenType:
    """A type that came, how often, and whether the query names it."""

    name: str
    events: int
    named: bool


@dataclass(frozen=True, slots=True)
class MissingType:
    """A type of the query that never came. `suggestion` is one that did; `stream`: a stream has its name."""

    name: str
    suggestion: str | None
    stream: bool = False


@dataclass(frozen=True, slots=True)
class PredicateFinding:
    """A condition of a guard, over the events of the guard's type. `depth` > 0: an alternative of the one above."""

    text: str
    depth: int
    true: int
    false: int
    unknown: int


@dataclass(frozen=True, slots=True)
class GuardFinding:
    """An atom of the formula: how many events have its type, and how many of these satisfy all of it."""

    text: str
    events: int
    hits: int
    last: int | None
    predicates: tuple[PredicateFinding, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """An event: its position in the stream and, where there is time, its time."""

    position: int
    time: Any = None

    def __str__(self) -> str:
        return f"position {self.position:,}" + (f", time {self.time}" if self.time is not None else "")


@dataclass(frozen=True, slots=True)
class Wait:
    """An event that would have brought the furthest run one step on.

    `after`: whether one came after the run was there. `immediately`: whether it had to be the very next event.
    `compared`: what it had to have in common with the run; `nulls` is how many lacked a value for that (NULL).
    """

    text: str
    hits: int
    after: bool
    immediately: bool
    compared: str = ""
    nulls: int = 0


@dataclass(frozen=True, slots=True)
class Reach:
    """How far any run got: `done` of `total` steps along `path`, and what it waited for then.

    `times` is the number of events that brought some run there; `first` and `last` are those events.
    """

    done: int
    total: int
    path: str
    times: int
    first: Place | None
    last: Place | None
    waits: tuple[Wait, ...]

    @property
    def complete(self) -> bool:
        return 0 < self.total == self.done


@dataclass(frozen=True, slots=True)
class Rung:
    """The query up to and including `clause`: at how many positions matches end, and how many matches there are.

    `matches` is None where they were not counted. Counting stops at a limit; then `counted_all` is False and there
    are more. So it is with `all_positions`, where a limit on candidates was reached.
    """

    clause: str
    positions: int
    matches: int | None
    counted_all: bool = True
    all_positions: bool = True


@dataclass(frozen=True, slots=True)
class KeyFinding:
    """How many substreams there are, and how many events belong to none.

    `split`: they are made by a condition across events, not, or not only, by PARTITION BY.
    """

    substreams: int
    dropped: int
    dropped_relevant: int
    split: bool = False


@dataclass(frozen=True, slots=True)
class Tally:
    """At how many positions matches end, and how many there are; where a flag is False, there may be more."""

    positions: int
    matches: int | None
    counted_all: bool = True
    all_positions: bool = True


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """A condition across events: what is left when it is asked `alone`, and `without` it, when all others are.

    `ruled_out` is how many groups of partial matches it ruled out, of those that the conditions asked before it left;
    None where no groups are tested for it.
    """

    text: str
    line: int
    column: int
    how: str
    alone: Tally
    without: Tally
    ruled_out: int | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """The conditions across events, with PARTITION BY and WITHIN, over the first `events` (None: over all).

    `groups` is how many groups of partial matches events met, over the first `followed` of them (None: over all).
    """

    events: int | None
    none: Tally
    all: Tally
    each: tuple[ClaimFinding, ...]
    groups: int = 0
    followed: int | None = None

    @property
    def hardest(self) -> ClaimFinding | None:
        """The condition that ruled out the most groups, if any did."""
        found = max(self.each, key=lambda claim: claim.ruled_out or 0, default=None)
        return found if found is not None and found.ruled_out else None


@dataclass(frozen=True, slots=True)
class TimeFinding:
    """The times of the first and the last event as text, what lies between, and how many events come.

    `late` is the lateness that late events would take, `suspect` what is wrong with the unit of the times.
    """

    first: str
    last: str
    seconds: float | None
    rate: str | None
    late: str | None = None
    suspect: str | None = None


@dataclass(frozen=True, slots=True)
class Length:
    """The shortest match without the window, or if there is none, the shortest run that got furthest.

    Both sizes are written as WITHIN takes them. `unit` is the unit of time by which the match would fit.
    """

    shortest: str
    window: str
    complete: bool
    fits: bool
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class AttributeFinding:
    """An attribute that the query reads: how many events have a value, and whether it came at all."""

    name: str
    values: int
    present: bool
    suggestion: str | None


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Why a query matched as it did. `print` it; every number is a field.

    `reach` is how far a run got with the formula and PARTITION BY alone; `reach_in_window` the same with WITHIN (None
    without one). `rungs` adds the clauses one by one, in the order in which they apply; the last is the query.
    `claims` is what conditions across events take away, None for a query without any. `times` is when events came, None
    without times; `other_times` are columns of times that were not named. `length` is how long the shortest match is
    beside the window, None without a window or where it is not known. `unforbidden` is the query without what NOT keeps
    away, None where there is no NOT.
    """

    events: int
    late: int
    types: tuple[SeenType, ...]
    untyped: int
    more_types: int
    missing_types: tuple[MissingType, ...]
    guards: tuple[GuardFinding, ...]
    attributes: tuple[AttributeFinding, ...]
    reach: Reach
    reach_in_window: Reach | None
    rungs: tuple[Rung, ...]
    keys: KeyFinding | None
    notes: tuple[str, ...]
    claims: Claims | None = None
    times: TimeFinding | None = None
    length: Length | None = None
    other_times: tuple[str, ...] = ()
    unforbidden: Rung | None = None

    @property
    def positions(self) -> int:
        """At how many positions matches of the query end."""
        return self.rungs[-1].positions

    @property
    def matches(self) -> int | None:
        """The matches of the query, as far as they were counted."""
        return self.rungs[-1].matches

    @property
    def reasons(self) -> tuple[str, ...]:
        """What stood in the way, the most telling first; empty when nothing did."""
        from ceql.diagnose.reasons import reasons

        return reasons(self)

    def __str__(self) -> str:
        from ceql.diagnose.report import report

        return report(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(str(self))
