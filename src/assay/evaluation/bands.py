"""Bands of a fitted curve by the bootstrap: refit to resampled rows, look at the spread of the curves (row G6).

    f*_b = the learner refitted to resample b, at every row g of a grid,    se_g = sd_b f*_b(g)

    pointwise, percentile    the a/2 and 1-a/2 quantiles of f*_b(g)
    pointwise, basic         2 f(g) - those quantiles, exchanged
    pointwise, normal        f(g) -+ z se_g
    simultaneous (sup-t)     f(g) -+ c se_g,  c the 1-a quantile of max_g |f*_b(g) - f(g)| / se_g

A pointwise band covers each point of the curve with its level; only the simultaneous band covers the whole curve. Both
are bands of what the learner estimates on average: the bias of a smooth fit is not in them. Pairs resampling draws rows
(x, y) and allows for unequal noise; residual resampling keeps X fixed and assumes a right model with equal noise. Where
the learner takes sample weights, a resample is the distinct rows with their multiplicities: .632 n rows instead of n.
Cost: B fits and predictions; memory O(B g).
Efron & Tibshirani (1993), An Introduction to the Bootstrap; Montiel Olea & Plagborg-Møller (2019), J. Appl.
Econometrics 34, 1-17 (sup-t).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special
from sklearn.utils.validation import has_fit_parameter

from assay.checks import choice, fraction, freeze, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._refits import bootstrap_rows, fit_whole, refit_many, reseeded, two_classes
from assay.evaluation.learner import Rows, fit_rows, label_of, predictions, rows_of
from assay.metrics.definition import find
from assay.numbers import fmt
from assay.numerics.seeds import seed_sequence
from assay.results import Result

__all__ = ["BootstrapBand", "bootstrap_band"]

Array = np.ndarray
METHODS = ("percentile", "basic", "normal")
KINDS = ("pointwise", "simultaneous")
RESAMPLES = ("pairs", "residuals")


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapBand(Result):
    """A fitted curve over a grid with its pointwise and its simultaneous band.

    | field                   | meaning                                                                  |
    |-------------------------|--------------------------------------------------------------------------|
    | grid, estimate          | the rows, and the prediction of the learner fitted to all rows           |
    | std_error               | of the prediction at each row                                            |
    | lower, upper            | pointwise limits                                                         |
    | band_lower, band_upper  | simultaneous limits (sup-t)                                              |
    | critical                | how many standard errors the simultaneous band reaches                   |
    | bounds                  | limits are cut to them: (0, 1) for probabilities                         |
    | replicates              | the refitted curves, one per row; `limits` makes other bands from them   |
    """

    name: str
    grid: Any
    estimate: Array
    std_error: Array
    lower: Array
    upper: Array
    band_lower: Array
    band_upper: Array
    critical: float
    replicates: Array
    level: float
    method: str
    resample: str
    n: int
    x: Array | None
    x_name: str
    y_name: str
    bounds: tuple[float, float] = (-np.inf, np.inf)
    points: tuple[Array, Array] | None = field(default=None, repr=False)

    @property
    def n_resamples(self) -> int:
        """How many times the learner was refitted."""
        return int(self.replicates.shape[0])

    def limits(
        self, kind: str = "pointwise", level: float | None = None, method: str | None = None
    ) -> tuple[Array, Array]:
        """Lower and upper limits of either kind of band, at another level or by another method."""
        choice(kind, "kind", KINDS)
        level = self.level if level is None else fraction(level, "level")
        method = self.method if method is None else choice(method, "method", METHODS)
        if kind == "simultaneous":
            critical = _sup_t(self.estimate, self.std_error, self.replicates, level)
            return _simultaneous(self.estimate, self.std_error, critical, self.bounds)
        return _pointwise(self.estimate, self.std_error, self.replicates, level, method, self.bounds)

    def to_frame(self) -> pd.DataFrame:
        """One row per row of the grid: estimate, std_error, pointwise and simultaneous limits."""
        if self.x is not None:
            frame = pd.DataFrame({self.x_name: self.x})
        elif hasattr(self.grid, "iloc"):
            frame = self.grid.reset_index(drop=True)
        else:
            wide = self.grid.toarray() if hasattr(self.grid, "toarray") else np.asarray(self.grid)
            frame = pd.DataFrame(wide, columns=[f"x{j}" for j in range(wide.shape[1])])
        for name in ("estimate", "std_error", "lower", "upper", "band_lower", "band_upper"):
            frame[name] = getattr(self, name)
        return frame

    def __str__(self) -> str:
        width = self.upper - self.lower
        lines = [
            f"n = {self.n}, {self.n_resamples} resamples of {self.resample}, {self.estimate.size} grid rows",
            f"standard error {fmt(self.std_error.min())} to {fmt(self.std_error.max())}",
            f"{100 * self.level:.4g}% pointwise band ({self.method}), width {fmt(width.min())} to {fmt(width.max())}",
            f"{100 * self.level:.4g}% simultaneous band (sup-t), ± {self.critical:.3f} standard errors",
        ]
        title = f"Bootstrap band of {self.name}: {self.y_name}"
        rule = "-" * max(len(line) for line in [title, *lines])
        text = "Estimates the learner's average fit at each grid row; the bias of the fit is not in the band."
        return "\n".join([title, rule, *lines, rule, text])


def bootstrap_band(
    estimator: Any,
    X: Any,
    y: Any,
    grid: Any = None,
    *,
    n_resamples: int = 999,
    level: float = 0.95,
    method: str = "percentile",
    resample: str = "pairs",
    label: Any = None,
    weights: bool | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> BootstrapBand:
    """Pointwise and simultaneous bootstrap bands of what a learner predicts over a grid.

        f(g) -+ z se_g, or quantiles of f*_b(g), at each g;     f(g) -+ c se_g for all g at once

    | parameter    | default      | range                           | meaning                                         |
    |--------------|--------------|---------------------------------|-------------------------------------------------|
    | estimator    |              | fit and predict                 | the learner; cloned, never changed              |
    | X, y         |              | a table and its target          | the rows                                        |
    | grid         | 100 steps    | rows like X, or numbers where X | where the curve is wanted                       |
    |              | (one column) | has one column                  |                                                 |
    | n_resamples  | 999          | at least 20                     | refits                                          |
    | level        | 0.95         | in (0, 1)                       | of both bands                                   |
    | method       | "percentile" | "percentile", "basic", "normal" | of the pointwise band                           |
    | resample     | "pairs"      | "pairs", "residuals"            | rows drawn, or residuals put on the fit         |
    | label        | the last     | a class                         | whose probability is drawn (classifiers)        |
    | weights      | None         | None, True, False               | resample by weights; None: where `fit` takes    |
    |              |              |                                 | them. False for trees with min_samples_leaf,    |
    |              |              |                                 | which count rows, not weights                   |
    | random_state | 0            | seed                            | the resamples, and unset seeds of the learner   |
    | n_jobs       | None         | None or non-zero                | workers; never changes a result                 |

    >>> import numpy as np
    >>> from assay.linear import LinearRegression
    >>> x = np.linspace(0, 1, 30)
    >>> y = 2 * x + np.random.default_rng(0).normal(0, 0.1, 30)
    >>> band = bootstrap_band(LinearRegression(), x[:, None], y, [0.0, 0.5, 1.0], n_resamples=199)
    >>> bool(((band.lower < [0, 1, 2]) & (band.upper > [0, 1, 2])).all()), bool((band.band_lower < band.lower).all())
    (True, True)
    """
    choice(method, "method", METHODS)
    choice(resample, "resample", RESAMPLES)
    whole(n_resamples, "n_resamples", 20)
    level = fraction(level, "level")
    rows = rows_of(estimator, _table(X), y)
    if rows.n < 3:
        raise DataError(f"{rows.n} rows are too few to resample", remedy="pass at least 3 rows")
    two_classes(rows)
    place = _class_place(rows, label)
    table, x = _grid(rows.X, grid)
    first, rest = seed_sequence(random_state).spawn(2)
    model, estimate = fit_whole(estimator, rows, first, lambda full: _response(full, table, rows, place))
    residuals = None if resample == "pairs" else _residuals(model, rows)
    weighted = _weighted(estimator, weights) and residuals is None

    def task(rng: np.random.Generator, seed: int) -> Array:
        learner = reseeded(estimator, seed)
        if residuals is not None:
            fresh = replace(rows, y=rows.y - residuals + rng.choice(residuals - residuals.mean(), rows.n))
            return _response(fit_rows(learner, fresh), table, rows, place)
        drawn = bootstrap_rows(rng, rows)
        if weighted:
            kept, times = np.unique(drawn, return_counts=True)
            many = np.zeros(rows.n)
            many[kept] = times
            return _response(fit_rows(learner, replace(rows, weights=many), kept), table, rows, place)
        return _response(fit_rows(learner, rows, drawn), table, rows, place)

    called = label_of(estimator)
    curves = np.stack(list(refit_many(task, n_resamples, name=called, label="resample", seeds=rest, n_jobs=n_jobs)))
    error = curves.std(axis=0, ddof=1)
    critical = _sup_t(estimate, error, curves, level)
    x_name = str(rows.X.columns[0]) if hasattr(rows.X, "columns") and x is not None else "x"
    y_name = "prediction" if rows.classes is None else f"probability of {rows.classes[place]}"
    bounds = (-np.inf, np.inf) if rows.classes is None else (0.0, 1.0)
    lower, upper = _pointwise(estimate, error, curves, level, method, bounds)
    band_lower, band_upper = _simultaneous(estimate, error, critical, bounds)
    return BootstrapBand(
        called,
        table,
        freeze(estimate),
        freeze(error),
        freeze(lower),
        freeze(upper),
        freeze(band_lower),
        freeze(band_upper),
        critical,
        freeze(curves),
        level,
        method,
        resample,
        rows.n,
        x,
        x_name,
        y_name,
        bounds,
        None if x is None else _points(rows, place),
    )


def _table(X: Any) -> Any:
    """One column may come as a plain list of numbers."""
    if isinstance(X, pd.Series):
        return X.to_frame()
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1):
        X = np.asarray(X)
        return X[:, None] if X.ndim == 1 else X
    return X


def _grid(X: Any, grid: Any) -> tuple[Any, Array | None]:
    """The grid as rows like those of X, and as numbers where X has one column of them."""
    single = len(X.shape) == 2 and X.shape[1] == 1 and not hasattr(X, "toarray")
    column = None
    if single:
        raw = np.asarray(X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0])
        column = raw.astype(float) if raw.dtype.kind in "biuf" else None
    if grid is None:
        if column is None:
            raise ParameterError(
                "X has several columns, so there is no default grid", remedy="pass rows like those of X"
            )
        grid = np.linspace(column.min(), column.max(), 100)
    if column is not None and not hasattr(grid, "iloc") and np.ndim(grid) <= 1:
        x = np.atleast_1d(np.asarray(grid, dtype=float))
        grid = pd.DataFrame({X.columns[0]: x}) if hasattr(X, "iloc") else x[:, None]
    elif isinstance(grid, list | tuple):
        grid = np.asarray(grid)
    if len(grid.shape) != 2 or grid.shape[1] != X.shape[1] or grid.shape[0] == 0:
        message = f"the grid has shape {grid.shape}, but X has {X.shape[1]} columns"
        raise DataError(message, remedy="pass at least one row with the columns of X")
    if column is None:
        return grid, None
    return grid, np.asarray(grid.iloc[:, 0] if hasattr(grid, "iloc") else grid[:, 0], dtype=float)


def _class_place(rows: Rows, label: Any) -> int:
    """Which class's probability is drawn."""
    if rows.classes is None:
        if label is not None:
            raise ParameterError("label is for classifiers only", remedy="leave it out")
        return 0
    known = rows.classes.tolist()
    if label is None and len(known) > 2:
        raise ParameterError(f"there are {len(known)} classes", remedy=f"pass label, one of {known}")
    if label is not None and label not in known:
        raise ParameterError(f"label = {label!r} is not a class", remedy=f"choose one of {known}")
    return len(known) - 1 if label is None else known.index(label)


