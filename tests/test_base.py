"""The gate: declared ranges, clean arrays, and one sentence for whatever is wrong."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import RegressorMixin

from assay import base
from assay.base import Estimator, array_like, boolean, instance_of, integer, jobs, none, one_of, real, seed
from assay.errors import AssayError, DataError, DataTypeError, ParameterError

NAN = float("nan")


class Toy(RegressorMixin, Estimator):
    constraints = {"alpha": real(0), "mode": one_of("a", "b")}
    takes = False

    def __init__(self, alpha=1.0, mode="a"):
        self.alpha = alpha
        self.mode = mode

    def fit(self, X, y=None, sample_weight=None):
        self.X_, self.y_ = self._validate(X, y, sparse=self.takes)
        self.w_ = self._weights(sample_weight, self.X_.shape[0])
        return self

    def predict(self, X):
        return self._validate(X, reset=False, sparse=self.takes)[:, 0]


class SparseToy(Toy):
    takes = ("csr", "csc")


def refuse(X, y=(1.0, 2.0, 3.0), kind=Toy, **options) -> AssayError:
    """The error that fitting raises; it must say what to do."""
    with pytest.raises(AssayError) as caught:
        kind().fit(X, y, **options)
    assert caught.value.remedy, f"no remedy: {caught.value}"
    assert "\n" not in str(caught.value), "one sentence"
    return caught.value


GOOD = np.arange(6.0).reshape(3, 2)


# Ranges of parameters.


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (real(0), [0, 0.5, 1e300, np.float32(1), np.int64(3)], [-1e-300, NAN, np.inf, "1", None, True, 1j, [1.0]]),
        (real(0, 1, open_low=True, open_high=True), [0.5], [0, 1, 0.0, 1.0]),
        (real(0, 1), [0, 1], [1.0000001, -0.1]),
        (integer(1), [1, np.int8(3), 10**30], [0, 1.0, True, np.True_, "1", None]),
        (integer(1, 3), [1, 2, 3], [0, 4]),
        (integer(), [-5, 0], [0.5]),
        (one_of("a", None, 2), ["a", None, 2], ["b", 2.0, "", True, np.zeros(3)]),
        (boolean, [True, False, np.True_], [0, 1, "yes", None]),
        (none, [None], [0, "", False]),
        (array_like, [[1], (1,), np.ones(2), pd.Series([1]), pd.Index([1])], [1, "ab", None, {1: 2}]),
        (instance_of(dict, "a dict"), [{}], [[]]),
        (seed, [None, 0, 2**32 - 1, np.random.RandomState(0), np.random.default_rng(0)], [-1, 2**32, 0.5, "x"]),
        (jobs, [None, 1, -1, np.int64(2)], [0, 1.5, True, "2"]),
        (real(0) | none, [None, 0.0], [-1, "x"]),
    ],
)
def test_ranges(constraint, good, bad):
    assert constraint.words
    for value in good:
        assert constraint.accepts(value), value
    for value in bad:
        assert not constraint.accepts(value), value


def test_words_of_ranges():
    assert real(0, 1, open_low=True).words == "a number in (0, 1]"
    assert real(0).words == "a number in [0, inf)"
    assert real().words == "a number in (-inf, inf)"
    assert integer(1).words == "a whole number of at least 1"
    assert integer(1, 3).words == "a whole number from 1 to 3"
    assert (one_of("a", "b") | none).words == "'a' or 'b' or None"


@pytest.mark.parametrize(("name", "value"), [("alpha", -1), ("alpha", "x"), ("mode", "c"), ("mode", object())])
def test_a_wrong_parameter_is_refused_in_fit_and_not_before(name, value):
    toy = Toy(**{name: value})
    with pytest.raises(ParameterError, match=f"Toy: {name} = .*it must be"):
        toy.fit(GOOD, [1, 2, 3])


def test_parameters_are_checked_before_the_data():
    with pytest.raises(ParameterError):
        Toy(alpha=-1).fit("nonsense", None)


# Good data comes through.


@pytest.mark.parametrize(
    "X",
    [
        GOOD,
        GOOD.tolist(),
        np.asfortranarray(GOOD),
        GOOD.astype(np.float32),
        GOOD.astype(int),
        GOOD.astype(object),
        pd.DataFrame(GOOD),
        pd.DataFrame(GOOD, columns=["a", "b"]).astype({"a": "Float64", "b": "Int64"}),
        pd.DataFrame(GOOD).astype(object),
        pd.DataFrame(GOOD).astype("category"),
    ],
)
def test_numbers_in_any_dress(X):
    toy = Toy().fit(X, [1, 2, 3])
    assert toy.X_.dtype == np.float64
    assert toy.X_.tolist() == GOOD.tolist()
    assert toy.predict(X).tolist() == GOOD[:, 0].tolist()


@pytest.mark.parametrize(
    "y",
    [
        [1, 2, 3],
        np.array([1, 2, 3], dtype=np.int8),
        np.array([1, 2, 3], dtype=np.float32),
        np.array([1, 2, 3], dtype=object),
        pd.Series([1, 2, 3], index=[7, 8, 9]),
        pd.Series([1, 2, 3], dtype="Int64"),
        pd.array([1.0, 2.0, 3.0], dtype="Float64"),
    ],
)
def test_targets_in_any_dress(y):
    fitted = Toy().fit(GOOD, y).y_
    assert fitted.tolist() == [1.0, 2.0, 3.0]
    assert fitted.dtype == np.float64  # small whole numbers would overflow in the sums behind the gate


def test_bool_is_a_number():
    toy = Toy().fit(GOOD > 2, np.array([True, False, True]))
    assert toy.X_.dtype == toy.y_.dtype == np.float64
    assert np.array_equal(toy.X_, (GOOD > 2).astype(float))
    assert toy.y_.tolist() == [1.0, 0.0, 1.0]


# Bad X: what, where and what to do.


@pytest.mark.parametrize("value", [NAN, np.inf, -np.inf])
def test_not_finite_names_column_and_row(value):
    X = GOOD.copy()
    X[2, 1] = value
    word = "NaN" if np.isnan(value) else "inf"
    assert f"{word} in column 1, row 2" in str(refuse(X))
    assert f"{word} in column 'bmi', row 2" in str(refuse(pd.DataFrame(X, columns=["age", "bmi"])))
    assert f"{word} in column 1, row 2" in str(refuse(X.astype(np.float32)))
    assert f"{word} in column 1, row 2" in str(refuse(sparse.csr_array(X), kind=SparseToy))
    assert f"{word} in column 1, row 2" in str(refuse(sparse.csc_array(X), kind=SparseToy))
    assert f"{word} in column 1, row 2" in str(refuse(X.tolist()))
    assert f"{word} in column 1, row 2" in str(refuse(X.astype(object)))
    X[0, 0] = value
    assert "column 0, row 0 (and in 1 more cells)" in str(refuse(X))


def test_numbers_too_large_to_be_squared_name_column_and_row():
    X = GOOD.copy()
    X[2, 1] = -1e200
    for table in (X, X.tolist(), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.astype(object)):
        assert "-1e+200, too large to be squared, in column 1, row 2" in str(refuse(table))
    assert "in column 1, row 2" in str(refuse(sparse.csc_array(X), kind=SparseToy))
    assert "in row 1" in str(refuse(GOOD, [1.0, 1e200, 3.0]))
    assert "in row 1" in str(refuse(GOOD, np.array([1, 10**200, 3], dtype=object)))


def test_large_numbers_are_fine_also_many_of_them():
    X = np.full((3, 2), 1e152)
    assert Toy().fit(X, [1e152, 2, 3]).X_[0, 0] == 1e152
    X = np.full((200_000, 2), 1e152)  # the squares of all of them add up to infinity
    assert Toy().fit(X, np.zeros(len(X))).X_[0, 0] == 1e152
    assert Toy().fit(np.full((3, 2), 3e38, dtype=np.float32), [1, 2, 3]).X_[0, 0] > 2e38


@pytest.mark.parametrize("missing", [None, pd.NA, NAN, pd.NaT])
def test_missing_values_in_object_columns(missing):
    X = GOOD.astype(object)
    X[1, 1] = missing
    assert "NaN in column 1, row 1" in str(refuse(X))
    assert "NaN in column 'b', row 1" in str(refuse(pd.DataFrame(X, columns=["a", "b"])))
    assert "NaN in column 1, row 1" in str(refuse(X.tolist()))


def test_missing_values_in_nullable_columns():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": pd.array([1, None, 3], dtype="Int64")})
    assert "NaN in column 'b', row 1" in str(refuse(X))


def test_text_names_the_column_that_holds_it():
    X = GOOD.astype(object)
    X[1, 1] = "tall"
    assert "column 1 contains the text 'tall' in row 1" in str(refuse(X))
    assert "column 'b' contains the text 'tall' in row 1" in str(refuse(pd.DataFrame(X, columns=["a", "b"])))
    # numpy would turn the whole list into text and blame the first column
    assert "column 1 contains the text 'tall' in row 1" in str(refuse(X.tolist()))
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})
    assert "column 'b' contains the text 'x' in row 0" in str(refuse(frame))
    assert "column 'b' contains the text 'x' in row 0" in str(refuse(frame.astype({"b": "category"})))
    assert "column 0 contains the text" in str(refuse(np.array([["a"], ["b"], ["c"]])))


def test_dates_and_complex_numbers():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "when": pd.date_range("2020", periods=3)})
    error = refuse(frame)
    assert isinstance(error, DataTypeError)
    assert "column 'when' contains dates" in str(error)
    assert "column 'when'" in str(refuse(frame.assign(when=frame.when - frame.when[0])))
    assert "column 'when'" in str(refuse(frame.assign(when=frame.when.dt.tz_localize("UTC"))))
    assert "column 'when'" in str(refuse(frame.assign(when=frame.when.dt.to_period("M"))))
    assert "column 0 contains dates" in str(refuse(np.array([["2020-01-01"]] * 3, dtype="datetime64[D]")))
    assert "Complex data not supported" in str(refuse(GOOD + 1j))
    assert "Complex data not supported" in str(refuse((GOOD + 1j).tolist()))
    assert "Complex data not supported" in str(refuse(sparse.csr_array(GOOD + 1j), kind=SparseToy))
    assert "column 'z'" in str(refuse(pd.DataFrame({"z": [1j, 2j, 3j]})))


@pytest.mark.parametrize("odd", [{"a": 1}, [1, 2], {1, 2}, object()])
def test_other_objects_in_cells(odd):
    X = GOOD.astype(object)
    X[1, 0] = odd
    assert "column 0" in str(refuse(X))
    assert "row 1" in str(refuse(X))


@pytest.mark.parametrize(
    "X",
    [
        np.empty((0, 2)),
        np.empty((3, 0)),
        pd.DataFrame(index=range(3)),
        np.arange(3.0),
        [1.0, 2.0, 3.0],
        pd.Series([1.0, 2.0, 3.0]),
        np.zeros((3, 2, 2)),
        np.array(1.0),
        3.0,
        None,
        "text",
        [[1.0, 2.0], [3.0], [4.0, 5.0]],
        {"a": [1, 2, 3]},
        np.matrix(GOOD),
        pd.DataFrame(GOOD, columns=["a", 1]),
        (row for row in GOOD),
        object(),
    ],
    ids=lambda X: type(X).__name__ + str(getattr(X, "shape", "")),
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_what_is_no_table(X):
    refuse(X)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sparse_where_it_is_claimed_and_refused_where_not(kind):
    for X in (sparse.coo_array(GOOD).asformat(kind), sparse.coo_matrix(GOOD).asformat(kind)):
        error = refuse(X)
        assert isinstance(error, DataTypeError)
        assert "toarray" in error.remedy
        assert SparseToy().fit(X, [1, 2, 3]).X_.toarray().tolist() == GOOD.tolist()


# Bad targets.


@pytest.mark.parametrize(
    ("y", "says"),
    [
        ([1.0, NAN, 3.0], "y contains NaN in row 1"),
        ([1.0, 2.0, np.inf], "y contains inf in row 2"),
        ([1.0, 2.0, None], "y contains NaN in row 2"),
        (np.array([1.0, 2.0, -np.inf], dtype=object), "y contains inf in row 2"),
        (pd.Series([1, pd.NA, 3], dtype="Int64"), "y contains NaN in row 1"),
        (["a", "b", "c"], "y contains the text 'a' in row 0"),
        ([1.0, "b", 3.0], "'b' in row 1"),
        (np.array([1, 2, 3]) * 1j, "Complex data not supported"),
        (pd.date_range("2020", periods=3), "y contains dates"),
        ([1.0, 2.0], "inconsistent numbers of samples"),
        (np.ones((3, 2)), "1d array"),
        (sparse.csr_array(np.ones((3, 1))), "y is sparse"),
        (None, "requires y"),
        (np.array([{}, {}, {}]), "y contains a dict in row 0"),
        ([[1], [2, 3], [4]], "y"),
        (3.0, "y"),
    ],
    ids=str,
)
def test_bad_targets_name_the_row(y, says):
    assert says in str(refuse(GOOD, y))


# Weights.


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([1.0, 2.0], "expected (3,)"),
        ([1.0, NAN, 1.0], "NaN in row 1"),
        ([1.0, 1.0, np.inf], "inf in row 2"),
        ([1.0, -1.0, 1.0], "-1 in row 1"),
        ([0.0, 0.0, 0.0], "every sample weight is zero"),
        (np.ones((3, 1)), "dimensions"),
        (["a", "b", "c"], "not a number"),
        ("heavy", "not a number"),
        ([1.0, None, 1.0], "row 1"),
        ([1.0, [1.0], 1.0], "not a number"),
        (np.ones(3) * 1j, "not a number"),
        (pd.Series([1.0, pd.NA, 1.0]), "row 1"),
        ([1e308, 1e308, 1e308], "sum"),
        ({}, "not a number"),
        (pd.date_range("2020", periods=3), "not a number"),
    ],
    ids=str,
)
def test_bad_weights(weights, says):
    error = refuse(GOOD, sample_weight=weights)
    assert isinstance(error, DataError)
    assert "sample_weight" in str(error) or "sample weight" in str(error)
    assert says in str(error)


def test_good_weights():
    assert Toy().fit(GOOD, [1, 2, 3]).w_ is None
    assert Toy().fit(GOOD, [1, 2, 3], sample_weight=2).w_.tolist() == [2.0, 2.0, 2.0]
    assert Toy().fit(GOOD, [1, 2, 3], sample_weight=np.array([1, 0, 2], dtype=np.int8)).w_.tolist() == [1.0, 0.0, 2.0]
    assert Toy().fit(GOOD, [1, 2, 3], sample_weight=pd.Series([1, 0, 2], index=[5, 6, 7])).w_.tolist() == [1, 0, 2]
    assert Toy().fit(GOOD, [1, 2, 3], sample_weight=np.array([True, False, True])).w_.tolist() == [1, 0, 1]


# At predict.


def test_predict_before_fit_and_with_other_columns():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        Toy().predict(GOOD)
    frame = pd.DataFrame(GOOD, columns=["a", "b"])
    toy = Toy().fit(frame, [1, 2, 3])
    for wrong in (frame[["b", "a"]], frame.rename(columns={"a": "c"}), frame[["a"]], frame.assign(c=1.0)):
        with pytest.raises(DataError) as caught:
            toy.predict(wrong)
        assert caught.value.remedy
    with pytest.raises(DataError, match="features") as caught:
        Toy().fit(GOOD, [1, 2, 3]).predict(GOOD[:, :1])
    assert caught.value.remedy
    with pytest.raises(DataError, match="row 1"):
        toy.predict(frame.mask(frame > 2.5))
    with pytest.warns(UserWarning, match="feature names"):
        toy.predict(GOOD)


def test_feature_names():
    assert Toy().fit(GOOD, [1, 2, 3])._feature_names() == ["x0", "x1"]
    assert Toy().fit(pd.DataFrame(GOOD, columns=["ä", "b c"]), [1, 2, 3])._feature_names() == ["ä", "b c"]


def test_validation_errors_survive_pickling():
    error = refuse([[NAN]], [1.0])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_every_public_name_exists():
    for name in base.__all__:
        assert getattr(base, name) is not None
