"""Texts that nobody should write: queries and rules with words lost, doubled or changed.

A text is compiled or refused by an error of ceql's own. What is compiled is explained, printed, read again and run.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Sequence
from typing import Any

import ceql
from ceql.syntax import tree as t
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query

_TOKENS = re.compile(r"\s+|'(?:[^']|'')*'|\w+|[^\w\s]")
_WORDS = re.split(
    " ",
    "SELECT DISTINCT ALL ANY NEXT LAST MAX STRICT NONE FROM WHERE AS OR FILTER AND NOT PARTITION BY WITHIN EVENTS "
    "SECONDS DAYS CONSUME LIMIT NULL TRUE IN LIKE RLIKE BETWEEN IS PREV COUNT SUM AVG FIRST LENGTH YEAR "
    "* + ; : ? {2,3} {0} {1000000} :+ ( ) [ ] { } , . .. = != < <- / % - ' '' \" -- 0 1e400 "
    "9223372036854775808 1.5 'x' \0 \ud800 A B x é #",
)
RULE = "Q(x, y) <- T(x), S(x, y), R(x, y)"
ATTRIBUTES = {"T": ["a"], "S": ["a", "b"], "R": ["a", "b"]}


def changed(text: str, dice: random.Random) -> str:
    """The text with some words lost, doubled, moved or taken for others."""
    tokens = _TOKENS.findall(text)
    for _ in range(dice.choice([0, 1, 1, 1, 2, 3])):
        at = dice.randrange(len(tokens))
        match dice.randrange(5):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] = tokens[at] * 2
            case 2:
                other = dice.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = dice.choice(tokens)
            case _:
                tokens[at] = f" {dice.choice(_WORDS)} "
    return "".join(tokens)


def query(text: str, events: Sequence[dict[str, Any]]) -> t.Query | None:
    """Compile a text and use it; the tree, if it is a query."""
    try:
        compiled = ceql.compile(text)
    except ceql.CeqlError:
        return None
    tree = compiled.plan.query
    assert parse(print_query(tree)) == tree, "printed, it is another query"
    with contextlib.suppress(ceql.CeqlError):
        assert compiled.explain()
    streams = tree.streams
    inputs: Any = {name: list(events) for name in streams} if len(streams) > 1 else list(events)
    with contextlib.suppress(ceql.CeqlError):
        found = compiled.run(inputs).count()
        if found < 10_000:
            assert compiled.run(inputs).to_arrow().num_rows == found
    with contextlib.suppress(ceql.CeqlError):
        assert str(compiled.diagnose(inputs))
    return tree


def rule(dice: random.Random) -> bool:
    """A rule that was changed, over a few events."""
    text, within = (
        changed(RULE, dice),
        dice.choice([None, "5 events", "3 seconds", "x", "-1 events", "9" * 30 + " events"]),
    )
    attributes = {name: dice.sample(names, len(names)) for name, names in ATTRIBUTES.items()}
    if dice.random() < 0.1:
        attributes.pop("S")
    try:
        compiled = ceql.rule(text, attributes=attributes, within=within)
        rows = [
            {"type": dice.choice("TSR"), "time": k, "a": dice.randrange(2), "b": dice.randrange(2)} for k in range(9)
        ]
        assert compiled.run(rows).count() == compiled.run(rows).to_arrow().num_rows
    except ceql.CeqlError:
        return False
    return True
