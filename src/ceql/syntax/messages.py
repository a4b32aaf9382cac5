"""Messages about text that the grammar does not accept.

In: lark's exception, which knows the token that was found, and the terminals that were expected. Out: a `QueryProblem`
in plain words, with a guess at what was meant; `habits` knows what people write who come from other languages.
"""

from __future__ import annotations

import re

from lark import Token, UnexpectedInput, UnexpectedToken

from ceql.errors import Span, did_you_mean
from ceql.syntax.habits import habit, place_of
from ceql.syntax.limits import QueryProblem
from ceql.syntax.tree import Strategy

_SIGNS = {
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "DOT": "'.'",
    "RANGE_DOTS": "'..'",
    "SEMICOLON": "';'",
    "COLON": "':'",
    "ARROW": "'->'",
    "PLUS": "'+'",
    "REPEAT": "':+'",
    "MINUS": "'-'",
    "STAR": "'*'",
    "MORETHAN": "'>'",
    "COMPARE": "a comparison",
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a quoted text",
    "STRATEGY": "a strategy",
    "PARTITION": "PARTITION BY",
    "CONSUME": "CONSUME BY",
    "AFTER": "AFTER MATCH SKIP",
    "$END": "the end of the query",
}
_COUNTS = (
    *("PLUS", "REPEAT_ANY", "STAR", "QMARK", "REPEAT_COUNT", "LBRACE"),
    *("NEXT_REPEAT", "NEXT_REPEAT_ANY", "NEXT_REPEAT_COUNT"),
)
# If the first of these terminals is expected, one description stands for all of them.
_GROUPS = (
    (
        ("PREV", "NAME", "QUOTED", "NUMBER", "STRING", "TRUE", "FALSE", "NULL", "MINUS", "LPAR"),
        "an attribute or a value",
    ),
    (
        ("COMPARE", "MORETHAN", "IN", "LIKE", "RLIKE", "BETWEEN", "IS", "NOT"),
        "a comparison (=, <, IN, LIKE, BETWEEN, IS)",
    ),
    (("MINUS", "PLUS", "STAR", "SLASH", "PERCENT"), "an arithmetic operator"),
    (("QUOTED", "NAME"), "a name"),
    (("REPEAT", *_COUNTS), "a count (+, *, ?, {n,m})"),
)
# Places where the grammar takes any name, and the builder only some.
_CHOICES = {
    frozenset({"NAME", "LSQB"}): "EVENTS, a unit of time or '['",
    frozenset({"NAME", "PARTITION"}): "NONE, PARTITION or ANY",
}
_ORDER = [
    "NAME",
    "DOT",
    "MORETHAN",
    "AS",
    "SEMICOLON",
    "COLON",
    "ARROW",
    "ALL",
    "AND",
    "OR",
    "COMMA",
    "FROM",
    "WHERE",
    "FILTER",
]
_ORDER += ["PARTITION", "WITHIN", "CONSUME", "LIMIT", "AFTER", "RPAR", "RSQB", "RBRACE", "$END"]

_QUOTES = {
    "\N{LEFT SINGLE QUOTATION MARK}": "Write plain quotes: '...'.",
    "\N{RIGHT SINGLE QUOTATION MARK}": "Write plain quotes: '...'.",
    "\N{LEFT DOUBLE QUOTATION MARK}": 'Write plain quotes: "...".',
    "\N{RIGHT DOUBLE QUOTATION MARK}": 'Write plain quotes: "...".',
}


def problem_of(error: UnexpectedInput, text: str, accepted: set[str]) -> QueryProblem:
    """The problem that the parser's exception tells of, in the words of the language."""
    place = len(text.rstrip()) if _at_end(error) else error.pos_in_stream or 0
    known = habit(text, place, accepted)
    if known is not None:
        return QueryProblem(known.message, Span(known.start, known.end), known.advice)
    if isinstance(error, UnexpectedToken):
        return _unexpected(error.token, accepted, text)
    found = text[place]
    suggestion = _QUOTES.get(found, "A name with other characters in it is written in backticks: `order id`.")
    shown = f"'{found}'" if found.isprintable() else f"the character U+{ord(found):04X}"
    return QueryProblem(f"Found {shown}, which has no meaning here", Span(place, place + 1), suggestion)


def _at_end(error: UnexpectedInput) -> bool:
    return isinstance(error, UnexpectedToken) and error.token.type == "$END"


def _unexpected(token: Token, accepted: set[str], text: str) -> QueryProblem:
    expected = _listing(_described(accepted))
    if token.type == "$END":
        end = len(text.rstrip())
        if end == 0:
            return QueryProblem("The query is empty", Span(0, 0), "It begins with SELECT.")
        return QueryProblem(
            f"The query ends too early: expected {expected}", Span(end, end + 1), _missing(accepted, text)
        )
    place = Span(token.start_pos or 0, token.end_pos or 0)
    suggestion = _strategy_as_name(token, accepted, text) or _hint(token, accepted) or _spelling(token, accepted)
    suggestion = suggestion or _spelling_before(token, accepted, text)
    return QueryProblem(f"Found '{token}', expected {expected}", place, suggestion or _two_names(token, accepted, text))


