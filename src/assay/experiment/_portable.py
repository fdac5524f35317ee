"""Fitted objects in a form that a file may hold, and back: no code, no pandas objects, nothing that cannot be checked.

What changes on the way into a file, and changes back on the way out:

    Columns                    its `state()`: names and arrays
    SearchCV                   the candidate it chose and refitted; the search itself stays behind
    nearest neighbours         their rows and targets; the index over them is built again
    partial(check_array, ...)  its options (boosting with native categories holds one)
    tables, columns, indexes   plain arrays (skops cannot hold pandas objects)
    functions inside results   None: a stored test no longer computes other intervals

What compiled code will follow without looking is looked at once, after loading (`_portable_checks`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils import check_array

from assay.errors import DataTypeError
from assay.evaluation import SearchCV
from assay.experiment._portable_checks import check_fitted
from assay.experiment.columns import Columns

__all__ = ["ALLOWED", "pack", "unpack"]

Array = np.ndarray

_CLASSES = {
    "assay.calibration.classifier": "CalibratedClassifier",
    "assay.calibration.maps": "IsotonicMap LogisticMap",
    "assay.evaluation._calibrate": "Fit",
    "assay.evaluation.conformal": "Conformal",
    "assay.experiment._portable": "StoredArrayCheck StoredColumns StoredFrame StoredNeighbours",
    "assay.generative._categorical_nb": "CategoricalNB",
    "assay.generative._count_nb": "BernoulliNB MultinomialNB",
    "assay.generative._discriminant_rules": "DiagonalRule LinearRule QuadraticRule",
    "assay.generative._gaussian_nb": "GaussianNB",
    "assay.generative._gaussian_summary": "ClassMoments Frame",
    "assay.generative.discriminant": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "assay.generative.mixed": "MixedNB",
    "assay.generative.plug_in": "PlugInClassifier _Kernels",
    "assay.generative.text": "TellingWords TextNB",
    "assay.linear._inference": "Inference",
    "assay.linear._logistic_inference": "Inference",
    "assay.linear._separation": "Separation",
    "assay.linear.basis": "PolynomialBasis RadialBasis SplineBasis _Spline",
    "assay.linear.indicator": "LeastSquaresClassifier",
    "assay.linear.lars": "Knots Lars",
    "assay.linear.lasso": "ElasticNet ElasticNetCV Lasso LassoCV",
    "assay.linear.least_squares": "LinearRegression",
    "assay.linear.local": "LocalRegression _Cloud _Line",
    "assay.linear.logistic": "LogisticRegression",
    "assay.linear.logistic_cv": "LogisticPath LogisticRegressionCV",
    "assay.linear.ridge": "Ridge RidgeCV",
    "assay.linear.screening": "IterativeSIS Round SIS",
    "assay.linear.stepwise": "Stagewise Stepwise",
    "assay.linear.subset": "BestSubset",
    "assay.neighbors._loo": "LeaveOneOutCurve",
    "assay.neighbors.knn": "KNeighborsClassifier KNeighborsRegressor",
    "assay.numerics.triangle": "Solution Triangle",
    "assay.results": "Curve Interval Path Summary TestResult Trace",
    "assay.trees._cp_table": "CPTable",
    "assay.trees._nodes": "Nodes",
    "assay.trees._oob": "Sampler",
    "assay.trees._prune": "PruningPath",
    "assay.trees.bagging": "BaggingClassifier BaggingRegressor",
    "assay.trees.boosting": "GradientBoostingClassifier GradientBoostingRegressor",
    "assay.trees.cart": "DecisionTreeClassifier DecisionTreeRegressor",
    "assay.trees.forest": "RandomForestClassifier RandomForestRegressor",
    "assay.trees.pruning": "PrunedTreeClassifier PrunedTreeRegressor",
    # skops leaves these two to its callers, because their arrays are followed without a look: `unpack` looks.
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.tree._tree": "Tree",
}
ALLOWED = frozenset(f"{module}.{name}" for module, names in _CLASSES.items() for name in names.split())
"""The types that open without being asked for, beside scikit-learn's estimators and numpy's arrays."""


@dataclass(eq=False)
class StoredColumns:
    """Fitted preprocessing as JSON text and arrays."""

    schema: str
    arrays: dict[str, Array]


@dataclass(eq=False)
class StoredFrame:
    """A pandas table, column or index as plain arrays; `kind` says which it was."""

    kind: str
    names: list[Any]
    index: Array
    columns: list[Array]


@dataclass(eq=False)
class StoredNeighbours:
    """A nearest-neighbour learner before `fit`, and what it was fitted to."""

    learner: Any
    rows: Array
    target: Array
    names: Array | None


@dataclass(eq=False)
class StoredArrayCheck:
    """The options of scikit-learn's `check_array`, which boosting with native categories keeps as a partial call."""

    options: dict[str, Any]


# Into the file.


def pack(value: Any) -> Any:
    """A copy made of what a file may hold; the object itself is left alone."""
    return _packed(value, {}, frozenset())


def _packed(value: Any, done: dict[int, tuple[Any, Any]], above: frozenset[int]) -> Any:
    if value is None or isinstance(value, str | int | float | np.generic):
        return value
    if id(value) in above:
        what = f"a {type(value).__name__} holds itself, which a model file cannot repeat"
        raise DataTypeError(what, remedy="leave the reference out of the learner's attributes")
    if id(value) not in done:
        # The value stays in the memory beside its copy, so that its id is not given away meanwhile.
        done[id(value)] = (_pack_one(value, lambda part: _packed(part, done, above | {id(value)})), value)
    return done[id(value)][0]


