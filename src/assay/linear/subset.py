"""Best subset selection: of all models with k variables the one with the least residual sum of squares.

    A_k = argmin over |A| = k of  min_b || y - b0 - X_A b ||^2,      k = 0, 1, ..., max_size,

and a criterion chooses the size. `method="exact"` finds all A_k in one branch and bound (`_leaps`), started from
spliced and backward incumbents, and proves them; where `max_nodes` ends it first, the sizes not proven and
a lower bound on their RSS are reported. The work grows exponentially in the worst case; with n = 1,000 and moderate
correlation p = 40 takes hundredths of a second and p = 60 seconds. `method="splicing"` exchanges columns until no
exchange helps: polynomial, for p in the thousands and p > n, without a proof, which `proven_` then says.

Hocking, Leslie (1967), Technometrics 9, 531-540; Zhu et al. (2020), PNAS 117, 33117-33123.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from assay.base import Constraint, integer, one_of
from assay.errors import ConvergenceWarning, DataError
from assay.linear._leaps import TooDependentError, leaps
from assay.linear._selector import Family, Selector, SubsetProblem, selector_constraints
from assay.linear._splicing import backward_path, independent, splicing_path
from assay.state import Specs, facts

__all__ = ["BestSubset"]

Array = np.ndarray

MOST_COLUMNS = 150
"""An exact search over more columns than this would not end; it is refused at once."""

AUTO_COLUMNS = 50
"""method="auto" searches exactly up to this many columns: well under a second on most data."""


class BestSubset(Selector):
    """Least squares on the best subset of the columns, found exactly, with the proof or an honest bound.

    Minimises RSS(A) over all sets A of each size up to `max_size`, then the criterion over the sizes.

    | parameter           | default      | range         | meaning                                                |
    |---------------------|--------------|---------------|--------------------------------------------------------|
    | max_size            | None         | >= 0          | largest size; None: p, or n / log n if p >= n - 1      |
    | criterion           | "bic"        | see below     | what chooses the size                                  |
    | form                | "likelihood" | or "sigma"    | which aic and bic                                      |
    | method              | "auto"       | "exact", ...  | "exact", "splicing"; auto: exact if n > p and p <= 50  |
    | max_nodes           | 5,000,000    | >= 1          | exact: visit at most so many nodes                     |
    | cv                  | 10           | folds, splits | for criterion="cv"; each fold repeats the search       |
    | rule                | "min"        | "min", "1se"  | cv, validation: least error, or simplest within one SE |
    | validation_fraction | 0.2          | in (0, 1)     | share of rows held out for criterion="validation"      |
    | random_state        | None         | seed          | draws the rows held out                                |
    | fit_intercept       | True         | True, False   | whether the model has an intercept                     |
    | n_jobs              | None         | non-zero      | threads; never changes the result                      |

    The criterion is "cp", "aic", "bic", "adjusted_r2", "cv" or "validation" (formulas in `assay.linear.criteria`).

    Weights count as repetitions of a row. Fitted: `coef_` (zero for the columns left out), `intercept_`, `support_`,
    `selected_` (names), `table_` (the best model of each size), `criterion_curve_`, `proven_` and `bound_` (for
    each row of `table_`: is its RSS the least of its size, and a lower bound on that), `n_nodes_`. Columns that others
    explain but for less than 1e-9 of their variance count as collinear; no model holds all of such a set.

    Hocking, Leslie (1967), Technometrics 9, 531-540.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BestSubset(criterion="bic").fit(X, y)
    >>> model.selected_.tolist()
    ['sex', 'bmi', 'bp', 's3', 's5']
    >>> bool(model.proven_.all())
    True
    """

    state: ClassVar[Specs] = {
        **facts("proven_", "bound_", "n_nodes_"),
    }

    constraints: ClassVar[dict[str, Constraint]] = selector_constraints | {
        "method": one_of("auto", "exact", "splicing"),
        "max_nodes": integer(1),
    }

    def __init__(
        self,
        *,
        max_size: int | None = None,
        criterion: str = "bic",
        form: str = "likelihood",
        method: str = "auto",
        max_nodes: int = 5_000_000,
        cv: Any = 10,
        rule: str = "min",
        validation_fraction: float = 0.2,
        random_state: Any = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.max_size = max_size
        self.criterion = criterion
        self.form = form
        self.method = method
        self.max_nodes = max_nodes
        self.cv = cv
        self.rule = rule
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BestSubset:
        """Search all subsets, choose the size, and fit the chosen model by least squares."""
        _, _, family, choice = self._fit(X, y, sample_weight)
        rss = choice.table["rss"].to_numpy()
        if family.proven is None or family.bound is None:
            self.proven_, self.bound_ = np.ones(len(rss), dtype=bool), rss.copy()
        else:
            unit = choice.table["rss"].iloc[0]
            self.proven_ = family.proven
            self.bound_ = np.where(family.proven, rss, np.minimum(family.bound * unit, rss))
        self.n_nodes_ = family.n_nodes
        if self.n_nodes_ >= self.max_nodes and not self.proven_.all():
            self._say_not_proven(rss)
        return self

    def _say_not_proven(self, rss: Array) -> None:
        open_sizes = np.flatnonzero(~self.proven_)
        gap = float(np.max((rss - self.bound_)[open_sizes] / rss[open_sizes]))
        warnings.warn(
            f"BestSubset visited max_nodes = {self.max_nodes} nodes and could not prove sizes {open_sizes[0]} to "
            f"{open_sizes[-1]} optimal: their RSS may be up to {100 * gap:.2g}% above the least; "
            "raise max_nodes or lower max_size",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _search(self, problem: SubsetProblem, most: int, like: Family | None = None) -> Family:
        if most == 0:
            return Family.empty()
        if self.method == "splicing" or (self.method == "auto" and _too_large(problem)):
            return _spliced(problem, most)
        try:
            return _exact(problem, most, self.max_nodes, self.n_jobs)
        except TooDependentError as error:
            if self.method == "auto":
                return _spliced(problem, most)
            raise DataError(
                f"{len(problem.c)} columns are collinear in too many ways for an exact search",
                remedy='drop the collinear columns, or use method="splicing"',
            ) from error


def _too_large(problem: SubsetProblem) -> bool:
    return problem.gram is None or len(problem.c) > AUTO_COLUMNS


def _spliced(problem: SubsetProblem, most: int) -> Family:
    found = splicing_path(problem.active(most), most)
    # The empty model and the best single column are exact; for the rest the full model bounds the RSS from below.
    proven = np.arange(len(found)) <= 1
    full = 0.0
    if problem.gram is not None and not np.isnan(problem.sigma2):
        full = problem.solve(independent(problem.gram))[1]
    return Family(
        [columns for _, columns in found],
        rss=np.array([rss for rss, _ in found]),
        proven=proven,
        bound=np.full(len(found), full),
        n_nodes=0,
    )


def _exact(problem: SubsetProblem, most: int, max_nodes: int, n_jobs: int | None) -> Family:
    p = len(problem.c)
    if problem.gram is None or p > MOST_COLUMNS:
        why = f"only {problem.rows} rows" if problem.gram is None else f"the limit is {MOST_COLUMNS}"
        raise DataError(
            f'BestSubset(method="exact") cannot prove anything over {p} columns: {why}',
            remedy='use method="splicing", or keep fewer columns first, for instance with SIS',
        )
    basis = independent(problem.gram)
    rss, sets = _incumbents(problem, min(most, basis.size), basis)
    found = leaps(problem.gram, problem.c, rss, sets, max_nodes, n_jobs)
    columns = [np.flatnonzero(row) for row in found.sets]
    return Family(columns, proven=found.proven, bound=found.bound, n_nodes=found.n_nodes)


def _incumbents(problem: SubsetProblem, most: int, basis: Array) -> tuple[Array, Array]:
    """A good model of every size to start from: spliced, or from dropping columns of the full model one by one."""
    assert problem.gram is not None
    rss = np.full(most + 1, np.inf)
    sets = np.zeros((most + 1, len(problem.c)), dtype=np.uint8)
    for k, (value, columns) in enumerate(splicing_path(problem.active(most), most)):
        rss[k] = value
        sets[k, columns] = 1
    out, _ = backward_path(problem.gram, problem.c, basis)
    for k in range(1, most + 1):
        columns = out[out.size - k :]
        value = problem.solve(columns)[1]
        if value < rss[k]:
            rss[k] = value
            sets[k] = 0
            sets[k, columns] = 1
    return rss, sets
