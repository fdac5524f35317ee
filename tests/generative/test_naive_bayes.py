"""Naive Bayes: against its definition, scikit-learn, and itself in parts, folds, weights and threads."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn import naive_bayes as peers
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, StratifiedKFold

from assay.errors import AssayWarning, DataError, ParameterError
from assay.generative.mixed import MixedNB
from assay.generative.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
from assay.numerics import threads
from assay.resampling import AllButOne


def table(kind: str, n: int = 90, p: int = 5, K: int = 3, seed: int = 0):
    """Rows of three classes that differ in every column, and weights."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    if kind == "numbers":
        X = rng.normal(size=(n, p)) * np.arange(1, p + 1) + 0.7 * y[:, None]
    elif kind == "counts":
        X = rng.poisson(0.5 + (y[:, None] + np.arange(p)) % K).astype(float)
    else:
        X = np.minimum(rng.poisson(0.5 + (y[:, None] + np.arange(p)) % K), 4).astype(float)
    return X, np.array(["ant", "bee", "cat", "dog"])[y], rng.uniform(0.5, 2.0, n)


FAMILY = {
    "gaussian": (GaussianNB(), peers.GaussianNB(), "numbers"),
    "bernoulli": (BernoulliNB(), peers.BernoulliNB(), "numbers"),
    "bernoulli, cut, no prior": (
        BernoulliNB(alpha=0.3, binarize=1.0, fit_prior=False),
        peers.BernoulliNB(alpha=0.3, binarize=1.0, fit_prior=False),
        "counts",
    ),
    "multinomial": (MultinomialNB(), peers.MultinomialNB(), "counts"),
    "multinomial, alpha by column": (
        MultinomialNB(alpha=[0.5, 1.0, 2.0, 0.1, 3.0], class_prior=[0.2, 0.5, 0.3]),
        peers.MultinomialNB(alpha=[0.5, 1.0, 2.0, 0.1, 3.0], class_prior=[0.2, 0.5, 0.3]),
        "counts",
    ),
    "categorical": (CategoricalNB(), peers.CategoricalNB(), "categories"),
    "categorical, more of them": (
        CategoricalNB(alpha=0.5, min_categories=9),
        peers.CategoricalNB(alpha=0.5, min_categories=9),
        "categories",
    ),
}
family = pytest.mark.parametrize("name", FAMILY)


def own(name):
    ours, peer, kind = FAMILY[name]
    return clone(ours), clone(peer), *table(kind)


# The definition.


def naive(X, y, density, prior=None):
    """Posteriors by the definition, one row, class and column at a time, in logarithms."""
    classes = sorted(set(y))
    out = []
    for x in X:
        joint = []
        for k, label in enumerate(classes):
            rows = [a for a, b in zip(X, y, strict=True) if b == label]
            log_prior = math.log(len(rows) / len(y)) if prior is None else math.log(prior[k])
            joint.append(log_prior + math.fsum(density(x, j, rows) for j in range(len(x))))
        top = max(joint)
        total = math.fsum(math.exp(v - top) for v in joint)
        out.append([math.exp(v - top) / total for v in joint])
    return np.array(out)


def test_gaussian_is_its_definition():
    X, y, _ = table("numbers", 30)
    epsilon = 1e-9 * X.var(axis=0).max()

    def density(x, j, rows):
        column = [row[j] for row in rows]
        return stats.norm.logpdf(x[j], np.mean(column), math.sqrt(np.var(column) + epsilon))

    assert_allclose(GaussianNB().fit(X, y).predict_proba(X), naive(X, y, density), rtol=1e-10, atol=1e-14)


def test_bernoulli_is_its_definition_with_laplaces_rule():
    X, y, _ = table("numbers", 30)
    B = (X > 0).astype(float)

    def density(x, j, rows):
        p = (sum(row[j] for row in rows) + 1) / (len(rows) + 2)  # (n1 + 1) / (N + 2)
        return math.log(p if x[j] else 1 - p)

    assert_allclose(BernoulliNB().fit(X, y).predict_proba(X), naive(B, y, density), rtol=1e-12)


def test_multinomial_is_its_definition():
    X, y, _ = table("counts", 30)

    def density(x, j, rows):
        p = (sum(row[j] for row in rows) + 1) / (sum(map(sum, rows)) + X.shape[1])
        return x[j] * math.log(p)

    assert_allclose(MultinomialNB().fit(X, y).predict_proba(X), naive(X, y, density), rtol=1e-12)


