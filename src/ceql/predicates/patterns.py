"""LIKE and RLIKE on the linear-time regular expressions of RE2, through Arrow.

RE2 never backtracks, so no pattern can make the engine run away. Patterns that RE2 does not know (look-around,
back-references) are refused when the query is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import QueryError
from ceql.syntax import tree as t
from ceql.syntax.walking import nodes


def like_to_regex(pattern: str) -> str:
    r"""A LIKE pattern as an anchored regular expression: `%` any text, `_` any character.

    >>> like_to_regex("a_%")
    '(?s)\\Aa..*\\z'
    """
    parts = {"%": ".*", "_": "."}
    return r"(?s)\A" + "".join(parts.get(c) or re.escape(c) for c in pattern) + r"\z"


def check_patterns(query: t.Query, source: str) -> None:
    """Raises a `QueryError` if a pattern of the query is no regular expression."""
    for node in nodes(query):
        if isinstance(node, t.Like):
            compile_pattern(node, source)


def compile_pattern(node: t.Like, source: str) -> Callable[[pa.Array], pa.Array]:
    """A function from a text column to a boolean one."""
    regex = node.pattern if node.regex else like_to_regex(node.pattern)
    try:
        pc.match_substring_regex(pa.array([""], pa.large_string()), regex)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise QueryError(
            f"not a regular expression that runs in linear time: {reason}",
            source,
            node.span,
            "The syntax is RE2's: no look-around and no back-references.",
        ) from None
    return lambda values: pc.match_substring_regex(values.cast(pa.large_string()), regex)
