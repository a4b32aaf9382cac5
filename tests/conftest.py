"""Random tests here run real work (compiling, threads of other libraries): no deadline for a single example."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ceql", deadline=None)
settings.load_profile("ceql")
