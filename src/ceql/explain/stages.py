"""`Query.explain()`: the stages of a query, each a section of text.

In: a plan, and perhaps the schema that it is to run over. Out: text. The sections follow the way of an event
through the clauses (docs/reference.md, section 3) and then through the automaton.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.analysis.equalities import Equality
from ceql.analysis.lengths import is_hidden
from ceql.analysis.listed import attributes
from ceql.analysis.neighbours import attribute_in
from ceql.analysis.normal import to_normal
from ceql.analysis.shape import Length
from ceql.automata.correlated import Correlated
from ceql.automata.parallel import QTree
from ceql.automata.uses import Term, Use
from ceql.explain.absent import absent_lines
from ceql.explain.automaton import MOST_ROWS, AutomatonView, index_rows
from ceql.explain.claims import claims, judged, print_part
from ceql.explain.formula import alternatives, print_guard, print_normal
from ceql.explain.guarantee import guarantee, how_chosen, losses, totals, when_decided
from ceql.explain.names import leaf_name, listed, print_bare, print_value
from ceql.explain.notes import note_lines
from ceql.explain.text import Explanation, number, pairs, section, table, wrapped
from ceql.plans import CandidateReason, Loop, Plan
from ceql.predicates.bind import InputSchema, bind
from ceql.predicates.columns import AttributeColumn, MaskColumn, StreamColumn
from ceql.predicates.operands import Encoding, Operands
from ceql.predicates.values import ValueNumbers
from ceql.recognition.checks import Checks
from ceql.recognition.lags import with_lags
from ceql.recognition.lengths import Lengths
from ceql.recognition.options import Options
from ceql.recognition.window import bind_window
from ceql.syntax import tree as t
from ceql.syntax.printer import print_expression, print_name, print_query
from ceql.syntax.walking import leaves

_STRATEGIES = {
    t.Strategy.ALL: "ALL: every match is kept",
    t.Strategy.ANY: "ANY: of the matches that end at an event, the first is kept, one of latest start",
    t.Strategy.STRICT: "STRICT: inside the automaton, which follows only matches whose events are contiguous",
}
_ONE = "one match for each start, the preferred one; the next start is "
_AFTER = {
    t.Skip.PAST_LAST: f"{_ONE}the event after its last",
    t.Skip.TO_NEXT: f"{_ONE}the event after its first",
    t.Skip.TO_FIRST: f"{_ONE}its first event of {{}}",
    t.Skip.TO_LAST: f"{_ONE}its last event of {{}}",
}
_CONSUME = {
    t.Consume.NONE: "nothing is forgotten after a match",
    t.Consume.PARTITION: "after an event that ends a match, all events of its substream so far are forgotten",
    t.Consume.ANY: "after an event that ends a match, all events so far are forgotten",
}


def explain(plan: Plan, schema: pa.Schema | None, options: Options) -> Explanation:
    """All sections that can be written of this query."""
    sections = [
        section("Query", [line for text in print_query(plan.query).split("\n") for line in wrapped(text, "", "    ")]),
        section("Class and guarantee", _guarantee(plan)),
    ]
    if plan.whole is not None:
        sections.append(section("Conditions across events", _across(plan)))
    absent = absent_lines(plan)
    if absent:
        sections.append(section("Absent events", absent))
    notes = note_lines(plan)
    if notes:
        sections.append(section("Worth knowing", notes))
    sections += [
        section("Formula in LP-normal form (every condition at the event it is about)", _normal(plan)),
        section("Clauses, in the order they apply", pairs(_clauses(plan))),
        section("Guards", _guards(plan)),
    ]
    view = AutomatonView(plan)
    sections.append(section(f"Automaton ({number(view.states, 'state')})", view.lines(MOST_ROWS)))
    if plan.automaton.indexes:
        sections.append(section("Indexes, where runs wait", pairs(index_rows(plan.running)[:MOST_ROWS])))
    if plan.automaton.parallel.trees:
        sections.append(section("Sides of ALL that run in parallel", _trees(plan.automaton)))
    sections.append(section("Reading", pairs(_reading(plan))))
    if schema is not None:
        sections.append(section("Over this schema", _bound(plan, schema, options)))
    return Explanation("\n\n".join(sections) + "\n")


def _guarantee(plan: Plan) -> list[str]:
    kind = guarantee(plan)
    if plan.loop is Loop.GROUPS:
        engine = "the compiled loop over groups: runs wait under the values compared (pcea-hcq-2024, Algorithm 1)"
        if plan.automaton.carrying is not None:
            engine += "; runs that agree on all that later conditions ask for are one group"
    elif plan.loop is Loop.PREFERRED:
        engine = "the compiled loop over ordered lists of runs: at most one run for each state and start"
        if plan.compares:
            engine += " with the same values of all that later conditions ask for"
    elif plan.rivalry is None:
        engine = "the compiled loop over states, and its graph (core-vldb2022, Algorithm 1)"
    elif plan.query.window is None:
        engine = "the same compiled loop; the automaton's states know their rivals"
    elif plan.chooses_at_once:
        engine = "the same compiled loop; the automaton's states know those rivals that start no earlier"
    else:
        engine = "the compiled loop finds where matches end; the window is replayed there to choose among them"
    rows = [
        ("class", kind.name),
        ("update per event", kind.update),
        ("enumeration", kind.enumeration),
        ("aggregate()", totals(plan)),
        ("engine", engine),
    ]
    if plan.loop is Loop.PREFERRED:
        rows.append(("decided", when_decided(plan)))
    if plan.automaton.is_deterministic:
        rows.append(("runs", "one for each match: the automaton was made deterministic"))
    rows += [("why", loss.why) for loss in losses(plan)]
    return pairs(rows)


def _across(plan: Plan) -> list[str]:
    lines: list[str] = []
    for j in judged(plan):
        about = "" if j.where is None else f", in each {j.where}"
        lines += wrapped(f"line {j.line}, column {j.column}: {j.text}{about}", "", "    ")
        lines += wrapped(f"{j.how.value}: {j.why}", "    ")
    return lines or ["none is left: each is about one event at a time"]


def _trees(auto: Correlated) -> list[str]:
    """What the sides have in common, those with more in common further in."""

    def sides(tree: QTree) -> list[int]:
        return [side for part in tree.parts for side in (sides(part) if isinstance(part, QTree) else [part])]

    def lines(tree: QTree, depth: int) -> list[str]:
        indent = "  " * depth
        who = listed(print_normal(to_normal(auto.shape, side)) for side in sorted(sides(tree)))
        common = listed(_value(auto, e) for e in tree.shared) if tree.shared else "nothing"
        found = wrapped(f"{who}: {common} in common", indent, indent + "    ")
        for part in tree.parts:
            if isinstance(part, QTree):
                found += lines(part, depth + 1)
        return found

    return [line for tree in auto.parallel.trees for line in lines(tree, 0)]


def _value(auto: Correlated, equality: Equality) -> str:
    """The attributes of an equality: `t.x = s.x`."""
    terms = [print_value(e, leaf_name(auto.shape, leaf)) for leaf, values in equality.terms.items() for e in values]
    return " = ".join(dict.fromkeys(terms))


def _normal(plan: Plan) -> list[str]:
    lines: list[str] = []
    shown = alternatives(plan.normal)
    for k, text in enumerate(shown):
        lines += wrapped(text, "   " if k == 0 else "OR ", "     ")
    if not lines:
        return ["never: no event can satisfy what the formula asks for"]
    return lines if len(shown) > 1 else wrapped(shown[0], "", "  ")


def _clauses(plan: Plan) -> list[tuple[str, str]]:
    query = plan.query
    rows = []
    if query.streams:
        merged = " merged by time; ties in this order" if len(query.streams) > 1 else ""
        rows.append(("FROM", ", ".join(map(print_name, query.streams)) + merged))
    if plan.shown_keys:
        keys = ", ".join(map(print_part, plan.shown_keys))
        text = f"{keys}: one substream for each combination of values; an event with a NULL key belongs to none"
        rows.append(("PARTITION BY", text))
    elif query.partition:
        rows.append(
            ("PARTITION BY", "names variables: it is the operator on the whole formula, a condition across events")
        )
    if plan.split_by:
        keys = ", ".join(map(print_part, plan.split_by))
        text = f"{keys}: every event of a match has it in common, so there are substreams though no clause says so"
        rows.append(("split by", text))
    rows.append(("SELECT", _selected(plan)))
    rows.append(("WITHIN", _window(plan)))
    if query.after_match is not None:
        rows.append(("AFTER MATCH", _AFTER[query.after_match.skip].format(query.after_match.variable)))
        return rows
    rows.append(("strategy", _strategy(plan)))
    if query.limit is not None:
        rows.append(("LIMIT", f"the first {number(query.limit, 'match', 'matches')} at each end position"))
    rows.append(("CONSUME BY", f"{query.consume.value}: {_CONSUME[query.consume]}"))
    return rows


def _selected(plan: Plan) -> str:
    listed = None if plan.query.items is None else [item.name for item in plan.query.items]
    measures = [print_expression(measure.expression) for measure in plan.query.measures]
    names = ", ".join([*map(print_name, plan.selected if listed is None else dict.fromkeys(listed)), *measures])
    if not plan.selected:
        names = f"{names}; " * bool(names) + "no variable: a match is its interval alone"
    if plan.query.distinct:
        return f"{names}; DISTINCT: matches are the same when interval and positions are, whatever the variables"
    return names


def _window(plan: Plan) -> str:
    match plan.query.window:
        case None:
            return "no window: a match may span the whole stream, and no partial match expires"
        case t.EventsWindow(count):
            where = "of the substream, those that satisfy no guard too" if plan.shown_keys else "of the whole stream"
            return f"end - start <= {count:,}, counted in events {where}"
        case t.TimeWindow(nanoseconds):
            return f"end - start <= {nanoseconds / 1e9:,.9g} seconds, measured in event time"
        case t.AttributeWindow(size, attribute):
            return f"end - start <= {size:,}, measured in the attribute {print_name(attribute)}"


def _strategy(plan: Plan) -> str:
    strategy = plan.query.strategy
    if strategy is None:
        return f"{_STRATEGIES[t.Strategy.ALL]} (the default)"
    if plan.loop is Loop.GROUPS and strategy is t.Strategy.STRICT:
        how = "inside the automaton, each of whose steps reads the very next event"
        if CandidateReason.STRICT in plan.candidate_reasons:
            how = "checked on each candidate"
        return f"STRICT: {how}"
    if plan.rivalry is None:
        if strategy is t.Strategy.MAX:
            return "MAX: every match is kept, since all have equally many events"
        return _STRATEGIES[strategy]
    if plan.loop is Loop.GROUPS:
        return how_chosen(plan, strategy)
    if plan.query.window is None:
        return f"{strategy.value}: inside the automaton, whose runs carry where their rivals stand"
    if plan.chooses_at_once:
        kept = "all that are left" if strategy is t.Strategy.MAX else "those of the earliest start in the window"
        return (
            f"{strategy.value}: inside the automaton; a run is given up for rivals that start where it does or later, "
            f"which the window leaves no sooner, and of the others {kept} are matches"
        )
    return (
        f"{strategy.value}: by replay; where matches end, the events of the window are run once more through an "
        "automaton whose runs know their rivals, so that an expired match suppresses none"
    )


def _guards(plan: Plan) -> list[str]:
    return pairs([(f"g{k}", print_guard(guard)) for k, guard in enumerate(plan.guards, 1)]) or ["none"]


def _reading(plan: Plan) -> list[tuple[str, str]]:
    if not plan.skips_safely:
        skipping = "no: contiguity makes every event count"
    elif plan.counts_events and plan.shown_keys:
        skipping = "no: the window counts the events of each substream"
    else:
        skipping = "yes: an event that satisfies no guard never reaches the loop"
    names = columns_read(plan)
    shown = ", ".join(map(print_name, names)) or "none"
    return [("skips events", skipping), ("attributes", f"{shown} (besides the columns of type and time)")]


def columns_read(plan: Plan) -> list[str]:
    """The attributes that guards, comparisons, PARTITION BY and the window read, in order of appearance."""
    read: list[t.Condition | t.Expression] = [p for guard in plan.guards for p in guard.predicates]
    read += [*plan.automaton.terms, *(term.what for term in plan.automaton.reads)]
    names = [attribute_in(leaf.name) for node in read for leaf in leaves(node) if isinstance(leaf, t.Attribute)]
    names += [name for claim in plan.automaton.denials for name in sorted(attributes(claim))]
    windows = [claim.what.window for claim in claims(plan) if isinstance(claim.what, Length)]
    names += [window.attribute for window in windows if isinstance(window, t.AttributeWindow)]
    names += [ref.attribute for part in plan.partition for ref in part.refs]
    if isinstance(plan.query.window, t.AttributeWindow):
        names.append(plan.query.window.attribute)
    return list(dict.fromkeys(name for name in names if not is_hidden(name)))


def _bound(plan: Plan, schema: pa.Schema, options: Options) -> list[str]:
    type, time = options.type_column(schema), options.time_column(schema)
    streams: tuple[str | None, ...] = plan.query.streams or (None,)
    bound = bind(plan.guards, InputSchema(with_lags(schema, plan.lags), False, type, streams), plan.source)
    rows = []
    for column in bound.columns:
        match column:
            case AttributeColumn(attribute=column_name):
                name = attribute_in(column_name)
                before = "" if name == column_name else " of an event before"
                rows.append([f"{name}{before}", str(schema.field(name).type), _kind(column), str(column.classes)])
            case StreamColumn():
                rows.append(["(stream)", "", _kind(column), str(column.classes)])
            case MaskColumn():
                rows.append(["(expression)", "", _kind(column), str(column.classes)])
    if plan.compares:
        auto = plan.automaton
        values = ValueNumbers(auto.terms, auto.compares, schema, False, plan.source)
        extended = Lengths(plan, schema, time, options, False).extended(schema)
        Checks(auto, extended, False, plan.source, time)  # says which column does not fit
        operands = Operands(auto.with_time(time), extended, False, plan.source)
        rows += [
            [print_expression(term), str(kind), "numbers of its values", ""]
            for term, kind in zip(auto.terms, values.types, strict=True)
        ]
        rows += [
            [print_bare(term.what), "", _carried_as(term, encoding), ""]
            for term, encoding in zip(auto.reads, operands.encodings, strict=True)
            if not (isinstance(term.what, t.Attribute) and is_hidden(term.what.name))
        ]
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


def _carried_as(term: Term, encoding: Encoding) -> str:
    if term.use is Use.TRUTH:
        return "true, false or unknown"
    return "numbers of its values, by rank" if encoding is Encoding.RANKED else "its values, as words"


def _kind(column: object) -> str:
    return {
        "NumberColumn": "ranges between cuts",
        "TextColumn": "equality with literals",
        "TextTestColumn": "a test of each text",
        "NullColumn": "NULL or not",
        "StreamColumn": "its stream",
        "MaskColumn": "a vectorised mask",
    }.get(column.__class__.__name__, column.__class__.__name__)