def _response(model: Any, grid: Any, rows: Rows, place: int) -> Array:
    """The predicted number, or the probability of one class, at each row of the grid."""
    if rows.classes is None:
        found = np.asarray(model.predict(grid), dtype=float).reshape(-1)
    else:
        shares = predictions(model, grid, find("log_loss"), rows.classes)
        shares = np.column_stack([1 - shares, shares]) if shares.ndim == 1 else shares
        found = shares[:, place]
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise DataError(
            f"a refit predicts a non-finite number at grid row {row}", remedy="keep the grid inside the data"
        )
    return found


def _residuals(model: Any, rows: Rows) -> Array:
    if rows.classes is not None:
        raise ParameterError("classifiers have no residuals", remedy='use resample="pairs"')
    return np.asarray(rows.y - np.asarray(model.predict(rows.X), dtype=float).reshape(-1))


def _weighted(estimator: Any, weights: bool | None) -> bool:
    """Whether a resample is made by weights. A pipeline is not: its earlier steps would not see them."""
    takes = not hasattr(estimator, "steps") and has_fit_parameter(estimator, "sample_weight")
    if weights and not takes:
        raise DataTypeError(f"{label_of(estimator)} does not support sample_weight", remedy="leave weights out")
    return takes if weights is None else bool(weights)


