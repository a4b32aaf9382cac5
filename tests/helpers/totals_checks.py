"""What totals over all matches must satisfy: they are those of the matches, on every way to run a query."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

import ceql
import checks
import generators
import paths
from ceql.syntax.printer import print_query
from oracle_totals import alike, requests, totals


def check_totals(case: generators.Generated, data: st.DataObject, **options: Any) -> bool:
    """The totals of runs, in batches of any size, and of what a recogniser is fed; whether there was a match."""
    case = paths.in_merged_order(case)
    query = ceql.compile(print_query(case.query))
    asked = data.draw(requests(case.query))
    columns, by, every = asked["columns"], asked["by"], asked["every"]
    options |= checks.OPTIONS

    def totals_of(matches: list[Any]) -> list[dict[str, Any]]:
        return totals(columns, by, every, case.events, matches)

    whole = paths.run_whole(query, case.events, **options)
    wanted = totals_of(whole)
    inputs = paths.inputs(query, case.events)
    for batch_rows in (1 << 17, data.draw(st.integers(1, 4))):
        found = query.run(inputs, batch_rows=batch_rows, **options).aggregate(columns, by=by, every=every)
        assert alike(found.to_pylist(), wanted), f"{found.to_pylist()} and not {wanted}"
    if len(query.plan.query.streams) > 1:
        return bool(whole)
    table = paths.table(case.events)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(case.events)), max_size=3))), len(case.events)]
    telling, adding = query.recognizer(**options), query.recognizer(**options)
    for begin, end in pairwise(cuts):
        piece = table.slice(begin, end - begin)
        told, added = telling.feed(piece), adding.feed(piece)
        found = added.aggregate(columns, by=by, every=every)
        assert alike(found.to_pylist(), totals_of(paths.to_oracle(told)))
        if data.draw(st.booleans()):
            telling, adding = query.restore(telling.snapshot()), query.restore(adding.snapshot())
    return bool(whole)