def test_categorical_is_its_definition():
    X, y, _ = table("categories", 30)
    sizes = X.max(axis=0) + 1

    def density(x, j, rows):
        return math.log((sum(row[j] == x[j] for row in rows) + 1) / (len(rows) + sizes[j]))

    assert_allclose(CategoricalNB().fit(X, y).predict_proba(X), naive(X, y, density), rtol=1e-12)


# scikit-learn.


@family
@pytest.mark.parametrize("weighted", [False, True])
def test_posteriors_agree_with_scikit_learn(name, weighted):
    ours, peer, X, y, w = own(name)
    weights = {"sample_weight": w} if weighted else {}
    ours.fit(X, y, **weights)
    peer.fit(X, y, **weights)
    # Weighted, scikit-learn's smoothing of variances ignores the weights: a share of 1e-9.
    tolerance = 1e-8 if weighted and name == "gaussian" else 1e-11
    for method in ("predict_proba", "predict_log_proba", "predict_joint_log_proba"):
        assert_allclose(getattr(ours, method)(X), getattr(peer, method)(X), rtol=tolerance, atol=tolerance)
    assert_array_equal(ours.predict(X), peer.predict(X))
    assert_allclose(ours.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
    for attribute in ("class_count_", "theta_", "feature_count_", "feature_log_prob_", "class_log_prior_", "classes_"):
        if hasattr(peer, attribute) and not name.startswith("categorical"):
            mine, its = getattr(ours, attribute), getattr(peer, attribute)
            assert_array_equal(mine, its) if mine.dtype.kind == "U" else assert_allclose(mine, its, rtol=1e-9)
    if name.startswith("categorical"):
        assert_array_equal(ours.n_categories_, peer.n_categories_)
        for mine, its in zip(ours.category_count_, peer.category_count_, strict=True):
            assert_allclose(mine, its)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("name", [name for name in FAMILY if ("ial" in name and "categ" not in name) or "bern" in name])
def test_sparse_rows_are_dense_rows_and_stay_sparse(name, kind, monkeypatch):
    ours, _, X, y, w = own(name)
    dense = clone(ours).fit(X, y, sample_weight=w)
    for maker in (sparse.coo_array, sparse.coo_matrix):
        S = maker(X).asformat(kind)
        with monkeypatch.context() as patched:
            for which in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix):
                patched.setattr(which, "toarray", lambda self, *a, **k: pytest.fail("made dense"))
            fitted = clone(ours).fit(S, y, sample_weight=w)
            assert_allclose(fitted.predict_proba(S), dense.predict_proba(X), rtol=1e-12)
            assert_allclose(fitted.feature_count_, dense.feature_count_, rtol=1e-13)


def test_one_alpha_per_column_of_bernoulli():
    X, y, _ = table("numbers")
    alpha = np.array([0.5, 1.0, 2.0, 0.0, 3.0])
    model = BernoulliNB(alpha=alpha).fit(X, y)
    for k, label in enumerate(model.classes_):
        ones = (X[y == label] > 0).sum(axis=0)
        assert_allclose(np.exp(model.feature_log_prob_[k]), (ones + alpha) / ((y == label).sum() + 2 * alpha))


@pytest.mark.parametrize("load", [load_iris, load_digits])
def test_real_tables_agree_with_scikit_learn(load):
    X, y = load(return_X_y=True)
    pairs = [(GaussianNB(), peers.GaussianNB()), (MultinomialNB(), peers.MultinomialNB())]
    pairs.append((BernoulliNB(binarize=3.0), peers.BernoulliNB(binarize=3.0)))
    for ours, peer in pairs:
        ours.fit(X, y)
        peer.fit(X, y)
        assert_allclose(ours.predict_proba(X), peer.predict_proba(X), rtol=1e-8, atol=1e-8)


# Weights, parts and folds.


@family
def test_weights_are_repetitions(name):
    ours, _, X, y, _ = own(name)
    times = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = clone(ours).fit(X, y, sample_weight=times)
    repeated = clone(ours).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-9, atol=1e-12)


