"""What every estimator shares: declared parameter ranges and one gate for data.

A class declares its ranges once:

    constraints = {"alpha": real(0), "solver": one_of("qr", "gradient"), "max_iter": integer(1)}

and its `fit` validates everything once: parameters are checked against their ranges, X and y
become clean arrays, and anything wrong is refused in one sentence that names the column and the row.
After that everything is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from assay.callbacks import SupportsCallbacks
from assay.checks import from_lists, refuse_vector, row_weights
from assay.constraints import Constraint, array_like, boolean, instance_of, integer, jobs, none, one_of, real, seed
from assay.errors import AssayError, DataError, DataTypeError, ParameterError
from assay.levels import as_frame, refuse_kind
from assay.state import Specs, Stateful, names, size

__all__ = [
    "LARGEST",
    "Constraint",
    "Estimator",
    "array_like",
    "boolean",
    "check_target",
    "groups_name",
    "instance_of",
    "integer",
    "jobs",
    "none",
    "one_of",
    "real",
    "refuse_not_finite",
    "seed",
    "unchanged_on_error",
    "weight_name",
]

IMPUTE = "drop those rows or impute the missing values first, for instance with sklearn.impute.SimpleImputer"
REPLACE = "replace it with a finite number or drop that row"
RESCALE = "rescale the column, or correct the value"
NUMERIC = "convert the column first, for instance with pandas.to_numeric"
ENCODE = "encode it as numbers first, for instance with sklearn.preprocessing.OneHotEncoder, or drop the column"

LARGEST = np.float64(1e153)
"""Beyond this a square overflows, and with it every sum of squares after validation."""


class Estimator(SupportsCallbacks, Stateful, BaseEstimator):
    """Root of all estimators: scikit-learn's API, with `constraints` validated once.

    What a model file holds of an estimator is declared in `state` (see `assay.state`).
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {}
    state: ClassVar[Specs] = {"n_features_in_": size("p"), "feature_names_in_": names("p", optional=True)}

    def _check_parameters(self) -> None:
        for name, value in self.get_params(deep=False).items():
            constraint = self.constraints[name]
            if not constraint.accepts(value):
                raise ParameterError(
                    f"{type(self).__name__}: {name} = {value!r} is out of range",
                    remedy=f"it must be {constraint.words}",
                )

    def _validate(
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
            check_target(y)
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
            raise DataTypeError(_one_line(error), remedy=_remedy(str(error))) from error
        except ValueError as error:
            raise DataError(_one_line(error), remedy=_remedy(str(error))) from error
        clean, target = checked if with_y and y is not None else (checked, None)
        if finite:
            refuse_not_finite(clean, names)
        # Sums of small whole numbers overflow in their own type, so the target is always float64.
        return clean if target is None else (clean, target.astype(np.float64, copy=False))

    def _as_came(self, X: Any, *, reset: bool) -> Any:
        """X for a learner inside, which alone knows what it can take: lists become an array, all else stays.

        What has no rows and columns is refused; more than two dimensions are left to the learner.
        """
        if not hasattr(X, "shape"):
            array = from_lists(X)
            X = (
                self._validate(X, reset=reset) if array is None else array
            )  # the gate says what is wrong with ragged lists
        if len(X.shape) < 2:
            refuse_vector(X)
        if 0 in X.shape:
            self._validate(np.empty(X.shape), reset=reset)  # which says what is missing
        return X

    def _validate_frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """A table of numbers and categories as columns, after the common checks of parameters, names and shapes."""
        if reset:
            self._check_parameters()
        else:
            check_is_fitted(self)
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        frame = as_frame(X, plain="iuf")
        if frame is None:
            values = self._validate(X, reset=reset, finite=False)
            return pd.DataFrame(values, columns=X.columns if isinstance(X, pd.DataFrame) else None, copy=False)
        self._match_columns(X if isinstance(X, pd.DataFrame) else frame.to_numpy(), reset=reset)
        if frame.shape[1] == 0 or len(frame) == 0:
            self._validate(np.empty(frame.shape), reset=reset)  # which says what is missing
        return frame

    def _match_columns(self, X: Any, *, reset: bool) -> None:
        """Learn number and names of the columns, or refuse a table that has others than in `fit`."""
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except TypeError as error:
            raise DataTypeError(_one_line(error), remedy=_remedy(str(error))) from error
        except ValueError as error:
            raise DataError(_one_line(error), remedy=_remedy(str(error))) from error

    def _weights(self, sample_weight: Any, n: int) -> np.ndarray | None:
        """The weights as a clean vector, or None when every row counts the same."""
        return row_weights(sample_weight, n)

    def _feature_names(self) -> list[str]:
        """The column names of the training data, or x0, x1, ... when it had none."""
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [f"x{j}" for j in range(self.n_features_in_)]

    def _column(self, j: int) -> str:
        """How an error names a column of the training data."""
        return _column(j, getattr(self, "feature_names_in_", None))


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """A fit that fails leaves the estimator as it was, so that an earlier fit stays whole.

    >>> class Model:
    ...     pass
    >>> model = Model()
    >>> try:
    ...     with unchanged_on_error(model):
    ...         model.half = 1
    ...         raise ValueError
    ... except ValueError:
    ...     vars(model)
    {}
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def weight_name(estimator: Any) -> str | None:
    """What a learner's `fit` calls its weights (a pipeline passes them on to its last step); None if it takes none."""
    return _fit_name(estimator, "sample_weight")


def groups_name(estimator: Any) -> str | None:
    """What a learner that splits rows itself calls its groups in `fit`, as `weight_name`; None if it takes none."""
    return _fit_name(estimator, "groups")


def _fit_name(estimator: Any, name: str) -> str | None:
    """What `fit` of a learner, or of the pipeline around it, calls an argument; None where it takes none."""
    steps = getattr(estimator, "steps", None)
    if not steps:
        return name if has_fit_parameter(estimator, name) else None
    inner = _fit_name(steps[-1][1], name)
    # With metadata routing a pipeline takes the bare name and hands it to the steps that request it.
    return inner if inner is None or get_config()["enable_metadata_routing"] else f"{steps[-1][0]}__{inner}"


def refuse_not_finite(X: Any, names: Sequence[str] | None = None) -> None:
    """Raise a `DataError` that names column and row if X holds NaN, an infinity or a number without a square.

    The sum of all squares is finite unless a cell is not, or is too large to be squared (or there are
    very many, which the second look sorts out), so clean data is read once and nothing is allocated.
    """
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X
    if values.dtype.kind != "f" or np.isfinite(_sum_of_squares(values)):
        return
    bad = ~np.isfinite(values)
    if not bad.any():
        bad = np.abs(values) > LARGEST
        if not bad.any():
            return
    if is_sparse:
        at = int(np.argmax(bad))
        coo: Any = X.tocoo()
        row, column, value = int(coo.row[at]), int(coo.col[at]), coo.data[at]
    else:
        row, column = (int(i) for i in np.unravel_index(int(np.argmax(bad)), X.shape))
        value = X[row, column]
    where, more = f"in {_column(column, names)}, row {row}", int(bad.sum()) - 1
    raise DataError(
        f"X contains {_word(value)} {where}" + (f" (and in {more} more cells)" if more else ""),
        remedy=IMPUTE if np.isnan(value) else RESCALE if np.isfinite(value) else REPLACE,
    )


def _sum_of_squares(values: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype != np.float64:
            # The square of the largest float32 is far below the largest float64.
            return float(values.sum(dtype=np.float64))
        if values.flags.c_contiguous or values.flags.f_contiguous:
            flat = values.ravel(order="K")
            return float(flat @ flat)
        return float(np.einsum("ij,ij->", values, values))


def _word(value: float) -> str:
    """What to call a number that cannot be used."""
    if np.isnan(value):
        return "NaN"
    return f"{value:.4g}, too large to be squared," if np.isfinite(value) else "inf"


def _refuse_what_is_no_number(X: Any) -> None:
    """Text, dates, complex numbers and missing values in typed columns, found before anything converts them."""
    is_sparse = sparse.issparse(X)
    if is_sparse:
        if X.dtype.kind == "c":
            raise DataError("Complex data not supported: X is sparse and complex", remedy="pass X.real and X.imag")
        return
    if isinstance(X, pd.DataFrame):
        if X.shape[1] == 0:
            what = f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required"
            raise DataError(what, remedy=_remedy(what))
        for j, name in enumerate(X.columns):
            _refuse_column(X.iloc[:, j], _column(j, [str(name)] * (j + 1)))
        return
    array = from_lists(X) if isinstance(X, list | tuple) else X
    if not isinstance(array, np.ndarray):
        return  # ragged lists too: numpy raises on them, which is reported later
    if array.dtype.kind in "OUSMmc" and array.ndim == 2:
        for j in range(array.shape[1]):
            _refuse_column(pd.Series(array[:, j]) if array.dtype.kind != "c" else array[:, j], f"column {j}")


def _refuse_column(column: Any, where: str) -> None:
    kind = getattr(column.dtype, "kind", "O")
    refuse_kind(kind, where)
    if isinstance(column.dtype, np.dtype) and kind in "biuf":
        return
    missing = np.asarray(pd.isna(column))
    for row, value in enumerate(column):
        if missing[row]:
            raise DataError(f"X contains NaN in {where}, row {row}", remedy=IMPUTE)
        if isinstance(value, str | bytes):
            raise DataError(
                f"{where} contains the text {value!r} in row {row}", remedy=NUMERIC if _reads(value) else ENCODE
            )
        try:
            float(value)
        except (TypeError, ValueError) as error:
            what = f"{where} contains a {type(value).__name__} in row {row}: {error}"
            raise DataTypeError(what, remedy=ENCODE) from error


def _reads(text: Any) -> bool:
    """Whether a text is a number in disguise."""
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def check_target(y: Any) -> None:
    """Refuse a target that holds what is missing, infinite, too large to be squared or no number, by row."""
    if sparse.issparse(y):
        raise DataTypeError("y is sparse", remedy="pass y.toarray()")
    target = from_lists(y) if isinstance(y, list | tuple) else np.asarray(y)
    if target is None:
        raise DataError("y is a ragged list: its rows differ in length", remedy="pass one number per row")
    kind = target.dtype.kind
    if target.ndim == 0:
        raise DataError("y is a single value", remedy="pass one number per row")
    if kind == "c":
        raise DataError("Complex data not supported: y contains complex numbers", remedy="pass a real target")
    if kind in "Mm":
        raise DataTypeError("y contains dates or times", remedy="convert it to numbers first")
    if kind not in "OUSf" or target.size == 0:
        return
    if kind == "f":
        with np.errstate(invalid="ignore"):
            bad = ~(np.abs(target) <= LARGEST)
    else:
        bad = ~np.frompyfunc(_is_usable_number, 1, 1)(target).astype(bool)
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), target.shape)
        value = target[at].item() if isinstance(target[at], np.generic) else target[at]
        if isinstance(value, str | bytes):
            what = f"y contains the text {value!r} in row {at[0]} (Unknown label type)"
            raise DataError(what, remedy="pass one number per row")
        if not pd.api.types.is_scalar(value) or not (pd.isna(value) or isinstance(value, Real)):
            what = f"y contains a {type(value).__name__} in row {at[0]}"
            raise DataTypeError(what, remedy="pass one number per row")
        what = "NaN" if pd.isna(value) else _word(float(value))
        remedy = RESCALE if not pd.isna(value) and np.isfinite(float(value)) else "drop the rows without a valid target"
        raise DataError(f"y contains {what} in row {at[0]}", remedy=remedy)


