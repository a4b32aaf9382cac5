"""LP-normal form, guards and labels as text.

A guard reads `T & price > 100`: the event's type and what it must satisfy. The normal form is written with the
operators of the language, each atom as `(T & price > 100) AS x`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ceql.analysis.neighbours import shown
from ceql.analysis.normal import Atom, Both, Choice, Normal, Repeat, Sequence
from ceql.automata.cea import Label
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition, print_count, print_expression, print_name

CHOICE, BOTH, THEN, POSTFIX, LEAF = range(5)
ANY_EVENT = "any event"


def conjuncts(predicate: t.Condition) -> Iterator[t.Condition]:
    """The parts that must all hold."""
    if isinstance(predicate, t.Conj):
        for item in predicate.items:
            yield from conjuncts(item)
    else:
        yield predicate


def print_predicate(predicate: t.Condition) -> str:
    """A part of a guard: a disjunction stands in parentheses, as `&` binds tighter."""
    predicate = shown(predicate)
    if isinstance(predicate, t.Comparison) and predicate.op == "=" and predicate.left == predicate.right:
        return f"{print_expression(predicate.left)} not NULL"
    text = print_condition(predicate)
    return f"({text})" if isinstance(predicate, t.Disj) else text


def print_guard(guard: Atom) -> str:
    """
    >>> print_guard(Atom("T", "S", frozenset(), (t.Comparison(">", t.Attribute("price"), t.Literal(100)),)))
    'S>T & price > 100'
    """
    name = print_name(guard.type)
    if guard.stream is not None:
        name = f"{print_name(guard.stream)}>{name}"
    return " & ".join([name, *(print_predicate(c) for p in guard.predicates for c in conjuncts(p))])


def print_mask(guards: Iterable[Atom], mask: int) -> str:
    """The guards of a transition: an event that must satisfy several serves several parts of the formula (ALL)."""
    return " and ".join(print_guard(g) for k, g in enumerate(guards) if mask >> k & 1) or ANY_EVENT


def print_asked(guards: tuple[Atom, ...], mask: int, failing: Iterable[int] = ()) -> str:
    """The same, with all that is asked of one type together. Of `failing`, none may hold altogether."""
    parts: dict[tuple[str, str | None], dict[str, None]] = {}
    for k, guard in enumerate(guards):
        if mask >> k & 1:
            asked = parts.setdefault((guard.type, guard.stream), {})
            asked.update(dict.fromkeys(print_predicate(c) for p in guard.predicates for c in conjuncts(p)))
    texts = [" & ".join([print_guard(Atom(*kind, frozenset())), *asked]) for kind, asked in parts.items()]
    excluded = [f"not ({print_asked(guards, other & ~mask)})" for other in failing]
    return " & ".join([" and ".join(texts) or ANY_EVENT, *excluded])


def print_label(label: Label) -> str:
    return ", ".join(print_name(v) for v in sorted(label))


def print_normal(normal: Normal) -> str:
    """
    >>> x = Atom("A", None, frozenset(["A", "x"]))
    >>> either = Choice((x, Atom("B", None, frozenset("B"))))
    >>> print_normal(Repeat(Sequence((x, either), (t.Joint.THEN,)), t.Joint.TOUCH))
    '(A AS x ; (A AS x OR B)):+'
    """
    return _normal(normal, CHOICE)


def alternatives(normal: Normal) -> list[str]:
    """The outermost alternatives, one text each; of a formula that nothing can match, none."""
    items = normal.items if isinstance(normal, Choice) else (normal,)
    return [_normal(item, BOTH) for item in items]


def _normal(normal: Normal, place: int) -> str:
    text, strength = _bare(normal)
    return text if strength >= place else f"({text})"


def _absent(atom: Atom) -> str:
    text = print_guard(atom)
    return f"NOT ({text})" if atom.predicates else f"NOT {text}"


def _bare(normal: Normal) -> tuple[str, int]:
    match normal:
        case Atom(type, _, variables, predicates):
            text = print_guard(normal)
            others = print_label(variables - {type})
            if not others:
                return text, POSTFIX if not predicates else CHOICE
            return f"({text}) AS {others}" if predicates else f"{text} AS {others}", POSTFIX
        case Sequence(()):
            return "nothing", LEAF
        case Sequence(items, joints, absent):
            text = ""
            for k, item in enumerate(items):
                if k:
                    text += f" {joints[k - 1].value} "
                sign = joints[k - 1].value if k else ";"
                text += "".join(f"{_absent(atom)} {sign} " for gap in absent[k : k + 1] for atom in gap)
                text += _normal(item, POSTFIX)
            return text + "".join(f" ; {_absent(atom)}" for gap in absent[len(items) :] for atom in gap), THEN
        case Repeat(body, joint, least, most, reluctant=reluctant):
            return _normal(body, LEAF) + print_count(least, most, joint, reluctant), POSTFIX
        case Choice(()):
            return "never", LEAF
        case Choice(items):
            return " OR ".join(_normal(i, BOTH) for i in items), CHOICE
        case Both(items):
            return " ALL ".join(_normal(i, THEN) for i in items), BOTH
