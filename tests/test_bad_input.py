"""The bad-input grid: every estimator meets every kind of odd table, and gives a right answer or a good error.

Which of the two is expected stands in the tags (sparse tables, missing values, text) and in `REFUSED` (odd shapes and
scales), so that an estimator that begins to refuse, or ceases to, fails here.

A good error is one of `assay.errors`, names the column or the row where one is to blame, and says what to do. A
right answer is finite and of the right shape; it equals the one for the same numbers in plain float64 where
such a reference exists; and an estimator whose answer does not change when a table is multiplied by 8 keeps it when the
table is multiplied by 2^500. Nothing leaks: warnings are errors here, but for assay's own.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import get_tags

from assay.errors import AssayError, AssayWarning, DataTypeError
from assay.labels import class_codes
from tests.estimators import (
    QUICK,
    SLOW,
    answer,
    answers,
    draws_rows,
    easy,
    every,
    frame,
    label,
    takes_gaps,
    takes_sparse,
    takes_target,
    takes_text,
    takes_weights,
)

pytestmark = pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")

HUGE, TINY = 2.0**500, 2.0**-500  # about 3e150 and 3e-151; powers of two change no digit


def each(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test with every value of one argument, and show all that fail: a parametrization in one item."""

    def loop(test: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            failed = []
            for value in values:
                try:
                    test(**given, **{name: value})
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"{name}: {getattr(value, 'name', value)}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(list(values))} fail", failed)

        signature = inspect.signature(test)
        rest = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        run = wraps(test)(run)
        run.__signature__ = signature.replace(parameters=rest)
        return run

    return loop


