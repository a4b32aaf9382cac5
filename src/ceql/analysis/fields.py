"""Fields of nested attributes: `x.ctx.path`, and `x[ctx.path = '/']` where nothing in the query is called `ctx`.

In: the tree of a query. Out: the same with attributes of dotted names, such as `ctx.path`; and those names.
`io.nested` makes columns of them. Only the events tell a field from an attribute of a variable that is misspelt, so
`misspelt` is asked when they are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ceql.analysis.conditions import Read, replaced
from ceql.errors import did_you_mean
from ceql.syntax import tree as t
from ceql.syntax.walking import mapped, nodes


def with_fields(query: t.Query) -> t.Query:
    """The query, with what looks like an attribute of a variable in brackets read as a field if no name is that."""
    known = _names(query)

    def own(leaf: Read) -> t.Expression:
        if isinstance(leaf, t.Ref) and leaf.variable not in known:
            return t.Attribute(f"{leaf.variable}.{leaf.attribute}", span=leaf.span)
        return leaf

    return replace(query, formula=_rewritten(query.formula, own)) if known else query


def misspelt(query: t.Query) -> tuple[tuple[t.Attribute, str], ...]:
    """The fields whose column has nearly the name of a variable, and what to say if there is no such column.

    >>> from ceql.syntax.parser import parse
    >>> misspelt(with_fields(parse("SELECT * WHERE A AS first ; B AS x FILTER x[v > frst.v]")))
    ((Attribute(name='frst.v'), "Did you mean 'first'?"),)
    """
    known = _names(query)
    fields = [node for node in nodes(query.formula) if isinstance(node, t.Attribute) and "." in node.name]
    hints = [(node, did_you_mean(node.name.split(".")[0], known)) for node in fields]
    return tuple((node, hint) for node, hint in hints if hint is not None)


def _names(query: t.Query) -> list[str]:
    """The variables, types and streams."""
    known = [*query.streams]
    for node in nodes(query.formula):
        match node:
            case t.As(_, variable):
                known.append(variable)
            case t.Not(_, str(variable)):
                known.append(variable)
            case t.Event():
                known += [node.type, *([node.stream] if node.stream is not None else [])]
    return known


def dotted_names(query: t.Query) -> tuple[str, ...]:
    """The names with a dot that the query has for attributes."""
    found: dict[str, None] = {}
    for node in nodes(query):
        match node:
            case t.Attribute(name):
                found[name] = None
            case t.Ref(_, name) | t.Prev(name) | t.PartRef(name) | t.AttributeWindow(_, name):
                found[name] = None
            case t.SelectItem(_, names):
                found |= dict.fromkeys(names)
    return tuple(name for name in found if "." in name)


def _rewritten(node: Any, own: Callable[[Read], t.Expression]) -> Any:
    if isinstance(node, t.Bracket):
        return replace(node, predicate=replaced(node.predicate, own))
    return mapped(node, partial(_rewritten, own=own))
