"""Bagging: the seeds' worked example, out-of-bag figures against brute force, and any learner as the base."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier as PeerTree
from sklearn.tree import DecisionTreeRegressor as PeerTreeRegressor

from assay.errors import AssayWarning, DataError, ParameterError
from assay.trees.bagging import BaggingClassifier, BaggingRegressor


def numbers(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n)


def classes(n=80, seed=0):
    X, y = numbers(n, seed)
    return X, np.array(["low", "mid", "high"])[np.digitize(y, [0.0, 1.5])]


# The vote.


class Sure(ClassifierMixin, BaseEstimator):
    """A model that always gives the same probability of Red."""

    def __init__(self, red=0.5):
        self.red = red

    def fit(self, X, y):
        self.classes_ = np.array(["Green", "Red"])
        return self

    def predict_proba(self, X):
        return np.tile([1 - self.red, self.red], (len(X), 1))

    def predict(self, X):
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def test_worked_example_majority_says_red_and_the_mean_says_green():
    said = [0.1, 0.15, 0.2, 0.2, 0.55, 0.6, 0.6, 0.65, 0.7, 0.75]
    X, y = np.zeros((4, 1)), ["Green", "Red", "Green", "Red"]
    for vote, answer, share in (("majority", "Red", 0.6), ("probability", "Green", 0.45)):
        bag = BaggingClassifier(Sure(), n_estimators=10, vote=vote, random_state=0, oob_score=False).fit(X, y)
        bag.estimators_ = [Sure(red).fit(X, y) for red in said]
        assert bag.predict(X[:1]).tolist() == [answer]
        assert_allclose(bag.predict_proba(X[:1]), [[1 - share, share]])
        assert_allclose(bag.predict_log_proba(X[:1]), np.log([[1 - share, share]]))


def test_between_equal_votes_the_first_class_wins():
    X, y = np.zeros((4, 1)), ["Green", "Red", "Green", "Red"]
    bag = BaggingClassifier(Sure(), n_estimators=2, random_state=0, oob_score=False).fit(X, y)
    bag.estimators_ = [Sure(0.9).fit(X, y), Sure(0.1).fit(X, y)]
    assert bag.predict(X[:1]).tolist() == ["Green"]


@pytest.mark.slow
def test_more_models_lower_the_variance():
    """The variance of a prediction over 60 seeds falls with the number of models.

    Given the rows, models are independent draws, so it falls as 1/B: from 1 to 16 models by 16. An F ratio with
    (59, 59) degrees of freedom below 4 has probability under 1e-6 then.
    """
    X, y = numbers()
    spread = []
    for models in (1, 16):
        said = [
            BaggingRegressor(PeerTreeRegressor(), models, random_state=seed, oob_score=False).fit(X, y).predict(X[:1])
            for seed in range(60)
        ]
        spread.append(np.var(said, ddof=1))
    assert stats.f.cdf(4 / 16, 59, 59) < 1e-6
    assert spread[0] / spread[1] > 4


# Out of bag.


@pytest.mark.parametrize("base", [KNeighborsRegressor(3), PeerTreeRegressor(random_state=0), LinearRegression()])
def test_regression_out_of_bag_is_brute_force(base):
    X, y = numbers()
    bag = BaggingRegressor(base, n_estimators=20, max_features=0.75, random_state=3).fit(X, y)
    sums, votes = np.zeros(80), np.zeros(80)
    for t, (model, columns, rows) in enumerate(
        zip(bag.estimators_, bag.estimators_features_, bag.estimators_samples_, strict=True)
    ):
        assert rows.size == 80
        assert columns.size == 3
        out = np.setdiff1d(np.arange(80), rows)
        sums[out] += model.predict(X[out][:, columns])
        votes[out] += 1
        seen = votes > 0
        loss = (sums[seen] / votes[seen] - y[seen]) ** 2
        assert_allclose(bag.oob_curve_.estimate[t], loss.mean())
    assert_array_equal(bag.oob_votes_, votes)
    assert_allclose(bag.oob_prediction_, sums / votes)
    assert_allclose(bag.oob_error_.estimate, loss.mean())
    assert "the trees share rows" in bag.oob_error_.estimand
    assert_allclose(
        bag.predict(X),
        np.mean([m.predict(X[:, c]) for m, c in zip(bag.estimators_, bag.estimators_features_, strict=True)], axis=0),
    )


@pytest.mark.parametrize("vote", ["majority", "probability"])
@pytest.mark.parametrize("base", [KNeighborsClassifier(5), LogisticRegression()])
def test_classification_out_of_bag_is_brute_force(base, vote):
    X, y = classes()
    bag = BaggingClassifier(base, n_estimators=20, vote=vote, random_state=3).fit(X, y)
    sums, votes = np.zeros((80, 3)), np.zeros(80)
    for model, rows in zip(bag.estimators_, bag.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(80), rows)
        for i in out:
            if vote == "majority":
                sums[i] += bag.classes_ == model.predict(X[[i]])[0]
            else:
                sums[i, np.isin(bag.classes_, model.classes_)] += model.predict_proba(X[[i]])[0]
        votes[out] += 1
    assert_allclose(bag.oob_decision_function_, sums / votes[:, None], atol=1e-12)
    assert_allclose(bag.oob_error_.estimate, np.mean(bag.classes_[np.argmax(sums, axis=1)] != y))
    assert_allclose(bag.oob_score_, 1 - bag.oob_error_.estimate)


def test_rows_that_every_model_has_seen_are_named():
    X, y = numbers(30)
    with pytest.warns(AssayWarning, match=r"rows were drawn for every model.*raise n_estimators"):
        bag = BaggingRegressor(LinearRegression(), 3, oob_score=True, random_state=0).fit(X, y)
    assert_array_equal(np.isnan(bag.oob_prediction_), bag.oob_votes_ == 0)
    with pytest.raises(ParameterError, match="every tree is fitted to every row"):
        BaggingRegressor(LinearRegression(), 3, oob_score=True, bootstrap=False).fit(X, y)


# How a learner gets its rows.


def test_weights_and_rows_are_the_same_sample():
    """Least squares on weights equals least squares on the repeated rows."""
    X, y = numbers()
    bag = BaggingRegressor(LinearRegression(), n_estimators=4, random_state=1).fit(X, y)
    for model, rows in zip(bag.estimators_, bag.estimators_samples_, strict=True):
        assert_allclose(model.coef_, LinearRegression().fit(X[rows], y[rows]).coef_)


def test_a_pipeline_never_sees_the_rows_left_out():
    X, y = numbers()
    bag = BaggingRegressor(make_pipeline(StandardScaler(), LinearRegression()), n_estimators=4, random_state=1)
    w = np.random.default_rng(0).uniform(0.5, 2, 80)
    for weights in (None, w):
        bag.fit(X, y, sample_weight=weights)
        for model, rows in zip(bag.estimators_, bag.estimators_samples_, strict=True):
            assert_allclose(model[0].mean_, X[rows].mean(axis=0))
            alone = LinearRegression().fit(X[rows], y[rows])  # the draw has used the weights up
            assert_allclose(model.predict(X), alone.predict(X))


def test_without_draws_weights_equal_repetition():
    X, y = numbers(40)
    counts = np.random.default_rng(0).integers(0, 3, 40)
    one = BaggingRegressor(PeerTreeRegressor(), 3, bootstrap=False, random_state=0).fit(X, y, sample_weight=counts)
    two = BaggingRegressor(PeerTreeRegressor(), 3, bootstrap=False, random_state=0)
    two.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(one.predict(X[counts > 0]), two.predict(X[counts > 0]))


def test_a_row_without_weight_is_a_row_that_is_not_there():
    X, y = numbers()
    w = np.where(np.arange(80) % 4, 1.0, 0.0)
    a = BaggingRegressor(LinearRegression(), 10, random_state=0).fit(X, np.where(w > 0, y, 99.0), sample_weight=w)
    b = BaggingRegressor(LinearRegression(), 10, random_state=0).fit(X[w > 0], y[w > 0])
    assert_allclose(a.predict(X), b.predict(X))
    assert_allclose(a.oob_error_.estimate, b.oob_error_.estimate)


def test_samples_of_one_class_are_drawn_again():
    X = numbers(30)[0]
    rare = (np.arange(30) < 2).astype(int)  # a sample misses both rows one time in seven
    bag = BaggingClassifier(LogisticRegression(), 60, random_state=0).fit(X, rare)
    assert all(np.unique(rare[rows]).size == 2 for rows in bag.estimators_samples_)
    with pytest.raises(DataError, match="had only one class"):
        BaggingClassifier(LogisticRegression(), 2, max_samples=1, random_state=0).fit(X, rare)


def test_a_sample_may_lack_a_class():
    X, y = classes(30)
    y[:2] = "rare"
    for vote in ("majority", "probability"):
        bag = BaggingClassifier(KNeighborsClassifier(3), 20, vote=vote, random_state=0).fit(X, y)
        assert bag.predict_proba(X).shape == (30, 4)
        assert_allclose(bag.predict_proba(X).sum(axis=1), 1)


# Columns, seeds, jobs, tables.


def test_columns_are_drawn_for_each_model():
    X, y = numbers()
    bag = BaggingRegressor(LinearRegression(), 30, max_features=2, random_state=0).fit(X, y)
    assert {tuple(columns) for columns in bag.estimators_features_} == {(a, b) for b in range(4) for a in range(b)}
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = BaggingRegressor(LinearRegression(), 30, max_features=2, random_state=0).fit(frame, y)
    assert_allclose(named.predict(frame), bag.predict(X))
    with pytest.warns(UserWarning, match="valid feature names") as caught:
        named.predict(X)
    assert len(caught) == 1
    with pytest.raises(ParameterError, match="max_features = 5, but X has 4 columns"):
        BaggingRegressor(LinearRegression(), max_features=5).fit(X, y)


def test_jobs_never_change_a_result():
    X, y = classes()
    base = PeerTree(max_features=1, splitter="random")
    one, two = (BaggingClassifier(base, 12, random_state=5, n_jobs=jobs).fit(X, y) for jobs in (1, 3))
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert one.oob_error_ == two.oob_error_
    seeds = {model.random_state for model in one.estimators_}
    assert len(seeds) == 12
    assert base.random_state is None


def test_our_own_tree_is_the_default_and_takes_tables_as_they_come():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=100), "b": rng.choice(["red", "green"], 100)})
    y = frame["a"] + (frame["b"] == "red")
    frame.loc[::9, "a"] = np.nan
    bag = BaggingRegressor(n_estimators=15, random_state=0).fit(frame, y)
    assert type(bag.estimators_[0]).__module__ == "assay.trees.cart"
    assert bag.score(frame, y) > 0.8
    said = BaggingClassifier(n_estimators=15, random_state=0).fit(frame, y > 0.5)
    assert said.oob_error_.estimate < 0.3


def test_bad_input_gets_one_sentence():
    X, y = numbers(20)
    with pytest.raises(DataError, match="KNeighborsRegressor does not support them"):
        BaggingRegressor(KNeighborsRegressor(), 2, bootstrap=False).fit(X, y, sample_weight=np.ones(20))
    with pytest.raises(ParameterError, match=r"Perceptron has no predict_proba.*majority"):
        BaggingClassifier(Perceptron(), 2, vote="probability").fit(X, y > 0)
    BaggingClassifier(Perceptron(), 2).fit(X, y > 0)
    with pytest.raises(DataError, match="only one class"):
        BaggingClassifier(PeerTree(), 2).fit(X, np.zeros(20))
    with pytest.raises(DataError, match="y contains NaN in row 0"):
        BaggingRegressor(PeerTreeRegressor(), 2).fit(X, np.full(20, np.nan))
    with pytest.raises(DataError, match="sample_weight contains -1 in row 0"):
        BaggingRegressor(PeerTreeRegressor(), 2).fit(X, y, sample_weight=-np.ones(20))
    with pytest.raises(DataError, match="2D"):
        BaggingRegressor(PeerTreeRegressor(), 2).fit(X[:, 0], y)
    with pytest.raises(ParameterError, match="estimator"):
        BaggingRegressor("tree").fit(X, y)
