"""The matches of a program (`program.build`): an ordered list of runs, at most one for each wait and carried values.

For each start that is tried, the most preferred run stands first. A row makes a new list: each run reads the row at the
leaves of its wait, in order; a run that accepts ends all that come after it. A run that finds another one before it
with the same wait and registers could only find what that one finds, and is left out. So the work for a row is the
number of waits times that of the values that runs carry, and never that of the ways to match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ceql.automata.ordered import ACCEPT
from ceql.automata.ordered_program import Asked, How, Update
from ceql.automata.registers import CARRIED, EVENT
from ceql.engine.groups import programs as ops
from ceql.engine.groups.layout import NULL, UNBOUND
from ceql.errors import DataError
from ceql.row_patterns.matched import Matches, Partitions
from ceql.row_patterns.program import Program
from ceql.row_patterns.statement import PAST_LAST, TO_FIRST, TO_NEXT

_BEGIN = -1
_MOST = 2**63


class _Run(NamedTuple):
    wait: int
    values: tuple[Any, ...]
    path: Any  # (path before, leaf)


def find_matches(
    program: Program, partitions: Partitions, skip: str, targets: frozenset[str], variables: Any
) -> Matches:
    """The matches, in order."""
    return _Search(program, partitions, skip, targets, variables).run()


class _Search:
    def __init__(
        self, program: Program, partitions: Partitions, skip: str, targets: frozenset[str], variables: list[str]
    ):
        self._ordered = program.ordered.ordered
        self._program = program
        self._partitions = partitions
        self._skip = skip
        self._target = np.array([variable in targets for variable in variables], bool)
        self._holds = program.holds
        self._words = program.words.tolist()
        carried = program.ordered.carried
        self._dropped = [tuple(k for k in range(program.ordered.registers) if k not in own) for own in carried]
        self._start = (UNBOUND,) * program.ordered.registers

    def run(self) -> Matches:
        starts: list[int] = []
        places: list[list[int]] = []
        place = self._program.place
        bounds = self._partitions.bounds
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            start = begin
            while start < end:
                path = self._match(start, end, self._program.empty[int(start > begin)])
                if path is None:
                    start += 1
                    continue
                leaves: list[int] = []
                while path:
                    path, leaf = path
                    leaves.append(leaf)
                leaves.reverse()
                starts.append(start)
                places.append([place[leaf] for leaf in leaves])
                start = self._next(start, leaves)
        read = np.array([each for own in places for each in own], np.int32)
        return Matches(
            np.array(starts, np.int64), np.array([len(own) for own in places], np.int64), read, self._partitions
        )

    def _next(self, start: int, leaves: list[int]) -> int:
        if not leaves or self._skip == TO_NEXT:
            return start + 1
        if self._skip == PAST_LAST:
            return start + len(leaves)
        own = [k for k, leaf in enumerate(leaves) if self._target[self._program.place[leaf]]]
        if not own:
            raise DataError("AFTER MATCH SKIP TO: a match has no row of this variable")
        step = own[0] if self._skip == TO_FIRST else own[-1]
        if not step:
            raise DataError("AFTER MATCH SKIP TO: the row is the match's own first, where the search would begin again")
        return start + step

    def _match(self, start: int, end: int, empty: bool) -> Any:
        """The path of the preferred match of a start; None if there is none."""
        found = () if empty else None
        runs = [_Run(_BEGIN, self._start, ())]
        for row in range(start, end):
            after: dict[tuple[int, tuple[Any, ...]], _Run] = {}
            found, runs = self._step(row, runs, after, found), list(after.values())
            if not runs:
                break
        return found

    def _step(self, row: int, runs: list[_Run], after: dict[Any, _Run], found: Any) -> Any:
        holds, words = self._holds[row], self._words[row]
        for run in runs:
            leaves = self._ordered.initial if run.wait == _BEGIN else self._ordered.waits[run.wait].leaves
            for number in leaves:
                leaf = self._ordered.leaves[number]
                if not holds[leaf.guard]:
                    continue
                reading = self._program.ordered.readings[number]
                values = _updated(run.values, reading.updates, words)
                if not all(_asked(test, words, run.values, values) for test in reading.tests):
                    continue
                for wait in leaf.after:
                    if wait == ACCEPT:
                        return run.path, number
                    kept = list(values)
                    for k in self._dropped[wait]:
                        kept[k] = UNBOUND
                    after.setdefault((wait, tuple(kept)), _Run(wait, tuple(kept), (run.path, number)))
        return found


def _updated(values: tuple[Any, ...], updates: tuple[Update, ...], words: list[int]) -> tuple[Any, ...]:
    new = list(values)
    for update in updates:
        old = values[update.register]
        source = update.source
        word = words[source.number] if source.kind == EVENT else values[source.number]
        new[update.register] = _HOWS[update.how](old, word, values, update.other)
    return tuple(new)


def _known(take: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Skips NULL."""
    return lambda old, word, values, other: old if word == NULL else word if old in (NULL, UNBOUND) else take(old, word)


