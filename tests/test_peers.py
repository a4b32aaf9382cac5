"""The documentation says of other systems what the corpus holds: rows of tables are cases, and cases are rows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests/corpus"
COMING, FLINK = ROOT / "docs/coming-from-cep.md", ROOT / "docs/flink-tests.md"
TESTS_OF_FLINK = 228  # of patterns, at the commit that the page names
NOT_HELD = {"`match_recognize`", "`RETURN`"}  # rows that lead elsewhere


def cases(file: Path, kind: str = "case") -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = tomllib.loads(file.read_text()).get(kind, [])
    return content


def rows(text: str) -> list[tuple[str, ...]]:
    """The rows of the tables of a text, without their headings."""
    lines = [
        tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in text.splitlines() if line[:1] == "|"
    ]
    heads = {k - 1 for k, line in enumerate(lines) if set("".join(line)) <= set("-| ")}
    return [line for k, line in enumerate(lines) if k not in heads and k - 1 not in heads]


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("system", ["Flink CEP", "Esper", "SASE, SASE+ and OpenCEP"])
def test_each_row_is_a_case(system: str) -> None:
    held = {
        (case["peer"], case["here"]) for case in cases(CORPUS / "coming_from.toml") if case["title"].startswith(system)
    }
    told = {
        (row[0].strip(), row[1].strip()) for row in rows(section(COMING.read_text(), system)) if row[0] not in NOT_HELD
    }
    assert told == held


def test_each_case_says_what_its_row_says() -> None:
    """The code in the right cell of a row is part of the queries that hold it."""
    queries: dict[tuple[str, str], str] = {}
    for case in cases(CORPUS / "coming_from.toml"):
        row = case["peer"], case["here"]
        queries[row] = queries.get(row, "") + case["query"] + "\n"
    for (peer, here), said in queries.items():
        for code in re.findall(r"`([^`]+)`", here):
            assert all(part in said for part in code.split(" … ")), f"{peer}: {code}"


def flink() -> dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Of each class of Flink's tests, what queries say and what none says."""
    found = {}
    for file in sorted(CORPUS.glob("flink_*.toml")):
        name = re.search(r"# Flink CEP, (\w+):", file.read_text())
        assert name is not None
        found[name[1]] = cases(file), cases(file, "missing")
    return found


def of_tests(entries: list[dict[str, Any]]) -> set[str]:
    """A test that runs twice has two cases."""
    return {entry["title"].split(" ")[0] for entry in entries}


def test_the_page_of_flinks_tests_counts_right() -> None:
    wanted = []
    total = [0, 0, 0, 0]
    for name, (said, missing) in flink().items():
        unsaid = of_tests(missing)
        clumsy = of_tests([case for case in said if "clumsy" in case]) - unsaid
        counts = [len(of_tests(said) | unsaid), len(of_tests(said) - clumsy - unsaid), len(clumsy), len(unsaid)]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        wanted.append((f"`{name}`", *map(str, counts)))
    text = FLINK.read_text()
    assert rows(section(text, "How many")) == [*wanted, ("all", *map(str, total))]
    assert total[0] == TESTS_OF_FLINK
    assert total[1] >= 200


def test_the_page_of_flinks_tests_names_what_is_missing() -> None:
    wanted = []
    for name, (said, missing) in flink().items():
        entries = [
            *((case, case["clumsy"]) for case in said if "clumsy" in case),
            *((case, case["reason"]) for case in missing),
        ]
        wanted += [(f"`{name}`, `{case['title']}`", f"`{case['peer']}`", reason) for case, reason in entries]
    assert rows(section(FLINK.read_text(), "Which not, and why")) == wanted
