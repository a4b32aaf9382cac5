"""A clause as a query of CEQL, where a plain one says the same.

PATTERN becomes a formula of `:`, OR and counts, which AFTER MATCH SKIP prefers in the order of SQL; DEFINE becomes
FILTERs, MEASURES items of SELECT, SUBSET a second name. In: the statement as `clauses` reads it, its expressions as
`navigation` does (`as_expressions` has their words). What CEQL has no plain words for is noted, all of it.

A variable with several rows means its last one where SQL compares it, and its first one in FIRST: such a row gets a
name of its own, so that `B+` becomes `(T:* : T AS B_last) AS B`.
"""

from __future__ import annotations

from itertools import permutations

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from ceql.errors import QueryError, did_you_mean
from ceql.query import Query, compile
from ceql.row_patterns import navigation
from ceql.row_patterns.as_expressions import ConditionWords, MeasureWords, never_null
from ceql.row_patterns.automaton import compile_pattern
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.expressions import interval
from ceql.row_patterns.navigation import EVERY
from ceql.row_patterns.pattern import Anchor, Choice, Excluded, Leaf, Node, Permute, Repeat, Sequence
from ceql.row_patterns.problem import Problems, Refused
from ceql.row_patterns.rows import column_keys
from ceql.row_patterns.selection import check_simple
from ceql.row_patterns.statement import PAST_LAST, TO_FIRST, TO_LAST, TO_NEXT, Statement
from ceql.syntax import tree
from ceql.syntax.printer import print_query

_SKIPS = {
    PAST_LAST: tree.Skip.PAST_LAST,
    TO_NEXT: tree.Skip.TO_NEXT,
    TO_FIRST: tree.Skip.TO_FIRST,
    TO_LAST: tree.Skip.TO_LAST,
}
_MOST_ORDERS = 24
"""Of the parts of PERMUTE."""


def translate(statement: Statement) -> Query:
    """The query that finds the matches of a statement's clause."""
    problems = Problems()
    translation = Translation(statement, problems)
    text = translation.text()
    if problems:
        raise problems.error(statement.sql, "ceql.match_recognize runs the statement as it is.")
    try:
        return compile(text)
    except QueryError as error:
        message = f"CEQL cannot say this: {error.message}"
        raise QueryError(message, statement.sql, None, f"It would be written:\n{text}") from error


