"""Events that begin a run and do nothing else: the first of a sequence, or one that no condition asks for.

Most events are of this kind in many queries. Their only transition looks nothing up, and the run that it makes waits in
one index, in order. So they need none of what `carried_step` does for the others.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.graph import NONE
from ceql.engine.common.layout import DONE, NO_KEY, Events, Settings
from ceql.engine.groups.filing import head_for, key_of, room_under
from ceql.engine.groups.graph import new_node
from ceql.engine.groups.layout import SINCE, TAKEN, Carrier, Steps, Store, Turn
from ceql.engine.groups.rings import append
from ceql.engine.groups.table import are_there
from ceql.jit import called


@called
def begin_run(
    steps: Steps, carrier: Carrier, store: Store, events: Events, settings: Settings, turn: Turn, e: int
) -> int:
    """Fire transition e and file its run; there is room for a node and two entries."""
    values, entries, i = events.values, store.entries, turn.i
    if settings.chain and turn.exact == NO_KEY:
        return DONE  # cannot start a match
    if not are_there(values, i, steps.need_terms, steps.needs[e], steps.needs[e + 1]):
        return DONE
    first = carrier.moves_of[e]
    for k in range(first, carrier.moves_of[e + 1]):
        store.fresh.vector[0, k - first] = values[i, carrier.moves[k, TAKEN]]
    feed = steps.feeds[steps.target[e]]
    index = steps.feed_index[feed]
    width = key_of(steps, carrier, store, events, i, np.int64(0), feed)
    if width < 0:
        return DONE
    value = store.fresh.key[width - 1]
    head = head_for(carrier, store, index, turn.partition, width - 1)
    reason = room_under(carrier, store, turn, index, head, np.int64(1), settings.block)
    if reason != DONE:
        return reason
    n = new_node(store.nodes, store.regs, turn.key, turn.position, NONE, turn.exact, np.int64(steps.mark[e]))
    if len(store.times) > 0:
        store.times[n] = events.time[i]
    append(carrier, entries[head, entries.shape[1] - 1], value, n, turn.key, turn.position, settings.block)
    entries[head, SINCE] = turn.position
    return DONE
