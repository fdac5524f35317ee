"""Cross-validation of a logistic fit: the fit of every training set starts from that of all rows.

    theta_f <- theta_f - B_f g_f(theta_f),    g_f the gradient over the training rows of fold f

The Hessian H of all rows at their own answer is nearly that of every training set, up to the weight: B_f starts as
(W / W_f) H^-1 and is corrected by what the steps show (L-BFGS). Three or four steps reach the tolerance of a fit, and
none needs another Hessian. With two classes a few folds go along together: one product of the rows with all their
thetas gives the linear parts, a second one the gradients, so the table is read once for all of them. Rows outside a
training set have weight 0 there. A fold that does not get there (its classes separate, say) is fitted on its own.

Cost of J folds: one fit, and about 4 J passes of n p, instead of J fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from assay.errors import ParameterError
from assay.linear._logistic_fit import LikelihoodProblem, is_suspicious, is_wide, rows_of
from assay.linear._logistic_input import labels_of, log_probabilities, row_factors
from assay.linear._logistic_kernels import folds_block
from assay.linear._logistic_newton import (
    APPROACH,
    MANY_STEPS,
    SHORT,
    approach,
    is_direct,
    newton,
    preconditioner,
    solve_rows,
    two_loops,
)
from assay.linear._logistic_precondition import Solver, factored
from assay.linear._logistic_rows import LogisticRows
from assay.linear._logistic_run import LASSOS, make_problem, refuse_contradictions
from assay.resampling import take

__all__ = ["predict_folds"]

Array = np.ndarray
Splits = Sequence[tuple[Any, Any]]

TOGETHER = 16
"""So many folds share a pass over the rows."""

LONG = 30.0
"""A step that moves a linear part by more than this is not one from a neighbour's answer."""


def predict_folds(model: Any, X: Any, y: Any, splits: Splits, sample_weight: Any, method: str) -> list[Array] | None:
    """What clones of the model, fitted to each training part, answer for the test rows; None where this cannot tell."""
    if method not in ("predict", "predict_proba"):
        raise ParameterError(f"method = {method!r} is out of range", remedy="it must be 'predict' or 'predict_proba'")
    refuse_contradictions(model)
    if model.penalty in LASSOS or model.firth or model.solver != "newton":
        return None
    gate = clone(model).set_params(class_weight=None)
    table = gate._table(X, y, sample_weight, None, order="C")
    # Rows without weight count for nothing, but some may be asked for; a class only they have is not one of the fit's.
    problem = make_problem(gate, table, all_rows=True)
    if is_wide(problem) or np.unique(np.asarray(y)).size > gate.classes_.size:
        return None
    weigh = _Weights(problem, gate.classes_, model.class_weight, splits)
    found = None if weigh.lack_a_class() else _thetas(problem, weigh)
    if found is None:
        return None
    rows, thetas = found
    cut = float(np.log(model.threshold) - np.log1p(-model.threshold))
    answers = []
    for (train, test), theta in zip(splits, thetas, strict=True):
        if theta is None:
            w = None if sample_weight is None else np.asarray(sample_weight)[train]
            alone = clone(model).fit(take(X, train), np.asarray(y)[train], sample_weight=w)
            answers.append(getattr(alone, method)(take(X, test)))
            continue
        eta = replace(rows, X=problem.X[np.asarray(test)]).etas(theta).reshape(len(test), -1)
        answers.append(labels_of(eta, gate.classes_, cut) if method == "predict" else np.exp(log_probabilities(eta)))
    return answers


@dataclass(frozen=True, eq=False)
class _Weights:
    """The weights of all rows in the fit to each training part: 0 outside, class weights within."""

    problem: LikelihoodProblem
    classes: Array
    class_weight: Any
    splits: Splits

    def lack_a_class(self) -> bool:
        """Whether some training part has no row of some class."""
        at = self.problem
        trains = (np.asarray(train) for train, _ in self.splits)
        return any(not np.bincount(at.codes[i], weights=at.w[i], minlength=at.K).all() for i in trains)

    def of(self, fold: int | None) -> Array:
        """The weights for the training rows of a fold, or for all rows."""
        codes, w = self.problem.codes, self.problem.w
        w = w if fold is None else w * np.bincount(np.asarray(self.splits[fold][0]), minlength=w.size)
        return w * row_factors(self.class_weight, self.classes, codes, w)


