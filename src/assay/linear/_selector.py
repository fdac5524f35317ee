"""What best subset, stepwise and stagewise share: one standardised problem, one way from a family to a model.

A search sees a `SubsetProblem`: columns and y centred (with an intercept) and brought to unit length, as Gram rows and
products with y. It gives back a family of models; the criterion chooses one; the one chosen is refitted to the rows by
orthogonal factorisation, so that its coefficients owe nothing to the Gram matrix. Powers of two keep columns
of extreme scale (1e150, 1e-150) from overflowing when squared, and change no digit.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, boolean, integer, jobs, none, real, seed
from assay.errors import CollinearityWarning
from assay.linear._model import LinearModel
from assay.linear._splicing import ActiveSet, independent
from assay.linear.criteria import (
    Models,
    Selection,
    criterion_constraint,
    cv_errors,
    form_constraint,
    full_model_variance,
    largest_size,
    rule_constraint,
    select,
    validation_errors,
    warn_of_light_weights,
)
from assay.numerics.jit import kernel
from assay.numerics.moments import Moments, about_zero, summarize
from assay.numerics.threads import one_blas_thread
from assay.resampling import folds_constraint
from assay.results import Curve, Summary
from assay.state import Specs, bools, facts, floats, names

__all__ = ["Family", "Selector", "SubsetProblem", "selector_constraints"]

Array = np.ndarray
SelectorRows = tuple[Array, Array, Array | None]

selector_constraints: dict[str, Constraint] = {
    "criterion": criterion_constraint,
    "form": form_constraint,
    "max_size": none | integer(0),
    "rule": rule_constraint,
    "cv": folds_constraint,
    "validation_fraction": real(0, 1, open_low=True, open_high=True),
    "random_state": seed,
    "fit_intercept": boolean,
    "n_jobs": jobs,
}


MOST_NAMED = 300
"""With more columns than this the look for collinear ones would cost more than the search."""


@kernel
def _centre(X: Any, y: Any, w: Any, mean: Any, my: Any, Z: Any, squares: Any, xy: Any) -> Any:
    """Rows less their mean times the root of their weight, with the squared lengths and the products with y."""
    squares[:] = 0.0
    xy[:] = 0.0
    for i in range(X.shape[0]):
        root = np.sqrt(w[i])
        target = root * (y[i] - my)
        for j in range(X.shape[1]):
            z = root * (X[i, j] - mean[j])
            Z[i, j] = z
            squares[j] += z * z
            xy[j] += z * target


@dataclass(eq=False)
class SubsetProblem:
    """Unit columns and a unit y: `c` their products, Gram rows on demand, and the way back to the data's scale."""

    n: float
    rows: int
    c: Array
    scale: Array
    mx: Array
    my: float
    tss: float
    intercept: bool
    sigma2: float
    gram: Array | None = None
    Z: Array | None = None

    @classmethod
    def from_moments(cls, m: Moments, intercept: bool) -> SubsetProblem:
        """From centred moments, for n >= p."""
        if not intercept:
            m = about_zero(m)
        scale, inverse = _lengths(np.diag(m.xx).copy(), m.mx, m.weight)
        tss = _total(float(m.yy[0]), float(m.my[0]), m.weight)
        c = m.xy[:, 0] * inverse / (np.sqrt(tss) or 1.0)
        gram = np.ascontiguousarray(m.xx * inverse * inverse[:, None])
        sigma2 = full_model_variance(m, intercept)
        return cls(m.weight, m.n, c, scale, m.mx, float(m.my[0]), tss, intercept, sigma2, gram=gram)

    @classmethod
    def from_rows(cls, data: SelectorRows, intercept: bool) -> SubsetProblem:
        """From the rows themselves, for p > n: no p x p matrix is formed."""
        X, y, w = np.ascontiguousarray(data[0]), data[1], data[2]
        weights = np.ones(len(y)) if w is None else w
        n, p = X.shape
        total = float(weights.sum())
        mean, my = (weights @ X / total, float(weights @ y / total)) if intercept else (np.zeros(p), 0.0)
        Z, squares, xy = np.empty((n, p)), np.empty(p), np.empty(p)
        _centre(X, y, weights, mean, my, Z, squares, xy)
        scale, inverse = _lengths(squares, mean, total)
        tss = _total(float(weights @ (y - my) ** 2), my, total)
        c = xy * inverse / (np.sqrt(tss) or 1.0)
        return cls(total, n, c, scale, mean, my, tss, intercept, float("nan"), Z=Z)

    def gram_rows(self, columns: Array) -> Array:
        """The rows of the Gram matrix that belong to the given columns."""
        if self.gram is not None:
            return self.gram[columns]
        assert self.Z is not None
        inverse = np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0)
        return (self.Z[:, columns].T @ self.Z) * inverse[columns][:, None] * inverse

    def active(self, most: int) -> ActiveSet:
        """An empty active set for up to `most` columns; constant columns can never enter."""
        return ActiveSet(self.c, self.gram_rows, most, self.gram, (self.scale > 0).astype(np.float64))

    def solve(self, columns: Array) -> tuple[Array, float]:
        """Least squares on some columns: unit-scale coefficients and RSS as a share of the total."""
        if not columns.size:
            return np.zeros(0), 1.0
        b = np.linalg.solve(self._block(columns), self.c[columns])
        return b, max(float(1.0 - self.c[columns] @ b), 0.0)

    def _block(self, columns: Array) -> Array:
        if self.gram is not None:
            return self.gram[np.ix_(columns, columns)]
        assert self.Z is not None
        part = self.Z[:, columns] / self.scale[columns]
        return part.T @ part

    def unscale(self, unit: Array) -> tuple[Array, Array]:
        """Unit-scale coefficients (one row per model) in the data's units, and their intercepts."""
        inverse = np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0)
        coef = unit * (inverse * np.sqrt(self.tss))
        return coef, self.my - coef @ self.mx


