"""The oracle's aggregates over all matches: one match after the other, one event after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

import oracle
from ceql.syntax import tree
from ceql.syntax.parser import parse_aggregate
from generators import Draw, number_of, one_in, shifted
from oracle_measures import Events, aggregate, same

_FURTHER = ("VARIANCE", "STDDEV", "MEDIAN", "PERCENTILE")


def totals(
    texts: Mapping[str, str], by: Sequence[str], every: int | None, events: Events, matches: Sequence[oracle.Match]
) -> list[dict[str, Any]]:
    """The rows of the table, in order of their keys. A group without keys is there even if nothing matches."""
    groups: dict[tuple[Any, ...], list[oracle.Match]] = {} if by or every else {(): []}
    for match in matches:
        key = [events[match.end][name] for name in by]
        key += [events[match.end]["time"] // every * every] if every else []
        groups.setdefault(tuple(key), []).append(match)
    names = [*by, *(["bucket"] if every else [])]
    return [
        dict(zip(names, key, strict=True)) | {name: _value(text, events, groups[key]) for name, text in texts.items()}
        for key in sorted(groups)
    ]


def _value(text: str, events: Events, matches: Sequence[oracle.Match]) -> Any:
    asked = parse_aggregate(text)
    assert isinstance(asked, tree.Aggregate)
    if asked.variable == "*":
        return len(matches)
    every = [events[i] for match in matches for i in dict(match.bindings).get(asked.variable, ())]
    return aggregate(asked, every, "ms")


def alike(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two tables have the same rows."""
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(same(a[name], b[name]) for name in a) for a, b in zip(one, other, strict=True)
    )


@st.composite
def requests(draw: Draw, query: tree.Query) -> dict[str, Any]:
    """What to ask of the matches of a query: aggregates of what it selects, keys, a stretch of time."""
    from ceql.analysis.scopes import variables
    from ceql.syntax.printer import print_expression

    names = [] if query.distinct else sorted(variables(query))
    asked = {"n": "COUNT(*)"}
    for k in range(draw(st.integers(0, 4)) if names else 0):
        name = draw(st.sampled_from(names))
        function = draw(st.sampled_from(["COUNT", "SUM", "SUM", "AVG", "MIN", "MAX", "DISTINCT", *_FURTHER]))
        distinct, number = function == "DISTINCT", Decimal("0.75") if function == "PERCENTILE" else None
        function = "COUNT" if distinct else function
        operand: tree.Expression | None = number_of(draw, name)
        if distinct:
            operand = tree.Ref(name, draw(st.sampled_from(["v", "f", "s", "time"])))
        elif function == "COUNT" and draw(st.booleans()):
            operand = None
        elif function not in ("SUM", "AVG", *_FURTHER) and one_in(draw, 4):
            operand = tree.Ref(name, draw(st.sampled_from(["s", "time"])))
        elif one_in(draw, 3):
            operand = shifted(draw, tree.Ref(name, "v"))
        asked[f"c{k}"] = print_expression(tree.Aggregate(function, name, operand, distinct, number))
    keys = [part.refs[0].attribute for part in query.partition if len(part.refs) == 1 and part.refs[0].name is None]
    by = draw(st.lists(st.sampled_from(keys), unique=True)) if keys and len(keys) == len(query.partition) else []
    return {"columns": asked, "by": by, "every": draw(st.sampled_from([None, None, 2, 3]))}
