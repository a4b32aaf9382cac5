"""Rules to trees: conjunctive queries over positional attributes.

In: a rule such as `Q(x, y) <- T(x), S(x, y)`, and the names of each relation's attributes. Out: the `tree.Query` with
the same matches. It joins the atoms of the body by ALL, gives each a variable, and adds an equality for each constant
and for each further occurrence of a rule's variable. Its matches are the t-homomorphisms of pcea-hcq-2024, section 4:
each atom of the body takes one event, two atoms may take the same event, and the match ends with the last of them. The
head does not choose matches; its variables are only checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeVar

from ceql.errors import QueryError, Span, did_you_mean
from ceql.syntax import tree
from ceql.syntax.limits import MAX_COUNT, QueryProblem
from ceql.syntax.parser import read
from ceql.syntax.rule_parser import Atom, Rule, Variable, read_rule

Choice = TypeVar("Choice", bound=Enum)


def parse_rule(
    text: str,
    attributes: Mapping[str, Sequence[str]],
    *,
    within: str | None = None,
    distinct: bool = False,
    strategy: str | None = None,
    consume_by: str | None = None,
    limit: int | None = None,
) -> tree.Query:
    """The query that a rule means. The options are the clauses of a query.

    >>> from ceql.syntax.printer import print_query
    >>> query = parse_rule("Q(x) <- T(x, 2), T(x, y), S(y)", {"T": ["a", "b"], "S": ["a"]}, within="9 events")
    >>> print(print_query(query))
    SELECT T_1, T_2, S
    WHERE T AS T_1 ALL T AS T_2 ALL S
      FILTER T_1.b = 2 AND T_1.a = T_2.a AND T_2.b = S.a
    WITHIN 9 EVENTS
    """
    try:
        rule = read_rule(text)
        columns = [_attributes(atom, attributes) for atom in rule.body]
        _check_head(rule)
    except QueryProblem as error:
        raise QueryError(error.message, text, error.span, error.suggestion) from None
    if limit is not None and not (type(limit) is int and 1 <= limit <= MAX_COUNT):
        raise QueryError(f"limit= is a whole number from 1 to 2^63 - 1, not {limit!r}")
    names = _variables(rule.body)
    return tree.Query(
        _formula(rule.body, names, columns),
        items=tuple(map(tree.SelectItem, names)),
        strategy=None if strategy is None else _choice("strategy", strategy, tree.Strategy),
        distinct=distinct,
        window=None if within is None else _window(within),
        consume=tree.Consume.NONE if consume_by is None else _choice("consume_by", consume_by, tree.Consume),
        limit=limit,
    )


# --- meaning ---


def _variables(body: Sequence[Atom]) -> list[str]:
    """The query's variable for each atom: the name of its relation, numbered if the relation has several atoms."""
    count = Counter(atom.relation for atom in body)
    taken = set(count)  # types are variables too
    seen: Counter[str] = Counter()
    names = []
    for atom in body:
        name = atom.relation
        if count[name] > 1:
            seen[name] += 1
            name = f"{name}_{seen[name]}"
            while name in taken:
                name += "_"
            taken.add(name)
        names.append(name)
    return names


def _formula(body: Sequence[Atom], names: Sequence[str], columns: Sequence[Sequence[str]]) -> tree.Formula:
    items: list[tree.Formula] = []
    conditions: list[tree.Comparison] = []
    first: dict[str, tree.Ref] = {}
    for atom, name, own_columns in zip(body, names, columns, strict=True):
        event = tree.Event(atom.relation)
        items.append(event if name == atom.relation else tree.As(event, name))
        own: dict[str, tree.Ref] = {}
        for term, column in zip(atom.terms, own_columns, strict=True):
            here = tree.Ref(name, column)
            if isinstance(term, tree.Literal):
                conditions.append(tree.Comparison("=", here, term))
            elif term.name is not None:
                # prefer a place in the same atom, which makes the equality a condition on one event
                before = own.get(term.name) or first.get(term.name)
                if before is not None:
                    conditions.append(tree.Comparison("=", before, here))
                own.setdefault(term.name, here)
                first.setdefault(term.name, here)
    formula = items[0] if len(items) == 1 else tree.All(tuple(items))
    match conditions:
        case []:
            return formula
        case [single]:
            return tree.Filter(formula, single)
        case _:
            return tree.Filter(formula, tree.Conj(tuple(conditions)))