class Translation:
    """One clause on its way; variables keep their names, and get further ones for rows that are compared."""

    def __init__(self, statement: Statement, problems: Problems):
        self._statement = statement
        self._found = statement.found[0]
        self.clause = self._found.clause
        self._problems = problems
        self.places = _places(self.clause.pattern)
        self._automaton = compile_pattern(self.clause.pattern)
        self._taken = {*self.clause.variables, *self.clause.subsets}
        named = (*self.clause.subsets, *self.clause.variables)
        self._labels: dict[navigation.Rows, str] = {self.clause.rows_of(name): name for name in named}
        self._ends: dict[tuple[str, bool], str] = {}
        """The names of first and last rows."""
        self.conditions: dict[str, tree.Condition] = {}
        self.keys: list[str] = []

    def text(self) -> str:
        """The query as CEQL; without a meaning if a problem was noted."""
        clause, noted = self.clause, self._problems.noted
        columns: list[exp.Expr] | None = None
        time: str | None = None
        measures: dict[str, tree.Measure] = {}
        with noted():
            columns = self._selected()
        with noted():
            self.keys, order = column_keys(clause, EVERY)
            time = order[0][0] if order else None
            if len(order) > 1 or (order and order[0][1].descending):
                advice = "Number the rows in this order, and write ORDER BY that number."
                place = span_of(order[-1][1].expression)
                raise Refused("rows are put in order of one column, ascending", place, advice)
        if self._automaton.first.empty or self._automaton.other.empty:
            self._problems.append(Refused("PATTERN may match no rows at all, and an event is in each match", None))
        if clause.empty == "unmatched":
            self._problems.append(Refused("WITH UNMATCHED ROWS has no plain form", None))
        for variable, condition in clause.define.items():
            if isinstance(condition, exp.Boolean) and condition.this:
                continue
            with noted():
                reading = navigation.read(condition, clause, EVERY)
                words = ConditionWords(self, reading, variable, self._problems)
                self.conditions[variable] = words.condition(reading.tree)
        for measure in clause.measures:
            with noted():
                reading = navigation.read(measure.expression, clause, EVERY)
                value = MeasureWords(self, reading, self._problems).value(reading.tree)
                measures[measure.name] = tree.Measure(value, measure.name)
        window: tree.Window | None = None
        with noted():  # Flink's window does not include its end, CEQL's does: it is the least bit shorter
            window = None if clause.within is None else tree.TimeWindow(1000 * interval(clause.within) - 1)
        event = tree.Event(self._fresh(self._found.source.name or "rows"))
        formula: tree.Formula = event
        with noted():
            formula = self._formula(clause.pattern, event)
        if self._problems:
            return ""
        if None in self._labels:
            formula = tree.As(formula, self._labels[None])
        for variable, said in self.conditions.items():
            formula = tree.Filter(formula, tree.Bracket(variable, said))  # type: ignore[arg-type]
        query = tree.Query(
            formula,
            tuple(tree.SelectItem(name) for name in clause.variables),
            streams=(event.type,),
            partition=tuple(tree.Part((tree.PartRef(key),)) for key in self.keys),
            window=window,
            measures=self._chosen(measures, columns),
            after_match=tree.AfterMatch(_SKIPS[clause.skip.to], clause.skip.variable),
        )
        if self._problems:
            return ""
        return f"{print_query(query)}\n-- each row is an event '{event.type}': run with type=None, time={time!r}"

    def _selected(self) -> list[exp.Expr] | None:
        """The columns of the SELECT around the clause, if it does not take all."""
        if len(self._statement.found) > 1:
            message = f"the statement has {len(self._statement.found)} MATCH_RECOGNIZE"
            raise Refused(message, self._statement.found[1].span, "Translate them one by one.")
        source = self._found.source
        if source.name is None or source.text.count(" ") > 1:
            raise Refused("the rows must come from a table, by its name", source.span)
        try:
            around = sqlglot.parse_one(self._statement.around, dialect="trino")
        except ParseError:
            raise Refused("the SQL around MATCH_RECOGNIZE cannot be read", None) from None
        advice = "Do the rest with the result: matches.to_pandas()."
        try:
            select = check_simple(around, "around MATCH_RECOGNIZE")
        except Refused as problem:
            raise Refused(problem.message, problem.span, advice) from None
        known = {"where": "WHERE", "order": "ORDER BY", "limit": "LIMIT"}
        others = " and ".join(word for name, word in known.items() if select.args.get(name))
        if others:
            raise Refused(f"around MATCH_RECOGNIZE there is {others}", None, advice)
        return None if any(each.find(exp.Star) for each in select.expressions) else select.expressions

    def _chosen(self, measures: dict[str, tree.Measure], columns: list[exp.Expr] | None) -> tuple[tree.Measure, ...]:
        """The measures that the SELECT around MATCH_RECOGNIZE lists."""
        found = []
        for column in columns or ():
            inner = column.this if isinstance(column, exp.Alias) else column
            if isinstance(inner, exp.Column) and inner.name in measures:
                found.append(tree.Measure(measures[inner.name].expression, column.alias_or_name))
            elif not isinstance(column, exp.Column) or inner.name not in self.keys:
                near = did_you_mean(inner.name, [*measures, *self.keys])
                self._problems.append(Refused("SELECT may list measures and keys alone", span_of(column), near))
        return tuple(measures.values()) if columns is None else tuple(found)

    # --- names of rows ---

    def rows(self, rows: navigation.Rows) -> str:
        """The name for the rows of a variable or SUBSET, or for all rows of a match."""
        if rows not in self._labels:
            self._labels[rows] = self._fresh("rows")
        return self._labels[rows]

    def edge(self, rows: navigation.Rows, last: bool) -> str:
        """The variable that has the last (first) of some rows."""
        label = self.rows(rows) if rows is not None else None
        if label in self.clause.variables:
            return str(label)
        found = _edge(self.clause.pattern, last) if rows is None else None
        if found is None:
            raise Refused("the variable of this row is not the same in each match", None, "Name the variable.")
        return found.variable

    def is_single(self, variable: str) -> bool:
        """Whether a variable has one row at most."""
        place = self.places[variable]
        return place is not None and (isinstance(place, Leaf) or place.most == 1)

    def end(self, variable: str, last: bool) -> str:
        """The name of the last (first) row of a variable."""
        place = self.places[variable]
        if place is None:
            message = f"'{variable}' may have rows in several places, and one of them is asked for"
            raise Refused(message, None, "Give that row a variable of its own in PATTERN.")
        if self.is_single(variable):
            return variable
        if (variable, last) not in self._ends:
            self._ends[variable, last] = self._fresh(f"{variable}_{'last' if last else 'first'}")
        return self._ends[variable, last]

    def is_before(self, variable: str, own: str) -> bool:
        """Whether every match has a row of `variable` before each row of `own`."""
        places = self._automaton.places
        waiting = [*self._automaton.first.places, *self._automaton.other.places]
        seen: set[int] = set()
        while waiting:
            place = waiting.pop()
            if place in seen or places[place].variable == variable:
                continue
            if places[place].variable == own:
                return False
            seen.add(place)
            waiting += places[place].after
        return True

    def may_begin(self, variable: str) -> bool:
        """Whether a match may begin with a row of a variable."""
        begins = {*self._automaton.first.places, *self._automaton.other.places}
        return any(self._automaton.places[place].variable == variable for place in begins)

    def is_known(self, variable: str, column: str) -> bool:
        """Whether a column is not NULL in any row of a variable."""
        return tree.Attribute(column) in never_null(self.conditions.get(variable))

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    # --- PATTERN ---

    def _formula(self, node: Node, event: tree.Event) -> tree.Formula:
        match node:
            case Leaf(variable):
                return self._named(event, variable)
            case Repeat(Leaf(variable), least, most, greedy):
                first, last = self._ends.get((variable, False)), self._ends.get((variable, True))
                return self._named(_split(event, least, most, greedy, first, last), variable)
            case Repeat(item, least, most, greedy):
                return _counted(self._formula(item, event), least, most, greedy)
            case Choice(items):
                return tree.Or(tuple(self._formula(item, event) for item in items))
            case Sequence(items) if items:
                return _chain([self._formula(item, event) for item in items])
            case Permute(items, span):
                orders = list(permutations(items)) if len(items) < 5 else []
                if not 0 < len(orders) <= _MOST_ORDERS:
                    raise Refused("PERMUTE of so many parts has no plain form", span)
                return tree.Or(tuple(self._formula(Sequence(order), event) for order in orders))
            case Excluded(item, span):
                self._problems.append(
                    Refused("excluded rows, {- … -}, have no plain form", span, "Leave the braces out.")
                )
                return self._formula(item, event)
            case Anchor(start, span):
                self._problems.append(Refused(f"the anchor {'^' if start else '$'} has no plain form", span))
            case Sequence(_, span):
                self._problems.append(Refused("the empty pattern () has no plain form", span))
        return event

    def _named(self, formula: tree.Formula, variable: str) -> tree.Formula:
        """With the name of a variable, and of the SUBSETs that have it."""
        names = [variable, *(name for name, members in self.clause.subsets.items() if variable in members)]
        for name in names:
            formula = tree.As(formula, name)
        return formula