def _is_usable_number(value: Any) -> bool:
    try:
        return not isinstance(value, str | bytes) and bool(abs(float(value)) <= LARGEST)
    except (TypeError, ValueError):
        return False


def _column_names(X: Any) -> list[str] | None:
    return [str(name) for name in X.columns] if isinstance(X, pd.DataFrame) else None


def _column(j: int, names: Sequence[str] | None) -> str:
    return f"column {j}" if names is None else f"column {names[j]!r}"


def _one_line(error: Exception) -> str:
    """The sentence of an error, without the numbers that scikit-learn prints of an array that is no table."""
    said = re.sub(r": array=.*?\. (?=Reshape)", ". ", " ".join(str(error).split()))
    return said.rstrip(".- ") or type(error).__name__


_REMEDIES = {
    "string names": "use strings as column names: X.columns = X.columns.astype(str)",
    "feature(s)": "pass a table with at least one column",
    "sample(s)": "pass more rows",
    "features, but": "pass the same columns as in fit",
    "feature names": "pass the columns of fit, in the same order",
    "inconsistent numbers of samples": "give X and y the same number of rows",
    "parse": "pass X.toarray(), or use an estimator that takes sparse input",
    "y should be a 1d array": "pass one number per row",
    "y cannot be None": "pass the target as y",
    "y to be passed": "pass the target as y",
}
_A_TABLE = "pass a table of numbers, one row per observation and one column per variable"


def _remedy(message: str) -> str:
    return next((remedy for part, remedy in _REMEDIES.items() if part in message), _A_TABLE)
