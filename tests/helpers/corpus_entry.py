"""A random case as an entry of the corpus."""

from __future__ import annotations

import json
import math
from typing import Any

import ceql
import generators
import oracle
import rule_oracle
from ceql.plans import Loop
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query


def as_toml(case: generators.Generated | rule_oracle.RuleCase) -> str:
    """The case as an entry of the corpus, with the matches that the oracle has.

    >>> case = generators.Generated(
    ...     ceql.compile("SELECT * WHERE A AS x ; B FILTER x[s = 'it']").plan.query,
    ...     [{"type": "A", "time": 0, "s": "it", "v": None}, {"type": "B", "time": 1, "f": float("nan")}],
    ... )
    >>> print(as_toml(case))
    [[case]]
    title = "..."
    query = "SELECT * WHERE A AS x ; B FILTER x[s = 'it']"
    events = [
      { type = "A", time = 0, s = "it" },
      { type = "B", time = 1, f = nan },
    ]
    matches = [
      { start = 0, end = 1, events = [0, 1], A = [0], B = [1], x = [0] },
    ]
    """
    lines = []
    if isinstance(case, rule_oracle.RuleCase):
        lines.append(f"# the rule {case.text}, attributes={case.attributes}, within={case.within!r}")
        case = generators.Generated(case.compile().plan.query, case.events)
    query, text = case.query, print_query(case.query)
    short = " ".join(text.split())
    lines += ["[[case]]", 'title = "..."', f"query = {value(short if parse(short) == query else text)}", "events = ["]
    lines += [f"  {table(event)}," for event in case.events]
    lines.append("]")
    if ceql.compile(text).plan.loop is Loop.GROUPS:
        lines.append("correlated = true")
    matches = oracle.matches(query, case.events)
    if oracle.at_most(query) != math.inf:
        return "\n".join([*lines, f"count = {len(matches)}"])
    shown = [{"start": m.start, "end": m.end, "events": m.events, **dict(sorted(m.bindings))} for m in matches]
    return "\n".join([*lines, "matches = [", *(f"  {table(match)}," for match in shown), "]"])


def table(row: dict[str, Any]) -> str:
    return f"{{ {', '.join(f'{name} = {value(v)}' for name, v in row.items() if v is not None)} }}"


def value(v: Any) -> str:
    match v:
        case str():
            return json.dumps(v, ensure_ascii=False)
        case tuple():
            return f"[{', '.join(map(value, v))}]"
        case bool():
            return str(v).lower()
        case _:
            return repr(v)  # also nan and inf