def _places(pattern: Node) -> dict[str, Leaf | Repeat | None]:
    """Of each variable the leaf or its count, if a match reads it once; None if it does so at several places."""
    found: dict[str, Leaf | Repeat | None] = {}

    def walk(node: Node, looped: bool) -> None:
        match node:
            case Leaf(variable) | Repeat(Leaf(variable)):
                found[variable] = None if looped or variable in found else node
            case Repeat(item, _, most):
                walk(item, looped or most != 1)
            case Excluded(item):
                walk(item, looped)
            case Permute(items) | Sequence(items) | Choice(items):
                for item in items:
                    walk(item, looped or isinstance(node, Permute))

    walk(pattern, False)
    return found


def _edge(node: Node, last: bool) -> Leaf | None:
    """The place of the last (first) row of every match, if there is only one."""
    match node:
        case Leaf():
            return node
        case Repeat(item, least) if least:
            return _edge(item, last)
        case Sequence(items) if items:
            return _edge(items[-1 if last else 0], last)
    return None


def _counted(formula: tree.Formula, least: int, most: int | None, greedy: bool) -> tree.Formula:
    """The formula, so many times in a row."""
    if least == most == 1:
        return formula
    if (least, most) == (1, None):
        return tree.Plus(formula, tree.Joint.TOUCH, not greedy)
    joint = tree.Joint.THEN if (least, most) == (0, 1) else tree.Joint.TOUCH
    return tree.Count(formula, least, most, joint, not greedy)


def _chain(items: list[tree.Formula]) -> tree.Formula:
    return items[0] if len(items) == 1 else tree.Then(tuple(items), (tree.Joint.TOUCH,) * (len(items) - 1))


def _split(
    event: tree.Event, least: int, most: int | None, greedy: bool, first: str | None, last: str | None
) -> tree.Formula:
    """`least` to `most` events in a row, of which the first and the last have names."""
    if first is None and last is None:
        return _counted(event, least, most, greedy)

    def several(least: int) -> tree.Formula:
        ends = (first is not None) + (last is not None)
        items: list[tree.Formula] = [] if first is None else [tree.As(event, first)]
        if most != ends:
            items.append(_counted(event, max(0, least - ends), None if most is None else most - ends, greedy))
        return _chain(items if last is None else [*items, tree.As(event, last)])

    formula = several(max(least, 1))
    if first is not None and last is not None and least < 2:
        ways = several(2), tree.As(tree.As(event, first), last)
        formula = tree.Or(ways if greedy else ways[::-1])
    return formula if least else tree.Count(formula, 0, 1, tree.Joint.THEN, not greedy)
