"""What every estimator promises, tested for each one by its mere existence.

First scikit-learn's own checks, all of them; then what scikit-learn asks only of itself but a user meets; then
what assay promises beyond: answers that do not depend on which rows are asked together, on `n_jobs`, or on
whether a row is weighted or repeated.
"""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from assay.errors import AssayWarning, ParameterError
from assay.numerics import threads
from assay.results import Result
from tests.estimators import (
    DRAWS_ROWS,
    QUICK,
    SLOW,
    answer,
    answers,
    classes,
    draws_rows,
    easy,
    every,
    frame,
    only_checked,
    takes_counts,
    takes_sequences,
    takes_sparse,
    takes_weights,
    with_splits,
    wrappers,
)

# Small data without structure gives collinearity and early stops their say; that is what these warnings are for.
pytestmark = pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")

every_class = pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)


def has(parameter: str):
    return lambda estimator: parameter in estimator.get_params(deep=False)


def is_transformer(estimator: Any) -> bool:
    return hasattr(estimator, "transform")


# scikit-learn's checks.

WEIGHT_CHECKS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


ONE_ROW = "the check leaves a class with one row of weight, which has no covariance of its own, and the fit says so"


def expected_failures(estimator: Any) -> dict[str, str]:
    if type(estimator).__name__ == "QuadraticDiscriminantAnalysis" and estimator.pooling == 0:
        return {WEIGHT_CHECKS[0]: ONE_ROW}
    if type(estimator).__name__ == "ThresholdClassifier":
        return {"check_classifiers_train": "it exists to decide otherwise than by the greatest probability"}
    return dict.fromkeys(WEIGHT_CHECKS, DRAWS_ROWS) if draws_rows(estimator) else {}


def checked(estimators: list[Any]) -> list[Any]:
    # One check sets `alpha` behind the estimator's back, which contradicts a budget; our own tests run with one too.
    return [estimator for estimator in estimators if getattr(estimator, "budget", None) is None]


