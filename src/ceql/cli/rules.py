"""`ceql rules`: checks a folder of rules, as before they are deployed, and writes them as rows of a stream of rules."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import ceql
from ceql.cli.exit_codes import ExitCode, UsageError, reporting_errors
from ceql.cli.rule_files import Rule, RuleTest, read_rules, time_of
from ceql.errors import CeqlError

rules_app = typer.Typer(help="Check a folder of rules, and write them for a stream.", no_args_is_help=True)
_SHOWN = 5  # matches that are missing, or were not expected


def check(folder: Path, required: Sequence[str], tested: bool) -> ExitCode:
    """Compile and test the rules; say what is wrong with each."""
    rules, wrong = checked(folder, required, tested)
    for line in wrong:
        print(f"FAIL {line}")
    failed, tests = len(wrong), 0
    for rule, complaints in rules:
        tests += len(rule.tests)
        failed += bool(complaints)
        told = [str(rule.said[key]) for key in ("severity", "owner") if key in rule.said]
        about = ", ".join(told + ["off"] * (not rule.said.get("enabled", True)))
        shown = f"{rule.name}{f' ({about})' if about else ''}"
        count = f"{len(rule.tests)} test{'s' * (len(rule.tests) != 1)}" if rule.tests else "no tests"
        print(f"FAIL {shown}: {rule.path}" if complaints else f"ok   {shown}: {count}")
        for complaint in complaints:
            print("     " + complaint.replace("\n", "\n     "))
    every = len(rules) + len(wrong)
    print(f"{every} rule{'s' * (every != 1)}, {tests} test{'s' * (tests != 1)}: {failed or 'none'} failed")
    return ExitCode.WRONG_QUERY if failed else ExitCode.DONE


def checked(
    folder: Path, required: Sequence[str] = (), tested: bool = False
) -> tuple[list[tuple[Rule, list[str]]], list[str]]:
    """Each rule of a folder with what is wrong with it, and what is wrong with files that are none."""
    rules, wrong = read_rules(folder)
    twice = _twice(rules)
    found = []
    for rule in rules:
        complaints = list(twice.get(rule.name, ()))
        complaints += [f"it does not say its {key}" for key in required if not rule.said.get(key)]
        complaints += ["it has no tests"] * (tested and not rule.tests)
        found.append((rule, [*complaints, *_complaints(rule)]))
    return found, wrong


def rows(folder: Path, valid_from: str | None) -> ExitCode:
    """Write each rule as a line of JSON, as `ceql.spark.match(..., rules=FOLDER)` reads them."""
    rules, wrong = read_rules(folder)
    twice, valid_from = _twice(rules), None if valid_from is None else time_of(valid_from)
    for rule in rules:
        wrong += [f"{rule.path}: {complaint}" for complaint in (*twice.get(rule.name, ()), *_compiled(rule)[1])]
    if wrong:
        raise UsageError("\n".join(wrong))
    for rule in rules:
        row = {"name": rule.name, "text": rule.text, "enabled": rule.said.get("enabled", True)}
        row |= {"version": str(rule.said["version"])} if "version" in rule.said else {}
        since = rule.said.get("valid_from", valid_from)
        row |= {"valid_from": since} if since is not None else {}
        print(json.dumps(row, ensure_ascii=False))
    return ExitCode.DONE


def _twice(rules: Sequence[Rule]) -> dict[str, list[str]]:
    """What is wrong with rules that have one name."""
    names = Counter(rule.name for rule in rules)
    return {name: [f"there are {count} rules of this name"] for name, count in names.items() if count > 1}


def _compiled(rule: Rule) -> tuple[ceql.Query | None, list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ceql.NoMatchWarning)
        try:
            return ceql.compile(rule.text), []
        except (CeqlError, ceql.NoMatchWarning) as error:
            return None, [str(error)]


def _complaints(rule: Rule) -> Iterable[str]:
    query, complaints = _compiled(rule)
    if query is None:
        return complaints
    for test in rule.tests:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                found = list(_differences(query, test))
            except (CeqlError, TypeError, ValueError) as error:
                found = [f"{test.name}: {error}"]
        if found:  # else its events are as few as it wants them to be
            complaints += [*found, *(f"{test.name}: {one.message}" for one in told)]
    return complaints


def _differences(query: ceql.Query, test: RuleTest) -> Iterable[str]:
    """How the matches of a test's events differ from those that it expects."""
    matches = query.run(test.events, **test.options)
    found = [_named(match, test) for match in matches]
    if test.count is not None and len(found) != test.count:
        yield f"{test.name}: it finds {len(found)}, and {test.count} are expected"
    if test.matches is None:
        return
    wanted = Counter(map(_text, test.matches))
    by_name = any(isinstance(one, dict) for one in test.matches)
    keys = {key for one in test.matches if isinstance(one, dict) for key in one}
    if found and (unknown := sorted(keys - {name for _, bound in found for name in bound})):
        yield f"{test.name}: its matches have no variable or measure '{unknown[0]}'"
        return
    ours = Counter(_text(_only(bound, keys) if by_name else events) for events, bound in found)
    for what, those in (("missing", wanted - ours), ("not expected", ours - wanted)):
        for text in sorted(those.elements())[:_SHOWN]:
            yield f"{test.name}: {what}: {text}"
        if those.total() > _SHOWN:
            yield f"{test.name}: and {those.total() - _SHOWN} more {what}"


def _named(match: ceql.Match, test: RuleTest) -> tuple[list[Any], dict[str, Any]]:
    """The events of a match, and what its variables and measures are, by number or id."""

    def one(position: int) -> Any:
        return position if ids is None else ids[position]

    ids = None
    if test.id is not None:
        ids = {p: event[test.id] for p, event in zip(match.events, match.rows, strict=True)}
    bound: dict[str, Any] = {
        name: [one(position) for position in positions] for name, positions in match.bindings.items()
    }
    return [one(position) for position in match.events], bound | dict(match.measures)


def _only(bound: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: bound[key] for key in keys if key in bound}


def _text(value: Any) -> str:
    """A match as text: a variable of one event may be given by that alone."""
    if isinstance(value, dict):
        value = {key: [one] if not isinstance(one, list) else one for key, one in value.items()}
    return json.dumps(value, sort_keys=True, default=str)


RulesArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A folder of rules: .ceql or .yaml files, with tests beside them.")
]


@rules_app.command("check")
def rules_check_command(
    folder: RulesArgument,
    require: Annotated[
        list[str] | None,
        typer.Option("--require", metavar="KEY", help="What every rule must say: owner, severity, tags, version …"),
    ] = None,
    tested: Annotated[bool, typer.Option("--tested", help="Every rule must have tests.")] = False,
) -> None:
    """Compile the rules and run their tests.

    Exit codes: 0 all is well; 2 a rule or a test fails.
    """
    with reporting_errors():
        code = check(_folder(folder), require or [], tested)
    raise typer.Exit(code)


@rules_app.command("rows")
def rules_rows_command(
    folder: RulesArgument,
    valid_from: Annotated[
        str | None,
        typer.Option("--valid-from", metavar="TIME", help="The time from which on the rules are in effect."),
    ] = None,
) -> None:
    """Write each rule as a line of JSON, as a stream of rules on Spark reads them."""
    with reporting_errors():
        code = rows(_folder(folder), valid_from)
    raise typer.Exit(code)


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise UsageError(f"{path} is no folder")
    return path
