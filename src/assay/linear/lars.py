"""Least angle regression and the exact lasso path: every knot, and straight lines between them.

    LAR      start at zero and move the coefficients of the active columns so that their covariances with the
             residual, |x_j'r| / n = alpha, fall together; a column joins when its own reaches alpha
    lasso    the same, and a column whose coefficient comes back to zero leaves: then the knots are the solutions of
             min (1/2n) |y - b0 - X b|^2 + alpha |b|_1   at which the set of non-zero coefficients changes

alpha is on the scale of `Lasso(alpha=)`. Columns are centred (with an intercept) and not standardised,
so scale them first where their units differ, for instance with sklearn.preprocessing.StandardScaler. Cost: with
n >= p one cross-product of the data, then k^2 + k p per knot; with p > n one product of X with a vector per knot.
Efron, Hastie, Johnstone and Tibshirani (2004), Ann. Statist. 32, 407-499.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import solve_triangular

from assay.base import boolean, integer, jobs, none, one_of, real, seed
from assay.checks import name_columns
from assay.errors import CollinearityWarning, ConvergenceWarning, DataError, ParameterError
from assay.linear import criteria
from assay.linear._lars import ACTIVE, DONE, SIZE, follow
from assay.linear._model import LinearModel
from assay.numerics.moments import Moments, about_zero, summarize
from assay.resampling import folds_constraint
from assay.results import Path
from assay.state import Specs, Stateful, facts, floats, ints, part

__all__ = ["Lars"]

Array = np.ndarray

COLLINEAR = 1e-12
"""A column with less than this share of its squared length outside the span of the active ones counts as inside."""

TIE_BREAK = 1e-12
"""Relative size of the differences that order events which would otherwise coincide."""

CHUNK = 256
"""Knots per call of the kernel; between calls the interpreter can be interrupted."""


@dataclass(frozen=True, eq=False)
class LarsProblem:
    """The data in coordinates of unit length: Gram matrix or rows, correlations, and the way back.

    A column of the data is `unit` times the column whose length is `scale`: see `_tame`.
    """

    gram: Array
    rows: Array
    target: Array
    q: Array
    scale: Array
    y_scale: float
    weight: float
    n: int
    mx: Array
    my: float
    intercept: bool
    unit: Array | float = 1.0
    y_unit: float = 1.0


@dataclass(frozen=True, eq=False)
class Knots(Stateful):
    """The path in the data's own units (`rss` without y_unit): one row of `coef` per knot, alphas falling."""

    alphas: Array
    coef: Array
    intercepts: Array
    rss: Array
    active: Array
    aliased: Array
    finished: bool

    state: ClassVar[Specs] = {
        "alphas": floats("n"),
        "coef": floats("n", "p"),
        "intercepts": floats("n"),
        "rss": floats("n", finite=False),
        "active": ints(None, below="p"),
        "aliased": ints(None, below="p"),
    }

    def first(self, count: int) -> Knots:
        """The first few knots alone."""
        return replace(
            self,
            alphas=self.alphas[:count],
            coef=self.coef[:count],
            intercepts=self.intercepts[:count],
            rss=self.rss[:count],
        )

    def at(self, alpha: Array) -> tuple[Array, Array]:
        """Coefficients (one row per alpha) and intercepts by straight lines between knots."""
        where = np.clip(np.asarray(alpha, dtype=np.float64), self.alphas[-1], self.alphas[0])
        if self.alphas.size == 1:
            return np.repeat(self.coef, where.size, axis=0), np.repeat(self.intercepts, where.size)
        right = np.clip(np.searchsorted(-self.alphas, -where), 1, self.alphas.size - 1)
        high, low = self.alphas[right - 1], self.alphas[right]
        share = (high - where) / (high - low)
        coef = (1 - share)[:, None] * self.coef[right - 1] + share[:, None] * self.coef[right]
        return coef, (1 - share) * self.intercepts[right - 1] + share * self.intercepts[right]


