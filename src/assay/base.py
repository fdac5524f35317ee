"""What every estimator shares: declared parameter ranges and one gate for data.

A class declares its ranges once:

    constraints = {"alpha": real(0), "solver": one_of("qr", "gradient"), "max_iter": integer(1)}

and its `fit` passes everything through the gate: parameters are checked against their ranges, X and y
become clean arrays, and anything wrong is refused in one sentence that names the column and the row.
Behind the gate everything is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from assay.errors import AssayError, DataError, DataTypeError, ParameterError

__all__ = [
    "Constraint",
    "Estimator",
    "array_like",
    "boolean",
    "instance_of",
    "integer",
    "jobs",
    "none",
    "one_of",
    "real",
    "seed",
]

IMPUTE = "drop those rows or fill the gaps first, for instance with sklearn.impute.SimpleImputer"
ENCODE = "encode it as numbers first, for instance with sklearn.preprocessing.OneHotEncoder, or drop the column"


class Constraint:
    """The range of a parameter: a test and the words for it. `a | b` accepts what either accepts.

    >>> level = real(0, 1, open_low=True, open_high=True)
    >>> level.accepts(0.95), level.accepts(1), level.words
    (True, False, 'a number in (0, 1)')
    """

    def __init__(self, accepts: Callable[[Any], bool], words: str) -> None:
        self.accepts = accepts
        self.words = words

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(lambda v: self.accepts(v) or other.accepts(v), f"{self.words} or {other.words}")


def real(low: float = -np.inf, high: float = np.inf, *, open_low: bool = False, open_high: bool = False) -> Constraint:
    """A finite number between two limits, which belong to the range unless they are open."""

    def accepts(value: Any) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            return False
        value = float(value)
        if not np.isfinite(value):
            return False
        above = value > low if open_low else value >= low
        return bool(above and (value < high if open_high else value <= high))

    left = "(" if open_low or low == -np.inf else "["
    right = ")" if open_high or high == np.inf else "]"
    return Constraint(accepts, f"a number in {left}{low:g}, {high:g}{right}")


def integer(low: float = -np.inf, high: float = np.inf) -> Constraint:
    """A whole number between two limits, both included."""

    def accepts(value: Any) -> bool:
        return isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high

    if low == -np.inf and high == np.inf:
        return Constraint(accepts, "a whole number")
    words = f"a whole number of at least {low:g}" if high == np.inf else f"a whole number from {low:g} to {high:g}"
    return Constraint(accepts, words)


def one_of(*options: Any) -> Constraint:
    """One of a few values, by equality and type."""

    def accepts(value: Any) -> bool:
        return any(type(value) is type(option) and value == option for option in options)

    return Constraint(accepts, " or ".join(repr(option) for option in options))


def instance_of(kind: type | tuple[type, ...], words: str) -> Constraint:
    """An object of the given class."""
    return Constraint(lambda value: isinstance(value, kind), words)


def _is_array(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray | pd.Series | pd.Index)


boolean = instance_of((bool, np.bool_), "True or False")
none = one_of(None)
array_like = Constraint(_is_array, "an array")
seed = none | integer(0, 2**32 - 1) | instance_of((np.random.RandomState, np.random.Generator), "a random generator")
jobs = none | Constraint(
    lambda v: isinstance(v, Integral) and not isinstance(v, bool) and v != 0, "a non-zero whole number"
)


class Estimator(BaseEstimator):
    """Root of all estimators: scikit-learn's API, with `constraints` checked once, at the gate."""

    constraints: ClassVar[Mapping[str, Constraint]] = {}

    def _check_parameters(self) -> None:
        for name, value in self.get_params(deep=False).items():
            constraint = self.constraints[name]
            if not constraint.accepts(value):
                raise ParameterError(
                    f"{type(self).__name__}: {name} = {value!r} is out of range",
                    remedy=f"it must be {constraint.words}",
                )

    def _gate(
        self,
        X: Any,
        y: Any = "no_validation",
        *,
        reset: bool = True,
        sparse: bool | Sequence[str] = False,
        dtype: Any = np.float64,
        order: str | None = None,
        multi_output: bool = False,
        finite: bool = True,
        min_samples: int = 1,
    ) -> Any:
        """Check the parameters (when fitting) and the data; return clean X, or (X, y) when y was given.

        `finite=False` leaves NaN and infinities in X to the caller, who promises to refuse them.
        """
        if reset:
            self._check_parameters()
        else:
            check_is_fitted(self)
        names = _column_names(X)
        _refuse_what_is_no_number(X)
        with_y = not (isinstance(y, str) and y == "no_validation")
        if with_y and y is not None:
            _check_target(y)
        options = {"y_numeric": True, "multi_output": multi_output} if with_y else {}
        try:
            checked = validate_data(
                self,
                X,
                y,
                reset=reset,
                accept_sparse=sparse,
                dtype=dtype,
                order=order,
                ensure_all_finite=False,
                ensure_min_samples=min_samples,
                **options,
            )
        except AssayError:
            raise
        except TypeError as error:
            raise DataTypeError(_first_line(error), remedy=_remedy(str(error))) from error
        except ValueError as error:
            raise DataError(str(error).rstrip(". "), remedy=_remedy(str(error))) from error
        clean = checked[0] if with_y and y is not None else checked
        if finite:
            refuse_not_finite(clean, names)
        return checked

    def _weights(self, sample_weight: Any, n: int) -> np.ndarray | None:
        """The weights as a clean vector, or None when every row counts the same."""
        if sample_weight is None:
            return None
        if np.ndim(sample_weight) == 0:
            sample_weight = np.full(n, sample_weight)
        try:
            w = np.ascontiguousarray(sample_weight, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                "sample_weight holds something that is no number", remedy="give one number per row"
            ) from error
        if w.ndim != 1:
            raise DataError(
                f"sample_weight has {w.ndim} dimensions: Sample weights must be 1D array or scalar",
                remedy="give one number per row",
            )
        if w.size != n:
            raise DataError(f"sample_weight.shape == {w.shape}, expected {(n,)}", remedy="give one number per row")
        for what, bad in (("NaN or inf", ~np.isfinite(w)), ("a negative value", w < 0)):
            if bad.any():
                row = int(np.argmax(bad))
                raise DataError(
                    f"sample_weight holds {what} in row {row}", remedy="give each row a finite weight of zero or more"
                )
        if not w.any():
            raise DataError("every sample weight is zero", remedy="give at least one row a positive weight")
        return w

    def _feature_names(self) -> list[str]:
        """The column names of the training data, or x0, x1, ... when it had none."""
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [f"x{j}" for j in range(self.n_features_in_)]


