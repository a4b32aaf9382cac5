"""A query in a form that each peer can translate: CEQL for ceql and CORE, Java for Flink CEP, joins for SQL.

The queries of both papers' experiments are sequences of steps. A step is an event of one of some types that satisfies
some conditions; steps, and groups of steps, may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

Condition = tuple[str, str, float | int | str]  # attribute, operator (= > < >= <=), constant
Comparison = tuple[str, str, int, str, float | int]  # attribute, operator, earlier step, its attribute, what is added


@dataclass(frozen=True)
class Step:
    """An event of one of the types, or several of them with any events between (`plus`).

    `against` compares its attributes, which are numbers, with those of earlier steps: `("price", ">", 0, "price", 90)`
    says that it costs more than the event of the first step and 90.
    """

    types: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    plus: bool = False
    against: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class Group:
    """Steps one after another, once or more times."""

    parts: tuple[Step | Group, ...]


@dataclass(frozen=True)
class Pattern:
    """The steps in sequence, any events between them, and the clauses of the query.

    `consume` is the papers' policy: after an event that completes matches, all events so far are forgotten. `limit` is
    how many of an event's matches are enumerated.
    """

    parts: tuple[Step | Group, ...]
    window: int | None = None  # milliseconds from the first event of a match to its last, both included
    key: str | None = None  # an attribute that all events of a match share
    consume: bool = True
    limit: int | None = 1000
    strategy: str = "ALL"

    def __post_init__(self) -> None:
        if self.compares and not self.is_sequence:
            raise ValueError("only steps that have one event each are compared with each other")

    @property
    def compares(self) -> bool:
        """Whether steps are compared with each other."""
        return any(step.against for step in self.steps)

    @property
    def steps(self) -> list[Step]:
        """All steps, those in groups too. Their places in this list number the variables: e0, e1, ..."""
        return list(_steps(self.parts))

    @property
    def is_sequence(self) -> bool:
        """Whether every match has one event for each step."""
        return all(isinstance(part, Step) and not part.plus for part in self.parts)

    def prime(self) -> Pattern:
        """The paper's P' of a query P: the same, and then an event that never comes."""
        return replace(self, parts=(*self.parts, Step(("NEVER",))))

    def ceql(self) -> str:
        """The query as ceql reads it."""
        numbers = iter(range(len(self.steps)))
        text = f"SELECT {'' if self.strategy == 'ALL' else self.strategy + ' '}* WHERE {_formula(self.parts, numbers)}"
        conditions = [
            f"e{k}[{attribute} {operator} {literal(value)}]"
            for k, step in enumerate(self.steps)
            for attribute, operator, value in step.conditions
        ]
        conditions += [text for k, step in enumerate(self.steps) for text in compared(k, step)]
        if conditions:
            text += " FILTER " + " AND ".join(conditions)
        if self.key is not None:
            text += f" PARTITION BY [{self.key}]"
        if self.window is not None:
            text += f" WITHIN {self.window} MILLISECONDS"
        if self.consume:
            text += " CONSUME BY ANY"
        if self.limit is not None:
            text += f" LIMIT {self.limit}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Parts that are groups have `parts`, steps have `types`."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Pattern:
        return cls(**{**value, "parts": _parts(value["parts"])})


def literal(value: float | int | str) -> str:
    """A constant as CEQL and SQL write it."""
    return f"'{value}'" if isinstance(value, str) else str(value)


def compared(k: int, step: Step) -> list[str]:
    """The comparisons of step number k with earlier ones, as CEQL and SQL write them."""
    return [
        f"e{k}.{attribute} {operator} e{other}.{its}" + (f" {'+' if added > 0 else '-'} {abs(added)}" if added else "")
        for attribute, operator, other, its, added in step.against
    ]


def _steps(parts: tuple[Step | Group, ...]) -> Iterator[Step]:
    for part in parts:
        if isinstance(part, Step):
            yield part
        else:
            yield from _steps(part.parts)


def _formula(parts: tuple[Step | Group, ...], numbers: Iterator[int]) -> str:
    texts = []
    for part in parts:
        if isinstance(part, Group):
            texts.append(f"({_formula(part.parts, numbers)})+")
        else:
            types = " OR ".join(part.types)
            text = f"{f'({types})' if len(part.types) > 1 else types} AS e{next(numbers)}"
            texts.append(f"({text})+" if part.plus else text)
    return " ; ".join(texts)


def _parts(values: list[dict[str, Any]]) -> tuple[Step | Group, ...]:
    made: list[Step | Group] = []
    for value in values:
        if "parts" in value:
            made.append(Group(_parts(value["parts"])))
        else:
            conditions = tuple((attribute, operator, constant) for attribute, operator, constant in value["conditions"])
            against = tuple((own, how, other, its, added) for own, how, other, its, added in value["against"])
            made.append(Step(tuple(value["types"]), conditions, value["plus"], against))
    return tuple(made)
