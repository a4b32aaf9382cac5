"""First mistakes of people who come from SQL, MATCH_RECOGNIZE, Flink or regular expressions, and what they are told."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ceql

THEN = "Write ';' for 'then'"
AFTER_FILTER = "Conditions stand after FILTER"
HABITS = [
    # what comes after SELECT * WHERE, what the caret marks, words of the message, words of the advice
    (
        "F AS b; FILTER b[x > 1]",
        "FILTER",
        "'FILTER' after ';'",
        "Remove the ';': FILTER belongs to",
    ),
    ("A ; B ; WITHIN 5 EVENTS", "WITHIN", "'WITHIN' after ';'", "Remove the ';'"),
    ("A WITHIN 1 WEEK", "WEEK", "Found 'WEEK'", "Write 7 DAYS."),
    ("A WITHIN 2.5 weeks", "weeks", "Found 'weeks'", "Write 17.5 DAYS."),
    ("A WITHIN 2 MONTHS", "MONTHS", "Found 'MONTHS'", "Write 60 DAYS."),
    ("A WITHIN 5 us", "us", "Found 'us'", "Write 0.005 MILLISECONDS."),
    ("A WITHIN 5 min", "min", "Found 'min'", "'MINUTES'"),
    ("A WITHIN 5m", "m", "Found 'm'", "'MINUTES'"),
    ("A WITHIN '5 minutes'", "'5 minutes'", "a text after WITHIN", "without quotes"),
    ("A WITHIN INTERVAL '5' MINUTE", "INTERVAL", "Found 'INTERVAL'", "WITHIN 5 MINUTES"),
    ("A WITHIN (5 MINUTES)", "(", "Found '('", "without parentheses"),
    ("A WITHIN 5 MINUTES AND 3 SECONDS", "AND", "Found 'AND'", "one after the other"),
    ("A -> -> B", "->", "'->' after another", "One is enough"),
    ("A -> WITHIN 5 EVENTS", "WITHIN", "'WITHIN' after '->'", "Remove the '->'"),
    ("A FILTER A.v > 3 -> B", "->", "'->' in a condition", "(A FILTER ...) -> B"),
    ("A AS a FILTER a[v > 3] -> B", "->", "'->' in a condition", "(A FILTER ...) -> B"),
    ("A AFTER MATCH SKIP PAST LAST ROW", "ROW", "Found 'ROW', expected EVENT", "The rows of SQL are events here"),
    ("A AFTER MATCH SKIP TO NEXT ROW", "ROW", "Found 'ROW', expected EVENT", "TO NEXT EVENT"),
    ("A AFTER MATCH", "MATCH", "ends too early", "AFTER MATCH SKIP PAST LAST EVENT"),
    ("A AFTER EACH MATCH", "EACH", "Found 'EACH', expected MATCH", "AFTER MATCH SKIP"),
    ("A AFTER MATCH SKIP TO NEXT EVENT A", "A", "Found 'A', expected the end of the query", "AFTER MATCH SKIP"),
    ("A => B", "=>", "Found '=>'", THEN),
    ("A - B", "-", "Found '-'", THEN),
    ("A, B", ",", "Found ','", THEN),
    ("A THEN B", "THEN", "Found 'THEN'", THEN),
    ("A FOLLOWED BY B", "FOLLOWED BY", "Found 'FOLLOWED BY'", THEN),
    ("A followedBy B", "followedBy", "Found 'followedBy'", THEN),
    ("A NEXT B", "NEXT", "Found 'NEXT'", THEN),
    ("A > B", "A > B", "FROM does not list the stream 'A'", "write ';' for 'then'"),
    ("A B", "B", "Found 'B'", "Write A ; B for 'A then B', A AS B for a name"),
    ("Fail f ; Ok", "f", "Found 'f'", "Fail AS f"),
    ("log in ; B", "in", "Found 'in'", "`log in` for one type"),
    ("SEQ(A, B)", "SEQ(", "'SEQ(' in a formula", "Write A ; B for 'A then B'"),
    ("A.*B", ".*", "Found '.*'", "Write ';'"),
    ("A && B", "&&", "'&&' between events", "';' (one then the other) or ALL (both)"),
    ("A AND B", "AND", "'AND' between events", "';' (one then the other) or ALL (both)"),
    ("A || B", "||", "Found '||'", "Write OR."),
    ("A | B", "|", "Found '|'", "Write OR."),
    ("A ;; B", ";", "';' after another", "One is enough"),
    ("A ; !B ; C", "!", "'!' before an event", "Write NOT: A ; NOT B ; C."),
    ("A ; NOT NOT B ; C", "NOT", "'NOT' after another", "One is enough"),
    ("^A ; B", "^", "Found '^'", "begins and ends anywhere"),
    ("* ; B", "*", "Found '*'", "A formula names types"),
    ('"A" ; B', '"A"', "a text in a formula", "without quotes"),
    ("404 ; B", "404", "Found '404'", "`404`"),
    ("my-type ; B", "-type", "'-' in a formula", "`my-type`"),
    ("order.created ; B", ".created", "'.' in a formula", "`order.created`"),
    ("A.x > 1", ".", "Found '.'", AFTER_FILTER),
    ("x > 1", "1", "a condition in a formula", AFTER_FILTER),
    ("type = 'A'", "=", "Found '='", AFTER_FILTER),
    ("A(x > 1) ; B", "(", "Found '('", AFTER_FILTER),
    ("A{x > 1} ; B", "{x", "Found a condition", AFTER_FILTER),
    ("A AS a WHERE a.x > 1", "WHERE", "Found 'WHERE'", AFTER_FILTER),
    ("A HAVING x > 1", "HAVING", "Found 'HAVING'", AFTER_FILTER),
    ("A ; B GROUP BY user", "GROUP BY", "Found 'GROUP BY'", "Write PARTITION BY"),
    ("A ; B ORDER BY time", "ORDER BY", "Found 'ORDER BY'", "Leave it out"),
    ("A FILTER A[x > 1] ORDER BY time", "ORDER BY", "Found 'ORDER BY'", "Leave it out"),
    ("A LIMIT 5 OFFSET 3", "OFFSET", "Found 'OFFSET'", "a slice of the result"),
    ("A FILTER A[x > 1];", ";", "ends with ';'", "Leave it out"),
    ("A WITHIN 5 EVENTS ; ", ";", "ends with ';'", "Leave it out"),
    ("A /* then */ ; B", "/*", "Found '/*'", "A comment begins with --"),
    ("A # then", "#", "Found '#'", "A comment begins with --"),
    ("A AS a FILTER a[x > 1 && y < 2]", "&&", "Found '&&'", "Write AND."),
    ("A AS a FILTER a[x > 1 || y < 2]", "||", "Found '||'", "Write OR."),
    ("A AS a FILTER a[x => 1]", "=>", "Found '=>'", "Write >=."),
    ("A AS a FILTER a[x =< 1]", "=<", "Found '=<'", "Write <=."),
    ("A AS a FILTER a[x === 1]", "===", "Found '==='", "Write =."),
    ("A AS a FILTER a[x ~ 'a']", "~", "Found '~'", "RLIKE"),
    ("A AS a FILTER a[!x]", "!", "Found '!'", "Write NOT"),
    ("A AS a FILTER a[n ILIKE 'a%']", "ILIKE", "Found 'ILIKE'", "(?i)"),
    ("A AS a FILTER a[x IN [1, 2]]", "[", "Found '['", "braces: IN {1, 2}"),
    ("A AS a FILTER a[x IS TRUE]", "IS TRUE", "Found 'IS TRUE'", "Write '= TRUE'."),
    ("A AS a FILTER a[x > 1], a[y > 2]", ",", "',' between conditions", "by AND"),
    ("A AS a FILTER a[x > 1,000]", "1,000", "no separators", "Write 1000."),
    ("A AS a FILTER a[CEILING(x) > 3]", "CEILING", "no function 'CEILING'", "Did you mean 'CEIL'?"),
    ("A AS a FILTER LOWR(a.x) = 'a'", "LOWR", "no function 'LOWR'", "Did you mean 'LOWER'?"),
    ("A AS a FILTER a[x > PREV(x)]", "PREV(x)", "PREV is no function", "Write PREV.x "),
    ("A AS a ; B AS b FILTER b.v > PREV(b.v)", "PREV(b.v)", "PREV is no function", "Write PREV.v "),
    ("A AS a ; B AS b FILTER b[v > PREV (b.c.p, 1)]", "PREV (b.c.p", "PREV is no function", "Write PREV.c.p "),
    ("A AS a FILTER a[x > PREV()]", "PREV(", "PREV is no function", "Write PREV.price"),
    ("A AS a FILTER a[x > LAG(x)]", "LAG(x)", "LAG is no function", "Write PREV.x"),
    ("A AS a FILTER a[x > PREV]", "PREV", "PREV has no attribute", "PREV.price"),
    ("A AS a FILTER a.carrier = UA", "UA", "whose attribute", "A text is written in quotes: 'UA'."),
    ("A AS a FILTER a[x > $1]", "$", "Found '$'", "no parameters"),
    ("A AS a FILTER a[CASE WHEN x THEN 1 END = 1]", "CASE WHEN", "no CASE", "with AND and OR"),
    ("A AS a FILTER a.k = CASE a.v WHEN 1 THEN 2 END", "CASE a", "no CASE", "with AND and OR"),
    ("A AS a FILTER IF(a.v > 1, 1, 2) = 1", "IF(a.v > 1, 1, 2)", "no IF", "with AND and OR"),
    ("A AS a ; B AS b FILTER b.t - a.t < INTERVAL '5' MINUTE", "INTERVAL '5' MINUTE", "INTERVAL", "alone: 5 MINUTE."),
    ("A AS a ; B AS b FILTER b.t < a.t + INTERVAL '5 days'", "INTERVAL '5 days'", "INTERVAL", "alone: 5 days."),
    ("A AS a ; B FILTER B[t - PREV.t < INTERVAL 2 HOURS]", "INTERVAL 2 HOURS", "INTERVAL", "alone: 2 HOURS."),
    ("A AS a FILTER a[d < INTERVAL '1:30' MINUTE TO SECOND]", "INTERVAL '", "INTERVAL", "alone: 1 HOUR 30 MINUTES."),
    ("A AS a FILTER a[user id = 3]", "id", "Found 'id'", "in backticks: `user id`."),
    ("A AS a FILTER a.user id = 3", "id", "Found 'id'", "in backticks: `user id`."),
    ("A ; B PARTITION BY user id", "id", "Found 'id'", "in backticks: `user id`."),
    ("A ; B PARTITION BY k, user id WITHIN 5 EVENTS", "id", "Found 'id'", "in backticks: `user id`."),
    ("A ; B PARTITION BY [user id]", "id", "Found 'id'", "in backticks: `user id`."),
    ("(A ; B PARTITION BY user id)", "id", "Found 'id'", "in backticks: `user id`."),
    ("A ; B PARTITION BY user-id", "-id", "'-' in a name", "in backticks: `user-id`."),
    ("A ; B WITHIN 5 [user id]", "id", "Found 'id'", "in backticks: `user id`."),
    ('A AS a FILTER "a".x > 1', '"a".', "a text where a name belongs", "without quotes"),
    ("A ; B PARTITION k", "k", "'k' after PARTITION", "PARTITION BY k"),
    ("A ; B PARTITION BY (k)", "(", "Found '('", "without parentheses"),
]
WHOLE = [
    ("SELECT *", " ", "ends too early", "Add WHERE"),
    ("SELECT * FROM E", " ", "ends too early", "Add WHERE"),
    ("A ; B", "A", "Found 'A'", "SELECT * WHERE A ; B"),
    ("WHERE A ; B", "WHERE", "Found 'WHERE'", "SELECT * WHERE A ; B"),
    ("SELECT b.* WHERE F AS b", "b.*", "Found 'b.*'", "Write b alone"),
    ("SELECT COUNT(*) AS n WHERE A ; B", "COUNT(*)", "COUNT(*) has no meaning", "matches.count()"),
    (
        "SELECT user, b WHERE B AS b PARTITION BY user",
        "user",
        "'user' is an attribute",
        "a column of the result anyway",
    ),
    ("SELECT CASE WHEN b.v > 1 THEN 2 END WHERE B AS b", "CASE WHEN", "no CASE", "compute it of the result"),
    ("SELECT b, SUM(CASE b.v WHEN 1 THEN 2 END) WHERE B AS b", "CASE b", "no CASE", "compute it of the result"),
    ("SELECT IF(b.v > 1, 2, 3) WHERE B AS b", "IF(b.v >", "no IF", "compute it of the result"),
    ("SELECT b.t + INTERVAL '5' DAY WHERE B AS b", "INTERVAL '5' DAY", "INTERVAL", "alone: 5 DAY."),
    ("SELECT b, PREV.v WHERE B AS b", "PREV.", "PREV cannot stand here", "It stands in conditions"),
    ("SELECT user id WHERE A", "id", "Found 'id'", "in backticks: `user id`."),
    ("SELECT * FROM user stream WHERE A", "stream", "Found 'stream'", "in backticks: `user stream`."),
    ("SELECT a AS x WHERE A AS a", "AS x", "keeps its name", "A AS x after WHERE"),
    ("SELECT TOP 5 * WHERE A", "5", "Found '5'", "LIMIT 5 at the end"),
    ("SELECT FIRST * WHERE A ; B", "FIRST * ", "Found 'FIRST *'", "ALL, ANY, NEXT, LAST, MAX and STRICT"),
    ('SELECT "a" WHERE A AS a', '"a"', "a text where a name belongs", "without quotes"),
    ("SELECT * FROM 'E' WHERE A", "'E'", "a text where a name belongs", "without quotes"),
    ("SELECT * FROM E e WHERE A", "e", "Found 'e'", "no second name"),
    ("SELECT * FROM E JOIN F WHERE A", "JOIN", "Found 'JOIN'", "FROM A, B"),
    ("SELECT * FROM E MATCH_RECOGNIZE (A B)", "MATCH_RECOGNIZE", "Found 'MATCH_RECOGNIZE'", "after WHERE"),
]


@pytest.mark.parametrize(
    ("text", "marked", "message", "advice"), [*((f"SELECT * WHERE {text}", *rest) for text, *rest in HABITS), *WHOLE]
)
def test_a_habit_of_another_language_is_told_what_to_write(text: str, marked: str, message: str, advice: str) -> None:
    with pytest.raises(ceql.QueryError) as caught:
        ceql.compile(text)
    error = caught.value
    assert message in error.message
    assert advice in (error.suggestion or "")
    assert error.column is not None
    assert f"{text} "[error.column - 1 :].startswith(marked)
    assert (error.caret or "").split("\n")[1].count("^") == len(marked)


@pytest.mark.parametrize(
    "text",
    ["select * where A ; B within 5 minutes", "Select Next * From S Where A As x Filter x[v Is Not Null] Limit 1"],
)
def test_keywords_may_be_written_small(text: str) -> None:
    assert ceql.compile(text).text == text


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("carrier = UA", "A text is written in quotes: 'UA'."),
        ("carrier = None", "Write IS NULL."),
        ('"carrier" > 1', "A name stands without quotes"),
    ],
)
def test_quotes_that_are_missing_or_too_many_are_told_with_the_columns(condition: str, advice: str) -> None:
    events = pa.table({"type": ["A"], "carrier": ["UA"]})
    with pytest.raises(ceql.QueryError) as caught:
        ceql.match(f"SELECT * WHERE A FILTER A[{condition}]", events)
    assert advice in (caught.value.suggestion or "")


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("duration < 300", "duration (duration[us]) holds durations and cannot be compared with the number 300: "),
        ("300 > DURATION", "write 300 SECONDS"),
        ("DURATION BETWEEN 1 AND 300", "write 1 SECONDS"),
        ("b.time - a.time < 300", "Write a duration: 300 SECONDS."),
        ("b.time < a.time + 300", "Write a duration: 300 SECONDS."),
        ("b[time - PREV.time < 300]", "Write a duration: 300 SECONDS."),
        ("START_TIME < 5", "START_TIME (timestamp[us]) holds times and cannot be compared with the number 5"),
    ],
)
def test_a_number_in_place_of_a_duration_is_told(condition: str, advice: str) -> None:
    times = pa.array([0, 5], pa.timestamp("us"))
    with pytest.raises(ceql.SchemaError) as caught:
        ceql.match(f"SELECT * WHERE A AS a ; B AS b FILTER {condition}", pa.table({"type": ["A", "B"], "time": times}))
    assert advice in str(caught.value)
