"""The selection strategies by name. ALL keeps every match and ANY is LIMIT 1, so they need no file."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ceql.automata.cea import CEA
from ceql.automata.strategies import last, max, next, strict
from ceql.automata.strategies.candidates import Choose
from ceql.automata.strategies.rivals import Compare
from ceql.syntax import tree as t


class Strategy(NamedTuple):
    """A strategy in both forms: among candidates, and inside the automaton of a unary query."""

    choose: Choose
    compare: Compare | None = None
    """How runs compare while they run, where matches are compared with each other."""
    restrict: Callable[[CEA], CEA] | None = None
    """The automaton of the matches that stay, where each is judged by itself."""


STRATEGIES = {
    t.Strategy.NEXT: Strategy(next.choose, compare=next.compare),
    t.Strategy.LAST: Strategy(last.choose, compare=last.compare),
    t.Strategy.MAX: Strategy(max.choose, compare=max.compare),
    t.Strategy.STRICT: Strategy(strict.choose, restrict=strict.restrict),
}
