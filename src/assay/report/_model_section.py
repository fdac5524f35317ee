"""The report on what the selected model learned: importances, dependence, contributions, coefficients, the tree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.tree import export_text, plot_tree
from threadpoolctl import threadpool_limits

from assay.evaluation import Dependence, Importance
from assay.experiment.panel import BASELINE, pipeline_of
from assay.numbers import with_limits
from assay.report._contributions_section import contributions
from assay.report._embed import WIDTH, Part, attempt, p_value, picture, table_of
from assay.report._held_out import HeldOut
from assay.report._inspection_section import Refit, dependence, importance, refits_of
from assay.report.draw_experiment import plain
from assay.report.picture import INK, MUTED
from assay.results import Summary
from assay.trees.tree import Tree

if TYPE_CHECKING:
    from assay.experiment.study import Study

__all__ = ["Learned", "learned"]

Array = np.ndarray
COEFFICIENTS = 25
"""How many coefficients are drawn; the table holds more."""
CLASSES = 8
"""How many classes have a column there."""
ROWS = 100
"""How many rows a table of coefficients has at most."""
WIDE = 300
"""Wider models are not fitted again for their covariance matrix."""
FEW = 12
"""Longer tables of coefficients are folded."""
DATE_PARTS = {
    "days": "days passed",
    "year": "year",
    "month": "month",
    "weekday": "weekday, from Monday",
    "year sin": "season, sine",
    "year cos": "season, cosine",
    "day sin": "time of day, sine",
    "day cos": "time of day, cosine",
}
"""How the parts of a date are called; a place on a circle has two."""
LEAVES, DRAWN = 64, 12
"""Leaves of another package's tree above which it is not drawn; leaves drawn of ours."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What the model learned: the parts of the section, and the results behind them that the first page names."""

    parts: list[Part]
    importance: Importance | None = None
    curves: list[Dependence] = field(default_factory=list)


def learned(study: Study, held: HeldOut) -> Learned:
    """The section on the selected model; a part that fails becomes a sentence."""
    if study.select().name == BASELINE:
        words = ("The selected model is the baseline: it uses no columns and always predicts the same.",)
        return Learned([Part(words=words)])
    # Hundreds of small predictions: threads of other packages would spend longer waiting for each other than working.
    with threadpool_limits(limits=1, user_api="openmp"):
        return _learned(study, held)


def _learned(study: Study, held: HeldOut) -> Learned:
    found: list[Importance] = []
    curves: list[Dependence] = []
    refits: list[Refit] = []

    def first() -> Part | None:
        refits.extend(refits_of(study))
        return importance(study, refits, found)

    parts = attempt("Column importance", first)
    if found:  # without importances nothing says which columns lead
        names = [found[0].names[j] for j in found[0].order]
        parts += attempt("Partial dependence", lambda: dependence(study, names, curves))
    if refits:
        parts += contributions(held, refits)
    parts += attempt("Coefficients", lambda: _coefficients(study))
    parts += attempt("The tree", lambda: _tree(study))
    parts = parts or [Part(words=("This model has no coefficients or trees to show.",))]
    return Learned(parts, found[0] if found else None, curves)


# Coefficients.


def _coefficients(study: Study) -> Part | None:
    """Coefficients in the units of the original columns, with the model's own intervals where it has them."""
    pipe = pipeline_of(study.model)
    if pipe is None:
        return _weights(study.model)
    model, columns = pipe.named_steps["model"], pipe.named_steps["columns"]
    if not hasattr(model, "coef_"):
        return None
    dates = [name for name, kind in study.plan.kinds.items() if kind == "date"]
    spoken = {f"{name} {part}": f"{name}: {words}" for name in dates for part, words in DATE_PARTS.items()}
    names = [spoken.get(str(name), str(name)) for name in columns.get_feature_names_out()]
    unit = columns.divisors
    words: tuple[str, ...] = ("The table has the effect of one unit of a column, all others unchanged.",)
    if getattr(model, "inference", True) is False and len(model.coef_) == 1 and len(names) <= WIDE:
        model = _with_inference(study, pipe, model)
        words += ("The penalty pulls coefficients towards 0; the intervals are around these shrunken values.",)
    summary = _summary(model, names, study.plan.level)
    if summary is not None and {"estimate", "lower", "upper"} <= set(summary.table.columns):
        ends = summary.table[["lower", "upper"]].drop(index="intercept", errors="ignore").to_numpy(dtype=float)
        if np.isfinite(ends).any():
            return _with_intervals(summary, unit, words, study.plan.level)
    return _without_intervals(_bare(model, names).div(pd.Series(unit, index=names), axis=0), words[:1])


