r"""LIKE and RLIKE for Java: patterns that find in the JVM exactly what RE2 finds in the engine.

In: a pattern of the query. Out: a regular expression for Spark's RLIKE, or None where the two engines may disagree.
What is read alike by both is not copied but written anew, in a form that leaves Java no choice: a class is a list
of code points (Java's `.` and `\s` are other sets than RE2's), `$` is the very end (Java's also stands before a last
newline), a word is made of ASCII (in Java before 19 it is not). No class holds a surrogate, so that a
search that starts inside a supplementary character finds nothing there.

Java backtracks, where RE2 is linear. So that no text overflows its stack, only single characters may be repeated, and
groups at most be optional. So that none makes it run away, a search may take quadratic time at most: of the repetitions
that could end at more than one place, one is allowed, two after a `^`. LIKE is written with atomic
groups: the leftmost place of each piece is as good as any.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Ranges = list[tuple[int, int]]

LONGEST = 1000  # characters of a pattern: Java's matcher recurses along it
DEEPEST = 50  # groups within groups
MOST_CHOICES = 1000  # what optional parts, alternatives and short repetitions may multiply to
SHORT = 3

_SURROGATES = (0xD800, 0xDFFF)
_LAST = 0x10FFFF
_EVERYTHING: Ranges = [(0, _LAST)]
_NEWLINE: Ranges = [(10, 10)]
_DIGITS: Ranges = [(48, 57)]
_WORD: Ranges = [(48, 57), (65, 90), (95, 95), (97, 122)]
_SPACE: Ranges = [(9, 10), (12, 13), (32, 32)]
_SETS = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_BOUNDARY = "(?:(?<![0-9A-Z_a-z])(?=[0-9A-Z_a-z])|(?<=[0-9A-Z_a-z])(?![0-9A-Z_a-z]))"
_FOLDS = {"k": 0x212A, "s": 0x17F}  # the two letters that have a third form
_REPEAT = re.compile(r"\{([0-9]{1,4})(,?)([0-9]{0,4})\}")
_HEX = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")


@dataclass(frozen=True)
class _Item:
    """A piece of a sequence in Java's syntax: a set of characters that may be repeated, or else."""

    java: str
    values: Ranges | None = None
    needed: bool = True
    long: bool = False


class _Unsupported(Exception):
    """The pattern is outside of what both engines surely read alike."""


def java_like(pattern: str) -> str | None:
    r"""A LIKE pattern as a Java regular expression.

    >>> java_like("a%b_%c")
    '(?s)\\Aa(?>.*?b.).*c\\z'
    """
    if len(pattern) > LONGEST:
        return None
    pieces = ["".join("." if c == "_" else _character(ord(c)) for c in piece) for piece in pattern.split("%")]
    if len(pieces) == 1:
        return rf"(?s)\A{pieces[0]}\z"
    inner = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1] if piece)
    return rf"(?s)\A{pieces[0]}{inner}.*{pieces[-1]}\z"


def java_regex(pattern: str) -> str | None:
    r"""An RE2 pattern, known to be valid, as a Java regular expression.

    >>> java_regex("^a[0-9]+$")
    '\\Aa[0-9]+\\z'
    >>> java_regex(r"(ab)*") is None
    True
    """
    if len(pattern) > LONGEST:
        return None
    try:
        return _Rewriter(pattern).all()
    except _Unsupported:
        return None