def _pointwise(
    estimate: Array, error: Array, curves: Array, level: float, method: str, bounds: tuple[float, float]
) -> tuple[Array, Array]:
    if method == "normal":
        reach = float(special.ndtri(0.5 + 0.5 * level)) * error
        low, high = estimate - reach, estimate + reach
    else:
        low, high = np.quantile(curves, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        if method == "basic":
            low, high = 2 * estimate - high, 2 * estimate - low
    return np.maximum(low, bounds[0]), np.minimum(high, bounds[1])


def _simultaneous(estimate: Array, error: Array, critical: float, bounds: tuple[float, float]) -> tuple[Array, Array]:
    reach = critical * error
    return np.maximum(estimate - reach, bounds[0]), np.minimum(estimate + reach, bounds[1])


def _sup_t(estimate: Array, error: Array, curves: Array, level: float) -> float:
    """The quantile of the largest deviation, in standard errors; rows where nothing moves do not count."""
    moves = error > 1e-12 * float(np.abs(curves).max())
    if not moves.any():
        return 0.0
    most = np.abs((curves[:, moves] - estimate[moves]) / error[moves]).max(axis=1)
    return float(np.quantile(most, level))


def _points(rows: Rows, place: int) -> tuple[Array, Array]:
    """The data to show behind the curve."""
    x = np.asarray(rows.X.iloc[:, 0] if hasattr(rows.X, "iloc") else rows.X[:, 0], dtype=float)
    return x, rows.y if rows.classes is None else (rows.y == rows.classes[place]).astype(float)
