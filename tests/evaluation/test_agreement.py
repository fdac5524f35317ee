"""Words, adjusted p-values and intervals of a comparison agree, whatever the table, scheme, metric and correction."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from assay.errors import AssayError
from assay.evaluation import compare, cross_validate
from assay.evaluation._simultaneous import agreeing, max_t_of_draws, rejects
from assay.evaluation.compare import CORRECTIONS, TESTS
from assay.resampling import Bootstrap, FiveByTwo, Folds, Holdout, LeaveOneOut, TimeFolds

SCHEMES = {
    "folds": Folds(4),
    "repeats": Folds(3, repeats=2),
    "leave-one-out": LeaveOneOut(),
    "5x2": FiveByTwo(),
    "holdout": Holdout(),
    "bootstrap": Bootstrap(8),
    "time": TimeFolds(3),
}
OF_CLASSES = ("error", "f1", "balanced_accuracy", "auc", "log_loss", "average_precision", "precision")
OF_NUMBERS = ("mse", "rmse", "mae", "r2", "median_absolute_error")


class GivenClass(ClassifierMixin, BaseEstimator):
    """Answers with a column of the table, so that ties, constants and perfect answers are easily made."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[np.minimum(X[:, self.column] > 0.5, len(self.classes_) - 1)]

    def predict_proba(self, X):
        share = X[:, self.column]
        return np.column_stack([1 - share, share]) if len(self.classes_) == 2 else np.ones((len(X), 1))


class GivenNumber(RegressorMixin, BaseEstimator):
    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y, sample_weight=None):
        self.n_rows_ = len(y)
        return self

    def predict(self, X):
        return X[:, self.column]


def class_table(rng, n, k):
    y = (rng.random(n) < rng.choice([0.5, 0.2, 0.8])).astype(int)
    X = np.column_stack([np.where(rng.random(n) < wrong, 1 - y, y) for wrong in rng.choice([0, 0.1, 0.3, 0.5], k)])
    X = X.astype(float)
    if rng.random() < 0.4:
        X = np.round(0.5 + (X - 0.5) * rng.random((n, k)), 1)
    if rng.random() < 0.3:
        X[:, 0] = 0.0
    return GivenClass, X, y, str(rng.choice(OF_CLASSES))


def number_table(rng, n, k):
    y = rng.normal(size=n)
    X = y[:, None] + rng.choice([0, 0.3, 1, 3], k) * rng.standard_t(2, size=(n, k))
    if rng.random() < 0.3:
        X, y = np.round(X), np.round(y)
    unit = 10.0 ** rng.choice([-100, 0, 0, 100])
    return GivenNumber, X * unit, y * unit, str(rng.choice(OF_NUMBERS))


def compared(seed, scheme, correction):
    """One random comparison with its level and side; None where the test asked for does not fit the splits."""
    rng = np.random.default_rng([seed, *map(ord, scheme)])
    n, k = int(rng.integers(8, 41)), int(rng.integers(2, 5))
    learner, X, y, metric = (class_table if rng.random() < 0.6 else number_table)(rng, n, k)
    groups = rng.integers(0, max(4, n // 3), n) if scheme in ("folds", "repeats", "holdout") and seed % 4 == 0 else None
    weights = rng.choice([0, 1, 2.5], n) if rng.random() < 0.3 else None
    level, side = (
        float(rng.choice([0.2, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999])),
        rng.choice(["two-sided", "less", "greater"]),
    )
    test = "auto" if rng.random() < 0.6 else str(rng.choice(TESTS))
    options = {"cv": SCHEMES[scheme], "metric": metric, "groups": groups, "sample_weight": weights}
    try:
        results = {f"m{j}": cross_validate(learner(j), X, y, **options) for j in range(k)}
        return compare(results, test=test, correction=correction, level=level, alternative=str(side), n_resamples=199)
    except AssayError:  # a class is missing from a fold, or the test does not fit the splits
        return None


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")
def test_better_means_an_interval_without_zero_and_a_p_value_below_alpha(scheme):
    judged = 0
    for seed in range(8 * len(CORRECTIONS)):
        found = compared(seed, scheme, (*CORRECTIONS, None)[seed % (len(CORRECTIONS) + 1)])
        if found is None:
            continue
        where = f"seed {seed}:\n{found}\n{found.to_frame()}"
        most = np.ptp(found.metric.range)
        for i, (a, b) in enumerate(found.pairs):
            names = found.names[a], found.names[b]
            better = found.is_better(*names) or found.is_better(*reversed(names))
            excluded = bool(found.lower[i] > 0 or found.upper[i] < 0)
            shown = bool(found.adjusted[i] < (1 - found.level) * (1 - 1e-9))
            assert better == excluded == shown, where
            if np.isnan(found.adjusted[i]):
                assert found.reasons[i], where
                continue
            judged += 1
            assert found.adjusted[i] >= found.p_values[i] * (1 - 1e-9), where
            assert -most <= found.lower[i] <= found.upper[i] <= most, where
            if found.alternative == "two-sided":
                assert found.lower[i] <= found.differences[i] <= found.upper[i], where
    assert judged > 60


def holdout(answers, y, metric):
    """A comparison on one test set, all rows but two, of learners that answer with these columns."""
    X, rows = np.column_stack(answers).astype(float), np.arange(len(y))
    cv = [(rows[:2], rows[2:])]
    return compare([cross_validate(GivenClass(j), X, y, cv=cv, metric=metric) for j in range(X.shape[1])])


def test_differences_without_spread_are_judged_by_the_rows_that_differ():
    """A perfect learner against one that never finds the class: every resample has f1 1 and 0."""
    y = np.r_[0, 1, np.tile([0, 1], 12)]
    found = holdout([y, 0 * y], y, "f1")
    assert found.test == "bootstrap"
    assert (found.lower[0], found.upper[0]) == (1.0, 1.0)
    assert found.adjusted[0] == pytest.approx(2 * 0.5**12)
    assert found.winners == ("GivenClass",)
    few = np.r_[0, 1, 1, 1, np.zeros(20, dtype=int)]
    found = holdout([few, 1 - few], few, "auc")  # two rows of one class: the AUC is 1 and 0 on every resample
    assert found.adjusted[0] == pytest.approx(2 * 0.5**2)
    assert found.winners == (None,)
    assert (found.lower[0], found.upper[0]) == (-1.0, 1.0)


def test_a_statistic_that_many_resamples_equal_is_not_beyond_them():
    """Resamples without the one decisive row differ by 0: as far from the estimate as 0 is, whatever the rounding."""
    for estimate in np.random.default_rng(0).random(200):
        drawn = np.repeat([0.0, estimate, 2 * estimate], [40, 120, 40])[:, None]
        error = drawn.std(axis=0, ddof=1)
        law = max_t_of_draws(drawn, np.array([estimate]), error, "two-sided")
        p = law.adjusted(np.array([estimate]) / error * (1 + 1e-15), np.ones(1))
        assert p[0] == pytest.approx(81 / 201)
        half = law.critical(0.7) * error
        lower, _ = agreeing(estimate - half, estimate + half, np.ones(1), rejects(p, 0.7), 1.0)
        assert lower[0] <= 0.0
