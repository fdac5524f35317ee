"""Partial dependence: its definition, scikit-learn's figures, its tables, where no rows are, what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import partial_dependence as sk_dependence
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation.dependence import partial_dependence
from tests.naive.evaluation import dependence_lines

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def rows(n=80, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + rng.normal(scale=0.1, size=n)


@pytest.fixture(scope="module")
def forest():
    X, y = rows()
    return RandomForestRegressor(10, random_state=0).fit(X, y), X


def test_agrees_with_its_definition(forest):
    model, X = forest
    found = partial_dependence(model, X, 0, grid=7, kind="both")
    lines = dependence_lines(model.predict, X, 0, found.grids[0])
    np.testing.assert_allclose(found.individual[0], lines, **CLOSE)
    np.testing.assert_allclose(found.average[0], lines.mean(axis=0), **CLOSE)
    np.testing.assert_allclose(found.std_error[0], lines.std(axis=0, ddof=1) / np.sqrt(80), **CLOSE)
    centred = partial_dependence(model, X, 0, grid=7, kind="both", centered=True)
    moved = lines - lines[:, :1]
    np.testing.assert_allclose(centred.individual[0], moved, **CLOSE)
    np.testing.assert_allclose(centred.std_error[0], moved.std(axis=0, ddof=1) / np.sqrt(80), **CLOSE)
    assert centred.average[0, 0] == centred.std_error[0, 0] == 0


@pytest.mark.parametrize("columns", [[0], [1, 2]])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(forest, columns, weighted):
    model, X = forest
    w = np.random.default_rng(1).exponential(size=len(X)) if weighted else None
    found = partial_dependence(model, X, columns, grid=9, sample_weight=w)
    custom = dict(zip(columns, found.grids, strict=True))
    theirs = sk_dependence(model, X, columns, kind="average", method="brute", custom_values=custom, sample_weight=w)
    np.testing.assert_allclose(found.average, theirs["average"], **CLOSE)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_each_class(classes):
    X, y = rows(90)
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
    model = RandomForestClassifier(10, random_state=0).fit(X, labels)
    found = partial_dependence(model, X, 0, grid=6)
    theirs = sk_dependence(model, X, [0], kind="average", method="brute", custom_values={0: found.grids[0]})
    np.testing.assert_allclose(found.average, theirs["average"], **CLOSE)
    assert found.outputs == (("b",) if classes == 2 else ("a", "b", "c"))
    assert found.response == "probabilities"


def test_scores_where_there_are_no_probabilities():
    X, y = rows(90)
    labels = (y > 0).astype(int)
    model = LinearSVC().fit(X, labels)
    found = partial_dependence(model, X, 0, grid=6)
    theirs = sk_dependence(model, X, [0], kind="average", method="brute", custom_values={0: found.grids[0]})
    np.testing.assert_allclose(found.average, theirs["average"], **CLOSE)
    assert found.response == "scores"
    named = LinearSVC().fit(X, np.where(labels, "yes", "no"))
    with pytest.raises(DataTypeError, match="no predict_proba"):
        partial_dependence(named, X, 0, response="probabilities")
    with pytest.raises(DataTypeError, match="labels have no average"):
        partial_dependence(named, X, 0, response="values")


def test_a_linear_model_has_its_slope():
    X, y = rows()
    model = LinearRegression().fit(X, y)
    found = partial_dependence(model, X, 2)
    slopes = np.diff(found.average[0]) / np.diff(found.grids[0])
    np.testing.assert_allclose(slopes, model.coef_[2], rtol=1e-8)
    assert found.grids[0].size == 50
    np.testing.assert_allclose(found.grids[0][[0, -1]], [X[:, 2].min(), X[:, 2].max()])
    np.testing.assert_allclose(found.deciles[0], np.quantile(X[:, 2], np.arange(1, 10) / 10))


@pytest.mark.parametrize("cells", [1, 700, 1 << 20])
def test_batches_do_not_change_the_result(forest, monkeypatch, cells):
    model, X = forest
    whole = partial_dependence(model, X, [0, 3], grid=5)
    monkeypatch.setattr("assay.evaluation._workbench.CELLS", cells)
    np.testing.assert_allclose(partial_dependence(model, X, [0, 3], grid=5).average, whole.average, **CLOSE)


def test_the_kind_of_table_does_not_matter():
    X, y = rows()
    X[np.abs(X) < 0.4] = 0.0
    model = Ridge().fit(X, y)
    plain = {c: partial_dependence(model, X, c, grid=5).average for c in (1, (0, 2))}
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = Ridge().fit(frame, y)
    for c, expected in plain.items():
        for table in (np.asfortranarray(X), sparse.csr_array(X), sparse.csc_matrix(X), X.tolist()):
            np.testing.assert_allclose(partial_dependence(model, table, c, grid=5).average, expected, **CLOSE)
        by_name = {1: "b", (0, 2): ("a", "c")}[c]
        before = frame.copy()
        np.testing.assert_allclose(partial_dependence(named, frame, by_name, grid=5).average, expected, **CLOSE)
        pd.testing.assert_frame_equal(frame, before)


def shop():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "shelf": rng.choice(["good", "bad"], 100),
            "size": pd.Categorical(rng.choice(["s", "m"], 100), categories=["s", "m", "l"]),
            "price": rng.integers(1, 90, 100),
            "open": rng.random(100) < 0.5,
        }
    )
    y = 3.0 * (X["shelf"] == "good") + 0.1 * X["price"] + 0.2 * X["open"]
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["shelf", "size"]), remainder="passthrough"
    )
    return make_pipeline(encode, LinearRegression()).fit(X, y), X


def test_text_categories_and_whole_numbers():
    model, X = shop()
    shelf = partial_dependence(model, X, "shelf")
    assert shelf.grids[0].tolist() == ["bad", "good"]
    np.testing.assert_allclose(np.diff(shelf.average[0]), 3.0)
    np.testing.assert_allclose(shelf.deciles[0].sum(), 1.0)
    assert partial_dependence(model, X, "size").grids[0].tolist() == ["s", "m"]  # its own order; no row is "l"
    assert partial_dependence(model, X, "open").grids[0].tolist() == [False, True]
    price = partial_dependence(model, X, "price", grid=[1.5, 2.5])
    np.testing.assert_allclose(np.diff(price.average[0]), 0.1)
    table = X[["price"]].assign(other=1).to_numpy()
    whole = LinearRegression().fit(table, table[:, 0])
    np.testing.assert_allclose(np.diff(partial_dependence(whole, table, 0, grid=[1.5, 2.0]).average[0]), 0.5)
    pair = partial_dependence(model, X, ["price", "shelf"], grid=5)
    assert pair.average.shape == (1, 5, 2)
    assert len(pair.to_frame()) == 10


def test_support_is_marked():
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    X = pd.DataFrame({"a": a, "b": a + 0.05 * rng.normal(size=300), "c": np.where(a > 0, "up", "down")})
    X["d"] = np.where(a > 0.5, "far", "near")
    model = make_pipeline(make_column_transformer((OneHotEncoder(), ["c", "d"]), remainder="passthrough"), Ridge())
    model.fit(X, a)
    pair = partial_dependence(model, X, ["a", "b"], grid=[[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])
    np.testing.assert_array_equal(pair.support, np.eye(3, dtype=bool))
    assert "6 of 9 points" in str(pair)
    mixed = partial_dependence(model, X, ["a", "c"], grid=[[-1.0, 1.0], ["down", "up"]])
    np.testing.assert_array_equal(mixed.support, np.eye(2, dtype=bool))
    turned = partial_dependence(model, X, ["c", "a"], grid=[["down", "up"], [-1.0, 1.0]])
    np.testing.assert_array_equal(turned.support, mixed.support.T)
    both = partial_dependence(model, X, ["c", "d"])
    np.testing.assert_array_equal(both.support, [[False, True], [True, True]])
    line = partial_dependence(model, X, "a", grid=[-100.0, 0.0])
    np.testing.assert_array_equal(line.support, [False, True])
    flat = X.assign(b=1.0)
    box = partial_dependence(model, flat, ["a", "b"], grid=[[0.0, 99.0], [1.0, 2.0]])
    np.testing.assert_array_equal(box.support, [[True, False], [False, False]])


def test_a_share_of_the_rows(forest):
    model, X = forest
    some = partial_dependence(model, X, 0, grid=4, max_rows=30, kind="individual", random_state=1)
    again = partial_dependence(model, X, 0, grid=4, max_rows=30, kind="individual", random_state=1)
    assert some.n == 30
    assert some.individual.shape == (1, 30, 4)
    np.testing.assert_array_equal(some.individual, again.individual)
    assert partial_dependence(model, X, 0, grid=4, max_rows=1000).n == 80


def test_words_frame_and_pictures():
    import matplotlib.pyplot as plt

    model, X = shop()
    single = partial_dependence(model, X, "price", grid=5, kind="both")
    assert "model treated as fixed" in str(single)
    assert list(single.to_frame().columns) == ["price", "average", "std_error", "lower", "upper", "support"]
    for found in (
        single,
        partial_dependence(model, X, "shelf", kind="both"),
        partial_dependence(model, X, "price", kind="individual", centered=True),
        partial_dependence(model, X, ["price", "shelf"], grid=5),
        partial_dependence(model, X, ["shelf", "size"]),
    ):
        assert found.plot().get_xlabel() == found.columns[0]
    Z, y = rows(60)
    classes = LogisticRegression().fit(Z, np.digitize(y, [-0.5, 0.5]))
    several = partial_dependence(classes, Z, 0, grid=5)
    assert several.to_frame()["output"].nunique() == 3
    assert "probability" in several.plot().get_ylabel()
    assert len(partial_dependence(classes, Z, [0, 1], grid=5).plot()) == 3
    assert partial_dependence(LinearRegression().fit(Z, y), Z, [0, 1], grid=5).plot().get_ylabel() == "x1"
    plt.close("all")


@pytest.mark.parametrize(
    ("columns", "change", "error", "words"),
    [
        ("z", {}, ParameterError, "unknown column 'z'"),
        ([0, 1, 2], {}, ParameterError, "3 columns"),
        ([0, 0], {}, ParameterError, "two different"),
        (0, {"grid": 1}, ParameterError, "grid"),
        (0, {"grid": [np.nan]}, ParameterError, "finite"),
        ([0, 1], {"grid": [[1.0]]}, ParameterError, "two grids"),
        ([0, 1], {"kind": "both"}, ParameterError, "one column"),
        (0, {"kind": "mean"}, ParameterError, "kind"),
        (0, {"response": "labels"}, ParameterError, "response"),
        (0, {"centered": "yes"}, ParameterError, "centered"),
        (0, {"max_rows": 1}, ParameterError, "max_rows"),
        (0, {"level": 0}, ParameterError, "level"),
        (0, {"sample_weight": [1.0]}, DataError, "sample_weight"),
    ],
)
def test_bad_input_gets_one_sentence(forest, columns, change, error, words):
    model, X = forest
    with pytest.raises(error, match=words):
        partial_dependence(model, X, columns, **change)


def test_what_is_no_table_or_no_model(forest):
    model, X = forest
    with pytest.raises(DataError, match="no spread"):
        partial_dependence(model, X[:1], 0)
    with pytest.raises(DataTypeError, match="not a model"):
        partial_dependence("forest", X, 0)
    with pytest.raises(ValueError, match="not fitted"):
        partial_dependence(Ridge(), X, 0)
    empty = pd.DataFrame({"a": [np.nan, np.nan], "b": [1.0, 2.0]})
    with pytest.raises(DataError, match="'a' is empty"):
        partial_dependence(Ridge().fit([[1, 2], [3, 4]], [1, 2]), empty, "a")


class DayOfYear:
    def predict(self, frame):
        return frame["day"].dt.day_of_year.to_numpy(dtype=float)


def test_a_column_of_dates_has_a_grid_of_dates_that_occur():
    days = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=100), "x": np.arange(100.0)})
    found = partial_dependence(DayOfYear(), days, "day", grid=5)
    np.testing.assert_allclose(found.average[0], [1, 26, 51, 75, 100])
    assert found.support.all()
    given = [pd.Timestamp("2020-02-01"), pd.Timestamp("2030-01-01")]
    assert partial_dependence(DayOfYear(), days, "day", grid=given).support.tolist() == [True, False]
