"""Checks what belongs to AFTER MATCH alone, and what does not go with it.

In: the tree of a query. Out: nothing, or a `QueryProblem` at the clause or count that has no meaning there. AFTER MATCH
gives one match for each start, the preferred one, so clauses that choose among the matches of an end say nothing beside
it. Reluctant counts say which match is preferred, so they say nothing without it.
"""

from __future__ import annotations

from ceql.errors import Span
from ceql.syntax import tree
from ceql.syntax.limits import QueryProblem
from ceql.syntax.walking import nodes


def check_after_match(root: object) -> None:
    """Refuse AFTER MATCH beside what chooses otherwise, and reluctant counts without it."""
    after = root.after_match if isinstance(root, tree.Query) else None
    if isinstance(root, tree.Query) and after is not None:
        _check_clauses(root, after)
        return
    for node in nodes(root) if isinstance(root, tree.Query) else ():
        if isinstance(node, tree.Plus | tree.Count) and node.reluctant:
            raise QueryProblem(
                "A count is reluctant only beside AFTER MATCH, since all matches are found without it",
                node.span or Span(0, 0),
                "Write (A+)? for a count that may be missing, which A* says too; or add AFTER MATCH SKIP PAST LAST "
                "EVENT for one match from each start.",
            )


def _check_clauses(query: tree.Query, after: tree.AfterMatch) -> None:
    one = "AFTER MATCH gives at most one match for each start"
    if query.strategy not in (None, tree.Strategy.ALL):
        raise _refused(after, f"SELECT {query.strategy.value} does not go with AFTER MATCH", one)
    if query.limit is not None:
        raise _refused(after, "LIMIT does not go with AFTER MATCH", one)
    if query.consume is not tree.Consume.NONE:
        raise _refused(after, "CONSUME BY does not go with AFTER MATCH", f"{one}, and says where to go on")
    for node in nodes(query.formula):
        if isinstance(node, tree.All):
            raise QueryProblem(
                "ALL does not go with AFTER MATCH yet",
                node.span or Span(0, 0),
                "Write the orders of its sides, the preferred one first: A ; B OR B ; A.",
            )


def _refused(after: tree.AfterMatch, message: str, reason: str) -> QueryProblem:
    return QueryProblem(message, after.span or Span(0, 0), f"{reason}: leave one of the two out.")
