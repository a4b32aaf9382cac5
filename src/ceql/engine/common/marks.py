"""The marks of a walk over the live part of a graph: scratch[0] by node, scratch[2, 1:] the nodes in order."""

from __future__ import annotations

from ceql.jit import Array, inlined


@inlined
def clear_marks(scratch: Array) -> None:
    """Undo the marks: they are zero between positions."""
    for k in range(1, scratch[2, 0] + 1):
        scratch[0, scratch[2, k]] = 0
