"""Tells how a set of queries differs from the one that a state was written by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Named = Sequence[Sequence[str]]
"""Of each query of a set: its name, what tells its meaning, and what tells its states."""


class Changes(NamedTuple):
    """What has become of the queries of a set."""

    kept: frozenset[str]
    """Those that go on with their state."""
    added: tuple[str, ...]
    gone: tuple[str, ...]
    changed: tuple[str, ...]
    shown: tuple[str, ...]
    """Those of `kept` that only show other attributes."""

    @classmethod
    def between(cls, before: Named, now: Named) -> Changes:
        """What changed."""
        old, new = ({name: tuple(prints) for name, *prints in some} for some in (before, now))
        both = [name for name in new if name in old]
        kept = frozenset(name for name in both if old[name][-1] == new[name][-1])
        return cls(
            kept,
            added=tuple(name for name in new if name not in old),
            gone=tuple(name for name in old if name not in new),
            changed=tuple(name for name in both if name not in kept),
            shown=tuple(name for name in both if name in kept and old[name] != new[name]),
        )

    def __str__(self) -> str:
        groups = {
            "added": self.added,
            "gone": self.gone,
            "changed": self.changed,
            "showing other attributes": self.shown,
        }
        return ", ".join(f"{', '.join(map(repr, names))} {what}" for what, names in groups.items() if names)

    def __bool__(self) -> bool:
        return bool(self.added or self.gone or self.changed or self.shown)
