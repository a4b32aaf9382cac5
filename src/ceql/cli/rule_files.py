"""Reads a folder of production rules: queries with a name, an owner, a severity, and tests beside them.

A rule is a file `NAME.ceql`, whose first comments say what there is to say of it, one key in each:

    -- severity: high
    -- owner: payments
    -- tags: card, theft
    SELECT ...

with its tests in `NAME.tests.json`; or a file `NAME.yaml` with the same keys, the query under `text` and the tests
under `tests`. A test has events, and the matches that the rule must find in them and no others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ceql.cli.exit_codes import UsageError
from ceql.errors import did_you_mean

KEYS = ("name", "version", "severity", "owner", "tags", "enabled", "valid_from", "description")
"""The keys that a rule may have."""
_TESTS = ("name", "events", "matches", "count", "type", "time", "time_unit", "id")
QUERY, YAML = ".ceql", (".yaml", ".yml")


@dataclass(frozen=True)
class RuleTest:
    """Events, and what a rule must find in them."""

    name: str
    events: Any
    """A list of events, or the path of a file that has them."""
    matches: list[Any] | None
    """Of each match its events, by number or by the column `id`; or what its variables are bound to, by name."""
    count: int | None
    options: dict[str, Any]
    id: str | None = None


@dataclass(frozen=True)
class Rule:
    """A rule as a file has it."""

    path: Path
    text: str
    said: Mapping[str, Any]
    tests: list[RuleTest] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name: that of the file, unless it says another."""
        return str(self.said.get("name", self.path.name.split(".")[0]))


class RuleError(UsageError):
    """A file is no rule, or its tests are none."""


def read_rules(folder: Path) -> tuple[list[Rule], list[str]]:
    """The rules of a folder, in the order of their files, and what is wrong with files that are none."""
    rules, wrong = list[Rule](), list[str]()
    for path in sorted(folder.rglob("*")):
        if path.suffix != QUERY and path.suffix not in YAML:
            continue
        try:
            rules.append(_of_query(path) if path.suffix == QUERY else _of_yaml(path))
        except RuleError as error:
            wrong.append(f"{path}: {error}")
    if not rules and not wrong:
        raise UsageError(f"the folder {folder} has no rules: no file whose name ends in {QUERY} or .yaml")
    return rules, wrong


def _of_query(path: Path) -> Rule:
    text = _text(path)
    said: dict[str, Any] = {}
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        key, mark, value = line[2:].partition(":")
        key = key.strip()
        if mark and key in KEYS:
            said[key] = value.strip()
        elif mark and (hint := did_you_mean(key, list(KEYS))):
            raise RuleError(f"a rule has no '{key}'. {hint}")
    if "tags" in said:
        said["tags"] = [tag.strip() for tag in said["tags"].split(",")]
    if said.get("enabled") in ("true", "false"):
        said["enabled"] = said["enabled"] == "true"
    beside = path.with_name(path.name.removesuffix(QUERY) + ".tests.json")
    try:
        tests = json.loads(_text(beside)) if beside.exists() else []
    except ValueError as error:
        raise RuleError(f"{beside.name} is no JSON: {error}") from error
    return Rule(path, text, _checked(said), _tests(tests, path.parent))


def _checked(said: dict[str, Any]) -> dict[str, Any]:
    """What is said of a rule, if a stream of rules can go by it."""
    if not isinstance(said.get("enabled", True), bool):
        raise RuleError(f"enabled is true or false, not {said['enabled']!r}")
    return said | ({"valid_from": time_of(said["valid_from"])} if "valid_from" in said else {})


def time_of(given: Any) -> str:
    """A time from which on a rule is in effect, as ISO text; it must have a zone, lest a session chooses one."""
    try:
        time = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise RuleError(f"valid_from is a time with its zone, such as 2024-05-01T12:00:00Z, not '{given}'")
    return given if isinstance(given, str) else time.isoformat()


def _of_yaml(path: Path) -> Rule:
    try:
        import yaml
    except ImportError as error:
        raise UsageError("rules in YAML need PyYAML: pip install 'ceql[rules]'") from error
    try:
        given = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise RuleError(f"it is no YAML: {error}") from error
    if not isinstance(given, dict):
        raise RuleError("it is no mapping with a 'text'")
    _check_keys(given, (*KEYS, "text", "tests"), "a rule")
    if not isinstance(given.get("text"), str):
        raise RuleError("it has no 'text', the query of the rule")
    said = {key: value for key, value in given.items() if key in KEYS}
    return Rule(path, given["text"], _checked(said), _tests(given.get("tests") or [], path.parent))


def _tests(given: Any, folder: Path) -> list[RuleTest]:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise RuleError("its tests are no list of mappings, each with 'events' and 'matches'")
    tests = []
    for number, one in enumerate(given, 1):
        _check_keys(one, _TESTS, "a test")
        if "events" not in one or ("matches" not in one and "count" not in one):
            raise RuleError(f"test {number} lacks 'events', or 'matches' and 'count' both")
        events = one["events"]
        events = str(folder / events) if isinstance(events, str) else events
        options = {key: one[key] for key in ("type", "time", "time_unit") if key in one}
        name = str(one.get("name", f"test {number}"))
        tests.append(RuleTest(name, events, one.get("matches"), one.get("count"), options, one.get("id")))
    return tests


def _check_keys(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in given:
        if key not in known:
            hint = did_you_mean(str(key), list(known)) or f"These are: {', '.join(known)}."
            raise RuleError(f"{what} has no '{key}'. {hint}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{path.name} cannot be read: {error}") from error
