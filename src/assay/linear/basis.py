"""Basis expansions: new columns phi_j(x) that let any linear model follow a curve.

    polynomial   x^a z^b with a + b <= degree, or products of discrete orthogonal polynomials P_a(x) P_b(z),
    spline       B-splines by the Cox-de Boor recurrence, or natural cubic splines by their values at the knots,
    radial       exp(-||x - c_j||^2 / (2 s^2)) around centres c_j.

The orthogonal polynomials obey a recurrence b_k P_{k+1} = x P_k - sum_{j<=k} h_kj P_j, found once on the training
rows, which evaluates them anywhere, so high degrees stay well conditioned where powers lose all their digits. Cost:
one pass over the rows, a few operations per new cell. Every transform works row by row.
Gautschi (2004), Orthogonal Polynomials; de Boor (1978), A Practical Guide to Splines; Broomhead and Lowe (1988).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from math import comb, frexp
from typing import Any, ClassVar, Self

import numpy as np
from scipy.interpolate import BSpline, CubicSpline
from scipy.spatial.distance import cdist
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from assay.base import Estimator, array_like, boolean, integer, none, one_of, real, seed
from assay.errors import DataError, ParameterError
from assay.linear._basis import (
    farthest_rows,
    fill_splines,
    merged_knots,
    multiply_out,
    product_plan,
    quantile_knots,
    recurrence,
    typical_gap,
    unit_of,
)
from assay.state import Specs, floats, ints, left_out, need, several, size

__all__ = ["PolynomialBasis", "RadialBasis", "SplineBasis"]

FLOATS = [np.float64, np.float32]


class _Basis(TransformerMixin, Estimator):
    """What the expansions share: names of the new columns, and float32 that stays float32."""

    state: ClassVar[Specs] = {
        "n_output_features_": size("out"),
    }

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the new columns, made of the names of the old ones."""
        check_is_fitted(self)
        names = self._feature_names()
        if input_features is not None:
            given = [str(name) for name in input_features]
            if len(given) != len(names):
                what = f"input_features should have length equal to number of features ({len(names)})"
                raise DataError(f"{what}, got {len(given)}", remedy="pass one name per column")
            if hasattr(self, "feature_names_in_") and given != names:
                raise DataError("input_features is not equal to feature_names_in_", remedy="leave it out")
            names = given
        return np.array(self._new_names(names), dtype=object)

    def _new_names(self, names: list[str]) -> list[str]:
        """The names of the new columns; every basis has its own way."""
        raise NotImplementedError

    def _finite(self, out: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Refuse results that left the range of numbers, naming the column that took them there."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(out.sum(dtype=np.float64)) or np.isfinite(out).all():
                return out
        row = int(np.argmax(~np.isfinite(out).all(axis=1)))
        column = int(np.argmax(np.abs(X[row])))
        raise DataError(
            f"column {self._feature_names()[column]!r} is too large to expand in row {row} ({X[row, column]:g})",
            remedy="scale it first, for instance with sklearn.preprocessing.StandardScaler",
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class PolynomialBasis(_Basis):
    """Powers and products of the columns up to a total degree, or orthogonal polynomials in their place.

    As scikit-learn's PolynomialFeatures, in the same order, except that `include_bias` defaults to False, since
    linear models bring their own intercept.

    | parameter        | default | range   | meaning                                                                 |
    |------------------|---------|---------|-------------------------------------------------------------------------|
    | degree           | 2       | >= 1    | largest total degree of a product                                       |
    | interaction_only | False   | boolean | only products of different columns                                      |
    | include_bias     | False   | boolean | begin with a column of ones                                             |
    | orthogonal       | False   | boolean | x^k becomes P_k(x), sum_i w_i P_k(x_i) P_l(x_i) = 1 if k = l, 0 if not  |

    With orthogonal=True the columns P_1 .. P_degree of one variable are those of R's `poly`; products of several
    variables multiply them. A variable with m distinct values determines P_1 .. P_{m-1}; higher ones are columns of
    zeros. `sample_weight` matters for orthogonality only.

    >>> PolynomialBasis().fit_transform([[2.0, 3.0]])
    array([[2., 3., 4., 6., 9.]])
    >>> P = PolynomialBasis(degree=2, orthogonal=True).fit_transform([[1.0], [2.0], [3.0]])
    >>> P.round(4) + 0.0
    array([[-0.7071,  0.4082],
           [ 0.    , -0.8165],
           [ 0.7071,  0.4082]])
    """

    state: ClassVar[Specs] = {
        "powers_": ints("out", "p"),
        "_plan": left_out(),
        "_affine": floats(3, "p"),
        "_h": floats(None, None, None),
        "_g": floats("p", "top"),
    }

    def _check_state(self) -> None:
        top = int(self.powers_.max(initial=1))
        need(self._g.shape[1] == top and self._h.shape == ((len(self._g), top, top) if self.orthogonal else (0, 0, 0)))
        p, count, size = self.n_features_in_, int(self.include_bias), 0
        while size < self.degree and count <= len(self.powers_) and not (self.interaction_only and size == p):
            size += 1
            count += comb(p if self.interaction_only else p + size - 1, size)
        need(count == len(self.powers_), "its products are not those of its degree")
        need((self._affine[2] != 0).all() and np.array_equal(self.powers_, self._powers(self._terms())))

    def _restore(self) -> None:
        self._plan = product_plan(self._terms())

    constraints = {"degree": integer(1), "interaction_only": boolean, "include_bias": boolean, "orthogonal": boolean}

    def __init__(
        self, degree: int = 2, *, interaction_only: bool = False, include_bias: bool = False, orthogonal: bool = False
    ) -> None:
        self.degree = degree
        self.interaction_only = interaction_only
        self.include_bias = include_bias
        self.orthogonal = orthogonal

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Count the products and, with orthogonal=True, find the recurrence of each column."""
        X = self._validate(X, dtype=FLOATS)
        w = self._weights(sample_weight, len(X))
        p, terms = X.shape[1], self._terms()
        self.powers_ = self._powers(terms)
        self.n_output_features_ = len(self.powers_)
        self._plan = product_plan(terms)
        top = int(self.powers_.max(initial=1))
        self._affine = np.tile(np.array([0.0, 1.0, 1.0])[:, None], (1, p))
        self._h, self._g = np.zeros((p, top, top) if self.orthogonal else (0, 0, 0)), np.ones((p, top))
        if self.orthogonal:
            rows = slice(None) if w is None else w > 0
            weights = np.ones(len(X)) if w is None else w[rows]
            for c in range(p):
                self._affine[:, c], self._h[c], self._g[c] = recurrence(X[rows, c].astype(float), weights, top)
        return self

    def _terms(self) -> list[tuple[int, ...]]:
        """The columns of each product, the constant aside."""
        p = self.n_features_in_
        choose = combinations if self.interaction_only else combinations_with_replacement
        most = min(self.degree, p) if self.interaction_only else self.degree
        return [term for size in range(1, most + 1) for term in choose(range(p), size)]

    def _powers(self, terms: list[tuple[int, ...]]) -> np.ndarray:
        powers = np.zeros((len(terms) + self.include_bias, self.n_features_in_), dtype=np.int64)
        for row, term in enumerate(terms, start=int(self.include_bias)):
            np.add.at(powers[row], list(term), 1)
        return powers

    def transform(self, X: Any) -> np.ndarray:
        """The products of each row."""
        X = self._validate(X, reset=False, dtype=FLOATS)
        out = np.empty((len(X), self.n_output_features_), dtype=X.dtype)
        if self.include_bias:
            out[:, 0] = 1.0
        x = np.ascontiguousarray(X)
        multiply_out(x, *self._affine, self._h, self._g, *self._plan, int(self.include_bias), out)
        return self._finite(out, X)

    def _new_names(self, names: list[str]) -> list[str]:
        def factor(name: str, power: int) -> str:
            if self.orthogonal:
                return f"P{power}({name})"
            return name if power == 1 else f"{name}^{power}"

        return [
            " ".join(factor(names[c], int(row[c])) for c in np.flatnonzero(row)) if row.any() else "1"
            for row in self.powers_
        ]


@dataclass(frozen=True, eq=False)
class _Spline:
    """The basis of one column, in units of `unit`: base knots, all knots, values and slopes at both ends."""

    unit: float
    base: np.ndarray
    knots: np.ndarray
    edges: np.ndarray
    size: int


MOST_SPLINES = 4096
"""A column with more of them is not stored: a small file would ask for gigabytes."""
EXTRAPOLATIONS = ("linear", "constant", "continue", "periodic", "error")


class SplineBasis(_Basis):
    """Splines of each column: B-splines, or natural cubic splines that are linear beyond their outer knots.

    As scikit-learn's SplineTransformer, with three other defaults: knots="quantile" (there "uniform"),
    extrapolation="linear" (there "constant") and include_bias=False (there True). The columns are the same.

    | parameter     | default    | range                          | meaning                                           |
    |---------------|------------|--------------------------------|---------------------------------------------------|
    | n_knots       | 5          | >= 2                           | knots per column, the two outer ones included     |
    | degree        | 3          | >= 0                           | of the pieces                                     |
    | knots         | "quantile" | "quantile", "uniform" or array | where they stand; an array is (n_knots,) or       |
    |               |            |                                | (n_knots, n_columns) and overrides `n_knots`      |
    | natural       | False      | boolean                        | natural cubic splines; needs degree=3             |
    | extrapolation | "linear"   | "linear", "constant",          | beyond the outer knots: the tangent, the end      |
    |               |            | "continue", "periodic",        | value, the last piece, wrapped around, or refused |
    |               |            | "error"                        |                                                   |
    | include_bias  | False      | boolean                        | keep each column's last spline: they sum to one   |

    A column gets n_knots + degree - 1 B-splines (n_knots - 1 if periodic) or n_knots natural splines, less one without
    `include_bias`. Natural spline j is one at knot j and zero at the other knots, so its coefficient is the height of
    the curve there, measured from the last knot where the last spline is left to an intercept. Knots that fall together
    on tied data are merged, and the column gets fewer splines; a constant column gets one column, of ones with
    `include_bias` and of zeros without. Whole-number sample weights count
    repetitions in the quantiles; others are scaled to sum to the number of rows.

    Reference: de Boor (1978), A Practical Guide to Splines, chapters IX and X.

    >>> x = np.linspace(0, 1, 5)[:, None]
    >>> SplineBasis(n_knots=3, degree=1, include_bias=True).fit_transform(x)
    array([[1. , 0. , 0. ],
           [0.5, 0.5, 0. ],
           [0. , 1. , 0. ],
           [0. , 0.5, 0.5],
           [0. , 0. , 1. ]])
    >>> SplineBasis(n_knots=3, natural=True).fit(x).get_feature_names_out()
    array(['x0_ns_0', 'x0_ns_1'], dtype=object)
    """

    state: ClassVar[Specs] = {
        "knots_": several(floats(None), "p"),
        "_splines": left_out(),
        "_widths": left_out(),
    }

    def _check_state(self) -> None:
        self._refuse_natural()
        need(all(knots.size > 0 and (np.diff(knots) > 0).all() for knots in self.knots_), "knots must rise")
        # Making the splines takes the square of their number.
        need(all(knots.size + self.degree <= MOST_SPLINES for knots in self.knots_), "too many knots")
        need(self.n_output_features_ == sum(self._width(self._spline(knots)) for knots in self.knots_))

    def _restore(self) -> None:
        """All that evaluation needs follows from the knots."""
        self._splines = [self._spline(knots) for knots in self.knots_]
        self._widths = [self._width(spline) for spline in self._splines]

    def _refuse_natural(self) -> None:
        if self.natural and (self.degree != 3 or self.extrapolation in ("continue", "periodic")):
            raise ParameterError(
                "SplineBasis: natural splines have degree 3 and are linear beyond the outer knots",
                remedy='use degree=3 and extrapolation="linear", "constant" or "error", or natural=False',
            )

    def _width(self, spline: _Spline) -> int:
        return max(1, spline.size - (not self.include_bias))

    constraints = {
        "n_knots": integer(2),
        "degree": integer(0),
        "knots": one_of("quantile", "uniform") | array_like,
        "natural": boolean,
        "extrapolation": one_of(*EXTRAPOLATIONS),
        "include_bias": boolean,
    }

    def __init__(
        self,
        n_knots: int = 5,
        degree: int = 3,
        *,
        knots: Any = "quantile",
        natural: bool = False,
        extrapolation: str = "linear",
        include_bias: bool = False,
    ) -> None:
        self.n_knots = n_knots
        self.degree = degree
        self.knots = knots
        self.natural = natural
        self.extrapolation = extrapolation
        self.include_bias = include_bias

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Place the knots of each column."""
        X = self._validate(X, dtype=FLOATS)
        w = self._weights(sample_weight, len(X))
        self._refuse_natural()
        placed = self._placed_knots(X, w)
        self.knots_ = [merged_knots(column) for column in placed]
        self._restore()
        self.n_output_features_ = sum(self._widths)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The splines of each row, column after column."""
        X = self._validate(X, reset=False, dtype=FLOATS)
        out = np.zeros((len(X), self.n_output_features_), dtype=X.dtype)
        first = 0
        for c, (spline, width) in enumerate(zip(self._splines, self._widths, strict=True)):
            if self.extrapolation == "error":
                self._refuse_outside(X[:, c], c)
            if spline.size == 1:
                out[:, first] = float(self.include_bias)
            else:
                with np.errstate(over="ignore"):
                    x = X[:, c].astype(np.float64) / spline.unit
                if self.natural:
                    out[:, first : first + width] = self._natural_values(x, spline)[:, :width]
                else:
                    self._fill(x, spline, first, width, out)
            first += width
        return self._finite(out, X)

    def _placed_knots(self, X: np.ndarray, w: np.ndarray | None) -> list[np.ndarray]:
        p = X.shape[1]
        if not isinstance(self.knots, str):
            try:
                given = np.asarray(self.knots, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise ParameterError("SplineBasis: knots contains a non-numeric value") from error
            given = np.repeat(given[:, None], p, axis=1) if given.ndim == 1 else given
            sound = given.ndim == 2 and given.shape[1:] == (p,) and len(given) >= 2
            if not sound or not np.isfinite(given).all() or not (np.diff(given, axis=0) > 0).all():
                what = f"SplineBasis: knots of shape {given.shape} do not fit {p} columns, or do not increase"
                raise ParameterError(what, remedy="give at least two increasing finite knots per column")
            return list(given.T)
        rows = slice(None) if w is None else w > 0
        weights = None if w is None else w[rows]
        values = X[rows].astype(np.float64)
        if self.knots == "uniform":
            return [np.linspace(v.min(), v.max(), self.n_knots) for v in values.T]
        shares = np.linspace(0, 1, self.n_knots)
        return [quantile_knots(v, weights, shares) for v in values.T]

    def _spline(self, knots: np.ndarray) -> _Spline:
        """All that evaluation needs; divided by a power of two so that no product of gaps over- or underflows."""
        largest = float(np.abs(knots).max())
        unit = 2.0 ** frexp(largest)[1] if largest > 0 and frexp(largest)[1] < 1024 else 1.0
        base, k = knots / unit, self.degree
        if base.size == 1:
            return _Spline(unit, base, base, np.zeros((4, 1)), 1)
        if self.natural:
            return _Spline(unit, base, base, np.zeros((4, base.size)), base.size)
        if self.extrapolation == "periodic":
            laps, at = np.divmod(np.arange(-k, base.size + k), base.size - 1)
            all_knots = base[at] + laps * (base[-1] - base[0])
            return _Spline(unit, base, all_knots, np.zeros((4, 1)), base.size - 1)
        before = base[0] - (base[1] - base[0]) * np.arange(k, 0, -1)
        after = base[-1] + (base[-1] - base[-2]) * np.arange(1, k + 1)
        all_knots, size = np.concatenate([before, base, after]), base.size + k - 1
        functions = BSpline(all_knots, np.eye(size), k)
        ends = base[[0, -1]]
        slopes = functions(ends, nu=1) if k else np.zeros((2, size))
        return _Spline(unit, base, all_knots, np.concatenate([functions(ends), slopes]), size)

    def _fill(self, x: np.ndarray, spline: _Spline, first: int, width: int, out: np.ndarray) -> None:
        low, high = spline.base[0], spline.base[-1]
        if self.extrapolation == "periodic":
            x = low + np.mod(x - low, high - low)
        elif self.extrapolation in ("constant", "error"):
            x = np.clip(x, low, high)
        tangent = self.extrapolation == "linear"
        fill_splines(x, spline.knots, self.degree, tangent, spline.edges, spline.size, first, width, out)

    def _natural_values(self, x: np.ndarray, spline: _Spline) -> np.ndarray:
        knots = spline.base
        functions = CubicSpline(knots, np.eye(knots.size), bc_type="natural")
        inside = np.clip(x, knots[0], knots[-1])
        values: np.ndarray = functions(inside)
        if self.extrapolation == "linear":
            slopes = functions(knots[[0, -1]], 1)
            for beyond, slope in ((x < knots[0], slopes[0]), (x > knots[-1], slopes[1])):
                values[beyond] += (x - inside)[beyond, None] * slope
        return values

    def _refuse_outside(self, x: np.ndarray, column: int) -> None:
        low, high = self.knots_[column][0], self.knots_[column][-1]
        outside = (x < low) | (x > high)
        if outside.any():
            row = int(np.argmax(outside))
            raise DataError(
                f"column {self._feature_names()[column]!r} is {x[row]:g} in row {row}, beyond the knots "
                f"[{low:g}, {high:g}]",
                remedy='choose another extrapolation, such as "linear"',
            )

    def _new_names(self, names: list[str]) -> list[str]:
        kind = "ns" if self.natural else "sp"
        return [f"{name}_{kind}_{j}" for name, width in zip(names, self._widths, strict=True) for j in range(width)]


class RadialBasis(_Basis):
    """Gaussian bumps exp(-||x - c_j||^2 / (2 s^2)) around centres in the space of all columns.

    | parameter    | default    | range                                       | meaning                                |
    |--------------|------------|---------------------------------------------|----------------------------------------|
    | n_centers    | 10         | >= 1                                        | bumps, at most the distinct rows       |
    | centers      | "farthest" | "farthest", "quantile", "random" or array   | where they stand (see below)           |
    | scale        | None       | > 0 or None                                 | s; None takes it from the centres      |
    | random_state | None       | seed                                        | for centers="random" only              |

    "farthest" starts at the row nearest the mean and adds the row farthest from all centres so far, which covers the
    data and draws no random numbers; "quantile" spreads the centres evenly over the ranks of a single column;
    "random" draws distinct rows; an array gives them, one per row, and overrides `n_centers`. The default scale is the
    mean distance from a centre to its nearest other centre (of the rows to the centre where there is but one), so
    neighbouring bumps overlap at exp(-1/2). Distances are taken in X as given: standardise columns of different units.

    Reference: Broomhead and Lowe (1988), Complex Systems 2, 321-355.

    >>> basis = RadialBasis(n_centers=3).fit([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> basis.centers_.ravel(), basis.scale_
    (array([2., 0., 4.]), 2.0)
    >>> basis.transform([[2.0]]).round(4)
    array([[1.    , 0.6065, 0.6065]])
    """

    state: ClassVar[Specs] = {
        "centers_": floats("out", "p"),
        "scale_": real(0, open_low=True),
    }

    constraints = {
        "n_centers": integer(1),
        "centers": one_of("farthest", "quantile", "random") | array_like,
        "scale": none | real(0, open_low=True),
        "random_state": seed,
    }

    def __init__(
        self,
        n_centers: int = 10,
        *,
        centers: Any = "farthest",
        scale: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_centers = n_centers
        self.centers = centers
        self.scale = scale
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the centres and the scale."""
        X = self._validate(X, dtype=FLOATS)
        unit = unit_of(X)
        x = X.astype(np.float64) / unit
        centers = self._chosen(x, unit)
        self.centers_ = centers * unit
        self.scale_ = float(self.scale) if self.scale is not None else typical_gap(x, centers) * unit
        self.n_output_features_ = len(centers)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The height of each bump at each row."""
        X = self._validate(X, reset=False, dtype=FLOATS)
        with np.errstate(over="ignore"):
            x, c = (np.clip(part / self.scale_, -1e150, 1e150) for part in (X.astype(np.float64), self.centers_))
        out = cdist(x, c, "sqeuclidean")
        out *= -0.5
        return np.exp(out, out=out).astype(X.dtype, copy=False)

    def _chosen(self, x: np.ndarray, unit: float) -> np.ndarray:
        if not isinstance(self.centers, str):
            try:
                given = np.asarray(self.centers, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise ParameterError("RadialBasis: centers contains a non-numeric value") from error
            if given.ndim != 2 or given.shape[1] != x.shape[1] or not len(given) or not np.isfinite(given).all():
                what = f"RadialBasis: centers of shape {given.shape} do not fit {x.shape[1]} columns"
                raise ParameterError(what, remedy="pass one finite row of coordinates per centre")
            return given / unit
        if self.centers == "quantile":
            if x.shape[1] != 1:
                what = f'RadialBasis: centers = "quantile" needs one column, but there are {x.shape[1]}'
                raise ParameterError(what, remedy='use "farthest" or "random"')
            shares = (np.arange(self.n_centers) + 0.5) / self.n_centers
            return np.unique(np.quantile(x[:, 0], shares))[:, None]
        if self.centers == "random":
            rows = np.unique(x, axis=0)
            state = self.random_state
            random = state if isinstance(state, np.random.Generator) else check_random_state(state)
            draw = random.permutation(len(rows))[: self.n_centers]
            return rows[np.sort(draw)]
        return farthest_rows(x, self.n_centers)

    def _new_names(self, names: list[str]) -> list[str]:
        inside = ", ".join(names) if len(names) <= 3 else f"{names[0]}, ..., {names[-1]}"
        return [f"rbf{j}({inside})" for j in range(self.n_output_features_)]