def _without_intervals(table: pd.DataFrame, words: tuple[str, ...]) -> Part:
    """The coefficients of a model after a search or a penalty that leaves no valid interval."""
    words = (*words, "No intervals are given: this model has none that would be valid.")
    if table.shape[1] > CLASSES:
        words += (f"The first {CLASSES} of {table.shape[1]} classes are shown.",)
        table = table.iloc[:, :CLASSES]
    zero = int((table == 0).all(axis=1).sum())
    used = (f"{len(table) - zero} of {len(table)} coefficients are not zero.",) if zero else ()
    order = table.abs().max(axis=1).sort_values(ascending=False, kind="stable").index
    table = table.loc[order][: max(1, len(table) - zero)]
    view = table_of(
        _counted("Coefficients, largest first", len(table)),
        ("column", *table.columns),
        [(name, *row) for name, row in zip(table.index[:ROWS], table.to_numpy()[:ROWS].tolist(), strict=True)],
    )
    return Part("Coefficients", (*used, *words), view=view, folded=len(table) > FEW, wide=table.shape[1] > 3)


def _with_inference(study: Study, pipe: Any, model: Any) -> Any:
    """The same model, fitted to the same rows with its covariance matrix: the study itself does without for speed."""
    X = pipe.named_steps["columns"].transform(study.data.rows.X[study.plan.features])
    return clone(model).set_params(inference=True).fit(X, study.data.rows.y)


def _rescaled(summary: Summary, unit: Array) -> Summary:
    """The table with one unit of the original column in place of one standard deviation; no intercept, which moves."""
    table = summary.table.drop(index="intercept", errors="ignore").copy()
    for name in ("estimate", "std_error", "lower", "upper"):
        if name in table:
            table[name] = table[name].to_numpy(dtype=float) / unit
    return replace(summary, table=table)


def _summary(model: Any, names: list[str], level: float) -> Summary | None:
    """The model's own table under the names of the columns."""
    if not hasattr(model, "summary"):
        return None
    found = model.summary(level=level)
    first = ["intercept"] if "intercept" in found.table.index else []
    if len(found.table) != len(names) + len(first):
        return None
    return replace(found, table=found.table.set_axis([*first, *names], axis=0))


def _with_intervals(summary: Summary, unit: Array, words: tuple[str, ...], level: float) -> Part:
    """A picture on one scale, the effect of one standard deviation, and a table in the units of the columns."""
    slopes = summary.table.drop(index="intercept", errors="ignore")
    size = (slopes["estimate"] / slopes["std_error"]).abs() if "std_error" in slopes else slopes["estimate"].abs()
    order = np.argsort(-np.nan_to_num(size.to_numpy(dtype=float), posinf=1e300), kind="stable")
    shown = slopes.iloc[order[:COEFFICIENTS]]
    drawn = shown.set_axis([plain(name) for name in shown.index], axis=0)
    drawn = drawn[np.isfinite(drawn[["estimate", "lower", "upper"]].to_numpy(dtype=float)).all(axis=1)]
    words = (
        *words,
        f"The {100 * level:g}% intervals treat the model as given: they do not account for its selection.",
        *(str(note) for note in summary.notes),
    )
    table = _rescaled(summary, unit).table.iloc[order][:ROWS]
    rows = []
    for name, row in zip(table.index, table.to_dict("records"), strict=True):
        three = with_limits(row["estimate"], row["lower"], row["upper"])
        rows.append((str(name), *three, *([p_value(row["p_value"])] if "p_value" in row else [])))
    view = table_of(
        _counted(f"{summary.title}: effect of one unit, {100 * level:g}% intervals", len(slopes)),
        ("column", "effect of one unit", "from", "to", *(["p"] if "p_value" in table else [])),
        rows,
    )
    image = None
    if len(drawn):
        alt = f"Coefficients with intervals, most significant first: {', '.join(drawn.index[:5])}"
        image = picture(replace(summary, table=drawn), (WIDTH, 1.2 + 0.26 * len(drawn)), alt, titled=False)
    caption = f"The {len(drawn)} most significant coefficients; numbers by standard deviation of their column."
    return Part("Coefficients", words, image, caption, view, folded=len(rows) > FEW)


