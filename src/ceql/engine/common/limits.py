"""The errors that both loops raise."""

from __future__ import annotations

from ceql.errors import DataError, ResourceError


def went_back(position: int) -> DataError:
    """An attribute window whose attribute fell to where memory has been given back."""
    return DataError(
        f"at position {position} the attribute of the WITHIN window went back to where events have "
        "already been given up; such a window needs an attribute that does not decrease within "
        "its (sub)stream"
    )


def out_of_memory(memory: int) -> ResourceError:
    """The graph would need more than the caller allows."""
    return ResourceError(
        f"partial matches need more than {memory:,} bytes; raise memory=, or bound the query "
        "with a (smaller) WITHIN window, PARTITION BY or CONSUME BY",
        limit="memory",
    )
