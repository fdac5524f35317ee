"""Bias and variance: closed forms, definitions, identities, and standard errors that say how far off they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._decompose import indicator_parts, squared_parts, vote_parts, vote_spread
from assay.evaluation.bias_variance import bias_variance
from tests.naive.evaluation import domingos_decomposition, kohavi_wolpert_decomposition, squared_decomposition

SIGMA = 0.4


class Poly(RegressorMixin, BaseEstimator):
    """A polynomial of one column, quick enough for simulations."""

    def __init__(self, degree=1):
        self.degree = degree

    def fit(self, X, y):
        self.coef_ = np.linalg.lstsq(np.vander(X[:, 0], self.degree + 1), y, rcond=None)[0]
        return self

    def predict(self, X):
        return np.vander(X[:, 0], self.degree + 1) @ self.coef_


class Side(ClassifierMixin, BaseEstimator):
    """Two classes by the sign of a fitted polynomial."""

    def __init__(self, degree=1):
        self.degree = degree

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.poly_ = Poly(self.degree).fit(X, y - 0.5)
        return self

    def predict(self, X):
        return (self.poly_.predict(X) > 0).astype(int)


def f(X):
    return np.sin(3 * X[:, 0])


def sampler(rng, n=40):
    X = rng.uniform(-1, 1, (n, 1))
    return X, f(X) + rng.normal(0, SIGMA, n)


def probabilities(X):
    p = 1 / (1 + np.exp(-4 * f(X)))
    return np.column_stack([1 - p, p])


def class_sampler(rng, n=60):
    X = rng.uniform(-1, 1, (n, 1))
    return X, (rng.random(n) < probabilities(X)[:, 1]).astype(int)


def test_linear_smoothers_on_a_fixed_design_have_their_closed_forms():
    # F = H y: bias = (I - H) f and variance = sigma^2 tr(H H') / n. Six comparisons at |z| < 5: false alarms < 1e-5.
    X = np.linspace(-1, 1, 30)[:, None]
    truth = f(X)
    design = np.column_stack([np.ones(30), X])
    centred = X - X.mean()
    near = np.zeros((30, 30))
    for i in range(30):
        near[i, KNeighborsRegressor(4).fit(X, truth).kneighbors(X[i : i + 1])[1][0]] = 0.25
    smoothers = {
        "ols": design @ np.linalg.pinv(design),
        "ridge": np.full((30, 30), 1 / 30) + centred @ centred.T / (centred.T @ centred + 5.0),
        "knn": near,
    }
    learners = {"ols": LinearRegression(), "ridge": Ridge(5.0), "knn": KNeighborsRegressor(4)}
    found = bias_variance(
        learners,
        sampler=lambda rng: (X, truth + rng.normal(0, SIGMA, 30)),
        truth=f,
        test=X,
        noise=SIGMA**2,
        n_datasets=400,
    )
    for k, H in enumerate(smoothers.values()):
        exact = {"bias2": np.mean((truth - H @ truth) ** 2), "variance": SIGMA**2 * np.trace(H @ H.T) / 30}
        for name, value in exact.items():
            z = (found.components[name][k] - value) / found.std_errors[name][k]
            assert abs(z) < 5
    assert_allclose(found.components["noise"], SIGMA**2)


@pytest.mark.parametrize("truth", [None, f])
def test_the_parts_add_up_to_the_total(truth):
    found = bias_variance(
        Poly(), sampler=sampler, truth=truth, n_datasets=20, test=30, parameter="degree", values=[1, 4]
    )
    total = sum(found.components[name] for name in found.adds_up)
    assert_allclose(found.components["total"], total, rtol=1e-12)
    assert ("noise" in found.components) == (truth is not None)
    assert ("bias2_and_noise" in found.components) == (truth is None)


def test_without_truth_the_total_is_the_mean_squared_error():
    found = bias_variance(Poly(3), sampler=sampler, n_datasets=15, test=25, random_state=3)
    again = bias_variance(Poly(3), sampler=sampler, n_datasets=15, test=25, random_state=3, noise=0.1)
    assert_allclose(again.components["bias2"], found.components["bias2_and_noise"] - 0.1)
    assert_allclose(again.components["total"], found.components["total"])


def test_squared_parts_are_the_means_over_pairs():
    rng = np.random.default_rng(0)
    F, t = rng.normal(size=(7, 5)) + 2, rng.normal(size=5)
    bias2, variance = squared_parts(F, np.ones(F.shape, bool), t)
    expected = squared_decomposition(F, t)
    assert_allclose(bias2.mean(axis=0), expected[0], rtol=1e-12)
    assert_allclose(variance.mean(axis=0), expected[1], rtol=1e-12)
    assert_allclose(bias2 + variance, (t - F) ** 2, rtol=1e-11)


def test_a_large_offset_costs_the_variance_no_digits():
    rng = np.random.default_rng(1)
    F = rng.normal(size=(50, 4))
    variance = squared_parts(F, np.ones(F.shape, bool), np.full(4, 1e8))[1]
    assert_allclose(variance.mean(axis=0), F.var(axis=0, ddof=1), rtol=1e-6)


def test_rows_that_some_models_did_not_test_are_decomposed_over_the_others():
    rng = np.random.default_rng(2)
    F, t, tested = rng.normal(size=(9, 6)), rng.normal(size=6), rng.random((9, 6)) < 0.6
    bias2, variance = squared_parts(F, tested, t)
    for i in range(6):
        expected = squared_decomposition(F[tested[:, i], i : i + 1], t[i : i + 1])
        assert_allclose([bias2[tested[:, i], i].mean(), variance[tested[:, i], i].mean()], np.ravel(expected))


@pytest.mark.parametrize("classes", [2, 4])
def test_zero_one_parts_are_domingos(classes):
    rng = np.random.default_rng(classes)
    F, y, best = rng.integers(0, classes, (11, 30)), rng.integers(0, classes, 30), rng.integers(0, classes, 30)
    tested = np.ones(F.shape, bool)
    parts = vote_parts(F, tested, best, np.eye(classes)[y])
    expected = domingos_decomposition(F, y, best)
    for name, value in expected.items():
        assert_allclose(parts[name].mean(), value, atol=1e-14)
    whole = parts["noise_effect"] + parts["bias"] + parts["net_variance"]
    assert_allclose(whole, parts["total"], atol=1e-14)


def test_kohavi_and_wolpert_by_definition():
    rng = np.random.default_rng(5)
    F, y = rng.integers(0, 3, (6, 8)), rng.integers(0, 3, 8)
    bias2, variance = indicator_parts(F, np.ones(F.shape, bool), np.eye(3)[y])
    expected = kohavi_wolpert_decomposition(F, y, range(3))
    assert_allclose([bias2.mean(), variance.mean()], expected)
    assert_allclose((bias2 + variance).mean(), np.mean(y != F))


def test_vote_spread_is_that_of_independent_models():
    # One row with a clear majority: the share of other votes is binomial, p (1 - p) / B.
    rng = np.random.default_rng(0)
    F = (rng.random((400, 1)) < 0.2).astype(int)
    spread = vote_spread(F, np.ones(F.shape, bool), np.zeros(1, int), np.eye(2)[[0]], rng)
    p = F.mean()
    assert 0.6 < spread["variance"] / (p * (1 - p) / 400) < 1.5
    assert spread["bias"] == 0.0


def test_noise_of_classes_is_the_bayes_error_and_the_total_the_true_error():
    found = bias_variance(Side(3), sampler=class_sampler, truth=probabilities, n_datasets=60, test=2_000)
    X = np.random.default_rng(9).uniform(-1, 1, (20_000, 1))
    bayes = probabilities(X).min(axis=1).mean()
    assert abs(found.components["noise"][0] - bayes) < 5 * found.std_errors["noise"][0]
    rng, errors = np.random.default_rng(10), []
    for _ in range(60):
        guess = Side(3).fit(*class_sampler(rng)).predict(X)
        errors.append(probabilities(X)[np.arange(len(X)), 1 - guess].mean())
    apart = np.hypot(found.std_errors["total"][0], np.std(errors) / np.sqrt(60))
    assert abs(found.components["total"][0] - np.mean(errors)) < 5 * apart


def test_truth_as_labels_splits_the_noise_off():
    found = bias_variance(
        Side(1), sampler=class_sampler, truth=lambda X: (f(X) > 0).astype(int), n_datasets=20, test=200
    )
    assert set(found.adds_up) == {"noise_effect", "bias", "net_variance"}
    assert 0 < found.components["noise"][0] < 0.3


def ratios(make, runs, names):
    found = [make(seed) for seed in range(runs)]
    spread = {name: np.std([r.components[name] for r in found], axis=0, ddof=1) for name in names}
    said = {name: np.sqrt(np.mean([r.std_errors[name] ** 2 for r in found], axis=0)) for name in names}
    return np.concatenate([said[name] / spread[name] for name in names])


# The standard deviation of 60 runs is off by 9%: outside (0.65, 1.5) a right standard error falls less than once in
# 1e4. Single components are allowed to be cautious, since a mean over pairs without bias is degenerate.


def test_standard_errors_over_training_sets_and_rows_are_right():
    def make(seed):
        return bias_variance(Poly(2), sampler=sampler, truth=f, n_datasets=30, test=40, random_state=seed)

    found = ratios(make, 60, ["noise", "bias2", "variance", "total"])
    assert ((found > 0.65) & (found < 1.5)).all()


def test_standard_errors_from_one_table_are_right():
    def make(seed):
        return bias_variance(Poly(2), *sampler(np.random.default_rng(500 + seed)), n_datasets=60, random_state=seed)

    found = ratios(make, 60, ["bias2_and_noise", "total"])
    assert ((found > 0.65) & (found < 1.6)).all()


@pytest.mark.slow
def test_standard_errors_of_classes_are_right():
    def make(seed):
        table = class_sampler(np.random.default_rng(500 + seed))
        return bias_variance(Side(1), *table, n_datasets=60, random_state=seed)

    found = ratios(make, 60, ["bias_and_noise", "total"])
    assert ((found > 0.65) & (found < 1.6)).all()


def test_the_picture_is_u_shaped_and_the_least_total_marked():
    found = bias_variance(
        Poly(), sampler=sampler, truth=f, n_datasets=60, test=200, parameter="degree", values=[0, 1, 3, 5, 9]
    )
    assert found.best == 3
    assert found.components["bias2"][0] > 10 * abs(found.components["bias2"][3])
    assert (np.diff(found.components["variance"]) > 0).all()
    axes = found.plot()
    assert any("least total" in text.get_text() for text in axes.texts)
    assert len(found.to_frame()) == 5
    assert "least total at degree = 3" in str(found)
    one = bias_variance(Poly(3), sampler=sampler, n_datasets=10, test=20)
    one.plot()
    assert one.interval("variance").estimate == one.components["variance"][0]


def test_text_labels_data_frames_and_several_learners():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    y = np.where(X["a"] + X["b"] > 0, "yes", np.where(X["a"] > 1, "may", "no"))
    learners = [DecisionTreeClassifier(max_depth=2), KNeighborsClassifier(3)]
    found = bias_variance(learners, X, y, n_datasets=30)
    assert found.values == ("DecisionTreeClassifier", "KNeighborsClassifier")
    wolpert = bias_variance(learners, X, y, n_datasets=30, loss="kohavi-wolpert")
    assert_allclose(found.components["total"], wolpert.components["total"])
    found.plot()


def test_jobs_change_nothing_and_unset_seeds_are_set():
    X, y = sampler(np.random.default_rng(0))
    forest = RandomForestRegressor(n_estimators=3)
    with parallel_config(backend="threading"):
        runs = [bias_variance(forest, X, y, n_datasets=40, n_jobs=jobs) for jobs in (None, 2)]
    for name, value in runs[0].components.items():
        assert_allclose(runs[1].components[name], value, rtol=0)
    assert forest.random_state is None
    assert not hasattr(forest, "estimators_")


def test_bad_input_says_what_to_do():
    X, y = sampler(np.random.default_rng(0))
    with pytest.raises(ParameterError, match="either X and y, or a sampler"):
        bias_variance(Poly())
    with pytest.raises(ParameterError, match="passed together"):
        bias_variance(Poly(), X, y, parameter="degree")
    with pytest.raises(ParameterError, match="no parameter 'depth'"):
        bias_variance(Poly(), X, y, parameter="depth", values=[1])
    with pytest.raises(ParameterError, match="truth requires a sampler"):
        bias_variance(Poly(), X, y, truth=f)
    with pytest.raises(ParameterError, match="does not fit a target of numbers"):
        bias_variance(Poly(), X, y, loss="zero-one")
    with pytest.raises(ParameterError, match="noise is a variance"):
        bias_variance(Side(), *class_sampler(np.random.default_rng(0)), noise=0.1)
    with pytest.raises(ParameterError, match="have no target"):
        bias_variance(Poly(), sampler=sampler, test=X, n_datasets=4)
    with pytest.raises(DataTypeError, match="did not return a pair"):
        bias_variance(Poly(), sampler=lambda rng: 3, n_datasets=4)
    with pytest.raises(DataError, match="single class 'a'"):
        bias_variance(Side(), X, np.full(len(y), "a"))
    with pytest.raises(DataError, match="row 0 of truth sums to 2"):
        bias_variance(Side(), sampler=class_sampler, truth=lambda X: np.ones((len(X), 2)), n_datasets=4, test=50)
    with pytest.raises(DataError, match="too few to resample"):
        bias_variance(Poly(), X[:2], y[:2])
