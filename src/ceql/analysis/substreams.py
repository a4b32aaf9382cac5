"""Claims that make substreams: where every event of a match has one value in common, the stream can be split by it.

That is what the PARTITION BY clause does, and the loops are at their best on substreams. So a PARTITION BY operator, or
joins, over the whole formula are moved there, if nothing can tell the difference: contiguity, STRICT, `n EVENTS` and
CONSUME BY PARTITION are relative to the substream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ceql.analysis.conditions import of_one_event, variables_of
from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.shape import Claim, Kind, Length, Same, Shape, Test
from ceql.syntax import tree as t

MOST_SIDES = 4  # of an ALL in the loop over states, whose automaton is their product


def split_off(shape: Shape, query: t.Query) -> tuple[tuple[t.Part, ...], Shape]:
    """The keys of the substreams, and the shape without the claims that they settle."""
    if relative_to_substreams(shape, query) is not None:
        return (), shape
    parts: dict[t.Part, None] = {}
    settled: set[int] = set()
    gone: set[int] = set()
    for equality in equalities(shape):
        part = part_of(shape, equality)
        if part is None:
            continue
        denied = denials_of(shape, equality)
        if denied is None:
            continue
        part = with_absent(shape, part, denied)
        if part is not None:
            parts[part] = None
            settled.update(equality.claims)
            gone.update(denied)
    denials = tuple(claim for claim in shape.denials if claim.number not in gone)
    return tuple(parts), replace(shape.without(settled), denials=denials)


def relative_to_substreams(shape: Shape, query: t.Query) -> str | None:
    """What would mean something else on substreams, in words."""
    if any(any(node.contiguous) for node in shape.nodes):
        return "contiguity (: or :+)"
    if query.strategy is t.Strategy.STRICT:
        return "STRICT"
    if query.after_match is not None and query.after_match.skip is not t.Skip.TO_NEXT:
        return f"AFTER MATCH SKIP {query.after_match.skip.value}"
    if isinstance(query.window, t.EventsWindow) or counts_events(shape):
        return "WITHIN n EVENTS"
    return "CONSUME BY PARTITION" if query.consume is t.Consume.PARTITION else None


def counts_events(shape: Shape) -> bool:
    """Whether a window inside the formula counts events."""
    return any(isinstance(c.what, Length) and isinstance(c.what.window, t.EventsWindow) for c in shape.claims)


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


def denials_of(shape: Shape, equality: Equality) -> dict[int, t.Attribute] | None:
    """The denials that say that absent events have the equality's value, each with the attribute that has it.

    None if there is an absence that no denial says this of: it keeps events of other substreams away, too.
    """
    found: dict[int, t.Attribute] = {}
    told: set[int] = set()
    for claim in shape.denials:
        attribute = _absent_attribute(shape, claim, equality)
        if attribute is not None:
            found[claim.number] = attribute
            told.add(claim.absence)
    return found if len(told) == len(shape.absences) else None


def _absent_attribute(shape: Shape, claim: Claim, equality: Equality) -> t.Attribute | None:
    """The attribute of the absent event that a denial says to have the equality's value."""
    match claim.what:
        case Same(terms):
            known = all(set(own) <= set(equality.terms[leaf]) for leaf, own in terms.items() if leaf >= 0)
            own = terms[-1]
        case Test(t.Comparison("=", left, right), variables) if len(variables) == 1:
            (name,), (comparand,) = variables, variables.values()
            if variables_of(left) == {name}:
                left, right = right, left
            if variables_of(right) != {name} or name in variables_of(left):
                return None
            other = of_one_event(right)
            known = all(other in equality.terms[leaf] for leaf in comparand.leaves)
            known &= shape.surely(comparand.scope, comparand.leaves)
            own = (of_one_event(left),)
        case _:
            return None
    return own[0] if known and len(own) == 1 and isinstance(own[0], t.Attribute) else None


def with_absent(shape: Shape, part: t.Part, denied: Mapping[int, t.Attribute]) -> t.Part | None:
    """The key, which absent events have too; None if that would be another attribute of a type than in the match."""
    by_type = {kind: ref.attribute for ref in part.refs for kind in _types(shape, ref)}
    for claim in shape.denials:
        for kind, _ in shape.absences[claim.absence].kinds if claim.number in denied else ():
            if by_type.setdefault(kind, denied[claim.number].name) != denied[claim.number].name:
                return None
    if len(set(by_type.values())) == 1:
        return t.Part((t.PartRef(part.refs[0].attribute, span=part.refs[0].span),), span=part.span)
    refs = tuple(t.PartRef(attribute, kind, span=part.span) for kind, attribute in by_type.items())
    return t.Part(refs, span=part.span)


def _types(shape: Shape, ref: t.PartRef) -> list[str]:
    return [ref.name] if ref.name is not None else [leaf.type for leaf in shape.leaf.values()]


def is_simple(shape: Shape) -> bool:
    """Whether nothing is left that the loop over states cannot do, or would need a large automaton for."""
    small = all(node.kind is not Kind.ALL or len(node.items) <= MOST_SIDES for node in shape.nodes)
    return small and not (shape.claims or shape.denials)
