"""Single units: the rules by hand, the steps that converge, orders of rows, weights, traces."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from assay.errors import ConvergenceWarning, DataError, DivergenceError
from assay.margin import DeltaRule, SigmoidUnit
from tests.naive import margin_units as naive

HAND = [[1.0], [3.0], [4.0]], [2.0, 1.0, 5.0]


def table(seed: int = 0, n: int = 30, p: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.arange(1, p + 1) + 0.5
    return X, X @ rng.normal(size=p) + 1.0 + 0.3 * rng.normal(size=n)


def largest_eigenvalue(X: np.ndarray) -> float:
    A = naive.augmented(X)
    return float(np.linalg.eigvalsh(A.T @ A)[-1])


# The delta rule.


def test_one_step_by_hand():
    unit = DeltaRule(learning_rate=0.01, max_iter=1, tol=0).fit(*HAND)
    assert (unit.intercept_, unit.coef_[0]) == (pytest.approx(0.08), pytest.approx(0.25))
    mean = DeltaRule(learning_rate=0.01, max_iter=1, tol=0, reduction="mean").fit(*HAND)
    assert (mean.intercept_, mean.coef_[0]) == (pytest.approx(0.08 / 3), pytest.approx(0.25 / 3))
    # One row at a time: the errors are 2, then 1 - (.02 + 3 * .02), then 5 - o.
    online = DeltaRule(solver="sgd", learning_rate=0.01, max_iter=1).fit(*HAND)
    b, w = 0.02, 0.02
    e = 1 - (b + 3 * w)
    b, w = b + 0.01 * e, w + 0.03 * e
    e = 5 - (b + 4 * w)
    b, w = b + 0.01 * e, w + 0.04 * e
    assert (online.intercept_, online.coef_[0]) == (pytest.approx(b), pytest.approx(w))


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 12))
def test_steps_are_the_textbook_ones(seed, p, steps):
    X, y = table(seed, 12, p)
    eta = 0.5 / largest_eigenvalue(X)
    after = naive.delta_rule(naive.augmented(X), y, eta, steps)
    unit = DeltaRule(learning_rate=eta, max_iter=steps, tol=0).fit(X, y)
    np.testing.assert_allclose(np.append(unit.coef_, unit.intercept_), after[-1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(unit.trace_.weights[1:], after, rtol=1e-8, atol=1e-10)
    errors = [0.5 * np.sum((y - naive.augmented(X) @ w) ** 2) for w in after]
    np.testing.assert_allclose(unit.trace_.objective, errors, rtol=1e-9)


@given(st.integers(0, 1000), st.sampled_from(["sum", "mean"]))
def test_exactly_the_steps_below_two_over_lambda_converge(seed, reduction):
    X, y = table(seed)
    factor = len(X) if reduction == "mean" else 1.0
    limit = 2 * factor / largest_eigenvalue(X)
    below = DeltaRule(learning_rate=0.99 * limit, reduction=reduction).fit(X, y)
    assert below.trace_.converged
    assert (np.diff(below.trace_.objective) <= 1e-12 * below.trace_.start).all()
    assert below.trace_.largest_step == pytest.approx(limit)
    best = np.linalg.lstsq(naive.augmented(X), y, rcond=None)[0]
    np.testing.assert_allclose(np.append(below.coef_, below.intercept_), best, rtol=1e-4, atol=1e-4)
    with pytest.raises(DivergenceError, match=f"steps below {limit:.4g} converge"):
        DeltaRule(learning_rate=1.01 * limit, reduction=reduction).fit(X, y)


def test_a_step_too_large_for_single_rows_is_named():
    X, y = table()
    limit = 2 / (naive.augmented(X) ** 2).sum(axis=1).max()
    with pytest.raises(DivergenceError, match=f"steps below {limit:.4g} hold"):
        DeltaRule(solver="sgd", learning_rate=20 * limit).fit(X, y)
    with pytest.raises(DivergenceError):
        DeltaRule(learning_rate=1e200).partial_fit(X, y)


@pytest.mark.parametrize("order", ["given", "shuffled", "replacement"])
def test_one_row_at_a_time_comes_near_the_answer(order):
    X, y = table(n=200)
    A = naive.augmented(X)
    best = np.linalg.lstsq(A, y, rcond=None)[0]
    unit = DeltaRule(solver="sgd", order=order, learning_rate=0.002, max_iter=100, random_state=0).fit(X, y)
    again = DeltaRule(solver="sgd", order=order, learning_rate=0.002, max_iter=100, random_state=0).fit(X, y)
    assert np.array_equal(unit.coef_, again.coef_)
    np.testing.assert_allclose(np.append(unit.coef_, unit.intercept_), best, atol=0.1)
    assert unit.trace_.objective[-1] < 1.1 * 0.5 * np.sum((y - A @ best) ** 2)


def test_orders_are_what_they_say():
    X, y = table(n=20)
    given_order = DeltaRule(solver="sgd", learning_rate=0.01, max_iter=1).fit(X, y)
    pieces = DeltaRule(learning_rate=0.01)
    for part in (slice(0, 7), slice(7, 20)):
        pieces.partial_fit(X[part], y[part])
    np.testing.assert_allclose(pieces.coef_, given_order.coef_, rtol=1e-12)
    shuffled = DeltaRule(solver="sgd", order="shuffled", learning_rate=0.01, max_iter=1, random_state=3).fit(X, y)
    order = np.random.default_rng(np.random.SeedSequence(3)).permutation(20)
    by_hand = DeltaRule(solver="sgd", learning_rate=0.01, max_iter=1).fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.coef_, by_hand.coef_, rtol=1e-12)


def test_weights_are_repetitions_and_nothing_is_left_of_weight_zero():
    X, y = table(n=20)
    v = np.random.default_rng(0).integers(0, 4, 20)
    for reduction in ("sum", "mean"):
        weighted = DeltaRule(reduction=reduction, max_iter=50, tol=0).fit(X, y, sample_weight=v)
        repeated = DeltaRule(reduction=reduction, max_iter=50, tol=0).fit(np.repeat(X, v, axis=0), np.repeat(y, v))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)


def test_raw_columns_are_slow_and_say_so():
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol, or standardise the columns"):
        DeltaRule(max_iter=200).fit(X * [1.0, 1000.0], y)


def test_a_warm_start_goes_on_where_it_stood():
    X, y = table()
    unit = DeltaRule(max_iter=5, tol=0, learning_rate=0.001, warm_start=True).fit(X, y).fit(X, y)
    straight = DeltaRule(max_iter=10, tol=0, learning_rate=0.001).fit(X, y)
    np.testing.assert_allclose(unit.coef_, straight.coef_, rtol=1e-10)


def test_without_an_intercept():
    X, y = table()
    unit = DeltaRule(fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(unit.coef_, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-5)
    assert unit.intercept_ == 0.0
    assert unit.trace_.names == ("x0", "x1")


def test_the_trace_tells_how_it_went():
    unit = DeltaRule(learning_rate=0.01, max_iter=3, tol=0).fit(*HAND)
    frame = unit.trace_.to_frame()
    assert list(frame.columns) == ["step", "error", "w[x0]", "w[intercept]"]
    assert frame["error"].tolist() == [unit.trace_.start, *unit.trace_.objective]
    assert frame["w[x0]"].tolist()[1] == pytest.approx(0.25)
    assert str(unit.trace_).startswith("3 steps, step 0.01")


# The sigmoid unit.


@given(st.integers(0, 1000))
def test_a_step_of_the_sigmoid_unit(seed):
    X, y = table(seed, 10)
    upper = (y > np.median(y)).astype(float)
    w = naive.sigmoid_step(naive.augmented(X), upper, 0.7, np.zeros(3))
    w = naive.sigmoid_step(naive.augmented(X), upper, 0.7, w)
    unit = SigmoidUnit(learning_rate=0.7, max_iter=2, tol=0).fit(X, upper)
    np.testing.assert_allclose(np.append(unit.coef_[0], unit.intercept_), w, rtol=1e-9)


@given(st.integers(0, 1000))
def test_the_error_of_the_sigmoid_unit_falls_with_every_step_that_holds(seed):
    X, y = table(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        unit = SigmoidUnit(max_iter=200).fit(X, y > np.median(y))
        errors = SigmoidUnit(max_iter=200, learning_rate=0.99 * unit.trace_.largest_step).fit(X, y > np.median(y))
    for trace in (unit.trace_, errors.trace_):
        assert (np.diff(trace.objective, prepend=trace.start) <= 1e-12 * trace.start).all()


def test_a_rising_error_is_named():
    X, _ = table(3)
    upper = np.random.default_rng(0).random(len(X)) > 0.5
    limit = SigmoidUnit(max_iter=1, tol=0).fit(X, upper).trace_.largest_step
    with pytest.warns(ConvergenceWarning, match="the error rose; steps below"):
        SigmoidUnit(max_iter=50, learning_rate=50 * limit).fit(X, upper)


def test_three_classes_get_a_unit_each():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        unit = SigmoidUnit(max_iter=2000).fit(X, names)
    assert unit.score(X, names) > 0.85
    shares = unit.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert len(unit.traces_) == 3
    assert unit.trace_ is unit.traces_[0]


def test_classes_in_pieces():
    X, y = table(n=60)
    upper = np.where(y > 1, "yes", "no")
    whole = SigmoidUnit(solver="sgd", learning_rate=0.1, max_iter=1).fit(X, upper)
    pieces = SigmoidUnit(learning_rate=0.1)
    for part in (slice(0, 10), slice(10, 60)):
        pieces.partial_fit(X[part], upper[part], classes=["no", "yes"])
    np.testing.assert_allclose(pieces.coef_, whole.coef_, rtol=1e-12)
    with pytest.raises(DataError, match="only one class"):
        SigmoidUnit().partial_fit(X[:1], upper[:1])
    with pytest.raises(DataError, match="'perhaps' in row 1, which was not passed in the first call"):
        pieces.partial_fit(X[:2], ["no", "perhaps"])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_rows_one_by_one_after_all_at_once_have_their_own_step(reduction):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(50, 1)), [[30.0]]])
    y = 2 * X[:, 0] + rng.normal(size=51)
    unit = DeltaRule(reduction=reduction).fit(X, y)
    for _ in range(20):
        unit.partial_fit(X, y)
    assert unit.trace_.step == pytest.approx(1 / (X**2 + 1).max())
    assert unit.coef_[0] == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("unit", [DeltaRule(max_iter=2), SigmoidUnit(max_iter=2, tol=1e-9)])
def test_warnings_point_at_the_line_that_fits(unit):
    with pytest.warns(ConvergenceWarning) as caught:
        unit.fit([[1.0], [2.0], [3.0], [5.0]], [0, 1, 0, 1])
    assert caught[0].filename == __file__


def test_longer_rows_in_later_pieces_shorten_the_step():
    rng = np.random.default_rng(0)
    X = np.r_[[[0.01, 0.02]], rng.normal(size=(60, 2))]
    y = X @ [1.0, 2.0]
    unit = DeltaRule().partial_fit(X[:1], y[:1])  # a step that holds for this row alone
    for _ in range(40):
        unit.partial_fit(X, y)
    assert np.abs(unit.coef_ - [1.0, 2.0]).max() < 1e-6