class Lars(LinearModel):
    r"""Least angle regression, and the exact lasso path by its modification.

    $\min_b \frac{1}{2n}\|y - b_0 - Xb\|^2 + \alpha\|b\|_1$ at every alpha for `method="lasso"`: the path is piecewise
    linear and all its knots are kept. Without a criterion the coefficients are those at the end of the path: least
    squares when n > p, or the model of `n_nonzero_coefs` columns.

    | parameter           | default      | range                   | meaning                                           |
    |---------------------|--------------|-------------------------|---------------------------------------------------|
    | method              | "lar"        | lar, lasso              | plain least angle, or with columns leaving        |
    | n_nonzero_coefs     | None         | None, 1, 2, ...         | active columns at most; None: all that can be     |
    | criterion           | None         | None, cp, aic, bic, ... | chooses a knot, see below; None: the last         |
    | form                | "likelihood" | likelihood, sigma       | which AIC and BIC, see `assay.linear.criteria`    |
    | rule                | "min"        | min, 1se                | best knot, or the first within one standard error |
    | cv                  | 10           | 2, 3, ... or a splitter | folds of criterion="cv"                           |
    | validation_fraction | 0.2          | in (0, 1)               | rows held out by criterion="validation"           |
    | fit_intercept       | True         | True, False             | centre the columns, or force f(0) = 0             |
    | max_iter            | None         | None, 1, 2, ...         | events at most; None: 100 + 10 min(n, p)          |
    | random_state        | None         | None, int, generator    | draws the held-out rows                           |
    | n_jobs              | None         | None or non-zero        | threads over folds; never changes the result      |

    Criteria: cp, aic, bic, adjusted_r2, cv, validation (`rule` is for the last two). With p >= n - 1 they choose among
    models of at most n / log n columns, or `n_nonzero_coefs`. A knot has as many degrees of freedom as non-zero
    coefficients: exact in expectation for the lasso, and for LAR on orthonormal columns. Columns that tie (counts,
    dummies) are told apart by penalties that differ in the twelfth digit, and the path is exact to that digit.

    Attributes: `path_` (`Path`, over alpha), `alphas_` (falling), `active_` (columns in the order they joined),
    `coef_`, `intercept_`, `alpha_` (of the chosen knot), `n_iter_`; with a criterion `table_` and `criterion_curve_`.

    Efron, Hastie, Johnstone and Tibshirani (2004), Ann. Statist. 32, 407-499.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Lars(criterion="bic").fit(X, y)
    >>> model.active_, model.coef_.nonzero()[0]
    (array([2, 8, 3, 6, 1, 9, 4, 7, 5, 0]), array([1, 2, 3, 4, 6, 8, 9]))
    """

    state: ClassVar[Specs] = {
        "coef_": floats("p"),
        "intercept_": real(),
        "_knots": part(Knots, "p"),
        "n_iter_": integer(1),
        **facts("alphas_", "active_", "alpha_", "path_", "table_", "criterion_curve_"),
    }

    constraints = {
        "method": one_of("lar", "lasso"),
        "n_nonzero_coefs": none | integer(1),
        "criterion": none | criteria.criterion_constraint,
        "form": criteria.form_constraint,
        "rule": criteria.rule_constraint,
        "cv": folds_constraint,
        "validation_fraction": real(0, 1, open_low=True, open_high=True),
        "fit_intercept": boolean,
        "max_iter": none | integer(1),
        "random_state": seed,
        "n_jobs": jobs,
    }

    def __init__(
        self,
        *,
        method: str = "lar",
        n_nonzero_coefs: int | None = None,
        criterion: str | None = None,
        form: str = "likelihood",
        rule: str = "min",
        cv: Any = 10,
        validation_fraction: float = 0.2,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.n_nonzero_coefs = n_nonzero_coefs
        self.criterion = criterion
        self.form = form
        self.rule = rule
        self.cv = cv
        self.validation_fraction = validation_fraction
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Follow the path to its end and choose a knot."""
        X, y = self._validate(X, y, min_samples=2 if self.criterion in ("cv", "validation") else 1)
        y = np.asarray(y, dtype=np.float64)
        w = self._weights(sample_weight, len(y))
        X, unit = _tame(X)
        Y, y_unit = _tame(y[:, None])
        counted = slice(None) if w is None or w.all() else w > 0
        problem = prepare(
            X[counted], Y[counted, 0], None if w is None else w[counted], intercept=bool(self.fit_intercept)
        )
        problem = replace(problem, unit=unit, y_unit=float(y_unit[0]))
        knots = self._follow(problem)
        self._say(problem, knots)
        self._knots = knots
        self.alphas_, self.active_ = knots.alphas, knots.active
        self.n_iter_ = max(1, knots.alphas.size - 1)
        at = knots.alphas.size - 1
        if self.criterion is not None:
            criteria.warn_of_light_weights(w, stacklevel=3)
            at = self._choose(X, Y[:, 0], w, problem, knots)
        self.coef_ = knots.coef[at].copy()
        self.intercept_ = float(knots.intercepts[at])
        self.alpha_ = float(knots.alphas[at])
        self.path_ = Path(
            x=knots.alphas,
            coefficients=knots.coef.T,
            intercepts=knots.intercepts,
            names=self._feature_names(),
            marks={} if self.criterion is None else {self.criterion: self.alpha_},
            title="Least angle regression path" if self.method == "lar" else "Lasso path by least angles",
        )
        return self

    def coef_at(self, alpha: Any) -> Array:
        """Coefficients at any alpha on the path: (p,) for a number, one row per alpha for an array."""
        return self._at(alpha)[0]

    def intercept_at(self, alpha: Any) -> Any:
        """Intercept at any alpha on the path: a number, or one per alpha."""
        return self._at(alpha)[1]

    def _at(self, alpha: Any) -> tuple[Array, Any]:
        alphas = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        low = self.alphas_[-1]
        if not (alphas >= low * (1 - 1e-12)).all():
            raise ParameterError(
                f"alpha = {alphas.min():g} lies beyond the end of the path at {low:g}",
                remedy="ask for a larger alpha, or fit with a larger n_nonzero_coefs or max_iter",
            )
        coef, intercept = self._knots.at(alphas)
        return (coef[0], float(intercept[0])) if np.ndim(alpha) == 0 else (coef, intercept)

    def _follow(self, problem: LarsProblem) -> Knots:
        limit = self.n_nonzero_coefs
        knots = follow_path(problem, self.method == "lasso", limit, self.max_iter)
        self._refuse_overflow(knots.coef.T)
        if not (np.isfinite(knots.alphas).all() and np.isfinite(knots.intercepts).all()):
            raise DataError("the path overflows", remedy="rescale the columns of X and y")
        return knots

    def _say(self, problem: LarsProblem, knots: Knots) -> None:
        """Warn of columns that were passed over and of a path cut short."""
        names = self._feature_names()
        constant = np.flatnonzero(problem.scale == 0) if problem.n > 1 else np.arange(0)
        for what, columns in (("constant", constant), ("determined by active columns", knots.aliased)):
            if columns.size:
                verb, keep, them = ("is", "keeps", "it") if columns.size == 1 else ("are", "keep", "them")
                listed = name_columns([names[j] for j in columns])
                warnings.warn(
                    f"{listed} {verb} {what} and {keep} a coefficient of 0; drop {them} to silence this",
                    CollinearityWarning,
                    stacklevel=3,
                )
        if not knots.finished:
            warnings.warn(
                f"the path stopped at alpha = {knots.alphas[-1]:g}; raise max_iter to compute the rest",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _choose(self, X: Array, y: Array, w: Array | None, problem: LarsProblem, knots: Knots) -> int:
        """The knot that the criterion likes best, among those of models that the rows can carry."""
        most = criteria.largest_size(problem.weight, X.shape[1], problem.intercept, self.n_nonzero_coefs)
        over = np.flatnonzero((knots.coef != 0).sum(axis=1) > most)
        if over.size:
            knots = knots.first(max(1, int(over[0])))
        names = np.array(self._feature_names(), dtype=object)
        chosen = knots.coef != 0
        models = criteria.Models(
            sizes=chosen.sum(axis=1),
            rss=knots.rss,
            variables=[tuple(names[row]) for row in chosen],
            n=problem.weight,
            tss=problem.y_scale**2,
            intercept=problem.intercept,
            sigma2=_full_variance(X, y, w, problem),
        )
        selection = criteria.select(
            models, str(self.criterion), form=self.form, rule=self.rule, errors=self._errors(X, y, w, problem, knots)
        )
        self.table_ = selection.table
        self.table_.insert(0, "alpha", knots.alphas)
        self.criterion_curve_ = selection.curve
        return selection.index

    def _errors(
        self, X: Array, y: Array, w: Array | None, problem: LarsProblem, knots: Knots
    ) -> tuple[Array, Array] | None:
        """Out-of-sample errors of the path at the knots of all rows, for the criteria that need them."""
        intercept, unit, y_unit = problem.intercept, problem.unit, problem.y_unit
        from_moments = len(X) >= X.shape[1]

        def search(train: Any) -> tuple[Array, Array]:
            part = (
                from_summary(train, intercept) if isinstance(train, Moments) else prepare(*train, intercept=intercept)
            )
            coef, intercepts = self._follow(replace(part, unit=unit, y_unit=y_unit)).at(knots.alphas)
            return coef * unit / y_unit, intercepts / y_unit

        count = knots.alphas.size
        if self.criterion == "cv":
            return criteria.cv_errors(
                X, y, w, self.cv, search, count=count, from_moments=from_moments, n_jobs=self.n_jobs
            )
        if self.criterion == "validation":
            return criteria.validation_errors(
                X,
                y,
                w,
                search,
                count=count,
                fraction=self.validation_fraction,
                random_state=self.random_state,
                from_moments=from_moments,
            )
        return None


def prepare(X: Array, y: Array, w: Array | None, *, intercept: bool) -> LarsProblem:
    """The data in unit coordinates: from moments when n >= p, from the rows themselves when p > n."""
    return from_rows(X, y, w, intercept) if len(X) < X.shape[1] else from_summary(summarize(X, y, w), intercept)


def _tame(X: Array) -> tuple[Array, Array]:
    """X with columns whose squares would overflow or vanish divided by a power of two, which costs no digit."""
    low, high = X.min(axis=0, initial=0.0), X.max(axis=0, initial=0.0)
    largest = np.maximum(-low, high)
    extreme = (largest > 1e100) | ((largest < 1e-100) & (largest > 0))
    unit = np.ones(X.shape[1])
    if not extreme.any():
        return X, unit
    unit[extreme] = np.exp2(np.floor(np.log2(largest[extreme])))
    return X / unit, unit


def from_summary(moments: Moments, intercept: bool) -> LarsProblem:
    """Unit coordinates from the moments alone."""
    if not intercept:
        moments = about_zero(moments)
    scale = _lengths(np.diag(moments.xx), moments.mx, moments.weight)
    y_scale = float(_lengths(moments.yy, moments.my, moments.weight)[0])
    safe, y_safe = np.where(scale > 0, scale, 1.0), y_scale or 1.0
    return LarsProblem(
        gram=moments.xx / safe / safe[:, None],
        rows=np.empty((1, 1)),
        target=np.empty(1),
        q=np.where(scale > 0, moments.xy[:, 0] / safe / y_safe, 0.0) if y_scale else np.zeros(safe.size),
        scale=scale,
        y_scale=y_scale,
        weight=moments.weight,
        n=moments.n,
        mx=moments.mx,
        my=float(moments.my[0]),
        intercept=intercept,
    )


def from_rows(X: Array, y: Array, w: Array | None, intercept: bool) -> LarsProblem:
    """Unit coordinates of the rows, one contiguous row of `rows` per column of X."""
    weight = float(len(y)) if w is None else float(w.sum())
    mx, my = (np.average(X, axis=0, weights=w), np.average(y, weights=w)) if intercept else (np.zeros(X.shape[1]), 0.0)
    Z = np.empty(X.shape[::-1])
    np.subtract(X.T, mx[:, None], out=Z)
    t = y - my
    if w is not None:
        Z *= np.sqrt(w)
        t = t * np.sqrt(w)
    scale = _lengths(np.einsum("ji,ji->j", Z, Z), mx, weight)
    y_scale = float(_lengths(np.array([t @ t]), np.array([my]), weight)[0])
    Z /= np.where(scale > 0, scale, 1.0)[:, None]
    t /= y_scale or 1.0
    return LarsProblem(
        gram=np.empty((1, 1)),
        rows=Z,
        target=t,
        q=np.where(scale > 0, Z @ t, 0.0) if y_scale else np.zeros(scale.size),
        scale=scale,
        y_scale=y_scale,
        weight=weight,
        n=len(y),
        mx=mx,
        my=float(my),
        intercept=intercept,
    )


def _lengths(squares: Array, mean: Array, weight: float) -> Array:
    """Lengths of centred columns; 0 where nothing but the rounding of their mean is left."""
    lengths = np.sqrt(squares)
    return np.where(lengths <= 16 * np.finfo(float).eps * np.abs(mean) * np.sqrt(weight), 0.0, lengths)


def follow_path(problem: LarsProblem, lasso: bool, limit: int | None, max_iter: int | None) -> Knots:
    """All knots of the path, in the units of the data."""
    p, on_rows = problem.q.size, problem.rows.size > 1
    usable = problem.scale > 0
    rank = int(min(usable.sum(), problem.n - problem.intercept))
    # The middle of the range of scales keeps the penalty's weights far from overflow on both sides.
    lengths = problem.scale * problem.unit
    middle = float(np.sqrt(lengths[usable].max()) * np.sqrt(lengths[usable].min())) if usable.any() else 1.0
    v = middle / np.where(usable, lengths, middle)
    # Columns of counts and dummies tie exactly, and which of them may then join together is a puzzle of its own.
    # Weights that differ in the twelfth digit put the events in an order; the answer owes them no more than that digit.
    v *= 1.0 + TIE_BREAK * np.random.default_rng(0).random(p)
    most = max_iter if max_iter is not None else 100 + 10 * min(problem.n, p)
    status = np.where(usable, 0, -1).astype(np.int8)
    c, level = problem.q.copy(), np.array([np.max(np.abs(problem.q) / v, initial=0.0), 0.0])
    count = np.array([0, 0 if level[0] > 0 and rank > 0 else 1, 0, 0])
    size = max(rank, 1)
    state = (
        np.empty(size, dtype=np.int64), status, np.zeros(p), c, np.zeros((size, size)),
        np.zeros((2, size)), np.zeros((2, size)), np.zeros(size), np.zeros(p), problem.target.copy(),
        np.zeros(problem.target.size), np.zeros(problem.target.size, dtype=np.float32), level, count,
    )  # fmt: skip
    single = problem.rows.astype(np.float32)
    first = (np.array([level[0]]), np.zeros(1, dtype=np.int64), np.ones(1))
    pieces: list[tuple[Array, ...]] = [(*first, np.empty((1, 0), dtype=np.int64), np.empty((1, 0)))]
    while count[DONE] == 0:
        out = (
            np.empty(CHUNK), np.empty(CHUNK, dtype=np.int64), np.empty(CHUNK),
            np.empty((CHUNK, size), dtype=np.int64), np.empty((CHUNK, size)),
        )  # fmt: skip
        written = follow(
            lasso, on_rows, problem.gram, problem.rows, single, problem.target, problem.q, v, COLLINEAR, rank,
            min(limit or rank, rank), most, *state, *out,
        )  # fmt: skip
        pieces.append(tuple(part[:written] for part in out))
    active = state[0][: count[SIZE]].copy()
    # Once the residual is gone every column is spanned, and by no fault of its own.
    saturated = count[SIZE] >= rank or pieces[-1][2][-1] < 1e-12
    aliased = np.arange(0) if saturated else _spanned(problem, active, status, state[4])
    return _assemble(problem, pieces, middle, active, aliased, bool(count[DONE] == 1))


def _spanned(problem: LarsProblem, active: Array, status: Array, factor: Array) -> Array:
    """Columns outside the active set that the active ones span."""
    outside = np.flatnonzero((status >= 0) & (status != ACTIVE))
    if active.size == 0 or outside.size == 0:
        return np.arange(0)
    Z, k = problem.rows, active.size
    cross = Z[active] @ Z[outside].T if Z.size > 1 else problem.gram[np.ix_(active, outside)]
    inside = solve_triangular(factor[:k, :k], cross, trans="T")
    return outside[1.0 - np.einsum("ij,ij->j", inside, inside) <= COLLINEAR]


def _assemble(
    problem: LarsProblem, pieces: list[tuple[Array, ...]], middle: float, active: Array, aliased: Array, finished: bool
) -> Knots:
    """Knots in the units of the data; of several events at the same alpha the first one stays."""
    levels = np.concatenate([piece[0] for piece in pieces])
    rss = np.concatenate([piece[2] for piece in pieces])
    kept = np.append(True, levels[1:] < levels[:-1] * (1 - 10 * TIE_BREAK))
    knot = np.cumsum(kept) - 1
    coef = np.zeros((knot[-1] + 1, problem.q.size))
    at = 0
    for _, sizes, _, index, value in pieces:
        here = slice(at, at + sizes.size)
        filled = np.arange(index.shape[1]) < (sizes * kept[here])[:, None]
        row = np.broadcast_to(knot[here, None], filled.shape)
        coef[row[filled], index[filled]] = value[filled]
        for i in np.flatnonzero(~kept[here]):
            # A column that joined or left in one of the coinciding events stands at zero in all of them.
            used = np.zeros(problem.q.size, dtype=bool)
            used[index[i, : sizes[i]]] = value[i, : sizes[i]] != 0
            coef[knot[at + i], ~used] = 0.0
        at += sizes.size
    y_length = problem.y_scale * problem.y_unit
    with np.errstate(over="ignore", invalid="ignore"):
        coef *= y_length / (np.where(problem.scale > 0, problem.scale, 1.0) * problem.unit)
        alphas = levels[kept] * middle / problem.weight * y_length
        intercepts = problem.my * problem.y_unit - coef @ (problem.mx * problem.unit)
    return Knots(alphas, coef, intercepts, rss[kept] * problem.y_scale**2, active, aliased, finished)


def _full_variance(X: Array, y: Array, w: Array | None, problem: LarsProblem) -> float:
    """Residual variance of the model with all columns, where the rows leave one."""
    if len(y) < X.shape[1]:
        return float("nan")
    moments = summarize(X, y, w)
    return criteria.full_model_variance(moments if problem.intercept else about_zero(moments), problem.intercept)