def _pack_one(value: Any, inner: Callable[[Any], Any]) -> Any:
    if isinstance(value, SearchCV):
        return inner(value.best_estimator_)
    if isinstance(value, Columns):
        if not hasattr(value, "numbers_"):  # the unfitted pattern that a meta-estimator keeps beside its fits
            return StoredColumns(json.dumps({"parameters": value.get_params()}, sort_keys=True), {})
        schema, arrays = value.state()
        return StoredColumns(json.dumps(schema, sort_keys=True), dict(arrays))
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index):
        return _pack_frame(value, inner)
    if type(value) in (KNeighborsClassifier, KNeighborsRegressor) and np.ndim(getattr(value, "_y", 0)) == 1:
        return _pack_neighbours(value)
    if type(value) is partial and value.func is check_array and not value.args:
        return StoredArrayCheck(dict(value.keywords))
    if type(value) in (list, tuple):
        return type(value)(inner(part) for part in value)
    if type(value) is dict:
        return {key: inner(part) for key, part in value.items()}
    ours = type(value).__module__.split(".")[0] == "assay"
    if isinstance(value, BaseEstimator) or (ours and is_dataclass(value)):
        copy: Any = object.__new__(type(value))
        # An estimator of ours says itself what it leaves behind: rows for a summary, an index that is built again.
        state = value.__getstate__() if ours and isinstance(value, BaseEstimator) else vars(value)
        copy.__dict__.update({n: None if ours and _runs(part) else inner(part) for n, part in state.items()})
        return copy
    return value


def _runs(value: Any) -> bool:
    return isinstance(value, FunctionType | MethodType | BuiltinFunctionType)


def _pack_frame(value: Any, inner: Callable[[Any], Any]) -> StoredFrame:
    if isinstance(value, pd.Index):
        return StoredFrame("index", [value.name], _plain(value, inner), [])
    if isinstance(value, pd.Series):
        return StoredFrame("series", [value.name], _plain(value.index, inner), [_plain(value, inner)])
    columns = [_plain(value.iloc[:, j], inner) for j in range(value.shape[1])]
    return StoredFrame("frame", list(value.columns), _plain(value.index, inner), columns)


def _plain(values: Any, inner: Callable[[Any], Any]) -> Array:
    """A column as numbers where it holds numbers, and as objects that are themselves plain otherwise."""
    array = values.to_numpy()
    if isinstance(array, np.ndarray) and array.dtype != object:
        return array
    out = np.empty(len(values), dtype=object)
    for row, part in enumerate(values):
        out[row] = None if part is pd.NA else inner(part)
    return out


def _pack_neighbours(model: Any) -> StoredNeighbours:
    target = np.asarray(model._y)
    if isinstance(model, KNeighborsClassifier):
        target = model.classes_[target]
    names = getattr(model, "feature_names_in_", None)
    return StoredNeighbours(clone(model), np.asarray(model._fit_X), target, names)


# Out of the file.


def unpack(value: Any) -> Any:
    """The object again, everything inside it checked; raises ValueError where something does not fit."""
    return _unpacked(value, {}, None)


Memory = dict[tuple[int, int | None], tuple[Any, Any]]
"""What was unpacked already, by address and by the number of columns it will be given: a tree that two learners share
must suit both."""


def _unpacked(value: Any, done: Memory, width: int | None) -> Any:
    if value is None or isinstance(value, str | int | float | np.generic):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    key = (id(value), width)
    if key not in done:
        done[key] = (value, value)  # a circle ends here
        done[key] = (_unpack_one(value, done, width), value)
    return done[key][0]


def _unpack_one(value: Any, done: Memory, width: int | None) -> Any:
    own = getattr(value, "__dict__", {}).get("n_features_in_", width)
    width = int(own) if isinstance(own, int | np.integer) else width

    def inner(part: Any) -> Any:
        return _unpacked(part, done, width)

    if isinstance(value, StoredColumns):
        schema = json.loads(value.schema)
        return Columns(**schema["parameters"]) if "parameters" in schema else Columns.from_state(schema, value.arrays)
    if isinstance(value, StoredFrame):
        return _unpack_frame(value, inner)
    if isinstance(value, StoredNeighbours):
        return _unpack_neighbours(value)
    if isinstance(value, StoredArrayCheck):
        return partial(check_array, **value.options)
    if type(value) in (list, tuple):
        return type(value)([inner(part) for part in value])
    if isinstance(value, dict):
        for key in list(value):
            value[key] = inner(value[key])
        return value
    if isinstance(value, np.ndarray):
        for at in np.ndindex(value.shape):
            value[at] = inner(value[at])
        return value
    if isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type):
        for name in list(value.__dict__):
            value.__dict__[name] = inner(value.__dict__[name])
    check_fitted(value, width)
    return value


def _unpack_frame(value: StoredFrame, inner: Callable[[Any], Any]) -> Any:
    columns = [inner(column) for column in value.columns]
    index = pd.Index(inner(value.index))
    if value.kind == "index":
        return index.rename(value.names[0])
    if value.kind == "series":
        return pd.Series(columns[0], index=index, name=value.names[0])
    table = pd.DataFrame(dict(enumerate(columns)), index=index)
    return table.set_axis(value.names, axis=1)


def _unpack_neighbours(value: StoredNeighbours) -> Any:
    if type(value.learner) not in (KNeighborsClassifier, KNeighborsRegressor):
        raise ValueError("neighbours of an unknown kind")
    rows = value.rows if value.names is None else pd.DataFrame(value.rows, columns=value.names)
    return value.learner.fit(rows, value.target)