def refuse_not_finite(X: Any, names: Sequence[str] | None = None) -> None:
    """Raise a `DataError` that names column and row if X holds NaN or an infinity.

    The sum of all cells is finite unless one of them is not (or it overflows, which the second
    look sorts out), so clean data is read once and nothing is allocated.
    """
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind != "f" or np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all():
            return
    if is_sparse:
        coo: Any = X.tocoo()
        at = int(np.argmax(~np.isfinite(coo.data)))
        row, column, more = int(coo.row[at]), int(coo.col[at]), int((~np.isfinite(coo.data)).sum()) - 1
        value = coo.data[at]
    else:
        bad = ~np.isfinite(X)
        row, column = (int(i) for i in np.unravel_index(int(np.argmax(bad)), X.shape))
        value, more = X[row, column], int(bad.sum()) - 1
    raise DataError(
        f"X contains {'NaN' if np.isnan(value) else 'inf'} in {_column(column, names)}, row {row}"
        + (f" (and in {more} more cells)" if more else ""),
        remedy=IMPUTE if np.isnan(value) else "replace it by a finite number or drop that row",
    )


def _refuse_what_is_no_number(X: Any) -> None:
    """Text, dates, complex numbers and missing values in typed columns, found before anything converts them."""
    if sparse.issparse(X):
        return
    if isinstance(X, pd.DataFrame):
        for j, name in enumerate(X.columns):
            _refuse_column(X.iloc[:, j], _column(j, [str(name)] * (j + 1)))
        return
    array = np.asarray(X) if not hasattr(X, "dtype") and isinstance(X, list | tuple) and _is_regular(X) else X
    if not isinstance(array, np.ndarray):
        return
    if array.dtype.kind in "OUSMmc" and array.ndim == 2:
        for j in range(array.shape[1]):
            _refuse_column(pd.Series(array[:, j]) if array.dtype.kind != "c" else array[:, j], f"column {j}")


