"""Random trees: every kind of node, in every place where the parser can put it.

`queries()` gives whole queries, `formulas()`, `filters()`, `predicates()` and `expressions()` their parts.
Names come from a small pool that holds the awkward ones (keywords, blanks, quotes).
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from ceql.syntax import tree
from ceql.syntax.absence import may_be_missing

Strategy = st.SearchStrategy[Any]

NAMES = [
    "A",
    "B",
    "x",
    "y",
    "price",
    "events",
    "max",
    "NONE",
    "range",
    "naïve",
    "order id",
    "select",
    "Within",
    "a`b",
    "-",
]
names = st.sampled_from(NAMES)
joints = st.sampled_from(tree.Joint)
texts = st.text(st.sampled_from("ab'\"%_ \n-ß`"), max_size=5)
decimals = st.sampled_from(
    [Decimal(text) for text in ("0.5", "1.50", "-2.25", "1E+3", "-4E-7", "12345678901234567890.1234567890123")]
)
numbers = st.integers(-(10**20), 10**20) | decimals
literals = st.builds(tree.Literal, numbers | texts | st.booleans() | st.none())


def flat(items: Strategy, kind: type) -> Strategy:
    """Two to four items, none of the kind that would be spliced in."""
    return st.lists(items.filter(lambda item: not isinstance(item, kind)), min_size=2, max_size=4).map(tuple)


def expressions(attributes: bool = True) -> Strategy:
    """Values; with bare attributes inside `x[...]`, without them after FILTER."""
    lengths = st.builds(tree.Duration, st.integers(-(10**15), 10**15) | st.just(90 * 10**9))
    leaves: Strategy = literals | st.builds(tree.Ref, names, names) | st.builds(tree.Prev, names) | lengths
    if attributes:
        leaves |= st.builds(tree.Attribute, names)

    def larger(inner: Strategy) -> Strategy:
        one = st.sampled_from(["ABS", "LOWER", "HOUR"]).flatmap(lambda name: calls(name, inner, 1))
        several = st.sampled_from(["COALESCE", "LEAST", "SUBSTRING"]).flatmap(lambda name: calls(name, inner, 3))
        minus = st.builds(
            tree.Minus, inner.filter(lambda node: not is_number(node) and not isinstance(node, tree.Duration))
        )
        return st.builds(tree.Arithmetic, st.sampled_from("+-*/%"), inner, inner) | minus | one | several

    return st.recursive(leaves, larger, max_leaves=5)


def calls(name: str, arguments: Strategy, count: int) -> Strategy:
    return st.builds(tree.Call, st.just(name), st.tuples(*[arguments] * count))


def is_number(node: object) -> bool:
    return isinstance(node, tree.Literal) and not isinstance(node.value, str | bool | None)


def comparisons(operands: Strategy) -> Strategy:
    return st.builds(tree.Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), operands, operands)


def combined(atoms: Strategy) -> Strategy:
    """AND, OR and NOT over the atoms."""

    def larger(inner: Strategy) -> Strategy:
        return (
            st.builds(tree.Conj, flat(inner, tree.Conj))
            | st.builds(tree.Disj, flat(inner, tree.Disj))
            | st.builds(tree.Neg, inner)
        )

    return st.recursive(atoms, larger, max_leaves=5)


def intervals() -> Strategy:
    def ends(values: Strategy) -> Strategy:
        end = st.builds(tree.Literal, values)
        return st.builds(tree.Interval, end, end | st.none()) | st.builds(tree.Interval, st.none(), end)

    return ends(numbers) | ends(texts)


def predicates() -> Strategy:
    operands = expressions()
    return combined(
        comparisons(operands)
        | st.builds(tree.Like, operands, texts, st.booleans(), st.booleans())
        | st.builds(
            tree.In, operands, st.lists(literals | intervals(), min_size=1, max_size=4).map(tuple), st.booleans()
        )
        | st.builds(tree.Between, operands, operands, operands, st.booleans(), st.booleans())
        | st.builds(tree.IsNull, operands, st.booleans())
    )


def filters() -> Strategy:
    values = expressions(attributes=False)
    return combined(
        st.builds(tree.Bracket, names, predicates())
        | comparisons(values | measures())
        | st.builds(tree.Like, measures(), texts, st.booleans(), st.booleans())
        | st.builds(tree.IsNull, measures(), st.booleans())
        | st.builds(tree.Between, measures(), values, values, st.booleans(), st.booleans())
    )


def measures() -> Strategy:
    """Aggregates and times of a match."""

    def aggregates(name: str) -> Strategy:
        value = st.builds(tree.Ref, st.just(name), names)
        functions = st.sampled_from(
            ["COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST", "STDDEV", "VARIANCE", "MEDIAN"]
        )
        operand = value | st.builds(tree.Arithmetic, st.sampled_from("+-*/%"), value, literals)
        shares = st.integers(0, 1) | st.decimals(0, 1, places=3)
        return (
            st.builds(tree.Aggregate, functions, st.just(name), operand)
            | st.builds(tree.Aggregate, st.just("COUNT"), st.just(name))
            | st.builds(tree.Aggregate, st.just("COUNT"), st.just(name), operand, st.just(True))
            | st.builds(tree.Aggregate, st.just("PERCENTILE"), st.just(name), operand, number=shares)
            | st.builds(
                tree.Aggregate, st.sampled_from(["FIRST", "LAST"]), st.just(name), operand, number=st.integers(1, 9)
            )
        )

    return names.flatmap(aggregates) | st.builds(tree.Lapse, st.sampled_from(["START_TIME", "END_TIME", "DURATION"]))


def partitions(min_size: int) -> Strategy:
    refs = st.builds(tree.PartRef, names, st.none() | names)
    parts = st.builds(tree.Part, st.lists(refs, min_size=1, max_size=3).map(tuple))
    return st.lists(parts, min_size=min_size, max_size=2).map(tuple)


def counts(inner: Strategy) -> Strategy:
    """Any count but that of one or more, which is a `Plus`."""
    least, further = st.integers(0, 3), st.integers(0, 2**63 - 4)
    open_ends = st.tuples(least.filter(lambda n: n != 1), st.none())
    pairs = open_ends | st.tuples(least, further).map(lambda pair: (pair[0], sum(pair)))
    return pairs.flatmap(
        lambda pair: st.builds(tree.Count, inner, st.just(pair[0]), st.just(pair[1]), joints, st.booleans())
    )


def absent() -> Strategy:
    """NOT, with names that no event has."""
    event = st.builds(tree.Event, st.sampled_from(["absent one", "Gone"]), st.none() | names)
    several = st.builds(tree.Or, st.lists(event, min_size=2, max_size=3).map(tuple))
    return st.builds(tree.Not, event | several, st.none() | st.sampled_from(["n", "not"]))


def formulas(reluctant: bool = False, sides: bool = True) -> Strategy:
    """`reluctant` counts stand beside AFTER MATCH alone; ALL (`sides`) does not stand beside it."""

    def chains(inner: Strategy) -> Strategy:
        return (
            st.lists(inner, min_size=2, max_size=4)
            .map(tuple)
            .flatmap(lambda items: st.tuples(*[joints] * (len(items) - 1)).map(lambda signs: chain(items, signs)))
        )

    def gaps(inner: Strategy) -> Strategy:
        """A chain with NOT between two items."""
        there = inner.filter(lambda item: not isinstance(item, tree.Then) and not may_be_missing(item))
        signs = st.sampled_from([tree.Joint.THEN, tree.Joint.NEXT])
        return st.builds(lambda a, b, n, sign: tree.Then((a, n, b), (sign, sign)), there, there, absent(), signs)

    def larger(inner: Strategy) -> Strategy:
        return (
            st.builds(tree.As, inner, names)
            | st.builds(tree.Plus, inner, joints, st.booleans() if reluctant else st.just(False))
            | counts(inner).map(lambda count: count if reluctant else replace(count, reluctant=False))
            | st.builds(tree.Within, inner, windows())
            | chains(inner)
            | gaps(inner)
            | (st.builds(tree.All, flat(inner, tree.All)) if sides else st.nothing())
            | st.builds(tree.Or, flat(inner, tree.Or))
            | st.builds(tree.Filter, inner, filters())
            | st.builds(tree.PartitionBy, inner, partitions(1))
        )

    return st.recursive(st.builds(tree.Event, names, st.none() | names), larger, max_leaves=6)


def chain(items: tuple[tree.Formula, ...], signs: tuple[tree.Joint, ...]) -> tree.Then:
    """A chain as the parser makes it: of a chain in it, only one after `->` that may begin later is an item."""
    flat_items: list[tree.Formula] = []
    flat_signs: list[tree.Joint] = []
    for k, item in enumerate(items):
        if k:
            flat_signs.append(signs[k - 1])
        begins_later = isinstance(item, tree.Then) and (
            isinstance(item.items[0], tree.Not) or may_be_missing(item.items[0])
        )
        if isinstance(item, tree.Then) and not (k and signs[k - 1] is tree.Joint.NEXT and begins_later):
            flat_items += item.items
            flat_signs += item.joints
        else:
            flat_items.append(item)
    return tree.Then(tuple(flat_items), tuple(flat_signs))


def windows() -> Strategy:
    sizes = st.integers(0, 2**63 - 1)
    units = st.sampled_from([1, 1_000_000, 1_000_000_000, 60_000_000_000, 86_400_000_000_000])
    times = st.tuples(st.integers(1, 10_000), units).map(lambda pair: pair[0] * pair[1])
    return (
        st.builds(tree.EventsWindow, sizes)
        | st.builds(tree.TimeWindow, times | st.integers(1, 2**63 - 1))
        | st.builds(tree.AttributeWindow, sizes, names)
    )


def queries() -> Strategy:
    return all_matches() | preferred_matches()


def preferred_matches() -> Strategy:
    """Queries with AFTER MATCH."""
    after = st.builds(tree.AfterMatch, st.sampled_from([tree.Skip.PAST_LAST, tree.Skip.TO_NEXT])) | st.builds(
        tree.AfterMatch, st.sampled_from([tree.Skip.TO_FIRST, tree.Skip.TO_LAST]), names
    )
    return st.builds(
        tree.Query,
        formulas(reluctant=True, sides=False),
        partition=partitions(0),
        window=st.none() | windows(),
        after_match=after,
    )


def all_matches() -> Strategy:
    items = st.builds(tree.SelectItem, names, st.lists(names, max_size=2).map(tuple))
    return st.builds(
        tree.Query,
        formulas(),
        items=st.none() | st.lists(items, max_size=3).map(tuple),
        strategy=st.none() | st.sampled_from(tree.Strategy),
        distinct=st.booleans(),
        streams=st.lists(names, max_size=3).map(tuple),
        partition=partitions(0),
        window=st.none() | windows(),
        consume=st.sampled_from(tree.Consume),
        limit=st.none() | st.integers(1, 2**63 - 1),
    )