@parametrize_with_checks([*QUICK, *wrappers()], expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([*checked(SLOW), *only_checked()], expected_failed_checks=expected_failures)
def test_scikit_learn_with_other_settings(estimator, check):
    check(estimator)


# Construction and printing.


@every_class
def test_every_parameter_has_a_declared_range_and_a_line_in_the_docstring(kind):
    parameters = list(inspect.signature(kind).parameters)
    assert sorted(kind.constraints) == sorted(parameters)
    for name in parameters:
        assert re.search(rf"\b{name}\b", kind.__doc__), f"{name} is not described"


@every_class
def test_defaults_lie_in_their_ranges(kind):
    for name, parameter in inspect.signature(kind).parameters.items():
        assert kind.constraints[name].accepts(parameter.default), name


@every_class
def test_estimators_use_one_thread_unless_asked_for_more(kind):
    """As in scikit-learn, so that folds and searches around them decide about the cores."""
    jobs = inspect.signature(kind).parameters.get("n_jobs")
    assert jobs is None or jobs.default is None


@every_class
def test_the_docstring_opens_with_one_sentence_and_holds_an_example(kind):
    doc = inspect.cleandoc(kind.__doc__)
    assert doc.splitlines()[0].endswith(".")
    assert ">>>" in doc
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and method.__module__.startswith("assay"):
            assert method.__doc__, f"{kind.__name__}.{name} has no docstring"


NONSENSE = (object(), "nonsense", float("nan"), -1e9, -(10**9), 0.12345, 10**40, {}, [], np.nan, True, None, 1j, b"x")


@every()
def test_a_wrong_value_of_any_parameter_is_refused_in_fit(estimator):
    X, y = easy(estimator)
    for name in estimator.get_params(deep=False):
        refused = [value for value in NONSENSE if not estimator.constraints[name].accepts(value)]
        assert refused, f"{name} accepts anything"
        for value in refused:
            wrong = clone(estimator).set_params(**{name: value})
            with pytest.raises(ParameterError) as caught:
                wrong.fit(X, y)
            assert re.search(rf"\b{name}\b", str(caught.value)), f"{caught.value} does not name {name}"
            assert caught.value.remedy


@every()
def test_printing(estimator):
    X, y = easy(estimator)
    assert type(estimator).__name__ in repr(estimator)
    fitted = clone(estimator).fit(X, y)
    assert repr(fitted) == repr(estimator)
    assert "<div" in fitted._repr_html_()
    for name, value in vars(fitted).items():
        if isinstance(value, Result):
            assert str(value), name
            assert isinstance(value.to_frame(), pd.DataFrame), name
            assert "<table" in value._repr_html_(), name


@every()
def test_pickle_and_clone_round_trips(estimator):
    X, y = easy(estimator)
    fitted = clone(estimator).fit(X, y)
    expected = answer(fitted, X)
    back = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(answer(back, X), expected)
    assert back.get_params().keys() == fitted.get_params().keys()
    copy = clone(fitted)
    assert vars(copy).keys() == vars(estimator).keys(), "a clone is not fitted"
    if not draws_rows(estimator) or estimator.random_state is not None:
        assert_array_equal(answer(copy.fit(X, y), X), expected)


@every()
def test_fitting_again_forgets_the_first_fit(estimator):
    X, y = easy(estimator)
    Z, z = easy(estimator, 50, 6, seed=1)
    twice = clone(estimator).fit(frame(Z), z).fit(X, y)
    once = clone(estimator).fit(X, y)
    assert vars(twice).keys() == vars(once).keys()
    assert_array_equal(answer(twice, X), answer(once, X))


# Names of columns.


@every()
def test_columns_are_known_by_name(estimator):
    X, y = easy(estimator)
    table = frame(X)
    fitted = clone(estimator).fit(table, y)
    assert_array_equal(fitted.feature_names_in_, table.columns)
    assert fitted.n_features_in_ == 4
    renamed = table.rename(columns={"col_b": "other"})
    reordered = table[["col_b", "col_a", "col_c", "col_d"]]
    for method in answers(fitted):
        method(table)
        for wrong in (renamed, reordered, table.drop(columns="col_b"), table.assign(extra=1.0)):
            with pytest.raises(ValueError, match="feature"):
                method(wrong)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            method(X)
    unnamed = clone(estimator).fit(X, y)
    assert not hasattr(unnamed, "feature_names_in_")
    for method in answers(unnamed):
        with pytest.warns(UserWarning, match="was fitted without feature names"):
            method(table)


@every()
def test_names_do_not_change_the_answer_and_may_be_any_text(estimator):
    X, y = easy(estimator)
    table = pd.DataFrame(X, columns=["Größe", "a b", "", "x'][<b>"])
    named = clone(estimator).fit(table, pd.Series(y, index=np.arange(100, 140), name="target"))
    assert_allclose(answer(named, table), answer(clone(estimator).fit(X, y), X), rtol=1e-7, atol=1e-9)


@every(is_transformer)
def test_output_columns_are_named(estimator):
    X, y = easy(estimator)
    fitted = clone(estimator).fit(frame(X), y)
    names = fitted.get_feature_names_out()
    assert len(names) == fitted.transform(frame(X)).shape[1]
    assert len(set(names)) == len(names)
    assert all(isinstance(name, str) for name in names)
    assert_array_equal(fitted.get_feature_names_out(list(frame(X).columns)), names)
    with pytest.raises(ValueError, match="feature"):
        fitted.get_feature_names_out(["wrong", "names", "for", "columns"])
    with pytest.raises(ValueError, match="feature"):
        fitted.get_feature_names_out(["too few"])
    assert len(clone(estimator).fit(X, y).get_feature_names_out()) == len(names)


@every(is_transformer)
def test_set_output_gives_tables(estimator):
    X, y = easy(estimator)
    table = frame(X).set_index(np.arange(100, 140))
    plain = clone(estimator).fit(table, y)
    tabular = clone(estimator).set_output(transform="pandas").fit(table, y)
    given, expected = tabular.transform(table), plain.transform(table)
    assert isinstance(given, pd.DataFrame)
    assert_array_equal(given.columns, plain.get_feature_names_out())
    assert_array_equal(given.index, table.index)
    assert_array_equal(given.to_numpy(), expected)
    assert_array_equal(tabular.set_output(transform="default").transform(table), expected)


# Input is only read.


@every()
def test_input_is_not_modified_and_may_be_read_only(estimator):
    X, y = easy(estimator)
    w = np.random.default_rng(0).uniform(0.5, 2, len(y))
    before = [a.copy() for a in (X, y, w)]
    for a in (X, y, w):
        a.setflags(write=False)
    weights = {"sample_weight": w} if takes_weights(estimator) else {}
    fitted = clone(estimator).fit(X, y, **weights)
    fortran = np.asfortranarray(X)
    fortran.setflags(write=False)
    clone(estimator).fit(fortran, y, **weights)
    for method in answers(fitted):
        method(X)
    for a, b in zip((X, y, w), before, strict=True):
        assert_array_equal(a, b)
    table = frame(X.copy())
    untouched = table.copy()
    clone(estimator).fit(table, y, **weights)
    pd.testing.assert_frame_equal(table, untouched)


@every(takes_sparse)
def test_sparse_input_is_not_modified(estimator):
    X, y = easy(estimator)
    X[np.abs(X) < 0.5] = 0.0
    for kind in (sparse.csr_array, sparse.csc_array):
        table = kind(X)
        parts = [table.data, table.indices, table.indptr]
        before = [part.copy() for part in parts]
        for part in parts:
            part.setflags(write=False)
        fitted = clone(estimator).fit(table, y)
        answer(fitted, table)
        for part, old in zip(parts, before, strict=True):
            assert_array_equal(part, old)


# Rows.


@every(lambda e: not takes_sequences(e))
def test_answers_do_not_depend_on_the_rows_asked_with_them(estimator):
    X, y = easy(estimator)
    fitted = clone(estimator).fit(X, y)
    order = np.random.default_rng(1).permutation(len(X))
    for method in answers(fitted):
        whole = method(X)
        whole = whole.toarray() if sparse.issparse(whole) else whole
        for rows in (order, order[:7], order[:1], np.repeat(order[:3], 2)):
            part = method(X[rows])
            part = part.toarray() if sparse.issparse(part) else part
            assert_allclose(part, whole[rows], rtol=1e-12, atol=1e-12)


@every(lambda e: is_regressor(e) and not draws_rows(e))
def test_the_order_of_training_rows_does_not_matter(estimator):
    X, y = easy(estimator)
    groups = np.arange(len(y)) % 5
    order = np.random.default_rng(2).permutation(len(y))
    one = with_splits(clone(estimator), groups).fit(X, y)
    two = with_splits(clone(estimator), groups[order]).fit(X[order], y[order])
    assert_allclose(answer(two, X), answer(one, X), rtol=1e-6, atol=1e-6)


def repetition(estimator, seed: int = 0):
    """The same rows once with whole-number weights (zeros among them) and once repeated, with folds to match."""
    X, y = easy(estimator, 36, 3, seed)
    counts = np.random.default_rng(seed).integers(0, 4, len(y))
    groups = np.arange(len(y)) % 3
    weighted = with_splits(clone(estimator), groups)
    repeated = with_splits(clone(estimator), np.repeat(groups, counts))
    return X, y, counts, weighted, repeated


@every(lambda e: takes_weights(e) and not draws_rows(e))
def test_weights_equal_repetition(estimator):
    X, y, counts, weighted, repeated = repetition(estimator)
    weighted.fit(X, y, sample_weight=counts)
    repeated.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(answer(weighted, X), answer(repeated, X), rtol=1e-6, atol=1e-6)


@every(lambda e: takes_weights(e) and not draws_rows(e))
def test_a_row_without_weight_is_a_row_that_is_not_there(estimator):
    X, y, _, weighted, dropped = repetition(estimator)
    w = np.ones(len(y))
    w[::4] = 0.0
    wild, odd = X.copy(), y.copy()
    wild[::4] *= 50.0  # whatever stands in such a row
    odd[::4] = -99.0
    groups = np.arange(len(y)) % 3
    weighted.fit(wild, odd, sample_weight=w)
    with_splits(dropped, groups[w > 0]).fit(X[w > 0], y[w > 0])
    assert_allclose(answer(weighted, X), answer(dropped, X), rtol=1e-6, atol=1e-6)


@every(lambda e: takes_weights(e) and not draws_rows(e))
def test_equal_weights_are_no_weights(estimator):
    X, y = easy(estimator, 36, 3)
    plain = clone(estimator).fit(X, y)
    ones = clone(estimator).fit(X, y, sample_weight=np.ones(len(y)))
    assert_allclose(answer(ones, X), answer(plain, X), rtol=1e-6, atol=1e-6)
    scalar = clone(estimator).fit(X, y, sample_weight=1.0)
    assert_allclose(answer(scalar, X), answer(plain, X), rtol=1e-6, atol=1e-6)


@every(lambda e: takes_weights(e) and draws_rows(e))
def test_weights_equal_repetition_in_distribution(estimator):
    """Two samples of fits, weighted and repeated, over many seeds: means of the answers agree within their error."""
    X, y, counts, weighted, repeated = repetition(estimator)
    many = {"weighted": [], "repeated": []}
    for seed in range(40):
        weighted.set_params(random_state=seed).fit(X, y, sample_weight=counts)
        repeated.set_params(random_state=1000 + seed).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        many["weighted"].append(answer(weighted, X)[:, 0])
        many["repeated"].append(answer(repeated, X)[:, 0])
    a, b = (np.array(fits) for fits in many.values())
    error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / len(a))
    gap = np.abs(a.mean(axis=0) - b.mean(axis=0))
    # 36 answers lie on a space of 4 dimensions; six standard errors is a false alarm rate below 1e-6.
    assert (gap <= 6 * error + 1e-3 * np.abs(y).max()).all()


