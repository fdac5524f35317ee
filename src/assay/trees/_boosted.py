"""What boosted regressors and classifiers share: from parameters and a table to the loop, and from trees to scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, boolean, integer, jobs, none, one_of, real, seed
from assay.callbacks import Task, fit_task
from assay.errors import ConvergenceWarning, DataError, DivergenceError, ParameterError
from assay.numerics.seeds import seed_sequence
from assay.resampling import (
    Holdout,
    cv_mean_and_error,
    folds,
    folds_constraint,
    group_codes,
    one_standard_error,
    whole_groups,
)
from assay.results import Curve
from assay.shapley import LOG_ODDS, LOG_PREDICTION, PREDICTION, SCORE, ShapleyPart, ShapleyTask
from assay.state import Specs, facts, left_out, need, part, values
from assay.trees._boost import BoostLimits
from assay.trees._limits import MANY
from assay.trees._losses import NOTHING, Loss
from assay.trees._predict import leaf_indices, sum_values
from assay.trees._shapley import shapley_part
from assay.trees._stages import BoostingPlan, BoostingRows, Stages, boost, share_of, start_loss
from assay.trees._stopping import Held, cross_validate, scores_after
from assay.trees._table import TableEstimator, categories, monotone
from assay.trees.influence import RelativeInfluence, gains, influence_of
from assay.trees.nodes import Nodes, concatenate

__all__ = ["SHARED", "Boosted"]

Array = np.ndarray
HOLD_OUT = 3
"""The stream of random numbers that draws the rows held out for early stopping."""
MOST_ROWS, BORDER = 4.0, 1e-9
"""So many rows a row of mean weight may count as; so near to a limit is on it."""

SCALES = {"identity": PREDICTION, "log": LOG_PREDICTION, "logit": LOG_ODDS}
"""What the scores of a link are; others are scores."""

SHARED: dict[str, Constraint] = {
    "n_estimators": integer(1, 10**9),
    "learning_rate": real(0, open_low=True),
    "max_leaf_nodes": none | integer(2, MANY),
    "max_depth": none | integer(1, MANY),
    "min_samples_leaf": integer(1, MANY),
    "min_child_weight": real(0),
    "l2_regularization": real(0),
    "max_bins": integer(2, 255),
    "subsample": real(0, 1, open_low=True),
    "max_features": none | integer(1) | real(0, 1, open_low=True),
    "growth": one_of("leaf", "depth"),
    "init": none | one_of("zero"),
    "categorical_features": categories,
    "monotonic_cst": monotone,
    "early_stopping": boolean | one_of("cv"),
    "validation_fraction": real(0, 1, open_low=True, open_high=True),
    "n_iter_no_change": none | integer(1),
    "tol": real(0),
    "cv": folds_constraint,
    "rule": one_of("min", "1se"),
    "warm_start": boolean,
    "random_state": seed,
    "n_jobs": jobs,
}
"""Ranges of the parameters of both classes."""


class Boosted(TableEstimator):
    """An ensemble of trees grown one after another, each on the gradients that the ones before have left."""

    state: ClassVar[Specs] = {
        "nodes_": part(Nodes, k=1),
        "n_estimators_": integer(1),
        "link_": one_of("identity", "log", "logit", "softmax", "half logit"),
        "train_score_": values(None),
        "validation_score_": values(None) | none,
        **facts("cv_curve_", "_entropy"),
        "_held_out": left_out(),
    }

    def _check_state(self) -> None:
        super()._check_state()
        need(self.nodes_.trees == self.n_estimators_ * self.initial_.size, "its trees are not those of its rounds")

    fit_steps = "round"
    n_estimators: int
    learning_rate: float
    max_leaf_nodes: int | None
    max_depth: int | None
    min_samples_leaf: int
    min_child_weight: float
    l2_regularization: float
    max_bins: int
    subsample: float
    max_features: Any
    growth: Any
    init: str | None
    monotonic_cst: Any
    early_stopping: Any
    validation_fraction: float
    n_iter_no_change: int | None
    tol: float
    cv: Any
    rule: str
    warm_start: bool
    random_state: Any
    n_jobs: int | None

    nodes_: Nodes
    initial_: Array
    train_score_: Array
    validation_score_: Array | None
    cv_curve_: Curve | None
    n_estimators_: int
    link_: str
    _entropy: Any
    _held_out: tuple[Array, Array] | None

    # Fitting.

    def _continues(self) -> bool:
        """Whether this fit goes on where the last one ended."""
        return bool(self.warm_start) and hasattr(self, "nodes_")

    def _opened(self, X: Any) -> Array:
        """The table of a fit; one that goes on takes it as predictions do."""
        again = self._continues()
        if again:
            self._check_parameters()
        return self._table(X, reset=not again)

    def _boost(self, X: Array, y: Array, w: Array | None, loss: Loss, labels: Array | None, groups: Any = None) -> None:
        """Fit to a validated table, targets the loss understands, and weights; `labels` are classes or None."""
        groups = group_codes(groups, X.shape[0])
        n = X.shape[0]
        kept = np.arange(n) if w is None else np.flatnonzero(w)
        used = BoostingRows(X, y, NOTHING if w is None else w)
        if kept.size < n:
            used = used.part(kept)
        used = _relative(used)
        before = self._before(loss) if self._continues() else None
        if before is None:
            self._entropy = seed_sequence(self.random_state).entropy
        plan = _counted(used, loss, self._plan(X.shape[1], used.weight / used.y.size))
        self.cv_curve_ = self.validation_score_ = self._held_out = None
        if self.early_stopping == "cv":
            splits = self._splits(X, y, kept, labels, groups)
            task = fit_task(self, 2, partial(self._attributes, loss=loss, patience=0))
            with task.step("cross-validation"):
                held = cross_validate(used, loss, plan, splits, self.n_iter_no_change, float(self.tol))
            self._refuse_divergence(held.losses)
            self.cv_curve_, rounds = self._choose(held, loss)
            plan = replace(plan, rounds=rounds)
            self._held_out = _left_out(used.X, kept, splits, held, rounds)
        if self.early_stopping is True:
            chosen = self._rows_to_hold_out(kept, labels, groups)
            # Without a limit to its patience the fit goes on to the last round, and keeps the best.
            patience = plan.rounds if self.n_iter_no_change is None else int(self.n_iter_no_change)
            plan = replace(plan, patience=patience, tol=float(self.tol))
            watch = used.part(chosen)
            task = self._rounds(plan, before, loss)
            stages = boost(used.part(~chosen), loss, plan, watch=watch, stages=before, task=task)
            self._held_out = kept[chosen], scores_after(stages, stages.rounds, watch.X)
        elif self.early_stopping == "cv":
            with task.step("rounds", lambda: stages, steps=plan.rounds) as step:
                stages = boost(used, loss, plan, task=step)
        else:
            stages = boost(used, loss, plan, stages=before, task=self._rounds(plan, before, loss))
        self._refuse_divergence(stages.train)
        self._refuse_divergence(stages.watched)
        self.__dict__.update(self._attributes(stages, loss, plan.patience))
        self._warn(loss, start_loss(used, loss, stages) if plan.learning_rate > 1 else np.inf)

    def _refuse_divergence(self, losses: Any) -> None:
        """Losses that have left the range of numbers."""
        lost = ~np.isfinite(np.atleast_2d(losses))
        if lost.any():
            tree = int(np.argmax(lost.any(axis=0))) + 1
            what = f"with learning_rate = {self.learning_rate:g} the loss overflows at tree {tree}"
            raise DivergenceError(what, remedy="lower learning_rate to at most 1; larger steps overshoot")

    def _warn(self, loss: Loss, start: float) -> None:
        """Say where steps have made the fit worse than its start, and where the last number of trees is the best."""
        if self.train_score_[-1] > start:
            what = f"with learning_rate = {self.learning_rate:g} the training loss rose from {start:.4g}"
            what += f" to {self.train_score_[-1]:.4g}"
            warnings.warn(f"{what}; lower learning_rate to at most 1", ConvergenceWarning, stacklevel=4)
        if self.early_stopping is not False and self.n_estimators_ == self.n_estimators > 1:
            how = "cross-validated" if self.early_stopping == "cv" else "held-out"
            what = f"the {how} {loss.words} is least at the last of n_estimators = {self.n_estimators} rounds, and may "
            what += "fall further beyond"
            warnings.warn(f"{what}; raise n_estimators or learning_rate", ConvergenceWarning, stacklevel=4)

    def _rounds(self, plan: BoostingPlan, before: Stages | None, loss: Loss) -> Task:
        """The fit whose steps are the rounds that are still to come."""
        done = 0 if before is None else before.rounds
        return fit_task(self, plan.rounds - done, partial(self._attributes, loss=loss, patience=plan.patience))

    def _attributes(self, stages: Stages, loss: Loss, patience: int = 0) -> dict[str, Any]:
        """The fitted attributes after so many rounds; the loss of the last one is known when the next one begins."""
        rounds = stages.kept(patience)
        return {
            "initial_": stages.initial,
            "link_": loss.link,
            "train_score_": np.array(stages.train[:rounds]),
            "validation_score_": np.array(stages.watched[:rounds]) if patience else None,
            "n_estimators_": rounds,
            "nodes_": concatenate(stages.trees[: rounds * stages.initial.size]),
        }

    def _before(self, loss: Loss) -> Stages:
        """What the last fit has grown."""
        if self.early_stopping == "cv":
            what = 'warm_start=True cannot continue a fit whose number of trees is chosen by early_stopping="cv"'
            raise ParameterError(what, remedy="set one of the two to False")
        if self.initial_.size != loss.outputs or self.link_ != loss.link:
            what = "warm_start=True cannot continue a fit with another loss or other classes"
            raise ParameterError(what, remedy="set warm_start=False")
        if self.n_estimators < self.n_estimators_:
            what = f"n_estimators = {self.n_estimators} is less than the {self.n_estimators_} trees already fitted"
            raise ParameterError(what, remedy="raise it, or set warm_start=False")
        trees = [self.nodes_.tree(k) for k in range(self.nodes_.trees)]
        watched = [] if self.validation_score_ is None else self.validation_score_.tolist()
        return Stages(self.initial_, trees, self.train_score_.tolist(), watched)

    def _plan(self, p: int, unit: float) -> BoostingPlan:
        """The parameters as plain numbers; sums of weights are measured in the mean weight of a row, `unit`."""
        wanted = self.max_features
        columns = p if wanted is None else wanted if isinstance(wanted, int | np.integer) else max(1, int(wanted * p))
        if columns > p:
            what = f"max_features = {wanted} is more than the {p} columns"
            raise ParameterError(what, remedy="lower it, or pass a fraction in (0, 1]")
        limits = BoostLimits(
            max_leaves=0 if self.max_leaf_nodes is None else int(self.max_leaf_nodes),
            max_depth=MANY if self.max_depth is None else int(self.max_depth),
            min_leaf=int(self.min_samples_leaf),
            min_hessian=unit * float(self.min_child_weight) * (1 - BORDER),
            l2=unit * float(self.l2_regularization),
            growth=self.growth,
            smoothing=unit * BoostLimits.smoothing,
        )
        return BoostingPlan(
            rounds=int(self.n_estimators),
            learning_rate=float(self.learning_rate),
            zero=self.init == "zero",
            limits=limits,
            levels=self._level_counts(),
            monotone=self._monotone(self.monotonic_cst),
            max_bins=int(self.max_bins),
            subsample=float(self.subsample),
            columns=int(columns),
            entropy=self._entropy,
            patience=0,
            tol=0.0,
            n_jobs=self.n_jobs,
        )

    def _splits(
        self, X: Array, y: Array, kept: Array, labels: Array | None, groups: Array | None
    ) -> list[tuple[Array, Array]]:
        """The folds among the rows in use; a number means folds in the order of the rows, stratified for classes.

        A number of folds with groups deals the groups, into fewer folds where there are not so many.
        """
        cv = whole_groups(self.cv, groups, stratify=labels is not None)
        if isinstance(cv, int | np.integer) and labels is not None:
            cv = StratifiedKFold(int(cv))
        pairs = folds(cv, X, y if labels is None else labels, groups)
        places = np.full(X.shape[0], -1)
        places[kept] = np.arange(kept.size)
        found = []
        for k, (train, test) in enumerate(pairs):
            sides = []
            for side in (train, test):
                mask = np.zeros(kept.size, dtype=bool)
                mask[places[side][places[side] >= 0]] = True
                sides.append(np.flatnonzero(mask))
            if not sides[0].size or not sides[1].size:
                what = f"fold {k} has no training or no test row of positive weight"
                raise DataError(what, remedy="use other folds or other weights")
            found.append((sides[0], sides[1]))
        return found

    def _rows_to_hold_out(self, kept: Array, labels: Array | None, groups: Array | None) -> Array:
        """Which of the rows in use are held out for early stopping; groups stay whole."""
        n, share = kept.size, float(self.validation_fraction)
        source = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(HOLD_OUT,)))
        if groups is None:
            chosen = share_of(n, share, None if labels is None else labels[kept], source)
        else:
            chosen = np.zeros(n, dtype=bool)
            part = Holdout(share, stratify=labels is not None, random_state=source)
            classes = None if labels is None else labels[kept]
            chosen[next(iter(part.split(kept[:, None], classes, groups[kept])))[1]] = True
        if not chosen.any() or chosen.all():
            what = f"validation_fraction = {self.validation_fraction} of n_samples = {n} rows leaves one part empty"
            raise DataError(what, remedy="pass more rows or another fraction, or set early_stopping=False")
        return chosen

    def _choose(self, held: Held, loss: Loss) -> tuple[Curve, int]:
        """The cross-validated curve and the number of trees that the rule picks from it."""
        mean, error = cv_mean_and_error(held.losses, held.weights)
        best, simplest = one_standard_error(mean, error)
        spread = np.nan_to_num(error)
        curve = Curve(
            np.arange(1, mean.size + 1),
            mean,
            "number of trees" if loss.outputs == 1 else "rounds of trees",
            f"cross-validated {loss.words}",
            std_error=error,
            lower=mean - spread,
            upper=mean + spread,
            marks={"min": best + 1, "1se": simplest + 1},
            rule=float(mean[best] + spread[best]),
            title=f"{type(self).__name__}, {len(held.losses)} folds, one standard error",
        )
        return curve, (simplest if self.rule == "1se" else best) + 1

    # Answers.

    def settled(self) -> Self:
        """An unfitted clone with the number of trees that early stopping has chosen."""
        check_is_fitted(self)
        made = clone(self)
        return made.set_params(early_stopping=False, n_estimators=self.n_estimators_) if self.early_stopping else made

    @property
    def held_out_rows_(self) -> Array:
        """The rows that early stopping held out, each once for every fold that did; after `fit` only."""
        return self._left_out()[0]

    def _left_out(self) -> tuple[Array, Array]:
        found = getattr(self, "_held_out", None)
        if found is None:
            raise AttributeError("no row was held out: early_stopping is False, or the model was loaded from a file")
        return found

    def _raw(self, X: Any) -> Array:
        """Scores, one column per output."""
        table = self._table(X, reset=False)
        out = np.empty((table.shape[0], self.initial_.size))
        out[:] = self.initial_
        return sum_values(self.nodes_, table, out, groups=self.initial_.size, n_jobs=self.n_jobs)

    def __shapley__(self, task: ShapleyTask) -> ShapleyPart | None:
        """Exact Shapley values of the scores; on the scale of predictions only where those are the scores."""
        scale = SCALES.get(self.link_, SCORE)
        if task.response and scale != PREDICTION:
            return None
        tables = self._table(task.X, reset=False), self._table(task.background, reset=False)
        K = self.initial_.size
        return shapley_part(self.nodes_, task, tables, scale, initial=self.initial_, groups=K, n_jobs=self.n_jobs)

    def _staged(self, X: Any) -> Iterator[Array]:
        """Scores after each round; every array is the caller's own."""
        table = self._table(X, reset=False)
        K = self.initial_.size
        raw = np.repeat(self.initial_[:, None], table.shape[0], axis=1)
        for t in range(self.nodes_.trees):
            sum_values(self.nodes_.tree(t), table, raw[t % K][:, None], n_jobs=self.n_jobs)
            if t % K == K - 1:
                yield raw.T.copy()

    def apply(self, X: Any) -> Array:
        """The leaf of every row in every tree, its number within that tree: (n, trees), or (n, rounds, K)."""
        table = self._table(X, reset=False)
        leaves = leaf_indices(self.nodes_, table, n_jobs=self.n_jobs) - self.nodes_.starts[:-1]
        K = self.initial_.size
        return leaves if K == 1 else leaves.reshape(table.shape[0], -1, K)

    @property
    def feature_importances_(self) -> Array:
        """The share of each column in what all splits saved; they add up to 1 (all 0 without splits)."""
        if not hasattr(self, "nodes_"):
            raise AttributeError("feature_importances_ is available after fit")
        gain = gains(self.nodes_, self.n_features_in_)
        total = gain.sum()
        return gain / total if total > 0 else gain

    def relative_influence(self) -> RelativeInfluence:
        """The share of each column in what all splits saved, in per cent, with names and a picture."""
        check_is_fitted(self)
        return influence_of(self.nodes_, self._feature_names(), type(self).__name__)


