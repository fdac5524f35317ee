"""Nearest neighbours: exact search, votes, and k by leave-one-out (row B6)."""

from assay.neighbors._loo import LeaveOneOutCurve
from assay.neighbors.knn import KNeighborsClassifier, KNeighborsRegressor

__all__ = ["KNeighborsClassifier", "KNeighborsRegressor", "LeaveOneOutCurve"]
