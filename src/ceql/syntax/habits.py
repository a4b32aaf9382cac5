"""What people write who come from SQL, MATCH_RECOGNIZE, Flink or regular expressions, and what to write instead.

In: the text, the place where the parser stopped, and the terminals that it expected there. Out: what is wrong, how far
it reaches, and what to write; or None. Each habit is one line of a table, so that a construct that joins the language
takes its line away.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

Found = re.Match[str]


class Habit(NamedTuple):
    """What stands at the place (`found`) and just before it (`before`), what is wrong with it, and what to write.

    `message` and `advice` are filled with the groups of both patterns. The caret begins at the group `here` of
    `before`, if it has one. A `message` of None says that what was found has no meaning.
    """

    where: str
    found: str
    message: str | None
    advice: str | Callable[[Found, Found], str]
    before: str = ""


class Advice(NamedTuple):
    start: int
    end: int
    message: str
    advice: str


def place_of(accepted: set[str]) -> str:
    """In which part of a query the parser stopped, by the terminals that it expected."""
    tests = (
        ("start", "SELECT" in accepted),
        ("select", "NONE" in accepted or {"FROM", "WHERE"} <= accepted),
        ("from", "WHERE" in accepted),
        ("formula", "REPEAT" in accepted),
        ("condition", not accepted.isdisjoint({"AND", "PREV", "RANGE"}) or accepted in ({"DOT"}, {"NOT", "NULL"})),
        ("operand", accepted == {"NAME", "QUOTED", "LPAR"}),
        ("parts", accepted == {"NAME", "QUOTED", "LSQB"} or accepted == {"BY"}),
        ("window", accepted in ({"NUMBER"}, {"NAME", "LSQB"}) or {"NUMBER", "CONSUME"} <= accepted),
        ("name", accepted == {"NAME", "QUOTED"}),
    )
    return next((place for place, holds in tests if holds), "clauses")


def habit(text: str, place: int, accepted: set[str]) -> Advice | None:
    """What to say of the text at `place`, if it is one of the habits."""
    where = place_of(accepted)
    for one in HABITS:
        if one.where != "anywhere" and where not in one.where.split():
            continue
        found = re.compile(one.found, re.IGNORECASE).match(text, place)
        near = max(0, place - _NEAR)
        before = re.compile(rf"{one.before}\s*\Z", re.IGNORECASE).search(text[:place], near) if found else None
        if found and before:
            start = before.start("here") if "here" in before.re.groupindex else place
            groups = found.groupdict("") | before.groupdict("")
            advice = one.advice if isinstance(one.advice, str) else one.advice(found, before)
            message = one.message or "Found '{all}', which has no meaning here"
            groups["all"] = text[start : found.end()].strip()
            return Advice(start, max(found.end(), start + 1), message.format(**groups), advice.format(**groups))
    return None


def _count(found: Found, before: Found) -> str:
    """How to write a count today."""
    name = before["name"] if before["name"] and not before["alias"] else "(...)"
    least, most = int(found["least"] or 0), int(found["most"] or 0)
    if least > 5 or most > 5:
        return f"Counts are not part of the language yet: write {name} ; {name} ; ... as often as it has to come."
    times = max(1, least)
    if found["open"] and not found["most"]:
        return f"Counts are not part of the language yet: write {' ; '.join([name] * times)}+."
    ways = [" ; ".join([name] * n) for n in range(times, max(times, most) + 1)]
    return f"Counts are not part of the language yet: write {' OR '.join(ways if len(ways) == 1 else map(_own, ways))}."


def _own(text: str) -> str:
    return f"({text})" if ";" in text else text


_NEAR = 200  # characters before the place that are looked at
_AGGREGATES = "avg|count|sum|min|max|mean|median|stddev|first|last|collect|array_agg|string_agg|list"
_NAME = r"(?P<name>`[^`]*`|[^\W\d]\w*)"
_THEN = "Write ';' for 'then' (other events may come in between), or ':' for 'as the very next event'."
_CONDITIONS = "Conditions stand after FILTER: A AS a FILTER a[price > 100]."
_NO_FUNCTIONS = "Functions are not part of the language yet: compute the value as a column of the events first."
_NO_AGGREGATES = "Aggregates are not part of the language yet: compute them from the frame of the result."
_NO_QUOTES = "Names stand without quotes; one with other characters in it is written in backticks: `{text}`."
_REGEX = "Write RLIKE: name RLIKE '^A' finds a regular expression in the text."
_NUMBER = r"(?P<here>(?P<number>\d+))"
_FUNCTION = r"(?P<here>(?<!\w)(?P<fn>(?!in\b)[^\W\d]\w*))"
_AGGREGATE = rf"(?P<here>\b(?P<fn>{_AGGREGATES}))"
_QUOTED = r"""(?P<quote>['"])(?P<text>[^'"]*)(?P=quote)"""

HABITS = (
    Habit("anywhere", r";(?=\s*\Z)", "The query ends with ';'", "Leave it out: ';' means 'then'."),
    Habit("anywhere", r"#|/\*|//(?!\s*\d)", None, "A comment begins with -- and goes to the end of the line."),
    # formulas
    Habit(
        "formula operand",
        r"\{\s*(?P<least>\d*)\s*(?P<open>,?)\s*(?P<most>\d*)\s*\}",
        "Found '{all}' in a formula",
        _count,
        rf"(?P<alias>\bAS\s+)?{_NAME}?\s*:?",
    ),
    Habit(
        "formula",
        r"\?",
        "Found '?' in a formula",
        "Parts that may be missing are not part of the language yet: write both ways, (A ; {name} ; B) OR (A ; B).",
        _NAME,
    ),
    Habit(
        "formula",
        r"\*",
        "Found '*' in a formula",
        "Write {name}+ for one or more. For none or more write both ways: (A ; {name}+ ; B) OR (A ; B).",
        _NAME,
    ),
    Habit("formula", r"\?|\*", None, "Write '+' for one or more; write what may be missing as two ways, joined by OR."),
    Habit("operand", r"\*", "Found ':*' in a formula", "Write ':+' for one or more in direct succession.", r":"),
    Habit("formula", r"-+>|=>|~>|\N{RIGHTWARDS ARROW}|\N{RIGHTWARDS DOUBLE ARROW}", None, _THEN),
    Habit("formula", r"(?:then|followed\s*by|followed_by|followedByAny|next|before|precedes)\b", None, _THEN),
    Habit("formula", r",", None, f"{_THEN} Write ALL for 'both, in any order'."),
    Habit(
        "formula",
        r"&&?|and\b",
        "Found '{all}' between events",
        "AND joins conditions after FILTER. Join events by ';' (one then the other) or ALL (both).",
    ),
    Habit("formula", r"\|\|?", None, "Write OR."),
    Habit("formula", r"group\s+by\b", None, "Write PARTITION BY: matches are found in each group by itself."),
    Habit(
        "formula condition parts window clauses",
        r"order\s+by\b",
        None,
        "Leave it out: events are in order of time, and matches come in the order in which they end.",
    ),
    Habit("formula", r"(?:having|if|when|where|with|on|define|such\s+that)\b", None, _CONDITIONS),
    Habit("condition parts window clauses", r"group\s+by\b", None, "Write PARTITION BY, before WITHIN."),
    Habit("clauses", r"offset\b", None, "LIMIT keeps the first matches for each end; take a slice of the result."),
    Habit(
        "formula clauses",
        r"after\s+match\b",
        None,
        "Write CONSUME BY ANY at the end to skip past a match, or SELECT NEXT to keep one match for each end.",
    ),
    Habit("formula", r"\.(?:\.|\*)+", None, "Write ';': other events may come in between."),
    Habit(
        "formula",
        r"\.(?P<rest>[^\W\d]\w*)(?!\w|\s*(?:[<>=!.(]|in\b|is\b|like\b|between\b))",
        "Found '.' in a formula",
        "A name with a dot in it is written in backticks: `{name}.{rest}`.",
        _NAME,
    ),
    Habit(
        "formula",
        r"-(?P<rest>\w+)",
        "Found '-' in a formula",
        "A name with other characters in it is written in backticks: `{name}-{rest}`.",
        rf"{_NAME}(?<!\s)",
    ),
    Habit(
        "formula",
        r"\(",
        "Found '{all}' in a formula",
        "Write A ; B for 'A then B', A ALL B for both in any order, A OR B for one of them.",
        r"\b(?P<here>seq|sequence|pattern|any|or|every|permute)",
    ),
    Habit("formula", r"[({\[.]|[<>=!]=?|in\s*[({\[]|is\b|r?like\b|between\b", None, _CONDITIONS, _NAME),
    Habit("name", r"[-\d'\"(]", "Found a condition in a formula", _CONDITIONS, r">"),
    # where a formula has to begin or go on
    Habit(
        "operand",
        r"(?P<word>FILTER|WITHIN|PARTITION\s+BY|CONSUME\s+BY|LIMIT|OR|ALL)\b",
        "Found '{word}' after '{sign}'",
        "Remove the '{sign}': {word} belongs to the formula before it.",
        r"(?P<sign>[;:])",
    ),
    Habit("operand", r"[;:]", "Found '{all}' after another", "One is enough: A ; B.", r"[;:]"),
    Habit("operand", _QUOTED, "Found a text in a formula", _NO_QUOTES),
    Habit("operand", r"(?P<text>\d\w*)", None, "A name that begins with a digit is written in backticks: `{text}`."),
    Habit(
        "operand",
        r"(?:!|~|not\b)",
        "Found '{all}' before an event",
        "Negation of events is not part of the language yet. With ':' in place of ';' nothing comes between.",
    ),
    Habit(
        "operand",
        r"[.*\[^$]",
        None,
        "A formula names types, A OR B for one of several. A match begins and ends anywhere; ';' skips events.",
    ),
    Habit("formula", r"-", None, f"{_THEN} A name with '-' in it is written in backticks."),
    Habit("formula", r"\$", None, "Leave it out: a match ends with its last event."),
    # conditions
    Habit("condition", r"&&?", None, "Write AND."),
    Habit("condition", r"\|\|?", None, "Write OR."),
    Habit(
        "condition",
        rf"\(\s*{_NAME}?",
        "PREV is no function",
        "Write PREV.{name} for the value of the event before this one in the match.",
        r"(?P<here>\b(?:prev|lag|previous))",
    ),
    Habit("condition", r"(?=\W|\Z)", "PREV has no attribute here", "Write PREV.price.", r"(?P<here>\bPREV)"),
    Habit("condition", r"\(", "There is no aggregate '{fn}'", _NO_AGGREGATES, _AGGREGATE),
    Habit("condition", r"\(", "There is no function '{fn}'", _NO_FUNCTIONS, _FUNCTION),
    Habit("condition", r"\(", None, "Write the values in braces: IN {{1, 2}}.", r"\bIN"),
    Habit("condition", r"\[", None, "Write the values in braces: IN {{1, 2}}.", r"\bIN"),
    Habit("condition", r">", None, "Write >=.", r"(?P<here>=)"),
    Habit("condition", r"<", None, "Write <=.", r"(?P<here>=)"),
    Habit("condition", r"=", None, "Write =.", r"(?P<here>==)"),
    Habit("condition", r":=", None, "Write =."),
    Habit("condition", r"~\*?=?|=~", None, _REGEX),
    Habit("condition", r"~", None, _REGEX, r"(?P<here>=)"),
    Habit("condition", r"(?:regexp|similar\s+to|matches|regexp_like)\b", None, _REGEX),
    Habit("condition", r"(?:not\s+)?ilike\b", None, "Write RLIKE '(?i)^a', which ignores case."),
    Habit("condition", r"!", None, "Write NOT, or != for 'differs from'."),
    Habit("condition", r"(?P<value>true|false)\b", None, "Write '= {value}'.", r"(?P<here>\bis)"),
    Habit("condition", r"(?P<value>\S+)", "After IS comes NULL", "Write = instead.", r"(?P<here>\bis(?:\s+not)?)"),
    Habit("condition", r",(?P<rest>\d\d\d)", "A number has no separators", "Write {number}{rest}.", _NUMBER),
    Habit("condition", r"_(?P<rest>\d+)", "A number has no separators", "Write {number}{rest}.", _NUMBER),
    Habit("condition", r",", "Found ',' between conditions", "Join conditions by AND."),
    Habit("condition", r"\.", "Found a text where a name belongs", _NO_QUOTES, rf"(?P<here>{_QUOTED})"),
    Habit(
        "condition",
        r"\.(?P<rest>\w+)",
        "Found a second dot in a name",
        "A name with a dot in it is written in backticks: `{name}.{rest}`.",
        rf"\.{_NAME}",
    ),
    Habit(
        "condition",
        r"(?:(?:milli|micro|nano)?seconds?|minutes?|hours?|days?|weeks?|min|sec|ms)\b",
        "Found a duration in a condition",
        "Durations stand after WITHIN. To compare times, compute their difference as a column of the events first.",
        r"(?P<here>\d)",
    ),
    Habit("condition", r"::\s*\w+", None, "Leave it out: a text is compared with a column in the type of the column."),
    Habit("condition", r"when\b", None, "There is no CASE: write the cases with AND and OR.", r"(?P<here>case)"),
    Habit("condition", r"\^|\*", None, "There is no power: write x * x.", r"\*?"),
    Habit("condition", r"/", None, "There is no division that rounds: write x / y.", r"(?P<here>/)"),
    Habit("condition", r"[$?@:]", None, "There are no parameters: write the value itself, a text in quotes."),
    # SELECT and FROM
    Habit("start", r"(?:where|from)\b", None, "A query begins with SELECT: SELECT * WHERE A ; B."),
    Habit("select", r"\.\*", None, "Write {name} alone: it shows all attributes.", rf"(?P<here>{_NAME})"),
    Habit("select", r"\.(?P<rest>`[^`]*`|\w+)", None, "Write {name}[{rest}].", rf"(?P<here>{_NAME})"),
    Habit("select", r"\(", "There is no aggregate '{fn}'", _NO_AGGREGATES, _AGGREGATE),
    Habit("select", r"\(", "There is no function '{fn}'", _NO_FUNCTIONS, _FUNCTION),
    Habit("select", r"as\b", None, "SELECT gives no new names: write A AS x after WHERE, or rename the result."),
    Habit("select", r"\d+", None, "Write LIMIT {all} at the end, for that many matches at each end."),
    Habit("select", r"[-+/%]", None, "SELECT does not compute: compute from the frame of the result."),
    Habit("select name", _QUOTED, "Found a text where a name belongs", _NO_QUOTES),
    Habit(
        "select",
        r"\*",
        "Found '{word} *'",
        "The strategies are ALL, ANY, NEXT, LAST, MAX and STRICT: SELECT NEXT *.",
        r"(?P<here>\b(?P<word>first|one|longest|shortest|every|greedy|top|latest))",
    ),
    Habit("from", r"match_recognize\b", None, "Write the pattern after WHERE: WHERE A ; B+ PARTITION BY k."),
    Habit("from", r"(?:(?:left|right|inner|outer|full)\s+)*(?:join|union)\b", None, "Streams are merged: FROM A, B."),
    Habit("from", r"as\b|[^\W\d]\w?\b", None, "A stream has no second name; S>T is type T of stream S."),
    # windows and keys
    Habit("window", _QUOTED, "Found a text after WITHIN", "Write it without quotes: WITHIN 5 MINUTES."),
    Habit("window", r"interval\b", None, "Write the duration alone: WITHIN 5 MINUTES."),
    Habit("window", r"\(", None, "Write it without parentheses: WITHIN 5 MINUTES."),
    Habit("window", r"and\b|,", None, "Write the parts one after the other: 1 MINUTE 30 SECONDS."),
    Habit("window", r"-", None, "Write it with a space: WITHIN 5 MINUTES."),
    Habit("parts", r"(?P<name>\w+)", "Found '{name}' after PARTITION", "Write PARTITION BY {name}.", r"PARTITION"),
    Habit("parts", r"\(", None, "Write the attributes without parentheses: PARTITION BY a, b."),
)