def _float(word: int) -> float:
    return float(np.int64(word if word >= 0 else -_MOST - word).view(np.float64))


def _word(value: float) -> int:
    if value != value:
        return ops.NAN
    bits = int(np.float64(value + 0.0).view(np.int64))
    return bits if bits >= 0 else -_MOST - bits


_HOWS: dict[How, Callable[..., Any]] = {
    How.LATEST: lambda old, word, values, other: word,
    How.FIRST: lambda old, word, values, other: word if old == UNBOUND else old,
    How.FIRST_AFTER: lambda old, word, values, other: word if old == UNBOUND and values[other] != UNBOUND else old,
    How.FIRST_KNOWN: _known(lambda old, word: old),
    How.LAST_KNOWN: _known(lambda old, word: word),
    How.SUM: _known(lambda old, word: old + word),
    How.SUM_FLOATS: _known(lambda old, word: _word(_float(old) + _float(word))),
    How.LEAST: _known(min),
    How.GREATEST: _known(max),
    How.DIFFERENT: lambda old, word, values, other: (
        old if word == NULL else frozenset([word]) if old == UNBOUND else old | {word}
    ),
}


def _asked(test: Asked, words: list[int], before: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    """Whether a test is true: a program for a stack."""
    stack: list[Any] = []
    for operation, argument in test.code:
        if operation == ops.READ:
            source = test.reads[argument]
            if source.kind == EVENT:
                stack.append(words[source.number])
            else:
                stack.append((before if source.kind == CARRIED else values)[source.number])
        elif operation == ops.CONSTANT:
            stack.append(argument)
        elif operation in _UNARY:
            stack.append(_UNARY[operation](stack.pop()))
        else:
            b = stack.pop()
            stack.append(_binary(operation, argument, stack.pop(), b))
    return bool(stack[0] == ops.TRUE)


def _on_known(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: a if a == NULL else function(a)


_UNARY: dict[int, Callable[[Any], Any]] = {
    ops.KNOWN: lambda a: NULL if a == UNBOUND else a,
    ops.TOTAL: lambda a: NULL if a == UNBOUND else a,
    ops.COUNTED: lambda a: 0 if a in (NULL, UNBOUND) else a,
    ops.DIFFERENT: lambda a: 0 if a in (NULL, UNBOUND) else len(a),
    ops.TO_FLOAT: _on_known(lambda a: _word(float(a))),
    ops.NOT: _on_known(lambda a: 1 - a),
    ops.IS_NULL: lambda a: ops.TRUE if a == NULL else ops.FALSE,
    ops.NEGATE_INT: _on_known(lambda a: -a),
    ops.NEGATE_FLOAT: _on_known(lambda a: _word(-_float(a))),
    ops.ABS_INT: _on_known(abs),
    ops.ABS_FLOAT: _on_known(lambda a: _word(abs(_float(a)))),
}
_CALCULATE: dict[int, Callable[[Any, Any], Any]] = {
    ops.ADD_INT: lambda a, b: a + b,
    ops.SUBTRACT_INT: lambda a, b: a - b,
    ops.MULTIPLY_INT: lambda a, b: a * b,
    ops.REMAINDER_INT: lambda a, b: NULL if b == 0 else int(np.fmod(a, b)),
    ops.ADD_FLOAT: lambda a, b: _word(_float(a) + _float(b)),
    ops.SUBTRACT_FLOAT: lambda a, b: _word(_float(a) - _float(b)),
    ops.MULTIPLY_FLOAT: lambda a, b: _word(_float(a) * _float(b)),
    ops.DIVIDE_FLOAT: lambda a, b: NULL if _float(b) == 0 else _word(_float(a) / _float(b)),
    ops.REMAINDER_FLOAT: lambda a, b: NULL if _float(b) == 0 else _word(float(np.fmod(_float(a), _float(b)))),
}
_COMPARE: tuple[Callable[[Any, Any], bool], ...] = (
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
)


def _binary(operation: int, argument: int, a: Any, b: Any) -> Any:
    if operation == ops.AND:
        return ops.FALSE if ops.FALSE in (a, b) else NULL if NULL in (a, b) else ops.TRUE
    if operation == ops.OR:
        return ops.TRUE if ops.TRUE in (a, b) else NULL if NULL in (a, b) else ops.FALSE
    if NULL in (a, b):
        return NULL
    if operation in _CALCULATE:
        return _CALCULATE[operation](a, b)
    if operation == ops.COMPARE_INT_FLOAT:
        b = _float(b)
    elif operation == ops.COMPARE_FLOATS and ops.NAN in (a, b):
        return NULL
    return ops.TRUE if _COMPARE[argument](a, b) else ops.FALSE
