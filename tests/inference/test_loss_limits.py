"""The interval of a mean loss holds its mean, at every level, size and scale."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import DataError
from assay.inference import diagnose_tail, loss_interval
from assay.metrics import mae, mse, r2, rmse

LEVELS = st.one_of(st.sampled_from([0.001, 0.01, 0.05, 0.5, 0.95, 0.999]), st.floats(0.001, 0.999))
SCALES = st.integers(-300, 300).map(lambda power: 10.0**power)
SHAPES = st.sampled_from(["constant", "zeros", "lognormal", "pareto", "one", "ties", "bits"])


def losses(shape, n, seed):
    rng = np.random.default_rng(seed)
    made = {
        "constant": lambda: np.full(n, rng.random() + 0.1),
        "zeros": lambda: np.where(rng.random(n) < 0.7, 0.0, rng.random(n)),
        "lognormal": lambda: rng.lognormal(0, 3, n),
        "pareto": lambda: rng.pareto(0.7, n),
        "one": lambda: np.r_[np.zeros(n - 1), 1.0],
        "ties": lambda: rng.integers(0, 3, n).astype(float),
        "bits": lambda: 1.0 + rng.integers(0, 3, n) * 2.0**-52,
    }
    return made[shape]()


@given(shape=SHAPES, n=st.integers(2, 50), seed=st.integers(0, 10**6), scale=SCALES, level=LEVELS)
def test_the_mean_lies_between_its_limits(shape, n, seed, scale, level):
    x = losses(shape, n, seed) * scale
    found = loss_interval(x, level=level)
    assert 0 <= found.lower <= found.estimate <= found.upper
    assert x.min() <= found.estimate <= x.max()
    if shape == "constant":
        assert found.lower == found.estimate == found.upper == x[0]


@given(shape=SHAPES, n=st.integers(2, 50), seed=st.integers(0, 10**6), power=st.integers(-120, 120), level=LEVELS)
def test_weighted_figures_lie_between_their_limits(shape, n, seed, power, level):
    rng = np.random.default_rng(seed)
    y = np.sqrt(losses(shape, n, seed)) * 10.0**power
    weights = rng.choice([0.0, 1.0, 2.5, 1e-6], n)
    weights[:2] = 1.0, 3.0
    for metric in (mse, rmse, mae):
        for given_weights in (None, weights):
            found = metric.interval(y, np.zeros(n), level=level, sample_weight=given_weights)
            assert 0 <= found.lower <= found.estimate <= found.upper, metric.name


def test_wider_levels_hold_narrower_ones():
    x = losses("pareto", 40, 1)
    ends = np.array(
        [(found.lower, found.upper) for found in (loss_interval(x, level=p) for p in np.linspace(0.01, 0.99, 50))]
    )
    assert (np.diff(ends[:, 0]) <= 0).all()
    assert (np.diff(ends[:, 1]) >= 0).all()


def test_losses_near_the_largest_float_keep_their_mean():
    x = np.r_[np.full(20, 1.5e308), 1e308]
    found = loss_interval(x)
    assert 1e308 < found.lower < found.estimate < 1.5e308 <= found.upper
    assert diagnose_tail(x, np.full(21, 1e300)).rows == diagnose_tail(x / 1e308).rows


@given(shape=SHAPES, n=st.integers(2, 50), seed=st.integers(0, 10**6), scale=SCALES)
def test_rows_of_weight_zero_do_not_count_in_the_diagnosis(shape, n, seed, scale):
    x, weights = losses(shape, n, seed) * scale, np.random.default_rng(seed).choice([0.0, 1.0, 2.0], n)
    if not weights.any():
        with pytest.raises(DataError, match="every entry of weights is zero"):
            diagnose_tail(x, weights)
        return
    found = diagnose_tail(x, weights)
    assert (
        str(found) == str(diagnose_tail(x[weights > 0], weights[weights > 0])) if (weights > 0).sum() > 1 else found.n
    )
    assert found.n == (weights > 0).sum()
    assert found.unseen >= 1


@pytest.mark.parametrize("weights", [[0, 0, 0], [1, -1, 1], [1, np.nan, 1], [1, 1]])
def test_impossible_weights_of_a_diagnosis_are_refused(weights):
    with pytest.raises(DataError, match="weights"):
        diagnose_tail([1.0, 2.0, 3.0], weights)


def test_r2_lies_between_its_limits_at_every_level():
    rng = np.random.default_rng(0)
    y = rng.lognormal(0, 2, 30)
    for level in (0.001, 0.01, 0.5, 0.95, 0.999):
        found = r2.interval(y, y * rng.lognormal(0, 1, 30), level=level)
        assert found.lower <= found.estimate <= found.upper <= 1