def _strategy_as_name(token: Token, accepted: set[str], text: str) -> str | None:
    """`SELECT last, x`: the word was meant to be a variable."""
    words = text[: token.start_pos].split()
    if "NONE" not in accepted or token.type not in ("COMMA", "FROM", "WHERE", "LSQB") or len(words) < 2:
        return None
    word = words[-1]
    if word.upper() not in Strategy.__members__:
        return None
    return f"After SELECT, {word} is a strategy; as the name of a variable it is written in backticks: `{word}`."


def _missing(accepted: set[str], text: str) -> str | None:
    """What to add to a query that ends too early."""
    if text.rstrip().endswith(";"):
        return "A query does not end with ';'."
    if "WHERE" in accepted:
        return "Add WHERE and the events that you look for: WHERE A ; B."
    if accepted == {"NAME", "LSQB"}:
        return "Write WITHIN 5 EVENTS, or a unit of time: WITHIN 5 MINUTES."
    return None


def _described(accepted: set[str]) -> list[str]:
    """The expected terminals in plain words, the common ones first."""
    if frozenset(accepted) in _CHOICES:
        return [_CHOICES[frozenset(accepted)]]
    left = set(accepted)
    words = []
    for members, description in _GROUPS:
        if members[0] in left:
            words.append(description)
            left -= set(members)
    ordered = sorted(left, key=lambda t: (_ORDER.index(t) if t in _ORDER else -1, t))
    return words + [_SIGNS.get(terminal, terminal) for terminal in ordered]


def _listing(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _hint(token: Token, accepted: set[str]) -> str | None:
    """Advice on how tightly operators bind, and on the order of clauses."""
    in_condition = "AND" in accepted
    match token.type:
        case "SEMICOLON" | "COLON" | "ARROW" | "ALL" | "AS" | "REPEAT" if in_condition:
            return "FILTER takes in all that stands to its left: write (A FILTER ...) ; B to go on after it."
        case "COMPARE" | "MORETHAN" if in_condition:
            return "Comparisons are joined by AND: 1 < a AND a < 5."
        case "FILTER" if "WITHIN" in accepted:
            return "FILTER stands before the clause PARTITION BY."
        case "DOT" if "WITHIN" in accepted:
            return "In PARTITION BY, x.a is written in brackets: [x.a]."
        case "COMMA" if accepted == {"FROM", "WHERE"}:
            return "'*' and NONE stand alone: name the variables beside a measure, as in SELECT a, b, DURATION."
        case "FROM" | "WHERE" if "NONE" in accepted:
            return "SELECT needs *, NONE or names; a name that is also a keyword is written in backticks."
        case "FROM" | "WHERE" | "PARTITION" | "WITHIN" | "CONSUME" | "LIMIT" | "AFTER" if "$END" in accepted:
            clauses = "SELECT, FROM, WHERE, PARTITION BY, WITHIN, CONSUME BY, LIMIT, AFTER MATCH"
            return f"Clauses stand in this order: {clauses}."
        case "NAME" if accepted == {"SELECT"} and did_you_mean(token.upper(), ["SELECT"]) is None:
            return "A query begins with SELECT: SELECT * WHERE A ; B."
        case kind if "QUOTED" in accepted and kind.isalpha() and token.isalpha() and kind not in ("NAME", "QUOTED"):
            return f"'{token}' is a reserved word; as a name it is written in backticks: `{token}`."
    return None


def _spelling(token: Token, accepted: set[str]) -> str | None:
    keywords = [terminal for terminal in sorted(accepted) if _SIGNS.get(terminal, terminal).startswith(terminal)]
    if not token[:1].isalpha() or len(token) < 3:
        return None
    return did_you_mean(token.upper(), keywords)


def _spelling_before(token: Token, accepted: set[str], text: str) -> str | None:
    """A guess at the word before the token: in `SELECT MAXX *` the parser stops at the star."""
    words = text[: token.start_pos].split()
    if not words or not words[-1].isalpha() or place_of(accepted) not in ("select", "condition"):
        return None
    known = ["ALL", "ANY", "NEXT", "LAST", "MAX", "STRICT", "DISTINCT", "PREV"]
    if words[-1].upper() in known:
        return None
    return did_you_mean(words[-1].upper(), known)


def _two_names(token: Token, accepted: set[str], text: str) -> str | None:
    """What to write between two names."""
    names = text[: token.start_pos].split()
    if not names or token.type not in ("NAME", "QUOTED", "IN", "IS", "LIKE", "BY"):
        return None
    one = names[-1]
    if place_of(accepted) != "formula":
        last = re.search(r"[^\W\d]\w*\Z", one)
        if last is None or token.type == "QUOTED" or accepted.isdisjoint({"COMMA", "DOT", "RSQB"}):
            return None
        also = " The name of a column stands after AS." if "AS" in accepted else ""
        return f"A name with a space in it is written in backticks: `{last[0]} {token}`.{also}"
    return f"Write {one} ; {token} for '{one} then {token}', {one} AS {token} for a name, `{one} {token}` for one type."
