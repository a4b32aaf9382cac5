"""The query as users hold it: `ceql.compile(text)`, and what can be done with the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from ceql.analysis.first_event import never_begins
from ceql.analysis.looking_back import looks_back
from ceql.errors import ArgumentError, NoMatchWarning, QueryError, warn_caller
from ceql.plan import make_plan
from ceql.plans import Plan
from ceql.predicates.patterns import check_patterns
from ceql.recognition.options import ColumnOptions, FeedOptions, ReadingOptions, RunOptions, Threads, read, spelt_out
from ceql.recognition.run import Bounds, Run
from ceql.recognizer import Recognizer
from ceql.results.matches import Matches
from ceql.syntax.printer import print_query
from ceql.syntax.rules import parse_rule

if TYPE_CHECKING:
    from ceql.diagnose.findings import Diagnosis
    from ceql.explain.automaton import AutomatonView
    from ceql.explain.text import Explanation


def compile(text: str) -> Query:
    """Compile a CEQL query. A wrong one raises `ceql.QueryError`, which says what, where and what was meant.

    One that can never match, since PREV is NULL on the first event, warns of it (`ceql.NoMatchWarning`). One that
    begins with NOT beside WITHIN is told once how far it looks back.
    """
    try:
        plan = make_plan(text)
    except RecursionError:
        raise QueryError(
            "the query is too long: its conditions are nested too deeply once they are simplified"
        ) from None
    check_patterns(plan.query, text)
    reason = never_begins(plan.whole, text)
    if reason is not None:
        warn_caller(reason, NoMatchWarning)
    _tell_once(text, looks_back(plan.query))
    return Query(plan)


@lru_cache(maxsize=1024)
def _tell_once(text: str, note: str | None) -> None:
    if note is not None:
        warn_caller(note, UserWarning)


def rule(
    text: str,
    *,
    attributes: Mapping[str, Sequence[str]],
    within: str | None = None,
    distinct: bool = False,
    strategy: str | None = None,
    consume_by: str | None = None,
    limit: int | None = None,
) -> Query:
    """Compile a conjunctive query, written as a rule over the attributes of each relation, in their order.

    A match has one event for each atom of the body, and ends with the last of them. The result's columns are named
    after the relations, with a number where a relation has several atoms. The options are the clauses
    of a query: `within="100 events"`, `strategy="MAX"`, `consume_by="ANY"`, `limit=10`. The text of the query is
    the rule as CEQL:

    >>> query = rule("Q(x) <- T(x), S(x, _)", attributes={"T": ["a"], "S": ["a", "b"]}, within="100 events")
    >>> print(query.text)
    SELECT T, S
    WHERE T ALL S
      FILTER T.a = S.a
    WITHIN 100 EVENTS
    """
    query = parse_rule(
        text,
        attributes,
        within=within,
        distinct=distinct,
        strategy=strategy,
        consume_by=consume_by,
        limit=limit,
    )
    return compile(print_query(query))


@spelt_out(RunOptions)
def match(text: str, events: Any, **options: Unpack[RunOptions]) -> Matches:
    """Compile and run: `ceql.match(text, events, type=..., time=...)`, with the options of `Query.run`."""
    if not isinstance(text, str) or (_is_query(events) and not _is_query(text)):
        raise ArgumentError(
            "match takes the text of a query first, then the events: ceql.match('SELECT ...', events). A compiled "
            "query is run by query.run(events)"
        )
    return compile(text).run(events, **options)


def _is_query(value: object) -> bool:
    return isinstance(value, Query) or (isinstance(value, str) and value.lstrip()[:6].upper() == "SELECT")


class Query:
    """A compiled query. It is immutable, and can be run any number of times."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._bound = list[Bounds]()  # to the columns of the last input; the next one often has the same

    def __reduce__(self) -> tuple[type[Query], tuple[Plan]]:
        return Query, (self._plan,)

    @property
    def text(self) -> str:
        """The query as it was written."""
        return self._plan.source

    @property
    def plan(self) -> Plan:
        """Every stage of the compilation."""
        return self._plan

    @spelt_out(RunOptions)
    def run(self, events: Any, **options: Unpack[RunOptions]) -> Matches:
        """Find the matches in `events`, lazily: they are found as the result is read.

        `events` is Arrow data, a pandas or polars frame, an iterable of dicts or batches, the path of a Parquet, CSV,
        JSON-lines or Arrow file; or, for several streams, a dict of those by name. `type` and `time` name
        columns.

        Tables, frames, lists and files are put in order of time as a whole, and matches name their events by the
        caller's rows. If they are not in order, `max_buffered_rows` bounds how many rows are held to sort them.
        Of a reader or generator, `lateness` (a number, text such as "10 seconds", or a timedelta) is how far behind the
        latest time an event may come and still be put in order; later ones are left out, and `Matches.late()` has them.

        If the stream is split by a key, and partial matches are many, `threads` work on them at once (`"all"`: as
        many as the machine has cores). Matches and their order do not depend on it.
        """
        read_options = read(options, RunOptions)
        return Matches(Run.over({"": self._plan}, events, read_options, self._bound), read_options.memory)

    @spelt_out(FeedOptions)
    def recognizer(self, **options: Unpack[FeedOptions]) -> Recognizer:
        """A recogniser to push events into, piece by piece.

        `keep_rows=False` spares the memory that `Matches.events()` needs: the rows that matches may still name.
        """
        _tell_once(self._plan.source, self._plan.late_note)
        return Recognizer({"": self._plan}, read(options, FeedOptions))

    def restore(self, snapshot: bytes, *, threads: Threads = 1) -> Recognizer:
        """The recogniser that `snapshot` was taken of, to go on with the very same matches."""
        return Recognizer.restored({"": self._plan}, snapshot, threads)

    @spelt_out(ColumnOptions)
    def explain(self, schema: pa.Schema | None = None, **options: Unpack[ColumnOptions]) -> Explanation:
        """Every stage of the query as text: its class and guarantee, normal form, clauses, guards, automaton.

        With an Arrow `schema` (or anything that has one: a table, a batch), also how its columns are classified.
        Of a query that compares events with each other, it says for each condition how it is checked and why so.
        """
        from ceql.explain.stages import explain

        return explain(self._plan, getattr(schema, "schema", schema), read(options, ColumnOptions))

    def automaton(self) -> AutomatonView:
        """The automaton: `print` shows it as a table, `.to_dot()` and `.to_mermaid()` draw it."""
        from ceql.explain.automaton import AutomatonView

        return AutomatonView(self._plan)

    @spelt_out(ReadingOptions)
    def diagnose(self, events: Any, **options: Unpack[ReadingOptions]) -> Diagnosis:
        """Explain why nothing (or so little) matched. It reads `events` as `run` does, and says how far matches got.

        The result has: the types that came and those that never did, how often each condition held, the furthest
        step that any partial match reached and what it waited for, and what each clause and each condition across
        events took away.
        The arguments are those of `run`.
        """
        from ceql.diagnose.diagnose import diagnose

        return diagnose(self._plan, events, read(options, ReadingOptions))

    def __repr__(self) -> str:
        return cleandoc(self.text)
