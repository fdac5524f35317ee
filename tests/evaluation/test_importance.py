"""Permutation importance: its definition, its error over rows and repeats, its tables, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance as sk_importance
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from assay import trees
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._shuffle import RowJudge, permutations
from assay.evaluation.importance import permutation_importance
from assay.evaluation.learner import Rows
from assay.importance import summed
from assay.metrics.definition import find
from assay.numerics.seeds import seed_sequence
from assay.resampling import Folds
from tests.naive.evaluation import shuffled_importance


class Known(RegressorMixin, BaseEstimator):
    """A model that needs no data."""

    slopes = np.array([2.0, 0.5, 0.0])

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(X) @ self.slopes

    def __sklearn_is_fitted__(self):
        return True


def line(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ Known.slopes + rng.normal(size=n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("repeats", [1, 4])
def test_agrees_with_its_definition(weighted, repeats):
    X, y = line(25)
    w = np.random.default_rng(1).exponential(size=25) if weighted else None
    model = LinearRegression().fit(X, y)
    found = permutation_importance(model, X, y, metric="mse", n_repeats=repeats, sample_weight=w, random_state=3)
    orders = permutations(25, repeats, seed_sequence(3))
    for j in range(3):
        mean, error = shuffled_importance(model.predict, X, y, lambda a, b: (a - b) ** 2, j, orders, w)
        np.testing.assert_allclose(found.importance[j], mean, rtol=1e-10)
        if np.isfinite(error) and repeats > 1 and j < 2:
            np.testing.assert_allclose(found.std_error[j], error, rtol=1e-8)


def test_agrees_with_scikit_learn_up_to_the_luck_of_the_shuffle():
    """False alarms: 3 columns at 6 standard deviations of both shuffles together, below 1e-6."""
    X, y = line(500)
    model = Ridge().fit(X, y)
    ours = permutation_importance(model, X, y, n_repeats=60)
    theirs = sk_importance(model, X, y, scoring="neg_mean_squared_error", n_repeats=60, random_state=0)
    luck = np.sqrt(ours.draws.var(axis=1) / 60 + theirs.importances.var(axis=1) / 60)
    assert (np.abs(ours.importance - theirs.importances_mean) <= 6 * luck + 1e-12).all()


def test_standard_error_is_that_of_new_rows():
    """200 tables: the spread of the estimates against the mean standard error (chi-square, false alarms 1e-6 a side),
    and coverage of the true importance 2 b^2 of independent columns (binomial at 1e-6, one point allowed for skew)."""
    runs, truth = 200, 2 * Known.slopes**2
    found = [permutation_importance(Known(), *line(200, seed), n_repeats=3, random_state=seed) for seed in range(runs)]
    spread = np.std([f.importance for f in found], axis=0, ddof=1)[:2]
    error = np.sqrt(np.mean([f.std_error**2 for f in found], axis=0))[:2]
    # The squared distance of squares of normals has heavier tails than a chi-square's: its limits are widened by 1.15.
    low, high = np.sqrt(stats.chi2.ppf([1e-6, 1 - 1e-6], runs - 1) / (runs - 1))
    assert (spread / error > low / 1.15).all()
    assert (spread / error < high * 1.15).all()
    inside = np.sum([(f.lower <= truth) & (truth <= f.upper) for f in found], axis=0)
    assert (inside[:2] >= stats.binom.ppf(1e-6, runs, 0.93)).all()


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["rmse", "r2"])
def test_figures_that_are_no_means_get_a_jackknife(metric):
    """Error against the spread over 100 tables: within 40%, more than 5 standard deviations of either."""
    found = [permutation_importance(Known(), *line(200, s), metric=metric, n_repeats=3) for s in range(100)]
    ratio = np.std([f.importance for f in found], axis=0)[:2] / np.mean([f.std_error for f in found], axis=0)[:2]
    assert (np.abs(np.log(ratio)) < np.log(1.4)).all()
    assert "jackknife" in found[0].method
    assert all(f.importance[2] == 0 == f.std_error[2] for f in found)


def test_larger_is_more_important_whatever_the_direction():
    X, y = line(200)
    labels = np.where(y > 0, "yes", "no")
    model = LogisticRegression().fit(X, labels)
    for metric in ("error", "accuracy", "log_loss", "auc", "f1", "brier"):
        found = permutation_importance(model, X, labels, metric=metric, n_repeats=3)
        assert found.order[0] == 0, metric
        assert found.importance[0] > 0
    gain, loss = (permutation_importance(model, X, labels, metric=m, n_repeats=3) for m in ("accuracy", "error"))
    np.testing.assert_allclose(gain.importance, loss.importance, atol=1e-14)
    np.testing.assert_allclose(gain.std_error, loss.std_error, atol=1e-14)


def test_the_kind_of_table_does_not_matter():
    X, y = line(120)
    X[np.abs(X) < 0.4] = 0.0
    model = Ridge().fit(X, y)
    plain = permutation_importance(model, X, y, n_repeats=4)
    framed = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(120)[::-1])
    mixed = framed.assign(c=framed["c"].astype("Float64"))
    for table in (np.asfortranarray(X), sparse.csr_array(X), sparse.csc_matrix(X), framed, mixed):
        chosen = Ridge().fit(table, y) if isinstance(table, pd.DataFrame) else model
        before = table.copy()
        found = permutation_importance(chosen, table, y, n_repeats=4)
        np.testing.assert_allclose(found.importance, plain.importance, rtol=1e-9)
        np.testing.assert_allclose(found.std_error, plain.std_error, rtol=1e-7)
        if isinstance(table, pd.DataFrame):
            pd.testing.assert_frame_equal(table, before)
            assert found.names == ("a", "b", "c")
        else:
            assert abs(table - before).sum() == 0


def shop():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "shelf": rng.choice(["good", "bad"], 200),
            "size": pd.Categorical(rng.choice(["s", "m", "l"], 200)),
            "price": rng.integers(1, 50, 200),
            "noise": rng.normal(size=200),
        }
    )
    y = 3.0 * (X["shelf"] == "good") + 0.1 * X["price"] + rng.normal(scale=0.3, size=200)
    encode = make_column_transformer((OneHotEncoder(), ["shelf", "size"]), remainder="passthrough")
    return make_pipeline(encode, LinearRegression()).fit(X, y), X, y


def test_text_and_categories():
    model, X, y = shop()
    found = permutation_importance(model, X, y, n_repeats=3)
    assert set(found.to_frame().index[:2]) == {"shelf", "price"}
    assert found.lower[list(found.names).index("shelf")] > 0
    assert "shelf" in str(found)
    assert "3 repeats" in str(found)


def test_several_repeats_in_one_call_are_the_same_as_one_at_a_time(monkeypatch):
    model, X, y = shop()
    together = permutation_importance(model, X, y, n_repeats=5)
    for cells in (1, 2 * X.size):
        monkeypatch.setattr("assay.evaluation._workbench.CELLS", cells)
        apart = permutation_importance(model, X, y, n_repeats=5)
        np.testing.assert_allclose(apart.importance, together.importance, rtol=1e-9)
        np.testing.assert_allclose(apart.std_error, together.std_error, rtol=1e-7)


def test_columns_move_together():
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    X = pd.DataFrame({"a": a, "twin": a, "b": rng.normal(size=300)})
    model = KNeighborsRegressor(5).fit(X, a)
    alone = permutation_importance(model, X, a)
    both = permutation_importance(model, X, a, columns={"place": ["a", "twin"], "b": "b"})
    assert both.names == ("place", "b")
    assert both.importance[0] > 1.5 * alone.importance[0]
    assert permutation_importance(model, X, a, columns=[["a", 1], -1]).names == ("a + twin", "b")
    np.testing.assert_array_equal(permutation_importance(model, X, a, columns="b").importance, alone.importance[2:])


def test_over_folds():
    X, y = line(150)
    learner = Ridge()
    found = permutation_importance(learner, X, y, cv=Folds(5), n_repeats=2)
    assert not hasattr(learner, "coef_")
    assert found.draws.shape == (3, 5)
    factor = 1 / 5 + 30 / 120
    np.testing.assert_allclose(found.std_error, np.sqrt(factor * found.draws.var(axis=1, ddof=1)))
    np.testing.assert_allclose(found.importance, found.draws.mean(axis=1))
    assert "corrected" in found.method
    assert "120 rows" in found.estimand
    assert found.order.tolist() == [0, 1, 2]
    labels = np.where(y > 0, "yes", "no")
    weighted = permutation_importance(
        LogisticRegression(), X, labels, cv=4, metric="auc", n_repeats=2, sample_weight=np.ones(150)
    )
    assert weighted.lower[0] > 0


@pytest.mark.parametrize("cv", [None, 3])
def test_jobs_do_not_change_the_result(cv):
    X, y = line(90)
    model = Ridge().fit(X, y)
    with parallel_config("threading"):
        alone, shared = (permutation_importance(model, X, y, cv=cv, n_repeats=3, n_jobs=k) for k in (None, 2))
    np.testing.assert_array_equal(alone.importance, shared.importance)
    np.testing.assert_array_equal(alone.std_error, shared.std_error)


def test_classes_missing_among_the_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    some = y < 2
    found = permutation_importance(model, X[some], y[some], metric="log_loss", n_repeats=2)
    assert found.importance[0] > found.importance[1]
    with pytest.raises(DataError, match="class 7 does not occur"):
        permutation_importance(model, X, np.where(y == 0, 7, y))


def test_a_part_without_a_class_falls_back_to_repeats_and_says_so():
    X = line(40)[0]
    labels = (np.arange(40) == 3).astype(int)
    model = LogisticRegression().fit(X, labels)
    found = permutation_importance(model, X, labels, metric="auc", n_repeats=4)
    assert "over repeats only" in found.method
    with pytest.raises(DataError, match="raise n_repeats"):
        permutation_importance(model, X, labels, metric="auc", n_repeats=1)


def test_huge_and_tiny_units():
    X, y = line(60)
    plain = permutation_importance(LinearRegression().fit(X, y), X, y, n_repeats=2)
    for unit in (2.0**240, 2.0**-240):
        found = permutation_importance(LinearRegression().fit(X, y * unit), X, y * unit, n_repeats=2)
        np.testing.assert_allclose(found.importance / unit**2, plain.importance, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(found.std_error / unit**2, plain.std_error, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"columns": ["d"]}, ParameterError, "unknown column 'd'"),
        ({"columns": [9]}, ParameterError, "unknown column 9"),
        ({"columns": []}, ParameterError, "columns is empty"),
        ({"columns": [[0, 0]]}, ParameterError, "repeats a column"),
        ({"n_repeats": 0}, ParameterError, "n_repeats"),
        ({"level": 1.0}, ParameterError, "level"),
        ({"metric": "auc"}, ParameterError, "needs classes"),
        ({"groups": [1] * 20}, ParameterError, "cv was not passed"),
        ({"n_jobs": 0}, ParameterError, "n_jobs"),
        ({"cv": [(np.arange(10), np.arange(10, 20))]}, ParameterError, "one split"),
        ({"cv": 20}, DataError, "one row"),
        ({"sample_weight": [-1.0] * 20}, DataError, "contains -1 in row 0"),
    ],
)
def test_bad_input_gets_one_sentence(change, error, words):
    X, y = line(20)
    with pytest.raises(error, match=words):
        permutation_importance(Ridge().fit(X, y), X, y, **change)


def test_what_is_no_table_or_no_model():
    X, y = line(20)
    model = Ridge().fit(X, y)
    with pytest.raises(DataError, match="no columns"):
        permutation_importance(model, X[:, 0], y)
    with pytest.raises(DataError, match="one row"):
        permutation_importance(model, X[:1], y[:1])
    with pytest.raises(DataTypeError, match="expected an estimator"):
        permutation_importance(model.predict, X, y)
    with pytest.raises(ValueError, match="not fitted"):
        permutation_importance(Ridge(), X, y)


def test_interval_frame_and_picture():
    import matplotlib.pyplot as plt

    X, y = line(50)
    found = permutation_importance(Ridge().fit(X, y), X, y, n_repeats=2)
    assert found.interval.names == ("x0", "x1", "x2")
    assert list(found.to_frame().columns) == ["importance", "std_error", "lower", "upper"]
    assert "mse" in found.plot().get_xlabel()
    plt.close("all")


class Text(ClassifierMixin, BaseEstimator):
    """Knows two labels only by their first letter."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.where(X[:, 0] > 0, self.classes_[0], self.classes_[1])


