"""Several queries as one: `ceql.compile_all({"fraud": ..., "bot": ...})`, and what can be done with the result.

The queries of a set run over the same events in one pass. The events are read and put in order once; the types,
conditions and keys that the queries ask for are read once for all of them (`recognition.together`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from ceql.errors import ArgumentError, naming, warn_caller
from ceql.plans import Plan
from ceql.query import Query, compile
from ceql.recognition.options import FeedOptions, RunOptions, Threads, read, spelt_out
from ceql.recognition.run import Bounds, Run
from ceql.recognizer import SetRecognizer
from ceql.results.match_set import MatchSet

BATCH_ROWS = 1 << 20
"""Larger than those of a single query: each query's turn at a batch has a price."""


def compile_all(queries: Mapping[str, str | Query]) -> QuerySet:
    """Compile queries that are to run together, each under its name: texts, or queries that are compiled.

    A wrong one raises `ceql.QueryError`, which names it.

    >>> rules = compile_all({"pair": "SELECT * WHERE A ; B", "late": "SELECT * WHERE B ; C"})
    >>> matches = rules.run([{"type": "A"}, {"type": "B"}, {"type": "C"}])
    >>> [(name, match.events) for name, match in matches]
    [('pair', (0, 1)), ('late', (1, 2))]
    >>> matches.count()
    {'pair': 1, 'late': 1}
    """
    if not isinstance(queries, Mapping):
        raise ArgumentError(f"compile_all takes a dict of queries by name, not a {type(queries).__name__}")
    if not queries:
        raise ArgumentError("a set has at least one query, and none was given")
    compiled: dict[str, Query] = {}
    for name, query in queries.items():
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"the name of a query is a text that is not empty, not {name!r}")
        if not isinstance(query, str | Query):
            raise ArgumentError(f"query '{name}' is a text or a ceql.Query, not a {type(query).__name__}")
        with naming(name):
            compiled[name] = query if isinstance(query, Query) else compile(query)
    return QuerySet(compiled)


class QuerySet:
    """Queries that run together. It is immutable, and can be run any number of times."""

    def __init__(self, queries: Mapping[str, Query]) -> None:
        self._queries = dict(queries)
        self._bound = list[Bounds]()  # to the columns of the last input; the next one often has the same
        first = next(iter(self._queries))
        for name, query in self._queries.items():
            if query.plan.query.streams != self.streams:
                raise ArgumentError(
                    f"queries '{first}' and '{name}' read FROM different streams; make a set of those that read the "
                    "same"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries, in order."""
        return tuple(self._queries)

    def __getitem__(self, name: str) -> Query:
        return self._queries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def plans(self) -> dict[str, Plan]:
        """The plan of each query."""
        return {name: query.plan for name, query in self._queries.items()}

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams of FROM, which all queries have in common."""
        return next(iter(self._queries.values())).plan.query.streams

    @spelt_out(RunOptions)
    def run(self, events: Any, **options: Unpack[RunOptions]) -> MatchSet:
        """Find the matches of all queries in `events`, lazily, in one pass; the arguments are those of `Query.run`.

        `memory` bounds the partial matches of each query, and all matches that are kept.
        """
        options.setdefault("batch_rows", BATCH_ROWS)
        read_options = read(options, RunOptions)
        return MatchSet(self._queries, Run.over(self.plans, events, read_options, self._bound), read_options.memory)

    @spelt_out(FeedOptions)
    def recognizer(self, **options: Unpack[FeedOptions]) -> SetRecognizer:
        """A recogniser of all queries to push events into, piece by piece.

        `keep_rows=False` spares the memory of the rows that matches may still name.
        """
        for note in {plan.late_note for plan in self.plans.values()} - {None}:
            warn_caller(str(note), UserWarning)
        return SetRecognizer(self.plans, read(options, FeedOptions))

    def restore(self, snapshot: bytes, *, threads: Threads = 1, strict: bool = False) -> SetRecognizer:
        """The recogniser that `snapshot` was taken of, to go on with the very same matches.

        If it was taken by another set, queries of the same name and meaning go on with their states, those that are
        gone are dropped, and new and changed ones begin with the next event. A change of the attributes that SELECT
        shows of a variable is none. `strict=True` refuses other sets.
        """
        return SetRecognizer.restored(self.plans, snapshot, threads, strict)

    def __repr__(self) -> str:
        names = ", ".join(self.names[:5]) + (", …" if len(self) > 5 else "")
        return f"<QuerySet of {len(self)} quer{'y' if len(self) == 1 else 'ies'}: {names}>"