def _lengths(squares: Array, mean: Array, weight: float) -> tuple[Array, Array]:
    """Column lengths (zero for columns that vary by rounding only) and their inverses."""
    squares = np.where(squares <= weight * (16 * np.finfo(float).eps * mean) ** 2, 0.0, squares)
    scale = np.sqrt(squares)
    return scale, np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)


def _total(yy: float, my: float, weight: float) -> float:
    return 0.0 if yy <= weight * (16 * np.finfo(float).eps * my) ** 2 else yy


@dataclass(eq=False)
class Family:
    """The models a search found, simplest first: the columns of each, and coefficients unless least squares."""

    sets: Sequence[Array]
    unit: Array | None = None
    rss: Array | None = None
    proven: Array | None = None
    bound: Array | None = None
    n_nodes: int = 1

    @classmethod
    def empty(cls) -> Family:
        """The model without variables alone, where there are too few rows or too little in y for more."""
        return cls([np.zeros(0, np.int64)])

    def coefficients(self, problem: SubsetProblem) -> Array:
        """One row of unit-scale coefficients per model."""
        if self.unit is not None:
            return self.unit
        unit = np.zeros((len(self.sets), len(problem.c)))
        for k, columns in enumerate(self.sets):
            unit[k, columns] = problem.solve(columns)[0]
        return unit


@dataclass(eq=False)
class _Sample:
    """The validated training data: powers of two taken out of columns and target."""

    X: Array
    y: Array
    w: Array | None
    column_unit: Array | float
    target_unit: float

    @property
    def positive(self) -> int:
        return len(self.y) if self.w is None else int(np.count_nonzero(self.w))

    @property
    def count(self) -> float:
        """How many rows there are for the limits on size: the total weight, and no fewer than the rows that count."""
        return float(len(self.y)) if self.w is None else max(float(self.w.sum()), float(self.positive))


