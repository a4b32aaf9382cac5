"""Walks trees: what is in a node, the attributes that it reads, and the same node with its parts changed.

All that does the same with most kinds of nodes is said over these functions, so that a new kind needs no case there. A
node is any dataclass of a tree, also where conditions have something in place of attributes (`analysis.cutting.Read`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import is_
from typing import Any, TypeVar

from ceql.syntax.tree import Aggregate, Attribute, Prev, Ref

N = TypeVar("N")


@cache
def _slots(kind: Any) -> tuple[str, ...]:
    """What a kind of node is made of; none for what is no node."""
    return tuple(field.name for field in fields(kind) if field.name != "span") if is_dataclass(kind) else ()


def below(node: Any) -> list[Any]:
    """The nodes right below a node, in the order of the text."""
    kind: Any = type(node)
    found = []
    for name in _slots(kind):
        value = getattr(node, name)
        found += [part for part in (value if isinstance(value, tuple) else (value,)) if is_dataclass(part)]
    return found


def of_kind(root: object, kind: type[N]) -> list[N]:
    """The nodes of a kind in a tree, or in a tuple of trees, in the order of the text."""
    return [node for node in nodes(root) if isinstance(node, kind)]


def nodes(root: object) -> Iterator[object]:
    """The nodes of a tree, or of a tuple of trees, in the order of the text: each before what is in it."""
    return (node for node, _ in with_depths(root))


def with_depths(root: object) -> Iterator[tuple[object, int]]:
    """The same, each with its depth. The walk keeps its own stack, since some trees are too deep for recursion."""
    stack = [(node, 1) for node in reversed(root if isinstance(root, tuple) else (root,)) if is_dataclass(node)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack.extend((part, depth + 1) for part in reversed(below(node)))


def leaves(node: object, of_aggregates: bool = True) -> list[Ref | Prev | Attribute]:
    """Every attribute that a condition or expression reads, in order; those inside aggregates too, if wanted."""
    if isinstance(node, Ref | Prev | Attribute):
        return [node]
    if isinstance(node, Aggregate) and not of_aggregates:
        return []
    return [leaf for part in below(node) for leaf in leaves(part, of_aggregates)]


def mapped(node: N, change: Callable[[Any], Any]) -> N:
    """A node with all nodes right below it changed.

    >>> mapped(Ref("x", "a"), lambda part: None)
    Ref(variable='x', attribute='a')
    """
    kind: Any = type(node)
    changed: dict[str, Any] = {}
    for name in _slots(kind):
        value = getattr(node, name)
        if isinstance(value, tuple):
            new: Any = tuple(change(part) if is_dataclass(part) else part for part in value)
            same = all(map(is_, new, value))
        else:
            new = change(value) if is_dataclass(value) else value
            same = new is value
        if not same:
            changed[name] = new
    return replace(node, **changed) if changed else node  # type: ignore[type-var]
