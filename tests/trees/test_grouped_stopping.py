"""Early stopping of boosting holds out whole groups, also behind a pipeline's preprocessing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from assay.errors import DataError
from assay.evaluation.learner import fit_rows, rows_of
from assay.trees import GradientBoostingClassifier, GradientBoostingRegressor

RNG = np.random.default_rng(0)
GROUPS = RNG.permutation(np.repeat(np.arange(30), 6))
X = np.column_stack([RNG.normal(size=30)[GROUPS], RNG.normal(size=180)])
Y = RNG.normal(size=30)[GROUPS] + 0.1 * RNG.normal(size=180)


@pytest.mark.parametrize("kind", [GradientBoostingRegressor, GradientBoostingClassifier])
@pytest.mark.parametrize("stopping", [True, "cv"])
def test_groups_are_held_out_whole(kind, stopping):
    """A group's effect is learned by its other rows; without them nothing is to be learned, and trees stay few."""
    y = Y if kind is GradientBoostingRegressor else (Y > 0).astype(int)
    options = {"early_stopping": stopping, "n_estimators": 60, "random_state": 0, "validation_fraction": 0.3}
    split = kind(**options, min_samples_leaf=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trees that might go on
        alone = split.fit(X, y).n_estimators_
        together = split.fit(X, y, groups=GROUPS).n_estimators_
        piped = fit_rows(make_pipeline(split), rows_of(split, X, y, groups=GROUPS)).steps[-1][1].n_estimators_
    assert together == piped < alone


def test_one_group_per_row():
    with pytest.raises(DataError, match="pass one group per row"):
        GradientBoostingRegressor().fit(X, Y, groups=GROUPS[:5])
