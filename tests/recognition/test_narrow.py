"""Arrays of a state come back from their narrow form as they were, whatever is in them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ceql.recognition.narrow import FEW, narrowed, widened

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
near = st.integers(LEAST, GREATEST).flatmap(
    lambda base: st.integers(max(LEAST, base - 70_000), min(GREATEST, base + 70_000))
)
column = st.lists(st.integers(0, 300), min_size=FEW, max_size=FEW) | st.one_of(
    st.lists(near, min_size=1, max_size=3).map(lambda values: (values * FEW)[:FEW]),
    st.tuples(near, st.lists(st.integers(-9, 9), min_size=FEW, max_size=FEW)).map(
        lambda pair: [min(GREATEST, max(LEAST, pair[0] + more)) if k % 3 else k for k, more in enumerate(pair[1])]
    ),
)


@settings(max_examples=200)
@given(st.lists(column, min_size=1, max_size=4), st.booleans())
def test_what_is_narrowed_is_widened(columns: list[list[int]], flat: bool) -> None:
    whole = np.array(columns, np.int64).T.copy()
    arrays = {"a": whole[:, 0].copy() if flat else whole, "few": whole[:3], "none": np.zeros((0, 6), np.int64)}
    notes, narrow = narrowed(arrays)
    back = widened(notes, narrow)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert (back[name] == array).all()


def test_times_and_indexes_take_half_the_room() -> None:
    times = 1_700_000_000_000_000 + np.arange(1000) * 100
    nodes = np.stack([times, np.arange(1000), np.where(np.arange(1000) % 2, times, np.arange(1000)), times * 0 - 1], 1)
    _, narrow = narrowed({"nodes": nodes})
    assert sum(array.nbytes for array in narrow.values()) < nodes.nbytes // 2