def _thetas(problem: LikelihoodProblem, weigh: _Weights) -> tuple[LogisticRows, list[Array | None]] | None:
    """The fit to each training part and the rows in whose units it is; None where all rows have no good fit."""
    rows = rows_of(replace(problem, w=weigh.of(None)))
    direct = is_direct(rows)
    whole = solve_rows(rows, problem.tol, problem.max_iter, hessian=direct)
    if whole.status != "converged" or (problem.ridge is None and is_suspicious(whole)):
        return None
    start = whole.point.theta
    if direct:
        assert whole.point.hessian is not None
        inverse = factored(whole.point.hessian)
    else:
        inverse = preconditioner(rows, start, False)[1]
    J = len(weigh.splits)
    if rows.K > 2:
        return rows, [_alone(replace(rows, w=weigh.of(j)), start, inverse, problem, rows.weight) for j in range(J)]
    found: list[Array | None] = []
    for at in range(0, J, TOGETHER):
        W = np.column_stack([weigh.of(j) for j in range(at, min(at + TOGETHER, J))])
        found += _together(rows, start, inverse, W, problem)
    return rows, found


def _scaled(inverse: Solver, ratio: float) -> Solver:
    """The inverse for a training set, whose weight is 1/ratio that of all rows."""
    return lambda g: ratio * inverse(g)


def _alone(rows: LogisticRows, start: Array, inverse: Solver, problem: LikelihoodProblem, total: float) -> Array | None:
    """The fit of one training set."""
    fit = approach(rows, start, _scaled(inverse, total / rows.weight), problem.tol, False, MANY_STEPS)
    if fit.status != "converged":
        fit = newton(rows, fit.point.theta, problem.tol, problem.max_iter, is_direct(rows), inverse)
    return fit.point.theta if fit.status == "converged" else None


def _together(
    rows: LogisticRows, start: Array, inverse: Solver, W: Array, problem: LikelihoodProblem
) -> list[Array | None]:
    """The fits of several training sets, two classes, step by step; None for those that lose their way."""
    F, weight = W.shape[1], W.sum(axis=0)
    found: list[Array | None] = [None] * F
    theta = np.tile(start, (F, 1))
    memory: list[list[tuple[Array, Array]]] = [[] for _ in range(F)]
    active = np.arange(F)
    loss, gradient = _evaluate(rows, W, theta)
    for _ in range(APPROACH):
        trial, slope, walking = theta.copy(), np.zeros(F), []
        for f in active:
            step = two_loops(gradient[f], memory[f], _scaled(inverse, rows.weight / weight[f]))
            move, trial[f], slope[f] = rows.bound(step), theta[f] - step, float(gradient[f] @ step)
            if np.abs(gradient[f]).max() <= problem.tol * weight[f] and move <= SHORT:
                found[f] = trial[f]
            elif move <= LONG and slope[f] > 0:
                walking.append(f)
        active = np.array(walking, dtype=np.int64)
        if not active.size:
            break
        new_loss, new_gradient = _evaluate(rows, W[:, active], trial[active])
        noise = 1e-13 * np.abs(loss)
        kept = []
        for at, f in enumerate(active):
            if new_loss[at] <= loss[f] - 1e-4 * slope[f] + noise[f]:
                s, change = trial[f] - theta[f], new_gradient[at] - gradient[f]
                if float(s @ change) > 0:
                    memory[f].append((s, change))
                theta[f], loss[f], gradient[f] = trial[f], new_loss[at], new_gradient[at]
                kept.append(f)
        active = np.array(kept, dtype=np.int64)
    return found


def _evaluate(rows: LogisticRows, W: Array, theta: Array) -> tuple[Array, Array]:
    """Losses (F,) and gradients (F, m), penalty included, of F problems with weights W (n, F) on the same rows."""
    sign = 2.0 * rows.codes - 1.0
    W = np.ascontiguousarray(W)

    def lane(parts: list[slice]) -> tuple[Array, Array]:
        tall = max(part.stop - part.start for part in parts)
        buffer, residual = np.empty((tall, rows.m)), np.empty((tall, len(theta)))
        losses, G = np.zeros(len(theta)), np.zeros((len(theta), rows.m))
        for part in parts:
            Z, R = rows.standard(part, buffer), residual[: part.stop - part.start]
            eta = np.ascontiguousarray(Z @ theta.T)
            folds_block(eta, sign[part], rows.offset[part], W[part], losses, R)
            G += np.asarray(Z.T @ R).T
        return losses, G

    lanes = rows.over_lanes(lane, 8.0 * rows.n * rows.m * len(theta))
    losses, G = np.sum([part[0] for part in lanes], axis=0), np.sum([part[1] for part in lanes], axis=0)
    return losses + 0.5 * np.square(theta) @ rows.ridge, G + rows.ridge * theta
