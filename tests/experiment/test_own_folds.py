"""Learners that tune themselves keep the study's groups and order in their own folds."""

import numpy as np
import pandas as pd
import pytest

from assay.errors import DataError, ParameterError
from assay.evaluation.learner import fit_rows, rows_of
from assay.experiment.panel import TASKS, assemble, learners
from assay.linear import ElasticNetCV, LassoCV, LogisticRegressionCV, RidgeCV
from assay.margin import SVCCV
from assay.resampling import Folds, TimeFolds, group_codes, whole_groups
from assay.trees import PrunedTreeClassifier, PrunedTreeRegressor

TUNING = ("lasso", "ridge", "elastic net", "tree", "nearest neighbours", "sparse logistic", "support vectors")


def grouped(seed=0, groups=24, each=8, columns=6):
    """Rows of a group share their columns but for a little noise, and their target has a part of its own."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(groups), each)
    X = rng.normal(size=(groups, columns))[who] + 0.05 * rng.normal(size=(groups * each, columns))
    y = 0.3 * X[:, 0] + rng.normal(size=groups)[who] + 0.1 * rng.normal(size=groups * each)
    order = rng.permutation(who.size)
    return X[order], y[order], who[order]


def wide(seed=0):
    """As many columns as groups: within groups the target can be memorised, beyond them it cannot."""
    return grouped(seed, groups=24, each=8, columns=20)


def test_a_penalty_that_ignores_groups_is_visibly_smaller():
    X, y, who = wide()
    grid = np.geomspace(10, 1e-5, 60)
    for model in (LassoCV(cv=8, alphas=grid), ElasticNetCV(cv=8, alphas=grid), RidgeCV(cv=8)):
        alone = type(model)(**model.get_params()).fit(X, y).alpha_
        together = model.fit(X, y, groups=who).alpha_
        assert together > 5 * alone, type(model).__name__


def test_groups_give_the_folds_of_groups():
    X, y, who = grouped()
    labels = (y > np.median(y)).astype(int)
    cases = (
        (LassoCV(cv=6), y, "alpha_", False),
        (RidgeCV(cv=6), y, "alpha_", False),
        (PrunedTreeRegressor(cv=6, random_state=0), y, "alpha_", False),
        (LogisticRegressionCV(cv=6, alphas=20), labels, "alpha_", True),
        (SVCCV(cv=6), labels, "C_", True),
    )
    for model, target, name, stratify in cases:
        made = type(model)(**model.get_params()).fit(X, target, groups=who)
        seed = getattr(model, "random_state", 0) or 0
        if isinstance(model, PrunedTreeRegressor):
            continue  # its folds have a seed of their own
        pairs = list(Folds(6, stratify=stratify, random_state=seed).split(X, target, who))
        same = type(model)(**{**model.get_params(), "cv": pairs}).fit(X, target)
        assert getattr(made, name) == getattr(same, name), type(model).__name__


def test_pruned_trees_grow_smaller_where_groups_are_kept():
    X, y, who = grouped()
    labels = np.where(y > np.median(y), "b", "a")
    for model, target in ((PrunedTreeRegressor, y), (PrunedTreeClassifier, labels)):
        alone, together = (
            model(random_state=0, rule="min").fit(X, target, **more).get_n_leaves() for more in ({}, {"groups": who})
        )
        assert together < alone


def test_bad_groups_get_a_sentence():
    X, y, who = grouped()
    with pytest.raises(DataError, match="groups has shape"):
        LassoCV().fit(X, y, groups=who[:3])
    with pytest.raises(DataError, match="one group"):
        LassoCV().fit(X, y, groups=np.zeros(y.size))
    with pytest.raises(ParameterError, match="parts groups; set cv"):
        RidgeCV().fit(X, y, groups=who)
    assert whole_groups(5, None) == 5
    assert group_codes(None, 3) is None


class Recorded(TimeFolds):
    """Folds in the order of time that count how often they are dealt."""

    dealt = 0

    def split(self, X, y=None, groups=None):
        Recorded.dealt += 1
        return super().split(X, y, groups)


@pytest.mark.parametrize("task", TASKS)
def test_the_order_of_time_reaches_every_learner_that_tunes_itself(task, monkeypatch):
    import assay.experiment.panel as panel

    monkeypatch.setattr(panel, "TimeFolds", Recorded)
    X, y, _ = grouped()
    target = y if task == "regression" else np.where(y > np.median(y), "b", "a")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    for one in learners(task):
        if one.name in TUNING and not (one.name == "support vectors" and task == "regression"):
            Recorded.dealt = 0
            metric = "mse" if task == "regression" else "error"
            made = assemble(
                one, dict.fromkeys(frame, "number"), tune=False, metric=metric, shape=frame.shape, order="time"
            )
            fit_rows(made, rows_of(made, frame, target))
            assert Recorded.dealt, one.name


@pytest.mark.parametrize("task", TASKS)
def test_groups_reach_every_learner_that_tunes_itself(task):
    X, y, who = grouped()
    target = y if task == "regression" else np.where(y > np.median(y), "b", "a")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    for one in learners(task):
        if one.name in TUNING and not (one.name == "support vectors" and task == "regression"):
            metric = "mse" if task == "regression" else "error"
            made = assemble(
                one, dict.fromkeys(frame, "number"), tune=False, metric=metric, shape=frame.shape, order="group"
            )
            one_group = rows_of(made, frame, target, groups=np.zeros(y.size))
            with pytest.raises(DataError):
                fit_rows(made, one_group)  # refused only by what looks at groups
            fit_rows(made, rows_of(made, frame, target, groups=who))


def test_a_trend_asks_for_another_penalty_in_the_order_of_time():
    rng = np.random.default_rng(3)
    n, t = 240, np.linspace(0, 6, 240)
    X = np.column_stack([np.sin(k * t + rng.uniform(0, 6)) for k in range(1, 13)])
    y = np.cumsum(rng.normal(size=n)) / 3
    shuffled = RidgeCV(cv=Folds(5)).fit(X, y).alpha_
    later = RidgeCV(cv=TimeFolds(5)).fit(X, y).alpha_
    assert later > 10 * shuffled
