"""Fields of nested attributes: `x.ctx.path`, and `x[ctx.path = '/']` where nothing in the query is called `ctx`.

In: the tree of a query. Out: the same with attributes of dotted names, such as `ctx.path`; and those names.
`io.nested` makes columns of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ceql.analysis.conditions import Read, replaced
from ceql.errors import did_you_mean
from ceql.syntax import tree as t


def with_fields(query: t.Query) -> t.Query:
    """The query, with what looks like an attribute of a variable in brackets read as a field if there is no such name.

    A name that is nearly that of a variable stays: it is misspelt.
    """
    known = [*query.streams]
    for node in _nodes(query.formula):
        match node:
            case t.As(_, variable):
                known.append(variable)
            case t.Not(_, str(variable)):
                known.append(variable)
            case t.Event():
                known += [node.type, *([node.stream] if node.stream is not None else [])]

    def own(leaf: Read) -> t.Expression:
        if isinstance(leaf, t.Ref) and leaf.variable not in known and did_you_mean(leaf.variable, known) is None:
            return t.Attribute(f"{leaf.variable}.{leaf.attribute}", span=leaf.span)
        return leaf

    return replace(query, formula=_rewritten(query.formula, own)) if known else query


def dotted_names(query: t.Query) -> tuple[str, ...]:
    """The names with a dot that the query has for attributes."""
    found: dict[str, None] = {}
    for node in _nodes(query):
        match node:
            case t.Attribute(name):
                found[name] = None
            case t.Ref(_, name) | t.Prev(name) | t.PartRef(name) | t.AttributeWindow(_, name):
                found[name] = None
            case t.SelectItem(_, names):
                found |= dict.fromkeys(names)
    return tuple(name for name in found if "." in name)


def _nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for item in node:
            yield from _nodes(item)
    elif is_dataclass(node):
        yield node
        for field in fields(node):
            yield from _nodes(getattr(node, field.name))


def _rewritten(node: Any, own: Any) -> Any:
    match node:
        case t.Bracket(_, predicate):
            return replace(node, predicate=replaced(predicate, own))
        case tuple():
            return tuple(_rewritten(item, own) for item in node)
        case _ if is_dataclass(node) and not isinstance(node, type):
            changed = {f.name: _rewritten(getattr(node, f.name), own) for f in fields(node) if f.name != "span"}
            return replace(node, **changed)
        case _:
            return node