# Threads.


def bits(value: Any) -> Any:
    """Anything fitted, as something that compares to the bit."""
    if isinstance(value, np.ndarray):
        content = value.tobytes() if value.dtype != object else [bits(v) for v in value.flat]
        return (value.shape, value.dtype.str, content)
    if isinstance(value, pd.DataFrame | pd.Series):
        return value.to_json(double_precision=15)
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if isinstance(value, dict):
        return {key: bits(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [bits(v) for v in value]
    if isinstance(value, Result):
        compared = [name for name, one in value.__dataclass_fields__.items() if one.compare]  # no clock
        return {name: bits(getattr(value, name)) for name in compared}
    return repr(value) if not hasattr(value, "__dict__") else {name: bits(v) for name, v in vars(value).items()}


@every(has("n_jobs"))
def test_n_jobs_never_changes_a_bit(estimator, monkeypatch):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)  # so that threads are really used
    X, y = easy(estimator, 300, 12)
    seen = []
    for n_jobs in (None, 1, 2, 3, -1):
        fitted = clone(estimator).set_params(n_jobs=n_jobs).fit(X, y)
        state = {name: bits(value) for name, value in vars(fitted).items() if name != "n_jobs"}
        seen.append({**state, "answer": bits(answer(fitted, X))})
    for other in seen[1:]:
        assert other.keys() == seen[0].keys()
        for name in other:
            assert other[name] == seen[0][name], name


@every(lambda e: has("random_state")(e))
def test_a_seed_fixes_the_answer(estimator):
    X, y = easy(estimator)
    first, second = (clone(estimator).set_params(random_state=3).fit(X, y) for _ in range(2))
    assert_array_equal(answer(first, X), answer(second, X))
    generator = clone(estimator).set_params(random_state=np.random.RandomState(3)).fit(X, y)
    assert answer(generator, X).shape == answer(first, X).shape


# Company.


@every()
def test_in_a_pipeline_and_in_a_search(estimator):
    X, y = easy(estimator)
    scaler = "passthrough" if takes_counts(estimator) else StandardScaler()  # counts stay counts
    pipe = make_pipeline(scaler, clone(estimator)).fit(frame(X), y)
    assert answer(pipe, frame(X)).shape[0] == len(X)
    if is_regressor(estimator) or is_classifier(estimator):
        search = GridSearchCV(clone(estimator), {}, cv=KFold(2, shuffle=True, random_state=0), error_score="raise").fit(
            X, y
        )
        assert np.isfinite(search.best_score_)


@every(lambda e: is_regressor(e) or is_classifier(e))
def test_it_learns(estimator):
    X, y = easy(estimator, 500, 3)
    chance = 0.5 if is_classifier(estimator) else 0.0
    assert clone(estimator).fit(X[:400], y[:400]).score(X[400:], y[400:]) > chance + 0.25


@every()
def test_nothing_but_assays_own_warnings_on_easy_data(estimator):
    X, y = easy(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", AssayWarning)
        answer(clone(estimator).fit(X, y), X)
