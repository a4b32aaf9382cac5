"""`ceql.from_match_recognize`: the stages one after the other, and the query that comes of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from ceql.errors import QueryError, Span, did_you_mean
from ceql.query import Query, compile
from ceql.row_patterns.as_query.conditions import End, Labels, Reader, nanoseconds, refuse
from ceql.row_patterns.as_query.exclusion import never_null
from ceql.row_patterns.as_query.measures import MeasureReader
from ceql.row_patterns.as_query.pattern import read_pattern
from ceql.row_patterns.as_query.preference import (
    BEGIN,
    Program,
    check_ends,
    check_no_overtaking,
    compile_pattern,
    decide,
    restricted,
)
from ceql.row_patterns.as_query.splits import counted, occurrences, split
from ceql.row_patterns.as_query.sql import Clauses, read_clauses, span_of
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.pattern import Choice, Leaf, Node, Repeat, Sequence, leaves
from ceql.row_patterns.problem import Problems, Refused
from ceql.syntax import tree
from ceql.syntax.printer import print_query
from ceql.syntax.walking import leaves as attributes_of


def translate(sql: str, dialect: Dialect) -> Query:
    """The query that finds the matches of a MATCH_RECOGNIZE."""
    problems = Problems()
    try:
        with problems.noted():
            clauses = read_clauses(sql, dialect, problems)
            text = _Translation(sql, clauses, dialect, problems).text()
    except RecursionError:
        raise QueryError("the SQL is nested too deeply", suggestion="Leave parentheses out.") from None
    if problems:
        raise problems.error(sql)
    try:
        return compile(text)
    except QueryError as error:
        raise QueryError(
            f"CEQL cannot say this: {error.message}", sql, clauses.pattern, f"It would be written:\n{text}"
        ) from error


class _Translation:
    """One statement on its way; variables keep their names, and get further ones for rows that are compared."""

    def __init__(self, sql: str, clauses: Clauses, dialect: Dialect, problems: Problems):
        before = len(problems)
        self._clauses = clauses
        self._problems = problems
        self._pattern = read_pattern(sql, clauses.pattern, dialect, problems)
        with problems.noted():
            self._pattern = _without_reluctance(self._pattern)
        self._places = occurrences(self._pattern)
        self._variables = list(self._places)
        self._labels = Labels(self._variables, dialect)
        self._program = compile_pattern(self._pattern)
        self._sound = len(problems) == before  # PATTERN and, later, DEFINE could be read
        self._unread: set[str] = set()  # variables whose definitions could not
        self._ends: dict[tuple[str, End], str] = {}  # the names of first and last rows
        self._compared: set[str] = set()
        self._keys: list[str] = []
        self._taken = set(self._variables)
        self._event = tree.Event(self._fresh(clauses.table))
        self._all_rows: str | None = None

    def text(self) -> str:
        """The query as CEQL; without a meaning if a problem was noted."""
        for part in self._clauses.partition:
            with self._problems.noted():
                self._keys.append(_plain(part, "PARTITION BY"))
        defined = self._definitions()
        conditions = self._decided(defined)
        measures = self._measures(defined)
        window, time = None, None
        with self._problems.noted():
            window = self._window()
        with self._problems.noted():
            time = self._time()
        if self._problems:
            return ""
        names = self._leaf_names(conditions)
        formula = self._formula(self._pattern, names)
        if self._all_rows is not None:
            formula = tree.As(formula, self._all_rows)
        done = set()
        for leaf, condition in conditions.items():
            name = names.get(leaf, leaf.variable)
            if condition is not None and name not in done:
                done.add(name)
                formula = tree.Filter(formula, tree.Bracket(name, condition))  # type: ignore[arg-type]
        skip = self._clauses.skip_past
        query = tree.Query(
            formula,
            tuple(tree.SelectItem(name) for name in self._variables),
            strategy=tree.Strategy.MAX if skip else None,
            streams=(self._event.type,),
            partition=tuple(tree.Part((tree.PartRef(key),)) for key in self._keys),
            window=window,
            consume=tree.Consume.PARTITION if skip else tree.Consume.NONE,
            measures=tuple(measures),
        )
        how = f"-- each row is an event '{self._event.type}': run with type=None, time={time!r}"
        return f"{print_query(query)}\n{how}"

    def _decided(self, defined: dict[str, tree.Condition]) -> dict[Leaf, tree.Condition | None]:
        """The conditions of all leaves, such that every row decides by itself to which it belongs."""
        conditions = {leaf: defined.get(leaf.variable) for leaf in leaves(self._pattern)}
        for leaf in self._program.leaves:
            conditions.setdefault(leaf, defined.get(leaf.variable))
        if not self._sound:
            return conditions
        before = len(self._problems)
        with self._problems.noted():
            check_ends(self._program)
        with self._problems.noted():
            self._check_first_rows(defined)
        losers = decide(self._program, conditions, self._compared, self._problems)
        conditions = restricted(conditions, losers)
        if self._clauses.skip_past and len(self._problems) == before:
            with self._problems.noted():
                check_no_overtaking(self._program, conditions)
        return conditions

    def _definitions(self) -> dict[str, tree.Condition]:
        found: dict[str, tree.Condition] = {}
        seen: set[str] = set()
        for definition in self._clauses.define:
            before = len(self._problems)
            variable = self._labels.find(definition.args["alias"])
            if variable is None:
                near = did_you_mean(definition.alias, self._variables)
                message = f"PATTERN has no variable '{definition.alias}'"
                self._problems.append(Refused(message, span_of(definition), near))
            elif variable in seen:
                self._problems.append(Refused(f"'{variable}' is defined twice", span_of(definition)))
            elif not (isinstance(definition.this, exp.Boolean) and definition.this.this):
                resolve = partial(self._compared_row, variable)
                found[variable] = Reader(variable, self._labels, resolve, self._problems).condition(definition.this)
                if len(self._problems) > before:
                    self._unread.add(variable)
            seen.add(variable or "")
            self._sound = self._sound and len(self._problems) == before
        return found

    def _compared_row(self, own: str, variable: str, end: End, span: Span | None) -> str:
        """The name of the first or last row of a variable that the condition of `own` names."""
        place = self._places[variable]
        if place is None or place.looped:
            raise Refused(
                f"'{variable}' has several rows in different places, and the condition of '{own}' needs one of them",
                span,
                "Give that row a variable of its own in PATTERN.",
            )
        if not _always_before(self._program, variable, own):
            raise Refused(
                f"a match may have no row of '{variable}' before '{own}'",
                span,
                f"Make '{variable}' obligatory, and let it come before '{own}'.",
            )
        self._compared.add(variable)
        return self._name_end(variable, end)

    def _name_end(self, variable: str, end: End) -> str:
        place = self._places[variable]
        if place is not None and place.single:
            return variable
        if (variable, end) not in self._ends:
            self._ends[variable, end] = self._fresh(f"{variable}_{end}")
        return self._ends[variable, end]

    def _check_first_rows(self, defined: dict[str, tree.Condition]) -> None:
        for step in self._program.follow[BEGIN]:
            if step < 0:
                continue
            leaf = self._program.leaves[step]
            if any(isinstance(ref, tree.Prev) for ref in attributes_of(defined.get(leaf.variable))):
                raise Refused(
                    f"'{leaf.variable}' can be the first row of a match, and PREV looks at the row before the match",
                    leaf.span,
                    "Begin PATTERN with a variable for that row. It then belongs to the match.",
                )

    def _measures(self, defined: dict[str, tree.Condition]) -> list[tree.Measure]:
        reader = MeasureReader(self._labels, partial(self._end_value, defined), self._rows, self._problems)
        found: dict[str, tree.Measure] = {}
        before = len(self._problems)
        for measure in self._clauses.measures:
            with self._problems.noted():
                found[measure.this.alias] = self._measure(measure, reader)
        if self._clauses.columns is None or len(self._problems) > before:
            return list(found.values())
        return self._selected(found, self._clauses.columns)

    def _measure(self, measure: exp.Expr, reader: MeasureReader) -> tree.Measure:
        alias = measure.this
        frame = str(measure.args.get("window_frame") or "")
        if self._clauses.all_rows and frame.upper() != "FINAL":
            raise refuse(alias, "measures of ALL ROWS PER MATCH are those of the rows so far", "Write FINAL before it.")
        if not isinstance(alias, exp.Alias):
            raise refuse(alias, "a measure needs a name", "Write MEASURES … AS name.")
        return tree.Measure(reader.value(alias.this), alias.alias)

    def _selected(self, measures: dict[str, tree.Measure], columns: list[exp.Expr]) -> list[tree.Measure]:
        """Those measures that the SELECT around MATCH_RECOGNIZE lists."""
        chosen = []
        for column in columns:
            inner = column.this if isinstance(column, exp.Alias) else column
            with self._problems.noted():
                if not isinstance(inner, exp.Column) or (inner.name in self._keys and isinstance(column, exp.Alias)):
                    raise refuse(column, "SELECT may list measures and keys alone", "Do the rest with the result.")
                if inner.name in measures:
                    chosen.append(replace(measures[inner.name], name=column.alias_or_name))
                elif inner.name not in self._keys:
                    near = did_you_mean(inner.name, [*measures, *self._keys])
                    raise Refused(f"there is no measure '{inner.name}'", span_of(column), near)
        return chosen

    def _end_value(
        self, defined: dict[str, tree.Condition], variable: str | None, end: str, column: str, node: exp.Expr
    ) -> tree.Expression:
        """FIRST or LAST of a column over the rows of a variable, or of the match."""
        if variable is None:
            if column in self._keys:
                return tree.Aggregate("FIRST", self._rows(), tree.Ref(self._rows(), column))
            edge = _edge(self._pattern, end == "LAST")
            if edge is None:
                raise refuse(node, f"it is not known which variable has the {end.lower()} row", "Name the variable.")
            variable = edge.variable
        place = self._places[variable]
        if place is not None and place.single:
            return tree.Ref(variable, column)
        if variable in self._unread or tree.Attribute(column) in never_null(defined.get(variable)):
            return tree.Aggregate(end, variable, tree.Ref(variable, column))
        if place is None or place.looped:
            raise refuse(
                node,
                f"'{column}' may be NULL in the {end.lower()} row of '{variable}', and CEQL would take another",
                f"Add {variable}.{column} IS NOT NULL to DEFINE.",
            )
        return tree.Ref(self._name_end(variable, "last" if end == "LAST" else "first"), column)

    def _rows(self) -> str:
        """The name for all rows of a match."""
        if self._all_rows is None:
            self._all_rows = self._fresh("rows")
        return self._all_rows

    def _leaf_names(self, conditions: dict[Leaf, tree.Condition | None]) -> dict[Leaf, str]:
        """Names for leaves whose conditions differ from those of other leaves of their variable."""
        names: dict[Leaf, str] = {}
        for variable in self._variables:
            own = [leaf for leaf in conditions if leaf.variable == variable]
            if any(conditions[leaf] != conditions[own[0]] for leaf in own):
                names |= {leaf: self._fresh(f"{variable}_{k}") for k, leaf in enumerate(own, 1)}
        return names

    def _formula(self, node: Node, names: dict[Leaf, str]) -> tree.Formula:
        match node:
            case Leaf(variable):
                return self._bound(self._event, node, names)
            case Repeat(Leaf(variable) as leaf, least, most):
                first, last = self._ends.get((variable, "first")), self._ends.get((variable, "last"))
                if first is None and last is None:
                    return self._bound(counted(self._event, least, most), leaf, names)
                return self._bound(split(self._event, least, most, first, last), leaf, names)
            case Repeat(item, least, most):
                return counted(self._formula(item, names), least, most)
            case Choice(items):
                return tree.Or(tuple(self._formula(item, names) for item in items))
            case Sequence(items):
                parts = tuple(self._formula(item, names) for item in items)
                return tree.Then(parts, (tree.Joint.TOUCH,) * (len(parts) - 1))
        raise AssertionError("what has no counterpart was noted before")

    def _bound(self, formula: tree.Formula, leaf: Leaf, names: dict[Leaf, str]) -> tree.Formula:
        if leaf in names:
            formula = tree.As(formula, names[leaf])
        return tree.As(formula, leaf.variable)

    def _window(self) -> tree.Window | None:
        """Flink's window does not include its end, CEQL's does: it is the least bit shorter."""
        within = self._clauses.within
        return None if within is None else tree.TimeWindow(nanoseconds(within) - 1)

    def _time(self) -> str | None:
        order = self._clauses.order
        if not order:
            return None
        if len(order) > 1 or order[0].args.get("desc"):
            raise refuse(
                order[-1],
                "rows are put in order of one column, ascending",
                "Number the rows in this order, and write ORDER BY that number.",
            )
        return _plain(order[0].this, "ORDER BY")

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _plain(node: exp.Expr, clause: str) -> str:
    if not isinstance(node, exp.Column) or node.table:
        raise refuse(node, f"{clause} takes names of columns")
    return node.name


def _always_before(program: Program, variable: str, own: str) -> bool:
    """Whether every match has a row of `variable` before each row of `own`."""
    seen: set[int] = set()
    waiting = list(program.follow[BEGIN])
    while waiting:
        step = waiting.pop()
        if step < 0 or step in seen:
            continue
        seen.add(step)
        if program.leaves[step].variable == own:
            return False
        if program.leaves[step].variable != variable:
            waiting += program.follow[step]
    return True


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


def _without_reluctance(pattern: Node) -> Node:
    """Reluctant quantifiers at the end take as little as they can; elsewhere what is sure is cut off.

    `A B+?` is `A B`, and in `A B+? C` the quantifier is that of the second B in `A B B*? C`.
    """
    return _sure_first(_tail(pattern))


def _tail(node: Node) -> Node:
    match node:
        case Repeat(_, 0, _, False, span):
            raise Refused("these rows are never taken: a reluctant quantifier takes as few as it can", span)
        case Repeat(item, least, _, False, span):
            return item if least == 1 else Repeat(item, least, least, True, span)
        case Sequence(items) if items:
            return Sequence((*items[:-1], _tail(items[-1])))
    return node


def _sure_first(node: Node) -> Node:
    match node:
        case Repeat(item, least, most, False, span) if least:
            inner = _sure_first(item)
            sure = inner if least == 1 else Repeat(inner, least, least, True, span)
            rest = Repeat(_copy(inner), 0, None if most is None else most - least, False, span)
            return sure if most == least else Sequence((sure, rest))
        case Repeat(item, least, most, greedy, span):
            return Repeat(_sure_first(item), least, most, greedy, span)
        case Sequence(items):
            return Sequence(tuple(map(_sure_first, items)))
        case Choice(items):
            return Choice(tuple(map(_sure_first, items)))
    return node


def _copy(node: Node) -> Node:
    """The same pattern at another place."""
    match node:
        case Leaf(variable, span):
            return Leaf(variable, span)
        case Repeat(item, least, most, greedy, span):
            return Repeat(_copy(item), least, most, greedy, span)
        case Sequence(items):
            return Sequence(tuple(map(_copy, items)))
        case Choice(items):
            return Choice(tuple(map(_copy, items)))
    return node
