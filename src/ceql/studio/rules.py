"""Lists the rules of a folder below the one in which the studio was started, with what their tests say.

In: the path of a folder. Out: its folders and files of rules; and, if they are to be checked, each rule in it and below
it with its query, who owns it, and what is wrong with it, as `ceql rules check` finds it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ceql.cli.rule_files import QUERY, YAML, Rule
from ceql.cli.rules import checked
from ceql.studio.folder import below, listing

_TOLD = ("severity", "owner", "version")


def rules(root: Path, folder: str, check: bool) -> dict[str, Any]:
    """What a folder has, and its rules if they are to be checked."""
    found = listing(root, folder, lambda name: name.endswith((QUERY, *YAML)))
    if not check:
        return {**found, "rules": None, "wrong": []}
    here = below(root, folder)
    each, wrong = checked(here)
    shown = [_shown(rule, complaints, here) for rule, complaints in each]
    return {**found, "rules": shown, "wrong": [line.removeprefix(f"{here}/") for line in wrong]}


def _shown(rule: Rule, complaints: list[str], here: Path) -> dict[str, Any]:
    tags = rule.said.get("tags", ())
    return {
        "name": rule.name,
        "text": rule.text,
        "path": rule.path.relative_to(here).as_posix(),
        "said": [f"{key}: {rule.said[key]}" for key in _TOLD if rule.said.get(key)],
        "tags": [tags] if isinstance(tags, str) else list(map(str, tags)),
        "description": str(rule.said.get("description", "")),
        "enabled": bool(rule.said.get("enabled", True)),
        "tests": len(rule.tests),
        "complaints": complaints,
    }
