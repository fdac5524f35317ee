"""Lasso logistic paths beside scikit-learn and skglm, and cross-validation, at equal or better objectives.

scikit-learn's faster solver for these problems is liblinear: saga takes about ten times as long to the same objective.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from assay.linear.logistic_cv import LogisticRegressionCV, logistic_path
from benchmarks.case import Case

__all__ = ["CASES"]

GOOD = 1e-5
"""Relative excess over the least objective found, below which both sides have done what was asked."""


class Table(NamedTuple):
    """Columns in Fortran order, classes 0 and 1, the common grid."""

    X: np.ndarray
    y: np.ndarray
    alphas: np.ndarray


class Fitted(NamedTuple):
    """What quality looks at: coefficients (k, p) and intercepts (k,)."""

    coefs: np.ndarray
    intercepts: np.ndarray


def correlated(n: int, p: int, active: int, eps: float, count: int = 50, rho: float = 0.5) -> Table:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)).astype(np.float64, order="F")
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    eta = X[:, rng.choice(p, active, replace=False)] @ rng.choice([-1.0, 1.0], active)
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * eta / np.std(eta)))).astype(np.int64)
    top = np.abs(X.T @ (y - y.mean())).max() / n
    return Table(X, y, np.geomspace(top, top * eps, count))


def our_path(table: Table) -> Fitted:
    path = logistic_path(table.X, table.y, alphas=table.alphas, tol=1e-5)
    return Fitted(path.coefs[:, 0], path.intercepts)


def sklearn_path(table: Table, solver: str, tol: float) -> Fitted:
    from sklearn.linear_model import LogisticRegression as Peer

    # liblinear penalises its intercept; a large scaling makes that negligible.
    extra = {"intercept_scaling": 100.0} if solver == "liblinear" else {}
    model = Peer(l1_ratio=1.0, solver=solver, warm_start=True, tol=tol, max_iter=2_000, random_state=0, **extra)
    coefs, intercepts = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for alpha in table.alphas:
            model.set_params(C=1 / (len(table.y) * alpha)).fit(table.X, table.y)
            coefs.append(model.coef_[0].copy())
            intercepts.append(model.intercept_[0])
    return Fitted(np.array(coefs), np.array(intercepts))


def skglm_path(table: Table, tol: float) -> Fitted:
    from skglm.datafits import Logistic
    from skglm.penalties import L1
    from skglm.solvers import ProxNewton
    from skglm.utils.jit_compilation import compiled_clone

    solver = ProxNewton(tol=tol, fit_intercept=True, max_iter=100, warm_start=True)
    signs = 2.0 * table.y - 1.0
    penalty, datafit = compiled_clone(L1(float(table.alphas[0]))), compiled_clone(Logistic())
    datafit.initialize(table.X, signs)
    w, eta = np.zeros(table.X.shape[1] + 1), np.zeros(len(signs))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for alpha in table.alphas:
            penalty.alpha = float(alpha)
            w = solver.solve(table.X, signs, datafit, penalty, w_init=w, Xw_init=eta)[0]
            eta = table.X @ w[:-1] + w[-1]
            found.append(w.copy())  # the solver goes on in place
    return Fitted(np.array(found)[:, :-1], np.array(found)[:, -1])


def mean_objective(outcome: Fitted, table: Table) -> float:
    """The mean over the path of the objective as a share of that of the null model."""
    X, y = table.X, table.y
    share = y.mean()
    null = -share * np.log(share) - (1 - share) * np.log(1 - share)
    values = []
    for k in range(0, table.alphas.size, 7):
        eta = X @ outcome.coefs[k] + outcome.intercepts[k]
        values.append(np.mean(np.logaddexp(0, eta) - y * eta) + table.alphas[k] * np.abs(outcome.coefs[k]).sum())
    return float(np.mean(values) / null)


def _folds(table: Table) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold

    return list(StratifiedKFold(10, shuffle=True, random_state=0).split(table.X, table.y))


def our_cv(table: Table) -> float:
    model = LogisticRegressionCV(alphas=table.alphas, cv=_folds(table), n_jobs=2, tol=1e-5).fit(table.X, table.y)
    return float(model.score_path_.mean(axis=1).min())


def sklearn_cv(table: Table) -> float:
    from sklearn.linear_model import LogisticRegressionCV as Peer

    Cs = 1 / (0.9 * len(table.y) * table.alphas)  # nine tenths of the rows train
    options: dict[str, Any] = {
        "solver": "liblinear",
        "scoring": "neg_log_loss",
        "n_jobs": 2,
        "intercept_scaling": 100.0,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Peer(Cs=Cs, cv=_folds(table), l1_ratios=[1.0], tol=1e-4, max_iter=2_000, **options)
        model.fit(table.X, table.y)
    scores = model.scores_ if not isinstance(model.scores_, dict) else next(iter(model.scores_.values()))
    return float(-2 * np.asarray(scores).reshape(10, -1).mean(axis=0).max())


def itself(outcome: float, table: Table) -> float:
    return outcome


def _path_case(name: str, data: Any) -> Case:
    return Case(
        name,
        data=data,
        ours=our_path,
        peers={
            "scikit-learn, liblinear": partial(sklearn_path, solver="liblinear", tol=1e-4),
            "skglm": partial(skglm_path, tol=1e-4),
        },
        quality=mean_objective,
        quality_name="mean objective along the path, share of the null model's",
        goals={"scikit-learn, liblinear": 4.0, "skglm": 1.2},
        slack=GOOD,
        repeats=1,
    )


CASES = [
    _path_case("Lasso logistic path, 50 alphas, 20,000 x 500", partial(correlated, 20_000, 500, 50, 0.01)),
    _path_case("Lasso logistic path, 50 alphas, 1,000 x 5,000", partial(correlated, 1_000, 5_000, 30, 0.05)),
    Case(
        "LogisticRegressionCV, lasso, 10 folds x 30 alphas, 5,000 x 50",
        data=partial(correlated, 5_000, 50, 10, 0.01, 30),
        ours=our_cv,
        peers={"scikit-learn, liblinear (n_jobs=2)": sklearn_cv},
        quality=itself,
        quality_name="least cross-validated deviance",
        goals={"scikit-learn, liblinear (n_jobs=2)": 4.0},
        slack=1e-4,
        repeats=1,
    ),
]
