"""Messages of the library in the words of the command line: `--time-unit 'ms'`, not `time_unit='ms'`."""

from __future__ import annotations

import re

from ceql.errors import QueryError

_ARGUMENT = re.compile(
    r"""\b(type|time|time_unit|lateness|memory|threads|order_by|by|every)=(None\b|'[^']*'|"[^"]*"|\w+)?"""
)
_PHRASES = [
    (re.compile(r",? or see Matches\.late\(\)"), ""),
    (re.compile(r"give the lateness as text \('10 seconds'\) or as a timedelta"), "give it as --lateness '10 seconds'"),
    (re.compile(r"give every= as text \('1 minute'\) or as a timedelta"), "give it as --every '1 minute'"),
    (re.compile(r"^every: "), "--every: "),
    (re.compile(r"^gap: "), "--episodes: "),
    (
        re.compile(r"\bgap= is a duration such as .5 minutes. or a timedelta"),
        "--episodes is a duration such as '5 minutes'",
    ),
    (re.compile(r"\bgap="), "--episodes"),
    (re.compile(r"^lateness needs a time column"), "--lateness needs a column of times: name it with --time"),
    (re.compile(r"later than the lateness allows"), "later than --lateness allows"),
    (re.compile(r"; raise max_states, or make"), "; make"),
    (re.compile(r"but max_buffered_rows is (\S+): (.*), or raise the limit"), r"and may hold \1: \2"),
    (re.compile(r"\(given as the (type|time) column\)"), r"(given as --\1)"),
]


def message_of(error: Exception) -> str:
    """The message of an error. The line of the query that it shows stays as it was written."""
    if isinstance(error, QueryError):
        marked = error.caret
        told = QueryError(in_cli_words(error.message), suggestion=in_cli_words(error.suggestion or "") or None)
        told.line, told.column, told.caret = error.line, error.column, marked
        return told._render()
    return in_cli_words(str(error))


def in_cli_words(text: str) -> str:
    """A text that speaks of Python arguments, with the options of the command in their place.

    >>> in_cli_words("Say it with time_unit='s' or 'ms', and raise memory=.")
    "Say it with --time-unit 's' or 'ms', and raise --memory."
    >>> in_cli_words("pass type=None")
    "pass --type ''"
    """
    for phrase, words in _PHRASES:
        text = phrase.sub(words, text)
    return _ARGUMENT.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    value = {None: "", "None": " ''"}.get(match[2], f" {match[2]}")
    return f"--{match[1].replace('_', '-')}{value}"
