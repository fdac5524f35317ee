"""What compiled code will follow without looking is looked at once, after a model file is loaded.

The children, features and bit sets of trees, the sizes of support vector machines, the windows, knots and boxes of
local fits and splines, the rows and classes of neighbours. Every index must lie inside what it points into and every
child behind its parent, so that no walk leaves its array or runs for ever. Cost: one pass over the objects; a forest
is checked at about ten million nodes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from assay.trees._nodes import UNSEEN, Nodes

__all__ = ["check_fitted"]

Array = np.ndarray


def check_fitted(value: Any, width: int | None) -> None:
    """Raise ValueError where the parts of a fitted object of `width` columns contradict each other."""
    check = _CHECKS.get(f"{type(value).__module__}.{type(value).__name__}")
    if check is not None:
        check(value, width)


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


def _check_neighbours(model: Any, width: int | None) -> None:
    """Neighbours of ours; the index over their rows is built again."""
    rows = model.__dict__.get("_X")
    if rows is None:
        return
    model._check_parameters()
    _need("_index" not in model.__dict__ and _is_table(rows) and rows.shape[1] == width and np.isfinite(rows).all())
    n = len(rows)
    _need(isinstance(model.n_neighbors_, int | np.integer) and 1 <= model.n_neighbors_ <= n == model.n_samples_fit_)
    _need(model._mass is None or (_same_length(model._mass, rows[:, 0]) and (model._mass > 0).all()))
    if hasattr(model, "classes_"):
        _need(model._codes.dtype == np.int64 and model._codes.shape == (n,))
        _need(
            _inside(model._codes, 0, len(model.classes_)) and np.shape(model.class_prior_) == np.shape(model.classes_)
        )
    else:
        _need(_is_table(model._y) and len(model._y) == n)


def _check_discriminant(model: Any, width: int | None) -> None:
    rule = model.__dict__.get("_rule")
    if rule is None:
        return
    K, p = len(model.classes_), width or 0
    sizes: dict[str, tuple[int, ...]] = {"frame.centre": (p,), "frame.unit": (p,), "offset": (K,)}
    if hasattr(rule, "slope"):
        sizes |= {"slope": (p, K)}
    elif hasattr(rule, "shift"):
        _need(_same_length(rule.shift) and rule.shift.size % K == 0)
        sizes |= {"whiten": (p, rule.shift.size)}
    else:
        sizes |= {"mean": (K, p), "inverse": (K, p)}
    for name, shape in sizes.items():
        array = attrgetter(name)(rule)
        _need(isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape)


def _check_naive_bayes(model: Any, width: int | None) -> None:
    if "classes_" not in model.__dict__:
        return
    K, p = len(model.classes_), width or 0
    for name in ("theta_", "var_", "rate_", "squares_", "means_", "present_"):
        array = model.__dict__.get(name)
        _need(array is None or (isinstance(array, np.ndarray) and array.shape == (K, p)))
    _need(np.shape(model.__dict__.get("class_count_", np.empty(K))) == (K,))
    tables = model.__dict__.get("feature_log_prob_")
    if isinstance(tables, list):
        levels = model.__dict__.get("levels_", [None] * p)
        _need(len(tables) == len(levels) == p)
        for table, known in zip(tables, levels, strict=True):
            _need(table is None or (np.ndim(table) == 2 and len(table) == K))
            _need(table is None or known is None or table.shape[1] == len(known))
    elif tables is not None:
        _need(np.shape(tables) == (K, p))


def _is_table(array: Any) -> bool:
    good = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.ndim == 2
    return good and array.size > 0 and array.flags.c_contiguous


_OUR_TREES = (
    "bagging.BaggingClassifier",
    "bagging.BaggingRegressor",
    "boosting.GradientBoostingClassifier",
    "boosting.GradientBoostingRegressor",
    "cart.DecisionTreeClassifier",
    "cart.DecisionTreeRegressor",
    "forest.RandomForestClassifier",
    "forest.RandomForestRegressor",
    "pruning.PrunedTreeClassifier",
    "pruning.PrunedTreeRegressor",
)
_SHAPES = ("Linear", "Quadratic")
_NAIVE = (
    "_categorical_nb.CategoricalNB",
    "_count_nb.BernoulliNB",
    "_count_nb.MultinomialNB",
    "_gaussian_nb.GaussianNB",
    "mixed.MixedNB",
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
    **{f"assay.generative.discriminant.{name}DiscriminantAnalysis": _check_discriminant for name in _SHAPES},
    "assay.generative.plug_in.PlugInClassifier": _check_discriminant,
    **{f"assay.generative.{name}": _check_naive_bayes for name in _NAIVE},
    "assay.neighbors.knn.KNeighborsClassifier": _check_neighbours,
    "assay.neighbors.knn.KNeighborsRegressor": _check_neighbours,
    **{f"assay.trees.{name}": _check_trees for name in _OUR_TREES},
}