class Selector(LinearModel):
    """A linear model that uses some of the columns, chosen by a search and a criterion."""

    state: ClassVar[Specs] = {
        "coef_": floats("p"),
        "intercept_": real(),
        "support_": bools("p"),
        "selected_": names(None),
        **facts("table_", "criterion_curve_", "_chosen"),
    }

    constraints: ClassVar[dict[str, Constraint]] = selector_constraints
    curve_over: ClassVar[str] = "size"

    coef_: Array
    intercept_: float
    support_: Array
    table_: pd.DataFrame
    criterion_curve_: Curve

    def _search(self, problem: SubsetProblem, most: int, like: Family | None = None) -> Family:
        """The family of models on one training set; in a fold, `like` is the family of all rows."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[_Sample, SubsetProblem, Family, Selection]:
        X, y = self._validate(X, y, order="C")
        w = self._weights(sample_weight, len(y))
        warn_of_light_weights(w)
        sample = _tame(X, np.ascontiguousarray(y, dtype=np.float64), w)
        p = X.shape[1]
        from_moments = sample.positive >= p
        data = (sample.X, sample.y, sample.w)
        train = summarize(*data) if from_moments else data
        with one_blas_thread():  # many small products from here on: waking threads for each costs more than it gains
            problem = self._problem(train)
            self._name_collinear(problem)
            most = self._most(sample.count, p)
            family = self._search(problem, most if problem.tss > 0 else 0)
            errors = self._errors(sample, family, most, from_moments)
            choice = self._choose(problem, family, errors, sample.target_unit)
            self._chosen = choice.index
            self._settle(sample, problem, family, choice.index)
        return sample, problem, family, choice

    def _name_collinear(self, problem: SubsetProblem) -> None:
        """Say which columns the search will never use beside those that they repeat."""
        if problem.gram is None or not len(problem.c) < min(problem.rows, MOST_NAMED):
            return
        lost = np.setdiff1d(np.flatnonzero(problem.scale > 0), independent(problem.gram))
        if lost.size:
            names = ", ".join(repr(self._feature_names()[j]) for j in lost[:5]) + (", ..." if lost.size > 5 else "")
            warnings.warn(
                f"columns {names} are determined by other columns up to 1e-9 of their variance, so no model includes "
                "them together with those; drop columns, or use differences of near-copies",
                CollinearityWarning,
                stacklevel=4,
            )

    def _problem(self, train: Moments | SelectorRows) -> SubsetProblem:
        if isinstance(train, Moments):
            return SubsetProblem.from_moments(train, self.fit_intercept)
        return SubsetProblem.from_rows(train, self.fit_intercept)

    def _most(self, n: float, p: int) -> int:
        return largest_size(n, p, self.fit_intercept, getattr(self, "max_size", None))

    def _errors(self, sample: _Sample, family: Family, most: int, from_moments: bool) -> tuple[Array, Array] | None:
        def fit(train: Any) -> tuple[Array, Array]:
            problem = self._problem(train)
            if problem.tss == 0:
                return problem.unscale(np.zeros((1, len(problem.c))))
            limit = max(problem.n, problem.rows) - 1 - self.fit_intercept
            found = self._search(problem, int(max(0, min(most, limit))), family)
            return problem.unscale(found.coefficients(problem))

        options: dict[str, Any] = {"count": len(family.sets), "from_moments": from_moments}
        if self.criterion == "cv":
            mean, error = cv_errors(sample.X, sample.y, sample.w, self.cv, fit, n_jobs=self.n_jobs, **options)
        elif self.criterion == "validation":
            mean, error = validation_errors(
                sample.X, sample.y, sample.w, fit, fraction=self.validation_fraction, random_state=self.random_state,
                **options,
            )  # fmt: skip
        else:
            return None
        return mean * sample.target_unit**2, error * sample.target_unit**2

    def _choose(
        self, problem: SubsetProblem, family: Family, errors: tuple[Array, Array] | None, unit: float
    ) -> Selection:
        names = np.array(self._feature_names(), dtype=object)
        share = family.rss if family.rss is not None else np.array([problem.solve(s)[1] for s in family.sets])
        models = Models(
            sizes=np.array([len(s) for s in family.sets]),
            rss=share * problem.tss * unit**2,
            variables=[tuple(names[np.sort(s)]) for s in family.sets],
            n=problem.n,
            tss=problem.tss * unit**2,
            intercept=self.fit_intercept,
            sigma2=problem.sigma2 * unit**2,
        )
        x = None if self.curve_over == "size" else self._positions(family)
        choice = select(
            models, self.criterion, form=self.form, rule=self.rule, errors=errors, x=x, x_name=self.curve_over
        )
        self.table_, self.criterion_curve_ = choice.table, choice.curve
        return choice

    def _positions(self, family: Family) -> Array:
        return np.arange(len(family.sets))

    def _settle(self, sample: _Sample, problem: SubsetProblem, family: Family, index: int) -> None:
        """Coefficients of the chosen model, from the rows unless the search itself gives them."""
        p = sample.X.shape[1]
        if family.unit is not None:
            coefs, intercepts = problem.unscale(family.unit[index : index + 1])
            coef, intercept = coefs[0], float(intercepts[0])
        else:
            coef = np.zeros(p)
            columns = np.sort(family.sets[index])
            coef[columns], intercept = _least_squares(sample, columns, self.fit_intercept)
        self.coef_ = self._in_units(coef, sample)
        self.intercept_ = float(intercept * sample.target_unit)
        self.support_ = np.zeros(p, dtype=bool)
        self.support_[family.sets[index]] = True
        self.selected_ = np.array(self._feature_names(), dtype=object)[self.support_]

    def _in_units(self, coef: Array, sample: _Sample) -> Array:
        """Coefficients (last axis over columns) in the units of the data."""
        with np.errstate(over="ignore"):
            whole = coef * sample.target_unit / sample.column_unit
        self._refuse_overflow(whole.T)
        return whole

    def get_support(self, indices: bool = False) -> Array:
        """The mask of the chosen columns, or their positions."""
        check_is_fitted(self)
        return np.flatnonzero(self.support_) if indices else self.support_

    def summary(self) -> Summary:
        """The chosen model in print. It has no p-values: after a search through the same rows they would not hold."""
        check_is_fitted(self)
        chosen: Any = self.table_.loc[self._chosen]
        index = [*(["intercept"] if self.fit_intercept else []), *self.selected_]
        values = [*([self.intercept_] if self.fit_intercept else []), *self.coef_[self.support_]]
        facts = {
            "variables": f"{int(self.support_.sum())} of {self.n_features_in_}",
            "criterion": self.criterion_curve_.y_name,
            "criterion value": float(self.criterion_curve_.estimate[self._chosen]),
            "RSS": float(chosen["rss"]),
            "R2": float(chosen["r2"]),
            "adjusted R2": float(chosen["adjusted_r2"]),
        }
        notes = (
            "No standard errors or p-values: these rows chose the variables, so the usual ones would be too small.",
            "For honest inference refit the chosen variables with LinearRegression on rows not used here.",
        )
        table = pd.DataFrame({"estimate": values}, index=index)
        return Summary(f"{type(self).__name__}: the model chosen by {self.criterion}", table, facts, notes)


def _tame(X: Array, y: Array, w: Array | None) -> _Sample:
    """Take powers of two out of columns and target whose squares would overflow or vanish."""
    low, high = 1e-60, 1e60

    def extreme(top: Array) -> Array:
        return (top > high) | ((top < low) & (top > 0))

    tops = np.maximum(X.max(axis=0), -X.min(axis=0))
    unit: Array | float = 1.0
    if extreme(tops).any():
        unit = np.where(extreme(tops), np.exp2(np.floor(np.log2(np.where(tops > 0, tops, 1.0)))), 1.0)
        X = X / unit
    top = float(np.abs(y).max())
    target = float(np.exp2(np.floor(np.log2(top)))) if extreme(np.array(top)) else 1.0
    return _Sample(X, y / target if target != 1.0 else y, w, unit, target)


def _least_squares(sample: _Sample, columns: Array, intercept: bool) -> tuple[Array, float]:
    """Weighted least squares on some columns of the rows, by orthogonal factorisation of unit columns."""
    A, y = sample.X[:, columns], sample.y
    my = float(np.average(y, weights=sample.w)) if intercept else 0.0
    if not columns.size:
        return np.zeros(0), my
    mx = np.average(A, axis=0, weights=sample.w) if intercept else np.zeros(columns.size)
    A, y = A - mx, y - my
    if sample.w is not None:
        root = np.sqrt(sample.w)
        A, y = A * root[:, None], y * root
    length = np.sqrt((A**2).sum(axis=0))
    Q, R = np.linalg.qr(A / length)
    b = solve_triangular(R, Q.T @ y, check_finite=False) / length
    return b, float(my - mx @ b)
