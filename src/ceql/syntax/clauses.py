"""Builds the clauses of a query, and the `Query` itself, while the parser reads.

In: what the rules of ceql.lark matched, as in `build`. Out: for each clause, the fields of `Query` that it sets, with
sizes, units and choices checked.

AFTER MATCH gives one match for each start, the preferred one. So clauses that choose among the matches of an end say
nothing beside it, and reluctant counts, which say which match is preferred, say nothing without it.
"""

from __future__ import annotations

from typing import Any

from lark import Token

from ceql.errors import Span, did_you_mean
from ceql.syntax import tree
from ceql.syntax.build import Children, FormulaBuilder, is_token, span_of, whole_number, without_punctuation
from ceql.syntax.conditions import LAPSES
from ceql.syntax.durations import nanoseconds_of, unit_of
from ceql.syntax.limits import QueryProblem
from ceql.syntax.walking import nodes

_SKIPS = "Write AFTER MATCH SKIP PAST LAST EVENT, TO NEXT EVENT, TO FIRST x or TO LAST x."


def _unclear_skip(words: list[Token], said: list[str | None]) -> QueryProblem:
    """What is wrong with the words after AFTER."""
    forms = [form.split() for form in ("MATCH SKIP PAST LAST EVENT", "MATCH SKIP TO NEXT EVENT", "MATCH SKIP TO FIRST")]

    def agreeing(form: list[str]) -> int:
        return next(
            (k for k, (one, two) in enumerate(zip(form, said, strict=False)) if one != two), min(len(form), len(said))
        )

    form = max(forms, key=agreeing)
    place = agreeing(form)
    if place >= len(said):
        return QueryProblem("AFTER MATCH SKIP ends too early", span_of(words[-1:]), _SKIPS)
    word, expected = words[place], form[place] if place < len(form) else "the end of the query"
    advice = f"The rows of SQL are events here: {_SKIPS}" if said[place] == "ROW" else _SKIPS
    return QueryProblem(f"Found '{word}', expected {expected}", span_of([word]), advice)


class Builder(FormulaBuilder):
    """The builder of whole queries. The method of a clause gives the fields of `Query` that the clause sets."""

    def query(self, children: Children) -> tree.Query:
        fields: dict[str, Any] = {}
        for clause in children:
            fields |= clause
        return tree.Query(**fields, span=Span(0, 0))

    def select(self, children: Children) -> dict[str, Any]:
        strategies = [tree.Strategy(c.upper()) for c in children if is_token(c, "ALL", "STRATEGY")]
        items: tuple[tree.SelectItem | tree.Measure, ...] | None
        match children[-1]:
            case Token(type="STAR"):
                items = None
            case Token():
                items = ()
            case chosen:
                items = tuple(chosen)
        distinct = is_token(children[1], "DISTINCT")
        measures = tuple(item for item in items or () if isinstance(item, tree.Measure))
        names = None if items is None else tuple(item for item in items if isinstance(item, tree.SelectItem))
        strategy = strategies[0] if strategies else None
        return {"distinct": distinct, "strategy": strategy, "items": names, "measures": measures}

    def items(self, children: Children) -> Children:
        return without_punctuation(children)

    def item(self, children: Children) -> tree.SelectItem:
        name, *attributes = map(str, without_punctuation(children))
        return tree.SelectItem(name, tuple(attributes), span=span_of(children))

    def measure(self, children: Children) -> tree.SelectItem | tree.Measure:
        """A computed column; a name alone is a variable."""
        expression, *rest = children
        if isinstance(expression, tree.Attribute) and not (rest and expression.name.upper() in LAPSES):
            if rest:
                raise QueryProblem(
                    "A selected variable keeps its name",
                    span_of(rest),
                    f"Write A AS {rest[1]} after WHERE to name it, or measures such as COUNT({expression.name}) AS n.",
                )
            return tree.SelectItem(expression.name, span=expression.span)
        if isinstance(expression, tree.Literal) and isinstance(expression.value, str):
            raise QueryProblem(
                "Found a text where a name belongs",
                span_of(children),
                f"Names stand without quotes; one with other characters in it is in backticks: `{expression.value}`.",
            )
        return tree.Measure(expression, str(rest[1]) if rest else None, span=span_of(children))

    def from_(self, children: Children) -> dict[str, Any]:
        return {"streams": tuple(map(str, without_punctuation(children)))}

    def where(self, children: Children) -> dict[str, Any]:
        return {"formula": children[1]}

    def partition(self, children: Children) -> dict[str, Any]:
        return {"partition": tuple(without_punctuation(children))}

    def within(self, children: Children) -> dict[str, Any]:
        return {"window": children[1]}

    def consume(self, children: Children) -> dict[str, Any]:
        word: Token = children[2]
        if word.upper() not in tree.Consume.__members__:
            raise QueryProblem(
                f"Found '{word}', expected NONE, PARTITION or ANY",
                span_of([word]),
                did_you_mean(word.upper(), list(tree.Consume.__members__)),
            )
        return {"consume": tree.Consume(word.upper())}

    def limit(self, children: Children) -> dict[str, Any]:
        return {"limit": whole_number(children[1], 1, "LIMIT")}

    def after(self, children: Children) -> dict[str, Any]:
        """AFTER MATCH SKIP ...; its words are reserved nowhere, so that the grammar reads them as names."""
        _, *words = children
        said = [word.upper() if word.type == "NAME" else None for word in words]
        skip, rest = None, words[3:]
        match said:
            case ["MATCH", "SKIP", "PAST", "LAST", "EVENT"]:
                skip, rest = tree.Skip.PAST_LAST, []
            case ["MATCH", "SKIP", "TO", "NEXT", "EVENT"]:
                skip, rest = tree.Skip.TO_NEXT, []
            case ["MATCH", "SKIP", "TO", "FIRST" | "LAST", _]:
                skip, rest = tree.Skip(f"TO {said[3]}"), words[4:]
            case ["MATCH", "SKIP", "TO", _]:
                skip = tree.Skip.TO_LAST
        if skip is None:
            raise _unclear_skip(words, said)
        variable = str(self.name(rest)) if rest else None
        return {"after_match": tree.AfterMatch(skip, variable, span=span_of(children))}

    def attribute_window(self, children: Children) -> tree.AttributeWindow:
        size = whole_number(children[0], 0, "The size of a window over an attribute")
        return tree.AttributeWindow(size, str(children[2]), span=span_of(children))

    def measured_window(self, children: Children) -> tree.EventsWindow | tree.TimeWindow:
        span = span_of(children)
        if len(children) == 2 and unit_of(*children) == "EVENT":
            return tree.EventsWindow(whole_number(children[0], 0, "The size of a window in events"), span=span)
        return tree.TimeWindow(
            nanoseconds_of(children, "A window is counted in events or in time, not in both"), span=span
        )


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
