"""A studio with an empty session, and the query of its first example."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.studio.served import Studio, serving

from ceql.studio.examples import EXAMPLES
from ceql.studio.session import Session


@pytest.fixture
def studio() -> Iterator[Studio]:
    with serving(Session()) as found:
        yield found


@pytest.fixture
def fraud() -> str:
    return EXAMPLES[0].text