def clean(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    return easy(estimator, 40, 4)


@cache
def fitted_on_clean(estimator: Any) -> tuple[Any, np.ndarray]:
    """Fitted on clean data, once per estimator, and its answer."""
    X, y = clean(estimator)
    fitted = clone(estimator).fit(X, y)
    return fitted, answer(fitted, X)


def assert_refused(call: Callable[[], Any], *words: str) -> AssayError:
    """The call fails with a good error."""
    with pytest.raises(AssayError) as caught:
        call()
    assert_good(caught.value, *words)
    return caught.value


def assert_good(error: AssayError, *words: str) -> None:
    assert isinstance(error, ValueError | TypeError)
    assert error.remedy, f"no remedy: {error}"
    assert "\n" not in str(error), f"more than one line: {error}"
    for word in words:
        assert word in str(error), f"{word!r} is not in: {error}"


# Who refuses a table that the others can use, by class or by label. Everyone else has to answer.
FIVE = {"KNeighborsClassifier()", "KNeighborsClassifier(metric='manhattan', prior='empirical', smoothing=1.0)"}
FIVE |= {"KNeighborsRegressor"}  # as many neighbours
FOLDS = {"BestSubset(criterion='cv')", "ElasticNetCV", "LassoCV", "PrunedTreeClassifier", "PrunedTreeRegressor", *FIVE}
FOLDS |= {"LogisticRegressionCV()", "LogisticRegressionCV(alphas=8)", "SVCCV"}
SHORT_PATH = "LogisticRegressionCV(alphas=[0.1, 0.01], cv=3, l1_ratio=0.2)"
ALL = [*QUICK, *SLOW]
CLASSIFIERS = {label(estimator) for estimator in ALL if is_classifier(estimator)}
TREES = {label(estimator) for estimator in ALL if type(estimator).__module__.startswith("assay.trees")}
COUNTS = {"CategoricalNB", "MultinomialNB", "PoissonHMM"}  # nothing below zero
STATES = {"GaussianHMM", "PoissonHMM"}  # two distinct rows for two states
QDA = "QuadraticDiscriminantAnalysis"
SATURATED = {f"{QDA}()", "Stepwise(direction='backward')"}  # more rows than coefficients
GRADIENT = "LogisticRegression(penalty='l2', solver='gradient')"
UNDERFLOW = {"LogisticRegression()", "LogisticRegression(penalty='l2')", GRADIENT, "Ridge", "RidgeCV"}
UNDERFLOW |= {f"{QDA}(shrinkage=0.5)"}
HELD_OUT = "NeuralNetworkRegressor(dropout=0.1, early_stopping=True, hidden=(6,), loss='huber')"  # two rows at least
LINEAR_SVM = {"LinearSVC", "LinearSVR", "SVC(kernel='linear')", "SVR(kernel='linear', solver='working_set')"}
OVERFLOW = {"BayesianLinearRegression", "CategoricalNB", *LINEAR_SVM}
EVERYONE = {label(estimator) for estimator in ALL}
REFUSED: dict[str, set[str]] = {
    **dict.fromkeys(("only constant columns", "only zeros", "all rows equal"), STATES),
    "one row": CLASSIFIERS | FOLDS | STATES | {
        "BayesianLinearRegression()", "HierarchicalClustering", "IterativeSIS", "RidgeCV", "SIS", HELD_OUT,
    },
    "two rows": CLASSIFIERS | FOLDS | {"RidgeCV(cv=3)"},
    "three rows": FOLDS | SATURATED | {
        SHORT_PATH, f"{QDA}(shrinkage=0.5)", f"{QDA}(covariance='diagonal')",
        "GradientBoostingClassifier(early_stopping=True, validation_fraction=0.3)",
    },
    "as many rows as columns": FOLDS | SATURATED,
    "one row more than columns": FOLDS - {"ElasticNetCV", "LassoCV", "SVCCV", *FIVE} | SATURATED,
    "a column that is constant but for one row": {f"{QDA}()", f"{QDA}(covariance='diagonal')"},
    "a column far from zero": {"CategoricalNB"},
    "more columns than rows": COUNTS | SATURATED,
    "many more columns than rows": COUNTS | SATURATED | FOLDS,
    "two columns of one name": EVERYONE,
    "the target is 0.0": CLASSIFIERS,
    "the target is 5.0": CLASSIFIERS,
    "the target is 1e-300": CLASSIFIERS | TREES | {"BayesianLinearRegression"},
    "huge table": OVERFLOW,
    "huge column": OVERFLOW,
    "huge table and target": OVERFLOW,
    "huge cell": OVERFLOW | {f"{QDA}()", f"{QDA}(shrinkage=0.5)", f"{QDA}(covariance='diagonal')"},
    "a column of 1e+308": EVERYONE - TREES,
    "a column of 1e-300": COUNTS | UNDERFLOW,
    "a column of 5e-324": COUNTS | UNDERFLOW | {"Lars", "LeastSquaresClassifier()", "LinearRegression", "Stagewise"},
    "tiny weights": {
        "BayesianLinearRegression()", "LinearDiscriminantAnalysis", QDA, "PlugInClassifier()", "KNeighborsClassifier",
        "KNeighborsRegressor",
    },
    "weight on 1 row": CLASSIFIERS | FOLDS | {"BayesianLinearRegression()", "RidgeCV", HELD_OUT},
    "weight on 2 rows": CLASSIFIERS | FOLDS | {"RidgeCV(cv=3)"},
    "weight on 5 rows": {
        "ElasticNetCV", "LassoCV", "PrunedTreeClassifier", "PrunedTreeRegressor", f"{QDA}()", "RidgeCV(cv=3)",
    },
}  # fmt: skip
EIGHT = {"KMeans()"}  # as many clusters
for cell in ("one row", "two rows", "weight on 1 row", "weight on 2 rows"):
    REFUSED[cell] |= {"KMeans"} if cell in ("one row", "weight on 1 row") else {"KMeans(n_clusters=3)", *EIGHT}
for cell in ("three rows", "as many rows as columns", "one row more than columns", "many more columns than rows"):
    REFUSED[cell] |= EIGHT
REFUSED["weight on 5 rows"] |= EIGHT
REFUSED["one feature, one row"] = REFUSED["one row"]
MIXTURES = {label(e) for e in ALL if type(e).__name__ == "GaussianMixture" and e.n_components > 1}  # distinct rows
for cell in (
    "one row",
    "one feature, one row",
    "only constant columns",
    "only zeros",
    "all rows equal",
    "weight on 1 row",
):
    REFUSED[cell] = REFUSED.get(cell, set()) | MIXTURES
for cell in ("two rows", "weight on 2 rows"):
    REFUSED[cell] |= {"GaussianMixture(n_components=3)"}

# One column that hides the others from a kernel; the hint to standardise.
KERNELS = {"OneClassSVM", "SVC", "SVCCV", "SVR"}
# Who warns of a scale at which the answer is not that of a mild one.
SWEEPS = {"Lasso()", "Lasso(selection='greedy')", "Lasso(selection='random')"}
# One step for all columns as they are: another column, or another scale of one, moves the others.
UNITS = {"DeltaRule()", "SigmoidUnit()"}
RAW = {"DeltaRule", "Perceptron", "SigmoidUnit"}
OVERLAP = "Perceptron()"  # no line separates the clean table either, and this one says so
WARNED: dict[str, set[str]] = {
    "tiny table": {"CategoricalNB", GRADIENT, OVERLAP, "LinearSVC(loss='hinge', max_iter=200, solver='sgd')"} | UNITS,
    "tiny column": {"CategoricalNB", GRADIENT, OVERLAP} | UNITS | KERNELS | LINEAR_SVM,
    "huge table": SWEEPS | {"ElasticNet", "LogisticRegression(penalty='l1')", SHORT_PATH, GRADIENT, OVERLAP} | UNITS,
    "huge column": SWEEPS | {"ElasticNet()", "LogisticRegression(penalty='l1')", SHORT_PATH, OVERLAP} | UNITS | KERNELS,
    "huge table and target": SWEEPS | {"ElasticNet", "DeltaRule()"},
    "tiny table and target": {"DeltaRule()", "LinearSVR(solver='dual_ascent')"},
    "tiny target": {"LinearSVR(solver='dual_ascent')"},
    "huge target": SWEEPS,
}


SHARED = {"NeuralNetworkRegressor"}  # all columns of the target are made of the same hidden units


def named(estimator: Any, names: set[str]) -> bool:
    return type(estimator).__name__ in names or label(estimator) in names


def expected_of(estimator: Any, cell: str, X: Any, y: Any, *blame: str, **more: Any) -> np.ndarray | None:
    """A finite answer with one row per row of X, or None after the error that `REFUSED` expects; it names `blame`."""
    if named(estimator, REFUSED.get(cell, set())):
        assert_refused(lambda: answer(clone(estimator).fit(X, y, **more), X), *blame)
        return None
    given = answer(clone(estimator).fit(X, y, **more), X)
    assert given.shape[0] == X.shape[0]
    assert np.isfinite(given).all()
    return given


@dataclass(frozen=True)
class Cell:
    """One kind of table, made from the clean one."""

    name: str
    make: Callable[[np.ndarray], Any]
    words: tuple[str, ...] = ()
    holds: str = ""  # "gap" or "text": no fault for estimators that take it


def put(value: Any, dtype: Any = None) -> Callable[[np.ndarray], np.ndarray]:
    """A table with one odd value in column 1, row 3."""

    def make(X: np.ndarray) -> np.ndarray:
        X = X.astype(dtype or X.dtype)
        X[3, 1] = value
        return X

    return make


def column(value: Any) -> Callable[[np.ndarray], pd.DataFrame]:
    """A data frame whose column col_b is replaced."""
    return lambda X: frame(X).assign(col_b=value(len(X)) if callable(value) else value)


def spotted(X: np.ndarray) -> pd.DataFrame:
    return frame(X).mask(np.arange(X.size).reshape(X.shape) == 13)


# 1. Tables that cannot be used, at fit and at predict alike.

AT_3_1 = ("column 1", "row 3")
BAD_TABLES = [
    Cell("NaN", put(np.nan), ("NaN", *AT_3_1), "gap"),
    Cell("NaN in float32", put(np.nan, np.float32), ("NaN", *AT_3_1), "gap"),
    Cell("inf", put(np.inf), ("inf", *AT_3_1)),
    Cell("-inf", put(-np.inf), ("inf", *AT_3_1)),
    Cell("None", put(None, object), AT_3_1, "gap"),
    Cell("pd.NA", put(pd.NA, object), AT_3_1, "gap"),
    Cell("NaN as an object", put(np.nan, object), AT_3_1, "gap"),
    Cell("inf as an object", put(np.inf, object), AT_3_1),
    Cell("text", put("tall", object), ("'tall'", *AT_3_1), "text"),
    Cell("a list in a cell", put([1.0], object), AT_3_1),
    Cell("text in nested lists", lambda X: put("tall", object)(X).tolist(), ("'tall'", *AT_3_1), "text"),
    Cell("an array of text", lambda X: X.astype(str), ("column 0", "row 0"), "text"),
    Cell("NaN in a frame", spotted, ("NaN", "'col_b'", "row 3"), "gap"),
    Cell("NA in a nullable column", lambda X: spotted(X).astype("Float64"), ("NaN", "'col_b'", "row 3"), "gap"),
    Cell("a column of text", column(lambda n: ["tall"] * n), ("'tall'", "'col_b'", "row 0"), "text"),
    Cell(
        "a column of categories", column(lambda n: pd.Categorical(["tall"] * n)), ("'tall'", "'col_b'", "row 0"), "text"
    ),
    Cell("a column of dates", column(lambda n: pd.date_range("2020", periods=n)), ("'col_b'", "dates")),
    Cell("a column of durations", column(lambda n: pd.timedelta_range(0, periods=n, freq="D")), ("'col_b'",)),
    Cell("an array of dates", lambda X: X.astype("datetime64[s]"), ("column 0", "dates")),
    Cell("complex", lambda X: X + 0j, ("omplex",)),
    Cell("a complex column", column(1j), ("omplex", "'col_b'")),
    Cell("no rows", lambda X: X[:0], ("0 sample(s)",)),
    Cell("no rows in a frame", lambda X: frame(X)[:0], ("0 sample(s)",)),
    Cell("no features", lambda X: X[:, :0], ("feature(s)",)),
    Cell("no features in a frame", lambda X: frame(X)[[]], ()),
    Cell("one dimension", lambda X: X[:, 0], ()),
    Cell("three dimensions", lambda X: X[None], ()),
    Cell("a number", lambda X: 3.0, ()),
    Cell("nothing", lambda X: None, ()),
    Cell("a series", lambda X: pd.Series(X[:, 0]), ()),
    Cell("ragged lists", lambda X: [[1.0, 2.0], [3.0]] * 20, ()),
]


def takes(estimator: Any, what: str) -> bool:
    return (what == "gap" and takes_gaps(estimator)) or (what == "text" and takes_text(estimator))


@each("cell", BAD_TABLES)
@every()
def test_a_bad_table_is_refused_by_fit(estimator, cell):
    X, y = clean(estimator)
    X = cell.make(X)
    y = y[: len(X)] if hasattr(X, "shape") and len(X) == 0 else y
    if takes(estimator, cell.holds):
        fitted = clone(estimator).fit(X, y)
        assert all(np.isfinite(method(X)).all() for method in answers(fitted))
    else:
        assert_refused(lambda: clone(estimator).fit(X, y), *cell.words)


@each("cell", BAD_TABLES)
@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
@every()
def test_a_bad_table_is_refused_after_fit(estimator, cell):
    fitted, _ = fitted_on_clean(estimator)
    X = cell.make(clean(estimator)[0])
    for method in answers(fitted):
        if cell.holds == "gap" and takes_gaps(estimator):
            assert np.isfinite(method(X)).all()
        else:  # text too: the columns held numbers in training
            assert_refused(lambda method=method: method(X), *cell.words)


@each("width", [1, 3, 5])
@every()
def test_the_wrong_width_is_refused(estimator, width):
    fitted, _ = fitted_on_clean(estimator)
    for method in answers(fitted):
        assert_refused(lambda method=method: method(np.ones((3, width))), f"{width} feature", "4 feature")


# 2. Sparse tables: the dense answer where the tags claim it, a clean refusal where not.

FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


def sparsified(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    X, y = clean(estimator)
    X[np.abs(X) < 0.4] = 0.0
    return X, y


def unsorted(X: np.ndarray) -> sparse.csr_array:
    S = sparse.csr_array(X)
    for i in range(S.shape[0]):
        row = slice(S.indptr[i], S.indptr[i + 1])
        S.indices[row], S.data[row] = S.indices[row][::-1].copy(), S.data[row][::-1].copy()
    return sparse.csr_array((S.data, S.indices, S.indptr), shape=S.shape)


def halves(kind: type) -> Callable[[np.ndarray], Any]:
    """Every entry stored twice, as two halves."""

    def make(X: np.ndarray) -> Any:
        S = sparse.coo_array(X)
        twice = (np.r_[S.data, S.data] / 2, (np.r_[S.row, S.row], np.r_[S.col, S.col]))
        if kind is sparse.coo_array:
            return sparse.coo_array(twice, shape=S.shape)
        order = np.argsort(twice[1][0], kind="stable")
        starts = np.r_[0, np.cumsum(np.bincount(twice[1][0], minlength=S.shape[0]))]
        return sparse.csr_array((twice[0][order], twice[1][1][order], starts), shape=S.shape)

    return make


def explicit_zeros(X: np.ndarray) -> sparse.csr_array:
    S = sparse.csr_array(np.ones_like(X))
    S.data[:] = X.ravel()
    return S


def wide_indices(X: np.ndarray) -> sparse.csr_array:
    S = sparse.csr_array(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    return S


SPARSE = [
    *[Cell(f"{f} array", lambda X, f=f: sparse.coo_array(X).asformat(f)) for f in FORMATS],
    *[Cell(f"{f} matrix", lambda X, f=f: sparse.coo_matrix(X).asformat(f)) for f in FORMATS],
    Cell("unsorted csr", unsorted),
    Cell("coo with entries in halves", halves(sparse.coo_array)),
    Cell("csr with entries in halves", halves(sparse.csr_array)),
    Cell("csr with stored zeros", explicit_zeros),
    Cell("csr with 64-bit indices", wide_indices),
]


@each("cell", SPARSE)
@every()
def test_sparse(estimator, cell):
    X, y = sparsified(estimator)
    S = cell.make(X)
    assert_allclose(S.toarray(), X)
    if takes_sparse(estimator):
        dense = clone(estimator).fit(X, y)
        fitted = clone(estimator).fit(S, y)
        assert_allclose(answer(fitted, S), answer(dense, X), rtol=1e-6, atol=1e-6)
        assert_allclose(answer(fitted, X), answer(dense, X), rtol=1e-6, atol=1e-6)
    else:
        assert isinstance(assert_refused(lambda: clone(estimator).fit(S, y), "parse"), DataTypeError)
        fitted, _ = fitted_on_clean(estimator)
        for method in answers(fitted):
            assert_refused(lambda method=method: method(S), "parse")


@each("value", [np.nan, np.inf])
@each("kind", ["csr", "csc"])
@every(takes_sparse)
def test_a_bad_number_in_a_sparse_table_is_found(estimator, kind, value):
    X, y = sparsified(estimator)
    X[3, 1] = value
    S = sparse.coo_array(X).asformat(kind)
    if np.isnan(value) and takes_gaps(estimator):
        assert_allclose(answer(clone(estimator).fit(S, y), S), answer(clone(estimator).fit(X, y), X))
        return
    assert_refused(lambda: clone(estimator).fit(S, y), *AT_3_1)
    fitted, _ = fitted_on_clean(estimator)
    for method in answers(fitted):
        assert_refused(lambda method=method: method(S), *AT_3_1)


@each("empty", ["column", "row", "table"])
@every(takes_sparse)
def test_a_sparse_table_with_nothing_in_it(estimator, empty):
    X, y = sparsified(estimator)
    X[(slice(None), 1) if empty == "column" else 3 if empty == "row" else slice(None)] = 0.0
    given = expected_of(estimator, "nothing stored", sparse.csr_array(X), y)
    assert_allclose(given, expected_of(estimator, "only zeros", X, y), rtol=1e-6, atol=1e-6)


# 3. The same numbers in another dress give the same answer.


def strided(X: np.ndarray) -> np.ndarray:
    big = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
    big[::2, ::3] = X
    return big[::2, ::3]


def reversed_strides(X: np.ndarray) -> np.ndarray:
    return X[::-1, ::-1].copy()[::-1, ::-1]


def read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.setflags(write=False)
    return X


def unaligned(X: np.ndarray) -> np.ndarray:
    raw = np.zeros(X.nbytes + 1, dtype=np.uint8)
    view = raw[1:].view(np.float64).reshape(X.shape)
    view[:] = X
    return view


def tenths(X: np.ndarray) -> np.ndarray:
    return np.clip(np.round(8 * X), -60, 60)


# Each pairs the plain float64 table with its other dress.
DRESSES = [
    Cell("strided", lambda X: (X, strided(X))),
    Cell("negative strides", lambda X: (X, reversed_strides(X))),
    Cell("read-only", lambda X: (X, read_only(X))),
    Cell("Fortran order", lambda X: (X, np.asfortranarray(X))),
    Cell("unaligned", lambda X: (X, unaligned(X))),
    Cell("big-endian", lambda X: (X, X.astype(">f8"))),
    Cell("object", lambda X: (X, X.astype(object))),
    Cell("nested lists", lambda X: (X, X.tolist())),
    Cell("frame", lambda X: (X, frame(X))),
    Cell("frame of nullable floats", lambda X: (X, frame(X).astype("Float64"))),
    Cell("frame of objects", lambda X: (X, frame(X).astype(object))),
    Cell("frame with a strange index", lambda X: (X, frame(X).set_index(pd.Index(["r"] * len(X))))),
    Cell("frame with numbers for names", lambda X: (X, pd.DataFrame(X))),
    Cell("float32", lambda X: (X.astype(np.float32).astype(float), X.astype(np.float32))),
    Cell("float16", lambda X: (X.astype(np.float16).astype(float), X.astype(np.float16))),
    Cell("bool", lambda X: ((X > 0).astype(float), X > 0)),
    Cell("int64", lambda X: (tenths(X), tenths(X).astype(np.int64))),
    Cell("int8", lambda X: (tenths(X), tenths(X).astype(np.int8))),
    Cell("uint8", lambda X: (tenths(X) + 60, (tenths(X) + 60).astype(np.uint8))),
    Cell("mixed frame", lambda X: (tenths(X), frame(tenths(X)).astype({"col_a": int, "col_b": "Int8", "col_c": "O"}))),
]


@each("cell", DRESSES)
@every()
def test_another_dress(estimator, cell):
    X, y = clean(estimator)
    plain, dressed = cell.make(X)
    single = "float32" in cell.name
    tolerance = 1e-4 if single else 1e-9
    expected = clone(estimator).fit(plain, y)
    fitted = clone(estimator).fit(dressed, y)
    assert_allclose(answer(fitted, dressed), answer(expected, plain), rtol=tolerance, atol=tolerance)


TARGETS = {
    "list": list,
    "float32": lambda y: y.astype(np.float32),
    "int8": lambda y: y.astype(np.int8),
    "uint8": lambda y: y.astype(np.uint8),
    "bool": lambda y: y > 60,
    "object": lambda y: y.astype(object),
    "read-only": read_only,
    "strided": lambda y: np.repeat(y, 2)[::2],
    "series": lambda y: pd.Series(y, index=np.arange(len(y))[::-1]),
    "nullable series": lambda y: pd.Series(y, dtype="Int64"),
}


@pytest.mark.parametrize("kind", ["boolean", "bool[pyarrow]", object, bool])
def test_truth_values_stay_classes_of_their_own(kind):
    classes, codes = class_codes(pd.Series([True, False, True], dtype=kind), 3)
    assert classes.dtype == bool
    assert codes.tolist() == [1, 0, 1]


@each("dress", TARGETS)
@every(takes_target)
def test_the_target_in_another_dress(estimator, dress):
    X, y = clean(estimator)
    # Whole numbers that fit into eight bits, whose squares do not.
    y = np.where(y > 0, 100, 20) if is_classifier(estimator) else np.clip(np.round(8 * y) + 60, 0, 120)
    plain = (y > 60).astype(float) if dress == "bool" else y
    expected = answer(clone(estimator).fit(X, plain), X)
    given = answer(clone(estimator).fit(X, TARGETS[dress](y)), X)
    assert_allclose(given, expected, rtol=1e-9, atol=1e-9)


# 4. Odd shapes.


def with_column(values: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], np.ndarray]:
    def make(X: np.ndarray) -> np.ndarray:
        X = X.copy()
        X[:, 1] = values(X)
        return X

    return make


SHAPES = [
    Cell("one row", lambda X: X[:1]),
    Cell("two rows", lambda X: X[:2]),
    Cell("three rows", lambda X: X[:3]),
    Cell("as many rows as columns", lambda X: X[:4]),
    Cell("one row more than columns", lambda X: X[:5]),
    Cell("one feature", lambda X: X[:, :1]),
    Cell("one feature, one row", lambda X: X[:1, :1]),
    Cell("a constant column", with_column(lambda X: 3.0)),
    Cell("a column of zeros", with_column(lambda X: 0.0)),
    Cell("a column that is constant but for one row", with_column(lambda X: np.arange(len(X)) == 5)),
    Cell("a nearly constant column", with_column(lambda X: 1.0 + 1e-15 * (np.arange(len(X)) % 2))),
    Cell("a column far from zero", with_column(lambda X: 1e8 + X[:, 1])),
    Cell("only constant columns", lambda X: np.full_like(X, 3.0)),
    Cell("only zeros", lambda X: np.zeros_like(X)),
    Cell("a duplicate column", with_column(lambda X: X[:, 0])),
    Cell("a nearly duplicate column", with_column(lambda X: X[:, 0] * (1 + 1e-15))),
    Cell("a sum of columns", with_column(lambda X: X[:, 0] + X[:, 2])),
    Cell("duplicate rows", lambda X: np.repeat(X[:5], 8, axis=0)),
    Cell("all rows equal", lambda X: np.repeat(X[:1], 40, axis=0)),
    Cell("more columns than rows", lambda X: np.random.default_rng(0).normal(size=(15, 30))),
    Cell("many more columns than rows", lambda X: np.random.default_rng(0).normal(size=(4, 30))),
]


@each("cell", SHAPES)
@every()
def test_odd_shapes(estimator, cell):
    X, y = clean(estimator)
    X = cell.make(X)
    expected_of(estimator, cell.name, X, y[: len(X)])


def hears_constants(estimator: Any) -> bool:
    """A rate of 1 / (p var X) of all cells, and a column of ones with a penalty: both as in scikit-learn."""
    setting = estimator.get_params(deep=False)
    return setting.get("gamma") == "scale" or setting.get("bias") == "augmented"


@each("value", [0.0, 3.0, -1e6])
@every(lambda e: is_regressor(e) and not draws_rows(e) and not hears_constants(e))
def test_a_constant_column_says_nothing(estimator, value):
    X, y = clean(estimator)
    wider = np.column_stack([X, np.full(len(X), value)])
    given = expected_of(estimator, "a constant column", frame(wider), y)
    if estimator.get_params(deep=False).get("fit_intercept", True) and type(estimator).__name__ not in RAW:
        assert_allclose(given, fitted_on_clean(estimator)[1], rtol=1e-5, atol=1e-5)


@each("value", [0.0, 5.0, 1e-300])
@every(takes_target)
def test_a_constant_target(estimator, value):
    X, y = clean(estimator)
    given = expected_of(estimator, f"the target is {value}", X, np.full(len(y), value), "y ")
    if given is not None and is_regressor(estimator) and estimator.get_params(deep=False).get("fit_intercept", True):
        assert_allclose(given, value, rtol=1e-6, atol=1e-6)


@every()
def test_two_columns_of_the_same_name(estimator):
    X, y = clean(estimator)
    table = frame(X).set_axis(["a", "a", "b", "c"], axis=1)
    expected_of(estimator, "two columns of one name", table, y, "'a'")


# 5. Scales. What holds at a factor of 8 and of 1/8 holds at 2^500 and 2^-500, or a warning says why it does not.

FACTORS = {"huge": HUGE, "tiny": TINY}
by_scale = each("scale", list(FACTORS))


def assert_scales(estimator: Any, cell: str, make: Callable[[float], tuple[Any, ...]], *blame: str) -> None:
    """`make(factor)` gives the table, the target, and what the answer is divided by if the method keeps up."""
    X, y, over = make(FACTORS[cell.split()[0]])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("error")
        warnings.simplefilter("always", AssayWarning)
        given = expected_of(estimator, cell, X, y, *blame)
    if given is None:
        return
    assert bool(told) == named(estimator, WARNED.get(cell, set()))
    if told:
        return
    reference = fitted_on_clean(estimator)[1]
    for mild in (8.0, 1 / 8):
        X, y, mildly = make(mild)
        small = answer(clone(estimator).fit(X, y), X) / mildly
        if small.shape != reference.shape or not np.allclose(small, reference, rtol=1e-9, atol=1e-9):
            return
    assert_allclose(given / over, reference, rtol=1e-6, atol=1e-6)


@by_scale
@every()
def test_the_scale_of_the_table(estimator, scale):
    X, y = clean(estimator)
    assert_scales(estimator, f"{scale} table", lambda f: (frame(X * f), y, 1.0), "col")


@by_scale
@every()
def test_the_scale_of_one_column(estimator, scale):
    X, y = clean(estimator)
    assert_scales(estimator, f"{scale} column", lambda f: (frame(X * [1.0, f, 1.0, 1.0]), y, 1.0), "col_b")


@by_scale
@every(is_regressor)
def test_the_scale_of_the_target(estimator, scale):
    X, y = clean(estimator)
    assert_scales(estimator, f"{scale} target", lambda f: (frame(X), y * f, f), "y")


@by_scale
@every(is_regressor)
def test_the_scale_of_everything(estimator, scale):
    X, y = clean(estimator)
    assert_scales(estimator, f"{scale} table and target", lambda f: (frame(X * f), y * f, f))


@by_scale
@every()
def test_one_wild_cell(estimator, scale):
    X, y = clean(estimator)
    X[3, 1] *= FACTORS[scale]
    expected_of(estimator, f"{scale} cell", frame(X), y, "col_b")


@each("value", [1e308, 1e-300, 5e-324])
@every()
def test_the_ends_of_the_number_line(estimator, value):
    X, y = clean(estimator)
    X[:, 1] = np.where(np.arange(len(X)) % 2, value, -value)
    expected_of(estimator, f"a column of {value}", frame(X), y, "col_b")


@pytest.mark.parametrize(("scale", "factor"), [("huge", 1e100), ("tiny", 1e-100)])
@every(takes_weights)
def test_the_scale_of_the_weights(estimator, scale, factor):
    X, y = clean(estimator)
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    expected_of(estimator, f"{scale} weights", X, y, "weight", sample_weight=w * factor)


# 6. Bad targets and weights.


def target_with(value: Any, dtype: Any = float) -> Callable[[np.ndarray], np.ndarray]:
    def make(y: np.ndarray) -> np.ndarray:
        y = y.astype(dtype)
        y[3] = value
        return y

    return make


BAD_TARGETS = [
    Cell("NaN", target_with(np.nan), ("y", "NaN", "row 3")),
    Cell("inf", target_with(np.inf), ("y", "inf", "row 3")),
    Cell("-inf as an object", target_with(-np.inf, object), ("y", "inf", "row 3")),
    Cell("None", target_with(None, object), ("y", "row 3")),
    Cell("pd.NA", target_with(pd.NA, object), ("y", "row 3")),
    Cell("NA in a nullable series", lambda y: pd.Series(target_with(np.nan)(y)).convert_dtypes(), ("y", "row 3")),
    Cell("text", target_with("tall", object), ("y", "'tall'", "row 3")),
    Cell("only text", lambda y: np.array(["tall"] * len(y)), ("y", "'tall'", "row 0")),
    Cell("dates", lambda y: pd.Series(pd.date_range("2020", periods=len(y))), ("y", "dates")),
    Cell("complex", lambda y: y + 0j, ("y", "omplex")),
    Cell("too short", lambda y: y[:-1], ("39", "40")),
    Cell("too long", lambda y: np.r_[y, 1.0], ("41", "40")),
    Cell("empty", lambda y: y[:0], ()),
    Cell("a number", lambda y: 3.0, ("y",)),
    Cell("missing", lambda y: None, ("y",)),
    Cell("three dimensions", lambda y: y.reshape(40, 1, 1) * np.ones((1, 2, 2)), ("y",)),
    Cell("sparse", lambda y: sparse.csr_array(y[:, None]), ("y", "parse")),
]


@each("cell", BAD_TARGETS)
@every(takes_target)
def test_a_bad_target_is_refused(estimator, cell):
    X, y = clean(estimator)
    # Any text is a class, but one class is not enough.
    words = ("y", "'tall'") if is_classifier(estimator) and cell.name == "only text" else cell.words
    assert_refused(lambda: clone(estimator).fit(X, cell.make(y)), *words)


@every(takes_target)
def test_many_targets_where_claimed(estimator):
    X, y = clean(estimator)
    Y = np.column_stack([y, -y])
    if get_tags(estimator).target_tags.multi_output:
        given = answer(clone(estimator).fit(X, Y), X)
        if named(estimator, SHARED):
            assert given.shape == Y.shape
            return
        assert_allclose(given[:, 0], fitted_on_clean(estimator)[1][:, 0], rtol=1e-8)
        if not getattr(estimator, "positive", False):
            assert_allclose(given[:, 1], -given[:, 0], rtol=1e-8)
        Y[3, 1] = np.nan
        assert_refused(lambda: clone(estimator).fit(X, Y), "y", "row 3")
    else:
        assert_refused(lambda: clone(estimator).fit(X, Y), "y", "(40, 2)")
        with pytest.warns(DataConversionWarning):
            fitted = clone(estimator).fit(X, y[:, None])
        assert_allclose(answer(fitted, X), fitted_on_clean(estimator)[1])


BAD_WEIGHTS = [
    Cell("NaN", target_with(np.nan), ("row 3",)),
    Cell("inf", target_with(np.inf), ("row 3",)),
    Cell("negative", target_with(-1.0), ("row 3",)),
    Cell("None", target_with(None, object), ("row 3",)),
    Cell("text", target_with("heavy", object), ("row 3",)),
    Cell("complex", lambda w: w + 0j, ()),
    Cell("all zero", lambda w: 0 * w, ("zero",)),
    Cell("too short", lambda w: w[:-1], ("39", "40")),
    Cell("two dimensions", lambda w: w[:, None], ()),
]


@each("cell", BAD_WEIGHTS)
@every(takes_weights)
def test_bad_weights_are_refused(estimator, cell):
    X, y = clean(estimator)
    wrong = cell.make(np.ones(len(y)))
    assert_refused(lambda: clone(estimator).fit(X, y, sample_weight=wrong), "weight", *cell.words)


@each("kept", [1, 2, 5])
@every(takes_weights)
def test_weight_on_few_rows_is_few_rows(estimator, kept):
    X, y = clean(estimator)
    w = np.zeros(len(y))
    w[:kept] = 1.0
    cell = f"weight on {kept} row{'s' if kept > 1 else ''}"
    given = expected_of(estimator, cell, X, y, sample_weight=w)
    rows = "one row" if kept == 1 else "two rows" if kept == 2 else "one row more than columns"
    if given is None or draws_rows(estimator) or named(estimator, REFUSED[rows]):
        return
    assert_allclose(given, answer(clone(estimator).fit(X[:kept], y[:kept]), X), rtol=1e-6, atol=1e-6)
