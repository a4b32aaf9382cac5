"""`Query.explain()`: the stages of a query, each a section of text.

In: a plan, and perhaps the schema that it is to run over. Out: text. The sections follow the way of an event
through the clauses (docs/reference.md, section 3) and then through the automaton.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.analysis.conditions import leaves
from ceql.automata.cea import CEA
from ceql.explain.automaton import MOST_ROWS, AutomatonView
from ceql.explain.formula import alternatives, print_guard
from ceql.explain.guarantee import constructs, query_class
from ceql.explain.text import Explanation, number, pairs, section, table, wrapped
from ceql.options import Options
from ceql.plan import Plan
from ceql.predicates.bind import Events, bind
from ceql.predicates.columns import AttributeColumn, MaskColumn, StreamColumn
from ceql.syntax import tree as t
from ceql.syntax.printer import print_formula, print_name, print_query
from ceql.window import bind_window

_STRATEGIES = {
    t.Strategy.ALL: "ALL: every match is kept",
    t.Strategy.ANY: "ANY: of the matches that end at an event, the first is kept, one of latest start",
    t.Strategy.STRICT: "STRICT: inside the automaton, which follows only matches whose events are contiguous",
}
_COMPARED = {t.Strategy.NEXT, t.Strategy.LAST, t.Strategy.MAX}
_CONSUME = {
    t.Consume.NONE: "nothing is forgotten after a match",
    t.Consume.PARTITION: "after an event that ends a match, all events of its substream so far are forgotten",
    t.Consume.ANY: "after an event that ends a match, all events so far are forgotten",
}


def explain(
    plan: Plan, schema: pa.Schema | None, type: str | None, time: str | None, time_unit: str | None
) -> Explanation:
    """All sections that can be written of this query."""
    sections = [
        section("Query", [line for text in print_query(plan.query).split("\n") for line in wrapped(text, "", "    ")]),
        section("Class and guarantee", _guarantee(plan)),
    ]
    if plan.correlations:
        sections.append(section("Conditions across events", _correlated(plan)))
        sections.append(section("Formula", wrapped(print_formula(plan.query.formula))))
        sections.append(section("Clauses, in the order they apply", pairs(_clauses(plan))))
        return Explanation("\n\n".join(sections) + "\n")
    cea = plan.cea
    sections += [
        section("Formula in LP-normal form (every condition at the event it is about)", _normal(plan)),
        section("Clauses, in the order they apply", pairs(_clauses(plan))),
        section("Guards", _guards(cea)),
        section(f"Automaton ({number(len(cea.states), 'state')})", AutomatonView(plan).lines(MOST_ROWS)),
        section("Reading", pairs(_reading(plan))),
    ]
    if schema is not None:
        options = Options(type, time, time_unit)
        sections.append(section("Over this schema", _bound(plan, schema, options)))
    return Explanation("\n\n".join(sections) + "\n")


def _guarantee(plan: Plan) -> list[str]:
    kind = query_class(plan).value
    if plan.correlations:
        engine = "none in this version: the query can be explained, not evaluated"
    elif plan.rivalry is None:
        engine = "the compiled loop over symbols, and its arena (core-vldb2022, Algorithm 1)"
    elif plan.query.window is None:
        engine = "the same compiled loop; the automaton's states know their rivals"
    else:
        engine = "the compiled loop finds where matches end; the window is replayed there to choose among them"
    return pairs(
        [
            ("class", kind.name),
            ("update per event", kind.update),
            ("enumeration", kind.enumeration),
            ("engine", engine),
        ]
    )


def _correlated(plan: Plan) -> list[str]:
    lines: list[str] = []
    for c in constructs(plan):
        lines += wrapped(f"line {c.line}, column {c.column}: {c.correlation.construct}", "", "    ")
        lines += wrapped(f"{c.kind.value.name}: {c.why}", "    ")
    return lines + wrapped("Evaluating these is not available in this version; `run` raises a QueryError.")


def _normal(plan: Plan) -> list[str]:
    lines: list[str] = []
    for k, text in enumerate(alternatives(plan.normal)):
        lines += wrapped(text, "   " if k == 0 else "OR ", "     ")
    if not lines:
        return ["never: no event can satisfy what the formula asks for"]
    return lines if len(alternatives(plan.normal)) > 1 else wrapped(alternatives(plan.normal)[0], "", "  ")


def _clauses(plan: Plan) -> list[tuple[str, str]]:
    query = plan.query
    rows = []
    if query.streams:
        merged = " merged by time; ties in this order" if len(query.streams) > 1 else ""
        rows.append(("FROM", ", ".join(map(print_name, query.streams)) + merged))
    if query.partition:
        keys = ", ".join("[" + ", ".join(_ref(r) for r in part.refs) + "]" for part in query.partition)
        text = f"{keys}: one substream for each combination of values; an event with a NULL key belongs to none"
        rows.append(("PARTITION BY", text))
    rows.append(("SELECT", _selected(plan)))
    rows.append(("WITHIN", _window(query)))
    rows.append(("strategy", _strategy(plan)))
    if query.limit is not None:
        rows.append(("LIMIT", f"the first {number(query.limit, 'match', 'matches')} at each end position"))
    rows.append(("CONSUME BY", f"{query.consume.value}: {_CONSUME[query.consume]}"))
    return rows


def _ref(ref: t.PartRef) -> str:
    return print_name(ref.attribute) if ref.name is None else f"{print_name(ref.name)}.{print_name(ref.attribute)}"


def _selected(plan: Plan) -> str:
    names = ", ".join(map(print_name, plan.selected)) or "no variable: a match is its interval alone"
    if plan.query.distinct:
        return f"{names}; DISTINCT: matches are the same when interval and positions are, whatever the variables"
    return names


def _window(query: t.Query) -> str:
    match query.window:
        case None:
            return "no window: a match may span the whole stream, and no partial match expires"
        case t.EventsWindow(count):
            where = "of the substream, those that satisfy no guard too" if query.partition else "of the whole stream"
            return f"end - start <= {count:,}, counted in events {where}"
        case t.TimeWindow(nanoseconds):
            return f"end - start <= {nanoseconds / 1e9:,.9g} seconds, measured in event time"
        case t.AttributeWindow(size, attribute):
            return f"end - start <= {size:,}, measured in the attribute {print_name(attribute)}"


def _strategy(plan: Plan) -> str:
    strategy = plan.query.strategy
    if strategy is None:
        return f"{_STRATEGIES[t.Strategy.ALL]} (the default)"
    if strategy not in _COMPARED:
        return _STRATEGIES[strategy]
    if plan.query.window is None:
        return f"{strategy.value}: inside the automaton, whose runs carry where their rivals stand"
    return (
        f"{strategy.value}: by replay; where matches end, the events of the window are run once more through an "
        "automaton whose runs know their rivals, so that an expired match suppresses none"
    )


def _guards(cea: CEA) -> list[str]:
    return pairs([(f"g{k}", print_guard(guard)) for k, guard in enumerate(cea.guards, 1)]) or ["none"]


def _reading(plan: Plan) -> list[tuple[str, str]]:
    cea, query = plan.cea, plan.query
    if not cea.skips_safely():
        skipping = "no: contiguity makes every event count"
    elif isinstance(query.window, t.EventsWindow) and query.partition:
        skipping = "no: the window counts the events of each substream"
    else:
        skipping = "yes: an event that satisfies no guard never reaches the loop"
    names = columns_read(plan)
    shown = ", ".join(map(print_name, names)) or "none"
    return [("skips events", skipping), ("attributes", f"{shown} (besides the columns of type and time)")]


def columns_read(plan: Plan) -> list[str]:
    """The attributes that guards, PARTITION BY and the window read, in order of appearance."""
    names = [
        leaf.name for g in plan.cea.guards for p in g.predicates for leaf in leaves(p) if isinstance(leaf, t.Attribute)
    ]
    names += [ref.attribute for part in plan.query.partition for ref in part.refs]
    if isinstance(plan.query.window, t.AttributeWindow):
        names.append(plan.query.window.attribute)
    return list(dict.fromkeys(names))


def _bound(plan: Plan, schema: pa.Schema, options: Options) -> list[str]:
    type, time = options.type_column(schema), options.time_column(schema)
    streams: tuple[str | None, ...] = plan.query.streams or (None,)
    bound = bind(plan.cea.guards, Events(schema, False, type, streams), plan.source)
    rows = []
    for column in bound.columns:
        match column:
            case AttributeColumn(attribute=name):
                rows.append([name, str(schema.field(name).type), _kind(column), str(column.classes)])
            case StreamColumn():
                rows.append(["(stream)", "", _kind(column), str(column.classes)])
            case MaskColumn():
                rows.append(["(expression)", "", _kind(column), str(column.classes)])
    codes = int(np.prod([column.classes for column in bound.columns], dtype=object))
    lines = (
        table(["column", "type", "classified by", "classes"], rows, right=(3,)) if rows else ["no column is looked at"]
    )
    window = bind_window(plan, schema, time, options, False)
    facts = [
        ("codes", f"{codes:,} combinations of classes at most"),
        ("type column", type or "none: an event's type is the name of its stream"),
        ("time column", time or "none"),
    ]
    if plan.query.window is not None:
        facts.append(("window column", window.column or "none: positions are counted"))
    return [*lines, *pairs(facts)]


def _kind(column: object) -> str:
    return {
        "NumberColumn": "ranges between cuts",
        "TextColumn": "equality with literals",
        "TextTestColumn": "a test of each text",
        "NullColumn": "NULL or not",
        "StreamColumn": "its stream",
        "MaskColumn": "a vectorised mask",
    }.get(column.__class__.__name__, column.__class__.__name__)
