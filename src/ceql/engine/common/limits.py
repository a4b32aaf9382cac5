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


def out_of_memory(memory: int, what: str = "partial matches") -> ResourceError:
    """The graph would need more than the caller allows."""
    return ResourceError(
        f"{what} need more than the {memory:,} bytes that memory= leaves for them; raise memory=, or bound the query "
        "with a (smaller) WITHIN window, PARTITION BY or CONSUME BY",
        limit="memory",
    )


def out_of_memory_for_groups(memory: int, conditions: tuple[str, ...]) -> ResourceError:
    """The same where these conditions tell partial matches apart."""
    if not conditions:
        return out_of_memory(memory)
    listed = " and ".join(f"'{text}'" for text in conditions[:3]) + " and others" * (len(conditions) > 3)
    return out_of_memory(memory, f"partial matches that {listed} can tell apart")


def out_of_memory_for_tables(memory: int, states: int, symbols: int) -> ResourceError:
    """The tables of the automaton would need more than the caller allows."""
    return ResourceError(
        f"the automaton's tables need more than the {memory:,} bytes that memory= leaves for them "
        f"({states:,} states in use, {symbols:,} different events); raise memory=, "
        "or make the formula or its conditions simpler",
        limit="memory",
    )
