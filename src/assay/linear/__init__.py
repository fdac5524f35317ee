"""Linear models: least squares, penalties, selection, screening, bases, local fits, classes (rows A1 to A7, B1, B5)."""

from assay.linear.basis import PolynomialBasis, RadialBasis, SplineBasis
from assay.linear.indicator import LeastSquaresClassifier
from assay.linear.lars import Lars
from assay.linear.lasso import ElasticNet, ElasticNetCV, Lasso, LassoCV, enet_path, lasso_path
from assay.linear.least_squares import LinearRegression
from assay.linear.local import LocalRegression
from assay.linear.logistic import LogisticRegression
from assay.linear.logistic_cv import LogisticPath, LogisticRegressionCV, logistic_path
from assay.linear.ridge import Ridge, RidgeCV, ridge_path
from assay.linear.screening import SIS, IterativeSIS
from assay.linear.stepwise import Stagewise, Stepwise
from assay.linear.subset import BestSubset

__all__ = [
    "SIS",
    "BestSubset",
    "ElasticNet",
    "ElasticNetCV",
    "IterativeSIS",
    "Lars",
    "Lasso",
    "LassoCV",
    "LeastSquaresClassifier",
    "LinearRegression",
    "LocalRegression",
    "LogisticPath",
    "LogisticRegression",
    "LogisticRegressionCV",
    "PolynomialBasis",
    "RadialBasis",
    "Ridge",
    "RidgeCV",
    "SplineBasis",
    "Stagewise",
    "Stepwise",
    "enet_path",
    "lasso_path",
    "logistic_path",
    "ridge_path",
]