@family
def test_parts_in_any_order_are_the_whole(name):
    ours, _, X, y, w = own(name)
    whole = clone(ours).fit(X, y, sample_weight=w)
    for seed in range(3):
        parts = np.array_split(np.random.default_rng(seed).permutation(len(y)), 7)
        model = clone(ours)
        for part in parts:
            model.partial_fit(X[part], y[part], classes=["ant", "bee", "cat"], sample_weight=w[part])
        assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-9, atol=1e-13)
    by_class = clone(ours)
    for label in ("cat", "ant", "bee"):  # parts that lack whole classes
        by_class.partial_fit(X[y == label], y[y == label], classes=["ant", "bee", "cat"], sample_weight=w[y == label])
    assert_allclose(by_class.predict_proba(X), whole.predict_proba(X), rtol=1e-9, atol=1e-13)


def test_parts_do_not_forget_and_a_fit_does():
    X, y, _ = table("numbers")
    grown = GaussianNB().fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert_allclose(grown.theta_, GaussianNB().fit(X, y).theta_)
    assert_array_equal(grown.fit(X[:50], y[:50]).theta_, GaussianNB().fit(X[:50], y[:50]).theta_)


def test_a_class_without_rows_so_far_is_never_predicted():
    X, y, _ = table("numbers")
    known = y != "cat"
    for model in (GaussianNB(), GaussianNB(priors=[0.1, 0.1, 0.8]), BernoulliNB(), CategoricalNB(alpha=0)):
        Z = np.abs(np.round(X))
        model.partial_fit(Z[known], y[known], classes=["ant", "bee", "cat"])
        chance = model.predict_proba(Z)
        assert (chance[:, 2] == 0).all()
        assert_allclose(chance.sum(axis=1), 1.0)


def test_partial_fit_says_what_it_needs():
    X, y, _ = table("numbers")
    with pytest.raises(DataError, match="classes="):
        GaussianNB().partial_fit(X, y)
    with pytest.raises(DataError, match=r"'cat' in row \d+"):
        GaussianNB().partial_fit(X, y, classes=["ant", "bee"])
    model = GaussianNB().partial_fit(X, y, classes=["ant", "bee", "cat"])
    with pytest.raises(DataError, match="differs"):
        model.partial_fit(X, y, classes=["ant", "bee"])
    with pytest.raises(DataError, match="not among"):
        model.partial_fit(X, np.zeros(len(y), dtype=int))


SPLITS = {
    "folds": KFold(5),
    "shuffled": KFold(4, shuffle=True, random_state=0),
    "two": KFold(2, shuffle=True, random_state=1),
    "repeats": RepeatedKFold(n_splits=3, n_repeats=3, random_state=0),
}


@family
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize("cv", SPLITS)
def test_folds_from_summaries_are_fits_to_the_rows(name, method, cv):
    ours, _, X, y, w = own(name)
    splits = list(SPLITS[cv].split(X))
    for weights in (None, w):
        found = ours.predict_folds(X, y, splits, sample_weight=weights, method=method)
        assert found is not None
        assert len(found) == len(splits)
        for answer, (train, test) in zip(found, splits, strict=True):
            fitted = clone(ours).fit(X[train], y[train], sample_weight=None if weights is None else weights[train])
            expected = getattr(fitted, method)(X[test])
            if method == "predict":
                assert_array_equal(answer, expected)
            else:
                assert_allclose(answer, expected, rtol=1e-9, atol=1e-13)
    assert not hasattr(ours, "classes_")


def test_folds_of_sparse_rows_masks_and_rows_without_weight():
    X, y, w = table("counts")
    w[::5] = 0.0
    splits = list(KFold(5, shuffle=True, random_state=0).split(X))
    masks = [(np.isin(np.arange(len(y)), train), np.isin(np.arange(len(y)), test)) for train, test in splits]
    S = sparse.csr_array(X)
    found = MultinomialNB().predict_folds(S, y, masks, sample_weight=w, method="predict_proba")
    for answer, (train, test) in zip(found, splits, strict=True):
        expected = MultinomialNB().fit(X[train], y[train], sample_weight=w[train]).predict_proba(X[np.sort(test)])
        assert_allclose(answer, expected, rtol=1e-10)


def test_folds_of_categories_that_a_training_part_lacks():
    X, y, _ = table("categories")
    X[3, 1] = 11.0  # in one fold only: unseen by the fit that is asked about it
    splits = list(KFold(6).split(X))
    found = CategoricalNB().predict_folds(X, y, splits, method="predict_proba")
    for answer, (train, test) in zip(found, splits, strict=True):
        assert_allclose(answer, CategoricalNB().fit(X[train], y[train]).predict_proba(X[test]), rtol=1e-10)


