"""What linear models compile: each estimator on a small table of numbers."""

from __future__ import annotations

from assay.linear import (
    SIS,
    BestSubset,
    ElasticNet,
    ElasticNetCV,
    Lars,
    Lasso,
    LassoCV,
    LinearRegression,
    LocalRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
    SplineBasis,
    Stagewise,
    Stepwise,
)
from assay.numerics.warmup import Warmup, fits, small_table

__all__ = ["WARMUPS"]


def _local() -> None:
    X, y = small_table()
    for columns in (1, 2):
        LocalRegression().fit(X[:, :columns], y).predict(X[:, :columns])


WARMUPS = (
    *fits(LogisticRegressionCV, sparse=True, alphas=5),
    *fits(LassoCV, sparse=True),
    *fits(LogisticRegression, sparse=True, penalty="l2", inference=False),
    *fits(ElasticNetCV),
    *fits(Lasso),
    *fits(ElasticNet),
    *fits(LinearRegression),
    *fits(RidgeCV),
    *fits(Ridge),
    *fits(Lars),
    *fits(BestSubset),
    *fits(Stepwise),
    *fits(Stagewise),
    *fits(SIS),
    *fits(SplineBasis),
    Warmup("LocalRegression", _local),
    Warmup("solver by gradient", lambda: LinearRegression(solver="gradient").fit(*small_table())),
    Warmup("solver by stochastic gradient", lambda: LinearRegression(solver="sgd").fit(*small_table())),
)
