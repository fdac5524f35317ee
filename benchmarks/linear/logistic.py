"""Logistic regression beside scikit-learn's solvers and statsmodels, to a gradient of 1e-8 per row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import special

from benchmarks.case import Case

__all__ = ["CASES"]

Data = tuple[np.ndarray, np.ndarray]


def two_classes(n: int = 200_000, p: int = 50) -> Data:
    """Correlated columns of one scale, which suits every solver, and classes that overlap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    eta = X @ (0.3 * rng.normal(size=p)) - 0.5
    return X, (rng.uniform(size=n) < special.expit(eta)).astype(int)


def uneven_columns() -> Data:
    """The same with columns of different scales and means, as tables have them."""
    X, y = two_classes()
    rng = np.random.default_rng(1)
    return X * rng.uniform(0.1, 10.0, X.shape[1]) + rng.uniform(-5.0, 5.0, X.shape[1]), y


def ten_classes() -> Data:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 100))
    return X, np.argmax(X @ (0.3 * rng.normal(size=(10, 100))).T + rng.gumbel(size=(60_000, 10)), axis=1)


def ours(penalty: str | None, inference: bool) -> Any:
    def run(data: Data) -> Any:
        from assay.linear.logistic import LogisticRegression

        return LogisticRegression(penalty=penalty, inference=inference, n_jobs=-1).fit(*data)

    return run


def scikit_learn(solver: str, C: float) -> Any:
    def run(data: Data) -> Any:
        from sklearn.linear_model import LogisticRegression

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LogisticRegression(C=C, solver=solver, tol=1e-8, max_iter=3000).fit(*data)

    return run


def statsmodels(data: Data) -> Any:
    import statsmodels.api as sm
    from sklearn.linear_model import LogisticRegression

    X, y = data
    result = sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-10)
    assert np.isfinite(result.bse).all()
    model = LogisticRegression()
    model.classes_, model.coef_, model.intercept_ = np.unique(y), result.params[None, 1:], result.params[:1]
    return model


def objective(C: float) -> Any:
    """The mean loss plus the penalty, to more digits than any solver leaves open."""

    def value(model: Any, data: Data) -> float:
        X, y = data
        eta = X @ model.coef_.T + model.intercept_
        eta = np.column_stack([np.zeros(len(y)), eta]) if eta.shape[1] == 1 else eta
        own = np.take_along_axis(special.log_softmax(eta, axis=1), y[:, None], axis=1)
        return float(-own.mean() + 0.5 * np.square(model.coef_).sum() / C / len(y))

    return value


CASES = [
    Case(
        "Logistic, no penalty, 200,000 x 50",
        data=two_classes,
        ours=ours(None, False),
        peers={
            "scikit-learn newton-cholesky": scikit_learn("newton-cholesky", np.inf),
            "scikit-learn lbfgs": scikit_learn("lbfgs", np.inf),
        },
        quality=objective(np.inf),
        quality_name="mean loss",
        goals={"scikit-learn newton-cholesky": 1.5, "scikit-learn lbfgs": 1.5},
        slack=1e-12,
        cold=True,
    ),
    Case(
        "Logistic, ridge, 200,000 x 50 of different scales",
        data=uneven_columns,
        ours=ours("l2", False),
        peers={
            "scikit-learn newton-cholesky": scikit_learn("newton-cholesky", 1.0),
            "scikit-learn lbfgs": scikit_learn("lbfgs", 1.0),
        },
        quality=objective(1.0),
        quality_name="objective",
        goals={"scikit-learn newton-cholesky": 1.5, "scikit-learn lbfgs": 1.5},
        slack=1e-12,
        repeats=3,
    ),
    Case(
        "Logistic with inference, 200,000 x 50",
        data=two_classes,
        ours=ours(None, True),
        peers={"statsmodels Logit": statsmodels},
        quality=objective(np.inf),
        quality_name="mean loss",
        goals={"statsmodels Logit": 5.0},
        slack=1e-12,
        repeats=3,
    ),
    Case(
        "Multinomial logistic, ridge, 10 classes, 60,000 x 100",
        data=ten_classes,
        ours=ours("l2", False),
        peers={
            "scikit-learn lbfgs": scikit_learn("lbfgs", 1.0),
            "scikit-learn newton-cg": scikit_learn("newton-cg", 1.0),
        },
        quality=objective(1.0),
        quality_name="objective",
        goals={"scikit-learn lbfgs": 1.5, "scikit-learn newton-cg": 1.5},
        slack=1e-12,
        repeats=3,
    ),
]
