"""Fitted objects in a form that a file may hold, and back: no code, no pandas objects, nothing that cannot be checked.

What changes on the way into a file, and changes back on the way out:

    Columns                    its `state()`: names and arrays
    SearchCV                   the candidate it chose and refitted; the search itself stays behind
    nearest neighbours         their rows and targets; the index over them is built again
    partial(check_array, ...)  its options (boosting with native categories holds one)
    tables, columns, indexes   plain arrays (skops cannot hold pandas objects)
    functions inside results   None: a stored test no longer computes other intervals

What compiled code will follow without looking is looked at once, after loading: the children, features and bit sets of
trees, the sizes of support vector machines, the windows, knots and boxes of local fits and splines. Every index must
lie inside what it points into and every child behind its parent, so that no walk leaves its array or runs for ever.
Cost: one pass over the objects; a forest is checked at about ten million nodes a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
from assay.experiment.columns import Columns
from assay.trees._nodes import UNSEEN, Nodes

__all__ = ["ALLOWED", "pack", "unpack"]

Array = np.ndarray

_CLASSES = {
    "assay.calibration.classifier": "CalibratedClassifier",
    "assay.calibration.maps": "IsotonicMap LogisticMap",
    "assay.evaluation._calibrate": "Fit",
    "assay.evaluation.conformal": "Conformal",
    "assay.experiment._portable": "StoredArrayCheck StoredColumns StoredFrame StoredNeighbours",
    "assay.linear._inference": "Inference",
    "assay.linear.basis": "PolynomialBasis RadialBasis SplineBasis _Spline",
    "assay.linear.lars": "Knots Lars",
    "assay.linear.lasso": "ElasticNet ElasticNetCV Lasso LassoCV",
    "assay.linear.least_squares": "LinearRegression",
    "assay.linear.local": "LocalRegression _Cloud _Line",
    "assay.linear.ridge": "Ridge RidgeCV",
    "assay.linear.screening": "IterativeSIS Round SIS",
    "assay.linear.stepwise": "Stagewise Stepwise",
    "assay.linear.subset": "BestSubset",
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
        copy.__dict__.update({n: None if ours and _runs(part) else inner(part) for n, part in vars(value).items()})
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
    check = _CHECKS.get(f"{type(value).__module__}.{type(value).__name__}")
    if check is not None:
        check(value, width)
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


# What compiled code follows blindly.


def _need(holds: Any) -> None:
    if not holds:
        raise ValueError("indices or sizes of a fitted model contradict each other")


def _inside(index: Array, low: int, high: int) -> bool:
    return index.size == 0 or (int(index.min()) >= low and int(index.max()) < high)


def _check_tree(tree: Any, width: int | None) -> None:
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    leaf = (left == -1) | (right == -1)
    at = np.arange(left.size)[~leaf]
    _need(left.size > 0 and width is not None and width >= tree.n_features)
    _need(np.array_equal(left == -1, right == -1))
    for child in (left[~leaf], right[~leaf]):
        _need((child > at).all() and _inside(child, 1, left.size))
    _need(_inside(feature[~leaf], 0, tree.n_features))
    _need(tree.value.shape[0] == left.size)


def _check_boosted_tree(tree: Any, width: int | None) -> None:
    nodes, bits = tree.nodes, tree.raw_left_cat_bitsets
    _need(width is not None and nodes.ndim == 1 and nodes.size > 0)
    split = nodes[nodes["is_leaf"] == 0]
    at = np.flatnonzero(nodes["is_leaf"] == 0)
    for side in ("left", "right"):
        child = split[side].astype(np.int64)
        _need((child > at).all() and _inside(child, 1, nodes.size))
    _need(_inside(split["feature_idx"], 0, width or 0))
    for table in (bits, tree.binned_left_cat_bitsets):
        _need(table.ndim == 2 and table.shape[1] == 8)
    _need(_inside(split["bitset_idx"][split["is_categorical"] != 0], 0, len(bits)))


def _check_boosting(model: Any, width: int | None) -> None:
    mapper = model.__dict__.get("_bin_mapper")
    if mapper is None:
        return
    marked = np.asarray(mapper.is_categorical_)
    _need(marked.ndim == 1 and marked.size == width)
    for trees in model._predictors:
        for tree in trees:
            used = tree.nodes[(tree.nodes["is_leaf"] == 0) & (tree.nodes["is_categorical"] != 0)]
            _need(marked[used["feature_idx"]].all())


def _check_stages(model: Any, width: int | None) -> None:
    # Gradient boosting hands its own table to the trees, without asking how many columns they expect.
    for tree in np.ravel(model.__dict__.get("estimators_", np.empty(0))):
        _need(tree.n_features_in_ == width and tree.tree_.n_features == width)


def _check_machine(model: Any, width: int | None) -> None:
    if "support_vectors_" not in model.__dict__:
        return
    count = np.asarray(model._n_support)
    rows = len(model.support_)
    groups = len(model.classes_) if hasattr(model, "classes_") else 2
    pairs = groups * (groups - 1) // 2
    _need(isinstance(model.support_vectors_, np.ndarray) and not model._sparse)
    _need((count >= 0).all() and count.size in (groups, 2))
    _need(int(count.sum() if hasattr(model, "classes_") else count[0]) == rows)
    _need(model.support_vectors_.shape == (rows, width) and model._dual_coef_.shape == (groups - 1, rows))
    _need(np.size(model._intercept_) == pairs)
    _need(all(np.size(part) in (0, pairs) for part in (model._probA, model._probB)))


def _same_length(*arrays: Array) -> bool:
    good = all(isinstance(array, np.ndarray) and array.dtype == np.float64 and array.ndim == 1 for array in arrays)
    return good and len({array.size for array in arrays}) == 1 and arrays[0].size > 0


def _check_local(model: Any, width: int | None) -> None:
    rows = model.__dict__.get("_rows")
    if rows is None:
        return
    n = rows.s.size
    _need(_same_length(rows.s, rows.y) and model.degree in (0, 1, 2))
    _need(rows.below.dtype == np.float64 and rows.below.shape == (n + 1,) and np.isfinite(rows.below).all())
    _need((np.diff(rows.below) >= 0).all() and _inside(rows.home, 0, n))
    _need(rows.x.dtype == np.float64 and rows.x.shape == ((n,) if width == 1 else (n, width)))
    if type(rows).__name__ == "_Line":
        _need((np.diff(rows.x) >= 0).all())
    else:
        nodes = rows.leaf.size
        _need(_same_length(rows.share, rows.s) and rows.low.shape == rows.high.shape == (nodes, width))
        _need(rows.low.dtype == rows.high.dtype == np.float64 and rows.leaf.dtype == bool and nodes > 0)
        _need(rows.first.shape == rows.last.shape == (nodes,) and rows.first.dtype == rows.last.dtype == np.int64)
        _need(_inside(rows.first, 0, n + 1) and _inside(rows.last, 0, n + 1) and (rows.last >= rows.first).all())
        _need((rows.last - rows.first)[rows.leaf].sum() <= n)
        _need(_inside(2 * np.flatnonzero(~rows.leaf) + 2, 0, nodes))
    _need(np.isfinite(model.tau_) and model.tau_ > 0 and 0 <= model._mass <= rows.below[-1])
    # What follows from the rows is worked out again, so that it cannot disagree with them.
    model._final = model._setting(model.tau_ / model._tau_unit)


def _check_splines(model: Any, width: int | None) -> None:
    splines = model.__dict__.get("_splines")
    if splines is None:
        return
    _need(len(splines) == len(model._widths) == width and model.n_output_features_ == sum(model._widths))
    for spline, wide in zip(splines, model._widths, strict=True):
        _need(wide == max(1, spline.size - (not model.include_bias)))
        if spline.size > 1 and not model.natural:
            _need(_same_length(spline.knots) and spline.knots.size == spline.size + model.degree + 1)
            _need((np.diff(spline.knots) >= 0).all() and spline.edges.shape == (4, spline.size))
            _need(spline.edges.dtype == np.float64)


def _check_trees(model: Any, width: int | None) -> None:
    """Trees of ours: every child behind its parent, every column and every level inside its table."""
    for name in ("nodes_", "full_nodes_", "_voting"):
        nodes = model.__dict__.get(name)
        if nodes is not None:
            _need(len(model.levels_) == width and np.shape(model.ordered_) == (width,))
            _check_nodes(nodes, [0 if levels is None else len(levels) for levels in model.levels_])
            # A boosted tree adds to one score; were it wider, it would write beside it.
            _need(nodes.value.shape[1] == 1 or not hasattr(model, "initial_"))


def _check_nodes(nodes: Nodes, levels: list[int]) -> None:
    size, starts, kinds = nodes.feature.size, nodes.starts, _NODE_TYPES
    _need(all(getattr(nodes, name).dtype == kind for name, kind in kinds.items()))
    _need(all(getattr(nodes, name).shape == (size,) for name in kinds if name not in ("starts", "words", "value")))
    _need(starts.ndim == 1 and starts.size > 1 and starts[0] == 0 and starts[-1] == size)
    _need((np.diff(starts) > 0).all() and nodes.words.ndim == 1 and nodes.value.ndim == 2 and len(nodes.value) == size)
    inner = np.flatnonzero(nodes.feature >= 0)
    first, count, feature = (
        nodes.first[inner].astype(np.int64),
        nodes.count[inner].astype(np.int64),
        nodes.feature[inner],
    )
    ends = starts[1:][np.searchsorted(starts, inner, side="right") - 1]
    _need(_inside(nodes.feature, -1, len(levels)) and (count >= 2).all())
    _need((first > inner).all() and (first + count <= ends).all())
    _need((nodes.missing[inner] >= 0).all() and (nodes.missing[inner] < count).all())
    offset, most = nodes.offset[inner], np.asarray(levels, dtype=np.int64)[feature]
    coded = offset >= 0
    _need((count[~coded] == 2).all())
    room = np.where(count == 2, (most + 31) // 32, most)
    _need((offset[coded] + room[coded] <= nodes.words.size).all() and (most[coded] > 0).all())
    for at, wide, children in zip(*(part[coded & (count > 2)] for part in (offset, most, count)), strict=True):
        words = nodes.words[at : at + wide]
        _need(((words < children) | (words == UNSEEN)).all())


_NODE_TYPES = {
    "starts": np.int64,
    "feature": np.int32,
    "threshold": np.float64,
    "first": np.int32,
    "count": np.int32,
    "missing": np.int32,
    "offset": np.int64,
    "words": np.uint32,
    "value": np.float64,
    "rows": np.int64,
    "weight": np.float64,
    "impurity": np.float64,
    "gain": np.float64,
}


def _check_isotonic(model: Any, width: int | None) -> None:
    if "scores_" in model.__dict__:
        _need(_same_length(model.scores_, model.probabilities_) and (np.diff(model.scores_) > 0).all())


_OUR_TREES = tuple(
    f"{module.removeprefix('assay.trees.')}.{name}"
    for module, names in _CLASSES.items()
    if module.startswith("assay.trees.") and not module.startswith("assay.trees._")
    for name in names.split()
)
_MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
_BOOSTED = "sklearn.ensemble._hist_gradient_boosting"
_CHECKS: Mapping[str, Callable[[Any, int | None], None]] = {
    "sklearn.tree._tree.Tree": _check_tree,
    f"{_BOOSTED}.predictor.TreePredictor": _check_boosted_tree,
    f"{_BOOSTED}.gradient_boosting.HistGradientBoostingClassifier": _check_boosting,
    f"{_BOOSTED}.gradient_boosting.HistGradientBoostingRegressor": _check_boosting,
    "sklearn.ensemble._gb.GradientBoostingClassifier": _check_stages,
    "sklearn.ensemble._gb.GradientBoostingRegressor": _check_stages,
    **{f"sklearn.svm._classes.{name}": _check_machine for name in _MACHINES},
    "assay.linear.local.LocalRegression": _check_local,
    "assay.linear.basis.SplineBasis": _check_splines,
    "assay.calibration.maps.IsotonicMap": _check_isotonic,
    **{f"assay.trees.{name}": _check_trees for name in _OUR_TREES},
}
