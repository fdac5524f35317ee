"""What the lasso and elastic-net estimators share: validation, the settings and the fitted attributes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from assay.base import Constraint, array_like, boolean, integer, none, one_of, real, seed
from assay.checks import penalty_factors
from assay.errors import ConvergenceWarning
from assay.linear._coordinate import CYCLIC, GREEDY, RANDOM
from assay.linear._lasso_budget import penalty_sum
from assay.linear._lasso_design import Solutions
from assay.linear._model import LinearModel
from assay.linear._path import Settings
from assay.state import Specs, facts, floats

__all__ = ["SHARED", "Penalised"]

ORDERS = {"cyclic": CYCLIC, "random": RANDOM, "greedy": GREEDY}

SHARED: Mapping[str, Constraint] = {
    "fit_intercept": boolean,
    "penalty_factors": none | array_like,
    "positive": boolean,
    "selection": one_of(*ORDERS),
    "tol": real(0),
    "max_iter": integer(1),
    "random_state": seed,
}


class Penalised(LinearModel):
    """A linear model with penalty factors, positivity, an order of coordinates and a tolerance."""

    state: ClassVar[Specs] = {
        "coef_": floats("p"),
        "intercept_": real(),
        "n_iter_": integer(0),
        **facts("dual_gap_", "alpha_", "budget_"),
    }

    penalty_factors: Any
    positive: bool
    selection: str
    tol: float
    max_iter: int
    random_state: Any

    takes_sparse: ClassVar[bool] = True

    def _table(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray]:
        X, y = self._validate(X, y, sparse="csc")
        w = self._weights(sample_weight, X.shape[0])
        return X, y, w, penalty_factors(self.penalty_factors, X.shape[1])

    def _settings(self) -> Settings:
        start = 0
        if self.selection == "random":
            rng = self.random_state
            if not isinstance(rng, np.random.Generator):
                rng = check_random_state(rng)
                start = int(rng.randint(1, 2**31 - 1))
            else:
                start = int(rng.integers(1, 2**31 - 1))
        return Settings(
            tol=max(self.tol, 1e-13),  # a gap below the rounding of |y|^2 cannot be certified
            max_iter=self.max_iter,
            selection=ORDERS[self.selection],
            seed=start * 2862933555777941757 % 2**64 or 1,
            positive=self.positive,
        )

    def _keep(self, solutions: Solutions, at: int, l1_ratio: float, factors: np.ndarray) -> None:
        self.coef_ = solutions.coefs[at].copy()
        self._refuse_overflow(self.coef_)
        self.intercept_ = float(solutions.intercepts[at])
        self.dual_gap_ = float(solutions.gaps[at])
        self.alpha_ = float(solutions.alphas[at])
        self.budget_ = penalty_sum(self.coef_, l1_ratio, factors)

    def _warn(self, solutions: Solutions, what: str) -> None:
        late = np.flatnonzero(~solutions.converged)
        if late.size:
            warnings.warn(
                f"{what} stopped after max_iter = {self.max_iter} sweeps with a duality gap "
                f"of {solutions.gaps[late].max():.3g}, above tol = {self.tol:g} times the mean square of y; raise "
                "max_iter, tol or alpha",
                ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def sparse_coef_(self) -> sparse.csr_array:
        """The coefficients as a sparse row."""
        return sparse.csr_array(self.coef_[None, :])
