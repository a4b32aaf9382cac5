r"""Guards as Spark columns say of every row what the engine's symbols say.

Each test evaluates many guards in one job, over rows of every awkward value of every type. A guard that claims to be
exact must agree on every row; any other must be true wherever the engine's is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ceql.analysis.normal import Atom, normalize
from ceql.analysis.resolve import resolve
from ceql.predicates.bind import InputSchema, bind
from ceql.predicates.symbols import Symbolizer, SymbolTable
from ceql.spark.guard_columns import GuardColumn, guard_columns
from ceql.syntax import tree
from ceql.syntax.parser import parse_formula
from ceql.syntax.printer import print_condition
from generators import COMPARISONS, Vocabulary

LEAST, GREATEST = -(2**63), 2**63 - 1
INF, NAN = float("inf"), float("nan")
ODD = "odd. `name"

TEXTS = [
    "", "a", "A", "b", "ab", "abc", "aab", "ba", "aba", "a%", "a_b", "%", "_", "\\", "a\\b", "a\\%",
    "\n", "a\n", "a\nb",
    "\na", "a\r", "a\r\n", "a\x85", "a\u2028", "\x0b", "\t", " ", "a b", "b a", "é", "aé", "éa", "Éa",
    "ä", "z", "zz", "~",
    "\x00", "a\x00", "\uffff", "\ue000", "😀", "😀😀", "a😀", "😀a", "a😀b", "\U0010ffff", "\u212a", "k", "K",
    "\u017f", "s", "S",
    "ab-12", "AB-12", "x=1", "1", "12", "123", "٣", "a.b", "a+b", "(a)", "[a]", "{a}", "^", "$", "a$",
    "|", "a|b", "ab" * 30,
    "ß", "İ", "_a", "a_", "\ufeffa", "e\u0301",
]  # fmt: skip
UTC_TIMES = [
    datetime(1, 1, 3), datetime(1582, 10, 4), datetime(1900, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 1), datetime(2024, 3, 31, 0, 59, 59, 999_999),
    datetime(2024, 3, 31, 1), datetime(2024, 10, 26, 23, 59, 59), datetime(2024, 10, 27), datetime(2024, 10, 27, 0, 30),
    datetime(2024, 10, 27, 1), datetime(2024, 10, 27, 1, 30), datetime(2024, 7, 1, 12), datetime(2024, 7, 1, 10),
    datetime(9999, 12, 30),
]  # fmt: skip


def whole(bits: int) -> list[int]:
    return [-(2 ** (bits - 1)), 1 - 2 ** (bits - 1), -1, 0, 1, 2, 3, 7, 2 ** (bits - 1) - 2, 2 ** (bits - 1) - 1]


FLOATS = [0.0, -0.0, NAN, INF, -INF, 1.0, -1.0, 0.5, 1.5, 2.0, 3.0, 5e-324, -5e-324, 1.1, 0.1, 0.3, 1e300, -1e300,
          1.7976931348623157e308, float(2**53), 1e-45, float(np.float32(1.1)), 3.4028234663852886e38]  # fmt: skip
VALUES: dict[str, tuple[pa.DataType, Sequence[object]]] = {
    "type": (pa.string(), [*["A"] * 12, "B", "a"]),
    "i8": (pa.int8(), whole(8)),
    "i16": (pa.int16(), whole(16)),
    "i32": (pa.int32(), whole(32)),
    "i64": (pa.int64(), [*whole(64), 2**53, 2**53 + 1, -(2**53) - 1]),
    "flag": (pa.bool_(), [True, False]),
    "other": (pa.bool_(), [True, False]),
    "f32": (pa.float32(), [*(float(np.float32(x)) for x in FLOATS if abs(x) < 3.5e38 or x != x), INF, -INF]),
    "f64": (pa.float64(), FLOATS),
    "g64": (pa.float64(), FLOATS),
    "money": (pa.decimal128(10, 2), [Decimal(x) for x in (0, 1, "-0.01", "0.30", "1.10", "99999999.99",
    "-99999999.99")]),
    "cents": (pa.decimal128(3, 3), [Decimal(x) for x in ("0.000", "0.999", "-0.999", "0.300", "0.100")]),
    "big": (pa.decimal128(38, 10), [Decimal(x) for x in (0, 1, "1e-10", "-1e-10", "9" * 28, "-" + "9" * 28, "0.5")]),
    "huge": (pa.decimal128(38, 0), [Decimal(x) for x in (0, 5, 10**19, -(10**19), 10**21, -(10**21), "9" * 38)]),
    "day": (pa.date32(), [date(1, 1, 1), date(1582, 10, 15), date(1969, 12, 31), date(1970, 1, 1), date(2024, 3, 31),
                          date(2024, 10, 27), date(9999, 12, 31)]),
    "day2": (pa.date32(), [date(1970, 1, 1), date(2024, 3, 31)]),
    "at": (pa.timestamp("us", "UTC"), [t.replace(tzinfo=UTC) for t in UTC_TIMES]),
    "at2": (pa.timestamp("us", "UTC"), [t.replace(tzinfo=UTC) for t in UTC_TIMES]),
    "local": (pa.timestamp("us"), UTC_TIMES),
    "s": (pa.string(), TEXTS),
    "u": (pa.string(), TEXTS),
    ODD: (pa.int64(), [1, 2, 3]),
    # small numbers, as the generated predicates have them: nothing overflows
    "v": (pa.int64(), [1, 2, 3, 0, -2, 4]),
    "k": (pa.int32(), [1, 2, -1, 0]),
    "w": (pa.int64(), [0, 1, 2, 4, 17]),
    "f": (pa.float64(), [1.0, 0.5, 2.0, -1.5, NAN, 0.0, -0.0, INF]),
    "below": (pa.int64(), [-10, -20]),
    "time": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)]),
}  # fmt: skip


def make_rows(count: int = 300) -> pa.Table:
    """Every value of every column at least once, and otherwise at random; some NULLs."""
    chance = random.Random(7)
    columns = {}
    for name, (type, values) in VALUES.items():
        picked = [None, *values, *chance.choices([None, *values], k=count - len(values) - 1)]
        chance.shuffle(picked)
        columns[name] = pa.array(picked, type)
    return pa.table(columns)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    frame = spark.createDataFrame(make_rows()).coalesce(1)
    return frame.withColumn("local", F.col("local").cast("timestamp_ntz")).cache()


@contextmanager
def setting(spark: SparkSession, name: str, value: str):
    before = spark.conf.get(f"spark.sql.{name}")
    assert before is not None
    spark.conf.set(f"spark.sql.{name}", value)
    try:
        yield
    finally:
        spark.conf.set(f"spark.sql.{name}", before)


def atom(predicate: str | tree.Predicate, type: str = "A") -> Atom:
    if not isinstance(predicate, str):
        return Atom(type, None, frozenset([type]), (predicate,))
    formula = normalize(resolve(parse_formula(f"{type} FILTER {type}[{predicate}]"), predicate, unary=True))
    assert isinstance(formula, Atom)
    return formula


def symbolizer(atoms: list[Atom], schema: pa.Schema, streams: tuple[str | None, ...] = (None,)) -> Symbolizer:
    return Symbolizer(bind(atoms, InputSchema(schema, False, "type", streams), ""), SymbolTable())


def arrow_schema(frame: DataFrame) -> pa.Schema:
    return frame.limit(0).toArrow().schema


def translate(frame: DataFrame, atoms: list[Atom]) -> list[GuardColumn]:
    schema = arrow_schema(frame)
    return guard_columns(symbolizer(atoms, schema).bound, schema, None)


def check(frame: DataFrame, atoms: list[Atom]) -> list[bool]:
    """Compare Spark's columns with the engine's symbols, row by row; which guards are exact."""
    guards = translate(frame, atoms)
    names = [f"guard {i}" for i in range(len(guards))]
    table = frame.select("*", *(g.column.alias(name) for name, g in zip(names, guards, strict=True))).toArrow()
    batch = table.drop_columns(names).combine_chunks().to_batches()[0]
    engine = symbolizer(atoms, batch.schema)
    bits = [engine.table.bits_of(int(symbol)) for symbol in engine.symbols(batch, 0)]
    failures = []
    for i, (name, guard) in enumerate(zip(names, guards, strict=True)):
        found = np.array(table[name].fill_null(False).to_pylist())
        wanted = np.array([bool(b >> i & 1) for b in bits])
        wrong = np.flatnonzero(found != wanted if guard.exact else wanted & ~found)
        if len(wrong):
            shown = [{n: batch.column(n)[int(r)].as_py() for n in attributes(atoms[i])} for r in wrong[:3]]
            failures.append((*map(print_condition, atoms[i].predicates), shown, "engine:", wanted[wrong[:3]].tolist()))
    assert not failures
    return [guard.exact for guard in guards]


def attributes(guard: Atom) -> list[str]:
    text = " ".join(map(print_condition, guard.predicates))
    return [name for name in VALUES if name in text]


# --- which constructs Spark does exactly, and which not ---

NUMBERS = ["i8", "i16", "i32", "i64", "f32", "f64", "money", "cents", "big", "huge"]
LITERALS = [
    "0", "1", "-1", "1.5", "0.3", "1.1", "127", "128", "-128", "-129", "32767", "2147483648", "-2147483649",
    "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "0.1", "-0.0", "1e-10", "1e-400", "1e30", "1e300", "1e400", "-1e400", "99999999.99", "99999999.991", "0.999",
    "100000000000000000000", "-100000000000000000000", "3.4028234663852886e38", "1e-45",
]  # fmt: skip
TIMES = [
    "0001-01-01", "1582-10-10", "1969-12-31", "1970-01-01", "1970-01-01T00:00:00.000001", "2024-03-31T02:30:00",
    "2024-03-31T03:00:00", "2024-10-27T02:30:00", "2024-10-27", "2024-07-01T12:00:00", "9999-12-31T23:59:59.999999",
]  # fmt: skip

SCALARS = [
    *(f"{name} {op} {literal}" for name in NUMBERS for op in ("!=", ">") for literal in LITERALS),
    *(f"{name} {op} '{time}'" for name in ("day", "local", "at") for op in ("=", "<", ">") for time in TIMES),
    *(f"at {op} '2024-10-27T02:30:00+02:00'" for op in COMPARISONS),
]

EXACT = [
    *(f"flag {op} {literal}" for op in COMPARISONS for literal in ("TRUE", "FALSE")),
    *(f"s {op} '{text}'" for op in COMPARISONS for text in ("", "a", "a\nb", "😀", "\uffff", "é", "a\\b", "\x00")),
    "TRUE = TRUE", "NOT (1 = 1)", "v = NULL", "NOT (v = NULL)", "v = NULL OR v = 1", "NULL IS NULL",
    "i64 IN {1, 3, 7}", "i64 NOT IN {1, 3, 7}", "i64 IN {1, NULL}", "i64 NOT IN {1, NULL}",
    "i8 IN {..-100, 3..7, 100..}",
    "f64 IN {0, 1.5}", "f64 NOT IN {0, 1.5}", "NOT (f64 = 1)", "NOT (f64 < 1)", "NOT (f32 >= 0.1)",
    "f64 = 0 OR f64 != 0",
    "s IN {'a', 'ab', ''}", "s NOT IN {'a', 'ab'}", "s IN {'a', NULL}", "s NOT IN {'a', NULL}", "s IN {'a'..'b'}",
    "i64 BETWEEN -1 AND 3", "i64 NOT BETWEEN -1 AND 3", "f64 BETWEEN 0 AND 1.1", "f64 NOT BETWEEN 0 AND 1.1",
    "day BETWEEN '1969-12-31' AND '1970-01-01T12:00'", "money IN RANGE (0, 0.3)", "5 < i8", "1.5 >= f64",
    *(f"{name} IS NULL" for name in VALUES if name != ODD), "s IS NOT NULL", "NOT (f64 IS NULL)",
    "NOT (i64 > 1 AND (s = 'a' OR NOT (f64 < 2 OR flag = TRUE)))", "NOT (NOT (i64 > 1))",
    f"`{ODD.replace('`', '``')}` >= 2", f"`{ODD.replace('`', '``')}` IS NULL", f"`{ODD.replace('`', '``')}` + 1 = 3",
    *(f"s {word} '{pattern}'" for word in ("LIKE", "NOT LIKE") for pattern in (
        "", "%", "%%", "a", "a%", "%a", "%a%", "a%a", "a%b", "ab%b", "a\\%", "\\%", "%\\", "a\nb", "a%\n",
        "😀%😀", "😀%", "%é", "a.b", "(%)", "[a]", "%$",
    )),
    # two attributes
    *(f"{a} {op} {b}" for op in COMPARISONS for a, b in (
        ("s", "u"), ("i8", "i64"), ("i32", "i16"), ("f64", "g64"), ("f32", "f64"), ("at", "at2"),
        ("day", "day2"), ("flag", "other"),
        ("k", "f"), ("v", "f"), ("money", "f"), ("cents", "g64"), ("money", "cents"),
    )),
    *(f"NOT ({a} {op} {b})" for op in COMPARISONS for a, b in (("f64", "g64"), ("s", "u"), ("i32",
    "i16"), ("v", "f"))),
    # arithmetic
    *(f"{a} {op} {b} {compare} {c}" for op in "+-*/%" for compare in ("=", "<", "!=") for a, b, c in (
        ("f64", "g64", "1.5"), ("v", "k", "2"), ("v", "f", "0.5"), ("f", "k", "f"), ("w", "2", "v"),
        ("cents", "3", "0.3"),
        ("money", "money", "1"),
    )),
    *(f"{a} {op} {b} IS NULL" for op in "+-*/%" for a, b in (("f64", "g64"), ("v", "k"), ("v", "0"),
    ("f", "v"), ("v", "NULL"))),
    "i8 + i16 > 5", "-v < 1", "-f = 0", "-f64 <= g64", "v * (k + 1) - 2 > v % 3",
    "(below + 5) + 9223372036854775807 > 0",
    "9223372036854775807 + (below + 5) > 0", "v + NULL = 1", "v + 1 = NULL", "i64 % -1 = 0",
    "i64 % 7 > 0", "i64 % 0 IS NULL",
    "NOT (v + k > 2)", "v / (60 * 60) > 0", "v + 1 IN {2, 3..4}", "v / k NOT BETWEEN 0 AND 1",
    "cents * 1 = 0.3", "-cents < 0",
    "2 + 2 = 4", "1 / 0 IS NULL",
]  # fmt: skip

INEXACT = [
    *(f"s {word} '{pattern}'" for word in ("LIKE", "NOT LIKE") for pattern in (
        "_", "__", "a_%", "_%b", "a\\_b", "😀_", "_😀", "%a_%a%", "_%_", "a%b%", "%a%b%", "%a%b", "%%a%",
    )),
    *(f"s {word} '{pattern}'" for word in ("RLIKE", "NOT RLIKE") for pattern in (
        "", "a", "^a$", "(?s)^.$", "(?i)k", "\\bé", "(ab)*$", "\\pL", "[[:alpha:]]", "(a+)+b",
    )),
    "big * 1 = 1", "huge + 1 > 0", "big < money", "NOT (big / 2 > 0)", "big + 1 IS NULL",
    "s = 'a' AND s RLIKE '(ab)+'", "s = 'a' OR s RLIKE '(ab)+'", "NOT (v = 1 AND s RLIKE '(ab)+')",
]  # fmt: skip


@pytest.mark.parametrize("enabled", [True, False], ids=["ansi", "not ansi"])
def test_exact_guards_have_the_engines_truth(spark, rows, enabled):
    """In the one mode Spark compiles the expressions, in the other it interprets them."""
    predicates = EXACT + INEXACT
    codegen = "FALLBACK" if enabled else "NO_CODEGEN"
    with setting(spark, "ansi.enabled", str(enabled)), setting(spark, "codegen.factoryMode", codegen):
        exact = check(rows, [atom(p) for p in predicates])
    assert [p for p, e in zip(predicates, exact, strict=True) if e] == EXACT


def test_ranges_of_numbers_and_times(spark, rows):
    with setting(spark, "codegen.factoryMode", "NO_CODEGEN"):
        assert all(check(rows, [atom(p) for p in SCALARS]))


# --- random predicates ---

predicates = st.composite(lambda draw: Vocabulary(lambda _, name: tree.Attribute(name)).predicate(draw))()
numbers = st.sampled_from([0, 1, -1, 2, 127, -128, 2**31, 2**53 + 1, GREATEST, LEAST, GREATEST + 1]) | st.decimals(
    allow_nan=False, allow_infinity=False, places=3
)
characters = "ab\\\n%_é😀.^$1-"
patterns = st.text(characters, max_size=5)
regexes = st.lists(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\s", "(a|b)", "(?:é|)", "a?", ".*",
    "[^é]+", "a{1,2}", "^", "$", "😀"]),
    max_size=5,
).map("".join)  # fmt: skip


@st.composite
def column_tests(draw) -> tree.Predicate:
    """One test with a literal on any column, perhaps under NOT."""
    name = draw(st.sampled_from([*NUMBERS, "s", "s", "day", "local", "at"]))
    attribute = tree.Attribute(name)
    if name == "s":
        regex = draw(st.booleans())
        test: tree.Predicate = tree.Like(attribute, draw(regexes if regex else patterns), regex, draw(st.booleans()))
    else:
        literals = numbers if name in NUMBERS else st.datetimes().map(datetime.isoformat)
        test = tree.Comparison(draw(st.sampled_from(COMPARISONS)), attribute, tree.Literal(draw(literals)))
    return tree.Neg(test) if draw(st.booleans()) else test


@settings(max_examples=5, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(predicates, min_size=25, max_size=30), st.lists(column_tests(), min_size=25, max_size=30))
def test_random_guards(rows, some, more):
    exact = check(rows, [atom(predicate) for predicate in [*some, *more]])
    assert sum(exact) > len(exact) // 2


# --- where the engine stops ---


@pytest.mark.parametrize("enabled", ["true", "false"], ids=["ansi", "not ansi"])
def test_an_overflow_is_an_error_and_only_where_it_happens(spark, enabled):
    frame = spark.createDataFrame([("A", 1), ("A", None), ("B", GREATEST)], "type string, n bigint").coalesce(1)
    tests = ["n + 1 > 0", "n * 2 > 0", "-2 - n < 0", "n / 2 > 0", "n > 0.5 * n", "n + 1 IS NOT NULL"]
    with setting(spark, "ansi.enabled", enabled):
        guards = translate(frame, [atom(p) for p in tests])
        assert all(g.exact for g in guards)
        counts = frame.filter("type = 'A'").select(*(F.count_if(g.column) for g in guards)).collect()
        assert [tuple(row) for row in counts] == [(1,) * len(tests)]
        for guard in translate(frame, [atom("n + 1 > 0", "B"), atom("n / 2 > 0", "B")]):
            with pytest.raises(PySparkException, match=r"64-bit|beyond 9007199254740992"):
                frame.filter(guard.column).collect()


# --- what is not exact ---


def test_a_guard_that_is_not_exact_keeps_the_rest_and_names_what_it_reads(rows):
    exact, weak = translate(rows, [atom("v > 1"), atom("v > 1 AND big * v = 1 AND s RLIKE '(ab)*'")])
    assert (exact.exact, exact.needs) == (True, frozenset())
    assert (weak.exact, weak.needs) == (False, frozenset({"type", "v", "big", "s"}))
    kept = rows.filter(weak.column)
    assert kept.filter("type = 'A' AND v > 1 AND big IS NOT NULL AND s IS NOT NULL").count() == kept.count() > 0


def test_types_without_an_exact_translation(spark):
    frame = spark.sql("SELECT 'A' AS type, INTERVAL '1' DAY AS span, INTERVAL '2' DAY AS other")
    assert check(frame, [atom("span < other"), atom("span IS NULL")]) == [False, True]


# --- several streams ---


def test_streams(spark):
    frame = spark.createDataFrame([("A", 0), ("A", 1), ("B", 0)], "type string, number int")
    schema = pa.schema([("type", pa.string())])
    atoms = [Atom("A", "S", frozenset("A")), Atom("A", "T", frozenset("A")), Atom("B", "T", frozenset("B"))]
    bound = symbolizer(atoms, schema, ("S", "T")).bound
    guards = guard_columns(bound, schema, F.col("number"))
    assert [tuple(r) for r in frame.select(*(g.column for g in guards)).collect()] == [
        (True, False, False), (False, True, False), (False, False, False),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="which stream"):
        guard_columns(bound, schema, None)


# --- files are skipped ---


@pytest.fixture(scope="module")
def stored(spark, rows, tmp_path_factory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("parquet") / "rows")
    rows.write.parquet(path)
    return spark.read.parquet(path)


def pushed(frame: DataFrame, capsys) -> str:
    capsys.readouterr()
    frame.explain("formatted")
    return capsys.readouterr().out.split("PushedFilters: ")[1].split("\n")[0]


def test_a_disjunction_of_guards_is_pushed_to_parquet(spark, stored, capsys):
    tests = ["i64 > 5", "f64 >= 0", "f32 < 1.5", "s LIKE 'ab%'", "s IN {'a', 'b'}", "at > '2024-07-01'",
    "day < '1970-01-02'",
             "money <= 0.3", "i8 != 3", "flag = TRUE", "local >= '2024-01-01'", "u >= 'x'", "v IS NULL",
             "i16 = 3"]  # fmt: skip
    guards = translate(stored, [atom(p, "AB"[i % 2]) for i, p in enumerate(tests)])
    with setting(spark, "maxMetadataStringLength", "10000"):
        filters = pushed(stored.filter(reduce(or_, (g.column for g in guards))), capsys)
    assert filters.count("EqualTo(type,") == len(tests)
    for part in (
        "GreaterThanOrEqual(i64,6)", "GreaterThanOrEqual(f64,-0.0)", "LessThanOrEqual(f64,Infinity)",
        "LessThanOrEqual(f32,1.4999999)",
        "StringStartsWith(s,ab)", "In(s, [a,b])", "GreaterThanOrEqual(at,2024-0",
        "LessThanOrEqual(day,1970-01-01)",
        "LessThanOrEqual(money,0.30)", "Not(EqualTo(i8,3))", "EqualTo(flag,true)",
        "GreaterThanOrEqual(local,2024-01-01",
        "GreaterThanOrEqual(u,x)", "IsNull(v)", "EqualTo(i16,3)",
    ):  # fmt: skip
        assert part in filters


def test_parquet_skips_nothing_that_holds(stored):
    tests = ["f64 = 0", "f64 >= 0", "f64 <= 0", "f32 = 0", "f64 = 1.1", "i64 >= 9223372036854775807",
    "at < '1900-01-01'",
             "day <= '0001-01-01'", "money = 0.3", "huge < -100000000000000000000", "s LIKE '😀%'",
             "local < '1582-10-10'"]  # fmt: skip
    atoms = [atom(p) for p in tests]
    guards = translate(stored, atoms)
    all_rows = stored.select(*(F.count_if(g.column) for g in guards)).collect()[0]
    assert [stored.filter(g.column).count() for g in guards] == list(all_rows)
    assert all(check(stored, atoms))


def test_parquet_dictionaries_of_negative_zeros_are_found(spark, tmp_path):
    path = str(tmp_path / "zeros")
    frame = spark.createDataFrame([("A", -0.0)] * 10, "type string, f double")
    frame.write.parquet(path)
    stored = spark.read.parquet(path)
    guards = translate(stored, [atom(p) for p in ("f = 0", "f >= 0", "f <= 0", "f < 0", "f > 0", "f != 0")])
    assert [stored.filter(g.column).count() for g in guards] == [10, 10, 10, 0, 0, 0]
