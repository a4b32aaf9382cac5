"""Random statements with MATCH_RECOGNIZE, and the rows that they give by the definition.

Expressions are drawn as SQL together with functions of the rows that a match has so far; `row_pattern_oracle` matches
by backtracking. Nothing is shared with the package.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import row_pattern_oracle as oracle
from row_pattern_oracle import Alt, Edge, Hidden, Perm, Rep, Row, Seq, SkipError, Var


class Here(NamedTuple):
    """What an expression is computed of."""

    rows: list[Row]  # of the partition
    start: int
    labels: tuple[str, ...]  # of the rows of the match so far, the current one last
    final: tuple[str, ...]  # of all rows of the match, as far as they are known
    number: int


Value = Any


@dataclass
class Expr:
    text: str
    value: Callable[[Here], Value]


@dataclass
class Case:
    sql: str
    rows: list[Row]
    expected: list[tuple[Value, ...]] | None  # None: AFTER MATCH SKIP fails
    in_define: bool  # whether a condition looks at rows of the match


def places(here: Here, names: tuple[str, ...] | None, final: bool = False) -> list[int]:
    labels = here.final if final else here.labels
    return [here.start + k for k, label in enumerate(labels) if names is None or label in names]


def at(here: Here, place: int | None, column: str = "price") -> Value:
    return here.rows[place][column] if place is not None and 0 <= place < len(here.rows) else None


def label_at(here: Here, place: int | None) -> Value:
    if place is None or not 0 <= place - here.start < len(here.final):
        return None
    return here.final[place - here.start]


class Drawing:
    """Draws expressions over some variables."""

    def __init__(self, rnd: random.Random, variables: list[str], subsets: dict[str, tuple[str, ...]]):
        self.rnd = rnd
        self.names: list[tuple[str, tuple[str, ...] | None]] = [(v, (v,)) for v in variables]
        self.names += list(subsets.items())
        self.looks_back = False

    def spot(self, define: bool) -> tuple[str, Callable[[Here], int | None], tuple[str, ...] | None]:
        """A look at a row: text with {} for what is looked at, and the row."""
        rnd = self.rnd
        name, own = rnd.choice([*self.names, ("", None), ("", None)])
        dot = f"{name}." if name else ""
        final = not define and rnd.random() < 0.3
        kind, k, j = rnd.randrange(7), rnd.randrange(3), rnd.randrange(1, 3)
        mode = rnd.choice(["FINAL "]) if final else rnd.choice(["", "", "RUNNING "])
        self.looks_back |= kind != 1 or bool(name)

        def nth(here: Here, last: bool, offset: int) -> int | None:
            found = places(here, own, final)
            if offset >= len(found):
                return None
            return found[-1 - offset] if last else found[offset]

        def moved(place: int | None, by: int) -> int | None:
            return None if place is None else place + by

        match kind:
            case 0 | 1:
                final = False
                return dot + "{}", lambda here: nth(here, True, 0), own
            case 2:
                return f"{mode}LAST({dot}{{}}, {k})", lambda here: nth(here, True, k), own
            case 3:
                return f"{mode}FIRST({dot}{{}}{f', {k}' if k else ''})", lambda here: nth(here, False, k), own
            case 4:
                final = False
                by, word = rnd.choice([(-1, "PREV"), (1, "NEXT")])
                return f"{word}({dot}{{}}, {j})", lambda here: moved(nth(here, True, 0), by * j), own
            case 5:
                return f"PREV({mode}LAST({dot}{{}}, {k}), {j})", lambda here: moved(nth(here, True, k), -j), own
            case _:
                return f"NEXT({mode}FIRST({dot}{{}}))", lambda here: moved(nth(here, False, 0), 1), own

    def number(self, define: bool, deep: int = 1) -> Expr:
        rnd = self.rnd
        kind = rnd.randrange(12)
        if kind < 5:
            text, place, _ = self.spot(define)
            return Expr(text.format("price"), lambda here: at(here, place(here)))
        if kind < 7:
            constant = rnd.randrange(4)
            return Expr(str(constant), lambda _: constant)
        if kind == 7 and deep:
            a, b = self.number(define, 0), self.number(define, 0)
            sign = rnd.choice("+-*")
            return Expr(f"({a.text} {sign} {b.text})", lambda here: arithmetic(sign, a.value(here), b.value(here)))
        if define and kind == 8 and deep:
            self.looks_back = True
            return Expr("MATCH_NUMBER()", lambda here: here.number)
        if define and kind == 9:
            word, fold = rnd.choice([("MIN", min), ("MAX", max)])
            sofar = rnd.random() < 0.5
            over = "ROWS UNBOUNDED PRECEDING" if sofar else ""

            def window(here: Here) -> Value:
                upto = here.start + len(here.labels) if sofar else len(here.rows)
                return fold((v for row in here.rows[:upto] if (v := row["price"]) is not None), default=None)

            return Expr(f"{word}(price) OVER ({over})", window)
        self.looks_back = True
        return self.total(define)

    def total(self, define: bool) -> Expr:
        rnd = self.rnd
        name, own = rnd.choice([*self.names, ("", None)])
        dot = f"{name}." if name else ""
        final = not define and rnd.random() < 0.3
        mode = "FINAL " if final else rnd.choice(["", "RUNNING "])

        def known(here: Here) -> list[Value]:
            return [value for place in places(here, own, final) if (value := at(here, place)) is not None]

        return rnd.choice(
            [
                Expr(f"{mode}COUNT({dot}*)", lambda here: len(places(here, own, final))),
                Expr(f"{mode}COUNT({dot}price)", lambda here: len(known(here))),
                Expr(f"{mode}COUNT(DISTINCT {dot}price)", lambda here: len(set(known(here)))),
                Expr(
                    f"{mode}SUM({dot}price + 1)",
                    lambda here: sum(known(here)) + len(known(here)) if known(here) else None,
                ),
                Expr(
                    f"{mode}MAX({dot}price + MATCH_NUMBER())",
                    lambda here: max((value + here.number for value in known(here)), default=None),
                ),
                Expr(f"{mode}MIN({dot}price)", lambda here: min(known(here), default=None)),
                Expr(f"{mode}MAX({dot}price)", lambda here: max(known(here), default=None)),
                Expr(
                    f"{mode}AVG({dot}price)", lambda here: sum(known(here)) / len(known(here)) if known(here) else None
                ),
            ]
        )

    def text(self, define: bool) -> Expr:
        """CLASSIFIER somewhere, or a text column."""
        rnd = self.rnd
        text, place, own = self.spot(define)
        if rnd.random() < 0.4:
            return Expr(text.format("k"), lambda here: at(here, place(here), "k"))
        name = next((n for n, rows in self.names if rows == own), "")
        dotted = f"{name}.{{}}" if name else "{}"
        shown = text.replace(dotted, "{}").format(f"CLASSIFIER({name})")
        self.looks_back = True
        if define and ("NEXT" in text or ("PREV" in text and "LAST" in text)):
            return self.text(define)
        return Expr(shown, lambda here: label_at(here, place(here)))

    def listed(self) -> Expr:
        """ARRAY_AGG beside a list."""
        rnd = self.rnd
        name, own = rnd.choice([*self.names, ("", None)])
        wanted = [rnd.randrange(3) for _ in range(rnd.randrange(1, 4))]
        op = rnd.choice(["=", "<>"])
        self.looks_back = True

        def value(here: Here) -> bool | None:
            found = [at(here, place) for place in places(here, own)]
            if not found:
                return None
            same: bool | None = len(found) == len(wanted)
            for a, b in zip(found, wanted, strict=False):
                same = joined("AND", same, compared("=", a, b))
            return same if op == "=" else negated(same)

        return Expr(f"ARRAY_AGG({name + '.' if name else ''}price) {op} ARRAY[{', '.join(map(str, wanted))}]", value)

    def condition(self, define: bool, deep: int = 2) -> Expr:
        rnd = self.rnd
        kind = rnd.randrange(10 if deep else 6)
        if define and rnd.random() < 0.04:
            return self.listed()
        match kind:
            case 0 | 1 | 2 | 3:
                op = rnd.choice(["<", "<=", ">", ">=", "=", "<>"])
                a, b = self.number(define), self.number(define)
                return Expr(f"{a.text} {op} {b.text}", lambda here: compared(op, a.value(here), b.value(here)))
            case 4:
                op, letter = rnd.choice(["=", "<>", "<"]), rnd.choice("ABab")
                t = self.text(define)
                return Expr(f"{t.text} {op} '{letter}'", lambda here: compared(op, t.value(here), letter))
            case 5:
                a = self.number(define)
                word = rnd.choice(["", "NOT "])
                return Expr(f"{a.text} IS {word}NULL", lambda here: (a.value(here) is None) != bool(word))
            case 6:
                inner = self.condition(define, 0)
                return Expr(f"NOT ({inner.text})", lambda here: negated(inner.value(here)))
            case 7:
                a, low = self.number(define), rnd.randrange(3)
                return Expr(
                    f"{a.text} BETWEEN {low} AND {low + 1}",
                    lambda here: None if a.value(here) is None else low <= a.value(here) <= low + 1,
                )
            case _:
                one, two = self.condition(define, deep - 1), self.condition(define, deep - 1)
                word = rnd.choice(["AND", "OR"])
                return Expr(
                    f"({one.text} {word} {two.text})", lambda here: joined(word, one.value(here), two.value(here))
                )


def mean(values: list[Value]) -> Value:
    return sum(values) / len(values) if values else None


def arithmetic(sign: str, a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    return a + b if sign == "+" else a - b if sign == "-" else a * b


def compared(op: str, a: Value, b: Value) -> bool | None:
    if a is None or b is None:
        return None
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "=": a == b, "<>": a != b}[op])


def negated(a: bool | None) -> bool | None:
    return None if a is None else not a


def joined(word: str, a: bool | None, b: bool | None) -> bool | None:
    if word == "OR":
        return negated(joined("AND", negated(a), negated(b)))
    return False if a is False or b is False else None if a is None or b is None else True


def draw_pattern(rnd: random.Random, names: list[str], depth: int = 2, hiding: bool = False) -> tuple[str, Any]:
    kind = rnd.randrange(12) if depth else 0
    text: str
    node: Any
    if kind < 4:
        name = rnd.choice(names)
        text, node = name, Var(name)
    elif kind < 8:
        parts = [draw_pattern(rnd, names, depth - 1, hiding) for _ in range(rnd.randrange(2, 4))]
        text, node = f"({' '.join(t for t, _ in parts)})", Seq(tuple(n for _, n in parts))
    elif kind < 10:
        parts = [draw_pattern(rnd, names, depth - 1, hiding) for _ in range(2)]
        if rnd.random() < 0.2:
            parts[rnd.randrange(2)] = ("()", Seq(()))
        text, node = f"({' | '.join(t for t, _ in parts)})", Alt(tuple(n for _, n in parts))
    elif kind == 10:
        parts = [draw_pattern(rnd, names, depth - 1, hiding) for _ in range(rnd.randrange(2, 4))]
        text, node = f"PERMUTE({', '.join(t for t, _ in parts)})", Perm(tuple(n for _, n in parts))
    elif hiding and rnd.random() < 0.7:
        inner, item = draw_pattern(rnd, names, depth - 1, hiding)
        text, node = f"{{- {inner} -}}", Hidden(item)
    else:
        first = rnd.random() < 0.5
        text, node = "^" if first else "$", Edge(first)
    if rnd.random() < 0.4:
        quantifier, least, most = rnd.choice(
            [
                ("*", 0, None),
                ("+", 1, None),
                ("?", 0, 1),
                ("{2}", 2, 2),
                ("{1,2}", 1, 2),
                ("{,2}", 0, 2),
                ("{2,}", 2, None),
            ]
        )
        greedy = rnd.random() < 0.7
        text, node = text + quantifier + "?" * (not greedy), Rep(node, least, most, greedy)
    return text, node


def draw_case(rnd: random.Random, plain: bool = False) -> Case:
    """A statement over some rows. `plain`: conditions look at rows and neighbours alone."""
    all_rows = rnd.random() < 0.6
    unmatched = all_rows and rnd.random() < 0.3
    names = list("ABCD"[: rnd.choice([2, 3, 3, 4])])
    parts = [draw_pattern(rnd, names, hiding=all_rows and not unmatched) for _ in range(rnd.randrange(1, 4))]
    text, pattern = " ".join(t for t, _ in parts), Seq(tuple(n for _, n in parts))
    variables = [name for name in names if name in text.replace("PERMUTE", "")]
    if not variables:
        return draw_case(rnd, plain)
    subsets = {"S": tuple(rnd.sample(variables, 2))} if len(variables) > 1 and rnd.random() < 0.4 else {}
    drawing = Drawing(rnd, variables, subsets)
    define: dict[str, Expr] = {}
    looks_back = False
    for name in variables:
        while rnd.random() < 0.75:
            drawing.looks_back = False
            own = drawing.condition(define=True)
            if not (plain and drawing.looks_back):
                define[name] = own
                looks_back |= drawing.looks_back
                break
    measures: dict[str, Expr] = {}
    for k in range(rnd.randrange(5)):
        kind = rnd.randrange(6)
        measures[f"m{k}"] = (
            drawing.number(False) if kind < 3
            else drawing.text(False) if kind == 3
            else drawing.condition(False) if kind == 4
            else Expr("MATCH_NUMBER()", lambda here: here.number)
        )  # fmt: skip
    skip = rnd.choice(["PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW", "TO FIRST", "TO LAST"])
    target = rnd.choice([*variables, *subsets]) if skip in ("TO FIRST", "TO LAST") else ""
    mode = "ONE ROW PER MATCH"
    if all_rows:
        mode = "ALL ROWS PER MATCH " + (
            "WITH UNMATCHED ROWS" if unmatched else rnd.choice(["", "SHOW EMPTY MATCHES", "OMIT EMPTY MATCHES"])
        )
    sql = f"""SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY g ORDER BY ts
        {"MEASURES " + ", ".join(f"{e.text} AS {name}" for name, e in measures.items()) if measures else ""}
        {mode}
        AFTER MATCH SKIP {skip} {target}
        PATTERN ({text})
        {"SUBSET " + ", ".join(f"{s} = ({', '.join(m)})" for s, m in subsets.items()) if subsets else ""}
        {"DEFINE " + ", ".join(f"{name} AS {e.text}" for name, e in define.items()) if define else ""})"""
    rows = [
        {
            "ts": ts,
            "g": rnd.choice([0, 1, None]),
            "k": rnd.choice(["a", "b", "A", None]),
            "price": rnd.choice([None, 0, 1, 2, 3]) if rnd.random() < 0.4 else rnd.randrange(4),
        }
        for ts in range(rnd.randrange(1, 14))
    ]
    targets = frozenset(subsets.get(target, (target,)))
    try:
        expected: list[tuple[Value, ...]] | None = []
        for key in (0, 1, None):
            own_rows = [row for row in rows if row["g"] == key]
            assert expected is not None
            expected += partition_result(own_rows, pattern, define, measures, skip, targets, mode)
    except SkipError:
        expected = None
    except TooLongError:
        return draw_case(rnd, plain)
    return Case(sql, rows, expected, looks_back)


MOST_TRIES = 100_000


class TooLongError(Exception):
    """Backtracking tries more than that: it is exponential."""


def partition_result(
    rows: list[Row],
    pattern: Any,
    define: dict[str, Expr],
    measures: dict[str, Expr],
    skip: str,
    targets: frozenset[str],
    mode: str,
) -> list[tuple[Value, ...]]:
    """The rows that a statement gives for a partition."""

    tries = count()

    def condition(name: str, before: tuple[str, ...], start: int, number: int) -> bool | None:
        if next(tries) > MOST_TRIES:
            raise TooLongError
        labels = (*before, name)
        return True if name not in define else define[name].value(Here(rows, start, labels, labels, number))

    found: list[tuple[Value, ...]] = []
    seen: set[int] = set()
    for number, (start, marked) in enumerate(oracle.every_match(pattern, condition, len(rows), skip, targets), 1):
        labels = tuple(label for label, _ in marked)
        seen |= set(range(start, start + max(1, len(labels))))

        def values(
            upto: int, start: int = start, labels: tuple[str, ...] = labels, number: int = number
        ) -> list[Value]:
            return [e.value(Here(rows, start, labels[:upto], labels, number)) for e in measures.values()]

        if mode == "ONE ROW PER MATCH":
            found.append((rows[start]["g"], *values(len(labels))))
            continue
        for k, (_, hidden) in enumerate(marked):
            if not hidden:
                row = rows[start + k]
                found.append((row["g"], row["ts"], *values(k + 1), row["k"], row["price"]))
        if not labels and "OMIT" not in mode:
            row = rows[start]
            found.append((row["g"], row["ts"], *values(0), row["k"], row["price"]))
    if "UNMATCHED" in mode:
        for k, row in enumerate(rows):
            if k not in seen:
                found.append((row["g"], row["ts"], *(None for _ in measures), row["k"], row["price"]))
    return found