def _bare(model: Any, names: list[str]) -> pd.DataFrame:
    """Coefficients of a model without intervals: a column, or one for each class."""
    values = np.atleast_2d(np.asarray(model.coef_, dtype=float))
    classes = [f"class {label}" for label in np.asarray(getattr(model, "classes_", [])).tolist()]
    heads = (
        classes if len(classes) == len(values) else ["coefficient"] if len(values) == 1 else list(range(len(values)))
    )
    return pd.DataFrame(values.T, index=names, columns=heads)


def _counted(words: str, rows: int) -> str:
    return words if rows <= ROWS else f"{words} ({ROWS} of {rows})"


def _weights(model: Any) -> Part | None:
    """The members of an ensemble."""
    if not hasattr(model, "weights_"):
        return None
    rows = [(name, f"{weight:.3f}") for name, weight in zip(model.names_, model.weights_, strict=True)]
    words = ("The prediction is the mean of these learners' predictions with these weights, fitted on inner folds.",)
    return Part("Weights", words, view=table_of("Weights of the ensemble", ("learner", "weight"), rows))


# Trees.


def _tree(study: Study) -> Part | None:
    pipe = pipeline_of(study.model)
    if pipe is None:
        return None
    model = pipe.named_steps["model"]
    if isinstance(model, Tree):
        return _own_tree(model)
    if hasattr(model, "tree_") and hasattr(model, "get_n_leaves") and model.get_n_leaves() <= LEAVES:
        return _other_tree(pipe)
    return None


def _own_tree(model: Tree) -> Part:
    leaves, shown = int(model.get_n_leaves()), min(DRAWN, int(model.get_n_leaves()))
    words = (f"{leaves} leaves, depth {model.get_depth()}. A row takes the first branch if the condition holds.",)
    if leaves == 1:
        return Part("The tree", ("The tree was pruned to its root: no split was worth keeping.",))
    image = picture(
        None,
        (max(5.0, 0.8 * shown), 0.9 + min(6.0, 0.85 * model.get_depth())),
        "The fitted tree",
        paper=True,
        paint=lambda axes: model.plot(ax=axes, max_leaves=DRAWN),
    )
    caption = "The tree." if leaves <= DRAWN else f"The tree, drawn to {DRAWN} leaves."
    return Part("The tree", words, image, caption, listing=str(model.export_text(max_depth=12)))


def _other_tree(pipe: Any) -> Part:
    """A tree of scikit-learn as a user-defined learner."""
    model, columns = pipe.named_steps["model"], pipe.named_steps["columns"]
    names = [plain(name, 24) for name in columns.get_feature_names_out()]
    classes = None if not hasattr(model, "classes_") else [plain(label, 16) for label in model.classes_.tolist()]
    depth = min(3, int(model.get_depth()))
    leaves = min(2**depth, int(model.get_n_leaves()))

    def paint(axes: Any) -> None:
        words = {"feature_names": names, "class_names": classes, "precision": 3, "impurity": False}
        plot_tree(model, max_depth=depth, rounded=True, fontsize=8, ax=axes, **words)
        for text in axes.texts:
            box = text.get_bbox_patch()
            if box is not None:  # what is left out would be dark boxes
                box.set(facecolor="white", edgecolor=MUTED if text.get_text().strip() == "(...)" else INK)

    image = picture(
        None,
        (max(6.0, 1.75 * leaves), 1.5 + 1.15 * depth),
        f"The first {depth} levels of the fitted tree",
        paper=True,
        paint=paint,
    )
    rules = _distinct(names)
    listing = export_text(model, feature_names=rules, class_names=classes, max_depth=12, decimals=3)
    words = (
        f"{model.get_n_leaves()} leaves, depth {model.get_depth()}. A row goes left if the condition holds; "
        "categories are coded by the alphabetical position of their level.",
    )
    return Part("The tree", words, image, f"The tree, drawn to depth {depth}.", listing=listing)


def _distinct(names: list[str]) -> list[str]:
    """Shortened names, numbered where they are equal."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told
