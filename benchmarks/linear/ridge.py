"""Ridge regression beside scikit-learn's: one fit, leave-one-out, and ten folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge as PeerRidge
from sklearn.linear_model import RidgeCV as PeerRidgeCV

from assay.linear import Ridge, RidgeCV
from benchmarks.case import Case

__all__ = ["CASES"]

ALPHAS = np.geomspace(1e-2, 1e4, 50)


def rows() -> tuple[np.ndarray, np.ndarray]:
    """50,000 x 100 with a signal in twenty columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 100))
    b = rng.standard_normal(100) * (np.arange(100) < 20)
    return X, X @ b + 5.0 * rng.standard_normal(50_000)


def objective(model: Any, data: Any) -> float:
    X, y = data
    return float(((y - model.predict(X)) ** 2).sum() + model.alpha * (model.coef_**2).sum())


def cv_error(model: Any, _: Any) -> float:
    """The least mean cross-validated error, as each side computed it; the same number if both chose the same alpha."""
    return float(model.cv_curve_.estimate.min() if hasattr(model, "cv_curve_") else -model.best_score_)


CASES = [
    Case(
        "Ridge, one fit, 50,000 x 100",
        data=rows,
        ours=lambda data: Ridge(1.0, inference=False).fit(*data),
        peers={"scikit-learn": lambda data: PeerRidge(1.0).fit(*data)},
        quality=objective,
        quality_name="objective",
        goals={"scikit-learn": 1.0},
        slack=1e-6,
    ),
    Case(
        "Ridge with inference and leave-one-out, 50,000 x 100",
        data=rows,
        ours=lambda data: Ridge(1.0).fit(*data),
        peers={"scikit-learn, coefficients only": lambda data: PeerRidge(1.0).fit(*data)},
        quality=objective,
        quality_name="objective",
        slack=1e-6,
    ),
    Case(
        "RidgeCV, leave-one-out x 50 alphas, 50,000 x 100",
        data=rows,
        ours=lambda data: RidgeCV(ALPHAS).fit(*data),
        peers={"scikit-learn": lambda data: PeerRidgeCV(ALPHAS).fit(*data)},
        quality=cv_error,
        quality_name="leave-one-out error",
        goals={"scikit-learn": 5.0},
        slack=1e-8,
        repeats=3,
    ),
    Case(
        "RidgeCV, 10 folds x 50 alphas, 50,000 x 100",
        data=rows,
        ours=lambda data: RidgeCV(ALPHAS, cv=10).fit(*data),
        peers={
            "scikit-learn": lambda data: PeerRidgeCV(ALPHAS, cv=10, scoring="neg_mean_squared_error").fit(*data),
        },
        quality=cv_error,
        quality_name="10-fold error",
        goals={"scikit-learn": 50.0},
        slack=1e-8,
        repeats=1,
    ),
]
