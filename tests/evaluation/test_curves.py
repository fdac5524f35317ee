"""Learning and validation curves: nested subsets, limits by definition, choices, agreement with scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection as sk
from joblib import parallel_config
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from assay.errors import AssayError, DataError, ParameterError
from assay.evaluation.curves import even_ratios, learning_curve, nested_order, validation_curve
from assay.evaluation.learner import Rows
from assay.metrics import auc, mse
from assay.resampling import Folds, Holdout, TimeFolds


def table(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=n)


def classes(seed=0, n=150):
    X, y = table(seed, n)
    return X, np.where(y > 1.5, "high", np.where(y < 0, "low", "mid"))


def test_every_beginning_of_the_order_is_stratified():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [80, 15, 5])
    train = rng.permutation(100)
    order = nested_order(train, Rows(None, y, None, np.arange(3)), rng)
    assert sorted(order) == list(range(100))
    assert set(y[order[:3]]) == {0, 1, 2}
    for m in range(4, 101):
        counts = np.bincount(y[order[:m]], minlength=3)
        # Each class stands within one row of its share; the rows put first take at most one more from the others.
        assert (np.abs(counts - m * np.array([0.8, 0.15, 0.05])) < 2).all()


def test_the_limits_are_the_corrected_t_and_bonferroni():
    X, y = table()
    folds = Folds(5, repeats=2, random_state=1)
    curve = learning_curve(LinearRegression(), X, y, sizes=[20, 50, 96], cv=folds)
    factor = 1 / 10 + 24 / 96
    for k in range(3):
        u = curve.test_scores[k]
        error = np.sqrt(factor * u.var(ddof=1))
        for level, low, high in (
            (0.95, curve.lower, curve.upper),
            (1 - 0.05 / 3, curve.band_lower, curve.band_upper),
        ):
            expected = stats.t.interval(level, 9, loc=u.mean(), scale=error)
            assert_allclose((low[k], high[k]), np.maximum(expected, 0.0), rtol=1e-10)
    change = curve.test_scores[2] - curve.test_scores[1]
    assert_allclose(curve.gain.estimate, change.mean())
    half = stats.t.ppf(0.975, 9) * np.sqrt(factor * change.var(ddof=1))
    assert_allclose(curve.gain.upper - curve.gain.estimate, half)


def test_the_whole_training_fold_is_scikit_learns_cross_validation():
    X, y = table(1)
    folds = sk.KFold(6, shuffle=True, random_state=0)
    curve = learning_curve(Ridge(), X, y, sizes=[0.3, 1.0], cv=folds, metric="mse")
    theirs = sk.cross_validate(Ridge(), X, y, cv=folds, scoring=mse.scorer(), return_train_score=True)
    assert_allclose(curve.test_scores[-1], -theirs["test_score"])
    assert_allclose(curve.train_scores[-1], -theirs["train_score"])
    assert curve.values == (30, 100)


def test_validation_scores_are_scikit_learns():
    X, y = classes()
    folds = sk.StratifiedKFold(5, shuffle=True, random_state=0)
    values = [1, 5, 25]
    ours = validation_curve(KNeighborsClassifier(), X, y == "high", "n_neighbors", values, cv=folds, metric=auc)
    train, test = sk.validation_curve(
        KNeighborsClassifier(),
        X,
        y == "high",
        param_name="n_neighbors",
        param_range=values,
        cv=folds,
        scoring="roc_auc",
    )
    assert_allclose(ours.test_scores, test)
    assert_allclose(ours.train_scores, train)


def test_more_rows_help_a_flexible_learner():
    X, y = table(2, 400)
    curve = learning_curve(KNeighborsRegressor(3), X, y, cv=5)
    assert curve.estimate[-1] < curve.estimate[0]
    assert curve.gain.upper > curve.gain.lower
    assert curve.scheme.n_splits == 5
    assert "Estimates the score on new rows" in str(curve)
    assert list(curve.to_frame()["training rows"]) == list(curve.values)
    axes = curve.plot()
    assert axes.get_xlabel() == "training rows"


def test_the_best_and_the_simplest_within_one_standard_error():
    X, y = table(3)
    values = [1, 2, 3, 5, 8, 12]
    curve = validation_curve(DecisionTreeRegressor(random_state=0), X, y, "max_depth", values, simplest="low", cv=10)
    best = int(np.argmin(curve.estimate))
    error = curve.test_scores[best].std(ddof=1) / np.sqrt(10)
    within = [v for v, u in zip(values, curve.estimate, strict=True) if u <= curve.estimate[best] + error]
    assert curve.marks == {"best": values[best], "1se": min(within)}
    assert_allclose(curve.rule, curve.estimate[best] + error)
    turned = validation_curve(
        DecisionTreeRegressor(random_state=0), X, y, "max_depth", values[::-1], simplest="low", cv=10
    )
    assert turned.marks == curve.marks
    plain = validation_curve(DecisionTreeRegressor(random_state=0), X, y, "max_depth", values, cv=10)
    assert list(plain.marks) == ["best"]
    curve.plot()


def test_a_gain_is_maximised():
    X, y = table(4)
    curve = validation_curve(Ridge(), X, y, "alpha", [0.1, 1.0, 1e4], simplest="high", cv=5, metric="r2")
    assert curve.best == curve.marks["best"] != 1e4
    assert curve.rule < curve.estimate.max()


def test_axes_are_logarithmic_where_the_values_are():
    assert even_ratios(np.logspace(-3, 3, 7))
    assert even_ratios([1, 10, 100])
    assert not even_ratios(range(1, 40))
    assert not even_ratios([0.0, 1.0, 1000.0])
    assert not even_ratios(["a", "b", "c"])
    X, y = table()
    curve = validation_curve(
        make_pipeline(StandardScaler(), Ridge()), X, y, "ridge__alpha", np.logspace(-2, 3, 6), cv=3, simplest="high"
    )
    assert curve.plot().get_xscale() == "log"


def test_one_split_takes_the_limits_of_its_test_rows():
    X, y = classes()
    curve = validation_curve(
        KNeighborsClassifier(), X, y, "weights", ["uniform", "distance"], simplest="low", cv=Holdout(0.2)
    )
    assert np.isnan(curve.std_error).all()
    assert "Wilson" in curve.limits
    assert (curve.band_upper > curve.upper).all()
    assert list(curve.marks) == ["best"]
    curve.plot()


def test_time_ordered_subsets_are_the_latest_rows():
    class Remember(LinearRegression):
        def fit(self, X, y):
            seen.append(X[:, 0].astype(int).tolist())
            return super().fit(X, y)

    seen = []
    X = np.arange(24.0)[:, None]
    learning_curve(Remember(), X, X[:, 0], sizes=[2, 4], cv=TimeFolds(3))
    assert all(rows == list(range(rows[0], rows[-1] + 1)) for rows in seen)
    assert {rows[-1] for rows in seen[:3]} == {rows[-1] for rows in seen[3:]}


def test_weights_groups_and_frames():
    X, y = table(5)
    w = np.where(np.arange(120) < 60, 1.0, 0.0)
    groups = np.repeat(np.arange(12), 10)
    frame = pd.DataFrame(X, columns=list("abcd"))
    curve = learning_curve(LinearRegression(), frame, y, sizes=[40, 90], cv=4, groups=groups, sample_weight=w)
    assert curve.estimate.shape == (2,)
    assert (curve.estimate > 0).all()


def test_jobs_change_nothing_and_the_learner_is_untouched():
    X, y = table()
    tree = DecisionTreeRegressor(max_features=1)
    with parallel_config(backend="threading"):
        runs = [learning_curve(tree, X, y, cv=3, n_jobs=jobs) for jobs in (None, 2)]
    assert (runs[0].test_scores == runs[1].test_scores).all()
    assert not hasattr(tree, "tree_")
    assert tree.random_state is None


def test_bad_input_says_what_to_do():
    X, y = table()
    with pytest.raises(ParameterError, match="mixes fractions and counts"):
        learning_curve(Ridge(), X, y, sizes=[0.5, 20])
    with pytest.raises(ParameterError, match="the smallest training fold has 108"):
        learning_curve(Ridge(), X, y, sizes=[200])
    with pytest.raises(ParameterError, match="not a list of valid sizes"):
        learning_curve(Ridge(), X, y, sizes=[])
    with pytest.raises(ParameterError, match="no parameter 'depth'"):
        validation_curve(Ridge(), X, y, "depth", [1])
    with pytest.raises(ParameterError, match="values is empty"):
        validation_curve(Ridge(), X, y, "alpha", [])
    with pytest.raises(ParameterError, match="'low', 'high'"):
        validation_curve(Ridge(), X, y, "alpha", [1.0], simplest="left")
    with pytest.raises(AssayError, match="LogisticRegression failed in fold 0 with 1 training row "):
        learning_curve(LogisticRegression(), X, y > 0, sizes=[1, 20])
    with pytest.raises(DataError):
        learning_curve(Ridge(), X[:3], y[:3], cv=5)
    with pytest.raises(ParameterError, match="was not tried"):
        learning_curve(GaussianNB(), X, y > 0, sizes=[50], cv=3).interval(7)


def test_a_misspelt_parameter_gets_the_nearest_name():
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    with pytest.raises(ParameterError, match="no parameter 'n_neighbours'; did you mean 'n_neighbors'"):
        validation_curve(KNeighborsClassifier(), X, y, "n_neighbours", [1, 3])
