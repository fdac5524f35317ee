"""The .632 and .632+ errors: their formulas, their parts by definition, their standard error."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from assay.errors import DataError, ParameterError
from assay.evaluation._refits import bootstrap_counts, bootstrap_rows, row_influence
from assay.evaluation.learner import rows_of
from assay.evaluation.optimism import bootstrap_error, no_information_rate
from assay.metrics import get_metric
from tests.naive.evaluation import bootstrap_632_plus, efron_tibshirani_influence
from tests.naive.evaluation import no_information_rate as by_pairs


class NearestMean(ClassifierMixin, BaseEstimator):
    """Quick enough for simulations."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X):
        return self.classes_[((X[:, None] - self.means_) ** 2).sum(axis=2).argmin(axis=1)]


def two_normals(rng, n=40, shift=1.5):
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += shift * y
    return X, y


def test_a_row_is_left_out_with_probability_about_368():
    # 2,000 samples of 100 rows: the share left out has a standard error below 0.001, so 5 of them.
    rng = np.random.default_rng(0)
    rows = rows_of(LinearRegression(), np.zeros((100, 1)), np.zeros(100))
    share = np.mean([(bootstrap_counts(bootstrap_rows(rng, rows), 100) == 0).mean() for _ in range(2_000)])
    assert abs(share - (1 - 1 / 100) ** 100) < 0.005
    assert abs(share - 0.368) < 0.01


@pytest.mark.parametrize("learner", [KNeighborsClassifier(1), GaussianNB(), DummyClassifier()])
def test_the_estimates_follow_their_formulas(learner):
    X, y = two_normals(np.random.default_rng(1))
    found = {method: bootstrap_error(learner, X, y, method=method, n_resamples=40) for method in ("632+", "632", "oob")}
    plus, plain, oob = found.values()
    R, expected = bootstrap_632_plus(plus.apparent, plus.out_of_bag, plus.no_information)
    assert_allclose([plus.overfitting, plus.estimate], [R, expected])
    assert_allclose(plain.estimate, 0.368 * plain.apparent + 0.632 * plain.out_of_bag)
    assert oob.estimate == oob.out_of_bag == plus.out_of_bag
    assert plus.apparent == np.mean(learner.fit(X, y).predict(X) != y)


def test_no_better_than_chance_leans_on_the_rows_left_out():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
    found = bootstrap_error(KNeighborsClassifier(1), X, y, n_resamples=60)
    plain = bootstrap_error(KNeighborsClassifier(1), X, y, n_resamples=60, method="632")
    assert found.apparent == 0.0
    assert plain.estimate < 0.36 < found.estimate


@pytest.mark.parametrize(
    ("metric", "loss"),
    [
        ("mse", lambda a, b: (a - b) ** 2),
        ("mae", lambda a, b: abs(a - b)),
        ("error", lambda a, b: a != b),
        ("log_loss", lambda a, p: -np.log(p if a == 1 else 1 - p)),
    ],
)
def test_no_information_rate_is_the_mean_over_all_pairs(metric, loss):
    X, y = two_normals(np.random.default_rng(3), 25)
    learner = LinearRegression() if metric in ("mse", "mae") else LogisticRegression()
    rows = rows_of(learner, X, y)
    learner.fit(X, y)
    predicted = learner.predict_proba(X)[:, 1] if metric == "log_loss" else learner.predict(X)
    assert_allclose(no_information_rate(get_metric(metric), rows, predicted), by_pairs(loss, rows.y, predicted))


def test_influences_are_efron_and_tibshiranis_over_all_samples():
    # All 4^4 bootstrap samples of four rows, so that nothing is left to simulation.
    counts = np.array([np.bincount(drawn, minlength=4) for drawn in product(range(4), repeat=4)])
    losses = np.random.default_rng(4).random(counts.shape) + np.arange(4)
    tested = counts == 0
    found = sum(row_influence(losses, tested, counts))
    assert_allclose(found, efron_tibshirani_influence(losses, counts), atol=1e-14)
    assert_allclose(found.sum(), 0.0, atol=1e-14)


def test_the_standard_error_is_that_of_new_tables():
    # 80 tables: the standard deviation is off by 8%, so (0.65, 1.5) is left less than once in 1e5.
    found = [
        bootstrap_error(NearestMean(), *two_normals(np.random.default_rng(seed)), n_resamples=40, random_state=seed)
        for seed in range(80)
    ]
    spread = np.std([r.estimate for r in found], ddof=1)
    assert 0.65 < np.sqrt(np.mean([r.std_error**2 for r in found])) / spread < 1.5


def test_a_gain_mirrors_its_loss():
    X, y = two_normals(np.random.default_rng(5))
    error = bootstrap_error(KNeighborsClassifier(1), X, y, n_resamples=40)
    gain = bootstrap_error(KNeighborsClassifier(1), X, y, n_resamples=40, metric="accuracy")
    assert_allclose([gain.estimate, gain.std_error], [1 - error.estimate, error.std_error])
    assert_allclose(gain.overfitting, error.overfitting)


def test_numbers_jobs_printing_and_picture():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 2))
    y = X[:, 0] + rng.normal(size=50)
    with parallel_config(backend="threading"):
        runs = [bootstrap_error(KNeighborsRegressor(1), X, y, n_resamples=32, n_jobs=jobs) for jobs in (None, 2)]
    assert runs[0].estimate == runs[1].estimate
    found = runs[0]
    assert found.interval().lower < found.estimate < found.interval().upper
    assert found.apparent < found.estimate <= found.out_of_bag
    assert "relative overfitting" in str(found)
    assert found.to_frame().loc["KNeighborsRegressor", "weight"] == found.weight
    assert "KNeighborsRegressor" in found.plot().get_title(loc="left")


def test_text_labels_and_three_classes():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(45, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    assert bootstrap_error(GaussianNB(), X, y, n_resamples=30).estimate < 0.4
    assert bootstrap_error(GaussianNB(), X, y, n_resamples=30, metric="log_loss").estimate < np.log(3) / 2


def test_bad_input_says_what_to_do():
    X, y = two_normals(np.random.default_rng(0))
    with pytest.raises(ParameterError, match="not a mean over rows"):
        bootstrap_error(GaussianNB(), X, y, metric="auc")
    with pytest.raises(ParameterError, match="'632\\+', '632', 'oob'"):
        bootstrap_error(GaussianNB(), X, y, method="0.632")
    with pytest.raises(DataError, match="single class 1"):
        bootstrap_error(GaussianNB(), X, np.ones(len(y), int))
    with pytest.raises(DataError, match="at least 4 rows"):
        bootstrap_error(GaussianNB(), X[:3], y[:3])