class _Rewriter:
    """A recursive descent over RE2's syntax that gives Java's."""

    def __init__(self, pattern: str) -> None:
        flags = re.match(r"\(\?([is]+)\)", pattern)
        self.ignore_case = flags is not None and "i" in flags[1]
        self.dot_all = flags is not None and "s" in flags[1]
        self.text = pattern
        self.place = flags.end() if flags else 0
        self.depth = 0
        self.choices = 1
        self.loose = 0  # long repetitions that may have to be tried at many lengths

    def all(self) -> str:
        branches = self.alternatives()
        anchored = all(branch.startswith(r"\A") for branch in branches)
        if self.place < len(self.text) or self.choices > MOST_CHOICES or self.loose > 1 + anchored:
            raise _Unsupported
        return "|".join(branches)

    def peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def take(self) -> str:
        if self.place >= len(self.text):
            raise _Unsupported
        self.place += 1
        return self.text[self.place - 1]

    def alternatives(self) -> list[str]:
        branches = [self.sequence()]
        while self.peek() == "|":
            self.take()
            branches.append(self.sequence())
        return branches

    def sequence(self) -> str:
        items: list[_Item] = []
        while self.peek() not in ("", "|", ")"):
            items.append(self.item())
        for k, item in enumerate(items):
            following = items[k + 1] if k + 1 < len(items) else None
            self.loose += item.long and not self.ends_sharply(item, following)
        return "".join(item.java for item in items)

    def ends_sharply(self, item: _Item, following: _Item | None) -> bool:
        """Whether a repetition, once it has gone on for as long as it can, need not be tried at shorter lengths."""
        if following is None:
            return self.depth == 0
        if following.values is None or item.values is None:
            return following.java == r"\z"
        return following.needed and not _common(item.values, following.values)

    def item(self) -> _Item:
        match c := self.take():
            case "^":
                return self.unrepeated(r"\A")
            case "$":
                return self.unrepeated(r"\z")
            case "(":
                return self.group()
            case "[":
                return self.repeated(self.bracket())
            case ".":
                return self.repeated(_EVERYTHING if self.dot_all else _without(_NEWLINE))
            case "\\":
                special = {"A": r"\A", "z": r"\z", "b": _BOUNDARY}.get(self.peek())
                if special is not None:
                    self.take()
                    return self.unrepeated(special)
                found = self.escape()
                return self.repeated(self.folded([(found, found)]) if isinstance(found, int) else found)
            case "*" | "+" | "?" | "{":
                raise _Unsupported
            case _:
                return self.repeated(self.folded([(ord(c), ord(c))]))

    def group(self) -> _Item:
        if self.text.startswith("?:", self.place):
            self.place += 2
        elif self.peek() == "?":
            raise _Unsupported
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Unsupported
        branches = self.alternatives()
        self.depth -= 1
        if self.take() != ")":
            raise _Unsupported
        optional = self.peek() == "?"
        if optional:
            self.take()
            self.skip_lazy()
        self.choices *= len(branches) + optional
        return self.unrepeated(f"(?:{'|'.join(branches)})" + "?" * optional)

    def unrepeated(self, java: str) -> _Item:
        """`java`, once it is clear that it is not repeated."""
        if self.peek() and self.peek() in "*+?{":
            raise _Unsupported
        return _Item(java)

    def repeated(self, values: Ranges) -> _Item:
        """A character of a set, with the repetition that follows in the text."""
        sign = self.peek()
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (1, 1))
        if sign == "{":
            found = _REPEAT.match(self.text, self.place)
            if found is None:
                raise _Unsupported
            sign = found[0]
            least = int(found[1])
            most = int(found[3]) if found[3] else None if found[2] else least
        elif not sign or sign not in "*+?":
            return _Item(_set(values), values)
        self.place += len(sign)
        self.skip_lazy()
        long = most is None or most - least > SHORT
        self.choices *= 1 if most is None or long else most - least + 1
        return _Item(self.unrepeated(_set(values) + sign).java, values, least > 0, long)

    def skip_lazy(self) -> None:
        if self.peek() == "?":  # which match is found first makes no difference
            self.take()

    def escape(self) -> int | Ranges:
        """A character, or a set of them, after a backslash."""
        c = self.take()
        if c.lower() in _SETS:
            if self.ignore_case and c in "wW":
                raise _Unsupported
            values = _SETS[c.lower()]
            return values if c.islower() else _without(values)
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c == "x":
            found = _HEX.match(self.text, self.place - 1)
            if found is None:
                raise _Unsupported
            self.place = found.end()
            return int(found[1] or found[2], 16)
        if c.isascii() and c.isprintable() and not c.isalnum() and c != "_":
            return ord(c)
        raise _Unsupported

    def bracket(self) -> Ranges:
        negated = self.peek() == "^"
        if negated:
            self.take()
        values: Ranges = []
        while self.peek() != "]" or not values:
            low = self.member()
            if isinstance(low, int):
                high: int | Ranges = low
                if self.peek() == "-" and self.text[self.place + 1 : self.place + 2] != "]":
                    self.take()
                    high = self.member()
                if not isinstance(high, int) or high < low:
                    raise _Unsupported
                values += self.folded([(low, high)])
            elif self.peek() == "-":
                raise _Unsupported
            else:
                values += low
        self.take()
        return _without(values) if negated else values

    def member(self) -> int | Ranges:
        c = self.take()
        if c == "\\":
            return self.escape()
        if c in "[]" or (c == "-" and self.peek() != "]" and self.text[self.place - 2] not in "[^"):
            raise _Unsupported
        return ord(c)

    def folded(self, values: Ranges) -> Ranges:
        """With the letters' other cases under (?i)."""
        if not self.ignore_case:
            return values
        if any(high > 127 for _, high in values):
            raise _Unsupported
        letters = {chr(c).lower() for low, high in values for c in range(low, high + 1) if chr(c).isalpha()}
        others = {c for letter in letters for c in (ord(letter), ord(letter.upper()), _FOLDS.get(letter, ord(letter)))}
        return values + [(c, c) for c in sorted(others)]


def _without(values: Ranges) -> Ranges:
    """All other characters."""
    gaps, start = [], 0
    for low, high in sorted(values):
        if low > start:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    return [*gaps, (start, _LAST)] if start <= _LAST else gaps


def _common(some: Ranges, others: Ranges) -> bool:
    return any(a <= d and c <= b for a, b in some for c, d in others)


def _set(values: Ranges) -> str:
    plain = _without([*_without(values), _SURROGATES])
    if not plain:
        raise _Unsupported
    if len(plain) == 1 and plain[0][0] == plain[0][1]:
        return _character(plain[0][0])
    ranges = (_character(a) if a == b else f"{_character(a)}-{_character(b)}" for a, b in plain)
    return f"[{''.join(ranges)}]"


def _character(code: int) -> str:
    return chr(code) if code < 128 and chr(code).isalnum() else f"\\x{{{code:x}}}"