def test_learners_without_probabilities():
    X = line(60)[0]
    labels = np.where(X[:, 0] > 0, "a", "b")
    found = permutation_importance(Text().fit(X, labels), X, labels, n_repeats=3)
    assert found.baseline == 0
    assert found.importance[0] > 0.2
    assert found.importance[1] == found.std_error[1] == 0


# One definition: a forest's kernel and the way of any model give the same replicates.


@pytest.mark.parametrize("kind", ["numbers", "classes", "weights"])
def test_a_forest_and_any_model_are_judged_by_one_definition(kind):
    """Every tree judged on its unseen rows by predicting shuffled tables: the figures and errors of the forest."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 4))
    y = 2 * X[:, 0] + X[:, 1] ** 2 + rng.normal(size=90)
    w = rng.uniform(0.5, 2.0, 90) if kind == "weights" else None
    forest, metric, known = trees.RandomForestRegressor(15, random_state=1), find("mse"), None
    if kind == "classes":
        y, forest, metric = np.digitize(y, [0.0, 2.0]), trees.RandomForestClassifier(15, random_state=1), find("error")
        known = np.arange(3)
    found = forest.fit(X, y, sample_weight=w).permutation_importance(X, y, w)
    sums = []
    for j in range(4):
        replicates = []
        for tree, member in enumerate(forest.estimators_):
            rows = np.setdiff1d(np.arange(90), forest.estimators_samples_[tree])
            order = np.random.default_rng((int(forest.seeds_[tree]), 1)).permutation(rows.size)
            # The forest draws the giver of each row; a permutation of the table moves the value to the receiver.
            seen = Rows(X[rows], y[rows], None if w is None else w[rows], known)
            judge = RowJudge(member, seen, metric, order[None])
            judge.open()
            (one,) = judge.shuffles((j,), judge.bench)
            received, given = np.zeros((1, 90)), np.zeros((1, 90))
            received[:, rows], given[:, rows] = one.received, one.given
            parts = (one.unit * one.rise, one.unit * received, one.unit * given, one.unit**2 * one.squares)
            replicates.append(
                SimpleNamespace(**dict(zip(("rise", "received", "given", "squares"), parts, strict=True)))
            )
        sums.append(summed(replicates, 1, 90))
    for j, one in enumerate(sums):
        np.testing.assert_allclose(found.draws[j], one.draws[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.importance[j], one.mean[0], rtol=1e-9)
        np.testing.assert_allclose(found.tree_error[j], one.draw_error[0], rtol=1e-9)
        error = np.sqrt(2 * max(0.0, one.row_variance(2.0)[0]) + one.draw_error[0] ** 2)
        np.testing.assert_allclose(found.std_error[j], error, rtol=1e-9)
