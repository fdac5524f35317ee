"""Vector steps against plain arithmetic."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from assay.numerics.jit import kernel
from assay.numerics.vector import count_to_real, to_real

EDGES = [0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**52, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63 - 513]


@kernel
def reals(whole, out, small):
    for k in range(whole.size):
        # What follows may be put in another order; the steps inside may not.
        out[k] = (count_to_real(whole[k]) if small else to_real(whole[k])) + 0.25


def converted(whole, small):
    out = np.empty(whole.size)
    reals(whole, out, small)
    return out


@given(hnp.arrays(np.int64, st.integers(0, 40), elements=st.integers(-(2**63), 2**63 - 1) | st.sampled_from(EDGES)))
def test_any_whole_number_is_rounded_as_float_does(whole):
    np.testing.assert_array_equal(converted(whole, False), [float(int(i)) + 0.25 for i in whole])


@given(hnp.arrays(np.int64, st.integers(0, 40), elements=st.integers(-(2**31), 2**31 - 1)))
def test_counts_are_exact(whole):
    np.testing.assert_array_equal(converted(whole, True), whole + 0.25)
