"""Bounds the cost of counts: a round of `φ{n,m}` has states of its own, so that no count may make too many of them.

In: a shape. Out: nothing, or a `ResourceError` that names the count. A counter in each partial match would need fewer
states, but partial matches of different counts are apart all the same, so that an event costs as much.
"""

from __future__ import annotations

from ceql.analysis.shape import Kind, Node, Shape
from ceql.errors import ResourceError
from ceql.syntax.printer import print_count

MOST_STATES = 10_000
"""Of the loop over states: they are compiled in a second or two."""
MOST_STATES_COMPARED = 2_000
"""Of the loop over groups, whose states are looked at for each event."""


def check_counts(shape: Shape, most: int) -> None:
    """Refuse a shape of more than `most` states, if counts make them."""
    sizes: list[int] = []
    costly: list[int] = []
    """Of each node: the count in it with the most states, or -1."""
    for number, node in enumerate(shape.nodes):
        sizes.append(max(1, sum(sizes[item] for item in node.items)) * max(1, _rounds(node)))
        inside = [costly[item] for item in node.items if costly[item] >= 0]
        costly.append(number if _rounds(node) > 1 else max(inside, key=sizes.__getitem__, default=-1))
        if sizes[number] > most and costly[number] >= 0:
            raise _too_many(shape, costly[number], sizes[number], most)


def _too_many(shape: Shape, number: int, states: int, most: int) -> ResourceError:
    node = shape.nodes[number]
    types = " and ".join(sorted({shape.leaf[leaf].type for leaf in shape.below(number)}))
    return ResourceError(
        f"the count {print_count(node.least, node.most, node.joints[0])} of {types} makes an automaton of "
        f"{states:,} states, and {most:,} are the most; count less"
        f"{'' if node.most is None or node.most == node.least else ', or leave the upper end open'}",
        limit="MOST_STATES",
    )


def _rounds(node: Node) -> int:
    """The rounds that have states of their own."""
    if node.kind is not Kind.REPEAT:
        return 1
    return max(1, node.least) if node.most is None else node.most