def _attributes(atom: Atom, attributes: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The names of the relation's attributes, one for each argument."""
    relation, count = atom.relation, len(atom.terms)
    if relation not in attributes:
        hint = did_you_mean(relation, list(attributes)) or f"Name them: attributes={{'{relation}': [...], ...}}."
        raise QueryProblem(f"attributes= does not have the relation '{relation}'", atom.name_span, hint)
    names = attributes[relation]
    if isinstance(names, str):
        raise QueryProblem(
            f"The attributes of '{relation}' are a text, not a list", atom.name_span, f"Write [{names!r}]."
        )
    if not all(isinstance(name, str) and name for name in names):
        raise QueryProblem(f"The attributes of '{relation}' are names, and none is empty", atom.name_span)
    if len(set(names)) < len(names):
        raise QueryProblem(f"The attributes of '{relation}' have a name twice: {', '.join(names)}", atom.name_span)
    if count != len(names):
        raise QueryProblem(
            f"'{relation}' has {_counted(len(names), 'attribute')}, but {_counted(count, 'argument')} here",
            atom.span,
            f"The attributes are: {', '.join(names) or 'none'}."
            + (" Write _ for one that may be anything." if count < len(names) else ""),
        )
    return names


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _check_head(rule: Rule) -> None:
    known = list(dict.fromkeys(t.name for a in rule.body for t in a.terms if isinstance(t, Variable) and t.name))
    listed = f"The variables are: {', '.join(known)}." if known else "The body has no variables: write Q()."
    for term in rule.head.terms:
        if isinstance(term, tree.Literal):
            raise QueryProblem("The head lists variables of the body, not constants", term.span or Span(0, 0), listed)
        if term.name is None:
            raise QueryProblem("The head cannot list '_', which is another variable each time", term.span, listed)
        if term.name not in known:
            hint = did_you_mean(term.name, known) or listed
            raise QueryProblem(f"No atom of the body has the variable '{term.name}'", term.span, hint)
    for atom in rule.body:
        if atom.relation == rule.head.relation:
            hint = "Rules do not recurse: give the head another name."
            raise QueryProblem(f"The rule defines '{atom.relation}' by itself", atom.name_span, hint)


# --- options ---

_BEFORE_WINDOW = "SELECT * WHERE A WITHIN "


def _window(text: str) -> tree.Window:
    """The window that `text` gives after WITHIN."""
    if not isinstance(text, str):
        raise QueryError(f"within= is text such as '100 events' or '10 minutes', not {text!r}")
    try:
        return _read_window(_BEFORE_WINDOW + text)
    except QueryProblem as error:
        start, end = (max(0, place - len(_BEFORE_WINDOW)) for place in error.span)
        raise QueryError(error.message, text, Span(start, end), error.suggestion) from None


def _read_window(text: str) -> tree.Window:
    """Reads the window with the grammar of queries, and refuses any other clause."""
    query: Any = read(text, "query")
    window: tree.Window = replace(query.window, span=None)
    if query != tree.Query(query.formula, window=window):
        hint = "Other clauses are options of their own: consume_by=, limit=."
        raise QueryProblem("within= is a window and nothing more", Span(len(_BEFORE_WINDOW), len(text)), hint)
    return window


def _choice(option: str, word: str, choices: type[Choice]) -> Choice:
    known = list(choices.__members__)
    if str(word).upper() not in known:
        message = f"{option}= is one of {', '.join(known)}, not {word!r}"
        raise QueryError(message, suggestion=did_you_mean(str(word).upper(), known))
    return choices[word.upper()]
