"""`Query.diagnose`: what it says of queries that match nothing, and that its numbers are those of the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import ceql
import corpus
import generators
import paths
from ceql.diagnose import claims, clauses, counting, following
from ceql.diagnose.diagnose import diagnose as inquire
from ceql.diagnose.findings import Diagnosis, MissingType, PredicateFinding, Rung, Tally
from ceql.explain.text import WIDTH
from ceql.recognition.options import Options
from ceql.syntax import tree
from ceql.syntax.printer import print_query

TRADES: list[dict[str, Any]] = [
    {"type": "SELL", "price": 50, "k": 1, "time": 0},
    {"type": "BUY", "price": 5, "k": 2, "time": 1},
    {"type": "NOISE", "price": None, "k": 2, "time": 2},
    {"type": "BUY", "price": None, "k": 1, "time": 3},
    {"type": "HOLD", "price": 7, "k": 1, "time": 50},
]


def diagnose(query: str, events: Any = TRADES, **options: Any) -> Diagnosis:
    return ceql.compile(query).diagnose(events, **{"time_unit": "ms", **options})


def agrees_with_the_engine(query: ceql.Query, events: list[dict[str, Any]], options: dict[str, Any]) -> None:
    """The last rung is the query: as many matches, ending at as many positions."""
    whole = paths.run_whole(query, events, **options)
    found = query.diagnose(paths.inputs(query, events), **options)
    assert found.matches == len(whole)
    assert found.positions == len({m.end for m in whole})
    assert found.events == len(events)
    assert max(len(line) for line in str(found).split("\n")) <= WIDTH


CASES = [c for c in corpus.load() if c.error is None]


@pytest.mark.parametrize("case", corpus.some(CASES, 3), ids=str)  # slow: a recognition for each part
def test_the_corpus(case: corpus.Case) -> None:
    agrees_with_the_engine(ceql.compile(case.query), case.events, case.keywords)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(generators.uncorrelated_cases())
def test_random_cases(case: generators.Generated) -> None:
    query = ceql.compile(print_query(case.query))
    agrees_with_the_engine(query, case.events, {"time_unit": "ms"})
    # every rung, too, is a query
    found = query.diagnose(paths.inputs(query, case.events), time_unit="ms")
    for rung, (clause, plan) in zip(found.rungs, clauses.versions(query.plan), strict=True):
        matches = paths.run_whole(ceql.Query(plan), case.events, time_unit="ms")
        assert rung == Rung(clause, len({m.end for m in matches}), len(matches))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(generators.correlated_cases() | generators.conditioned_cases() | generators.aggregated_cases())
def test_random_correlated_cases(case: generators.Generated) -> None:
    query = ceql.compile(print_query(case.query))
    agrees_with_the_engine(query, case.events, {"time_unit": "ms"})
    found = query.diagnose(paths.inputs(query, case.events), time_unit="ms")
    versions = clauses.versions(query.plan)
    for rung, (clause, plan) in zip(found.rungs, versions, strict=True):
        matches = paths.run_whole(ceql.Query(plan), case.events, time_unit="ms")
        assert rung == Rung(clause, len({m.end for m in matches}), len(matches))
    unchosen = [plan.query.strategy is None and plan.query.consume is tree.Consume.NONE for _, plan in versions]
    windowless = [
        r for r, all_, (_, p) in zip(found.rungs, unchosen, versions, strict=True) if all_ and not p.query.window
    ]
    if windowless[-1].positions:  # whatever has matches has got all the way
        assert found.reach.complete


def test_a_misspelt_type() -> None:
    found = diagnose("SELECT * WHERE Sell ; BUY")
    assert found.missing_types == (MissingType("Sell", "SELL"),)
    assert found.reasons == ("No event has the type 'Sell'. Did you mean 'SELL'?",)
    assert found.reach.done == 0
    assert [(s.name, s.events, s.named) for s in found.types] == [
        ("BUY", 2, True), ("SELL", 1, False), ("NOISE", 1, False), ("HOLD", 1, False),
    ]  # fmt: skip
    text = str(found)
    assert "never came: 'Sell' (did you mean 'SELL'?)" in text
    assert "0 of 2 steps: no event could be the first of a match" in text


def test_a_type_unlike_any_other_has_no_suggestion() -> None:
    assert diagnose("SELECT * WHERE Quote").missing_types == (MissingType("Quote", None),)


def test_a_predicate_that_is_never_true() -> None:
    found = diagnose("SELECT * WHERE SELL AS x ; BUY AS y FILTER x[price > 10] AND y[price > 100 AND k > 0]")
    sell, buy = found.guards
    assert (sell.events, sell.hits) == (1, 1)
    assert (buy.events, buy.hits, buy.last) == (2, 0, None)
    assert buy.predicates == (
        PredicateFinding("k > 0", 0, 2, 0, 0),
        PredicateFinding("price > 100", 0, 0, 1, 1),
    )
    assert found.reasons == (
        "'price > 100' is false or unknown (NULL) for all 2 events of this type, in 'BUY & k > 0 & price > 100'.",
    )
    assert (found.reach.done, found.reach.total, found.reach.path) == (1, 2, "SELL & price > 10")
    assert "waiting for BUY & k > 0 & price > 100: no event of this kind came" in str(found)


def test_the_alternatives_of_a_condition_are_counted_each() -> None:
    (guard,) = diagnose("SELECT * WHERE BUY FILTER BUY[price > 100 OR price < 10]").guards
    assert [(p.text, p.depth, p.true, p.false, p.unknown) for p in guard.predicates] == [
        ("price > 100 OR price < 10", 0, 1, 0, 1),
        ("price > 100", 1, 0, 1, 1),
        ("price < 10", 1, 1, 0, 1),
    ]


def test_conditions_that_never_hold_together() -> None:
    found = diagnose("SELECT * WHERE BUY FILTER BUY[price = 5 AND k = 1]")
    assert found.reasons == (
        "No event satisfies all of 'BUY & k = 1 & price = 5' at once, though each condition holds for some.",
    )


def test_a_window_too_small() -> None:
    found = diagnose("SELECT NEXT * WHERE SELL ; BUY ; HOLD WITHIN 10 MILLISECONDS CONSUME BY ANY")
    assert found.rungs == (
        Rung("WHERE", 1, 2),
        Rung("WITHIN 10 MILLISECONDS", 0, 0),
        Rung("NEXT", 0, 0),
        Rung("CONSUME BY ANY", 0, 0),
    )
    assert found.reach.complete
    assert found.reach_in_window is not None
    assert (found.reach_in_window.done, found.reach_in_window.total) == (2, 3)
    assert found.reach_in_window.path == "SELL ; BUY"
    assert found.reasons == (
        "Without WITHIN 10 MILLISECONDS, matches would end at 1 position: the shortest needs WITHIN 50 MILLISECONDS.",
    )
    assert "waiting for HOLD: 1 event of this kind came, but not in time" in str(found)


def test_a_partition_splits_the_match() -> None:
    found = diagnose("SELECT * WHERE BUY ; BUY PARTITION BY k")
    assert [(r.clause, r.positions) for r in found.rungs] == [("WHERE", 1), ("PARTITION BY [k]", 0)]
    assert found.keys is not None
    assert (found.keys.substreams, found.keys.dropped) == (2, 0)
    assert found.reasons == (
        "Without PARTITION BY [k], matches would end at 1 position: no substream has a whole match of its own.",
    )
    assert "waiting for BUY: 2 events of this kind came, but not in the same substream" in str(found)


def test_a_key_that_is_always_null() -> None:
    events = [{"type": "A", "k": None}, {"type": "B", "k": None}, {"type": "C", "k": None}]
    found = diagnose("SELECT * WHERE A ; B PARTITION BY k", events)
    assert found.keys is not None
    assert (found.keys.substreams, found.keys.dropped, found.keys.dropped_relevant) == (0, 3, 2)
    assert found.reasons[0] == "The attribute 'k' is NULL in every event."
    assert found.reasons[1] == "PARTITION BY: 3 events, all of them, have no key (NULL) and take no part."
    assert "3 events in none, for want of a key (NULL), 2 of them of use to the formula" in str(found)


def test_an_attribute_that_no_event_has() -> None:
    found = diagnose("SELECT * WHERE BUY FILTER BUY[Prices > 1]")
    (attribute,) = found.attributes
    assert (attribute.name, attribute.present, attribute.suggestion) == ("Prices", False, "price")
    assert found.reasons[0] == "No event has the attribute 'Prices'. Did you mean 'price'?"
    with pytest.raises(ceql.SchemaError, match="no column 'Prices'"):
        diagnose("SELECT * WHERE BUY FILTER BUY[Prices > 1]", paths.table(TRADES))


def test_strict_and_contiguity() -> None:
    found = diagnose("SELECT STRICT * WHERE SELL ; HOLD")
    assert found.rungs == (Rung("WHERE", 1, 1), Rung("STRICT", 0, 0))
    assert found.reasons == ("Without STRICT, matches would end at 1 position: other events always come in between.",)
    found = diagnose("SELECT * WHERE SELL : HOLD")
    assert found.reasons == ("After 'SELL' a 'HOLD' never came as the very next event, as ':' asks for.",)


def test_what_came_too_early() -> None:
    found = diagnose("SELECT * WHERE BUY ; BUY ; HOLD ; SELL")
    assert (found.reach.done, found.reach.total, found.reach.path) == (3, 4, "BUY ; BUY ; HOLD")
    assert found.reach.times == 1
    assert found.reach.first is not None
    assert (found.reach.first.position, found.reach.first.time) == (4, 50)
    assert found.reasons == ("After 'BUY ; BUY ; HOLD' (first at position 4, time 50) no 'SELL' came any more.",)


def test_the_path_tells_waiting_from_contiguity() -> None:
    assert (
        diagnose("SELECT * WHERE SELL : BUY ; (BUY OR NOISE) : HOLD : Z").reach.path
        == "SELL : BUY ; BUY or NOISE : HOLD"
    )


def test_late_events() -> None:
    events = [{"type": "B", "time": 10}, {"type": "A", "time": 9}]
    found = diagnose("SELECT * WHERE A ; B", iter(events))
    assert (found.events, found.late) == (1, 1)
    assert found.reasons[-1] == (
        "1 event came too late and took no part: lateness='1 millisecond' takes them in, "
        "and so does sorting the events."
    )
    assert diagnose("SELECT * WHERE A ; B", iter(events), lateness="1 millisecond").matches == 1
    found = diagnose("SELECT * WHERE A ; B", events)  # a list is put in order
    assert (found.matches, found.late) == (1, 0)
    assert found.notes == ("the events were not in order of time, and were put in order first",)


def test_no_events() -> None:
    found = diagnose("SELECT * WHERE A", pa.table({"type": pa.array([], pa.string())}))
    assert found.reasons == ("There are no events.",)
    assert str(found).startswith("Diagnosis\n  No match in 0 events.\n")


def test_a_query_that_matches_has_no_reasons() -> None:
    found = diagnose("SELECT * WHERE SELL ; BUY")
    assert found.reasons == ()
    assert str(found).startswith("Diagnosis\n  2 matches, ending at 2 positions of 5.\n")


def test_streams_without_a_type_column() -> None:
    found = diagnose("SELECT * FROM A, B WHERE A ; C", {"A": pa.table({"time": [1, 3]}), "B": pa.table({"time": [2]})})
    assert [(s.name, s.events) for s in found.types] == [("A", 2), ("B", 1)]
    assert [m.name for m in found.missing_types] == ["C"]


def test_an_input_that_can_be_read_only_once() -> None:
    found = diagnose("SELECT * WHERE SELL ; BUY WITHIN 1 EVENTS", iter(TRADES))
    assert found.rungs == (Rung("WHERE", 2, 2), Rung("WITHIN 1 EVENT", 1, 1))


def test_columns_that_come_later() -> None:
    def events() -> Any:
        yield from ({"type": "A"} for _ in range(1 << 16))
        yield {"type": "B", "v": 1}
        yield {"type": "B", "v": None}

    found = diagnose("SELECT * WHERE B FILTER B[v > 0]", events())
    assert found.matches == 1
    assert found.guards[0].predicates == (PredicateFinding("v > 0", 0, 1, 0, 1),)


def test_many_types_are_shortened() -> None:
    events = [{"type": f"T{k}"} for k in range(30)]
    found = diagnose("SELECT * WHERE T29", events)
    assert (len(found.types), found.more_types) == (21, 9)
    assert "… and 9 types that the query does not name" in str(found)


def test_counting_stops_at_a_limit_and_positions_do_not() -> None:
    events = pa.table({"type": np.array(["A", "B"])[np.arange(100_000) % 2]})
    (rung,) = diagnose("SELECT * WHERE A+ ; B", events).rungs
    assert rung == Rung("WHERE", 50_000, counting.MOST_MATCHES, counted_all=False)
    assert "> 10,000,000" in str(diagnose("SELECT * WHERE A+ ; B", events))


def test_what_cannot_be_counted_is_noted() -> None:
    events = pa.table({"type": ["A"] * 50_000 + ["B"]})
    query = ceql.compile("SELECT * WHERE A ; B WITHIN 3 EVENTS")
    found = inquire(query.plan, events, Options(memory=1 << 20))
    assert found.rungs == (Rung("WHERE", 1, None, counted_all=False), Rung("WITHIN 3 EVENTS", 1, 3))
    assert found.notes[0].startswith("the matches of the query up to WHERE could not be counted: partial matches need")
    assert "\nNotes\n  - the matches of the query up to WHERE could not be counted" in str(found)


def test_a_window_attribute_that_goes_back() -> None:
    events = [{"type": t, "w": w} for t, w in [("A", 0), ("A", 100), ("B", 100), ("B", 3), ("B", None), ("B", 101)]]
    assert diagnose("SELECT * WHERE A ; B WITHIN 5 [w]", events).positions == 3


PAIRS: list[dict[str, Any]] = [
    {"type": "A", "k": 1, "v": 1},
    {"type": "C", "k": 2, "v": 2},
    {"type": "B", "k": 2, "v": 3},
    {"type": "B", "k": None, "v": 0},
    {"type": "A", "k": 2, "v": 9},
]


def test_a_condition_across_events_that_never_holds() -> None:
    found = diagnose("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k", PAIRS)
    assert found.rungs == (Rung("WHERE, each event by itself", 2, 2), Rung("WHERE", 0, 0))
    assert found.claims is not None
    assert (found.claims.none, found.claims.all) == (Tally(2, 2), Tally(0, 0))
    (claim,) = found.claims.each
    assert (claim.text, claim.line, claim.column, claim.how) == ("x.k = y.k", 1, 39, "by substreams")
    assert (claim.alone, claim.without) == (Tally(0, 0), Tally(2, 2))
    assert found.reasons == (
        "After 'A' no 'B' with the same [k] came: 2 events of this kind came.",
        "'x.k = y.k' never holds: without conditions across events, matches would end at 2 positions.",
    )
    assert found.keys is not None
    assert (found.keys.substreams, found.keys.dropped, found.keys.split) == (2, 1, True)
    text = str(found)
    assert "2 substreams by what conditions across events compare" in text
    assert "k  NULL in 1 event of 5" in text
    assert "waiting for B with the same [k]: 2 events of this kind came, but none with that" in text


def test_which_condition_across_events_failed() -> None:
    found = diagnose("SELECT * WHERE A AS x ; C AS z ; B AS y FILTER x.k = y.k AND z.v < y.v", PAIRS)
    assert found.claims is not None
    assert [(c.text, c.how, c.alone, c.without) for c in found.claims.each] == [
        ("x.k = y.k", "looked up", Tally(0, 0), Tally(1, 1)),
        ("z.v < y.v", "found in order", Tally(1, 1), Tally(0, 0)),
    ]
    assert found.reasons == (
        "After 'A ; C' no 'B' with k = x.k & z.v < y.v came: 2 events of this kind came; 1 had no value (NULL).",
        "'x.k = y.k' never holds: without conditions across events, matches would end at 2 positions.",
    )
    assert (found.reach.done, found.reach.total) == (2, 3)
    assert found.notes == ()
    table = str(found).split("What each condition across events leaves\n")[1].split("\n")[2:8]
    assert [line.split() for line in table] == [
        ["none", "of", "them", "2", "2"],
        ["x.k", "=", "y.k,", "alone", "0", "0"],
        ["all", "but", "x.k", "=", "y.k", "1", "1"],
        ["z.v", "<", "y.v,", "alone", "1", "1"],
        ["all", "but", "z.v", "<", "y.v", "0", "0"],
        ["all", "of", "them", "0", "0"],
    ]


def test_conditions_across_events_that_never_hold_together() -> None:
    events = [
        {"type": "A", "k": 1, "v": 1}, {"type": "B", "k": 1, "v": 2}, {"type": "B", "k": 2, "v": 1},
    ]  # fmt: skip
    found = diagnose("SELECT * WHERE A AS x ; B AS y FILTER x.k < y.k AND x.v < y.v", events)
    assert found.reasons == (
        "After 'A' no 'B' with x.k < y.k & x.v < y.v came: 2 events of this kind came.",
        "Without 'x.k < y.k', matches would end at 1 position.",
        "Without 'x.v < y.v', matches would end at 1 position.",
    )
    three = "SELECT * WHERE A AS x ; B AS y FILTER x.k < y.k AND x.v < y.v AND x.v != y.v"
    assert diagnose(three, events).reasons[1:] == ("Without 'x.k < y.k', matches would end at 1 position.",)
    both = "SELECT * WHERE A AS x ; B AS y FILTER x.k < y.k AND x.v < y.v AND x.k != y.k AND x.v != y.v"
    assert diagnose(both, events).reasons[1:] == (
        "The conditions across events never hold together, though each holds for some; without them, matches would "
        "end at 2 positions.",
        "'x.k != y.k' ruled out the most partial matches: 1 of 2 groups that events met.",
    )


def test_the_groups_that_each_condition_rules_out_are_counted() -> None:
    random = np.random.default_rng(7)
    rows = 3_000
    kinds = np.array(["A", "B"])[random.integers(0, 2, rows)]
    v, w = random.integers(0, 60, rows), random.integers(0, 60, rows)
    less = same = met = 0
    groups: set[tuple[int, int]] = set()
    for row in range(rows):
        if kinds[row] == "A":
            groups.add((int(v[row]), int(w[row])))
            continue
        met += len(groups)
        less += sum(not a < v[row] for a, _ in groups)
        same += sum(a < v[row] and b == w[row] for a, b in groups)
    query = "SELECT * WHERE A AS x ; B AS y FILTER x.v < y.v AND x.w != y.w"
    found = diagnose(query, pa.table({"type": kinds, "v": v, "w": w})).claims
    assert found is not None
    assert found.groups == met
    assert [(c.text, c.ruled_out) for c in found.each] == [("x.v < y.v", less), ("x.w != y.w", same)]
    assert found.hardest is found.each[0]
    # what is found in order is counted as well
    found = diagnose("SELECT * WHERE A AS x ; B AS y FILTER x.v < y.v", pa.table({"type": kinds, "v": v})).claims
    assert found is not None
    values = [(row, set(v[:row][kinds[:row] == "A"].tolist())) for row in range(rows) if kinds[row] == "B"]
    assert found.each[0].ruled_out == sum(not a < v[row] for row, known in values for a in known)


def test_the_report_names_the_condition_that_ruled_out_most() -> None:
    found = diagnose("SELECT * WHERE A AS x ; B AS y FILTER x.k < y.k AND x.v > y.v", PAIRS)
    text = str(found)
    assert "x.k < y.k: tested; it ruled out 1 group\n" in text
    assert "x.v > y.v: tested; it ruled out 1 group\n" in text
    assert "of 2 groups of partial matches that events met, 'x.k < y.k' ruled out the most\n" in text


def test_too_many_groups_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_GROUPS", 1_000)
    monkeypatch.setattr(following, "MOST_GROUPS", 1_000)
    rows = 2_000
    events = pa.table({"type": np.array(["A", "B"])[np.arange(rows) % 2], "v": np.arange(rows), "w": np.arange(rows)})
    query = "SELECT * WHERE A AS x ; B AS y FILTER x.v > y.v AND x.w != y.w WITHIN 3 EVENTS"
    found = diagnose(query, events)
    said = "events met more than 1,000 groups of partial matches"
    assert found.notes[0] == f"the matches of the query up to WHERE could not be counted: {said}"
    assert found.claims is not None
    assert found.claims.followed is not None
    assert found.claims.followed < rows


def test_a_key_that_is_null_and_one_that_is_another() -> None:
    found = diagnose("SELECT * WHERE A AS x ; B AS y FILTER y[k = PREV.k]", PAIRS)
    (wait,) = found.reach.waits
    assert (wait.text, wait.compared, wait.hits, wait.nulls) == ("B", "k = x.k", 2, 1)
    assert found.reasons[0] == (
        "After 'A' no 'B' with k = x.k came: 2 events of this kind came; 1 had no value (NULL)."
    )


def test_runs_that_wait_to_be_joined() -> None:
    query = "SELECT * WHERE T AS t ALL S AS s ALL R AS r FILTER t.x = s.x AND s.y = r.y"
    events = [{"type": "T", "x": 1, "y": 0}, {"type": "R", "x": 0, "y": 2}, {"type": "S", "x": 1, "y": 3}]
    found = diagnose(query, events)
    assert (found.reach.done, found.reach.total) == (2, 3)
    assert found.reach.path == "T ; R"
    assert [(w.text, w.compared) for w in found.reach.waits] == [("S", "y = r.y & x = t.x")]
    assert found.reasons[0] == "After 'T ; R' no 'S' with y = r.y & x = t.x came: 1 event of this kind came."


def test_a_window_too_small_for_a_correlated_query() -> None:
    events = [{"type": "A", "k": 1}, {"type": "C", "k": 1}, {"type": "B", "k": 1}]
    found = diagnose("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k WITHIN 1 EVENTS", events)
    assert [(r.clause, r.positions, r.matches) for r in found.rungs] == [
        ("WHERE, each event by itself", 1, 1), ("WHERE", 1, 1), ("WITHIN 1 EVENT", 0, 0),
    ]  # fmt: skip
    assert found.reasons == (
        "Without WITHIN 1 EVENT, matches would end at 1 position: the shortest needs WITHIN 2 EVENTS.",
    )


def test_too_many_candidates_are_noted() -> None:
    events = pa.table({"type": ["A"] * 40 + ["B"], "v": list(range(41))})
    assert diagnose("SELECT MAX * WHERE A+ AS x ; B AS y FILTER x.v < y.v", events).rungs[1:] == (
        Rung("WHERE", 1, counting.MOST_MATCHES, counted_all=False),
        Rung("MAX", 1, 1),  # chosen on the graph
    )
    found = diagnose("SELECT MAX * WHERE A+ AS x ; B AS y ; NOT C WITHIN 1000 EVENTS", events)
    chosen = found.rungs[-1]
    assert chosen.clause == "MAX"
    assert not chosen.counted_all
    assert not chosen.all_positions
    assert found.notes[1:4] == tuple(
        f"the matches of the query up to {clause} were not all counted: there are more than 1,000,000 candidates"
        for clause in ("WHERE", "WITHIN 1000 EVENTS", "MAX")
    )


def test_prev_at_the_first_event() -> None:
    found = diagnose("SELECT * WHERE A+ AS x FILTER x[v > PREV.v]", PAIRS)
    assert found.reasons == (
        "The formula can never match: PREV is compared at its first event, where it is NULL.",
        "'x.v > PREV.v' never holds: without conditions across events, matches would end at 2 positions.",
    )


def test_a_long_stream_is_sampled() -> None:
    rows = 200_000
    kinds = np.array(["A", "B"])[np.arange(rows) % 2]
    found = diagnose(
        "SELECT * WHERE A AS x ; B AS y FILTER y[k = PREV.k] WITHIN 9 EVENTS",
        pa.table({"type": kinds, "k": np.arange(rows)}),
    )
    assert found.events == rows
    assert found.claims is not None
    assert found.claims.events == claims.MOST_EVENTS
    assert f"in the first {claims.MOST_EVENTS:,} events" in str(found)
    assert found.notes == (f"how far it got was looked at in the first {following.MOST_EVENTS:,} events only",)


def test_a_notebook_shows_it_as_text() -> None:
    found = diagnose("SELECT * WHERE BUY FILTER BUY[price < 1]")
    assert found._repr_html_().startswith('<pre class="ceql-explain" style="font-family: monospace">Diagnosis\n')
    assert "price &lt; 1" in found._repr_html_()
    assert max(len(line) for line in str(found).split("\n")) <= 100


def test_a_stream_without_types_counts_by_its_name() -> None:
    streams = {"Alarm": pa.table({"time": [1]}), "S": pa.table({"type": ["A", None], "time": [0, 3]})}
    found = ceql.compile("SELECT * FROM Alarm, S WHERE A ; Alarm").diagnose(streams)
    assert {t.name: t.events for t in found.types} == {"Alarm": 1, "A": 1}
    assert found.untyped == 1
    assert found.matches == 1


@pytest.mark.parametrize(
    ("kind", "times", "shown"),
    [
        (pa.timestamp("us", "Mars/Olympus"), [0, 1, 2], "1970-01-01 00:00:00.000001 UTC"),
        (pa.timestamp("s"), [0, 1 << 40, 1 << 41], "1099511627776 s after 1970"),
        (pa.timestamp("s", "UTC"), [0, 1 << 40, 1 << 41], "1099511627776 s after 1970"),
        (pa.date32(), [0, 1 << 24, 1 << 25], "16777216 days after 1970"),
    ],
)
def test_times_that_python_does_not_know(kind: pa.DataType, times: list[int], shown: str) -> None:
    words = pa.int32() if kind == pa.date32() else pa.int64()
    events = pa.table({"type": ["A", "B", "C"], "time": pa.array(times, words).view(kind)})
    found = ceql.compile("SELECT * WHERE A ; B ; D").diagnose(events, time="time")
    assert f"position 1, time {shown}" in str(found)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Invoice ; Goods ; NOT Recall ; Paid PARTITION BY order", 1),
        ("NOT Recall ; Paid PARTITION BY order", 1),
        ("Goods ; NOT Recall WITHIN 10 EVENTS", 1),
        ("Invoice AS i ; NOT Recall AS r ; Paid FILTER r.order = i.order", 1),
        ("Invoice ; NOT Recall ; Paid ; Never", None),
        ("Invoice ; Paid", None),
    ],
)
def test_what_not_keeps_away(query: str, expected: int | None) -> None:
    came = [{"type": name, "order": 1} for name in ("Invoice", "Goods", "Recall", "Paid")]
    found = ceql.compile(f"SELECT * WHERE {query}").diagnose(came)
    said = [reason for reason in found.reasons if reason.startswith("Without NOT")]
    told = f"Without NOT, matches would end at {expected} position: an event that must not come is always there."
    assert said == ([told] if expected else [])
