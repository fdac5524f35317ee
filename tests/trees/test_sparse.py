"""Sparse tables: every tree, forest and boosted model is the one of X.toarray(), to the last bit."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier as PeerTree
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

from assay.errors import AssayError, DataError, DataTypeError
from assay.evaluation import partial_dependence, permutation_importance
from assay.trees import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    _sparse,
)
from assay.trees._binning import bin_table
from assay.trees._sparse import SparseTable, canonical, dense_blocks

# A few trees are enough here, and early stopping says that they are few.
pytestmark = pytest.mark.filterwarnings("ignore::assay.errors.ConvergenceWarning")

MODELS = [
    DecisionTreeRegressor(),
    DecisionTreeRegressor(criterion="absolute_error", max_leaf_nodes=9),
    DecisionTreeRegressor(splitter="hist", max_bins=6),
    DecisionTreeClassifier(categorical_features=[2, 4], max_features=3, random_state=0),
    DecisionTreeClassifier(categorical_features=[2, 4], multiway=True),
    PrunedTreeRegressor(cv=3, random_state=0),
    PrunedTreeClassifier(cv=3, splitter="hist", random_state=0),
    BaggingRegressor(n_estimators=6, random_state=0),
    BaggingRegressor(n_estimators=6, max_features=0.5, random_state=0),
    BaggingClassifier(DecisionTreeClassifier(splitter="hist"), n_estimators=6, random_state=0),
    RandomForestRegressor(8, random_state=0),
    RandomForestClassifier(8, categorical_features=[2, 4], random_state=0),
    RandomForestClassifier(8, splitter="exact", class_weight="balanced", random_state=0),
    GradientBoostingRegressor(n_estimators=8, early_stopping=True, subsample=0.7, random_state=0),
    GradientBoostingClassifier(n_estimators=6, max_bins=7, early_stopping="cv", cv=3, random_state=0),
    GradientBoostingClassifier(n_estimators=6, max_features=0.5, categorical_features=[2, 4], random_state=0),
]


def name(model: Any) -> str:
    changed = [f"{k}={v}" for k, v in model.get_params(deep=False).items() if k in ("splitter", "multiway", "cv")]
    return f"{type(model).__name__}-{'-'.join(changed)}"


def messy(n: int = 160, p: int = 9, seed: int = 0) -> tuple[Any, np.ndarray]:
    """A table with most that can be in one (COO: repeats, stored zeros of both signs, gaps, nothing in column 5)."""
    rng = np.random.default_rng(seed)
    size = n * p // 3
    row, column = rng.integers(n, size=size), rng.integers(p, size=size)
    column[column == 5] = 6
    value = np.round(rng.normal(size=size), 1)
    value[column == 2] = np.abs(np.round(value[column == 2] * 2))  # codes from 0 on
    value[column == 4] = np.round(value[column == 4])  # negative ones too
    value[:30], value[30:40], value[40:50] = 0.0, -0.0, np.nan
    S = sparse.coo_array((value, (row, column)), shape=(n, p))
    return S, S.toarray()


def target(X: np.ndarray, model: Any) -> np.ndarray:
    rng = np.random.default_rng(1)
    f = np.nan_to_num(X)
    y = f[:, 0] + 2.0 * (f[:, 1] > 0.0) + (f[:, 4] < 0.0) + 0.3 * rng.normal(size=len(X))
    return np.digitize(y, np.quantile(y, [0.4, 0.8])) if is_classifier(model) else y


def weights(n: int) -> np.ndarray:
    w = np.random.default_rng(2).uniform(size=n)
    w[::7] = 0.0
    return w


def assert_same(one: Any, other: Any) -> None:
    """Every attribute of two fitted models, nodes and all, bit by bit (but for objects without a value)."""
    for key, value in vars(one).items():
        twin = getattr(other, key)
        if isinstance(value, np.ndarray):
            assert_array_equal(value, twin, err_msg=key)
        elif key in ("nodes_", "full_nodes_", "_voting"):
            for part, array in vars(value).items():
                assert_array_equal(array, getattr(twin, part), err_msg=part)
        elif key in ("_mark", "n_estimators_", "max_features_", "alpha_", "oob_score_"):
            assert value == twin
        elif key == "oob_error_":
            assert (value.estimate, value.lower, value.upper) == (twin.estimate, twin.lower, twin.upper)
        elif key == "estimators_":
            for a, b in zip(value, twin, strict=True):
                assert_same(a, b)


ANSWERS = ("predict", "predict_proba", "decision_function", "apply", "decision_path")


def assert_answers_alike(one: Any, X: Any, other: Any, Z: Any) -> None:
    for method in ANSWERS:
        if hasattr(one, method):
            a, b = getattr(one, method)(X), getattr(other, method)(Z)
            assert_array_equal(a.toarray() if sparse.issparse(a) else a, b.toarray() if sparse.issparse(b) else b)
    for method in ("staged_predict", "staged_predict_proba"):
        if hasattr(one, method):
            for a, b in zip(getattr(one, method)(X), getattr(other, method)(Z), strict=True):
                assert_array_equal(a, b)


# The same model.


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=name)
def test_a_fit_is_that_of_the_dense_table(model, weighted):
    S, X = messy()
    y, w = target(X, model), weights(len(X)) if weighted else None
    dense = clone(model).fit(X, y, sample_weight=w)
    thin = clone(model).fit(S, y, sample_weight=w)
    assert_same(dense, thin)
    for Z in (S, sparse.csr_matrix(X), sparse.csc_array(X)):
        assert_answers_alike(dense, X, thin, Z)
        assert_answers_alike(dense, X, dense, Z)
    assert_answers_alike(dense, X, thin, X)


@pytest.mark.parametrize("model", MODELS, ids=name)
def test_threads_and_small_blocks_change_nothing(model, monkeypatch):
    S, X = messy()
    y = target(X, model)
    once = clone(model).fit(S, y)
    monkeypatch.setattr(_sparse, "BLOCK_CELLS", 1)
    again = clone(model).set_params(n_jobs=2).fit(S, y)
    assert_same(once, again)
    assert_answers_alike(once, S, again, S)


@pytest.mark.parametrize("model", [RandomForestRegressor(9, random_state=0), RandomForestClassifier(9, random_state=0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_shuffled_columns_out_of_bag(model, weighted, monkeypatch):
    monkeypatch.setattr(_sparse, "BLOCK_CELLS", 300)
    S, X = messy()
    y, w = target(X, model), weights(len(X)) if weighted else None
    dense = clone(model).fit(X, y, w).permutation_importance(X, y, w, n_repeats=2)
    forest = clone(model).fit(S, y, w)
    for table in (S, sparse.csc_array(X), X):  # rows are known again in any dress
        thin = forest.permutation_importance(table, y, w, n_repeats=2)
        for part in ("importance", "std_error", "draws"):
            assert_array_equal(getattr(thin, part), getattr(dense, part))
        assert thin.baseline == dense.baseline
    changed = S.tolil()
    changed[3, 5] = 1.0
    with pytest.raises(DataError, match="differ from those of fit"):
        forest.permutation_importance(changed, y, w)


def test_warm_start_goes_on_in_either_dress():
    S, X = messy()
    for model in (RandomForestRegressor(4, random_state=0), GradientBoostingRegressor(n_estimators=4, random_state=0)):
        y = target(X, model)
        whole = clone(model).set_params(n_estimators=8).fit(X, y)
        part = clone(model).set_params(warm_start=True).fit(S, y).set_params(n_estimators=8).fit(X, y)
        assert_array_equal(whole.predict(X), part.predict(S))


def test_what_looks_at_any_model_looks_at_these():
    X = messy()[1]
    S, model = sparse.csr_array(X), RandomForestRegressor(8, random_state=0)
    y = target(X, model)
    model.fit(S, y)
    dense, thin = (permutation_importance(model, table, y, random_state=0) for table in (X, S))
    assert_array_equal(dense.importance, thin.importance)
    dense, thin = (partial_dependence(model, table, 0, grid=[-1.0, 0.0, 1.0]) for table in (X, S))
    assert_array_equal(dense.average[0], thin.average[0])


def test_one_hot_columns_in_a_pipeline_and_other_learners_in_a_bag():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(list("uvwx"), 120), "b": rng.choice(list("pq"), 120)})
    y = np.where((frame["a"] == "u") & (frame["b"] == "p"), "yes", "no")
    thin = make_pipeline(OneHotEncoder(), RandomForestClassifier(10, random_state=0)).fit(frame, y)
    dense = make_pipeline(OneHotEncoder(sparse_output=False), RandomForestClassifier(10, random_state=0)).fit(frame, y)
    assert_array_equal(thin.predict_proba(frame), dense.predict_proba(frame))
    X = messy()[1]
    X = np.nan_to_num(X)
    bag = BaggingClassifier(PeerTree(), n_estimators=3, random_state=0)
    y = target(X, bag)
    thin = clone(bag).fit(sparse.dok_array(X), y)
    assert_array_equal(thin.predict(sparse.lil_array(X)), clone(bag).fit(X, y).predict(X))


# The same table, whatever the format.


def shaken(X: np.ndarray, kind: Any) -> Any:
    """The table with the entries of each row or column in disorder, three parts to each, and int64 indices."""
    rng = np.random.default_rng(3)
    base = sparse.coo_array(np.nan_to_num(X))
    row, column = (np.concatenate([part] * 3) for part in base.coords)
    value = np.concatenate([base.data * 0.1, base.data * 0.7, base.data * 1e9])
    along = row if kind is sparse.csr_array else column
    order = np.argsort(along + rng.uniform(0, 0.5, along.size))
    starts = np.concatenate([[0], np.cumsum(np.bincount(along, minlength=X.shape[kind is not sparse.csr_array]))])
    across = (column if kind is sparse.csr_array else row)[order]
    S = kind((value[order], across, starts), shape=X.shape)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    return S


FORMATS = ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")


@pytest.mark.filterwarnings("ignore:Constructing a DIA")
@pytest.mark.parametrize("kind", [f"{f} {c}" for f in FORMATS for c in ("array", "matrix")])
def test_formats(kind):
    form, family = kind.split()
    X = messy()[1]
    S = getattr(sparse, f"coo_{family}")(X).asformat(form)
    assert_array_equal(canonical(S).toarray(), X)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32, np.float64, np.longdouble])
def test_types_and_repeats_add_up_as_in_toarray(dtype):
    rng = np.random.default_rng(4)
    row, column, value = rng.integers(20, size=300), rng.integers(5, size=300), rng.normal(size=300) * 3
    S = sparse.coo_array((value.astype(dtype), (row, column)), shape=(20, 5))
    assert_array_equal(canonical(S).toarray(), S.toarray().astype(float))
    assert canonical(S).dtype == np.float64


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
def test_disorder_and_repeats_by_rows_and_by_columns(kind):
    S = shaken(messy()[1], kind)
    before = S.data.copy(), S.indices.copy(), S.indptr.copy()
    found = canonical(S)
    assert found.has_canonical_format
    assert (found.data != 0).all()
    assert_array_equal(found.toarray(), S.toarray())
    for part, kept in zip((S.data, S.indices, S.indptr), before, strict=True):
        assert_array_equal(part, kept)


def test_zeros_of_either_sign_and_room_to_spare():
    S = sparse.csr_array(([0.0, -0.0, 2.0, 99.0], [0, 1, 2, 0], [0, 2, 3]), shape=(2, 3))
    S.data, S.indices = np.append(S.data, 7.0), np.append(S.indices, 0)  # beyond the last row: not in the table
    found = canonical(S)
    assert found.nnz == 1
    assert_array_equal(found.toarray(), [[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    closed = sparse.csr_array(np.eye(4))
    for part in (closed.data, closed.indices, closed.indptr):
        part.flags.writeable = False
    assert all(part.flags.writeable for part in SparseTable(canonical(closed)).parts)


def test_a_table_is_asked_as_a_dense_one_is():
    S, X = messy()
    table = SparseTable(canonical(S))
    rows = np.array([5, 5, 0, 159])
    mask = np.arange(len(X)) % 3 == 0
    assert (len(table), table.shape, table.size) == (len(X), X.shape, X.size)
    for key in (rows, mask, slice(3, 9)):
        assert_array_equal(table[key].rows.toarray(), X[key])
    for j in range(X.shape[1]):
        assert_array_equal(table[:, j], X[:, j])
    assert_array_equal(table[rows, np.array([0, 5, 2, 8])], X[rows, [0, 5, 2, 8]])
    assert table[rows[:0], rows[:0]].size == 0
    other = {0: np.arange(160.0), 5: np.full(160, np.nan), 8: np.zeros(160)}
    changed = X.copy()
    changed[:, [0, 5, 8]] = np.column_stack(list(other.values()))
    assert_array_equal(table.with_columns(other).rows.toarray(), changed)
    for at, block in dense_blocks(table, 7, 160):
        assert_array_equal(block, X[at : at + len(block)])


# The same bins.

cells = st.sampled_from([0.0, 0.0, 0.0, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3e-9, 1e300, -1e300, 5e-324, np.nan])


@given(
    X=hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=14), elements=cells),
    max_bins=st.integers(2, 5),
    seed=st.none() | st.integers(0, 99),
    category=st.booleans(),
    tails=st.sampled_from([0.0, 1 / 3]),
)
def test_bins_and_codes(X, max_bins, seed, category, tails):
    X = X + 0.0  # toarray() has no negative zeros
    levels = [0] * X.shape[1]
    if category:
        X[:, 0] = np.where(X[:, 0] > 0, np.ceil(np.minimum(X[:, 0], 3.0)), X[:, 0] * 0.0)
        levels[0] = 4
    w = None if seed is None else np.random.default_rng(seed).choice([0.0, 0.1, 0.7, 3.0], len(X))
    if w is not None and not w.any():
        w[0] = 1.0
    dense = bin_table(X, levels, w, max_bins=max_bins, tails=tails)
    thin = bin_table(SparseTable(canonical(sparse.csc_array(X))), levels, w, max_bins=max_bins, tails=tails)
    for part in ("cuts", "starts", "n_bins", "levels"):
        assert_array_equal(getattr(thin.bins, part), getattr(dense.bins, part), err_msg=part)
    assert_array_equal(thin.values, dense.values)
    assert thin.values.dtype == dense.values.dtype


@pytest.mark.parametrize("weighted", [False, True])
def test_bins_of_a_sample_and_wide_codes(weighted):
    n = 250_000  # quantiles are those of 200,000
    S = sparse.random_array((n, 4), density=0.3, rng=np.random.default_rng(5), format="csr") * 9.0 - 0.0
    S.data -= 4.0
    w = weights(n) if weighted else None
    for bins in (20, 500):
        dense = bin_table(S.toarray(), [0] * 4, w, max_bins=bins, n_jobs=2)
        thin = bin_table(SparseTable(canonical(S)), [0] * 4, w, max_bins=bins, n_jobs=2)
        assert_array_equal(thin.bins.cuts, dense.bins.cuts)
        assert_array_equal(thin.values, dense.values)
        assert thin.values.dtype == dense.values.dtype


# Categories.


@pytest.mark.parametrize("model", [DecisionTreeClassifier, RandomForestClassifier, GradientBoostingClassifier])
def test_categories_by_number(model):
    rng = np.random.default_rng(6)
    X = rng.choice([0.0, 0.0, 0.0, -2.0, 3.0, 7.0], size=(300, 3))
    y = np.isin(X[:, 1], [-2.0, 7.0])
    fit = model(categorical_features=[1], random_state=0).fit(sparse.csr_array(X), y)
    assert fit.levels_[0] is None
    assert_array_equal(fit.levels_[1], [-2.0, 0.0, 3.0, 7.0])
    assert (fit.predict(sparse.csr_array(X)) == y).all()
    never = sparse.csr_array(np.array([[0.0, 5.0, 0.0], [0.0, np.nan, 0.0]]))  # unseen is missing
    assert_array_equal(fit.predict_proba(never)[0], fit.predict_proba(never)[1])
    filled = X[X[:, 1] != 0.0]  # and 0 is unseen where training had none
    fit = model(categorical_features=[1], random_state=0).fit(sparse.csr_array(filled), np.isin(filled[:, 1], [-2, 7]))
    ask = sparse.csr_array(np.array([[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]]))
    assert_array_equal(fit.predict_proba(ask)[0], fit.predict_proba(ask)[1])


# Small, empty and bad tables.


@pytest.mark.parametrize("model", [m for m in MODELS if not isinstance(m, PrunedTreeRegressor | PrunedTreeClassifier)])
def test_nothing_stored_and_few_rows(model):
    if hasattr(model, "early_stopping"):
        model = clone(model).set_params(early_stopping=False)
    for X in (np.zeros((6, 9)), np.eye(6, 9)):
        y = np.array([0, 1, 0, 1, 0, 1]) if is_classifier(model) else np.arange(6.0)
        dense, thin = (clone(model).fit(table, y) for table in (X, sparse.coo_array(X)))
        assert_answers_alike(dense, X, thin, sparse.csc_array(X))
        assert_array_equal(thin.predict(sparse.csr_array(X[:1])), dense.predict(X[:1]))
    if not is_classifier(model) and not isinstance(model, BaggingRegressor):
        alone = clone(model).fit(sparse.csr_array(np.eye(1, 9)), [3.0])
        assert_array_equal(alone.predict(sparse.csr_array(np.eye(1, 9))), [3.0])


def bad(kind: str) -> tuple[Any, type[AssayError], str]:
    S, X = messy()
    if kind == "complex":
        return S.astype(complex), DataError, "Complex data not supported"
    if kind == "objects":
        thing = sparse.csr_array(np.eye(9))
        thing.data = thing.data.astype(object)
        return thing, DataTypeError, "sparse and contains object"
    if kind == "infinite":
        X[7, 3] = -np.inf
        X[9, 1] = np.inf
        return sparse.csc_array(X), DataError, "X contains inf in column 3, row 7"
    if kind == "no rows":
        return sparse.csr_array((0, 9)), DataError, "0 sample"
    if kind == "no columns":
        return sparse.csr_array((5, 0)), DataError, "0 feature"
    if kind == "a vector":
        return sparse.coo_array(np.arange(9.0)), DataError, "Expected 2D array, got 1D array instead: 9 values"
    broken = sparse.csr_array(np.eye(9))
    broken.indices[3] = 4000
    return broken, DataError, "do not match its shape"


KINDS = ("complex", "objects", "infinite", "no rows", "no columns", "a vector", "broken")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "model", [DecisionTreeRegressor(), BaggingRegressor(), RandomForestRegressor(), GradientBoostingRegressor()]
)
def test_one_sentence_for_what_cannot_be(model, kind):
    S, error, words = bad(kind)
    with pytest.raises(error, match=words):
        clone(model).fit(S, np.arange(S.shape[0] * 1.0))
    with pytest.raises(error, match=words):
        clone(model).fit(np.eye(12, 9), np.arange(12.0)).predict(S)


def test_other_columns_than_in_training():
    model = RandomForestRegressor(3, random_state=0).fit(sparse.eye_array(20, format="csr"), np.arange(20.0))
    with pytest.raises(DataError, match="X has 19 features, but RandomForestRegressor is expecting 20"):
        model.predict(sparse.csr_array((3, 19)))
    framed = RandomForestRegressor(3, random_state=0).fit(pd.DataFrame({"a": [0.0, 1.0, 2.0]}), [0.0, 1.0, 2.0])
    with pytest.warns(UserWarning, match="feature names"):
        framed.predict(sparse.csr_array([[1.0]]))


# What it costs.


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(splitter="hist", max_depth=3),
        RandomForestRegressor(2, max_depth=3, random_state=0),
        GradientBoostingRegressor(n_estimators=2, random_state=0),
    ],
)
def test_no_dense_table_of_numbers_is_made(model):
    n, p = 3000, 1000
    S = sparse.random_array((n, p), density=0.01, rng=np.random.default_rng(7), format="csr")
    S.data = np.ceil(S.data * 3)
    y = np.arange(n) % 7 * 1.0
    clone(model).fit(S[:100], y[:100]).predict(S[:100])  # compiled
    tracemalloc.start()
    fit = clone(model).fit(S, y)
    growing = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    fit.predict(S)
    asking = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert growing < 8 * n * p / 1.6  # codes: at most three bytes a cell, and room to work
    assert asking < 8 * n * p / 5


# scikit-learn's own checks of sparse tables; the others stand in each family's tests.


@pytest.mark.parametrize("model", MODELS, ids=name)
def test_the_tags_claim_it(model):
    assert get_tags(model).input_tags.sparse


CHECKED = [
    DecisionTreeRegressor(),
    DecisionTreeClassifier(splitter="hist"),
    PrunedTreeRegressor(cv=2),
    PrunedTreeClassifier(cv=2),
    BaggingRegressor(n_estimators=3),
    BaggingClassifier(n_estimators=3),
    RandomForestRegressor(3),
    RandomForestClassifier(3),
    GradientBoostingRegressor(n_estimators=3),
    GradientBoostingClassifier(n_estimators=3),
]
DRAWN = (BaggingRegressor, BaggingClassifier, RandomForestRegressor, RandomForestClassifier)


@pytest.mark.parametrize("model", CHECKED, ids=lambda model: type(model).__name__)
def test_scikit_learn_on_sparse_tables(model):
    ran = 0
    for estimator, check in estimator_checks_generator(model):
        title = check.func.__name__
        # Drawn rows equal repeated ones in distribution only, which the forests' own tests look at.
        if "sparse" in title and not ("weight_equivalence" in title and isinstance(model, DRAWN)):
            check(estimator)
            ran += 1
    assert ran >= 3
