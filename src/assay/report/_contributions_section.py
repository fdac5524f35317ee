"""The report's part on single predictions: what each column adds in two typical rows and in the two worst ones.

Shapley values of training rows, each explained by a refit that had not seen it, relative to 100 rows of that refit.
The typical rows stand at one and at three quarters of the predictions among rows with at most the median error; the
worst have the largest errors out of fold. What this may cost is fixed by the size of the table and the kind of model,
never by a clock: the same study gives the same page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from assay.evaluation import ShapleyValues, shapley_values
from assay.experiment.panel import pipeline_of
from assay.experiment.wording import with_unit
from assay.metrics import get_metric
from assay.metrics.scorer import class_options
from assay.numbers import fmt
from assay.report._embed import Part, View, attempt, decimal, percent, picture, table_of
from assay.report._held_out import HeldOut
from assay.report._inspection_section import Refit
from assay.report.draw_experiment import plain
from assay.report.draw_shapley import cell_text, steps

__all__ = ["contributions"]

Array = np.ndarray
TITLE = "Contributions for typical and worst rows"
EACH = 2
"""How many typical and how many worst rows are explained."""
COLUMNS = 7
"""How many columns of a row have a step of their own."""
LISTED = 30
"""How many columns of a row are in its table."""
BACKGROUND, PAIRS = 100, 2
"""Background rows, and pairs of permutations for each, where values are sampled."""
DEAR = 1.5e9
"""Multiply-adds that sampled values of one report may cost, about half a second."""
ROW = 2_000
"""Multiply-adds of one prediction by a model that does not compare the row with training rows."""


@dataclass(frozen=True)
class _Chosen:
    """A row to explain: its heading, its position among the held-out rows, and the refit that had not seen it."""

    title: str
    at: int
    refit: Refit


def contributions(held: HeldOut, refits: list[Refit]) -> list[Part]:
    """What columns add to the predictions of typical and of the worst rows, or a sentence where that is dear."""
    plan = held.study.plan
    each = min(EACH, _affordable(refits[0], len(plan.features)))
    if not each:
        words = (
            f"Contributions of columns to single predictions would take over {DEAR / 1e9:g} billion multiply-adds with "
            f"this model and {len(plan.features):,} columns, and are left out here. "
            "For rows of your own: assay predict --explain.",
        )
        return [Part(TITLE, words, wide=True)]
    head: list[ShapleyValues] = []
    parts: list[Part] = []
    for chosen in _chosen(held, refits, each):
        parts += attempt(chosen.title, partial(_row, held, chosen, head))
    return [_introduction(head[0]), *parts] if head else parts


def _introduction(values: ShapleyValues) -> Part:
    words = [
        "How far each column moves one prediction from the average over "
        f"{values.n_background} training rows (grey line) to its own (dark line): Shapley values, on the scale of the "
        f"{values.scale}; blue raises it, red lowers it. Each row is explained by a refit that had not seen it. The "
        "typical rows stand at one and at three quarters of the predictions, among rows with at most the median error; "
        "the worst have the largest errors in the study's folds, whose models predict a little differently.",
        "The values describe the model, not the world: columns that go together share what they add.",
    ]
    if values.std_error is not None:
        words.append("The values are sampled; dark strokes are two Monte-Carlo standard errors to either side.")
    return Part(TITLE, tuple(words), wide=True)


def _row(held: HeldOut, chosen: _Chosen, head: list[ShapleyValues]) -> Part:
    """One row as a picture, with its prediction and what was observed."""
    study, model = held.study, chosen.refit.model
    frame = study.data.rows.X[study.plan.features]
    row = frame.iloc[[int(held.rows[chosen.at])]]
    background = frame.iloc[chosen.refit.inside]
    values = shapley_values(model, row, background, permutations=PAIRS, random_state=study.plan.seed)
    head.append(values)
    image = picture(
        None,
        (5.6, 1.0 + 0.26 * min(max(1, int(np.count_nonzero(_added(values)))), COLUMNS + 1)),
        f"{chosen.title}: what columns add to its prediction, the most {plain(values.leading(0, 1)[0][0])}"
        if values.leading(0, 1)
        else f"{chosen.title}: no column moves its prediction",
        paint=lambda axes: steps(_readable(values), axes, COLUMNS).set_title(""),
    )
    return Part(chosen.title, (_facts(held, chosen, row),), image, view=_table(values), folded=True)


def _added(values: ShapleyValues) -> Array:
    """The contributions to the prediction, of several classes those to the predicted one."""
    return values.values[0, :, int(np.argmax(values.prediction[0]))] if values.values.ndim == 3 else values.values[0]


def _table(values: ShapleyValues) -> View:
    """The leading columns with their contributions, of several classes those to the predicted one."""
    output = int(np.argmax(values.prediction[0]))  # of one output it is the first
    several, added = values.values.ndim == 3, _added(values)
    order = np.argsort(-np.abs(added), kind="stable")[: min(LISTED, max(1, int(np.count_nonzero(added))))]
    error = values.std_error
    sampled = () if error is None else (error[0, :, output] if several else error[0],)
    rows = [
        (values.names[j], cell_text(values.cells[0, j]), f"{added[j]:+.3g}", *(float(one[j]) for one in sampled))
        for j in order
    ]
    base, last = float(np.ravel(values.base)[output]), float(np.ravel(values.prediction[0])[output])
    of = f" of {plain(values.outputs[output], 16)}" if values.outputs[output] else ""
    caption = decimal(f"From {fmt(base)} to {fmt(last)}, {values.scale}{of}")
    return table_of(caption, ("column", "value", "contribution", *["standard error"] * len(sampled)), rows)


def _facts(held: HeldOut, chosen: _Chosen, row: Any) -> str:
    """Which row of the table it is, what was observed, and what the refit predicts."""
    text, observed, model = "", held.y[chosen.at], chosen.refit.model
    if held.row_numbers is not None:
        text = f"Row {held.row_numbers[chosen.at]} of the table. "
    predicted = np.asarray(model.predict(row))[0]
    if held.classes is None:
        unit = held.study.wishes.unit
        return f"{text}Observed {with_unit(fmt(observed), unit)}, predicted {with_unit(fmt(float(predicted)), unit)}."
    text += f"Observed {plain(observed)}, predicted {plain(predicted)}"
    if not hasattr(model, "predict_proba"):
        return f"{text}."
    shares = np.asarray(model.predict_proba(row), dtype=float)[0]
    of = shares[model.classes_.tolist().index(predicted)]
    return f"{text} with probability {percent(float(of))}."


def _readable(values: ShapleyValues) -> ShapleyValues:
    """Short names and cells."""
    cells = values.cells.copy()
    for j, cell in enumerate(cells[0]):
        if isinstance(cell, str):
            cells[0, j] = plain(cell, 16)
    outputs = tuple(plain(one, 16) for one in values.outputs)
    return replace(values, names=tuple(plain(name, 20) for name in values.names), cells=cells, outputs=outputs)


# Which rows.


def _chosen(held: HeldOut, refits: list[Refit], each: int) -> list[_Chosen]:
    """Typical and worst rows among those that some refit had not seen; the worst with their rank among all rows."""
    errors, height = _errors(held), _height(held)
    unseen = {int(row): refit for refit in refits for row in refit.outside}
    known = np.array([int(row) in unseen for row in held.rows])
    worst = np.argsort(-errors, kind="stable")
    rank = np.empty(held.n, dtype=int)
    rank[worst] = np.arange(1, held.n + 1)
    worst = worst[known[worst]][:each]
    calm = np.flatnonzero(known & (errors <= np.median(errors)))
    calm = calm[np.argsort(height[calm], kind="stable")]
    calm = calm[~np.isin(calm, worst)]
    shares = (0.25, 0.75) if each == 2 else (0.5,)
    typical = list(dict.fromkeys(int(calm[int(share * (calm.size - 1))]) for share in shares)) if calm.size else []
    named = [("A typical row" if k == 0 else "Another typical row", at) for k, at in enumerate(typical)]
    named += [("The worst row" if rank[at] == 1 else f"Number {rank[at]} of the worst rows", int(at)) for at in worst]
    return [_Chosen(title, at, unseen[int(held.rows[at])]) for title, at in named]


def _errors(held: HeldOut) -> Array:
    """What each row loses: of classes the Brier score where there are probabilities, which tells errors apart."""
    if held.classes is not None and "probabilities" in held.predictions:
        brier = get_metric("brier")
        shares = held.predictions["probabilities"]
        return np.asarray(brier.per_row(held.y, shares, **class_options(brier, held.classes)), dtype=float)
    return held.loss[1]


def _height(held: HeldOut) -> Array:
    """By what predictions are ordered: the number, the probability of the second of two classes, or the class."""
    if held.classes is None:
        return held.values
    shares = held.predictions.get("probabilities")
    if held.classes.size == 2 and shares is not None:
        return shares if shares.ndim == 1 else shares[:, -1]
    labels = held.labels if held.labels is not None else held.y
    return np.searchsorted(held.classes, labels).astype(float)


# What it costs.


def _affordable(refit: Refit, columns: int) -> int:
    """How many rows of each kind can be explained: any number by formula, where sampled as many as `DEAR` allows."""
    work = BACKGROUND * sum(_asked(model, columns) * _work(model, refit, columns) for model in _members(refit.model))
    return EACH if work == 0 else int(DEAR // (2 * work))


def _members(model: Any) -> list[Any]:
    """The last steps of the pipelines inside; of a model that is not made of pipelines itself."""
    while hasattr(model, "estimator_"):
        model = model.estimator_
    pipe = pipeline_of(model)
    if pipe is not None:
        return [pipe.steps[-1][1]]
    if hasattr(model, "weights_") and hasattr(model, "estimators_"):
        return [last for one in model.estimators_ for last in _members(one)]
    return [model]


def _asked(model: Any, columns: int) -> int:
    """Predictions for one row and one background row; none of trees and lines, which have formulas."""
    return 0 if hasattr(model, "__shapley__") or hasattr(model, "coef_") else 2 * PAIRS * columns


def _work(model: Any, refit: Refit, columns: int) -> int:
    """Multiply-adds of a prediction: all training rows where it is compared with them."""
    compared = hasattr(model, "n_samples_fit_") or hasattr(model, "support_vectors_")
    return ROW + columns * (refit.inside.size if compared else 1)
