"""The events that NOT keeps away, kept as long as a candidate may ask for them, and which candidates they rule out.

In: the events of each batch, and candidates. Out: the candidates for which no forbidden event lies in a gap. A gap lies
between two events of the candidate, or before its first one, as far back as the window reaches from its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ceql.analysis.shape import Claim, Kind, Shape
from ceql.automata.correlated import Watched
from ceql.engine.common.check import require
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import W_GIVEN, Events
from ceql.io.schemas import no_rows
from ceql.io.sort_keys import bounds
from ceql.jit import Array
from ceql.recognition.checks import AbsentRows, Checks, Look
from ceql.recognition.window import BoundWindow
from ceql.syntax.tree import Joint

_MOST_PAIRS = 1 << 20
_NOTHING: Array = np.zeros(0, np.int64)


class _Log(NamedTuple):
    """Forbidden events in order: positions, substreams, keys in the window, absences as a bit mask, attributes."""

    position: Array
    partition: Array
    key: Array
    kinds: Array
    values: pa.RecordBatch


class Absences:
    """The absences of a query that are decided for each candidate."""

    def __init__(self, checks: Checks, window: BoundWindow) -> None:
        self.checks = checks
        self.shape: Shape = checks.auto.shape
        compared = {claim.absence for claim in checks.auto.denials}
        # after a match, the last forbidden event is enough, unless it is compared (`trailing`)
        self.watched: Sequence[Watched] = [
            w for w in checks.auto.absences if w.number in compared or not self.shape.trails(w.number)
        ]
        self.window = window
        self.reaches_back = [self.shape.leads(w.number) for w in self.watched]
        self._pieces: list[_Log] = []

    @property
    def leads(self) -> bool:
        """Whether some absence is asked for before the match."""
        return any(self.reaches_back)

    @property
    def count(self) -> int:
        """How many forbidden events are kept."""
        return sum(len(piece.position) for piece in self._pieces)

    @property
    def nbytes(self) -> int:
        """The memory that they take, and as much again for the moment in which pieces are joined."""
        return 2 * sum(sum(int(c.nbytes) for c in piece[:4]) + int(piece.values.nbytes) for piece in self._pieces)

    def add(self, events: Events, keys: Array, bits: Sequence[int], data: pa.RecordBatch, rows: Array | None) -> None:
        """Keep the forbidden ones of these events, which are these rows of a batch (all, when None)."""
        of_symbol = [sum(1 << k for k, w in enumerate(self.watched) if symbol & w.guards) for symbol in bits]
        kinds = np.array(of_symbol, np.int64)[events.symbol]
        chosen = np.flatnonzero((kinds != 0) & (events.partition >= 0))
        if len(chosen):
            where = chosen if rows is None else rows[chosen]
            names = [name for name in self.checks.columns if name in data.schema.names]
            values = self._rows({name: data.column(name) for name in names}, data.num_rows).take(pa.array(where))
            log = (events.position[chosen], events.partition[chosen].astype(np.int64), keys[chosen], kinds[chosen])
            self._pieces.append(_Log(*log, values))

    @staticmethod
    def _rows(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        return pa.record_batch(columns or {"": pa.nulls(count)})

    def _all(self) -> _Log:
        if len(self._pieces) > 1:
            parts = [np.concatenate([piece[k] for piece in self._pieces]) for k in range(4)]
            table = pa.concat_tables([pa.table(p.values) for p in self._pieces], promote_options="permissive")
            (values,) = table.combine_chunks().to_batches()
            self._pieces = [_Log(parts[0], parts[1], parts[2], parts[3], values)]
        if not self._pieces:
            return _Log(_NOTHING, _NOTHING, _NOTHING, _NOTHING, no_rows(pa.schema([])))
        return self._pieces[0]

    def forget(self, oldest: int, least: int) -> None:
        """Drop the events before the position `oldest`; those before a match, if their keys are below `least`."""
        log = self._all()
        before = sum(1 << k for k, back in enumerate(self.reaches_back) if back)
        keep = (log.position >= oldest) | ((log.kinds & before != 0) & (log.key >= least))
        if len(keep) and not keep.all():
            self._set(log, np.flatnonzero(keep), log.partition)

    def _set(self, log: _Log, rows: Array, partition: Array) -> None:
        taken = (log.position[rows], partition[rows], log.key[rows], log.kinds[rows])
        self._pieces = [_Log(*taken, log.values.take(pa.array(rows)))] if len(rows) else []

    def partitions(self) -> Array:
        """The substreams whose past a match may ask for."""
        before = sum(1 << k for k, back in enumerate(self.reaches_back) if back)
        log = self._all()
        return np.unique(log.partition[log.kinds & before != 0])

    # --- candidates ---

    def hold(self, chunk: Chunk, look: Look, forgotten: Array, lowest: Array | None) -> Array:
        """Tells for which candidates nothing forbidden lies in a gap.

        `forgotten` are positions up to which all is forgotten, `lowest` the least keys that the window reaches back to.
        """
        good = np.ones(len(chunk.start), np.bool_)
        log = self._all()
        for k, watched in enumerate(self.watched):
            mine = np.flatnonzero(log.kinds >> k & 1)
            if len(mine) and not self.shape.trails(watched.number):
                good &= self._absent(k, watched.number, chunk, look, log, mine, forgotten, lowest)
        return good

    def hold_after(self, chunk: Chunk, look: Look, absences: Sequence[int], until: Array) -> Array:
        """Tells for which candidates nothing forbidden came after them, before the positions `until`."""
        good = np.ones(len(chunk.start), np.bool_)
        log = self._all()
        for k, watched in enumerate(self.watched):
            mine = np.flatnonzero(log.kinds >> k & 1)
            if len(mine) and watched.number in absences:
                good &= self._absent(k, watched.number, chunk, look, log, mine, chunk.end, None, until)
        return good

    def _absent(
        self,
        k: int,
        absence: int,
        chunk: Chunk,
        look: Look,
        log: _Log,
        mine: Array,
        forgotten: Array,
        lowest: Array | None,
        until: Array | None = None,
    ) -> Array:
        if self.shape.absences[absence].is_next:
            return self._none_instead(absence, chunk, look, log, mine)
        node, item = self.shape.gaps[absence]
        items = self.shape.nodes[node].items
        entries, number, first = look.instances(node)
        candidate, position = look.candidate[first], chunk.positions[entries]
        high = np.full(len(first), np.iinfo(np.int64).max)
        right = look.is_at(frozenset[int]().union(*map(self.shape.below, items[item:])))[entries]
        np.minimum.at(high, number[right], position[right])
        if until is not None:
            high = until[candidate]
        low = np.full(len(first), -1)
        left = look.is_at(frozenset[int]().union(*map(self.shape.below, items[:item])))[entries]
        np.maximum.at(low, number[left], position[left])
        least: Array | None = None
        if self.reaches_back[k]:
            low = forgotten[candidate]
            least = None if lowest is None else lowest[candidate]
        if least is not None and self.window.kind == W_GIVEN:  # keys are in order of position
            at = np.searchsorted(log.key[mine], least)
            low = np.maximum(low, np.append(log.position[mine], np.iinfo(np.int64).max)[at] - 1)
            least = None
        partition = np.zeros(len(first), np.int64) if chunk.partition is None else chunk.partition[candidate]
        order, begin, end = _between(log.position[mine], log.partition[mine], partition, low, high)
        denials = [claim for claim in self.checks.auto.denials if claim.absence == absence]
        found = end > begin
        if denials or least is not None:
            found = self._any(denials, first, begin, end, look, log, mine[order], least)
        good = np.ones(len(chunk.start), np.bool_)
        good[candidate[found]] = False
        return good

    def _none_instead(self, absence: int, chunk: Chunk, look: Look, log: _Log, mine: Array) -> Array:
        """Tells for which candidates no event could have begun what a `->` waits for."""
        first, then = self._joined(absence, look)
        candidate = look.candidate[first]
        partition = np.zeros(len(first), np.int64) if chunk.partition is None else chunk.partition[candidate]
        low, high = chunk.positions[first], chunk.positions[then]
        order, begin, end = _between(log.position[mine], log.partition[mine], partition, low, high)
        denials = [claim for claim in self.checks.auto.denials if claim.absence == absence]
        found = end > begin
        if denials:
            base = int(chunk.positions.min(initial=0))
            line = (look.candidate << 40) + (chunk.positions - base)
            found = self._any(denials, first, begin, end, look, log, mine[order], None, (line, base))
        good = np.ones(len(chunk.start), np.bool_)
        good[candidate[found]] = False
        return good

    def _joined(self, absence: int, look: Look) -> tuple[Array, Array]:
        """The entries that a `->` joins: the last one before it and the first one after it."""
        number, item = self.shape.gaps[absence]
        node = self.shape.nodes[number]
        if node.kind is Kind.REPEAT:
            entries, turn, first = look.instances(node.items[0])
            last = entries[np.searchsorted(turn, np.arange(len(first)), side="right") - 1]
            together = look.together(number, first[:-1], first[1:])
            return last[:-1][together], first[1:][together]
        entries, instance, first = look.instances(number)
        begin = item
        while begin and node.joints[begin - 1] is Joint.NEXT:
            begin -= 1
        low, high = np.full(len(first), -1), np.full(len(first), np.iinfo(np.int64).max)
        left = look.is_at(frozenset[int]().union(*map(self.shape.below, node.items[begin:item])))[entries]
        right = look.is_at(self.shape.below(node.items[item]))[entries]
        np.maximum.at(low, instance[left], entries[left])
        np.minimum.at(high, instance[right], entries[right])
        both = (low >= 0) & (high < np.iinfo(np.int64).max)
        return low[both], high[both]

    def _any(
        self,
        denials: list[Claim],
        first: Array,
        begin: Array,
        end: Array,
        look: Look,
        log: _Log,
        rows: Array,
        least: Array | None,
        line: tuple[Array, int] | None = None,
    ) -> Array:
        """Tells for which instances one of the events from `begin` to `end` satisfies all conditions on it.

        `line` has the place of each entry among all of its chunk, for conditions that speak of those before alone.
        """
        found = np.zeros(len(first), np.bool_)
        counts = np.maximum(end - begin, 0)
        sums = np.cumsum(counts)
        at = 0
        while at < len(first):  # as many instances at a time as have a bounded number of pairs
            done = int(sums[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(sums, done + _MOST_PAIRS, side="right")))
            here = np.repeat(np.arange(at, stop), counts[at:stop])
            offset = np.arange(len(here)) + done - np.repeat(sums[at:stop] - counts[at:stop], counts[at:stop])
            event = rows[begin[here] + offset]
            forbidden = np.ones(len(here), np.bool_) if least is None else log.key[event] >= least[here]
            for claim in denials:
                some = np.flatnonzero(forbidden)
                own, before = first[here[some]], None
                if line is not None:
                    at_event = (look.candidate[own] << 40) + (log.position[event[some]] - line[1])
                    before = np.searchsorted(line[0], at_event) - 1
                forbidden[some] = look.denied(claim, own, AbsentRows(log.values, event[some], before))
            found[here[forbidden]] = True
            at = stop
        return found

    # --- state ---

    def state(self, used: Array | None) -> tuple[dict[str, Array], pa.RecordBatch]:
        """What is kept, with substreams numbered by their place among `used`."""
        log = self._all()
        if used is not None:
            number = np.full(max(int(used.max(initial=-1)), int(log.partition.max(initial=-1))) + 1, -1)
            number[used] = np.arange(len(used))
            anew = number[log.partition]
            kept = np.flatnonzero(anew >= 0)
            values = log.values.take(pa.array(kept)) if len(log.position) else log.values
            log = _Log(log.position[kept], anew[kept], log.key[kept], log.kinds[kept], values)
        arrays = np.stack([log.position, log.partition, log.key, log.kinds], axis=1)
        return {"absent": arrays}, log.values

    def restore(self, arrays: dict[str, Array], values: pa.RecordBatch, partitions: int, position: int) -> None:
        """Continue from a `state`."""
        rows = arrays["absent"]
        require(rows.ndim == 2 and rows.shape[1] == 4 and len(rows) == values.num_rows, "its absent events are cut off")
        ascend = (np.diff(rows[:, 0]) >= 0).all() and ((rows[:, 0] >= 0) & (rows[:, 0] < position)).all()
        require(bool(ascend), "its absent events are not in order")
        require(bool(((rows[:, 1] >= 0) & (rows[:, 1] < partitions)).all()), "an absent event is of no substream")
        columns = [np.ascontiguousarray(rows[:, k]) for k in range(4)]
        self._pieces = [_Log(columns[0], columns[1], columns[2], columns[3], values)] if len(rows) else []


def _between(position: Array, partition: Array, wanted: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """The order of events by substream and position, and where in it those of `wanted` between `low` and `high` are."""
    order = np.lexsort((position, partition))
    base = int(position[0])
    line = (partition[order] << 40) + (position[order] - base)
    span = (1 << 40) - 1
    begin = np.searchsorted(line, (wanted << 40) + np.clip(low + 1 - base, 0, span))
    end = np.searchsorted(line, (wanted << 40) + np.clip(high - base, 0, span))
    return order, begin, end


def time_bounds(window: BoundWindow, times: Array) -> Array:
    """The least key that a window by time reaches back to, from events of these times."""
    assert window.type is not None
    assert window.size is not None
    return np.asarray(bounds(times + window.shift, window.type, window.size))
