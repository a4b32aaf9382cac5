"""Random statements give the rows that backtracking by the definition gives. `make fuzz` draws more of them."""

from __future__ import annotations

import random

import pytest

from row_pattern_cases import draw_case
from row_pattern_checks import check


@pytest.mark.parametrize("seed", range(4))
def test_conditions_on_rows_and_neighbours(seed: int) -> None:
    rnd = random.Random(seed)
    assert all(check(draw_case(rnd, plain=True)) for _ in range(150))


@pytest.mark.parametrize("seed", range(4))
def test_conditions_on_rows_of_the_match(seed: int) -> None:
    rnd = random.Random(100 + seed)
    assert sum(check(draw_case(rnd)) for _ in range(150)) > 140
