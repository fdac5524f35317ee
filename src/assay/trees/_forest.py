"""Growing, judging and asking many trees: what the forests for numbers and for classes share.

All trees stand in one set of arrays, which grows as trees are finished. The rows of fit
are not kept: a tree's seed brings back which rows it saw, and a checksum tells whether rows passed later are those of
fit.
"""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass
from math import floor, log2, sqrt
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from assay.callbacks import fit_task, side_by_side
from assay.constraints import integer
from assay.errors import DataError, ParameterError
from assay.numerics.threads import parallel
from assay.shapley import PREDICTION, PROBABILITY, ShapleyPart, ShapleyTask
from assay.state import Specs, facts, left_out, part
from assay.trees._binning import Codes, bin_table
from assay.trees._exact import Presort, grow_exact, presort
from assay.trees._grow import grow_binned
from assay.trees._interrupt import interrupts
from assay.trees._limits import limits_of
from assay.trees._oob import (
    DRAWN,
    DrawsRows,
    OutOfBag,
    Sampler,
    entropy_of,
    leaves_of,
    tree_seeds,
    unit_of,
)
from assay.trees._predict import leaf_indices, sum_values
from assay.trees._shapley import shapley_part
from assay.trees._sparse import dense_blocks
from assay.trees._table import TableEstimator
from assay.trees._target import in_range
from assay.trees._ties import drawn_order
from assay.trees.importance import ForestImportance, Judged, impurity_importance, impurity_shares, permuted
from assay.trees.nodes import Nodes

