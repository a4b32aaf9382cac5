"""What recognition needs of a machine, whichever loop it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ceql.engine.common.chunk import Chunk
from ceql.jit import Array


class Events(Protocol):
    """The events of a batch as parallel arrays. Each loop has its own type; these arrays are in both."""

    @property
    def symbol(self) -> Array: ...

    @property
    def position(self) -> Array: ...

    @property
    def partition(self) -> Array: ...

    @property
    def time(self) -> Array: ...


class Machine(Protocol):
    """The state of a recogniser and the buffers of its output."""

    memory: int
    """The budget of the graph, in bytes."""
    emptied: list[int]
    """The partitions that the last collection found empty; the caller clears the list."""
    oldest: int
    """No partial match holds an event before this position."""

    def room_for_partitions(self, count: int) -> None: ...

    def reuse_partitions(self, partitions: list[int]) -> None: ...

    def idle(self, partitions: Array) -> Array: ...

    @property
    def remembers(self) -> bool: ...

    @property
    def horizon(self) -> int: ...

    def raise_horizon(self, key: int) -> None: ...

    def feed(self, events: Any, resume: bool = False) -> Iterator[Chunk]: ...

    def flush(self) -> Iterator[Chunk]: ...

    @property
    def counted(self) -> int: ...

    def compact(self) -> None: ...

    def held(self) -> Array: ...

    def oldest_held(self) -> int: ...

    def state(self) -> dict[str, Array]: ...

    def restore(self, arrays: dict[str, Array]) -> None: ...