def _is_regular(rows: Any) -> bool:
    """Whether nested lists form a rectangle; numpy raises on anything else and the gate says so later."""
    try:
        np.asarray(rows)
    except ValueError:
        return False
    return True


def _refuse_column(column: Any, where: str) -> None:
    kind = getattr(column.dtype, "kind", "O")
    if kind == "c":
        what = f"Complex data not supported: {where} holds complex numbers"
        raise DataError(what, remedy="pass real and imaginary parts as two columns")
    if kind in "Mm":
        remedy = "turn it into numbers first, for instance days since a start"
        raise DataTypeError(f"{where} holds dates or times", remedy=remedy)
    if isinstance(column.dtype, np.dtype) and kind in "biuf":
        return
    missing = np.asarray(pd.isna(column))
    for row, value in enumerate(column):
        if missing[row]:
            raise DataError(f"X contains NaN in {where}, row {row}", remedy=IMPUTE)
        if isinstance(value, str | bytes):
            raise DataError(f"{where} holds the text {value!r} in row {row}", remedy=ENCODE)
        try:
            float(value)
        except (TypeError, ValueError) as error:
            what = f"{where} holds a {type(value).__name__} in row {row}: {error}"
            raise DataTypeError(what, remedy=ENCODE) from error


def _check_target(y: Any) -> None:
    """Missing, infinite and non-numeric targets, by row."""
    if sparse.issparse(y):
        raise DataTypeError("y is sparse", remedy="pass y.toarray()")
    target = np.asarray(y)
    kind = target.dtype.kind
    if kind == "c":
        raise DataError("Complex data not supported: y holds complex numbers", remedy="pass a real target")
    if kind in "Mm":
        raise DataTypeError("y holds dates or times", remedy="turn them into numbers first")
    if kind not in "OUSf" or target.size == 0:
        return
    if kind == "f":
        if np.isfinite(target).all():
            return
        bad = ~np.isfinite(target)
    else:
        bad = np.frompyfunc(lambda value: isinstance(value, str | bytes) or pd.isna(value), 1, 1)(target).astype(bool)
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), target.shape)
        value = target[at]
        if isinstance(value, str | bytes):
            what = f"y holds the text {value!r} in row {at[0]} (Unknown label type)"
            raise DataError(what, remedy="give one number per row")
        what = "NaN" if pd.isna(value) else "inf"
        raise DataError(f"y contains {what} in row {at[0]}", remedy="drop the rows without a usable target")


def _column_names(X: Any) -> list[str] | None:
    return [str(name) for name in X.columns] if isinstance(X, pd.DataFrame) else None


def _column(j: int, names: Sequence[str] | None) -> str:
    return f"column {j}" if names is None else f"column {names[j]!r}"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__


_REMEDIES = {
    "feature(s)": "pass a table with at least one column",
    "sample(s)": "pass more rows",
    "features, but": "pass the same columns as in fit",
    "feature names": "pass the columns of fit, in the same order",
    "inconsistent numbers of samples": "give X and y the same number of rows",
    "parse": "pass X.toarray(), or use an estimator that takes sparse input",
    "1D array": "pass a table of rows and columns",
    "y cannot be None": "pass the target as y",
    "y to be passed": "pass the target as y",
}


def _remedy(message: str) -> str | None:
    return next((remedy for part, remedy in _REMEDIES.items() if part in message), None)
