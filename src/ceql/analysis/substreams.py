"""Claims that make substreams: where every event of a match has one value in common, the stream can be split by it.

That is what the PARTITION BY clause does, and the loops are at their best on substreams. So a PARTITION BY operator, or
joins, over the whole formula are moved there, if nothing can tell the difference: contiguity, STRICT, `n EVENTS` and
CONSUME BY PARTITION are relative to the substream.
"""

from __future__ import annotations

from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.shape import Kind, Shape
from ceql.syntax import tree as t

MOST_SIDES = 4  # of an ALL in the loop over states, whose automaton is their product


def split_off(shape: Shape, query: t.Query) -> tuple[tuple[t.Part, ...], Shape]:
    """The keys of the substreams, and the shape without the claims that they settle."""
    if relative_to_substreams(shape, query) is not None:
        return (), shape
    parts: dict[t.Part, None] = {}
    settled: set[int] = set()
    for equality in equalities(shape):
        part = part_of(shape, equality)
        if part is not None:
            parts[part] = None
            settled.update(equality.claims)
    return tuple(parts), shape.without(settled)


def relative_to_substreams(shape: Shape, query: t.Query) -> str | None:
    """What would mean something else on substreams, in words."""
    if any(any(node.contiguous) for node in shape.nodes):
        return "contiguity (: or :+)"
    if query.strategy is t.Strategy.STRICT:
        return "STRICT"
    if isinstance(query.window, t.EventsWindow):
        return "WITHIN n EVENTS"
    return "CONSUME BY PARTITION" if query.consume is t.Consume.PARTITION else None


def part_of(shape: Shape, equality: Equality) -> t.Part | None:
    """The key of an equality that every event of a match takes part in; each type of event has its own attribute."""
    if shape.nodes[equality.scope].parent >= 0 or equality.terms.keys() != shape.leaf.keys():
        return None
    by_type: dict[str, t.Attribute] = {}
    for number, terms in equality.terms.items():
        kind = shape.leaf[number].type
        if len(terms) != 1 or not isinstance(terms[0], t.Attribute) or by_type.setdefault(kind, terms[0]) != terms[0]:
            return None
    span = shape.claim(equality.claims[0]).span
    if len(set(by_type.values())) == 1:
        (attribute,) = set(by_type.values())
        return t.Part((t.PartRef(attribute.name, span=attribute.span),), span=span)
    refs = tuple(t.PartRef(attribute.name, kind, span=attribute.span) for kind, attribute in by_type.items())
    return t.Part(refs, span=span)


def is_simple(shape: Shape) -> bool:
    """Whether nothing is left that the loop over states cannot do, or would need a large automaton for."""
    return not shape.claims and all(node.kind is not Kind.ALL or len(node.items) <= MOST_SIDES for node in shape.nodes)
