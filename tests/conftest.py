"""The suite throws no dice: random tests draw the same cases on every machine, in any order. `fuzz.py` draws new ones.

Hypothesis also draws constants that it finds in the modules loaded so far. Those depend on the tests before, so
it is given none.

Tests on Spark come first. Each worker begins at one end of its half of the tests, and others take over from the other
end; so one worker runs all of them on one JVM, and the last tests of all are short.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

# no deadline and no complaint of slowness: random tests here do real work, such as compiling
settings.register_profile("ceql", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ceql")
providers._get_local_constants = Constants


@pytest.hookimpl(trylast=True)  # after what orders tests by their fixtures
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "spark" not in getattr(item, "fixturenames", ()))
