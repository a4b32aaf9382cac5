"""Checks that NOT stands where it may, with what it needs.

In: the tree of a query or formula. Out: nothing, or a `QueryProblem` at the NOT that has no meaning there. NOT is an
item of a sequence. At the beginning and at the end of a match it looks beyond the match, so it may stand there only if
that is the beginning or the end of the whole match.
"""

from __future__ import annotations

from ceql.errors import Span
from ceql.syntax import tree
from ceql.syntax.limits import QueryProblem
from ceql.syntax.walking import nodes

_ALONE = "NOT says what does not come between, before or after other events: write A ; NOT B ; C."


def check_absence(root: object) -> None:
    """Refuse a NOT that has no meaning where it stands."""
    if not any(isinstance(node, tree.Not) for node in nodes(root)):
        return
    formula = root.formula if isinstance(root, tree.Query) else root
    _visit(formula, leads=True, trails=True)
    _check_names(root)
    last = trailing(formula)
    if isinstance(root, tree.Query) and last:
        _check_clauses(root, last[0])


def trailing(formula: object) -> tuple[tree.Not, ...]:
    """The NOTs at the end of a formula.

    >>> from ceql.syntax.parser import parse_formula
    >>> [absent.variable for absent in trailing(parse_formula("A ; NOT B AS b ; C ; NOT D AS d FILTER d[v > 1]"))]
    ['d']
    """
    while isinstance(formula, tree.Filter | tree.PartitionBy | tree.As):
        formula = formula.formula
    if not isinstance(formula, tree.Then):
        return ()
    there = [k for k, item in enumerate(formula.items) if not isinstance(item, tree.Not)]
    own = tuple(item for item in formula.items[there[-1] + 1 :] if isinstance(item, tree.Not)) if there else ()
    return (*trailing(formula.items[there[-1]]), *own) if there else ()


def _visit(formula: object, leads: bool, trails: bool) -> None:
    match formula:
        case tree.Not():
            raise QueryProblem("NOT stands by itself", _place(formula), _ALONE)
        case tree.Then(items, joints):
            _check_chain(items, joints, leads, trails)
            there = [item for item in items if not isinstance(item, tree.Not)]
            for k, item in enumerate(there):
                _visit(item, leads and k == 0, trails and k == len(there) - 1)
        case tree.Filter(inner) | tree.PartitionBy(inner) | tree.As(inner):
            _visit(inner, leads, trails)
        case tree.Or(items):
            for branch in items:
                _visit(branch, leads, False)
        case tree.All(items):
            for side in items:
                _visit(side, False, False)
        case tree.Plus(inner) | tree.Count(inner) | tree.Within(inner):
            _visit(inner, False, False)


def _check_chain(items: tuple[tree.Formula, ...], joints: tuple[tree.Joint, ...], leads: bool, trails: bool) -> None:
    for k, item in enumerate(items):
        beside = joints[max(0, k - 1) : k + 1] if isinstance(item, tree.Not) else ()
        if tree.Joint.TOUCH in beside:
            raise QueryProblem(
                "':' stands beside NOT", _place(item), "':' already says that nothing comes between: write ';'."
            )
        if len(set(beside)) > 1:
            raise QueryProblem(
                "NOT stands between '->' and ';'",
                _place(item),
                "NOT takes no place between its neighbours: write the same sign on both sides.",
            )
    first, last = items[0], items[-1]
    if all(isinstance(item, tree.Not) for item in items):
        raise QueryProblem("NOT stands by itself", _place(first), _ALONE)
    for k, item in enumerate(items):
        before, after = items[:k], items[k + 1 :]
        for side in (before, after):
            there = [other for other in side if not isinstance(other, tree.Not)]
            if isinstance(item, tree.Not) and there and all(map(may_be_missing, there)):
                raise QueryProblem(
                    "All that stands on one side of NOT may be missing",
                    _place(item),
                    "NOT looks from one event of the match to another: write both ways, joined by OR.",
                )
    for item, where, allowed in ((first, "beginning", leads), (last, "end", trails)):
        if isinstance(item, tree.Not) and not allowed:
            raise QueryProblem(
                f"NOT stands at the {where} of a part of the match",
                _place(item),
                "Write it between its neighbours, in one sequence: A ; NOT B ; C FILTER ...",
            )


def may_be_missing(formula: tree.Formula) -> bool:
    """Whether a formula may have no event."""
    match formula:
        case tree.Count(inner, least):
            return least == 0 or may_be_missing(inner)
        case tree.As(inner) | tree.Plus(inner) | tree.Filter(inner) | tree.PartitionBy(inner) | tree.Within(inner):
            return may_be_missing(inner)
        case tree.Or(items):
            return any(map(may_be_missing, items))
        case tree.Then(items) | tree.All(items):
            return all(map(may_be_missing, items))
        case _:
            return False


def _check_names(root: object) -> None:
    every = list(nodes(root))
    bound = {node.variable for node in every if isinstance(node, tree.As)}
    absent = [node for node in every if isinstance(node, tree.Not) and node.variable is not None]
    forbidden = {id(event) for node in every if isinstance(node, tree.Not) for event in events_of(node)}
    bound |= {node.type for node in every if isinstance(node, tree.Event) and id(node) not in forbidden}
    for node in absent:
        if node.variable in bound:
            raise QueryProblem(
                f"'{node.variable}' is the name of an event of the match, and of one that is absent",
                _place(node),
                "Give NOT a name of its own.",
            )
    names = {node.variable for node in absent} | {
        e.type for n in every if isinstance(n, tree.Not) for e in events_of(n)
    }
    for item in (root.items or ()) if isinstance(root, tree.Query) else ():
        if item.name in names - bound:
            raise QueryProblem(
                f"'{item.name}' is absent from every match, so it cannot be selected",
                item.span or Span(0, 0),
                "Select variables of the events that are there.",
            )


def events_of(absent: tree.Not) -> tuple[tree.Event, ...]:
    """The events that must not come."""
    inner = absent.formula
    return (inner,) if isinstance(inner, tree.Event) else tuple(e for e in inner.items if isinstance(e, tree.Event))


def _check_clauses(query: tree.Query, last: tree.Not) -> None:
    if query.window is None or isinstance(query.window, tree.AttributeWindow):
        raise QueryProblem(
            "NOT at the end needs WITHIN a duration or a number of events",
            _place(last),
            "Without it, there is no time at which the event has not come: add WITHIN 5 MINUTES.",
        )
    if query.consume is not tree.Consume.NONE:
        raise QueryProblem(
            "CONSUME BY does not go with NOT at the end",
            _place(last),
            "Such a match is decided long after its last event: leave CONSUME BY out.",
        )


def _place(node: object) -> Span:
    return getattr(node, "span", None) or Span(0, 0)
