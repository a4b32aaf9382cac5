"""The suite throws no dice: random tests draw the same cases on every machine, in any order. `fuzz.py` draws new ones.

Hypothesis also draws constants that it finds in the modules loaded so far. Those depend on the tests before, so
it is given none.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

# no deadline and no complaint of slowness: random tests here do real work, such as compiling
settings.register_profile("ceql", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ceql")
providers._get_local_constants = Constants
