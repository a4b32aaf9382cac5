"""Sequences that grow at their end, in versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Growing(Generic[T]):
    """A sequence that never changes; `plus` makes a longer one without a copy.

    All versions share a list, of which each sees its own beginning. Only the newest can grow: a version that grows cuts
    off what a newer one added.

    >>> short = Growing[int]().plus(1)
    >>> list(short.plus(2)), list(short)
    ([1, 2], [1])
    """

    def __init__(self, items: list[T] | None = None) -> None:
        self._items = [] if items is None else items
        self._length = len(self._items)

    def plus(self, item: T) -> Growing[T]:
        """The sequence with one more item."""
        del self._items[self._length :]
        self._items.append(item)
        return Growing(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items[: self._length])

    def __len__(self) -> int:
        return self._length
