"""What least squares can say about its own answer.

With Z the orthonormal basis of the (weighted) design, A = Z B^-1, everything is a small matrix away:

    leverage  h_i = w_i |z_i|^2                      covariance  s^2 B B',   s^2 = sum_i w_i e_i^2 / (n - rank)
    HC0       B (sum_i w_i^2 e_i^2 z_i z_i') B'      HC1  n/(n - rank) HC0
    HC2, HC3  e_i^2/(1 - h_i),  e_i^2/(1 - h_i)^2    leave-one-out residual  e_i/(1 - h_i)

Leverage, residuals and the meat of a robust covariance come from one pass over blocks of rows, so the
rows need not be kept. MacKinnon and White (1985), J. Econometrics 29, 305-325; Cook (1977), Technometrics 19, 15-18.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from assay.numerics.scale import norms, power_of_two
from assay.numerics.triangle import RowBlock, Solution, Triangle, blocks, dense, over_blocks
from assay.results import Diagnostics, Summary
from assay.state import Stateful

__all__ = ["Inference", "RowPass", "coefficient_table", "diagnose", "pass_over_rows", "target_size"]

ROBUST = ("HC0", "HC1", "HC2", "HC3")
ROUNDING = 64 * float(np.finfo(float).eps)
FULL_LEVERAGE = 1e-10
"""A row with 1 - h below this decides its own fitted value; what would happen without it is not defined."""


@dataclass(frozen=True, eq=False)
class RowPass:
    """What one pass over the rows gives: residuals (n, k), leverage (n,) and the meat of a robust covariance.

    The meat (k, q, q) is in units of the targets' `size`.
    """

    residuals: np.ndarray
    leverage: np.ndarray
    meat: np.ndarray | None


def target_size(triangle: Triangle) -> np.ndarray:
    """A power of two near the length of each target, so that squares neither overflow nor vanish."""
    return power_of_two(norms(triangle.factor[:, triangle.factor.shape[1] - triangle.targets :]))


def pass_over_rows(
    X: RowBlock,
    Y: np.ndarray,
    w: np.ndarray | None,
    triangle: Triangle,
    solution: Solution,
    kind: str,
) -> RowPass:
    """Residuals, leverage and meat at the solution's coefficients, block by block over all cores."""
    first, q, k = int(triangle.intercept), solution.basis.shape[1], triangle.targets
    # One product gives the basis and the fit; basis columns after the first are orthogonal to the constant, so centred
    # rows are enough and large means cost no digits.
    columns = np.hstack([solution.basis[first:, first:] / solution.scale[first:, None], solution.coef])
    centre = solution.intercept + solution.mean @ solution.coef
    constant = solution.basis[0, 0] / solution.scale[0] if first else 0.0
    size = target_size(triangle)
    residuals, leverage = np.empty(Y.shape), np.empty(len(Y))

    def one(rows: slice) -> np.ndarray | None:
        product = (dense(X, rows) - solution.mean) @ columns
        Z = np.empty((len(product), q))
        Z[:, :first] = constant
        Z[:, first:] = product[:, : q - first]
        residuals[rows] = Y[rows] - (product[:, q - first :] + centre)
        return finish_block(Z, rows, residuals, leverage, w, kind, size)

    meats = over_blocks(one, blocks(len(Y), X.shape[1] + first + k))
    return RowPass(residuals, leverage, total_meat(meats, triangle.n, q, kind))


def finish_block(
    Z: np.ndarray,
    rows: slice,
    residuals: np.ndarray,
    leverage: np.ndarray,
    w: np.ndarray | None,
    kind: str,
    size: np.ndarray,
) -> np.ndarray | None:
    """Leverage of a block of rows from its basis Z, and the block's share (k, q, q) of the meat."""
    h = np.einsum("ij,ij->i", Z, Z)
    if w is not None:
        h *= w[rows]
    leverage[rows] = np.minimum(h, 1.0)
    if kind not in ROBUST:
        return None
    e = residuals[rows] / size
    if w is not None:
        e *= w[rows, None]
    if kind in ("HC2", "HC3"):
        left = 1.0 - leverage[rows, None]
        left[left < FULL_LEVERAGE] = np.nan
        e /= np.sqrt(left) if kind == "HC2" else left
    return np.stack([(Z * np.square(e[:, [j]])).T @ Z for j in range(e.shape[1])])


