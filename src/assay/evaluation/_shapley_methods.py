"""Which way a model's Shapley values are found: its own hook, through a pipeline, a line, or sampled coalitions.

Exact: whatever has `__shapley__` (trees, forests, boosting, and what is made of them), and models whose predictions are
a line in their columns (`coef_`, `intercept_`, checked against what they predict). A pipeline is passed through if each
column it makes comes from one column before; those made of the same column are one player.

Sampled: for each background row pairs of a random permutation of the players and its reverse; a player adds what the
prediction changes by when it joins those before it. The values add up exactly; their Monte-Carlo variance is estimated
within background rows, since the background itself is not sampled. Up to six players all coalitions are asked for.
Mitchell, Cooper, Frank & Holmes (2022), J. Mach. Learn. Res. 23.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import factorial
from typing import Any

import numpy as np
import pandas as pd
from scipy import special
from sklearn.pipeline import Pipeline

from assay.errors import DataTypeError
from assay.evaluation.learner import label_of
from assay.shapley import LOG_ODDS, PREDICTION, PROBABILITY, SCORE, ShapleyPart, ShapleyTask

__all__ = ["explain"]

Array = np.ndarray
Ask = Callable[[Any], Array]
FEW_PLAYERS = 6
"""So many players have 64 coalitions, which are all asked for."""
CELLS = 1 << 21
"""Cells of the mixed rows that one call of a model may see."""
COLUMNWISE = frozenset(
    ("MaxAbsScaler", "MinMaxScaler", "PowerTransformer", "QuantileTransformer", "RobustScaler", "StandardScaler")
)
"""Transformers of scikit-learn that make one column of each."""


def explain(model: Any, task: ShapleyTask) -> ShapleyPart:
    """The Shapley values of any fitted model."""
    hook = getattr(model, "__shapley__", None)
    part: ShapleyPart | None = None if hook is None else hook(task)
    if part is not None:
        return part
    if hasattr(model, "best_estimator_"):
        return task.explain(model.best_estimator_)
    inside = _behind_pipeline(model, task) if isinstance(model, Pipeline) else None
    if inside is not None:
        return inside.explain(model.steps[-1][1])
    return _linear(model, task) or _sampled(model, task)


# Pipelines.


def _behind_pipeline(model: Pipeline, task: ShapleyTask) -> ShapleyTask | None:
    """The task as the last step sees it; None where a step mixes columns, or its columns' sources are not known."""
    for _, step in model.steps[:-1]:
        if step is None or step == "passthrough":
            continue
        sources = _sources(step, task.X)
        if sources is None:
            return None
        task = replace(
            task, X=step.transform(task.X), background=step.transform(task.background), players=task.players[sources]
        )
    return task


def _sources(step: Any, X: Any) -> Array | None:
    """For each column that a transformer makes, the position of the column it comes from."""
    names = getattr(step, "sources_", None)
    if names is None:
        known = type(step).__name__ in COLUMNWISE and type(step).__module__.startswith("sklearn.")
        return np.arange(X.shape[1]) if known else None
    columns = X.columns if isinstance(X, pd.DataFrame) else step.feature_names_in_
    place = {str(name): j for j, name in enumerate(columns)}
    return np.array([place[name] for name in names], dtype=np.int64)


# What a model is asked for.


def _question(model: Any, task: ShapleyTask) -> tuple[Ask, str]:
    """How to ask a model for its outputs (rows x outputs), and the scale they have."""
    if not hasattr(model, "classes_"):
        return lambda X: _two(model.predict(X)), PREDICTION
    if not task.response and hasattr(model, "decision_function"):
        scores = _two(model.decision_function(task.background))
        K = len(model.classes_)
        if scores.shape[1] == (1 if K == 2 else K):
            return lambda X: _two(model.decision_function(X)), _scale_of(model, task.background, scores)
    if not hasattr(model, "predict_proba"):
        message = f"{label_of(model)} has neither probabilities nor one score per class"
        raise DataTypeError(message, remedy="pass a classifier with predict_proba")
    second = len(model.classes_) == 2
    return lambda X: np.asarray(model.predict_proba(X), dtype=float)[:, 1 if second else 0 :], PROBABILITY