def test_folds_are_left_to_fits_where_summaries_cannot_tell():
    X, y, _ = table("numbers")
    assert GaussianNB().predict_folds(X, y, list(ShuffleSplit(4, random_state=0).split(X))) is None
    assert GaussianNB().predict_folds(X, y, AllButOne(len(y))) is None
    lonely = y.copy()
    lonely[0] = "dog"
    assert GaussianNB().predict_folds(X, lonely, list(KFold(5).split(X))) is None
    still = X.copy()
    still[y == "ant", 0] = 1.0
    assert GaussianNB(var_smoothing=0.0).predict_folds(still, y, list(KFold(5).split(X))) is None

    class Loud(GaussianNB):
        def predict(self, X):
            return super().predict(X)

    assert Loud().predict_folds(X, y, list(KFold(5).split(X))) is None
    with pytest.raises(ParameterError, match="method"):
        GaussianNB().predict_folds(X, y, list(KFold(5).split(X)), method="score")


def test_an_outlier_in_a_test_fold_does_not_reach_its_training_part():
    """Subtracting it would leave nothing of the others' digits."""
    X, y, _ = table("numbers")
    wild = X.copy()
    wild[4] *= 1e15
    splits = list(StratifiedKFold(5).split(X, y))
    found = GaussianNB().predict_folds(wild, y, splits, method="predict_proba")
    at = next(k for k, (_, test) in enumerate(splits) if 4 in test)
    train, test = splits[at]
    assert_allclose(found[at], GaussianNB().fit(X[train], y[train]).predict_proba(wild[test]), rtol=1e-9, atol=1e-13)


# Numbers.


