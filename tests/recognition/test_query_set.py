"""Several queries in one pass: each finds what it finds alone, however events come."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import absent_cases
import ceql
import checks
import generators
import oracle
import paths
from ceql.io import shared_keys
from ceql.predicates import shared_symbols
from ceql.recognition import frame
from ceql.recognition.unary import UnaryRecognition
from ceql.syntax.printer import print_query

CASES = st.one_of(
    generators.uncorrelated_cases(),
    generators.correlated_cases(),
    generators.conditioned_cases(),
    generators.aggregated_cases(),
    absent_cases.absent_cases(),
)
OPTIONS = checks.OPTIONS
MOST = 14  # events: the candidates of some queries are as many as there are choices among them


def together(cases: list[generators.Generated]) -> tuple[ceql.QuerySet, pa.Table, list[dict[str, Any]]]:
    """The queries of the cases as a set, and their events as one stream."""
    events = sorted((event for case in cases for event in case.events), key=lambda event: event["time"])[:MOST]
    rules = ceql.compile_all({f"q{k}": print_query(case.query) for k, case in enumerate(cases)})
    return rules, paths.table(events), events


def alone(rules: ceql.QuerySet, table: pa.Table) -> dict[str, list[oracle.Match]]:
    """What each query finds by itself."""
    try:
        return {name: paths.to_oracle(rules[name].run(table, **OPTIONS)) for name in rules}
    except ceql.DataError:
        assume(False)
        raise


def gathered(names: tuple[str, ...], found: list[ceql.MatchSet]) -> dict[str, list[oracle.Match]]:
    return {name: [match for one in found for match in paths.to_oracle(one[name])] for name in names}


def check(cases: list[generators.Generated], data: st.DataObject) -> None:
    rules, table, events = together(cases)
    expected = alone(rules, table)
    rows = data.draw(st.integers(1, 7), label="rows per batch")
    for matches in (rules.run(table, **OPTIONS), rules.run(table, batch_rows=rows, **OPTIONS)):
        assert gathered(rules.names, [matches]) == expected
    counts = {name: len(found) for name, found in expected.items()}
    assert rules.run(table, batch_rows=rows, **OPTIONS).count() == counts
    iterated: dict[str, list[oracle.Match]] = {name: [] for name in rules}
    for name, match in rules.run(table, batch_rows=rows, **OPTIONS):
        assert repr(match.rows) == repr([table.slice(k, 1).to_pylist()[0] for k in match.events])  # NaN is not NaN
        iterated[name].append(oracle.Match(match.start, match.end, match.events, frozenset(match.bindings.items())))
    assert iterated == expected
    all_rows = rules.run(table, **OPTIONS).to_arrow().to_pylist()
    assert {name: [row["events"] for row in all_rows if row["query"] == name] for name in rules} == {
        name: [list(match.events) for match in found] for name, found in expected.items()
    }
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3), label="cuts"))
    restored = data.draw(st.sets(st.integers(0, 4)), label="restored after")
    recognizer = rules.recognizer(**OPTIONS, keep_rows=data.draw(st.booleans(), label="keep rows"))
    found = []
    for k, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True)):
        found.append(recognizer.feed(table.slice(begin, end - begin)))
        if k in restored:
            recognizer = rules.restore(recognizer.snapshot())
    found.append(recognizer.finish())
    assert gathered(rules.names, found) == expected


@settings(max_examples=15)
@given(st.lists(CASES, min_size=1, max_size=5), st.data())
def test_each_query_finds_what_it_finds_alone(cases: list[generators.Generated], data: st.DataObject) -> None:
    check(cases, data)


@settings(max_examples=6)
@given(st.lists(CASES, min_size=2, max_size=4), st.data())
def test_in_tiny_buffers_and_tables(cases: list[generators.Generated], data: st.DataObject) -> None:
    """Buffers are tiny, tables of guards have room for few queries, and keys are numbered anew all the time."""
    with pytest.MonkeyPatch.context() as patch:
        checks.use_tiny_buffers(patch.setattr)
        for kind in (frame.Recognition, UnaryRecognition):
            patch.setattr(kind, "_buffers", {})
        patch.setattr(frame, "_SOME_KEYS", 0)
        patch.setattr(shared_keys, "_MANY", -1)
        patch.setattr(shared_symbols, "DENSE", 60)
        try:
            check(cases, data)
        except ceql.DataError as error:
            assume("went back" not in str(error))
            raise


# --- what users see ---

EVENTS = pa.table(
    {
        "type": ["login", "pay", "pay", "login", "pay", "ping", "pay"],
        "time": pa.array([1, 2, 3, 4, 5, 6, 7], pa.timestamp("s")),
        "user": [1, 1, 2, 2, 2, 1, 1],
        "amount": [0.0, 50.0, 70.0, 0.0, 90.0, 0.0, 500.0],
    }
)
RULES = {
    "quick": "SELECT l, p WHERE login AS l ; pay AS p PARTITION BY user WITHIN 2 SECONDS",
    "large": "SELECT p, SUM(p.amount) AS total WHERE pay AS p FILTER p.amount > 80",
    "never": "SELECT * WHERE refund ; pay",
}


def test_the_table_of_all_matches() -> None:
    matches = ceql.compile_all(RULES).run(EVENTS)
    table = matches.to_arrow()
    assert table.schema.names == [
        "query", "start", "end", "start_time", "end_time", "user", "events", "bindings", "measures"
    ]  # fmt: skip
    assert table.column("query").to_pylist() == ["quick", "quick", "large", "large"]
    assert table.column("user").to_pylist() == [1, 2, None, None]
    assert table.column("events").to_pylist() == [[0, 1], [3, 4], [4], [6]]
    assert table.column("bindings").to_pylist()[0] == [("l", [0]), ("p", [1])]
    assert table.column("measures").to_pylist()[2:] == [[("total", "90")], [("total", "500")]]
    assert matches.count() == {"quick": 2, "large": 2, "never": 0}
    assert matches["large"].to_arrow().column("total").to_pylist() == [90.0, 500.0]
    assert matches["quick"].events().column("amount").to_pylist() == [0.0, 50.0, 0.0, 90.0]
    assert not matches["never"]
    assert set(dict(matches)) == set(RULES)
    assert matches.to_pandas().groupby("query", observed=True).size().to_dict() == {"quick": 2, "large": 2}
    assert matches.to_polars().height == 4
    assert pa.table(matches).num_rows == 4


def test_rows_of_input_that_is_not_in_order_are_the_callers() -> None:
    mixed = EVENTS.take([6, 5, 4, 3, 2, 1, 0])
    matches = ceql.compile_all(RULES).run(mixed)
    assert matches["quick"].to_arrow().column("events").to_pylist() == [[6, 5], [3, 2]]
    assert matches["quick"].events().column("amount").to_pylist() == [0.0, 50.0, 0.0, 90.0]
    assert [(name, match["p"]["amount"]) for name, match in matches if name == "quick"] == [
        ("quick", 50.0),
        ("quick", 90.0),
    ]


def test_a_file_is_read_for_all_queries(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(EVENTS, path, row_group_size=2)
    matches = ceql.compile_all(RULES).run(path)
    assert matches.count() == {"quick": 2, "large": 2, "never": 0}
    assert matches["large"].events().column("amount").to_pylist() == [90.0, 500.0]
    assert [name for name, _ in matches] == ["quick", "quick", "large", "large"]


def test_a_reader_is_read_once_for_all_queries() -> None:
    def batches() -> Any:
        yield from EVENTS.to_batches(max_chunksize=2)

    rules = ceql.compile_all(RULES)
    matches = rules.run(batches())
    assert matches["quick"].events().column("amount").to_pylist() == [0.0, 50.0, 0.0, 90.0]
    assert [match["p"]["amount"] for match in matches["large"]] == [90.0, 500.0]
    assert matches.to_arrow().num_rows == 4
    streamed = rules.run(batches())
    assert [name for name, _ in streamed] == ["quick", "quick", "large", "large"]
    with pytest.raises(ceql.DataError, match="only once"):
        streamed.to_arrow()


def test_dicts_whose_columns_grow() -> None:
    events = [{"type": "A"}, {"type": "B", "k": 1}, {"type": "A", "v": 3.5}, {"type": "B", "k": 2, "v": 9}]
    rules = ceql.compile_all({"a": "SELECT * WHERE A AS x FILTER x.v > 3", "b": "SELECT * WHERE B AS x FILTER x.k = 2"})
    assert [(name, match.events) for name, match in rules.run(iter(events), batch_rows=1)] == [("a", (2,)), ("b", (3,))]
    recognizer = rules.recognizer()
    found = [(name, match.events) for event in events for name, match in recognizer.feed(event)]
    assert found == [("a", (2,)), ("b", (3,))]


def test_errors_name_the_query() -> None:
    with pytest.raises(ceql.QueryError, match=r"query 'wrong': .*\(line 1"):
        ceql.compile_all({"right": "SELECT * WHERE A", "wrong": "SELECT * WERE A"})
    rules = ceql.compile_all({"right": "SELECT * WHERE pay", "wrong": "SELECT * WHERE pay AS p FILTER p.amuont > 3"})
    with pytest.raises(ceql.SchemaError, match=r"query 'wrong': the events have no column 'amuont'"):
        rules.run(EVENTS)
    with pytest.raises(ceql.SchemaError, match="query 'wrong'"):
        rules.recognizer().feed(EVENTS)
    with pytest.raises(KeyError, match=r"no query 'rigth'\. Did you mean 'right'"):
        ceql.compile_all({"right": "SELECT * WHERE pay"}).run(EVENTS)["rigth"]


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ({}, "at least one"),
        ([("a", "SELECT * WHERE A")], "takes a dict"),
        ({"": "SELECT * WHERE A"}, "not empty"),
        ({"a": 3}, "is a text or a ceql.Query"),
        ({"a": "SELECT * FROM S WHERE A", "b": "SELECT * WHERE A"}, "'a' and 'b' read FROM different streams"),
    ],
)
def test_sets_that_make_no_sense(queries: Any, message: str) -> None:
    with pytest.raises(ceql.ArgumentError, match=message):
        ceql.compile_all(queries)


def test_several_streams() -> None:
    rules = ceql.compile_all(
        {
            "across": "SELECT * FROM S, T WHERE S>A ; T>B",
            "same": "SELECT * FROM S, T WHERE S>A ; S>B",
        }
    )
    streams = {
        "S": [{"type": "A", "time": 1}, {"type": "B", "time": 4}],
        "T": [{"type": "B", "time": 2}],
    }
    assert [(name, match.events) for name, match in rules.run(streams)] == [("across", (0, 1)), ("same", (0, 2))]
    recognizer = rules.recognizer()
    found = list(recognizer.feed(streams)) + list(recognizer.finish())
    assert [name for name, _ in found] == ["across", "same"]


def test_lateness_and_columns_of_other_names() -> None:
    events = [{"kind": "A", "at": 1}, {"kind": "B", "at": 3}, {"kind": "A", "at": 2}, {"kind": "B", "at": 9}]
    rules = ceql.compile_all({"ab": "SELECT * WHERE A ; B", "b": "SELECT * WHERE B"})
    options: dict[str, Any] = {"type": "kind", "time": "at", "lateness": 2}
    matches = rules.run(iter(events), **options)
    assert matches.count() == {"ab": 4, "b": 2}
    recognizer = rules.recognizer(**options)
    found = [name for event in events for name, _ in recognizer.feed(event)]
    assert sorted(found + [name for name, _ in recognizer.finish()]) == ["ab"] * 4 + ["b"] * 2


def test_a_feed_that_fails_is_not_taken_in() -> None:
    rules = ceql.compile_all({"ab": "SELECT * WHERE A ; B", "w": "SELECT * WHERE A AS x ; B AS y WITHIN 3 [v]"})
    recognizer = rules.recognizer()
    recognizer.feed([{"type": "A", "v": 1}])
    with pytest.raises(ceql.DataError):
        recognizer.feed([{"type": "B", "v": 2}, {"type": "B", "v": -(2**63)}])
    assert recognizer.fed == 1
    assert recognizer.feed([{"type": "B", "v": 2}]).count() == {"ab": 1, "w": 1}


def test_a_feed_whose_matches_are_too_many_is_not_taken_in() -> None:
    recognizer = ceql.compile_all({"ab": "SELECT * WHERE A ; B", "b": "SELECT * WHERE B"}).recognizer(memory=1 << 20)
    events = [{"type": "A"}] * 3000 + [{"type": "B"}] * 20
    with pytest.raises(ceql.ResourceError, match="feed fewer events at once"):
        recognizer.feed(events)
    assert (recognizer.fed, recognizer.position) == (0, 0)
    recognizer.memory = 1 << 30
    assert recognizer.feed(events).count() == {"ab": 60_000, "b": 20}


def test_a_recogniser_of_several_queries_has_metrics() -> None:
    recognizer = ceql.compile_all(RULES).recognizer()
    assert recognizer.feed(EVENTS).count() == {"quick": 2, "large": 2, "never": 0}
    metrics = recognizer.metrics()
    assert (metrics.events, metrics.feeds, metrics.matches, metrics.recoveries) == (7, 1, 4, 0)
    assert metrics.partitions == recognizer.partitions == 2


def test_matches_without_rows() -> None:
    found = ceql.compile_all(RULES).recognizer(keep_rows=False).feed(EVENTS)
    assert [name for name, _ in found] == ["quick", "quick", "large", "large"]
    with pytest.raises(ceql.SchemaError, match="keep_rows=True"):
        found["large"].events()


def test_options_are_those_of_one_query() -> None:
    rules = ceql.compile_all(RULES)
    with pytest.raises(TypeError, match=r"there is no option .latenes.\. Did you mean .lateness."):
        rules.run(EVENTS, latenes=3)  # type: ignore[call-arg]
    with pytest.raises(ceql.ArgumentError, match="keep_rows= is True or False"):
        rules.recognizer(keep_rows="no")  # type: ignore[arg-type]
    ours, theirs = (inspect.signature(run).parameters for run in (ceql.QuerySet.run, ceql.Query.run))
    assert list(ours) == list(theirs)


def test_snapshots_are_of_one_set() -> None:
    rules = ceql.compile_all(RULES)
    recognizer = rules.recognizer()
    recognizer.feed(EVENTS)
    blob = recognizer.snapshot()
    with pytest.raises(ceql.DataError, match="of other queries"):
        ceql.compile_all({"quick": RULES["quick"]}).restore(blob, strict=True)
    with pytest.raises(ceql.DataError, match="that of a set of queries"):
        ceql.compile(RULES["quick"]).restore(blob)
    with pytest.raises(ceql.DataError, match="not that of a set"):
        rules.restore(ceql.compile(RULES["quick"]).recognizer().snapshot())
    assert rules.restore(blob).position == 7


@settings(max_examples=40)
@given(st.lists(CASES, min_size=2, max_size=4), st.data())
def test_a_set_that_has_changed_goes_on(cases: list[generators.Generated], data: st.DataObject) -> None:
    """Queries of both sets find what they find alone; new ones what they find in the events from then on."""
    rules, table, events = together(cases)
    alone(rules, table)  # it must make sense
    first, second = (data.draw(st.sets(st.sampled_from(rules.names), min_size=1)) for _ in range(2))
    cut = data.draw(st.integers(0, len(events)))
    sets = [ceql.compile_all({name: rules[name] for name in sorted(names)}) for names in (first, second)]
    recognizer = sets[0].recognizer(**OPTIONS)
    recognizer.feed(table.slice(0, cut))
    recognizer = sets[1].restore(recognizer.snapshot())
    found = gathered(sets[1].names, [recognizer.feed(table.slice(cut)), recognizer.finish()])
    for name in second:
        begin = 0 if name in first else cut
        by_itself = rules[name].recognizer(**OPTIONS)
        by_itself.feed(table.slice(begin, cut - begin)).to_arrow()
        expected = [*paths.to_oracle(by_itself.feed(table.slice(cut))), *paths.to_oracle(by_itself.finish())]
        assert [[at - begin for at in match.events] for match in found[name]] == [list(m.events) for m in expected]


def test_many_keys_and_many_rules() -> None:
    """Keys are forgotten and numbered anew on the way."""
    random = np.random.default_rng(1)
    n = 40_000
    table = pa.table(
        {
            "type": random.choice(["A", "B", "C"], n),
            "time": np.arange(n),
            "k": pa.array(random.integers(0, n, n).astype(str)),
            "v": random.integers(0, 100, n),
        }
    )
    rules = ceql.compile_all(
        {
            f"r{v}": f"SELECT * WHERE A AS a ; B AS b FILTER a.v > {v} PARTITION BY k WITHIN 2000 [time]"
            for v in range(0, 100, 20)
        }
        | {"c": "SELECT * WHERE C AS a ; C AS b PARTITION BY k WITHIN 500 EVENTS"}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_keys, "_MANY", 1 << 10)
        patch.setattr(frame, "_SOME_KEYS", 1 << 7)
        matches = rules.run(table, time="time", batch_rows=1000)
        assert {name: matches[name].to_arrow() for name in rules} == {
            name: rules[name].run(table, time="time").to_arrow() for name in rules
        }