def _scale_of(model: Any, X: Any, scores: Array) -> str:
    """Whether scores are log-odds."""
    if scores.shape[1] > 1 or not hasattr(model, "predict_proba"):
        return SCORE
    second = np.asarray(model.predict_proba(X))[:, 1]
    return LOG_ODDS if np.allclose(special.expit(scores[:, 0]), second, rtol=1e-6, atol=1e-9) else SCORE


def _two(values: Any) -> Array:
    values = np.asarray(values, dtype=float)
    return values[:, None] if values.ndim == 1 else values


def _dense(table: Any) -> Any:
    return table.toarray() if hasattr(table, "toarray") else table


# Lines.


def _linear(model: Any, task: ShapleyTask) -> ShapleyPart | None:
    """coef_j (x_j - mean z_j), summed over the columns of each player; None if the model is not a line."""
    coef = getattr(model, "coef_", None)
    tables = [_numbers(table) for table in (task.X, task.background)]
    if coef is None or any(table is None for table in tables):
        return None
    coef = np.atleast_2d(np.asarray(_dense(coef), dtype=float))
    x, z = tables
    if coef.ndim != 2 or coef.shape[1] != x.shape[1]:
        return None
    ask, scale = _question(model, task)
    intercept = np.asarray(getattr(model, "intercept_", 0.0), dtype=float).reshape(1, -1)
    both = np.vstack([x, z])
    expected, predicted = both @ coef.T + intercept, np.vstack([ask(task.X), ask(task.background)])
    close = 1e-8 * float(np.abs(predicted).max(initial=0.0))
    if expected.shape != predicted.shape or not np.allclose(expected, predicted, rtol=1e-8, atol=close):
        return None
    terms = (x - z.mean(axis=0))[:, :, None] * coef.T[None]
    values = np.zeros((len(x), task.n_players, coef.shape[0]))
    for j, g in enumerate(task.players):
        values[:, g] += terms[:, j]
    return ShapleyPart(values, predicted[len(x) :].mean(axis=0), predicted[: len(x)], scale)


def _numbers(table: Any) -> Any:
    """A table of numbers as an array; None if it holds anything else or something is missing."""
    table = _dense(table)
    if isinstance(table, pd.DataFrame) and any(getattr(kind, "kind", "O") not in "biuf" for kind in table.dtypes):
        return None
    array = np.asarray(table)
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        return None
    return array.astype(float)


# Sampled coalitions.


def _sampled(model: Any, task: ShapleyTask) -> ShapleyPart:
    """Values by asking the model for rows mixed from x and the background."""
    ask, scale = _question(model, task)
    acting = np.unique(task.players)
    X, Z = _dense(task.X), _dense(task.background)
    prediction, background = ask(task.X), ask(task.background)
    values = np.zeros((X.shape[0], task.n_players, prediction.shape[1]))
    every = acting.size <= FEW_PLAYERS
    variance = None if every else np.zeros_like(values)
    seat = np.searchsorted(acting, task.players)  # for each column the player's place among those that act
    draws = None if every else _permutations(task, acting.size, Z.shape[0])
    for i in range(X.shape[0]):
        mix = _Mixture(X, i, Z, seat, ask)
        if draws is None:
            values[i, acting] = _all_coalitions(mix, acting.size)
        else:
            assert variance is not None
            values[i, acting], variance[i, acting] = _along(mix, draws, prediction[i], background)
    return ShapleyPart(values, background.mean(axis=0), prediction, scale, variance)