def test_columns_far_from_zero_keep_their_digits():
    rng = np.random.default_rng(5)
    base = np.round(rng.normal(size=(20_000, 3)), 3)
    base = np.round(base * 2**10) / 2**10  # so that adding 1e8 changes no digit
    y = rng.integers(0, 2, len(base))
    base[:, 0] += np.where(y, 0.5, 0.0)
    near = GaussianNB().fit(base, y)
    far = GaussianNB().fit(base + 1e8, y)
    assert_allclose(far.var_, near.var_, rtol=1e-9)  # a mean near 1e8 is rounded to 1.5e-8
    assert_allclose(far.theta_ - 1e8, near.theta_, atol=2e-8)
    parts = GaussianNB()
    for rows in np.array_split(np.arange(len(y)), 13):
        parts.partial_fit(base[rows] + 1e8, y[rows], classes=[0, 1])
    assert_allclose(parts.var_, near.var_, rtol=1e-9)
    assert_allclose(far.predict_proba(base + 1e8), near.predict_proba(base), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("p", [1_000, 100_000])
def test_many_columns_do_not_underflow(p):
    rng = np.random.default_rng(6)
    y = np.arange(12) % 2
    X = rng.normal(size=(12, p)) + 0.3 * y[:, None]
    counts = rng.poisson(1.0 + y[:, None] * (np.arange(p) % 2), size=(12, p)).astype(float)
    models = [(GaussianNB(), X), (BernoulliNB(), X), (MultinomialNB(), counts)]
    models += [(CategoricalNB(), counts)] if p == 1_000 else []  # a table per column: slow to compare, not to underflow
    for model, table in models:
        logs = model.fit(table, y).predict_log_proba(table)
        assert np.isfinite(logs).all()
        assert_allclose(model.predict_proba(table).sum(axis=1), 1.0, rtol=1e-12)
        assert_array_equal(model.predict(table), y)
        assert_allclose(model.predict_joint_log_proba(table), _peer(model).fit(table, y).predict_joint_log_proba(table))
    assert np.abs(GaussianNB().fit(X, y).predict_joint_log_proba(X)).max() > 745  # a density of exp(-745) is zero


def _peer(model):
    return getattr(peers, type(model).__name__)()


def test_the_decision_function_has_scikit_learns_shapes_and_signs():
    X, y, _ = table("numbers")
    three = GaussianNB().fit(X, y)
    assert three.decision_function(X).shape == (len(y), 3)
    two = GaussianNB().fit(X, y == "bee")
    odds = two.decision_function(X)
    assert odds.shape == (len(y),)
    assert_array_equal(odds > 0, two.predict(X))
    assert_allclose(1 / (1 + np.exp(-odds)), two.predict_proba(X)[:, 1], rtol=1e-10)


def test_threads_never_change_a_bit(monkeypatch):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr("assay.generative._diagonal.TASK_CELLS", 1 << 10)
    monkeypatch.setattr("assay.generative._naive.BLOCK", 64)
    monkeypatch.setattr("assay.generative._categorical_nb.PART_ROWS", 64)
    kinds = {"gaussian": "numbers", "bernoulli": "numbers", "multinomial": "counts", "categorical": "categories"}
    for name, kind in kinds.items():
        X, y, w = table(kind, 3_000)
        if name == "multinomial":
            X = sparse.csr_array(X)
        seen = []
        for number in (1, 2, 5):
            monkeypatch.setattr(threads, "cores", lambda number=number: number)
            model = clone(FAMILY[name][0]).fit(X, y, sample_weight=w)
            folds = model.predict_folds(X, y, list(KFold(5).split(w)), sample_weight=w, method="predict_proba")
            seen.append((model.predict_proba(X).tobytes(), np.concatenate(folds).tobytes()))
        assert seen[0] == seen[1] == seen[2], name


@family
def test_layouts_and_dresses(name):
    ours, _, X, y, _ = own(name)
    expected = clone(ours).fit(X, y).predict_proba(X)
    closed = X.copy()
    closed.setflags(write=False)
    for dressed in (
        closed,
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        pd.DataFrame(X).add_prefix("c"),
        X.tolist(),
    ):
        assert_allclose(clone(ours).fit(dressed, y).predict_proba(dressed), expected, rtol=1e-12)
    again = pickle.loads(pickle.dumps(clone(ours).fit(X, y)))
    assert_array_equal(again.predict_proba(X), expected)
    again.partial_fit(X, y)


# Smoothing, priors and what cannot be.


@pytest.mark.parametrize("sparsely", [False, True])
def test_without_smoothing_a_word_may_rule_a_class_out(sparsely):
    X, y = np.array([[2.0, 0, 1], [1, 0, 0], [0, 3, 1], [0, 1, 0]]), np.array(["a", "a", "b", "b"])
    new = np.array([[1.0, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 0], [0, 0, 1]])
    make = sparse.csr_array if sparsely else np.asarray
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MultinomialNB(alpha=0).fit(make(X), y)
        chance = model.predict_proba(make(new))
        logs = model.predict_log_proba(make(new))
        absent = BernoulliNB(alpha=0).fit(make(X), y)
        there = absent.predict_proba(make(new))
    assert_allclose(np.exp(model.feature_log_prob_), [[0.75, 0, 0.25], [0, 0.8, 0.2]])
    assert_array_equal(chance[:4], [[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]])  # ruled out by both, and empty: the prior
    assert_allclose(chance[4], [0.25 / 0.45, 0.2 / 0.45])
    assert_array_equal(np.isneginf(logs[:2]), [[False, True], [True, False]])
    # All of a have the first word and none the second: b needs the second and not the first.
    assert_array_equal(there, [[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    assert_array_equal(model.predict(make(new)), ["a", "b", "a", "a", "a"])
    odds = absent.decision_function(make(new))
    assert odds[0] == -np.inf
    assert odds[1] == np.inf


def test_a_zero_prior_is_never_predicted():
    for name in ("gaussian", "bernoulli", "multinomial", "categorical"):
        ours, _, X, y, _ = own(name)
        key = "priors" if name == "gaussian" else "class_prior"
        model = ours.set_params(**{key: [0.5, 0.0, 0.5]}).fit(X, y)
        chance = model.predict_proba(X)
        assert (chance[:, 1] == 0).all()
        assert "bee" not in model.predict(X)
        assert_allclose(chance.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("priors", "words"),
    [
        ([0.5, 0.5], "2"),
        ([0.5, 0.6, 0.5], "sums to 1.6"),
        ([0.5, -0.5, 1.0], "'bee' is -0.5"),
        (["a", 1, 2], "number"),
    ],
)
def test_priors_that_are_none(priors, words):
    X, y, _ = table("counts")
    for model in (GaussianNB(priors=priors), MultinomialNB(class_prior=priors), MixedNB(priors=priors)):
        with pytest.raises(ParameterError, match=words):
            model.fit(X, y)


def test_a_row_that_no_class_can_have_made_gets_the_prior():
    X, y, _ = table("numbers")
    model = GaussianNB(priors=[0.1, 0.7, 0.2]).fit(X, y)
    beyond = np.full((1, 5), 1e152)
    tight = GaussianNB(priors=[0.1, 0.7, 0.2]).fit(X * 1e-5, y)
    assert_allclose(tight.predict_proba(beyond), [[0.1, 0.7, 0.2]])
    assert tight.predict(beyond) == ["bee"]
    assert np.isfinite(model.predict_proba(X)).all()


def test_negative_counts_are_told_by_column_and_row():
    X, y, _ = table("counts")
    X[7, 2] = -1.0
    frame = pd.DataFrame(X, columns=list("abcde"))
    for model in (MultinomialNB(), CategoricalNB()):
        with pytest.raises(DataError, match=r"column 'c' contains -1 in row 7; give counts of at least 0"):
            model.fit(frame, y)
    with pytest.raises(DataError, match=r"column 2 contains -1 in row 7"):
        MultinomialNB().fit(sparse.csr_array(X), y)
    fitted = MultinomialNB().fit(np.abs(X), y)
    with pytest.raises(DataError, match="row 7"):
        fitted.predict(X)


def test_an_unseen_category_says_nothing():
    X, y, _ = table("categories")
    model = CategoricalNB().fit(X, y)
    new = X.copy()
    new[:, 2] = 99.0
    without = CategoricalNB().fit(np.delete(X, 2, axis=1), y)
    assert_allclose(model.predict_proba(new), without.predict_proba(np.delete(X, 2, axis=1)), rtol=1e-12)
    assert_allclose(model.predict_proba(np.full((1, 5), 99.0)), [model.class_count_ / len(y)])


def test_what_is_no_category_is_told():
    X, y, _ = table("categories")
    X[5, 1] = 0.5
    with pytest.warns(AssayWarning, match=r"column 1 contains 0\.5 in row 5, read as category 0; code"):
        CategoricalNB().fit(X, y)
    X[5, 1] = 2.0**30
    with pytest.raises(DataError, match="categories up to 1073741824"):
        CategoricalNB().fit(X, y)
    with pytest.raises(ParameterError, match="min_categories"):
        CategoricalNB(min_categories=[1, 2]).fit(np.round(X) % 3, y)


def test_zero_and_one_are_asked_for_where_nothing_is_cut():
    X, y, _ = table("counts")
    with pytest.raises(DataError, match=r"column \d contains \d in row \d+, which is neither 0 nor 1"):
        BernoulliNB(binarize=None).fit(X, y)
    B = (X > 0).astype(float)
    assert_allclose(BernoulliNB(binarize=None).fit(B, y).predict_proba(B), BernoulliNB().fit(X, y).predict_proba(X))


def test_variances_of_zero():
    X, y, _ = table("numbers")
    X[y == "ant", 1] = 4.0
    with pytest.raises(DataError, match=r"column 1 does not vary in class 'ant'.*var_smoothing above 0"):
        GaussianNB(var_smoothing=0.0).fit(X, y)
    assert np.isfinite(GaussianNB().fit(X, y).predict_log_proba(X)).all()
    constant = np.full((6, 2), 3.0)
    flat = GaussianNB().fit(constant, ["a", "a", "b", "b", "b", "b"])
    assert_allclose(flat.predict_proba([[3.0, 3.0], [-50.0, 8.0]]), [[1 / 3, 2 / 3]] * 2)
    single = GaussianNB().fit([[0.0], [1.0], [5.0]], ["a", "a", "b"])  # a class of one row
    assert single.predict([[5.0], [0.4]]).tolist() == ["b", "a"]


def test_a_table_too_wide_for_its_squares_is_told():
    X = np.array([[1e152, 1.0]] * 200 + [[-1e152, 2.0]] * 200)
    with pytest.raises(DataError, match=r"column 0 has a range that overflows"):
        GaussianNB().fit(np.repeat(X, 50, axis=0), np.arange(20_000) % 2)


def test_one_class_is_refused():
    with pytest.raises(DataError, match="only one class"):
        MultinomialNB().fit([[1.0], [2.0]], ["a", "a"])
