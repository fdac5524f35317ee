"""Naive Bayes over columns of several kinds, with gaps."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn import naive_bayes as peers
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

from assay.errors import DataError, DataTypeError, ParameterError
from assay.generative.mixed import MixedNB
from assay.generative.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB


def people(n: int = 200, seed: int = 0, gaps: float = 0.15):
    """A table as it comes: numbers, text, categories, truth values and counts, a seventh of the cells missing."""
    rng = np.random.default_rng(seed)
    y = np.array(["left", "right"])[rng.integers(0, 2, n)]
    right = y == "right"
    frame = pd.DataFrame(
        {
            "income": rng.normal(30_000 + 8_000 * right, 9_000),
            "town": np.where(rng.random(n) < np.where(right, 0.6, 0.3), "Böblingen", "Köln").astype(object),
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high", "top"]),
            "member": rng.random(n) < np.where(right, 0.7, 0.4),
            "visits": rng.poisson(np.where(right, 4.0, 2.0)),
        }
    )
    if gaps:
        frame["member"] = frame["member"].astype("boolean")
        frame["visits"] = frame["visits"].astype("Int64")
        frame = frame.mask(rng.random(frame.shape) < gaps)
    return frame, y, rng.uniform(0.5, 2.0, n)


KINDS = {"visits": "count"}


def naive(frame, y, new, alpha=1.0):
    """Posteriors by the definition, cell by cell; what is missing is left out."""
    out = []
    labels = sorted(set(y))
    for _, row in new.iterrows():
        joint = []
        for label in labels:
            own = frame[y == label]
            total = math.log(len(own) / len(frame))
            for name, value in row.items():
                if pd.isna(value):
                    continue
                column, every = own[name].dropna(), frame[name].dropna()
                if name == "income":
                    variance = np.var(column.to_numpy()) + 1e-9 * np.var(every.to_numpy())
                    total += stats.norm.logpdf(value, np.mean(column.to_numpy()), math.sqrt(variance))
                elif name == "visits":
                    rate = (column.sum() + alpha * every.astype(float).mean()) / (len(column) + alpha)
                    total += stats.poisson.logpmf(value, rate)
                else:
                    size = {"town": 2, "grade": 4, "member": 2}[name]
                    total += math.log(((column == value).sum() + alpha) / (len(column) + alpha * size))
            joint.append(total)
        chance = np.exp(np.array(joint) - max(joint))
        out.append(chance / chance.sum())
    return np.array(out)


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_it_is_its_definition(gaps):
    frame, y, _ = people(80, gaps=gaps)
    model = MixedNB(kinds=KINDS).fit(frame, y)
    assert model.kinds_ == ["normal", "category", "category", "binary", "count"]
    assert_allclose(model.predict_proba(frame), naive(frame, y, frame), rtol=1e-9)
    assert_allclose(model.predict_proba(frame).sum(axis=1), 1.0)


def test_alone_each_kind_is_its_own_classifier():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 3)) + y[:, None]
    assert_allclose(MixedNB().fit(X, y).predict_proba(X), GaussianNB().fit(X, y).predict_proba(X), atol=1e-7)
    assert_allclose(MixedNB().fit(X, y).predict_proba(X), peers.GaussianNB().fit(X, y).predict_proba(X), atol=1e-7)
    C = np.minimum(np.abs(np.round(X)), 3)
    columns = dict.fromkeys(range(3), "category")
    assert_allclose(MixedNB(kinds=columns).fit(C, y).predict_proba(C), CategoricalNB().fit(C, y).predict_proba(C))
    B = pd.DataFrame(X > 0)
    B.columns = list("abc")
    mixed = MixedNB().fit(B, y)
    assert mixed.kinds_ == ["binary"] * 3
    assert_allclose(mixed.predict_proba(B), BernoulliNB().fit(X, y).predict_proba(X))


def test_a_gap_leaves_its_factor_out():
    frame, y, _ = people(gaps=0.0)
    model = MixedNB(kinds=KINDS).fit(frame, y)
    new = frame.head(20).astype({"visits": "Int64"})
    new["visits"] = pd.NA
    fewer = MixedNB().fit(frame.drop(columns="visits"), y)
    assert_allclose(model.predict_proba(new), fewer.predict_proba(frame.head(20).drop(columns="visits")))
    nothing = pd.DataFrame({name: [None] for name in frame}).astype(object)
    assert_allclose(model.predict_proba(nothing), [model.class_prior_])
    X = frame[["income"]].to_numpy()
    assert_allclose(MixedNB().fit(X, y).predict_proba([[np.nan]])[0], [(y == "left").mean(), (y == "right").mean()])


def test_an_unseen_level_is_a_gap():
    frame, y, _ = people(gaps=0.0)
    model = MixedNB(kinds=KINDS).fit(frame, y)
    new, gap = frame.head(5).copy(), frame.head(5).copy()
    new["town"] = "Ulm"
    gap["town"] = None
    assert_allclose(model.predict_proba(new), model.predict_proba(gap))


def test_weights_are_repetitions_with_gaps_and_bins():
    frame, y, _ = people()
    times = np.random.default_rng(2).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    for model in (MixedNB(kinds=KINDS), MixedNB(discretize=5)):
        weighted = clone(model).fit(frame, y, sample_weight=times)
        repeated = clone(model).fit(frame.iloc[rows], y[rows])
        assert_allclose(weighted.predict_proba(frame), repeated.predict_proba(frame), rtol=1e-9)


def test_parts_in_any_order_are_the_whole():
    frame, y, w = people()
    frame["grade"] = frame["grade"].astype(object)
    whole = MixedNB(kinds=KINDS).fit(frame, y, sample_weight=w)
    for seed in range(3):
        model = MixedNB(kinds=KINDS)
        for part in np.array_split(np.random.default_rng(seed).permutation(len(y)), 9):  # levels come one by one
            model.partial_fit(frame.iloc[part], y[part], classes=["left", "right"], sample_weight=w[part])
        assert_allclose(model.predict_proba(frame), whole.predict_proba(frame), rtol=1e-9)
    first = MixedNB().partial_fit(frame[y == "left"], y[y == "left"], classes=["left", "right"])
    assert_array_equal(first.predict_proba(frame), np.tile([1.0, 0.0], (len(y), 1)))


def test_folds_from_summaries_are_fits_to_the_rows():
    frame, y, w = people()
    frame.loc[7, "town"] = "Ulm"  # in one fold only
    w[::9] = 0.0
    splits = list(KFold(5, shuffle=True, random_state=0).split(frame))
    found = MixedNB(kinds=KINDS).predict_folds(frame, y, splits, sample_weight=w, method="predict_proba")
    for answer, (train, test) in zip(found, splits, strict=True):
        fitted = MixedNB(kinds=KINDS).fit(frame.iloc[train], y[train], sample_weight=w[train])
        assert_allclose(answer, fitted.predict_proba(frame.iloc[test]), rtol=1e-9)
    assert MixedNB(discretize=4).predict_folds(frame, y, splits) is None


def test_bins_are_quantiles_of_the_training_rows():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1_000, 2))
    y = (np.abs(x[:, 0]) > 0.7).astype(int)  # no normal density within classes can tell them so well
    model = MixedNB(discretize=10).fit(x, y)
    assert model.kinds_ == ["bins", "bins"]
    shares = np.bincount([np.sum(x[i, 0] > model.cuts_[0]) for i in range(1_000)])
    assert_array_equal(shares, np.full(10, 100))
    codes = np.column_stack([np.searchsorted(model.cuts_[j], x[:, j], side="left") for j in range(2)])
    assert_allclose(model.predict_proba(x), CategoricalNB().fit(codes, y).predict_proba(codes))
    assert cross_val_score(MixedNB(discretize=10), x, y).mean() > 0.9
    one = MixedNB(discretize=10, kinds={1: "normal"}).fit(x, y)
    assert one.kinds_ == ["bins", "normal"]
    few = MixedNB(discretize=10).fit(np.repeat([[0.0], [1.0], [1.0], [2.0]], 5, axis=0), [0, 1] * 10)
    assert_array_equal(few.cuts_[0], [0.0, 1.0])


def test_a_class_without_a_value_gets_that_of_all_rows():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0, None, None], "z": [0.1, 0.2, 0.3, 0.8, 0.9]})
    y = ["a", "a", "a", "b", "b"]
    model = MixedNB().fit(frame, y)
    assert_allclose(model.theta_[:, 0], np.mean([1, 2, 4]))
    assert_allclose(model.var_[:, 0], np.var([1, 2, 4]), rtol=1e-8)
    assert_array_equal(model.predict(frame), y)


def test_columns_without_any_say():
    frame, y, _ = people(gaps=0.0)
    wider = frame.assign(still=7.0, empty=np.nan, void=None, zero=0)
    kinds = {**KINDS, "zero": "count"}
    model = MixedNB(kinds=kinds).fit(wider, y)
    expected = MixedNB(kinds=KINDS).fit(frame, y).predict_proba(frame)
    assert_allclose(model.predict_proba(wider), expected)
    assert_allclose(model.predict_proba(wider.assign(still=-3.0, empty=4.0, zero=9)), expected)


def test_counts_without_smoothing_may_rule_a_class_out():
    X, y = [[0], [0], [1], [3]], ["none", "none", "some", "some"]
    model = MixedNB(kinds={0: "count"}, alpha=0).fit(X, y)
    assert_array_equal(model.predict_proba([[2]]), [[0.0, 1.0]])
    assert_allclose(model.predict_proba([[0]]), [[1 / (1 + np.exp(-2)), np.exp(-2) / (1 + np.exp(-2))]])


def test_columns_far_from_zero_keep_their_digits():
    rng = np.random.default_rng(4)
    X = np.round(rng.normal(size=(5_000, 1)) * 2**10) / 2**10
    y = rng.integers(0, 2, 5_000)
    assert_allclose(MixedNB().fit(X + 1e8, y).var_, MixedNB().fit(X, y).var_, rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "kinds", "words"),
    [
        ({"visits": -1}, KINDS, "column 'visits' contains -1 in row 0, which is not a count"),
        ({"income": np.inf}, None, "inf in column 'income', row 0"),
        ({"income": 1e200}, None, "too large to be squared, in column 'income'"),
        ({"income": 3.0}, {"income": "binary"}, "column 'income' contains 3 in row 0, which is neither 0 nor 1"),
        ({}, {"wages": "normal"}, "the unknown column 'wages'"),
        ({}, {"income": "text"}, "'text'"),
        ({"town": "Köln"}, {"town": "normal"}, "column 'town' contains the text 'Köln' in row 0"),
    ],
)
def test_what_a_kind_does_not_allow_is_told(change, kinds, words):
    frame, y, _ = people(gaps=0.0)
    with pytest.raises((DataError, ParameterError), match=words):
        MixedNB(kinds=kinds).fit(frame.assign(**change), y)


def test_dates_and_objects_are_refused():
    frame, y, _ = people(gaps=0.0)
    with pytest.raises(DataTypeError, match="'when' contains dates"):
        MixedNB().fit(frame.assign(when=pd.Timestamp("2020")), y)
    strange = frame.assign(town=[["Ulm"]] * len(frame))
    with pytest.raises(DataTypeError, match="'town' contains a list in row 0"):
        MixedNB().fit(strange, y)
    model = MixedNB().fit(frame, y)
    with pytest.raises(DataError, match="'town' contains the number 3 in row 0, but text in training"):
        model.predict(frame.assign(town=3))
    with pytest.raises(DataError, match="'income' contains the text 'much' in row 0"):
        model.predict(frame.assign(income="much"))


def test_arrays_of_objects_and_nested_lists_with_text():
    rows = [["red", 1.0], ["red", 1.2], ["blue", 3.0], [None, 3.1]]
    y = [0, 0, 1, 1]
    for table in (rows, np.array(rows, dtype=object)):
        model = MixedNB().fit(table, y)
        assert model.kinds_ == ["category", "normal"]
        assert_array_equal(model.predict(table), y)


def test_pickles_and_clones():
    frame, y, w = people()
    model = MixedNB(kinds=KINDS).fit(frame, y, sample_weight=w)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert_array_equal(clone(model).fit(frame, y, sample_weight=w).predict_proba(frame), model.predict_proba(frame))


def test_polars_frames_keep_their_names():
    import polars

    frame, y, _ = people(gaps=0)
    frame["grade"] = frame["grade"].astype(object)
    model = MixedNB(kinds=KINDS).fit(polars.from_pandas(frame), y)
    assert_array_equal(model.feature_names_in_, frame.columns)
    assert_array_equal(model.predict(polars.from_pandas(frame)), MixedNB(kinds=KINDS).fit(frame, y).predict(frame))