def _left_out(X: Array, kept: Array, splits: list[tuple[Array, Array]], held: Held, rounds: int) -> tuple[Array, Array]:
    """The rows that the folds hold out, and their scores after so many rounds of fits that have not seen them."""
    tests = [test for _, test in splits]
    scores = [scores_after(one, rounds, X[test]) for one, test in zip(held.stages, tests, strict=True)]
    return kept[np.concatenate(tests)], np.concatenate(scores)


def _relative(rows: BoostingRows) -> BoostingRows:
    """The same rows with weights up to 1, or without where all are equal.

    Only ratios of weights count: whatever is compared with a sum of weights is measured in their mean (`_plan`), and
    whatever is rounded, in their largest.
    """
    if rows.w.size == 0 or (rows.w == rows.w[0]).all():
        return BoostingRows(rows.X, rows.y)
    return BoostingRows(rows.X, rows.y, rows.w / rows.w.max())


def _counted(rows: BoostingRows, loss: Loss, plan: BoostingPlan) -> BoostingPlan:
    """The plan with what weights count in `min_samples_leaf`: w over the smallest of them, at most 4 rows on average.

    So weights of 1, 2, 3 are that many rows, in any unit, and weights near them nearly as many. Where curvature is 1
    the sum of weights tells; elsewhere the trees count along.
    """
    limits = plan.limits
    if rows.w.size == 0 or limits.min_leaf == 1:
        return plan
    row = max(float(rows.w.min()), rows.weight / rows.y.size / MOST_ROWS)
    if not loss.flat:
        return replace(plan, row=row)
    least = max(limits.min_hessian, limits.min_leaf * row * (1 - BORDER))
    return replace(plan, limits=replace(limits, min_leaf=1, min_hessian=least))
