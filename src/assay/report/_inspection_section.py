"""The report's part on what the whole pipeline leans on: importances of the columns, partial dependence on them.

Both are about the columns of the table, not about what the preprocessing made of them. What they may cost is fixed by
the size of the table and the learner's declared cost, never by a clock: the same study gives the same page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator

from assay.evaluation import Dependence, Importance, partial_dependence, permutation_importance, pool_importance
from assay.evaluation.learner import fit_rows
from assay.experiment.panel import pipeline_of
from assay.experiment.protocol import number_of_splits
from assay.experiment.steps.evaluate import shape_of
from assay.numbers import fmt, with_limits
from assay.report._embed import WIDTH, Part, decimal, picture, table_of
from assay.report.draw import draw
from assay.report.draw_experiment import plain
from assay.words import plural

if TYPE_CHECKING:
    from assay.experiment.study import Study

__all__ = ["Refit", "columns_of", "dependence", "importance", "refits_of"]

Array = np.ndarray
TRIED = 40
"""How many columns are shuffled; of wider tables those most related to the predictions."""
REPEATS = 3
LEADING = 4
"""How many columns get a picture of their own."""
POINTS = 16
SEEN = 12
"""Fewer rows on either side say nothing about importances."""
PARTS = 3
"""How many parts of the rows are held out in turn for importances."""
REFITS = 1e9
"""Multiply-adds that each of these refits may cost; above it one refit must do."""
BARS = 20
"""How many columns are drawn; the table has all."""
ASKED, CELLS = 60_000, 20_000_000
"""Rows, and cells, that may be predicted for importances."""
SHOWN = 3
"""How many classes are drawn."""
YEARS = 10_000
"""Numbers up to here may be years and stand without a comma under a curve."""
LETTERS = 31
"""How many letters of categories have room side by side under a picture."""


def columns_of(study: Study) -> list[str]:
    """The columns that say something: all but the ids."""
    kinds = study.plan.kinds
    return [name for name in study.plan.features if kinds[name] != "id"]


# Refits without some rows.


@dataclass(frozen=True, eq=False)
class Refit:
    """The selected pipeline, fitted to some training rows and judged on others, by their positions."""

    model: Any
    inside: Array
    outside: Array


def refits_of(study: Study) -> list[Refit]:
    """Refits of the selected pipeline, so that no row is explained by a model that has seen it.

    The study's own folds are dealt to three parts, and each part is left out of a refit, so that all training rows
    take part. Where a fit is dear one refit must do.
    """
    data, plan = study.data, study.plan
    learner = next(one for one in data.learners if one.name == study.select().name)
    parts = _parts_of(study)
    if ":" in learner.name or learner.work(*shape_of(plan, data)) > REFITS:
        parts = parts[-1:]
    return [Refit(fit_rows(study.model, data.rows, inside), inside, outside) for inside, outside in parts]


# Importances.


def importance(study: Study, refits: list[Refit], kept: list[Importance]) -> Part | None:
    """How much each column matters on rows left out of refits; the result itself is added to `kept`."""
    plan, names, all_names = study.plan, _screened(study), columns_of(study)
    if not names:
        return None
    found, where = _measured(study, refits, names)
    kept.append(found)
    words = [
        f"How much worse {plan.metric} gets when the values of one column are shuffled, {where} "
        "Columns with the same information can replace each other, so they share their importance."
    ]
    if len(names) < len(all_names):
        words.append(f"Of {len(all_names)} columns, the {len(names)} most related to the predictions are shown.")
    best = [found.names[j] for j in found.order]
    figures = found.to_frame()[["importance", "lower", "upper"]].to_numpy().tolist()
    view = table_of(
        f"Permutation importance, {100 * plan.level:g}% interval for each column alone ({found.method})",
        ("column", "importance", "lower", "upper"),
        [(name, *with_limits(*row)) for name, row in zip(best, figures, strict=True)],
    )
    moving = found.order[(found.lower[found.order] != 0) | (found.upper[found.order] != 0)]
    shown = moving[:BARS] if moving.size else found.order[:1]
    size = (WIDTH, 1.3 + 0.26 * shown.size)
    image = picture(
        _drawn(study, found, shown),
        size,
        f"Importance of columns; the most important is {plain(best[0])}",
        titled=False,
    )
    caption = "Permutation importance with intervals."
    if shown.size < moving.size:
        caption += f" The {shown.size} most important columns; the table has all."
    elif moving.size < len(names):
        caption += f" {plural(len(names) - moving.size, 'other column')} made no difference at all."
    return Part("Column importance", tuple(words), image, caption, view, folded=True)


def _drawn(study: Study, found: Importance, shown: Array) -> Importance:
    """The leading columns under short names."""
    parts = {name: getattr(found, name)[shown] for name in ("importance", "std_error", "lower", "upper", "draws")}
    names = tuple(plain(found.names[j]) for j in shown)
    return replace(found, names=names, model=plain(study.select().name, 40), **parts)


def _measured(study: Study, refits: list[Refit], names: list[str]) -> tuple[Importance, str]:
    """Importances on rows that were held out of refits of the same pipeline, never on rows a model has seen."""
    data, plan = study.data, study.plan
    asked = _rows_asked(study, len(names))
    found = []
    for k, refit in enumerate(refits):
        rows = refit.outside[_some(refit.outside.size, max(50, asked // len(refits)), plan.seed + k)]
        found.append(
            permutation_importance(
                refit.model,
                data.rows.X[plan.features].iloc[rows],
                data.rows.y[rows],
                metric=plan.metric if plan.metric != "risk" else plan.measure("risk"),
                columns=names,
                n_repeats=REPEATS,
                level=plan.level,
                random_state=plan.seed,
                n_jobs=study.n_jobs,
            )
        )
    pooled = pool_importance(found)
    times = "a refit" if len(found) == 1 else f"{len(found)} refits"
    return pooled, f"on {pooled.n:,} training rows that were left out of {times} of the same pipeline."


def _parts_of(study: Study) -> list[tuple[Array, Array]]:
    """Rows to fit and rows to judge, by the study's own folds, so that groups and the order of time are kept.

    Parts in which a class is missing, or that are too small, are left out; if nothing is left, the first fold is taken.
    """
    data, plan = study.data, study.plan
    splits = [(np.asarray(train), np.asarray(test)) for train, test in data.splits]
    once = 2 if plan.cv == "5x2" else max(1, number_of_splits(plan, data.rows.n) // plan.repeats)
    if plan.time is not None or plan.cv == "holdout" or once < 2:
        parts = splits[-1:]
    else:
        deals = np.array_split(np.arange(once), min(PARTS, once))
        held = [np.unique(np.concatenate([splits[k][1] for k in deal])) for deal in deals]
        parts = [(np.setdiff1d(np.arange(data.rows.n), outside), outside) for outside in held]
    good = [pair for pair in parts if _usable(study, *pair)]
    return good or [next((pair for pair in splits if _usable(study, *pair)), splits[-1])]


def _usable(study: Study, inside: Array, outside: Array) -> bool:
    """Whether both sides are large enough and have every class."""
    data = study.data
    if min(inside.size, outside.size) < SEEN:
        return False
    if data.rows.classes is None:
        return True
    return min(np.unique(data.rows.y[part]).size for part in (inside, outside)) == data.rows.classes.size


def _screened(study: Study) -> list[str]:
    """All columns, or of a wide table those whose values go along with what the model says."""
    names = columns_of(study)
    if len(names) <= TRIED:
        return names
    frame = study.data.rows.X.iloc[_some(study.data.rows.n, 400, study.plan.seed)]
    said = np.asarray(_response(study.model, frame), dtype=float)
    said = said - said.mean()
    strength = [_goes_along(frame[name], said, study.plan.kinds[name]) for name in names]
    order = np.argsort(-np.array(strength), kind="stable")[:TRIED]
    return [names[j] for j in np.sort(order)]


def _response(model: Any, frame: pd.DataFrame) -> Array:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(frame))[:, -1]
    said = np.asarray(model.predict(frame))
    return said if said.dtype.kind in "biuf" else np.unique(said, return_inverse=True)[1]


def _goes_along(column: pd.Series, said: Array, kind: str) -> float:
    """The share of the variance of the predictions that goes with a column: r squared, or eta squared."""
    total = float(said @ said)
    if total == 0:
        return 0.0
    if kind == "number":
        x = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
        x = np.where(np.isfinite(x), x, np.median(x[np.isfinite(x)]) if np.isfinite(x).any() else 0.0)
        x = x - x.mean()
        own = float(x @ x)
        return 0.0 if own == 0 or not np.isfinite(own) else float(x @ said) ** 2 / (own * total)
    codes = pd.factorize(column, use_na_sentinel=False)[0]  # missing cells are a level of their own
    counts = np.bincount(codes)
    sums = np.bincount(codes, weights=said)
    # Levels seen once would explain everything: only levels with company count.
    return float(np.sum((sums**2 / counts)[counts > 1])) / total


def _some(n: int, most: int, seed: int) -> Array:
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _rows_asked(study: Study, columns: int) -> int:
    """How many rows are asked in all, fewer of learners whose predictions are dear."""
    times = REPEATS * columns
    rows = min(ASKED / times, CELLS / (times * len(study.plan.features)))
    return int(np.clip(rows / _burden(study), 50, 1_000))


# Partial dependence.


def dependence(study: Study, names: list[str], kept: list[Dependence]) -> Part | None:
    """How the average prediction moves with the first of these columns that move it; the curves go to `kept`."""
    found = _moving(study, names)
    if not found:
        return None
    kept += found
    wide = min(2, len(found))
    tall = (len(found) + wide - 1) // wide
    classes = _liveliest(found)
    drawn = [_readable(one, classes) for one in found]

    def paint(panels: Any) -> None:
        flat = panels.ravel()
        for axes, one in zip(flat, drawn, strict=False):
            draw(one, ax=axes)
            axes.set_title("")
            _calm(axes, one)
        for spare in flat[len(drawn) :]:
            spare.set_visible(False)
        handles, labels = flat[0].get_legend_handles_labels()
        flat[0].figure.legend(handles, labels, loc="outside upper left", ncols=min(2, len(labels)))

    alt = f"Average prediction against {', '.join(one.columns[0] for one in drawn)}"
    image = picture(None, (WIDTH, 0.5 + 2.2 * tall if wide > 1 else 3.1), alt, panels=(tall, wide), paint=paint)
    words: tuple[str, ...] = (
        f"The average prediction when a column is set to each value in {max(one.n for one in found)} training rows, "
        "with the other columns unchanged. The band is pointwise and treats the model as fixed.",
    )
    if len(found[0].outputs) > len(classes):
        words += (f"Of {len(found[0].outputs)} classes, the {len(classes)} that change most are shown.",)
    rows = [
        (one.columns[0], one.outputs[k], float(one.average[k].min()), float(one.average[k].max()))
        for one in found
        for k in classes
    ]
    view = table_of("Range of these curves", ("column", "of", "smallest average", "largest average"), rows)
    caption = "Average prediction against the most important columns."
    return Part("Partial dependence", words, image, caption, view, folded=True)


def _calm(axes: Any, result: Dependence) -> None:
    """No legend over a curve, few ticks, and names of categories turned where they would touch."""
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    if result.categorical[0]:
        names = [str(name) for name in result.grids[0]]
        if any(len(a) + len(b) + 2 > 2 * LETTERS / len(names) for a, b in pairwise(names)):
            axes.set_xticks(np.arange(len(names)), names, rotation=45, ha="right")
        return
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    if max(map(abs, axes.get_xlim())) < YEARS:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: decimal(fmt(value, group=False))))


def _moving(study: Study, names: list[str]) -> list[Dependence]:
    """Curves of the first columns that move the predictions at all; the refits may have leaned on others."""
    kinds, frame = study.plan.kinds, study.data.rows.X[study.plan.features]
    found: list[Dependence] = []
    for name in [name for name in names if kinds[name] in ("number", "category")][: 2 * LEADING]:
        rows = frame if kinds[name] == "number" else frame[frame[name].notna()]
        if kinds[name] == "category" and not 2 <= rows[name].nunique() <= 2 * POINTS:
            continue
        most = 200 if _burden(study) == 1 else 80
        one = partial_dependence(study.model, rows, name, grid=POINTS, max_rows=most, random_state=study.plan.seed)
        if np.ptp(one.average, axis=1).max() > 0:
            found.append(one)
        if len(found) == LEADING:
            break
    return found


def _burden(study: Study) -> int:
    """How dear a prediction is: five for hundreds of deep trees, ten where rows are compared with all training rows."""
    pipe = pipeline_of(study.model)
    if pipe is None:
        return 10
    model = pipe.named_steps["model"]
    if hasattr(model, "n_samples_fit_") or hasattr(model, "support_vectors_"):
        return 10
    return 5 if hasattr(model, "estimators_") else 1


def _liveliest(found: list[Dependence]) -> list[int]:
    """Positions of the few classes whose curves move most, in their own order."""
    moves = sum(np.ptp(one.average, axis=1) for one in found)
    return sorted(np.argsort(-np.asarray(moves), kind="stable")[:SHOWN].tolist())


def _readable(result: Dependence, classes: list[int]) -> Dependence:
    """Short names, and the chosen classes alone."""
    grids = tuple(
        np.array([plain(v, 12) for v in g], dtype=object) if c else g
        for g, c in zip(result.grids, result.categorical, strict=True)
    )
    few = {name: getattr(result, name)[classes] for name in ("average", "std_error", "lower", "upper")}
    outputs = tuple(plain(result.outputs[k], 16) for k in classes)
    return replace(result, columns=(plain(result.columns[0]),), grids=grids, outputs=outputs, **few)
