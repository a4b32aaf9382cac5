"""Measures: what SELECT computes of a match. Which variables and attributes they read, and whether they make sense.

START_TIME, END_TIME and DURATION are read as measures where nothing in the query has that name.
"""

from __future__ import annotations

from dataclasses import replace

from ceql.analysis.conditions import replaced
from ceql.analysis.scopes import binds
from ceql.analysis.selection import selection
from ceql.errors import QueryError, did_you_mean
from ceql.syntax import tree as t
from ceql.syntax.conditions import LAPSES
from ceql.syntax.walking import nodes


def with_lapses(query: t.Query) -> t.Query:
    """The query with START_TIME, END_TIME and DURATION told from variables."""
    known = binds(query.formula)

    def is_lapse(name: str) -> bool:
        return name.upper() in LAPSES and name not in known

    def told(leaf: t.Ref | t.Prev | t.Attribute) -> t.Expression:
        if isinstance(leaf, t.Attribute) and is_lapse(leaf.name):
            return t.Lapse(leaf.name.upper(), span=leaf.span)
        return leaf

    times = [item for item in query.items or () if is_lapse(item.name) and not item.attributes]
    if not times and not query.measures:
        return query
    found = [t.Measure(t.Lapse(item.name.upper(), span=item.span), span=item.span) for item in times]
    found += [replace(measure, expression=replaced(measure.expression, told)) for measure in query.measures]
    found.sort(key=lambda measure: measure.span.start if measure.span is not None else 0)  # as they are written
    items = query.items and tuple(item for item in query.items if item not in times)
    return replace(query, items=items, measures=tuple(found))


def check_measures(query: t.Query, source: str) -> None:
    """Raise `QueryError` for a measure that has no single value."""
    known = binds(query.formula)
    once = selection(query).singles if query.measures and not query.distinct else frozenset[str]()
    for measure in query.measures:
        inside = {id(part) for node in nodes(measure) if isinstance(node, t.Aggregate) for part in nodes(node)}
        for node in nodes(measure):
            match node:
                case t.Attribute(name):
                    raise QueryError(
                        f"'{name}' does not say whose attribute it is", source, node.span, f"Write 'x.{name}'."
                    )
                case t.Ref(variable) | t.Aggregate(_, variable):
                    if variable not in known:
                        hint = did_you_mean(variable, sorted(known)) or f"Bound are: {', '.join(sorted(known))}."
                        raise QueryError(f"nothing in WHERE binds '{variable}'", source, node.span, hint)
                    if query.distinct:
                        raise QueryError(
                            "DISTINCT leaves no variables, and this measure is about one",
                            source,
                            node.span,
                            "Leave DISTINCT out, or select START_TIME, END_TIME and DURATION alone.",
                        )
            if isinstance(node, t.Ref) and node.variable not in once and id(node) not in inside:
                ways = ", ".join(
                    f"{name}({node.variable}.{node.attribute})" for name in ("FIRST", "LAST", "MIN", "MAX")
                )
                raise QueryError(
                    f"'{node.variable}' may be bound to several events, and has no single '{node.attribute}'",
                    source,
                    node.span,
                    f"Write {ways}, or AVG, SUM or COUNT.",
                )


def measured_attributes(query: t.Query) -> tuple[str, ...]:
    """The attributes that measures read."""
    return tuple(sorted({node.attribute for node in nodes(query.measures) if isinstance(node, t.Ref)}))
