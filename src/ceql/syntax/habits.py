"""Hints for people who come from SQL, MATCH_RECOGNIZE, Flink or regular expressions: what to write instead.

In: the text, the place where the parser stopped, and the terminals that it expected there. Out: what is wrong, how far
it reaches, and what to write; or None. Each habit is one line of a table, so that a construct that joins the language
takes its line away.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Habit(NamedTuple):
    """What stands at the place (`found`) and just before it (`before`), what is wrong with it, and what to write.

    `message` and `advice` are filled with the groups of both patterns. The caret begins at the group `here` of
    `before`, if it has one. A `message` of None says that what was found has no meaning.
    """

    where: str
    found: str
    message: str | None
    advice: str
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
        # the parser ends a condition at a comma, which goes on with the arguments of a function, before it stops
        ("condition", not accepted.isdisjoint({"AND", "PREV", "RANGE", "FILTER"})),
        ("condition", accepted in ({"DOT"}, {"NOT", "NULL"}, {"RSQB"})),
        ("operand", accepted in ({"NAME", "QUOTED", "LPAR"}, {"NAME", "QUOTED", "LPAR", "NOT"})),
        ("parts", accepted == {"NAME", "QUOTED", "LSQB"} or accepted == {"BY"}),
        ("count", accepted == {"NUMBER", "COMMA"}),
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
            message = one.message or "Found '{all}', which has no meaning here"
            groups["all"] = text[start : found.end()].strip()
            return Advice(start, max(found.end(), start + 1), message.format(**groups), one.advice.format(**groups))
    return None


_NEAR = 200  # characters before the place that are looked at
_WORD = r"(?:`[^`]*`|[^\W\d]\w*)"
_NAME = rf"(?P<name>{_WORD})"
_THEN = (
    "Write ';' for 'then' (other events may come in between), "
    "'->' for 'then the next that fits', ':' for 'as the very next event'."
)
_CONDITIONS = "Conditions stand after FILTER: A AS a FILTER a[price > 100]."
_COMPUTED = "Show the columns that it needs, and compute it of the result; or write a query for each case."
_CASE = r"(?<![\w.`])CASE"
_INTERVAL = r"(?P<here>(?<![\w.`])INTERVAL)"
_NO_QUOTES = "Names stand without quotes; one with other characters in it is written in backticks: `{text}`."
_REGEX = "Write RLIKE: name RLIKE '^A' finds a regular expression in the text."
_NUMBER = r"(?P<here>(?P<number>\d+))"
_QUOTED = r"""(?P<quote>['"])(?P<text>[^'"]*)(?P=quote)"""

HABITS = (
    Habit("anywhere", r";(?=\s*\Z)", "The query ends with ';'", "Leave it out: ';' means 'then'."),
    Habit("anywhere", r"#|/\*|//(?!\s*\d)", None, "A comment begins with -- and goes to the end of the line."),
    Habit(
        "anywhere",
        r"\*\s*\)",
        "COUNT(*) has no meaning here",
        "COUNT(x) is how many events of x a match has. matches.count() is how many matches there are.",
        before=r"(?P<here>\bCOUNT)\s*\(",
    ),
    Habit(
        "anywhere",
        r"PREV\s*[.(]",
        "PREV cannot stand here",
        "It stands in conditions: x[price > PREV.price]. SELECT shows events of the match: x.price, FIRST(x.price).",
    ),
    # formulas
    Habit("formula", r"=>|~>|\N{RIGHTWARDS ARROW}|\N{RIGHTWARDS DOUBLE ARROW}", None, _THEN),
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
    Habit("count", r"[^\W\d]|`", "Found a condition in a formula", _CONDITIONS, r"(?P<here>\{)"),
    Habit("name", r"[-\d'\"(]", "Found a condition in a formula", _CONDITIONS, r">"),
    # where a formula has to begin or go on
    Habit(
        "operand",
        r"(?P<word>FILTER|WITHIN|PARTITION\s+BY|CONSUME\s+BY|LIMIT|OR|ALL)\b",
        "Found '{word}' after '{sign}'",
        "Remove the '{sign}': {word} belongs to the formula before it.",
        r"(?P<sign>[;:]|->)",
    ),
    Habit("operand", r"[;:]|->", "Found '{all}' after another", "One is enough: A ; B.", r"(?:[;:]|->)"),
    Habit("operand", _QUOTED, "Found a text in a formula", _NO_QUOTES),
    Habit("operand", r"(?P<text>\d\w*)", None, "A name that begins with a digit is written in backticks: `{text}`."),
    Habit("operand", r"[!~]", "Found '{all}' before an event", "Write NOT: A ; NOT B ; C."),
    Habit("operand", r"not\b", "Found '{all}' after another", "One is enough: A ; NOT B ; C.", r"\bNOT"),
    Habit(
        "operand",
        r"[.*\[^$]",
        None,
        "A formula names types, A OR B for one of several. A match begins and ends anywhere; ';' skips events.",
    ),
    Habit("formula", r"-", None, f"{_THEN} A name with '-' in it is written in backticks."),
    Habit("formula", r"\$", None, "Leave it out: a match ends with its last event."),
    # conditions
    Habit(
        "condition",
        r">",
        "Found '->' in a condition",
        "FILTER takes in all that stands to its left: write (A FILTER ...) -> B to go on after it.",
        r"(?P<here>-)(?<!\s)",
    ),
    Habit("condition", r"&&?", None, "Write AND."),
    Habit("condition", r"\|\|?", None, "Write OR."),
    Habit(
        "condition",
        rf"\(\s*(?:{_WORD}\s*\.\s*)?(?P<name>{_WORD}(?:\s*\.\s*{_WORD})*)\s*\)?",
        "PREV is no function",
        "Write PREV.{name} for the value of the event before this one in the match.",
        r"(?P<here>\bprev)",
    ),
    Habit("condition", r"\(", "PREV is no function", "Write PREV.price.", r"(?P<here>\bPREV)"),
    Habit("condition", r"(?=\W|\Z)", "PREV has no attribute here", "Write PREV.price.", r"(?P<here>\bPREV)"),
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
        "clauses condition",
        r"-(?P<rest>\w+)",
        "Found '-' in a name",
        "A name with other characters in it is written in backticks: `{name}-{rest}`.",
        rf"{_NAME}(?<!\s)",
    ),
    Habit("condition", r"::\s*\w+", None, "Leave it out: a text is compared with a column in the type of the column."),
    Habit(
        "condition",
        _WORD,
        "There is no CASE",
        "Write the cases with AND and OR: x.a = 1 AND x.b > 2 OR x.a != 1 AND x.b > 5.",
        rf"(?P<here>{_CASE})",
    ),
    Habit("anywhere", r"\w+", "There is no CASE", _COMPUTED, rf"(?P<here>{_CASE})"),
    Habit("anywhere", r"[<>=!]=?", "There is no IF", _COMPUTED, r"(?P<here>\bIIF\s*\([^()]*|\bIF\s*\([^()]*)"),
    Habit(
        "condition select",
        r"""['"]?\s*(?P<number>\d+(?:\.\d+)?)\s*['"]?\s*(?P<unit>[^\W\d]\w*)['"]?""",
        None,
        "Write the duration alone: {number} {unit}.",
        _INTERVAL,
    ),
    Habit("condition select", r"['\"\d]", None, "Write the duration alone: 1 HOUR 30 MINUTES.", _INTERVAL),
    Habit("condition", r"\^|\*", None, "There is no power: write x * x.", r"\*?"),
    Habit("condition", r"/", None, "There is no division that rounds: write x / y.", r"(?P<here>/)"),
    Habit("condition", r"[$?@:]", None, "There are no parameters: write the value itself, a text in quotes."),
    # SELECT and FROM
    Habit("start", r"(?:where|from)\b", None, "A query begins with SELECT: SELECT * WHERE A ; B."),
    Habit("name", r"\*", None, "Write {name} alone: it shows all attributes.", rf"(?P<here>{_NAME}\.)"),
    Habit("select", r"\d+", None, "Write LIMIT {all} at the end, for that many matches at each end."),
    Habit("select name", _QUOTED, "Found a text where a name belongs", _NO_QUOTES),
    Habit(
        "anywhere",
        r"(?=(?:where|from)\b)",
        "Found '{word} *'",
        "The strategies are ALL, ANY, NEXT, LAST, MAX and STRICT: SELECT NEXT *.",
        r"(?P<here>\b(?P<word>first|one|longest|shortest|every|greedy|top|latest)\s*\*)",
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
    Habit(
        "anywhere",
        r"(?:FROM|WHERE)\b",
        "'{name}' is no strategy",
        "Before the star stands nothing, or one of ALL, ANY, NEXT, LAST, MAX, STRICT.",
        rf"SELECT\s+(?:DISTINCT\s+)?(?P<here>{_NAME})\s*\*",
    ),
)
