"""Predictions of rows left out, beside a fit to all of them: what a threshold, a calibration and weights are chosen on.

    tuning="folds"   the whole learner, its own search included, is fitted in every inner fold and once to all rows
    tuning="once"    it is fitted to all rows first, and its folds take over the settings that this fit has chosen

With "once" a row has had a hand in the settings (a penalty, a number of trees) of the fits that leave it out; in the
coefficients and trees themselves it has none. All of it is part of a fit, so outer folds judge it honestly either way.
A learner around others that has such predictions already (`fit_held_out`) gives them, and no fold is fitted twice.

Cost: (folds + 1) fits; with "once" one of them is a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from assay.evaluation.learner import Rows, fit_fold, fit_rows, label_of, run
from assay.metrics.definition import find
from assay.resampling import splits_of

__all__ = ["TUNING", "HeldOut", "held_out_probabilities", "settled"]

Array = np.ndarray
TUNING = ("folds", "once")
"""Where settings are chosen: anew in every inner fold, or once, on all rows."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A model fitted to all rows, and for each fold its rows and their probability of the second of two classes."""

    model: Any
    tests: Sequence[Array]
    probabilities: Sequence[Array]


def settled(model: Any) -> Any:
    """An unfitted learner with the settings that a fit has chosen: a search becomes its best candidate.

    A learner says for itself what it has chosen by a method `settled`; one that does not is taken as it is.

    >>> from sklearn.linear_model import Ridge
    >>> settled(Pipeline([("model", Ridge(2.0))]).fit([[0.0], [1.0]], [0.0, 1.0]))
    Pipeline(steps=[('model', Ridge(alpha=2.0))])
    """
    if hasattr(model, "best_estimator_"):
        return settled(model.best_estimator_)
    if isinstance(model, Pipeline) and model.steps:
        name, last = model.steps[-1]
        return clone(model).set_params(**{name: settled(last)})
    return model.settled() if hasattr(model, "settled") else clone(model, safe=False)


def held_out_probabilities(
    estimator: Any, rows: Rows, *, cv: Any, random_state: Any, tuning: str, n_jobs: int | None = None
) -> HeldOut:
    """A classifier of two classes fitted to all rows, and its probabilities of rows that a fit has not seen."""
    once = tuning == "once"
    if once and hasattr(estimator, "fit_held_out"):
        result: HeldOut = clone(estimator).fit_held_out(rows)
        return result
    splits = splits_of(cv, rows.X, rows.y, groups=rows.groups, classes=True, random_state=random_state)
    model = fit_rows(estimator, rows) if once else None
    task = partial(_fold, settled(model) if once else estimator, rows, splits)
    parts = list(run(task, range(len(splits)), label="inner folds", n_jobs=n_jobs))
    return HeldOut(fit_rows(estimator, rows) if model is None else model, [test for _, test in splits], parts)


def _fold(estimator: Any, rows: Rows, splits: Any, k: int) -> Array:
    train, test = splits[k]
    needs = {"probabilities": find("log_loss")}
    predicted, _ = fit_fold(estimator, rows, train, test, needs, label=label_of(estimator), where=f"inner fold {k}")
    return predicted["probabilities"]
