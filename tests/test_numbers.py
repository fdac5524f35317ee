"""Numbers in print: grouped, never in scientific notation between 1e-4 and 1e15, as precise as their interval."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay.numbers import decimals, figure, fmt, limits, with_limits

SIZES = st.floats(1e-4, 1e14, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (26625.0, 4, "26,625"),
        (999999.9, 4, "1,000,000"),
        (0.00012344, 3, "0.000123"),
        (0.00009, 3, "9e-05"),
        (1e15, 3, "1e+15"),
        (-26625.4, 4, "-26,625"),
        (-0.0, 4, "0"),
        (2.5, 4, "2.5"),
        (0.99996, 4, "1"),
        (float("inf"), 4, "inf"),
        (float("nan"), 4, "-"),
    ],
)
def test_numbers_without_an_interval(value, digits, said):
    assert fmt(value, digits) == said


@pytest.mark.parametrize(
    ("estimate", "lower", "upper", "percent", "said"),
    [
        (0.91385, 0.871, 0.957, False, "0.914 [0.871, 0.957]"),
        (26625.0, 24100.0, 29150.0, False, "26,625 [24,100, 29,150]"),
        (0.0487, 0.031, 0.07, True, "4.9% [3.1%, 7.0%]"),
        (0.5, 0.5, 0.5, False, "0.5 [0.5, 0.5]"),
        (2e-7, 1e-7, 3e-7, False, "2e-07 [1e-07, 3e-07]"),
        (0.00004, -0.012, 0.013, False, "0.000 [-0.012, 0.013]"),
        (12.0, -math.inf, 14.5, False, "12.0 (-inf, 14.5]"),
        (3.0, math.nan, math.nan, False, "3 [-, -]"),
        (0.0996, 0.0, 0.1992, False, "0.10 [0.00, 0.20]"),
        (1.0, 1.0 - 1e-15, 1.0 + 1e-15, False, "1 [1, 1]"),
    ],
)
def test_figures_are_as_precise_as_their_interval(estimate, lower, upper, percent, said):
    shown = f"{figure(estimate, lower, upper, percent=percent)} {limits(lower, upper, estimate, percent=percent)}"
    assert shown == said


@given(SIZES, st.sampled_from([1.0, -1.0]), st.integers(2, 15))
def test_a_number_reads_back_to_its_digits(size, sign, digits):
    said = fmt(sign * size, digits)
    assert "e" not in said
    assert float(said.replace(",", "")) == pytest.approx(sign * size, rel=0.51 * 10.0 ** (1 - digits))


@given(SIZES, st.floats(1e-6, 1.0))
def test_rounding_moves_an_estimate_by_less_than_a_tenth_of_its_half_width(size, share):
    half = share * size
    assume(decimals(size - half, size + half) is not None)
    for exact, said in zip((size, size - half, size + half), with_limits(size, size - half, size + half), strict=True):
        assert re.fullmatch(r"-?[\d,]+(\.\d+)?", said)
        places = len(said.partition(".")[2])
        assert abs(float(said.replace(",", "")) - exact) <= 0.05 * half * (1 + 1e-6) + (0.5 if places == 0 else 0.0)
