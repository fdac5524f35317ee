"""Locally weighted regression: around every position a small polynomial of its own.

    f(x0) = b_0  where  b = argmin_b  sum_i s_i K(||x_i - x0|| / h) (y_i - b'z(x_i - x0))^2,

z holds the products of the steps x_i - x0 up to the chosen degree and s_i are the sample weights. The fit is linear
in y, f(x0) = sum_i l_i(x0) y_i, which gives everything else in closed form: with L the matrix of the l_i(x_j),

    effective degrees of freedom  tr L,      sigma^2 = RSS / (n - 2 tr L + tr LL'),
    standard error of f(x0)       sigma ||l(x0)||,      leave-one-out residual  (y_i - f(x_i)) / (1 - L_ii).

Cost: the rows inside the window per position, found by binary search (one column, sorted, ties merged) or in a
KD-tree (several); leave-one-out over a grid of bandwidths is one such pass per bandwidth, and no refits.
Cleveland (1979), JASA 74, 829-836; Cleveland and Devlin (1988), JASA 83, 596-610.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, sqrt
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.special import stdtrit
from sklearn.base import RegressorMixin
from sklearn.neighbors import KDTree
from sklearn.utils.validation import check_is_fitted

from assay.base import Estimator, integer, jobs, none, one_of, real
from assay.constraints import text
from assay.errors import DataError, ParameterError
from assay.linear._basis import are_counts, unit_of
from assay.linear._local import GAUSSIAN, NARROW, NODES, TRICUBE, fit_line, kth_distances, window_ends
from assay.linear._local_tree import fit_cloud
from assay.numerics.threads import parallel
from assay.progress import track
from assay.results import Curve, Summary
from assay.state import Specs, Stateful, bools, facts, floats, ints, left_out, need, part, several

__all__ = ["LocalRegression"]

GRID = 30
"""How many bandwidths leave-one-out compares."""

BLOCK = 128
"""Positions per task: fixed, so that `n_jobs` cannot change how the work is cut."""

FAR, SMALL = 1e30, 1e-100
"""Limits of positions and bandwidths in units of the data; beyond them only the nearest row counts anyway."""

Bundles = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]
NO_BUNDLES: Bundles = (np.empty(0), np.empty(0), np.empty(0), np.empty(0), 0)


class LocalRegression(RegressorMixin, Estimator):
    """Locally weighted polynomial regression, with pointwise standard errors and a leave-one-out bandwidth.

    The kernel is exp(-d^2 / (2 h^2)) ("gaussian") or (1 - (d/h)^3)^3 for d < h ("tricube"), where d is the
    Euclidean distance in X as given (standardise columns of different units first). The bandwidth h is `tau`;
    with `fraction` it is `tau` times the distance from x0 to its k-th nearest row, k = floor(fraction n) but at
    least 2. kernel="tricube", degree=1 and a fraction is Cleveland's lowess without robustness steps, the values of
    statsmodels' `lowess(y, x, frac=fraction, it=0, delta=0)`.

    | parameter | default    | range                      | meaning                                                   |
    |-----------|------------|----------------------------|-----------------------------------------------------------|
    | tau       | 1.0        | > 0 or "loo"               | bandwidth; "loo" takes the least leave-one-out error      |
    | kernel    | "gaussian" | "gaussian" or "tricube"    | how the weight falls with the distance                    |
    | fraction  | None       | None or in (0, 1]          | share of the rows that sets the local unit of `tau`       |
    | degree    | 1          | 0, 1 or 2                  | of the local polynomial, cross products included          |
    | level     | 0.95       | in (0, 1)                  | confidence of intervals and of the band of `curve`        |
    | n_jobs    | None       | None or non-zero integer   | threads; never changes a result                           |

    Fitted attributes: `tau_`, `fitted_values_`, `effective_df_` (tr L), `df_residual_` (n - 2 tr L + tr LL'),
    `sigma_` (NaN where no degrees of freedom are left), `leverage_` (L_ii), and with tau="loo" `loo_curve_`, the mean
    squared leave-one-out error over the grid of bandwidths with its standard error.

    Where the window does not determine the polynomial (ties, too few rows, x0 beyond the data) its degree falls as
    far as needed, and where every weight would vanish the nearest rows decide, so a prediction is never NaN. Intervals
    are pointwise, use Student's t with `df_residual_` degrees of freedom, and are centred on E f(x0): they do not
    include smoothing bias. Weights are precisions (row i has variance sigma^2 / w_i): they act like repetition on the
    fit, while degrees of freedom count rows of positive weight. Where all are whole numbers they count as repetitions
    in `fraction` and in leave-one-out, too, which then leaves out one of them; otherwise a row leaves with all its
    weight. Leave-one-out with `fraction` keeps the windows that the row itself helped to set.

    Reference: Cleveland and Devlin (1988), Locally weighted regression, JASA 83, 596-610.

    >>> x = np.linspace(0, 6, 40)
    >>> model = LocalRegression(tau=0.5).fit(x[:, None], np.sin(x))
    >>> model.predict([[1.5], [3.0]]).round(3)
    array([0.881, 0.125])
    >>> round(model.effective_df_, 2)
    6.26
    >>> LocalRegression(tau="loo", degree=2).fit(x[:, None], np.sin(x) + 0.1 * np.cos(70 * x)).tau_ > 0.1
    True
    """

    state: ClassVar[Specs] = {
        "_rows": part(("linear.Line", "linear.Cloud")),
        **dict.fromkeys(("_x_unit", "_y_unit", "_tau_unit", "tau_"), real(0, open_low=True)),
        "_y_mean": real(),
        "_mass": real(0),
        "_final": left_out(),
        "_data": several(floats(None, "p") | floats(None), 2, kind=tuple),
        "_n_used": integer(1),
        "_y_name": text,
        **facts("effective_df_", "df_residual_", "sigma_", "leverage_", "fitted_values_", "loo_curve_"),
    }

    def _check_state(self) -> None:
        need(self._rows.x.shape[1:] == (() if self.n_features_in_ == 1 else (self.n_features_in_,)))
        need(self._mass <= self._rows.below[-1] and [part.ndim for part in self._data] == [2, 1])

    def _restore(self) -> None:
        self._final = self._setting(self.tau_ / self._tau_unit)

    constraints = {
        "tau": real(0, open_low=True) | one_of("loo"),
        "kernel": one_of("gaussian", "tricube"),
        "fraction": none | real(0, 1, open_low=True),
        "degree": integer(0, 2),
        "level": real(0, 1, open_low=True, open_high=True),
        "n_jobs": jobs,
    }

    def __init__(
        self,
        tau: float | str = 1.0,
        *,
        kernel: str = "gaussian",
        fraction: float | None = None,
        degree: int = 1,
        level: float = 0.95,
        n_jobs: int | None = None,
    ) -> None:
        self.tau = tau
        self.kernel = kernel
        self.fraction = fraction
        self.degree = degree
        self.level = level
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Store the rows, choose the bandwidth if asked to, and compute the fit's degrees of freedom."""
        self._y_name = str(y.name) if isinstance(y, pd.Series) and y.name is not None else "y"
        X, y = self._validate(X, y)
        w = self._weights(sample_weight, len(X))
        weights = np.ones(len(X)) if w is None else w
        used = np.flatnonzero(weights)
        s = weights[used]
        counted = are_counts(s)
        self._x_unit, self._y_unit = unit_of(X[used]), unit_of(y[used])
        x, target = X[used] / self._x_unit, y[used] / self._y_unit
        self._y_mean = float(np.average(target, weights=s / s.max()))
        target -= self._y_mean
        self._rows = (_line if x.shape[1] == 1 else _cloud)(x, target, s)
        self._mass = self._neighbour_mass(s, counted)
        self._tau_unit = self._x_unit if self.fraction is None else 1.0
        self._choose(target, s, np.ones_like(s) if counted else s)
        self._final = self._setting(self.tau_ / self._tau_unit)
        f, a0, variance = self._training_fits(self._final)[:, self._rows.home]
        share = s / self._rows.weight_unit
        self.effective_df_ = float(share @ a0)
        self.df_residual_ = float(s.size - 2.0 * self.effective_df_ + share @ variance)
        enough = self.df_residual_ > 1e-8 * s.size
        rss = float(s @ (target - f) ** 2)
        self.sigma_ = self._y_unit * sqrt(rss / self.df_residual_) if enough else float("nan")
        self.leverage_, self.fitted_values_ = np.zeros(len(X)), np.empty(len(X))
        self.leverage_[used] = share * a0
        self.fitted_values_[used] = self._y_unit * (self._y_mean + f)
        if used.size < len(X):
            self.fitted_values_[weights == 0] = self._fits(X[weights == 0])[0]
        self._data = (X, y)
        self._n_used = used.size
        return self

    def predict(self, X: Any, return_std: bool = False, interval: str | None = None, level: float | None = None) -> Any:
        """The local fit at each row of X; with `return_std` also its standard error.

        With `interval` a DataFrame `estimate, lower, upper` at confidence `level` (None: the model's own):
        `"confidence"` is for the mean at x, `"prediction"` for a new observation of weight one.
        """
        if level is not None and not self.constraints["level"].accepts(level):
            raise ParameterError(f"level = {level!r} is out of range", remedy="it must be a number in (0, 1)")
        if interval not in (None, "confidence", "prediction"):
            remedy = "it must be None, 'confidence' or 'prediction'"
            raise ParameterError(f"LocalRegression: interval = {interval!r} is out of range", remedy=remedy)
        index = X.index if isinstance(X, pd.DataFrame) else None
        X = self._validate(X, reset=False)
        mean, variance = self._fits(X)
        if not return_std and interval is None:
            return mean
        error = self._standard_error(variance)
        if interval is None:
            return mean, error
        if interval == "prediction":
            error = np.hypot(self.sigma_, error)
        margin = self._quantile(level) * error
        return pd.DataFrame({"estimate": mean, "lower": mean - margin, "upper": mean + margin}, index=index)

    def curve(self, grid: Any = None) -> Curve:
        """The fit over `grid` (by default 200 positions over the data) with its pointwise band, for one column."""
        check_is_fitted(self)
        X, y = self._data
        if X.shape[1] != 1:
            raise DataError(
                f"a curve needs one column, but the model was fitted on {X.shape[1]}",
                remedy="fit one column, or call predict on the rows you want to see",
            )
        x = np.linspace(X.min(), X.max(), 200) if grid is None else np.asarray(grid, dtype=np.float64).ravel()
        mean, variance = self._fits(x[:, None])
        name = self._feature_names()[0]
        title = f"Local regression, degree {self.degree}, {self.kernel} kernel"
        if not np.isfinite(self.sigma_):
            return Curve(x, mean, x_name=name, y_name=self._y_name, points=(X[:, 0], y), title=title)
        error = self._standard_error(variance)
        margin = self._quantile() * error
        return Curve(
            x, mean, x_name=name, y_name=self._y_name, std_error=error, lower=mean - margin, upper=mean + margin,
            level=self.level, points=(X[:, 0], y), title=title,
        )  # fmt: skip

    def summary(self) -> Summary:
        """What the fit is and how closely it follows the data, with the quantiles of its residuals."""
        check_is_fitted(self)
        residuals = self._data[1] - self.fitted_values_
        quantiles = np.quantile(residuals, [0, 0.25, 0.5, 0.75, 1])
        table = pd.DataFrame([quantiles], columns=["min", "25%", "median", "75%", "max"], index=["residuals"])
        chosen = " (leave-one-out)" if self.tau == "loo" else ""
        facts = {
            "rows": self._n_used,
            "columns": self.n_features_in_,
            "kernel": self.kernel,
            "degree": self.degree,
            f"tau{chosen}": self.tau_,
            "fraction": "-" if self.fraction is None else f"{self.fraction:g}",
            "effective df": self.effective_df_,
            "residual df": self.df_residual_,
            "sigma": self.sigma_,
        }
        return Summary("Local regression", table, facts)

    def _choose(self, target: np.ndarray, s: np.ndarray, leaves: np.ndarray) -> None:
        """Set `tau_`, by leave-one-out if asked to; leaves[i] is the weight that goes with row i."""
        if self.tau != "loo":
            self.tau_ = float(self.tau)
            return
        if s.size == 1 and s[0] == leaves[0]:
            what = 'tau = "loo" leaves one row out, but n_samples = 1'
            raise DataError(what, remedy="pass more rows or a number as tau")
        taus = self._grid()
        score, error = np.empty(taus.size), np.empty(taus.size)
        for i in track(range(taus.size), "bandwidths"):
            square = (self._y_unit * self._left_out(taus[i], target, leaves)) ** 2
            score[i] = np.average(square, weights=s)
            error[i] = np.sqrt(np.average((square - score[i]) ** 2, weights=s) / s.size)
        self.tau_ = float(taus[int(np.argmin(score))] * self._tau_unit)
        self.loo_curve_ = Curve(
            taus * self._tau_unit, score, x_name="tau", y_name="mean squared leave-one-out error", std_error=error,
            marks={"min": self.tau_}, log_x=True, title="Leave-one-out error",
        )  # fmt: skip

    def _grid(self) -> np.ndarray:
        """Bandwidths from windows that barely determine the polynomial to one window over all the data."""
        p = self.n_features_in_
        size = (1, 1 + p, (1 + p) * (2 + p) // 2)[self.degree]
        need = self._rows.typical_distance(float(size + 1), by_row=True)
        span = self._rows.diameter()
        if self._mass > 0:
            local = self._rows.typical_distance(self._mass, by_row=False)
            if local > 0:
                need, span = need / local, span / local
        low, high = (0.5 * need, span) if self.kernel == "gaussian" else (need, 4.0 * span)
        if not (high > 0):
            return np.array([1.0 / self._tau_unit])
        return np.geomspace(min(max(low, 1e-4 * high), 0.5 * high), high, GRID)

    def _left_out(self, tau: float, target: np.ndarray, leaves: np.ndarray) -> np.ndarray:
        """Leave-one-out residuals; a row that alone decides its own fit is refitted without it."""
        setting = self._setting(tau)
        f, a0, _ = self._training_fits(setting)
        at = self._rows.home
        residual, kept = target - f[at], 1.0 - leaves / self._rows.weight_unit * a0[at]
        alone = np.flatnonzero(kept < 1e-6)
        kept[alone] = 1.0
        residual /= kept
        s = self._rows.s.copy()
        for row in alone if s.size > 1 else ():
            group = at[row]
            before, s[group] = s[group], 0.0
            position = self._rows.x.reshape(s.size, -1)[group : group + 1]
            residual[row] = target[row] - self._rows.fits(position, setting, None, s)[0, 0]
            s[group] = before
        return residual

    def _neighbour_mass(self, s: np.ndarray, counted: bool) -> float:
        """How much weight the local unit of tau must hold: that of the k-th nearest row, or 0 for a fixed tau."""
        if self.fraction is None:
            return 0.0
        total = float(s.sum())
        mass = max(floor(self.fraction * total + 1e-10), min(2.0, total)) if counted else self.fraction * total
        return mass * (1.0 - 1e-9)

    def _setting(self, tau: float) -> tuple[float, float, int, int, Bundles]:
        """What a pass over positions needs, for a bandwidth in units of the data."""
        shape = GAUSSIAN if self.kernel == "gaussian" else TRICUBE
        tau = min(max(tau, SMALL), 1.0 / SMALL)
        return tau, self._mass, shape, self.degree, self._rows.bundles(tau, self._mass)

    def _training_fits(self, setting: Any) -> np.ndarray:
        return self._rows.fits(self._rows.x.reshape(self._rows.s.size, -1), setting, self.n_jobs, None)

    def _fits(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Value and variance (in units of sigma^2) at the rows of X."""
        with np.errstate(over="ignore"):
            positions = np.clip(X / self._x_unit, -FAR, FAR)
        f, _, variance = self._rows.fits(positions, self._final, self.n_jobs, None)
        return self._y_unit * (self._y_mean + f), variance / self._rows.weight_unit

    def _standard_error(self, variance: np.ndarray) -> np.ndarray:
        if not np.isfinite(self.sigma_):
            raise DataError(
                "no standard errors: the fit uses up every degree of freedom of the data",
                remedy='widen tau (or use tau="loo"), lower degree, or pass more rows',
            )
        return self.sigma_ * np.sqrt(variance)

    def _quantile(self, level: float | None = None) -> float:
        return float(stdtrit(self.df_residual_, 0.5 + 0.5 * (self.level if level is None else level)))


@dataclass(frozen=True, eq=False)
class _Line(Stateful):
    """The training rows of one column: sorted, ties merged into their mean."""

    x: np.ndarray
    s: np.ndarray
    y: np.ndarray
    below: np.ndarray
    home: np.ndarray
    weight_unit: float

    state: ClassVar[Specs] = {
        "x": floats("n", rising=True),
        "s": floats("n", low=0),
        "y": floats("n"),
        "below": floats("n+1", rising=True, low=0),
        "home": ints(None, below="n"),
        "weight_unit": real(0, open_low=True),
    }

    def _check_state(self) -> None:
        need(self.x.size > 0)

    def fits(self, positions: np.ndarray, setting: Any, n_jobs: int | None, s: np.ndarray | None) -> np.ndarray:
        """Value, a_0 and variance at each position (see `_local`); s stands in for the weights where it is given."""
        tau, mass, shape, degree, bundles = setting
        levels = np.arange(degree + 1)
        n = self.x.size
        weights, sy = (self.s, self.s * self.y) if s is None else (s, s * self.y)
        bundles = bundles if s is None else NO_BUNDLES
        at = np.ascontiguousarray(positions[:, 0])
        ends = self._ends(self.below, mass) if mass > 0 else np.empty(0, dtype=np.int64)

        def block(rows: slice, out: np.ndarray) -> None:
            t, k, z = np.empty(n), np.empty(n), np.empty((degree + 2, n + 1))
            fit_line(
                self.x, weights, self.y, sy, *bundles, ends, at[rows], tau, shape, degree, levels, t, k, z,
                out[0, rows], out[1, rows], out[2, rows],
            )  # fmt: skip

        return _in_blocks(block, at.size, n, n_jobs)

    def bundles(self, tau: float, mass: float) -> Bundles:
        """Blocks of rows as a few nodes each, if blocks that are narrow beside the bandwidth hold enough rows."""
        n, middle = self.x.size, self.x[self.x.size // 2]
        around = tau * mass * n / self.below[-1] if mass > 0 else float(np.sum(np.abs(self.x - middle) < tau))
        size = int(min(0.65 * NARROW * around, n))  # two thirds of what is allowed: rows are not spread evenly
        if size < 2 * NODES:
            return NO_BUNDLES
        count = n // size
        x, s, y = (v[: count * size].reshape(count, size) for v in (self.x, self.s, self.y))
        centre, half = 0.5 * (x[:, :1] + x[:, -1:]), 0.5 * (x[:, -1:] - x[:, :1])
        angles = np.arccos(np.clip((x - centre) / half, -1.0, 1.0))
        nodes = (np.arange(NODES) + 0.5) * np.pi / NODES
        # Lagrange's polynomials on Chebyshev nodes as cosine series: l_i = (1 + 2 sum_m cos(m a_i) cos(m a)) / NODES.
        share = np.full((2, count, NODES), 1.0)
        share[0] *= s.sum(axis=1, keepdims=True)
        share[1] *= (s * y).sum(axis=1, keepdims=True)
        for m in range(1, NODES):
            wave = np.cos(m * angles)
            for row, weights in enumerate((s, s * y)):
                share[row] += 2.0 * (wave * weights).sum(axis=1, keepdims=True) * np.cos(m * nodes)
        share /= NODES
        at = (centre + half * np.cos(nodes)).ravel()
        return at, share[0].ravel(), share[1].ravel(), 2.0 * half.ravel(), size

    def typical_distance(self, mass: float, by_row: bool) -> float:
        """The median over rows of the distance that holds so much weight (or so many distinct rows)."""
        some = self.x[np.linspace(0, self.x.size - 1, min(self.x.size, 400)).astype(int)]
        below = np.arange(self.x.size + 1.0) if by_row else self.below
        out = np.empty(some.size)
        kth_distances(self.x, self._ends(below, min(mass, below[-1] * (1.0 - 1e-9))), some, out)
        return float(np.median(out))

    def _ends(self, below: np.ndarray, mass: float) -> np.ndarray:
        ends = np.empty(self.x.size, dtype=np.int64)
        window_ends(below, mass, ends)
        return ends

    def diameter(self) -> float:
        """The range of the column."""
        return float(self.x[-1] - self.x[0])


@dataclass(frozen=True, eq=False)
class _Cloud(Stateful):
    """The training rows of several columns, ties merged, in the order of a KD-tree, with the tree's arrays."""

    x: np.ndarray
    s: np.ndarray
    y: np.ndarray
    share: np.ndarray
    below: np.ndarray
    first: np.ndarray
    last: np.ndarray
    leaf: np.ndarray
    low: np.ndarray
    high: np.ndarray
    home: np.ndarray
    weight_unit: float

    state: ClassVar[Specs] = {
        "x": floats("n", "p"),
        "s": floats("n", low=0),
        "y": floats("n"),
        "below": floats("n+1", rising=True, low=0),
        "home": ints(None, below="n"),
        "weight_unit": real(0, open_low=True),
        "share": floats("n", low=0),
        "first": ints("nodes"),
        "last": ints("nodes"),
        "leaf": bools("nodes"),
        "low": floats("nodes", "p"),
        "high": floats("nodes", "p"),
    }

    def _check_state(self) -> None:
        """Children 2i + 1 and 2i + 2 of a node are there, and the leaves hold each row once at most."""
        n, inner = len(self.x), np.flatnonzero(~self.leaf)
        need(n > 0 and self.leaf.size > 0 and (2 * inner + 2 < self.leaf.size).all())
        need((self.first <= self.last).all() and (self.last <= n).all())
        need((self.last - self.first)[self.leaf].sum() <= n)

    def fits(self, positions: np.ndarray, setting: Any, n_jobs: int | None, s: np.ndarray | None) -> np.ndarray:
        """Value, a_0 and variance at each position (see `_local`)."""
        tau, mass, shape, degree, _ = setting
        n, p = self.x.shape
        levels = np.repeat(np.arange(degree + 1), (1, p, p * (p + 1) // 2)[: degree + 1])
        weights = self.s if s is None else s
        at = np.ascontiguousarray(positions)

        def block(rows: slice, out: np.ndarray) -> None:
            stack, gathered = np.empty(2 * self.leaf.size, dtype=np.int64), np.empty(n, dtype=np.int64)
            d, k, z = np.empty(n), np.empty(n), np.empty((levels.size + 3, n + 1))
            fit_cloud(
                self.x, weights, self.y, self.share, self.below, self.first, self.last, self.leaf, self.low,
                self.high, at[rows], tau, mass, shape, degree, levels, stack, gathered, d, k, z,
                out[0, rows], out[1, rows], out[2, rows],
            )  # fmt: skip

        return _in_blocks(block, len(at), n * levels.size, n_jobs)

    def typical_distance(self, mass: float, by_row: bool) -> float:
        """The median over rows of the distance that holds so much weight (or so many rows)."""
        some = self.x[np.linspace(0, len(self.x) - 1, min(len(self.x), 200)).astype(int)]
        share = np.ones(len(self.x)) if by_row else self.share
        found = np.empty(len(some))
        for i, position in enumerate(some):
            distance = np.sqrt(((self.x - position) ** 2).sum(axis=1))
            order = np.argsort(distance, kind="stable")
            reached = np.searchsorted(np.cumsum(share[order]), min(mass, share.sum() * (1.0 - 1e-9)))
            found[i] = distance[order[min(int(reached), order.size - 1)]]
        return float(np.median(found))

    def bundles(self, tau: float, mass: float) -> Bundles:
        """None: blocks of a tree are too few rows wide for it."""
        return NO_BUNDLES

    def diameter(self) -> float:
        """The diagonal of the box around the rows."""
        return float(np.linalg.norm(self.x.max(axis=0) - self.x.min(axis=0)))


def _line(x: np.ndarray, y: np.ndarray, s: np.ndarray) -> _Line:
    values, home = np.unique(x[:, 0], return_inverse=True)
    unit = unit_of(s)
    mass = np.bincount(home, weights=s)
    scaled = np.bincount(home, weights=s / unit)
    mean = np.bincount(home, weights=s / unit * y) / scaled
    return _Line(values, scaled, mean, np.concatenate([[0.0], np.cumsum(mass)]), home, unit)


def _cloud(x: np.ndarray, y: np.ndarray, s: np.ndarray) -> _Cloud:
    values, home = np.unique(x, axis=0, return_inverse=True)
    unit = unit_of(s)
    mass = np.bincount(home, weights=s)
    scaled = np.bincount(home, weights=s / unit)
    mean = np.bincount(home, weights=s / unit * y) / scaled
    _, index, nodes, bounds = (np.asarray(part) for part in KDTree(values, leaf_size=32).get_arrays())
    place = np.empty(index.size, dtype=np.int64)
    place[index] = np.arange(index.size)
    return _Cloud(
        np.ascontiguousarray(values[index]), scaled[index], mean[index], mass[index],
        np.concatenate([[0.0], np.cumsum(mass[index])]), nodes["idx_start"].astype(np.int64),
        nodes["idx_end"].astype(np.int64), nodes["is_leaf"].astype(np.bool_), np.ascontiguousarray(bounds[0]),
        np.ascontiguousarray(bounds[1]), place[home], unit,
    )  # fmt: skip


def _in_blocks(block: Callable[[slice, np.ndarray], None], n: int, work: int, n_jobs: int | None) -> np.ndarray:
    """Fill a (3, n) array block by block; each position stands for itself, so no split changes a bit."""
    out = np.empty((3, n))
    blocks = [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]
    parallel(lambda rows: block(rows, out), blocks, n_jobs=n_jobs, work=float(n) * work)
    return out
