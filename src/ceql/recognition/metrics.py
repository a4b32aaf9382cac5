"""Metrics of a recogniser, as numbers; also as text in the format that Prometheus reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The numbers of a recogniser. Counters begin when it is made or restored; events, late and recognised go on.

    Bytes are those of arrays and columns. `memory_used` is what the limit `memory` is compared with.
    """

    events: int = 0
    """Events taken in: recognised, waiting or late."""
    recognised: int = 0
    """Events that recognition is done with."""
    late: int = 0
    """Events that came later than the lateness allows."""
    rejected: int = 0
    """Events that made no sense, with `on_bad="reject"`."""
    waiting: int = 0
    """Events that wait for their turn."""
    waiting_limit: int = 0
    """Events that may wait: `max_buffered_rows`."""
    feeds: int = 0
    """Feeds that brought events in order."""
    matches: int = 0
    """Matches that were read or counted. Those that nobody asked for are not found, and not counted here."""
    symbols: int = 0
    """Kinds of events that the query's conditions can tell apart, as far as they have come."""
    states: int = 0
    """States of the automaton, as far as they have been determinised."""
    states_limit: int = 0
    """States that there may be: `max_states`."""
    groups: int = 0
    """Groups of partial matches, of queries that compare events."""
    partitions: int = 0
    """Substreams that are remembered."""
    nodes: int = 0
    """Nodes of the graph of partial matches."""
    nodes_reclaimed: int = 0
    """Nodes that collections gave back."""
    collections: int = 0
    """Collections of the graph."""
    recoveries: int = 0
    """Times that recognition was made anew, after an exception had cut it short."""
    memory_graph: int = 0
    """Bytes of partial matches, of matches that wait until they are decided, and of the automaton's tables."""
    memory_keys: int = 0
    """Bytes of the keys of substreams."""
    memory_asked: int = 0
    """Bytes of rows that conditions, measures and NOT may ask for."""
    memory_rows: int = 0
    """Bytes of events kept for matches."""
    memory_waiting: int = 0
    """Bytes of events that wait, or came late."""
    memory_journal: int = 0
    """Bytes of the journal: a state, and the feeds since then."""
    memory_used: int = 0
    """Bytes of all these; events that are kept for several purposes count once."""
    memory_limit: int = 0
    """Bytes that they may take."""
    feed_seconds: float = 0.0
    """Time spent in feed()."""
    recognise_seconds: float = 0.0
    """Time spent to find or count matches."""
    snapshots: int = 0
    """Snapshots taken."""
    snapshot_bytes: int = 0
    """Bytes of the last snapshot."""
    snapshot_seconds: float = 0.0
    """Time spent to take snapshots."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_prometheus(self, **labels: str) -> str:
        """The numbers as Prometheus reads them, each with these labels.

        >>> print(Metrics(events=3).to_prometheus(query="fraud").splitlines()[1])
        ceql_events_total{query="fraud"} 3
        """
        inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        lines = []
        for name, value in self.to_dict().items():
            kind = "counter" if name in _COUNTERS else "gauge"
            shown = f"ceql_{_UNITS.get(name, name)}" + "_total" * (kind == "counter")
            lines.append(f"# TYPE {shown} {kind}")
            lines.append(f"{shown}{{{inside}}} {value}" if inside else f"{shown} {value}")
        return "\n".join(lines) + "\n"


_COUNTERS = {
    "events", "recognised", "late", "feeds", "matches", "nodes_reclaimed", "collections", "recoveries",
    "feed_seconds", "recognise_seconds", "snapshots", "snapshot_seconds",
}  # fmt: skip
_UNITS = {field.name: f"{field.name}_bytes" for field in fields(Metrics) if field.name.startswith("memory_")}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
