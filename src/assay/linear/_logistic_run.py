"""From the settings of a `LogisticRegression` to its fit: contradictions, the problem, the solver, and the warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from assay.errors import CollinearityWarning, ConvergenceWarning, ParameterError, SeparationWarning
from assay.linear._logistic_descent import MAX_ITER, TOL, gradient_descent, stochastic_descent
from assay.linear._logistic_fit import WEAK, LikelihoodProblem, Maximum, loss_at, maximise, null_loss
from assay.linear._logistic_input import LogisticTable
from assay.linear._logistic_newton import NewtonFit
from assay.linear._logistic_path import fit_penalized
from assay.linear._logistic_rows import LogisticRows
from assay.linear._model import repeats
from assay.numerics.seeds import generator

__all__ = ["LASSOS", "find_maximum", "make_problem", "refuse_contradictions", "tell"]

Array = np.ndarray

SMALL = 1 << 20
"""A sparse table of at most this many cells is made dense: eight MiB, and every pass is quicker."""

LASSOS = ("l1", "elasticnet")


def refuse_contradictions(model: Any) -> None:
    """Settings that would have no effect, or two that cannot both be meant."""
    name = "LogisticRegression"
    if model.penalty is None:
        for given, silent in (("C", model.C == 1.0), ("penalty_factors", model.penalty_factors is None)):
            if not silent:
                what = f"{name}: {given} has no effect with penalty=None"
                raise ParameterError(
                    what, remedy=f"set penalty='l2' (scikit-learn's default), or leave {given} at its default"
                )
    if (model.penalty == "elasticnet") != (model.l1_ratio is not None):
        what = f"{name}: penalty = {model.penalty!r} with l1_ratio = {model.l1_ratio!r}"
        raise ParameterError(what, remedy="l1_ratio is required for penalty='elasticnet', and for no other penalty")
    if model.firth and (model.penalty is not None or model.solver != "newton"):
        what = f"{name}: Firth's correction is a penalty of its own, solved by Newton's method"
        raise ParameterError(what, remedy="use firth=True with penalty=None and solver='newton'")
    if model.penalty in LASSOS and model.solver != "newton":
        what = f"{name}: solver = {model.solver!r} cannot solve penalty = {model.penalty!r}"
        raise ParameterError(what, remedy="use solver='newton', which runs coordinate descent for this penalty")
    if model.solver == "newton" and model.learning_rate is not None:
        what = f"{name}: learning_rate does not apply to Newton's method"
        raise ParameterError(what, remedy="leave it None, or use solver='gradient' or 'sgd'")


def make_problem(model: Any, table: LogisticTable, all_rows: bool = False) -> LikelihoodProblem:
    """Clean rows of positive weight (or `all_rows`), with what the settings say of the solver."""
    if table.K > 2 and model.firth:
        raise ParameterError("Firth's correction is for two classes", remedy="use penalty='l2' for more")
    if table.K > 2 and model.threshold != 0.5:
        raise ParameterError("a threshold is for two classes", remedy="leave it at 0.5 for more")
    X, codes, offset = table.X, table.codes, table.offset
    if not isinstance(X, np.ndarray) and X.shape[0] * X.shape[1] <= SMALL:
        X = X.toarray()
    w = np.ones(len(codes)) if table.w is None else table.w
    kept = w > 0
    if not all_rows and not kept.all():
        X, codes, w = X[np.flatnonzero(kept)], codes[kept], w[kept]
        offset = None if offset is None else np.ascontiguousarray(offset[kept])
    ridge = None if model.penalty is None else table.factors / model.C
    how = "firth" if model.firth else "lasso" if model.penalty in LASSOS else model.solver
    tol = TOL[model.solver] if model.tol is None else float(model.tol)
    most = MAX_ITER[how] if model.max_iter is None else int(model.max_iter)
    names, labels = model._feature_names(), [str(label) for label in model.classes_]
    return LikelihoodProblem(
        X, codes, table.K, w, offset, table.fit_intercept, ridge, tol, most, model.n_jobs, names, labels
    )


def find_maximum(model: Any, problem: LikelihoodProblem) -> Maximum:
    """The fit of a problem by the solver that the settings ask for."""
    if model.penalty in LASSOS:
        return _lasso(problem, float(model.C), 1.0 if model.penalty == "l1" else float(model.l1_ratio))
    if model.solver == "newton":
        return maximise(problem, firth_correction=model.firth, inference=model.inference)
    random = generator(model.random_state)

    def descend(rows: LogisticRows) -> NewtonFit:
        if model.solver == "gradient":
            return gradient_descent(rows, problem.tol, problem.max_iter, model.learning_rate)
        return stochastic_descent(rows, problem.tol, problem.max_iter, model.learning_rate, random)

    return maximise(problem, inference=model.inference, descend=descend)


def _lasso(problem: LikelihoodProblem, C: float, ratio: float) -> Maximum:
    """Lasso and elastic net, at one value of the penalty."""
    assert problem.ridge is not None
    factors, weight = problem.ridge * C, float(problem.w.sum())
    coefs, intercepts, gaps, steps = fit_penalized(
        problem.X, problem.codes, problem.K, problem.w, problem.offset, np.array([1.0 / (C * weight)]), ratio, factors,
        problem.intercept, problem.tol, problem.max_iter,
    )  # fmt: skip
    coef, intercept, gap = coefs[0], intercepts[0], float(gaps[0])
    loss = loss_at(problem, coef, intercept)
    paid = factors @ (ratio * np.abs(coef) + 0.5 * (1.0 - ratio) * np.square(coef)).sum(axis=0)
    return Maximum(
        coef=coef,
        intercept=intercept,
        loss=loss,
        losses=[loss + float(paid) / C],
        converged=gap <= 1.01 * problem.tol * null_loss(problem) / weight,
        largest_gradient=gap,
        covariance=None,
        rank=coef.shape[1],
        aliased=(),
        effective_df=float(np.count_nonzero(coef) + len(intercept) * int(problem.intercept)),
        separation=None,
        value=-loss,
        n_iter=max(1, int(steps[0])),
    )


def tell(model: Any, found: Maximum, p: int) -> None:
    """Warn of separated classes, of a solver that stopped early, and of columns that repeat others."""
    if found.separation is not None:
        remedy = "use firth=True or penalty='l2'" if len(model.classes_) == 2 else "use penalty='l2'"
        warnings.warn(
            f"{found.separation}, so no maximum-likelihood fit exists and coefficients would be infinite; "
            f"a penalty of {WEAK:g} on standardised columns was added: {remedy}",
            SeparationWarning,
            stacklevel=3,
        )
    elif not found.converged:
        what = "duality gap" if model.penalty in LASSOS else "gradient"
        steps = f"{found.n_iter} step{'' if found.n_iter == 1 else 's'}"
        raised = f"{steps} left a {what} of {found.largest_gradient:.2g} per unit of weight"
        remedy = "raise max_iter or tol" + ("" if model.solver == "newton" else ", or use solver='newton'")
        warnings.warn(f"solver={model.solver!r}: {raised}; {remedy}", ConvergenceWarning, stacklevel=3)
    if found.rank < p and found.separation is None:
        others = "the intercept and the other columns" if model.fit_intercept else "the other columns"
        said = f"{repeats(found.aliased)} {others}"
        remedy = "the minimum-norm coefficients are returned: drop columns, or use penalty='l2'"
        warnings.warn(f"{said}; {remedy}", CollinearityWarning, stacklevel=3)