__all__ = ["Forest"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class _Plan:
    """Everything that all trees of one fit share."""

    table: Codes | tuple[Array, Presort, Array]
    target: Array
    w: Array | None
    classes: int
    columns: int
    monotone: Array
    rows: Sampler
    per_class: Any


class Forest(DrawsRows, TableEstimator):
    """Growing, judging and asking many trees; a subclass says what the target is."""

    state: ClassVar[Specs] = {
        **DRAWN,
        "nodes_": part(Nodes, "trees", k="k"),
        "max_features_": integer(1),
        "_voting": left_out(),
        **facts("_entropy", "_mark"),
    }

    def _restore(self) -> None:
        self.__dict__.pop("_voting", None)
        self._settle(self.nodes_.value.shape[1])

    fit_steps = "tree"
    n_estimators: int
    criterion: str
    max_features: Any
    splitter: str
    bootstrap: bool
    max_samples: Any
    oob_score: Any
    max_bins: int | None
    monotonic_cst: Any
    warm_start: bool
    random_state: Any
    n_jobs: int | None
    nodes_: Nodes
    seeds_: Array
    classes_: Array
    _sampler: Sampler
    _entropy: Any
    _mark: int | None

    def _weights(self, sample_weight: Any, n: int) -> Array | None:
        return in_range(super()._weights(sample_weight, n))

    def _grow(self, X: Array, target: Array, w: Array | None, classes: int) -> None:
        """Grow the trees that are not there yet and judge all of them by the rows they did not see."""
        rows = self._row_sampler(X.shape[0], w)
        m = self._columns_per_node()
        signs = self._monotone(self.monotonic_cst)
        mark = _fingerprint(X, target, w)
        have = self._start(mark)
        self.seeds_ = tree_seeds(self._entropy, self.n_estimators)
        if have < self.n_estimators:
            plan = _Plan(self._prepared(X, w), target, w, classes, m, signs, rows, self._weigher(target, w, classes))
            new = self.seeds_[have:].tolist()
            gathered, grow = _Gathered(self.nodes_ if have else None), _Grower(self, plan)

            def one(k: int) -> None:
                gathered.put(k, grow(new[k]))

            parallel(
                side_by_side(
                    one, len(new), "trees", task=fit_task(self, len(new), sequential=False), step=self.fit_steps
                ),
                range(len(new)),
                n_jobs=self.n_jobs,
                work=50.0 * X.shape[0] * m * len(new),
            )
            self.nodes_ = gathered.nodes()
        self._sampler, self.max_features_ = rows, m
        self._settle(classes)
        self._forget_out_of_bag()
        if self.oob_score is True or (self.oob_score == "auto" and rows.leaves_out):
            if self._mark is None:
                if self.oob_score is True:
                    what = "the first trees were fitted to other rows, so the out-of-bag rows are not known"
                    raise DataError(what, remedy="use oob_score=False, or grow all trees on the same rows")
                return
            self._judge(X, target, w, classes)

    def _start(self, mark: int) -> int:
        """How many trees of an earlier fit are kept."""
        have = self.nodes_.trees if self.warm_start and hasattr(self, "nodes_") else 0
        if have > self.n_estimators:
            what = f"n_estimators = {self.n_estimators}, but warm_start keeps the {have} trees already fitted"
            raise ParameterError(what, remedy="raise n_estimators, or use warm_start=False")
        if not have:
            self._entropy = entropy_of(self.random_state)
            self._mark = mark
        elif self._mark != mark:
            self._mark = None
        return have

    def _prepared(self, X: Array, w: Array | None) -> Codes | tuple[Array, Presort, Array]:
        levels = self._level_counts()
        if self.splitter == "exact":
            return X, presort(X, levels, self.n_jobs), levels
        bins = self.max_bins or (255 if len(X) < LARGE else 1023)
        return bin_table(X, levels.tolist(), w, max_bins=bins, tails=TAILS, n_jobs=self.n_jobs)

    def _columns_per_node(self) -> int:
        asked, p = self.max_features, self.n_features_in_
        if asked is None:
            return p
        if asked == "auto":
            return max(1, self._default_columns(p))
        if isinstance(asked, str):
            return max(1, floor(sqrt(p) if asked == "sqrt" else log2(p)))
        if isinstance(asked, float | np.floating):
            return max(1, floor(float(asked) * p))
        if asked > p:
            raise ParameterError(
                f"max_features = {asked}, but X has {p} columns", remedy=f"use at most {p}, or a fraction such as 1.0"
            )
        return int(asked)

    def _default_columns(self, p: int) -> int:
        raise NotImplementedError

    def _weigher(self, target: Array, w: Array | None, classes: int) -> Any:
        return None

    def _settle(self, classes: int) -> None:
        """What can be worked out once from the nodes."""

    def _asked(self) -> Nodes:
        """The nodes whose values are averaged."""
        return self.nodes_

    def _judge(self, X: Array, target: Array, w: Array | None, classes: int) -> None:
        nodes, values, rows = self.nodes_, self._asked().value, self._sampler
        found = OutOfBag(target.astype(np.float64), w, classes, unit_of(target, classes))

        def answers(k: int) -> tuple[Array, Array]:
            out = rows.left_out(int(self.seeds_[k]))
            return out, leaves_of(nodes, k, X, out)

        for start in range(0, nodes.trees, 16):
            trees = range(start, min(start + 16, nodes.trees))
            for out, leaves in parallel(answers, trees, n_jobs=self.n_jobs, work=20.0 * X.shape[0] * len(trees)):
                found.add(out, values[leaves])
        self._set_out_of_bag(found.figures("tree"))

    def _summed(self, X: Any) -> Array:
        """Mean over trees of what their leaves say."""
        check_is_fitted(self, "nodes_")
        X = self._table(X, reset=False)
        nodes = self._asked()
        out = np.zeros((X.shape[0], nodes.value.shape[1]))
        sum_values(nodes, X, out, n_jobs=self.n_jobs)
        out /= nodes.trees
        return out

    def __shapley__(self, task: ShapleyTask) -> ShapleyPart:
        """Exact Shapley values of the mean, or of the shares of the classes."""
        tables = self._table(task.X, reset=False), self._table(task.background, reset=False)
        scale = PROBABILITY if hasattr(self, "classes_") else PREDICTION
        return shapley_part(self._asked(), task, tables, scale, mean=True, n_jobs=self.n_jobs)

    # What a forest knows beside its predictions.

    def apply(self, X: Any) -> Array:
        """The leaf each row reaches, one column per tree, nodes of a tree counted from zero."""
        check_is_fitted(self, "nodes_")
        return leaf_indices(self.nodes_, self._table(X, reset=False), n_jobs=self.n_jobs) - self.nodes_.starts[:-1]

    @property
    def estimators_samples_(self) -> list[Array]:
        """For each tree the rows it was grown on, repeated ones as often as they were drawn."""
        check_is_fitted(self, "nodes_")
        every = np.arange(self._sampler.n)
        counts = (self._sampler.counts(int(seed)) for seed in self.seeds_)
        return [every if c is None else np.repeat(every, c) for c in counts]

    @property
    def feature_importances_(self) -> Array:
        """Mean over trees of the share of the loss saved by each column's splits (`impurity_importance` has the sd)."""
        check_is_fitted(self, "nodes_")
        mean = impurity_shares(self.nodes_, self.n_features_in_).mean(axis=0)
        return mean / mean.sum() if mean.any() else mean

    def impurity_importance(self, *, level: float = 0.95) -> ForestImportance:
        """The share of the training loss saved by each column's splits, with its spread over trees."""
        check_is_fitted(self, "nodes_")
        shares = impurity_shares(self.nodes_, self.n_features_in_)
        name = f"{type(self).__name__}, {self.nodes_.trees} trees"
        return impurity_importance(shares, self._feature_names(), n=self._sampler.n, model=name, level=level)

    def permutation_importance(
        self, X: Any, y: Any, sample_weight: Any = None, *, n_repeats: int = 1, level: float = 0.95
    ) -> ForestImportance:
        """The rise of a tree's loss on rows it has not seen when a column is shuffled among them (%IncMSE).

        X, y and sample_weight are those of `fit`, which keeps no copy of them; anything else is refused. Each tree
        shuffles its own rows `n_repeats` times; all columns by the same permutations, so they can be compared.
        """
        check_is_fitted(self, "nodes_")
        X = self._table(X, reset=False)
        w = self._weights(sample_weight, X.shape[0])
        target, classes = self._known_target(y, X.shape[0])
        if not self._sampler.leaves_out:
            what = "every tree was fitted to every row, so no row is out of bag"
            raise DataError(what, remedy="use bootstrap=True, or permutation importance on new rows")
        if self._mark is None or self._mark != _fingerprint(X, target, w):
            what = "X, y or sample_weight differ from those of fit, so the out-of-bag rows are not known"
            raise DataError(what, remedy="pass the same arrays as to fit, in the same order")
        value = self.nodes_.value
        answer = np.argmax(value, axis=1).astype(np.float64) if classes else np.ascontiguousarray(value[:, 0])
        unit = unit_of(target, classes)
        judged = Judged(self.nodes_, answer, self.seeds_, self._sampler, X, target.astype(np.float64), w, classes, unit)
        return permuted(
            judged,
            self._feature_names(),
            labels=self.classes_.tolist() if classes else (),
            model=f"{type(self).__name__}, {self.nodes_.trees} trees",
            n_repeats=n_repeats,
            level=level,
            n_jobs=self.n_jobs,
        )

    def _known_target(self, y: Any, n: int) -> tuple[Array, int]:
        raise NotImplementedError


LARGE = 5_000
"""From so many rows on, deep trees tell values apart that 255 bins do not."""
TAILS = 1 / 3
"""Share of the bins that goes to the ends of a column."""
AT_ONCE = 1 << 16
"""Nodes for which room is made at a time in a small forest."""


@dataclass(frozen=True, eq=False)
class _Grower:
    """Grows the tree of a seed."""

    forest: Any
    plan: _Plan

    def __call__(self, seed: int) -> Nodes:
        plan = self.plan
        counts = plan.rows.counts(seed)
        w = plan.rows.weights(counts, plan.w)
        if plan.per_class is not None:
            factor = plan.per_class(w)[plan.target]
            w = factor if w is None else w * factor
            counts = None if counts is None else np.where(w > 0, counts, 0)
        total = float(plan.target.size if w is None else w.sum())
        rows = plan.target.size if counts is None else int(counts.sum())
        common: Any = (plan.target, w, self.forest.criterion, plan.classes, limits_of(self.forest, rows, total))
        options: Any = {"max_features": plan.columns, "monotone": plan.monotone, "seed": seed, "counts": counts}
        if plan.columns >= plan.monotone.size:
            options["columns"] = drawn_order(seed, plan.monotone.size)
        with interrupts():
            if isinstance(plan.table, Codes):
                return grow_binned(plan.table, *common, **options)
            X, order, levels = plan.table
            return grow_exact(X, order, levels, *common, **options)


class _Gathered:
    """Nodes of trees that are finished in any order, joined in their own order as soon as they can be.

    The arrays grow in place, while small to twice their size and then by a thirty-second, and a tree is let go once it
    is copied, so that all trees are never held twice.
    """

    def __init__(self, before: Nodes | None) -> None:
        self._columns = {} if before is None else {name: column.copy() for name, column in vars(before).items()}
        self._used = {name: len(column) for name, column in self._columns.items()}
        self._waiting: dict[int, Nodes] = {}
        self._next = 0
        self._lock = threading.Lock()

    def put(self, k: int, nodes: Nodes) -> None:
        """Take new tree k."""
        with self._lock:
            self._waiting[k] = nodes
            while self._next in self._waiting:
                self._append(self._waiting.pop(self._next))
                self._next += 1

    def _append(self, nodes: Nodes) -> None:
        shift, words = self._used.get("feature", 0), self._used.get("words", 0)
        for name, column in vars(nodes).items():
            if name == "starts":
                column = column[1:] + shift if shift else column  # the last start is the first of the next tree
            low = self._used.get(name, 0)
            high = low + len(column)
            if name not in self._columns:
                self._columns[name] = column.copy()
            kept = self._columns[name]
            if high > len(kept):
                kept.resize((high + max(high // 32, min(high, AT_ONCE)), *kept.shape[1:]), refcheck=False)
            part = kept[low:high]
            part[...] = column
            if name == "first":
                part[part > 0] += shift  # 0: no child
            elif name == "offset":
                part[part >= 0] += words  # -1: no words
            self._used[name] = high

    def nodes(self) -> Nodes:
        """All trees."""
        for name, column in self._columns.items():
            column.resize((self._used[name], *column.shape[1:]), refcheck=False)
        return Nodes(**self._columns)


def _fingerprint(X: Array, target: Array, w: Array | None) -> int:
    """A number that tells the rows of fit from others; the rows themselves are not kept."""
    found = 0
    for _, rows in dense_blocks(X, 0, X.shape[0]):  # the same number for a sparse table and a dense one
        found = zlib.crc32(rows.data, found)
    for column in (target.astype(np.float64), w):
        if column is not None:
            found = zlib.crc32(np.ascontiguousarray(column).data, found)
    return found
