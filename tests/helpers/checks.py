"""What a random case must satisfy: on every execution path, the matches are those of the oracle.

The suite and `fuzz.py` use it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

import ceql
import ceql.plan
import generators
import oracle
import paths
import preferred_oracle
import rule_oracle
from ceql.engine.common import pieces, scatter, sharded, shares
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import EVENT, Events
from ceql.engine.common.machine import Machine
from ceql.engine.groups import machine as groups_machine
from ceql.engine.groups.machine import GroupMachine
from ceql.engine.preferred.machine import PreferredMachine
from ceql.engine.states.machine import StateMachine
from ceql.engine.straight.machine import StraightMachine
from ceql.recognition import comparing, correlated, frame, preferred, rows
from ceql.syntax import tree
from ceql.syntax.printer import print_query

Patch = Callable[[Any, str, Any], None]  # setattr, or that of monkeypatch
OPTIONS: dict[str, Any] = {"time_unit": "ms"}


def check_whole(
    case: generators.Generated, query: ceql.Query | None = None, counted: bool = True
) -> tuple[ceql.Query, generators.Generated, list[oracle.Match]]:
    """Run in one go, and count if it is `counted`; the query, the case with events in merged order, and the matches."""
    case = paths.in_merged_order(case)
    query = query or ceql.compile(print_query(case.query))
    whole = paths.run_whole(query, case.events, **OPTIONS)
    oracle.check(case.query, case.events, whole)
    assert not counted or query.run(paths.inputs(query, case.events), **OPTIONS).count() == len(whole)
    return query, case, whole


def check_case(case: generators.Generated, data: st.DataObject, query: ceql.Query | None = None) -> list[oracle.Match]:
    """Every execution path; the matches."""
    query, case, whole = check_whole(case, query)
    rows = data.draw(st.integers(1, 4), label="rows per batch")
    assert paths.run_in_batches(query, case.events, rows, **OPTIONS) == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(case.events)), max_size=4), label="cuts"))
    restored = data.draw(st.sets(st.integers(0, 5)), label="restored after")
    assert paths.run_in_pieces(query, case.events, cuts, restored.__contains__, **OPTIONS) == whole
    return whole


def check_rule(case: rule_oracle.RuleCase, data: st.DataObject) -> list[oracle.Match]:
    query = case.compile()
    whole = paths.run_whole(query, case.events, **OPTIONS)
    assert sorted(rule_oracle.by_atom(query, whole)) == sorted(case.expected())
    return check_case(generators.Generated(query.plan.query, case.events), data)


def use_no_substreams(patch: Patch = setattr) -> None:
    """Leave it to the loop over groups to find what events have in common: no substreams but those of the clause."""
    patch(ceql.plan, "split_off", lambda shape, query: ((), shape))


def choose_on_graph(patch: Patch = setattr) -> None:
    """Have strategies choose on the graph however few matches there are."""
    patch(groups_machine, "FEW", 0)


def use_tiny_buffers(patch: Patch = setattr) -> None:
    """Make buffers so small that every reason to come back from the loop occurs: full, blocks, collect, grow.

    Values, keys and rows that nothing waits for are forgotten as soon as that is looked for, strategies choose on
    the graph however few matches there are, and events are put together by substream however few there are.
    """
    choose_on_graph(patch)
    patch(comparing, "_MANY_VALUES", 1)
    patch(correlated, "_MANY_ABSENT", 1)
    for module, name in ((frame, "_MANY_KEYS"), (frame, "_SOME_KEYS"), (rows, "_MANY")):
        patch(module, name, 1)
    patch(preferred, "MANY", 1)
    patch(scatter, "TOGETHER", 0)
    patch(pieces, "MANY", 2)
    patch(pieces, "BLOCKS", 1)
    patch(pieces, "PART", 1)
    patch(pieces, "FEW", 1)
    patch(pieces, "MOST", 7)
    for kind, further in (
        (StateMachine, {}),
        (GroupMachine, {"block": 2}),
        (PreferredMachine, {}),
        (StraightMachine, {}),
    ):
        patch(kind, "__init__", functools.partialmethod(kind.__init__, matches=3, positions=5, nodes=8, **further))


@contextmanager
def suppress_falling_attributes(tiny: bool, case: generators.Generated) -> Iterator[None]:
    """An attribute window may fall to where memory has been given back, which tiny buffers do early."""
    try:
        yield
    except ceql.DataError as error:
        if not (tiny and "went back" in str(error) and isinstance(case.query.window, tree.AttributeWindow)):
            raise


def check_preferred(case: generators.Generated, data: st.DataObject) -> list[oracle.Match]:
    """Every execution path of a query with AFTER MATCH; its matches, or none if it is refused."""
    case, query = with_skip(case, data)
    return check_skipping(case, data, query) if query is not None else []


def with_skip(case: generators.Generated, data: st.DataObject) -> tuple[generators.Generated, ceql.Query | None]:
    """The case with any AFTER MATCH SKIP, and its query, unless that is refused."""
    names = sorted(oracle.variables(case.query.formula))
    skip = data.draw(st.sampled_from([*tree.Skip, tree.Skip.PAST_LAST, tree.Skip.TO_NEXT]), label="skip")
    variable = data.draw(st.sampled_from(names), label="to") if skip.value.startswith(("TO F", "TO L")) else None
    case = case._replace(query=replace(case.query, after_match=tree.AfterMatch(skip, variable)))
    try:
        return case, ceql.compile(print_query(case.query))
    except ceql.QueryError as error:
        if "beside AFTER MATCH yet" not in str(error):
            raise
        return case, None


def check_skipping(
    case: generators.Generated, data: st.DataObject | None, query: ceql.Query, counted: bool = True
) -> list[oracle.Match]:
    """The matches of a case with AFTER MATCH, on every path, or in one go without `data`; none if SKIP TO fails."""
    case = paths.in_merged_order(case)
    try:
        return check_case(case, data, query) if data is not None else check_whole(case, query, counted)[2]
    except ceql.DataError as error:
        if "AFTER MATCH SKIP TO" not in str(error):
            raise
        with pytest.raises(preferred_oracle.NoProgress):
            preferred_oracle.matches(case.query, case.events)
        return []


def check_tiny_case(case: generators.Generated, data: st.DataObject) -> None:
    with suppress_falling_attributes(True, case):
        check_case(case, data)


def use_shards(patch: Patch = setattr) -> None:
    """Divide machines in the middle of their first batch, where they can be, and use threads however few events come.

    Buffers are tiny, so that shards wait for one another.
    """
    use_tiny_buffers(patch)
    whole = Machine.feed

    def feed(self: Machine, events: Events, resume: bool = False) -> Iterator[Chunk]:
        if not self.divides or resume:
            yield from whole(self, events, resume)
            return
        cut = len(events.symbol) // 2
        yield from whole(self, Events(*(array[:cut] for array in events)))
        self.compact()
        self.regs[EVENT] = cut
        self.outgrown = True

    patch(Machine, "feed", feed)
    patch(sharded, "FEW", 0)
    patch(pieces, "_MATCH_BYTES", 0)
    patch(shares, "SHARDS", 3)
