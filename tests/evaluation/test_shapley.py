"""Shapley values: the sum over subsets, the package shap, grouped columns, sampled errors, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor as SkForest
from sklearn.linear_model import LinearRegression as SkLine
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation import Ensemble, ThresholdClassifier, shapley_values
from assay.experiment.calibrated import CalibratedIfBetter
from assay.experiment.panel import assemble, panel
from assay.generative import LinearDiscriminantAnalysis
from assay.linear import LassoCV, LinearRegression, LogisticRegression, Ridge
from assay.trees import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    PrunedTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tests.naive.evaluation import shapley_by_subsets

CLOSE = {"rtol": 1e-9, "atol": 1e-10}


def rows(n=150, p=5, seed=0, missing=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = X[:, 0] * X[:, 1] + X[:, 2] + (X[:, 3] > 0) * X[:, 0] + 0.1 * rng.normal(size=n)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def agrees(model, predict, X, background, scale):
    found = shapley_values(model, X, background)
    expected = np.array([shapley_by_subsets(predict, x, background) for x in X])
    np.testing.assert_allclose(found.values, expected, **CLOSE)
    efficient(found)
    np.testing.assert_allclose(found.prediction, predict(X), **CLOSE)
    assert found.std_error is None
    assert found.scale == scale


def efficient(found):
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, found.prediction, **CLOSE)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(),
        PrunedTreeRegressor(),
        BaggingRegressor(n_estimators=5, random_state=0),
        RandomForestRegressor(10, random_state=0),
        GradientBoostingRegressor(n_estimators=10),
    ],
    ids=lambda model: type(model).__name__,
)
def test_trees_of_numbers_agree_with_all_subsets(model):
    X, y = rows(missing=True)
    model.fit(X, y)
    agrees(model, model.predict, X[:4], X[50:70], "prediction")


def test_counts_are_explained_on_their_logarithm():
    X, y = rows()
    model = GradientBoostingRegressor(loss="poisson", n_estimators=10).fit(X, np.abs(y))
    agrees(model, lambda rows: np.log(model.predict(rows)), X[:3], X[50:70], "log prediction")
    found = shapley_values(model, X[:3], X[50:70], response="prediction")
    np.testing.assert_allclose(found.prediction, model.predict(X[:3]))
    np.testing.assert_allclose(found.values[0], shapley_by_subsets(model.predict, X[0], X[50:70]), **CLOSE)


@pytest.mark.parametrize("classes", [2, 3])
def test_trees_of_classes_agree_with_all_subsets(classes):
    X, y = rows()
    labels = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    second = (lambda shares: shares[:, 1]) if classes == 2 else (lambda shares: shares)
    for model in (
        DecisionTreeClassifier(),
        RandomForestClassifier(10, random_state=0),
        RandomForestClassifier(10, vote="majority", random_state=0),
        BaggingClassifier(n_estimators=5, vote="majority", random_state=0),
    ):
        model.fit(X, labels)
        agrees(model, lambda rows, model=model: second(model.predict_proba(rows)), X[:3], X[50:70], "probability")
    boosted = GradientBoostingClassifier(n_estimators=5).fit(X, labels)
    agrees(boosted, boosted.decision_function, X[:3], X[50:70], "log-odds" if classes == 2 else "score")


def test_categories_missing_values_and_multiway_splits():
    rng = np.random.default_rng(1)
    X, y = rows(missing=True)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(f=pd.Categorical(rng.choice(list("xyzw"), len(X))))
    y = y + 2 * (frame["f"] == "x")
    labels = np.digitize(y, [0, 1])
    for model in (
        RandomForestRegressor(5, random_state=0).fit(frame, y),
        DecisionTreeClassifier(multiway=True, max_depth=4).fit(frame, labels),
    ):
        found = shapley_values(model, frame[:2], frame[50:60])
        coded = frame.assign(f=frame["f"].cat.codes.astype(float)).to_numpy()

        def predict(rows, model=model):
            back = pd.DataFrame(rows, columns=frame.columns)
            back["f"] = pd.Categorical.from_codes(back["f"].astype(int), frame["f"].cat.categories)
            return model.predict(back) if not hasattr(model, "classes_") else model.predict_proba(back)

        for i in range(2):
            np.testing.assert_allclose(found.values[i], shapley_by_subsets(predict, coded[i], coded[50:60]), **CLOSE)


def test_sparse_tables_and_one_or_more_jobs():
    X, y = rows(n=300)
    X = np.where(np.abs(X) > 1, X, 0.0)
    model = RandomForestRegressor(10, random_state=0).fit(sparse.csr_matrix(X), y)
    found = shapley_values(model, sparse.csr_matrix(X[:40]), sparse.csr_matrix(X[100:120]))
    dense = shapley_values(model, X[:40], X[100:120])
    assert np.array_equal(found.values, dense.values)
    model.set_params(n_jobs=2)
    assert np.array_equal(shapley_values(model, X[:40], X[100:120]).values, dense.values)


@pytest.mark.parametrize(
    "model", [LinearRegression(), Ridge(), LassoCV(cv=3), SkLine()], ids=lambda model: type(model).__name__
)
def test_lines_are_coefficients_times_distances(model):
    X, y = rows()
    model.fit(X, y)
    agrees(model, model.predict, X[:4], X[50:70], "prediction")


def test_margins_of_linear_classifiers():
    X, y = rows()
    for labels in (y > 0, np.digitize(y, [-1, 1])):
        for model in (LogisticRegression(penalty="l2"), LinearDiscriminantAnalysis()):
            model.fit(X, labels)
            scale = "log-odds" if labels.max() == 1 else "score"
            agrees(model, model.decision_function, X[:3], X[50:70], scale)


def test_other_models_of_few_columns_are_asked_for_all_coalitions():
    X, y = rows()
    model = make_pipeline(StandardScaler(), SVR()).fit(X, y)
    agrees(model, model.predict, X[:3], X[50:70], "prediction")
    counts = PoissonRegressor().fit(X, np.abs(y))  # has coefficients, but predicts their exponential
    agrees(counts, counts.predict, X[:3], X[50:70], "prediction")
    found = GridSearchCV(SVR(), {"C": [1.0]}, cv=2).fit(X, y)
    agrees(found, found.predict, X[:3], X[50:70], "prediction")


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame["colour"] = rng.choice(["red", "blue", "green"], n)
    frame.loc[rng.random(n) < 0.2, "b"] = np.nan
    frame["constant"] = 1.0
    y = frame["a"] * (frame["colour"] == "red") + frame["c"] + frame["b"].isna() + 0.1 * rng.normal(size=n)
    kinds = {"a": "number", "b": "number", "c": "number", "colour": "category", "constant": "number"}
    return frame, y.to_numpy(), kinds


@pytest.mark.parametrize("name", ["ridge", "random forest", "support vectors"])
def test_players_are_columns_of_the_table(name):
    frame, y, kinds = table()
    learner = next(one for one in panel("regression", chosen=[name]) if one.name == name)
    model = assemble(learner, kinds, tune=False, metric="mse", shape=frame.shape).fit(frame, y)
    shuffled = frame[["c", "constant", "colour", "a", "b"]]
    found = shapley_values(model, shuffled[:2], shuffled[50:60])
    assert found.names == tuple(shuffled.columns)
    assert (found.values[:, 1] == 0).all()
    whole = shuffled.to_numpy(dtype=object)

    def predict(rows):
        back = pd.DataFrame(rows, columns=shuffled.columns)
        return model.predict(back.astype(dict.fromkeys(("a", "b", "c", "constant"), float)))

    for i in range(2):
        np.testing.assert_allclose(found.values[i], shapley_by_subsets(predict, whole[i], whole[50:60]), **CLOSE)
    efficient(found)


def test_ensembles_add_their_members():
    X, y = rows()
    model = Ensemble([Ridge(), RandomForestRegressor(5, random_state=0)], weights=[1, 3]).fit(X, y)
    agrees(model, model.predict, X[:3], X[50:70], "prediction")
    labels = y > 0
    votes = Ensemble([LogisticRegression(penalty="l2"), RandomForestClassifier(5, random_state=0)], weights="equal")
    votes.fit(X, labels)
    agrees(votes, lambda rows: votes.predict_proba(rows)[:, 1], X[:3], X[50:70], "probability")


def test_thresholds_and_calibration_are_seen_through():
    X, y = rows(n=300)
    labels = y > 1
    inside = GradientBoostingClassifier(n_estimators=20)
    threshold = ThresholdClassifier(inside, cost={"missed": 5, "false": 1}, cv=3).fit(X, labels)
    agrees(threshold, threshold.estimator_.decision_function, X[:2], X[50:70], "log-odds")
    calibrated = CalibratedIfBetter(GradientBoostingClassifier(n_estimators=200, learning_rate=0.5), cv=3)
    calibrated.fit(X, labels)
    assert calibrated.map_ is not None
    slope, intercept = calibrated.map_.slope_, calibrated.map_.intercept_
    agrees(
        calibrated,
        lambda rows: slope * calibrated.estimator_.decision_function(rows) + intercept,
        X[:2],
        X[50:70],
        "log-odds",
    )


def test_sampled_values_are_as_far_off_as_their_standard_error():
    """False alarms: a z-score with 99 or more degrees of freedom beyond 4.5 in 80 independent values: below 0.2%."""
    X, y = rows(n=200, p=8)
    model = SVR(gamma=0.3).fit(X, y)
    expected = np.array([shapley_by_subsets(model.predict, x, X[50:80]) for x in X[:2]])
    scores = []
    for seed in range(5):
        found = shapley_values(model, X[:2], X[50:80], permutations=3, random_state=seed)
        efficient(found)
        scores.append((found.values - expected) / found.std_error)
    assert np.abs(scores).max() < 4.5
    assert 0.6 < np.std(scores) < 1.5


def test_additive_models_have_no_sampling_error():
    X, _ = rows(p=8)

    class Additive:
        def predict(self, X):
            return np.exp(X[:, 0]) + X[:, 7] ** 2

    found = shapley_values(Additive(), X[:2], X[50:60])
    expected = np.exp(X[:2, 0]) - np.exp(X[50:60, 0]).mean()
    np.testing.assert_allclose(found.values[:, 0], expected, **CLOSE)
    assert found.std_error.max() < 1e-12


def test_a_row_does_not_depend_on_the_others():
    X, y = rows(p=8)
    model = SVR().fit(X, y)
    both, one = shapley_values(model, X[:2], X), shapley_values(model, X[1:2], X)
    np.testing.assert_allclose(both.values[1], one.values[0], **CLOSE)
    assert both.n_background == 100


def test_the_package_shap_says_the_same():
    shap = pytest.importorskip("shap")
    X, y = rows(n=200, p=8)
    background, few = X[50:100], X[:5]
    forest = SkForest(20, max_depth=6, random_state=0).fit(X, y)
    theirs = shap.TreeExplainer(forest, background, feature_perturbation="interventional").shap_values(few)
    sampled = shapley_values(forest, few, background, permutations=40)
    assert (np.abs(sampled.values - theirs) <= 5 * sampled.std_error + 1e-9).all()

    ours = RandomForestRegressor(20, max_depth=6, random_state=0).fit(X, y)
    exact = shap.ExactExplainer(ours.predict, shap.maskers.Independent(background, max_samples=50))(few)
    found = shapley_values(ours, few, background)
    np.testing.assert_allclose(found.values, exact.values, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.base, exact.base_values[0], rtol=0, atol=1e-6)

    line = Ridge().fit(X, y)
    theirs = shap.LinearExplainer(SkLine().fit(X, line.predict(X)), background).shap_values(few)
    np.testing.assert_allclose(shapley_values(line, few, background).values, theirs, rtol=0, atol=1e-6)


def test_the_result_prints_tabulates_and_draws():
    frame, y, _ = table()
    X = frame[["a", "c"]]
    found = shapley_values(Ridge().fit(X, y), X[:3], X)
    long = found.to_frame()
    assert list(long.columns) == ["row", "column", "cell", "contribution"]
    assert len(long) == 6
    one = found.row(-1)
    assert "prediction" in str(one)
    assert str(one.index[0]) == "2"
    name, cell, value = one.leading(0, 1)[0]
    assert value == one.values[0, list(one.names).index(name)]
    assert cell == X[name].iloc[2]
    for each in (found, one):
        assert each.plot().get_xlabel()
        assert "contribution" in each._repr_html_()
    labels = np.digitize(y, [-0.5, 0.5])
    classes = shapley_values(RandomForestClassifier(5, random_state=0).fit(X, labels), X[:2], X)
    assert classes.values.shape == (2, 2, 3)
    assert list(classes.to_frame()["output"][:3]) == ["0", "1", "2"]
    assert "probability of" in classes.row(0).plot().get_xlabel()


def test_what_is_refused():
    X, y = rows()
    model = Ridge().fit(X, y)
    with pytest.raises(DataTypeError, match="is not a model"):
        shapley_values("ridge", X, X)
    with pytest.raises(DataError, match="same columns"):
        shapley_values(model, X, X[:, :4])
    with pytest.raises(DataError, match="background has no rows"):
        shapley_values(model, X, X[:0])
    with pytest.raises(ParameterError, match="unknown response"):
        shapley_values(model, X, X, response="odds")
    frame = pd.DataFrame(X, columns=list("abcde"))
    with pytest.raises(DataError, match=r"background\[X.columns\]"):
        shapley_values(Ridge().fit(frame, y), frame, frame[list("edcba")])
    with pytest.raises(ParameterError, match="from 0 to 1"):
        shapley_values(model, X[:2], X).row(2)
