"""The tree of PATTERN as far as a query can say it: variables, sequences, alternatives, quantifiers."""

from __future__ import annotations

from ceql.errors import Span
from ceql.row_patterns import pattern
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.pattern import Anchor, Choice, Excluded, Leaf, Node, Permute, Repeat, Sequence
from ceql.row_patterns.problem import Problems, Refused

_EMPTY = "the empty pattern () has no counterpart: a match has at least one row"


def read_pattern(sql: str, span: Span, dialect: Dialect, problems: Problems) -> Node:
    """The tree of what stands inside the parentheses of PATTERN, without what is noted as refused."""
    return _plain(pattern.read_pattern(sql, span, dialect), problems) or Sequence(())


def _plain(node: Node, problems: Problems) -> Node | None:
    """A node without what is refused, which is noted; None if nothing is left."""
    match node:
        case Leaf():
            return node
        case Repeat(item, least, most, greedy, span):
            inside = _plain(item, problems)
            return None if inside is None else Repeat(inside, least, most, greedy, span)
        case Anchor(start, span):
            sign, row = ("^", "begin with the first row") if start else ("$", "end with the last row")
            advice = f"Leave it out, and keep the matches that {row}."
            problems.append(Refused(f"the anchor {sign} has no counterpart", span, advice))
            return None
        case Excluded(item, span):
            advice = "Leave the braces out: ceql shows rows by their variables."
            message = "excluded rows, {- … -}, have no counterpart"
            problems.append(Refused(message, Span(span.start, span.start + 2), advice))
            return _plain(item, problems)
        case Permute(_, span):
            advice = "Write the orders as alternatives: (A B | B A)."
            problems.append(Refused("PERMUTE has no counterpart", span, advice))
        case Sequence((), span) if span is not None:
            problems.append(Refused(_EMPTY, span, "Leave it out; A? says that A may be missing."))
            return node
    kept = tuple(item for item in (_plain(item, problems) for item in node.items) if item is not None)
    if not kept:
        return None
    return kept[0] if len(kept) == 1 else Choice(kept) if isinstance(node, Choice) else Sequence(kept)
