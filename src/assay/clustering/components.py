"""Principal components: the directions in which the rows spread most.

    v_1 = argmax var(x'v),  |v| = 1;   v_2 the same among directions orthogonal to v_1; ...
    (X - mean) = U S V',    scores (X - mean) V,    variance of component j = S_j^2 / (n - 1)

No other k directions keep more of the variance, or lose less in |X - reconstruction|^2. Variances depend on the units:
`scale=True` divides each column by its standard deviation first. A direction is known up to its sign; here its largest
entry is positive. Weights are repetitions, so the divisor is sum(w) - 1.

Cost: n p^2 multiply-adds for the centred moments, where n >= p; small variances are taken from a QR decomposition
instead of squares (see `_spectrum`). For thousands of columns random directions find the leading ones.

Pearson (1901), Phil. Mag. 2, 559-572; Hotelling (1933); Jolliffe (2002), Principal Component Analysis.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from assay.base import Constraint, Estimator, boolean, integer, jobs, none, one_of, real, seed
from assay.checks import fraction, whole
from assay.clustering._explained import Biplot, ExplainedVariance, Loadings, resample
from assay.clustering._spectrum import Spectrum, divisor, exact, randomized
from assay.constraints import text
from assay.errors import DataError, ParameterError
from assay.numerics.seeds import generator
from assay.numerics.threads import parallel
from assay.state import Specs, floats, size

__all__ = ["PrincipalComponents"]

Array = np.ndarray

SMALL_SIDE = 1_000
"""Up to so many rows or columns all directions are worked out, and none at random."""
BLOCK_CELLS = 1 << 20


class PrincipalComponents(TransformerMixin, Estimator):
    """Orthogonal directions of largest variance, and the rows' coordinates along them.

        X ~ mean + scores components,    scores = (X - mean) / scale components'

    | parameter     | default | range                      | meaning                                                        |
    |---------------|---------|----------------------------|----------------------------------------------------------------|
    | n_components  | None    | from 1 on, in (0, 1)       | how many; a share: as few as explain so much of the variance; None: all that vary |
    | scale         | False   | True                       | divide columns by their standard deviations first (constant ones stay) |
    | whiten        | False   | True                       | scores of variance one                                         |
    | solver        | "auto"  | "exact", "randomized"      | "auto": random directions only where both sides exceed 1,000 and few components are asked for |
    | n_oversamples | 10      | from 0 on                  | random directions beyond the components                        |
    | n_iter        | None    | from 0 on                  | power iterations of "randomized"; None: 7 for few components, else 4 |
    | random_state  | None    | seed                       | of random directions                                           |
    | n_jobs        | None    | threads                    | of `explained`; never changes a result                         |

    Fitted: `components_` (k x p), `explained_variance_`, `explained_variance_ratio_`, `singular_values_`, `mean_`,
    `scale_`, `noise_variance_` (mean variance of the directions left out), `n_components_`, `n_samples_`, `solver_`,
    `n_features_in_`, `feature_names_in_`. Sparse tables are not made dense.

    `explained(X)` puts bootstrap limits on the explained shares, `summary()` is the table of loadings, `biplot(X)` the
    picture of rows and columns together.

    Jolliffe (2002), Principal Component Analysis, 2nd ed., Springer.

    >>> X = [[1.0, 2.0], [2.0, 4.1], [3.0, 5.9], [4.0, 8.0]]
    >>> model = PrincipalComponents(1).fit(X)
    >>> model.components_.round(3).tolist(), model.explained_variance_ratio_.round(4).tolist()
    ([[0.451, 0.893]], [0.9999])
    >>> model.inverse_transform(model.transform(X)).round(1).tolist()
    [[1.0, 2.0], [2.0, 4.1], [3.0, 5.9], [4.0, 8.0]]
    """  # noqa: E501  (a table)

    constraints: ClassVar[dict[str, Constraint]] = {
        "n_components": none | integer(1) | real(0, 1, open_low=True, open_high=True),
        "scale": boolean,
        "whiten": boolean,
        "solver": one_of("auto", "exact", "randomized"),
        "n_oversamples": integer(0, 10_000),
        "n_iter": none | integer(0, 10_000),
        "random_state": seed,
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "n_components_": size("k"),
        "components_": floats("k", "p"),
        "explained_variance_": floats("k", low=0),
        "explained_variance_ratio_": floats("k", low=0),
        "singular_values_": floats("k", low=0),
        "mean_": floats("p"),
        "scale_": floats("p", low=0),
        "noise_variance_": real(0),
        "n_samples_": integer(1),
        "solver_": text,
    }

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        scale: bool = False,
        whiten: bool = False,
        solver: str = "auto",
        n_oversamples: int = 10,
        n_iter: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.scale = scale
        self.whiten = whiten
        self.solver = solver
        self.n_oversamples = n_oversamples
        self.n_iter = n_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Fitting.

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the directions; rows of weight 0 are as if they were not there."""
        del y
        rows, w = self._rows(X, sample_weight, reset=True)
        n, p = rows.shape
        k = self._how_many(n, p)
        self.solver_ = self._solver(k, n, p)
        if self.solver_ == "exact":
            found = exact(rows, w, k, self.scale)
        else:
            steps = (7 if k < 0.1 * min(n, p) else 4) if self.n_iter is None else self.n_iter
            rng = generator(self.random_state)
            found = randomized(rows, w, k, self.scale, self.n_oversamples, steps, rng)
        self._keep(found, n, float(w.sum()))
        return self

    def _rows(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Array]:
        rows = self._validate(X, reset=reset, sparse=("csr",))
        w = self._weights(sample_weight, rows.shape[0])
        if w is None:
            return rows, np.ones(rows.shape[0])
        return (rows, w) if (w > 0).all() else (rows[w > 0], w[w > 0])

    def _how_many(self, n: int, p: int) -> int:
        most, asked = min(n, p), self.n_components
        if isinstance(asked, float | np.floating):
            if self.solver == "randomized":
                what = f"n_components = {asked} is a fraction, which needs all variances, but solver = 'randomized'"
                raise ParameterError(what, remedy='use solver="exact", or a whole number')
            return most
        if asked is not None and asked > most:
            what = f"n_components = {asked} of a table with {n} rows and {p} columns"
            raise DataError(what, remedy=f"ask for at most {most}")
        return most if asked is None else int(asked)

    def _solver(self, k: int, n: int, p: int) -> str:
        if self.solver != "auto":
            return self.solver
        return "randomized" if min(n, p) > SMALL_SIDE and k < 0.8 * min(n, p) else "exact"

    def _keep(self, found: Spectrum, n: int, weight: float) -> None:
        with np.errstate(over="ignore"):
            variance, total = found.values**2 / divisor(weight), np.square(found.length) / divisor(weight)
        if not np.isfinite(total):
            raise DataError("the variances of X overflow", remedy="rescale its columns, or use scale=True")
        ratio = np.square(found.values / found.length) if found.length > 0 else np.zeros(variance.size)
        k = variance.size
        if self.n_components is None:
            k = max(1, found.rank)
        elif isinstance(self.n_components, float | np.floating):
            k = min(k, int(np.searchsorted(np.cumsum(ratio), self.n_components) + 1))
        left = min(n, found.mean.size) - k
        self.components_ = np.ascontiguousarray(found.vectors[:k])
        self.explained_variance_, self.explained_variance_ratio_ = variance[:k], np.minimum(ratio[:k], 1.0)
        self.singular_values_, self.mean_, self.scale_ = found.values[:k], found.mean, found.scale
        self.noise_variance_ = max(0.0, float(total - variance[:k].sum())) / left if left > 0 else 0.0
        self.n_components_, self.n_samples_ = k, n

    # Using the directions.

    def transform(self, X: Any) -> Array:
        """The rows' coordinates along the components."""
        rows = self._validate(X, reset=False, sparse=("csr",))
        directions = (self.components_ / self.scale_).T
        if self.whiten:
            directions = directions / self._deviations()
        if sparse.issparse(rows):
            return np.asarray(rows @ directions) - self.mean_ @ directions
        height = max(1, BLOCK_CELLS // rows.shape[1])
        parts = parallel(
            lambda at: (rows[at : at + height] - self.mean_) @ directions,
            range(0, len(rows), height),
            n_jobs=self.n_jobs,
            work=rows.size * self.n_components_,
        )
        return parts[0] if len(parts) == 1 else np.vstack(parts)

    def _deviations(self) -> Array:
        """Standard deviations of the scores; 1 for those without any."""
        deviations = np.sqrt(self.explained_variance_)
        return np.where(deviations > 1e-14 * deviations.max(initial=0.0), deviations, 1.0)

    def inverse_transform(self, X: Any) -> Array:
        """Rows from their coordinates: exact for all components, else the closest rows that so many can make."""
        check_is_fitted(self)
        try:
            scores = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError("scores contain a non-numeric value", remedy="pass the output of transform") from error
        if scores.ndim != 2 or scores.shape[1] != self.n_components_:
            what = f"scores have the shape {scores.shape}, but there are {self.n_components_} components"
            raise DataError(what, remedy="pass one row per observation and one column per component")
        if self.whiten:
            scores = scores * self._deviations()
        return scores @ self.components_ * self.scale_ + self.mean_

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """pc1, pc2, ..."""
        check_is_fitted(self)
        if input_features is not None:
            given, names = [str(name) for name in input_features], self._feature_names()
            if len(given) != len(names) or (hasattr(self, "feature_names_in_") and given != names):
                what = f"input_features names {len(given)} columns that are not the {len(names)} features of fit"
                raise DataError(what, remedy="leave it out")
        return np.array([f"pc{j + 1}" for j in range(self.n_components_)], dtype=object)

    # What the directions say.

    def loadings(self) -> Array:
        """How columns go along with components, p x k: v sqrt(variance), their correlation with `scale=True`."""
        check_is_fitted(self)
        return (self.components_ * np.sqrt(self.explained_variance_)[:, None]).T

    def summary(self) -> Loadings:
        """The table of loadings, with the explained shares."""
        return Loadings(
            self.loadings(),
            self.explained_variance_,
            self.explained_variance_ratio_,
            tuple(self._feature_names()),
            self.n_samples_,
            self.scale,
        )

    def explained(
        self,
        X: Any,
        sample_weight: Any = None,
        *,
        level: float = 0.95,
        n_resamples: int = 500,
        n_permutations: int = 100,
        random_state: Any = None,
    ) -> ExplainedVariance:
        """Explained shares of the rows of `fit` with bootstrap limits, and what independent columns would explain.

        `n_resamples` bootstrap samples of the rows give the limits; `n_permutations` tables with each column shuffled
        by itself give the `level` quantile of each variance without correlation (parallel analysis, Horn 1965).
        """
        check_is_fitted(self)
        rows: Any
        rows, w = self._rows(X, sample_weight, reset=False)
        is_sparse = sparse.issparse(rows)
        table = rows.toarray() if is_sparse else rows
        if len(table) < 2:
            raise DataError("one row has no variance to explain", remedy="pass two or more rows")
        level, resamples = fraction(level, "level"), whole(n_resamples, "n_resamples", low=20)
        shuffles = whole(n_permutations, "n_permutations", low=0)
        return resample(table, w, self.n_components_, self.scale, level, resamples, shuffles, random_state, self.n_jobs)

    def biplot(self, X: Any, groups: Any = None, *, axes: tuple[int, int] = (0, 1)) -> Biplot:
        """Rows as points and columns as arrows along two components; `groups` colours the points."""
        scores = self.transform(X)
        wrong = len(axes) != 2 or not all(0 <= whole(a, "axes", low=0) < self.n_components_ for a in axes)
        if wrong:
            what = f"axes = {axes!r} of {self.n_components_} components"
            few, last = "fit two or more components: a biplot needs two", self.n_components_ - 1
            raise ParameterError(what, remedy=few if last == 0 else f"pass two numbers from 0 to {last}")
        labels = () if groups is None else tuple(str(group) for group in groups)
        if len(labels) not in (0, len(scores)):
            raise DataError(f"groups has {len(labels)} entries for {len(scores)} rows", remedy="pass one per row")
        index = X.index if isinstance(X, pd.DataFrame) and not pd.api.types.is_integer_dtype(X.index.dtype) else ()
        at = list(axes)
        return Biplot(
            scores[:, at],
            self.loadings()[:, at],
            tuple(self._feature_names()),
            tuple(map(str, index)),
            labels,
            self.explained_variance_ratio_[at],
            (int(axes[0]), int(axes[1])),
        )
