"""Places in ascending numbers are numpy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.numerics.jit import kernel
from assay.numerics.search import first_at_least


@kernel
def found(x, low, high, value):
    return first_at_least(x, low, high, value)


@given(st.lists(st.integers(-5, 5), max_size=20), st.floats(-7, 7), st.data())
def test_it_finds_what_numpy_finds(numbers, value, data):
    x = np.sort(np.array(numbers, dtype=float))
    low = data.draw(st.integers(0, x.size))
    high = data.draw(st.integers(low, x.size))
    assert found(x, low, high, value) == low + np.searchsorted(x[low:high], value)