def total_meat(meats: Sequence[np.ndarray | None], n: int, q: int, kind: str) -> np.ndarray | None:
    if kind not in ROBUST:
        return None
    total = np.sum(np.stack([meat for meat in meats if meat is not None]), axis=0)
    if kind == "HC1":
        total *= n / (n - q) if n > q else np.nan
    return total


def t_quantile(level: float, df: float) -> float:
    """The two-sided quantile of Student's t; NaN where no degree of freedom is left."""
    return float(stats.t.ppf(0.5 + level / 2, df)) if df > 0 else np.nan


def coefficient_table(
    estimate: np.ndarray, error: np.ndarray, df: float, level: float, names: Sequence[str]
) -> pd.DataFrame:
    """The usual columns, one row per coefficient; without degrees of freedom tests and limits are NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = estimate / error
    half = t_quantile(level, df) * error
    columns = {
        "estimate": estimate,
        "std_error": error,
        "statistic": statistic,
        "p_value": 2 * stats.t.sf(np.abs(statistic), df) if df > 0 else np.full(error.shape, np.nan),
        "lower": estimate - half,
        "upper": estimate + half,
    }
    return pd.DataFrame(columns, index=list(names))


@dataclass(frozen=True, eq=False)
class Inference(Stateful):
    """A fitted least-squares model without its rows: enough for tests, intervals and the summary.

    `estimates` (m, k) are intercept (if any) and slopes; `rss` (k,) is in units of `size`^2.
    """

    estimates: np.ndarray
    triangle: Triangle
    solution: Solution
    rss: np.ndarray
    kind: str
    meat: np.ndarray | None
    weighted: bool
    refined: bool

    @property
    def first(self) -> int:
        """1 with an intercept, 0 without."""
        return int(self.triangle.intercept)

    @property
    def n(self) -> int:
        """Rows of positive weight."""
        return self.triangle.n

    @property
    def df(self) -> int:
        """Residual degrees of freedom."""
        return self.triangle.n - self.solution.rank - self.first

    @cached_property
    def size(self) -> np.ndarray:
        """Units of the targets."""
        return target_size(self.triangle)

    @cached_property
    def sigma(self) -> np.ndarray:
        """Residual standard deviation of each target, NaN without degrees of freedom."""
        if self.df <= 0:
            return np.full(self.rss.size, np.nan)
        return np.sqrt(self.rss / self.df) * self.size

    @cached_property
    def estimable(self) -> np.ndarray:
        """Which of intercept and slopes the data determine."""
        solution, first = self.solution, self.first
        if solution.null is None:
            return np.zeros(len(self.estimates), dtype=bool)
        mask = np.ones(len(self.estimates), dtype=bool)
        if solution.null.shape[1] == 0:
            return mask
        null = solution.null / np.abs(solution.null).max(axis=0)
        mask[first:] = np.abs(null).max(axis=1) < 1e-8
        if first:
            # A constant column moves only itself: its slope of least norm is 0 and the intercept stays what it is.
            keep = np.abs(null[solution.constant]).max(axis=0, initial=0.0) < 0.5
            mean = solution.mean / solution.scale[first:]
            mask[0] = np.all(np.abs(mean @ null[:, keep]) <= 1e-8 * (np.abs(mean) @ np.abs(null[:, keep])))
        return mask

    def spread(self, target: int) -> np.ndarray:
        """Covariance (q, q) of the coordinates in the basis, in units of size^2."""
        q = self.solution.basis.shape[1]
        if self.df <= 0:
            return np.full((q, q), np.nan)
        if self.meat is None:
            return np.eye(q) * (self.rss[target] / self.df)
        return self.meat[target]

    def std_errors(self, target: int) -> np.ndarray:
        """Standard errors of intercept and slopes, NaN where the data do not determine them."""
        basis = self.solution.basis
        variance = np.einsum("ij,ij->i", basis @ self.spread(target), basis)
        error = np.sqrt(np.maximum(variance, 0.0)) * self.size[target] / self.solution.scale
        return np.where(self.estimable, error, np.nan)

    def covariance(self, target: int) -> np.ndarray:
        """Covariance matrix (m, m) of intercept and slopes."""
        matrix = self.solution.basis @ self.spread(target) @ self.solution.basis.T
        unit = self.size[target] / self.solution.scale
        with np.errstate(over="ignore"):
            matrix = matrix * unit[:, None] * unit
        open_ = ~self.estimable
        matrix[open_] = np.nan
        matrix[:, open_] = np.nan
        return matrix

    def band(self, X: np.ndarray, fitted: np.ndarray, target: int, interval: str, level: float) -> np.ndarray:
        """Columns estimate, lower, upper for dense rows X; NaN where the data do not determine the mean."""
        first, solution = self.first, self.solution
        rows = (X - solution.mean) / solution.scale[first:]
        Z = np.empty((len(X), solution.basis.shape[1]))
        Z[:, :first] = solution.basis[0, 0] / solution.scale[0]
        Z[:, first:] = rows @ solution.basis[first:, first:]
        variance = np.einsum("ij,ij->i", Z @ self.spread(target), Z)
        if interval == "prediction":
            variance += self.rss[target] / self.df if self.df > 0 else np.nan
        if solution.null is None:
            variance[:] = np.nan
        elif solution.null.shape[1]:
            reach = (np.abs(X) + np.abs(solution.mean)) / solution.scale[first:]
            free = np.abs(rows @ solution.null) > 1e-8 * (reach @ np.abs(solution.null))
            variance[free.any(axis=1)] = np.nan
        half = self.quantile(level) * np.sqrt(variance) * self.size[target]
        return np.column_stack([fitted, fitted - half, fitted + half])

    def quantile(self, level: float) -> float:
        """The two-sided quantile of Student's t."""
        return t_quantile(level, self.df)

    def table(self, names: Sequence[str], target: int, level: float) -> pd.DataFrame:
        """One row per coefficient: estimate, std_error, statistic, p_value, lower, upper."""
        rows = [*["intercept"] * self.first, *names]
        return coefficient_table(self.estimates[:, target], self.std_errors(target), self.df, level, rows)

    def facts(self, target: int) -> dict[str, Any]:
        """The heading of the summary."""
        n, rank, df = self.n, self.solution.rank, self.df
        f_value, f_p = self.f_test(target)
        tss, rss = float(self.tss[target]), float(self.rss[target])
        r2 = 1.0 - rss / tss if tss > 0 else np.nan
        loglik = self.log_likelihood(target)
        parameters = rank + self.first
        return {
            "n": n,
            "df": df,
            "R2": r2,
            "adjusted R2": 1.0 - (1.0 - r2) * (n - self.first) / df if df > 0 else np.nan,
            "sigma": float(self.sigma[target]),
            "F": f_value,
            "F df": f"{rank}, {max(df, 0)}",
            "F p-value": f_p,
            "log-likelihood": loglik,
            "AIC, sigma not counted": -2 * loglik + 2 * parameters,
            "BIC, sigma not counted": -2 * loglik + np.log(n) * parameters,
            "AIC, sigma counted (R)": -2 * loglik + 2 * (parameters + 1),
            "BIC, sigma counted (R)": -2 * loglik + np.log(n) * (parameters + 1),
            "condition number": self.solution.condition,
            "covariance": self.kind,
        }

    @cached_property
    def tss(self) -> np.ndarray:
        """Total sum of squares, about the mean if there is an intercept, in units of size^2."""
        targets = self.triangle.factor[:, self.triangle.factor.shape[1] - self.triangle.targets :] / self.size
        total, about_mean = norms(targets), norms(targets[self.first :])
        return np.where(about_mean <= ROUNDING * total, 0.0, np.square(about_mean))

    def is_perfect(self, target: int) -> bool:
        """Whether the residuals are no more than rounding noise."""
        targets = self.triangle.factor[:, self.triangle.factor.shape[1] - self.triangle.targets :] / self.size
        return bool(np.sqrt(self.rss[target]) <= ROUNDING * norms(targets)[target])

    def f_test(self, target: int) -> tuple[float, float]:
        """Wald's F of all slopes being zero, under the chosen covariance, and its p-value."""
        rank, first = self.solution.rank, self.first
        if self.df <= 0 or rank == 0 or self.tss[target] == 0:
            return np.nan, np.nan
        c = self.solution.coordinates[first:, target] / self.size[target]
        spread = self.spread(target)[first:, first:]
        if not np.isfinite(spread).all() or not np.diag(spread).all():
            return (np.inf, 0.0) if not np.isnan(spread).any() and c.any() else (np.nan, np.nan)
        f = float(c @ np.linalg.lstsq(spread, c, rcond=None)[0]) / rank
        return f, float(stats.f.sf(f, rank, self.df))

    def log_likelihood(self, target: int) -> float:
        """The normal log-likelihood at its maximum over sigma (RSS/n), for rows of variance sigma^2/w."""
        n, rss = self.n, float(self.rss[target])
        if self.df <= 0 or self.is_perfect(target):
            return np.nan  # the likelihood of a perfect fit has no bound, and rounding noise would set its value
        log_rss = np.log(rss) + 2 * np.log(self.size[target])
        return float(-0.5 * n * (np.log(2 * np.pi / n) + log_rss + 1) + 0.5 * self.triangle.log_weight)

    def notes(self, names: Sequence[str], target: int) -> list[str]:
        """What a reader must know before trusting the table."""
        lines = []
        if self.df <= 0:
            lines.append(
                f"No residual degrees of freedom: {self.n} rows and {self.solution.rank + self.first} fitted "
                "coefficients leave nothing to estimate sigma from, so there are no standard errors."
            )
        elif self.is_perfect(target):
            lines.append("The fit is perfect up to rounding: standard errors and tests describe rounding noise.")
        open_ = [name for name, known in zip(names, self.estimable[self.first :], strict=True) if not known]
        if open_:
            lines.append(
                f"Not determined by the data (least-norm values shown): {', '.join(open_[:8])}"
                + (f" and {len(open_) - 8} more." if len(open_) > 8 else ".")
            )
        if self.kind in ROBUST and self.df > 0:
            lines.append(f"Standard errors are robust to unequal variances ({self.kind}), with t quantiles.")
            if self.meat is not None and np.isnan(self.meat).any():
                lines.append(f"{self.kind} is not defined here: some row has leverage 1.")
        if self.weighted:
            lines.append("Weights are precisions: var(y_i) = sigma^2/w_i; n counts the rows of positive weight.")
        if self.refined:
            lines.append(
                "The condition number is high: the fit was solved in double-double precision to keep full accuracy."
            )
        return lines

    def summary(self, names: Sequence[str], target: int, level: float) -> Summary:
        """The table under its heading."""
        with np.errstate(over="ignore", invalid="ignore"):
            facts, table = self.facts(target), self.table(names, target, level)
        return Summary(f"Least squares ({100 * level:g}% intervals)", table, facts, self.notes(names, target))


def diagnose(
    fitted: np.ndarray,
    residuals: np.ndarray,
    leverage: np.ndarray,
    w: np.ndarray | None,
    inference: Inference,
    target: int,
    index: Any = None,
) -> Diagnostics:
    """Studentised residuals and Cook's distances of the training rows, for one target."""
    size, df = inference.size[target], inference.df
    q = inference.solution.rank + inference.first
    e = residuals / size * (1.0 if w is None else np.sqrt(w))
    left = np.where(1.0 - leverage < FULL_LEVERAGE, np.nan, 1.0 - leverage)
    variance = inference.rss[target] / df if df > 0 else np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        standardized = e / np.sqrt(variance * left)
        without = (inference.rss[target] - np.square(e) / left) / (df - 1) if df > 1 else np.full(e.size, np.nan)
        studentized = e / np.sqrt(np.maximum(without, 0.0) * left)
        cook = np.square(standardized) * leverage / (left * q)
    return Diagnostics(fitted, residuals, leverage, standardized, studentized, cook, index)
