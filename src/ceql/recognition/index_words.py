"""Says what the words of an automaton's indexes are: numbers of values, or sets of values."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from ceql.automata.correlated import Correlated, Index
from ceql.engine.groups.machine import GroupMachine
from ceql.jit import Array


def words_of(machine: GroupMachine, auto: Correlated, registers: Set[int]) -> Array:
    """Of each index, which of its words are these registers."""
    found = np.zeros_like(machine.sets)
    for k, index in enumerate(auto.indexes):
        for n, register in enumerate(index.registers):
            found[k, _first(index) + n] = register in registers
    return found


def tell_words(machine: GroupMachine, auto: Correlated, ranked: Sequence[bool]) -> None:
    """Tell which words of each index are numbers of values (its terms, and registers of numbered or ranked ones), and
    which are sets of values."""
    numbered, sets = np.ones_like(machine.numbered), np.zeros_like(machine.sets)
    for k, index in enumerate(auto.indexes):
        first = _first(index)
        numbered[k, first + len(index.registers) :] = False
        for n, register in enumerate(index.registers):
            term = auto.register(register).term
            column = auto.column(term) if term >= 0 else -1
            numbered[k, first + n] = column >= len(ranked) or (column >= 0 and ranked[column])
            sets[k, first + n] = auto.register(register).is_set
    count = len(auto.indexes)
    if len(numbered) > count:  # the heads of lists have the first words of their groups
        numbered[count:] = numbered[:count]
    machine.numbered, machine.sets = numbered, sets


def _first(index: Index) -> int:
    """Where the registers of an index begin: after the terms of its key."""
    return len(next(iter(index.feeders.values()))[0])