class _Mixture:
    """Rows whose columns come from x where their player is in a coalition, and from a background row elsewhere."""

    def __init__(self, X: Any, i: int, Z: Any, seat: Array, ask: Ask) -> None:
        self.m, self.seat, self.ask, self.width = Z.shape[0], seat, ask, max(1, Z.shape[1])
        self.frame = isinstance(X, pd.DataFrame)
        self.rows: Any = pd.concat([X.iloc[[i]], Z], ignore_index=True) if self.frame else np.vstack([X[i : i + 1], Z])

    def __call__(self, coalitions: Array, z: Array) -> Array:
        """Outputs for each pair of a coalition (row of booleans) and a background row."""
        step = max(1, CELLS // self.width)
        parts = [
            self.ask(self._mixed(coalitions[low : low + step], z[low : low + step])) for low in range(0, len(z), step)
        ]
        return np.concatenate(parts)

    def _mixed(self, coalitions: Array, z: Array) -> Any:
        if not self.frame:
            return np.where(coalitions[:, self.seat], self.rows[0], self.rows[1 + z])
        columns = []
        for j, seat in enumerate(self.seat):
            column = self.rows.iloc[:, j].array.take(np.where(coalitions[:, seat], 0, 1 + z))
            columns.append(pd.Series(column, name=j))
        mixed = pd.concat(columns, axis=1)
        mixed.columns = self.rows.columns
        return mixed


def _all_coalitions(mix: _Mixture, g: int) -> Array:
    """The definition: all 2^g coalitions with every background row."""
    coalitions = np.array(list(product([False, True], repeat=g)))
    outputs = mix(np.repeat(coalitions, mix.m, axis=0), np.tile(np.arange(mix.m), len(coalitions)))
    worth = outputs.reshape(len(coalitions), mix.m, -1).mean(axis=1)
    size = coalitions.sum(axis=1)
    values = np.empty((g, worth.shape[1]))
    for j in range(g):
        without = np.flatnonzero(~coalitions[:, j])
        joined = without + (1 << (g - 1 - j))
        weight = np.array([factorial(s) * factorial(g - s - 1) / factorial(g) for s in size[without]])
        values[j] = weight @ (worth[joined] - worth[without])
    return values


def _permutations(task: ShapleyTask, g: int, m: int) -> Array:
    """Permutations of the players (background rows x pairs x players), the same for every row that is explained."""
    rng = np.random.default_rng(np.random.SeedSequence(task.entropy))
    return rng.permuted(np.broadcast_to(np.arange(g), (m, task.permutations, g)), axis=2)


def _along(mix: _Mixture, draws: Array, full: Array, empty: Array) -> tuple[Array, Array]:
    """Mean and variance of what players add along permutations and their reverses."""
    m, pairs, g = draws.shape
    height = max(1, CELLS // (pairs * g * g))  # background rows at a time
    parts = [
        _pair_means(mix, draws[low : low + height], full, empty, np.arange(low, min(m, low + height)))
        for low in range(0, m, height)
    ]
    means = np.concatenate(parts)
    within = means.var(axis=1, ddof=1) / pairs
    return means.mean(axis=(0, 1)), within.sum(axis=0) / m**2


def _pair_means(mix: _Mixture, draws: Array, full: Array, empty: Array, rows: Array) -> Array:
    """For some background rows and each pair of a permutation and its reverse, the mean of what each player adds."""
    m, pairs, g = draws.shape
    sums = np.zeros((m, pairs, g, full.size))
    for chain in (draws, draws[:, :, ::-1]):
        rank = np.argsort(chain, axis=2)
        steps = np.arange(1, g)
        coalitions = rank[:, :, None, :] < steps[None, None, :, None]
        z = np.repeat(rows, pairs * (g - 1))
        inner = mix(coalitions.reshape(-1, g), z).reshape(m, pairs, g - 1, -1)
        first = np.broadcast_to(empty[rows, None, None, :], (m, pairs, 1, full.size))
        last = np.broadcast_to(full, (m, pairs, 1, full.size))
        added = np.diff(np.concatenate([first, inner, last], axis=2), axis=2)
        sums += np.take_along_axis(added, rank[:, :, :, None], axis=2)
    return sums / 2
