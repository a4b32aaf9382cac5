"""Backtracking has no choice: the proof that a pattern has at most one match from each row.

MATCH_RECOGNIZE reports, of the matches that start with a row, the one that backtracking finds first. A query finds
all. The two agree where every row decides by itself which variable it belongs to. So the pattern becomes steps, in the
order in which backtracking tries them. Of any two steps that a row can be read by, this file asks:

- Do their conditions exclude each other? Then there is no choice.
- Does the preferred one end the match, or lead to the very same steps as the other? Then its condition decides alone,
  and the other step gets the opposite as a further condition.
- Otherwise later rows decide, and the pattern is refused.

Matches that do not overlap (SKIP PAST LAST ROW) need another proof: no match ends within another that started earlier.
Then the first match that ends is the one that starts first, or one of several, of which MAX keeps the longest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from ceql.errors import Span
from ceql.row_patterns.as_query.exclusion import exclusive, never_null, not_true
from ceql.row_patterns.pattern import Choice, Leaf, Node, Repeat, Sequence
from ceql.row_patterns.problem import Problems, Refused
from ceql.syntax import tree

MOST_STEPS = 300
END, BEGIN = -1, -2
Conditions = Mapping[Leaf, tree.Condition | None]


@dataclass
class Program:
    """Steps that read a row; of each and of BEGIN, those that may come next, preferred ones first."""

    leaves: list[Leaf] = field(default_factory=list)
    follow: dict[int, list[int]] = field(default_factory=dict)


def compile_pattern(pattern: Node) -> Program:
    """The steps of a pattern."""
    return _Compiler().program(pattern)


class _Compiler:
    """Nodes are built from the end to the beginning: each knows what comes after it."""

    def __init__(self) -> None:
        self._leaves: list[Leaf] = []
        self._after: list[int] = []  # of each step, the node that comes next
        self._branches: dict[int, list[int]] = {}  # nodes that read nothing, numbered from -3 downwards

    def program(self, pattern: Node) -> Program:
        begin = self._build(pattern, END)
        follow = {step: self._steps(after) for step, after in enumerate(self._after)}
        follow[BEGIN] = self._steps(begin)
        return Program(self._leaves, follow)

    def _build(self, node: Node, after: int) -> int:
        match node:
            case Leaf():
                if len(self._leaves) == MOST_STEPS:
                    raise Refused("the counts of PATTERN are too large to be looked through", node.span)
                self._leaves.append(node)
                self._after.append(after)
                return len(self._leaves) - 1
            case Sequence(items):
                for item in reversed(items):
                    after = self._build(item, after)
                return after
            case Choice(items):
                return self._branch([self._build(item, after) for item in items])
            case Repeat(item, least, most, greedy):
                entry = after
                if most is None:
                    entry = self._branch([])
                    body = self._build(item, entry)
                    self._branches[entry] += [body, after] if greedy else [after, body]
                else:
                    for _ in range(most - least):
                        body = self._build(item, entry)
                        entry = self._branch([body, after] if greedy else [after, body])
                for _ in range(least):
                    entry = self._build(item, entry)
                return entry
        raise AssertionError("what has no counterpart was noted before")

    def _branch(self, targets: list[int]) -> int:
        number = -3 - len(self._branches)
        self._branches[number] = targets
        return number

    def _steps(self, node: int) -> list[int]:
        """The steps that are reached without a row, in order of preference."""
        found: list[int] = []
        seen: set[int] = set()
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self._branches:
                waiting += reversed(self._branches[node])
            else:
                found.append(node)
        return found


def check_ends(program: Program) -> None:
    """Refuses a pattern that can match no rows, or whose matches end where a later row says so."""
    if END in program.follow[BEGIN]:
        spans = [leaf.span for leaf in program.leaves]
        raise Refused(
            "PATTERN can match no rows at all, which is no match in CEQL",
            Span(min(spans).start, max(spans).end),
            "Make one of its variables obligatory.",
        )
    for steps in program.follow.values():
        if END in steps and steps[0] != END:
            raise Refused(
                "how long the match is depends on rows after it",
                program.leaves[steps[0]].span,
                "End PATTERN with a variable for the row after the run, or with a reluctant quantifier such as '+?'.",
            )
        if len(steps) > 1 and steps[0] == END:
            raise Refused(
                "rows at the end of PATTERN are never taken", program.leaves[steps[1]].span, "Leave them out."
            )


def decide(program: Program, conditions: Conditions, compared: set[str], problems: Problems) -> dict[Leaf, list[Leaf]]:
    """For each leaf, the leaves that are preferred to it and whose conditions must not hold.

    What later rows decide is refused. `compared` are the variables whose rows the conditions of others name.
    """
    losers: defaultdict[Leaf, list[Leaf]] = defaultdict(list)
    for steps in program.follow.values():
        for k, second in enumerate(steps):
            for first in steps[:k]:
                if END in (first, second):
                    continue
                one, other = program.leaves[first], program.leaves[second]
                if not exclusive(conditions[one], conditions[other], same_match=True):
                    with problems.noted():
                        _check_choice(program, first, second, compared)
                        if one not in losers[other]:
                            losers[other].append(one)
    for other, winners in losers.items():
        for one in winners:
            with problems.noted():
                _check_everywhere(program, one, other, conditions)
    return dict(losers)


def _check_choice(program: Program, first: int, second: int, compared: set[str]) -> None:
    """Refuses a choice that rows to come would decide."""
    one, other = program.leaves[first], program.leaves[second]
    if program.follow[first] == [END]:
        return
    alike = program.follow[first] == program.follow[second] and one.variable != other.variable
    if not alike or compared & {one.variable, other.variable}:
        raise Refused(
            f"a row can be '{one.variable}' as well as '{other.variable}', and rows after it decide which",
            other.span,
            f"Let the conditions of '{one.variable}' and '{other.variable}' exclude each other in DEFINE.",
        )


def _check_everywhere(program: Program, one: Leaf, other: Leaf, conditions: Conditions) -> None:
    """The opposite of a condition is added to a leaf, so it must be right wherever the leaf can come."""
    ends = {step for step, leaf in enumerate(program.leaves) if leaf is one}
    always = all(
        ends & set(steps[:k])
        for steps in program.follow.values()
        for k, step in enumerate(steps)
        if step != END and program.leaves[step] is other
    )
    if conditions[one] is None or not always:
        raise Refused(
            f"whether a row is '{one.variable}' or '{other.variable}' depends on its place",
            other.span,
            f"Let the conditions of '{one.variable}' and '{other.variable}' exclude each other in DEFINE.",
        )


def check_no_overtaking(program: Program, conditions: Conditions) -> None:
    """Refuses a pattern of which a match could end within another one that started earlier."""
    seen: set[tuple[int, int]] = set()
    waiting = [(step, BEGIN) for step in program.follow if step != BEGIN]
    while waiting:
        earlier, later = waiting.pop()
        if (earlier, later) in seen:
            continue
        seen.add((earlier, later))
        for one in program.follow[earlier]:
            for other in program.follow[later]:
                if END in (one, other):
                    continue
                first, second = program.leaves[one], program.leaves[other]
                if exclusive(conditions[first], conditions[second], same_match=False):
                    continue
                ends_first, ends_second = (END in program.follow[step] for step in (one, other))
                if ends_second and not ends_first:
                    raise Refused(
                        "SKIP PAST LAST ROW: a match that starts later could end earlier, with "
                        f"'{second.variable}', while another goes on with '{first.variable}'",
                        second.span,
                        "Write AFTER MATCH SKIP TO NEXT ROW, or let their conditions exclude each other.",
                    )
                if not ends_first:
                    waiting.append((one, other))


def restricted(conditions: Conditions, losers: Mapping[Leaf, list[Leaf]]) -> dict[Leaf, tree.Condition | None]:
    """The conditions of all leaves, with the opposites of those that are preferred."""
    found = dict(conditions)
    for leaf, winners in losers.items():
        own = conditions[leaf]
        opposites = [not_true(preferred) for winner in winners if (preferred := conditions[winner]) is not None]
        parts = [] if own is None else [own]
        parts += [_without_null_tests(part, never_null(own)) for part in opposites]
        flat = [item for part in parts for item in (part.items if isinstance(part, tree.Conj) else (part,))]
        found[leaf] = flat[0] if len(flat) == 1 else tree.Conj(tuple(flat))
    return found


def _without_null_tests(condition: tree.Condition, known: set[tree.Expression]) -> tree.Condition:
    """The same condition where the `known` are not NULL."""
    match condition:
        case tree.Conj(items):
            return tree.Conj(tuple(_without_null_tests(item, known) for item in items))
        case tree.Disj(items):
            kept = [item for item in items if not (isinstance(item, tree.IsNull) and _is_known(item, known))]
            if not kept:  # it never holds, which has to be said
                return condition
            parts = tuple(_without_null_tests(item, known) for item in kept)
            return parts[0] if len(parts) == 1 else tree.Disj(parts)
    return condition


def _is_known(test: tree.IsNull, known: set[tree.Expression]) -> bool:
    return not test.negated and test.operand in known
