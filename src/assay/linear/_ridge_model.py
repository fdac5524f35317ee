"""What a fitted ridge regression can tell: degrees of freedom, sigma, leave-one-out error and a table.

    effective df = tr H,   sigma^2 = RSS / (n - tr H),   Var b = sigma^2 (G + alpha F)^-1 G (G + alpha F)^-1

The covariance is that of a biased estimator around its own mean. Cule, Vineis and De Iorio (2011), BMC Bioinformatics
12, 372, study the t tests it gives.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from assay.base import integer
from assay.checks import non_negative, penalty_factors
from assay.errors import ParameterError
from assay.linear._inference import coefficient_table
from assay.linear._model import LinearModel
from assay.linear._ridge import RidgeFit
from assay.linear._ridge_rows import RidgeRows, prepare
from assay.results import Summary
from assay.state import Specs, anything, facts

__all__ = ["RidgeModel", "per_target"]

Array = np.ndarray


class RidgeModel(LinearModel):
    """What a fitted ridge regression can tell, however its alpha was found."""

    state: ClassVar[Specs] = {
        "n_iter_": anything,
        **facts("alpha_", "budget_", "solver_", "_inference"),
    }

    takes_sparse: ClassVar[bool] = True
    takes_many_targets: ClassVar[bool] = True

    fit_intercept: bool
    penalty_factors: Any
    positive: bool
    tol: float
    max_iter: int | None

    def _rows(
        self, X: Any, y: Any, sample_weight: Any, min_samples: int = 1
    ) -> tuple[RidgeRows, Array, Any, Array, Array | None]:
        """The gate: what the solvers take (rows and penalty factors), then clean X, y and weights."""
        X, y = self._validate(
            X, y, sparse=("csr",), dtype=[np.float64, np.float32], multi_output=True, min_samples=min_samples
        )
        w = self._weights(sample_weight, X.shape[0])
        names = [str(name) for name in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None
        return prepare(X, y, w, self.fit_intercept, names), penalty_factors(self.penalty_factors, X.shape[1]), X, y, w

    def _keep(self, rows: RidgeRows, fit: RidgeFit, alpha: Array, factors: Array, ndim: int) -> None:
        """Set the fitted attributes; targets were fitted in units of `rows.scale`."""
        coef = fit.coef * rows.scale
        with np.errstate(over="ignore"):
            budget = factors @ coef**2
        intercept = fit.intercept * rows.scale
        single = ndim == 1
        self.coef_ = coef[:, 0] if single else np.ascontiguousarray(coef.T)
        self.intercept_: Any = (float(intercept[0]) if single else intercept) if self.fit_intercept else 0.0
        self.alpha_: Any = float(alpha[0]) if single or (alpha == alpha[0]).all() else alpha
        self.budget_: Any = float(budget[0]) if single else budget
        self.solver_ = fit.solver
        self.n_iter_ = fit.n_iter
        self._inference: dict[str, Any] | None = None
        if fit.edf is None or fit.rss is None or fit.loo is None:
            return
        assert fit.variance is not None
        assert fit.intercept_variance is not None
        left = rows.n - fit.edf
        sigma2 = np.full(left.shape, np.nan)
        np.divide(fit.rss, left, out=sigma2, where=left > 1e-8 * rows.n)
        self._inference = {
            "n": rows.n,
            "edf": fit.edf,
            "sigma": np.sqrt(sigma2) * rows.scale,
            "std_error": np.sqrt(fit.variance),
            "intercept_std_error": np.sqrt(fit.intercept_variance),
            "rss": fit.rss * rows.scale**2,
            "tss": _total(rows) * rows.scale**2,
            "loo": fit.loo * rows.scale**2,
        }

    def _inferred(self, name: str, what: str) -> Any:
        check_is_fitted(self)
        if self._inference is None:
            if getattr(self, "inference", True):
                why = "a nonnegative fit" if self.positive else "a fit by an iterative solver"
                raise AttributeError(f"{what} has no closed form for {why}")
            raise AttributeError(f"{what} was not computed; fit with inference=True")
        value = self._inference[name]
        if np.isnan(value).any() and name == "loo":
            raise AttributeError(
                "the leave-one-out error is not defined: a single row determines a coefficient; use a larger alpha"
            )
        return float(value[0]) if self.coef_.ndim == 1 else value

    @property
    def effective_df_(self) -> Any:
        """Trace of the hat matrix, the intercept counted as one; one number per target for a table of targets."""
        return self._inferred("edf", "effective_df_")

    @property
    def sigma_(self) -> Any:
        """Residual standard deviation, sqrt(RSS / (n - effective_df_)); NaN when no degree of freedom is left."""
        return self._inferred("sigma", "sigma_")

    @property
    def loo_error_(self) -> Any:
        """Mean squared error of each row predicted from all others (weighted mean; the whole row is left out)."""
        return self._inferred("loo", "loo_error_")

    def summary(self, level: float = 0.95, target: int | None = None) -> Summary:
        """Coefficients with standard errors sigma^2 (G + alpha F)^-1 G (G + alpha F)^-1.

        Ridge trades variance for bias. Errors, tests and intervals describe how the estimator varies around its
        own mean, which lies between zero and the least-squares coefficient; the bias is not in them. The
        number of rows is that of rows with positive weight, and weights are read as inverse variances.
        """
        every = np.atleast_1d(self._inferred("edf", "summary()"))
        if target is None and every.size > 1:
            raise ParameterError(
                f"there are {every.size} targets, and a summary is for one of them", remedy="pass target=0, 1, ..."
            )
        target = 0 if target is None else target
        if not integer(0, every.size - 1).accepts(target):
            what = f"target = {target!r} is out of range"
            raise ParameterError(what, remedy=f"it must be from 0 to {every.size - 1}")
        edf = every[target]
        if not 0 < level < 1:
            raise ParameterError(f"level = {level!r} is out of range", remedy="it must be a number in (0, 1)")
        facts: Any = self._inference
        sigma = float(facts["sigma"][target])
        estimate = np.atleast_2d(self.coef_)[target]
        error = sigma * facts["std_error"][:, target]
        names = self._feature_names()
        if self.fit_intercept:
            estimate = np.concatenate([[np.atleast_1d(self.intercept_)[target]], estimate])
            error = np.concatenate([[sigma * facts["intercept_std_error"][target]], error])
            names = ["intercept", *names]
        left = facts["n"] - edf
        return Summary(
            title="Ridge regression",
            table=coefficient_table(estimate, error, left, level, names),
            facts={
                "rows": facts["n"],
                "alpha": float(np.broadcast_to(self.alpha_, facts["edf"].shape)[target]),
                "budget": float(np.atleast_1d(self.budget_)[target]),
                "effective df": float(edf),
                "residual df": float(left),
                "sigma": sigma,
                "R2": _r_squared(float(facts["rss"][target]), float(facts["tss"][target])),
                "leave-one-out MSE": float(facts["loo"][target]),
            },
            notes=(
                f"Standard errors, t tests and {100 * level:g}% intervals describe how a biased estimator varies",
                "around its own mean; they do not account for the bias.",
            ),
        )


def per_target(name: str, value: Any, k: int) -> Array:
    return np.full(k, float(value)) if np.ndim(value) == 0 else non_negative(value, name, k, "target")


def _total(rows: RidgeRows) -> Array:
    """Total sum of squares of each target, about its mean if there is an intercept."""
    w = np.ones(rows.n) if rows.w is None else rows.w
    middle = w @ rows.Y / w.sum() if rows.intercept else 0.0
    return w @ (rows.Y - middle) ** 2


def _r_squared(rss: float, tss: float) -> float:
    return 1.0 - rss / tss if tss > 0 else float("nan")
