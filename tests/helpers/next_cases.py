"""Random cases of `->` and of AFTER MATCH, of other random cases: joints become `->`, counts reluctant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import oracle
from ceql.syntax import tree
from generators import Draw, Generated

Cases = Callable[..., st.SearchStrategy[Generated]]


def with_next(draw: Draw, formula: tree.Formula) -> tree.Formula:
    """The formula, of which some sequences and counts are joined by `->`."""

    def turned(node: tree.Formula) -> tree.Formula:
        if isinstance(node, tree.Then):
            joints = list(node.joints)
            for k, joint in enumerate(joints):
                if joint is not tree.Joint.TOUCH and draw(st.booleans()):
                    joints[k] = tree.Joint.NEXT
            for k, item in enumerate(node.items):
                if isinstance(item, tree.Not) and 0 < k < len(joints):
                    joints[k] = joints[k - 1]
            return replace(node, joints=tuple(joints))
        if isinstance(node, tree.Plus | tree.Count) and node.joint is tree.Joint.THEN and draw(st.booleans()):
            return replace(node, joint=tree.Joint.NEXT) if not is_question_mark(node) else node
        return node

    return rebuilt(formula, turned)


def is_question_mark(node: tree.Formula) -> bool:
    return isinstance(node, tree.Count) and (node.least, node.most) == (0, 1)


def with_reluctant(draw: Draw, formula: tree.Formula) -> tree.Formula:
    """The formula, of which some counts are reluctant."""

    def turned(node: tree.Formula) -> tree.Formula:
        if isinstance(node, tree.Plus | tree.Count) and draw(st.sampled_from([False, False, True])):
            return replace(node, reluctant=True)
        return node

    return rebuilt(formula, turned)


def rebuilt(node: tree.Formula, turned: Callable[[tree.Formula], tree.Formula]) -> tree.Formula:
    """The formula with each of its parts turned, the inner ones first."""
    match node:
        case tree.Event() | tree.Not():
            return node
        case tree.Then(items=items) | tree.All(items=items) | tree.Or(items=items):
            return turned(replace(node, items=tuple(rebuilt(item, turned) for item in items)))
    return turned(replace(node, formula=rebuilt(node.formula, turned)))


def next_cases(cases: Cases) -> Cases:
    """Cases with `->`."""

    @st.composite
    def built(draw: Draw, *arguments: Any) -> Generated:
        case: Generated = draw(cases(*arguments))
        return case._replace(query=replace(case.query, formula=with_next(draw, case.query.formula)))

    return built


def preferred_cases(cases: Cases) -> Cases:
    """Cases with AFTER MATCH, some with `->`; without ALL."""

    @st.composite
    def built(draw: Draw, *arguments: Any) -> Generated:
        case: Generated = draw(cases(*arguments).filter(lambda case: not has_all(case.query.formula)))
        formula = with_reluctant(draw, with_next(draw, case.query.formula))
        skips = [tree.AfterMatch(skip) for skip in (tree.Skip.PAST_LAST, tree.Skip.TO_NEXT)]
        query = replace(case.query, formula=formula, after_match=draw(st.sampled_from(skips)))
        query = replace(query, strategy=None, limit=None, consume=tree.Consume.NONE, distinct=False)
        return case._replace(query=query)

    return built


def has_all(formula: tree.Formula) -> bool:
    return any(isinstance(node, tree.All) for node in oracle.walk(formula))
