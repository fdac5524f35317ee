"""Trees, pruning, bagging, forests and boosting (rows C1 to C5): tables as they come, with categories and gaps."""

from assay.trees.bagging import BaggingClassifier, BaggingRegressor
from assay.trees.boosting import GradientBoostingClassifier, GradientBoostingRegressor
from assay.trees.cart import DecisionTreeClassifier, DecisionTreeRegressor
from assay.trees.forest import RandomForestClassifier, RandomForestRegressor
from assay.trees.pruning import PrunedTreeClassifier, PrunedTreeRegressor

__all__ = [
    "BaggingClassifier",
    "BaggingRegressor",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "PrunedTreeClassifier",
    "PrunedTreeRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
]
