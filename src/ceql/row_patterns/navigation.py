"""Expressions of MEASURES and DEFINE: which rows they look at, apart from what they do with them.

`read` takes an expression and gives a `Reading`: the tree with a placeholder for each look at rows, and the looks. An
`Access` is an expression over the columns of one row: `PREV(LAST(A.x + A.y, 1), 2)` looks two rows before the last but
one row of A. A `Total` is an aggregate over the rows of some variables. Without FIRST or LAST a column is that of the
last row so far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from ceql.errors import Span, did_you_mean
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.problem import Refused
from ceql.row_patterns.statement import RowPattern

UNITS = {"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}
CLASSIFIER, MATCH_NUMBER, OVER = "classifier", "match number", "over"

Rows = frozenset[str] | None
"""Variables, or None for all rows of the match."""


@dataclass(frozen=True)
class RowRef:
    """One row: the `offset`-th after the first, or before the last, of the rows; then `shift` rows on."""

    rows: Rows
    last: bool = True
    offset: int = 0
    shift: int = 0
    final: bool = False


@dataclass(frozen=True)
class Access:
    row: RowRef
    tree: exp.Expr
    """Over columns without qualifiers, the placeholders CLASSIFIER and MATCH_NUMBER, and those of window functions."""


@dataclass(frozen=True)
class Total:
    """An aggregate. Without arguments it is COUNT(*)."""

    function: type[exp.Expr]
    rows: Rows
    arguments: tuple[exp.Expr, ...]
    distinct: bool
    final: bool
    node: exp.Expr
    whole: bool = False
    """Whether the mean of whole numbers is one."""


@dataclass(frozen=True)
class Number:
    """MATCH_NUMBER()."""


Look = Access | Total | Number


@dataclass(frozen=True)
class Reading:
    tree: exp.Expr
    looks: tuple[Look, ...]
    """The k-th stands where the tree has the placeholder k."""


class _Every(list[str]):
    """Columns that are not known: whatever is named is one."""

    def __contains__(self, name: object) -> bool:
        return True


EVERY: list[str] = _Every()


def read(tree: exp.Expr, clause: RowPattern, columns: list[str]) -> Reading:
    """The looks of an expression; `columns` are those of the input."""
    reader = _Reader(clause, columns)
    done = reader.visit(tree.copy())
    done.meta.update(tree.meta)
    return Reading(done, tuple(reader.looks))


def numbered(reading: Reading, number: int) -> Reading:
    """The reading in the match of this number."""

    def put(tree: exp.Expr, looks: tuple[Look, ...] = ()) -> exp.Expr:
        def visit(node: exp.Expr) -> exp.Expr:
            name = placeholder_of(node)
            asked = name == MATCH_NUMBER or (name and name.isdigit() and looks and isinstance(looks[int(name)], Number))
            return exp.Literal.number(number) if asked else node

        return tree.transform(visit)

    looks: list[Look] = []
    for look in reading.looks:
        match look:
            case Access():
                look = replace(look, tree=put(look.tree))
            case Total():
                look = replace(look, arguments=tuple(map(put, look.arguments)))
        looks.append(look)
    return Reading(put(reading.tree, reading.looks), tuple(looks))


def asks_number(reading: Reading) -> bool:
    """Whether MATCH_NUMBER() is asked for."""
    trees = [tree for look in reading.looks for tree in _trees(look)]
    return any(isinstance(look, Number) for look in reading.looks) or any(
        placeholder_of(node) == MATCH_NUMBER for tree in trees for node in tree.walk()
    )


def _trees(look: Look) -> tuple[exp.Expr, ...]:
    return (look.tree,) if isinstance(look, Access) else look.arguments if isinstance(look, Total) else ()


def placeholder_of(node: exp.Expr) -> str | None:
    """The name of a placeholder."""
    return str(node.this) if isinstance(node, exp.Placeholder) else None


def column_named(node: exp.Expr, columns: list[str]) -> str:
    """The column of the input that a name means: as it is written, or else whatever its case."""
    name = node.name
    if name in columns:
        return name
    near = [column for column in columns if column.lower() == name.lower()]
    if len(near) == 1:
        return near[0]
    raise Refused(f"there is no column '{name}'", span_of(node), did_you_mean(name, columns))


def without_subqueries(tree: exp.Expr) -> exp.Expr:
    """`(SELECT 1)` is 1, `x IN (SELECT 1)` is x = 1, EXISTS (SELECT 1) is true: of subqueries, those without FROM."""

    def plain(node: exp.Expr) -> exp.Expr:
        query = node.args.get("query") if isinstance(node, exp.In) else node.this
        if isinstance(query, exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select) or not isinstance(node, exp.In | exp.Subquery | exp.Exists):
            return node
        if {key for key, value in query.args.items() if value} - {"expressions"} or len(query.expressions) != 1:
            raise Refused("a subquery over a table is not evaluated", span_of(node), "Join its result to the rows.")
        if isinstance(node, exp.In):
            return exp.EQ(this=node.this, expression=query.expressions[0])
        return exp.true() if isinstance(node, exp.Exists) else exp.Paren(this=query.expressions[0])

    return tree.transform(plain)


_AGGREGATES = (exp.AggFunc,)
_NAMES = {"ARBITRARY": "ANY_VALUE", "LISTAGG": "STRING_AGG"}


class _Reader:
    def __init__(self, clause: RowPattern, columns: list[str]):
        self._clause = clause
        self._columns = columns
        self._labels = {*clause.variables, *clause.subsets}
        self.looks: list[Look] = []

    def visit(self, node: exp.Expr) -> exp.Expr:
        """The tree with placeholders."""
        node = without_subqueries(node) if node.parent is None else node
        return self._visit(node.transform(self._called))

    def _called(self, node: exp.Expr) -> exp.Expr:
        """CLASSIFIER, which Snowflake takes without parentheses, as a call; unless a column has that name."""
        bare = isinstance(node, exp.Column) and not node.args.get("table") and node.name.upper() == "CLASSIFIER"
        if isinstance(node, exp.DateDiff | exp.TimestampDiff) and node.args.get("unit") is not None:
            unit = node.args["unit"].name.upper().removesuffix("S")
            if unit not in UNITS:
                advice = (
                    "Write date_diff('minute', start, end), or pass the dialect= that the statement is written in: "
                    "it says in which order the unit, the start and the end stand."
                )
                raise Refused(f"'{unit}' is no unit of time", span_of(node), advice)
        taken = bare and any(column.upper() == "CLASSIFIER" for column in self._columns)
        return exp.Anonymous(this="CLASSIFIER") if bare and not taken else node

    def _visit(self, node: exp.Expr) -> exp.Expr:
        look = self._look(node)
        if look is not None:
            return self._placeholder(look, span_of(node))
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, self._visit(value))
            elif isinstance(value, list):
                node.set(key, [self._visit(each) if isinstance(each, exp.Expr) else each for each in value])
        return node

    def _placeholder(self, look: Look, place: Span | None) -> exp.Expr:
        if look not in self.looks:
            self.looks.append(look)
        made = exp.Placeholder(this=str(self.looks.index(look)))
        if place is not None:
            made.meta.update(start=place.start, end=place.end - 1)
        return made

    def _look(self, node: exp.Expr) -> Look | None:
        """What a node looks at by itself."""
        if isinstance(node, exp.Column | exp.Window):
            return self._access(node, RowRef(None))
        node, final = self._mode(node)
        name = _name(node)
        if name in ("PREV", "NEXT"):
            return self._shifted(node, -1 if name == "PREV" else 1)
        if name in ("FIRST", "LAST"):
            return self._access_of(node, final)
        if name == "CLASSIFIER":
            return self._access(node, RowRef(None))
        if name == "MATCH_NUMBER":
            return Number()
        if name == "MATCH_SEQUENCE_NUMBER":
            return Total(exp.Count, None, (), False, False, node)
        if name == "MATCH_ROWTIME" and self._clause.order:
            return self._access(self._clause.order[0].expression.copy(), RowRef(None, final=True))
        if isinstance(node, _AGGREGATES):
            return self._total(node, final)
        if final is not None:
            raise Refused(f"{'FINAL' if final else 'RUNNING'} stands before FIRST, LAST or an aggregate", span_of(node))
        return None

    def _mode(self, node: exp.Expr) -> tuple[exp.Expr, bool | None]:
        """Without RUNNING and FINAL, and whether FINAL."""
        if isinstance(node, exp.Anonymous):
            name = str(node.this)
            for word in ("RUNNING_", "FINAL_"):
                if name.startswith(word):
                    function = name[len(word) :].lstrip("_")
                    made = exp.func(function, *node.expressions, dialect=self._clause.dialect.syntax)
                    return made, word == "FINAL_"
        return node, None

    def _shifted(self, node: exp.Expr, direction: int) -> Access:
        arguments = _arguments(node)
        if not 1 <= len(arguments) <= 2:
            raise Refused(f"{_name(node)} takes an expression and a number of rows", span_of(node))
        shift = direction * (_count(arguments[1]) if len(arguments) == 2 else 1)
        inner, final = self._mode(arguments[0])
        if _name(inner) in ("FIRST", "LAST"):
            access = self._access_of(inner, final)
        elif final is not None:
            raise Refused("RUNNING and FINAL stand before FIRST or LAST here", span_of(node))
        else:
            access = self._access(inner, RowRef(None))
        row = access.row
        return Access(RowRef(row.rows, row.last, row.offset, shift, row.final), access.tree)

    def _access_of(self, node: exp.Expr, final: bool | None) -> Access:
        arguments = _arguments(node)
        if not 1 <= len(arguments) <= 2:
            raise Refused(f"{_name(node)} takes an expression and a number of rows", span_of(node))
        offset = _count(arguments[1]) if len(arguments) == 2 else 0
        return self._access(arguments[0], RowRef(None, _name(node) == "LAST", offset, 0, bool(final)))

    def _access(self, node: exp.Expr, row: RowRef) -> Access:
        tree, rows = self._over_a_row(node)
        return Access(RowRef(rows, row.last, row.offset, row.shift, row.final), tree)

    def _over_a_row(self, node: exp.Expr) -> tuple[exp.Expr, Rows]:
        """An expression over one row, without the name of its variable, and the rows of that name."""
        found: dict[Rows, exp.Expr] = {}

        def visit(each: exp.Expr) -> exp.Expr:
            name = _name(each)
            if isinstance(each, exp.Column):
                rows, column = self._column(each)
                found.setdefault(rows, each)
                return column
            if isinstance(each, exp.Window):
                found.setdefault(None, each)
                return self._over(each)
            if name == "CLASSIFIER":
                arguments = _arguments(each)
                rows = self._rows(_identifier(arguments[0]), each) if arguments else None
                found.setdefault(rows, each)
                return exp.Placeholder(this=CLASSIFIER)
            if name == "MATCH_NUMBER":
                return exp.Placeholder(this=MATCH_NUMBER)
            if name in ("PREV", "NEXT", "FIRST", "LAST") or isinstance(each, _AGGREGATES):
                raise Refused(f"{name or each.key.upper()} cannot stand inside this call", span_of(each))
            for key, value in list(each.args.items()):
                if isinstance(value, exp.Expr):
                    each.set(key, visit(value))
                elif isinstance(value, list):
                    each.set(key, [visit(part) if isinstance(part, exp.Expr) else part for part in value])
            return each

        place = span_of(node)
        tree = visit(node.copy())
        if len(found) > 1:
            raise Refused("columns of different variables stand in one call", place, "Use one call for each variable.")
        return tree, next(iter(found), None)

    def _column(self, node: exp.Column) -> tuple[Rows, exp.Expr]:
        """The rows that a column is of, and the column with what is asked of it: `A.place.city`, `place.city`."""
        first, *others = node.parts
        rows: Rows = None
        if others and (self._label(first) in self._labels or not _is_column(first, self._columns)):
            rows, first, others = self._rows(first, node), others[0], others[1:]
        if not isinstance(first, exp.Identifier):
            raise Refused("a row has no value", span_of(node), "Name one of its columns.")
        column: exp.Expr = exp.column(column_named(first, self._columns), quoted=True)
        for each in others:
            column = exp.Dot(this=column, expression=each.copy())
        return rows, column

    def _label(self, name: exp.Expr) -> str:
        return self._clause.dialect.label(name.name, bool(name.args.get("quoted")))

    def _over(self, node: exp.Window) -> exp.Expr:
        """A placeholder for an aggregate over the rows of the partition."""
        spec = node.args.get("spec")
        sides = [] if spec is None else [str(spec.args.get(key)) for key in ("start", "start_side", "end", "end_side")]
        whole = sides in ([], ["UNBOUNDED", "PRECEDING", "UNBOUNDED", "FOLLOWING"])
        running = sides in (
            ["UNBOUNDED", "PRECEDING", "CURRENT ROW", "None"], ["UNBOUNDED", "PRECEDING", "None", "None"],
        )  # fmt: skip
        of_clause = [column_named(each, self._columns) for each in self._clause.partition]
        own = [column_named(each, self._columns) for each in node.args.get("partition_by") or ()]
        total = isinstance(node.this, _AGGREGATES) and self._total(node.this, None)
        if not total or not (whole or running) or node.args.get("order") or (own and own != of_clause):
            advice = (
                "Aggregates OVER (), or over ROWS UNBOUNDED PRECEDING, are; compute others in a column of the rows."
            )
            raise Refused("a window function (OVER) of this form is not evaluated", span_of(node), advice)
        made = exp.Placeholder(this=f"{OVER} {node.sql()}")
        made.set("window", (total, running))
        return made

    def _rows(self, label: exp.Expr, node: exp.Expr) -> Rows:
        name = self._label(label)
        if name not in self._labels:
            raise Refused(f"PATTERN has no variable '{name}'", span_of(node), did_you_mean(name, sorted(self._labels)))
        return self._clause.rows_of(name)

    def _total(self, node: exp.Expr, final: bool | None) -> Total:
        arguments = _arguments(node)
        distinct = False
        if arguments and isinstance(arguments[0], exp.Distinct):
            distinct, arguments = True, [*arguments[0].expressions, *arguments[1:]]
        if node.args.get("order") or any(isinstance(each, exp.Order | exp.Filter) for each in arguments):
            raise Refused("an aggregate takes rows in their order, without ORDER BY or FILTER", span_of(node))
        if isinstance(node, exp.Count):
            if not arguments or isinstance(arguments[0], exp.Star):
                return Total(exp.Count, None, (), False, bool(final), node)
            first = arguments[0]
            if isinstance(first, exp.Column) and isinstance(first.this, exp.Star):
                return Total(exp.Count, self._rows(first.args["table"], first), (), False, bool(final), node)
        read = [self._over_a_row(argument) for argument in arguments]
        named = {rows for (tree, rows) in read if _looks(tree)}
        if len(named) > 1:
            raise Refused("columns of different variables stand in one aggregate", span_of(node))
        rows = next(iter(named), None)
        whole = self._clause.dialect.whole_means
        return Total(type(node), rows, tuple(tree for tree, _ in read), distinct, bool(final), node, whole)


def _is_column(name: exp.Expr, columns: list[str]) -> bool:
    return any(column.lower() == name.name.lower() for column in columns)


def _looks(tree: exp.Expr) -> bool:
    return any(isinstance(node, exp.Column) or placeholder_of(node) == CLASSIFIER for node in tree.walk())


def _identifier(node: exp.Expr) -> exp.Expr:
    this = node.this if isinstance(node, exp.Column) else node
    return this if isinstance(this, exp.Expr) else node


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    if isinstance(node, exp.First | exp.Last):
        return type(node).__name__.upper()
    if isinstance(node, exp.Lag | exp.Lead):
        return "PREV" if isinstance(node, exp.Lag) else "NEXT"
    return ""


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    found: list[exp.Expr] = []
    for key in node.arg_types:
        value = node.args.get(key)
        if isinstance(value, exp.Expr):
            found.append(value)
        elif isinstance(value, list):
            found += value
    return found


def _count(node: exp.Expr) -> int:
    """A number of rows: a constant."""
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return int(node.this)
    raise Refused("a number of rows is a constant that is 0 or more", span_of(node))
