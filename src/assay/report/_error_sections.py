"""Where the selected model fails: errors of training rows that were held out, by class, size, subgroup and slice."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from assay.evaluation import Slices, Subgroups
from assay.experiment.wording import called, figure, with_unit
from assay.inference import mean_interval, proportion_interval
from assay.metrics import get_metric
from assay.metrics.confusion import Confusion, confusion_matrix
from assay.metrics.curves import calibration_curve, precision_recall_curve, roc_curve
from assay.numbers import figure as plain_figure
from assay.numbers import fmt, with_limits
from assay.report._embed import WIDTH, Part, View, attempt, decimal, p_value, percent, picture, say, table_of
from assay.report._held_out import HeldOut
from assay.report.draw_experiment import PredictedAgainstTrue, Residuals, plain
from assay.results import Interval

__all__ = ["confused_pairs", "error_parts", "positive_class", "subgroup_parts"]

Array = np.ndarray
WORST = 8
"""How many rows are listed as the worst."""
CELLS = 6
"""How many columns of them."""
LETTERS = 14
"""How long a class's name may be in a table of counts."""
MATRIX = 60
"""Up to this many classes the whole table of counts is shown; of more, the classes with the most errors."""
CONFUSED = 10
"""How many pairs of confused classes are listed."""
SLICES = 12
"""How many slices are listed."""


def error_parts(held: HeldOut) -> list[Part]:
    """The parts on errors, for numbers or for classes."""
    about = (
        f"Everything in this section and the next is about {held.n:,} training rows, each predicted by a model that "
        "had not seen it (out of fold)."
    )
    if held.study.has_test_set:
        about += " The test set is not searched: it gives the planned figures, once."
    intro = Part(words=(about,), wide=True)
    return [intro, *(_numbers(held) if held.classes is None else _classes(held))]


# Numbers.


def _numbers(held: HeldOut) -> list[Part]:
    worst = np.argsort(-np.abs(held.y - held.values), kind="stable")[:WORST]
    parts = attempt("Predicted and observed", lambda: _scatter(held, worst))
    parts += attempt("Residuals", lambda: _residuals(held, worst))
    parts += attempt("Error by size of the prediction", lambda: _by_size(held))
    return parts + attempt("The worst rows", lambda: _worst_rows(held, worst))


def _scatter(held: HeldOut, worst: Array) -> Part:
    result = PredictedAgainstTrue(held.y, held.values, "held-out training rows", worst)
    image = picture(result, (5.4, 4.2), "Observed against predicted values of held-out training rows", titled=False)
    caption = "Every dot is a row; on the dashed line the prediction is exact. Numbers are those of the worst rows."
    return Part("Predicted and observed", picture=image, caption=caption)


def _residuals(held: HeldOut, worst: Array) -> Part:
    result = Residuals(held.y, held.values, "held-out training rows", worst)
    image = picture(result, (5.4, 4.2), "Residuals against predicted values of held-out training rows", titled=False)
    return Part("Residuals", picture=image, caption="Observed minus predicted; the red line is the mean in bins.")


def _by_size(held: HeldOut) -> Part | None:
    """The average error and the bias in fifths of the predictions."""
    parts = [part for part in np.array_split(np.argsort(held.values, kind="stable"), 5) if part.size >= 5]
    if len(parts) < 2:
        return None
    unit, mae, level = held.study.wishes.unit, get_metric("mae"), held.study.plan.level
    rows = []
    for part in parts:
        found = held.interval(mae, part)
        off = held.values[part] - held.y[part]
        bias = mean_interval(off, level=level)
        low, high = held.values[part].min(), held.values[part].max()
        shown = with_limits(bias.estimate, bias.lower, bias.upper)
        rows.append(
            (
                decimal(" to ".join(with_unit(one, unit) for one in with_limits(np.nan, low, high)[1:])),
                part.size,
                with_unit(plain_figure(found.estimate, found.lower, found.upper), unit),
                " to ".join(with_limits(np.nan, found.lower, found.upper)[1:]),
                with_unit(shown[0], unit),
                f"{shown[1]} to {shown[2]}",
            )
        )
    interval = f"{100 * level:g}% interval"
    heads = ("prediction", "rows", "average error", interval, "predicted too high by", interval)
    sentences = ("How far off predictions are where they are small and where they are large.",)
    view = table_of("Fifths of the predictions", heads, rows, amounts=(2, 4))
    return Part("Error by size of the prediction", sentences, view=view, wide=True)


def _worst_rows(held: HeldOut, worst: Array) -> Part:
    plan, unit, numbers = held.study.plan, held.study.wishes.unit, held.row_numbers
    names = [name for name, kind in plan.kinds.items() if kind == "id"][:1]
    names += [name for name in plan.features if plan.kinds[name] != "id"][: CELLS - len(names)]
    off = np.abs(held.y - held.values)
    share = off[np.argsort(-off)[: max(1, held.n // 20)]].sum() / max(off.sum(), np.finfo(float).tiny)
    rows = [
        (
            str(k + 1),
            *(() if numbers is None else (str(numbers[at]),)),
            with_unit(fmt(held.y[at]), unit),
            with_unit(fmt(held.values[at]), unit),
            with_unit(fmt(held.y[at] - held.values[at]), unit),
            *(_cell(held.frame[name].iloc[at]) for name in names),
        )
        for k, at in enumerate(worst)
    ]
    heads = ("", *(() if numbers is None else ("row",)), "observed", "predicted", "difference", *names)
    sentences: tuple[str, ...] = (
        f"The 5% of rows with the largest errors make up {percent(float(share))} of the absolute error.",
    )
    if numbers is not None:
        sentences += (_numbering(plan.source),)
    first = heads.index("observed")
    view = table_of("Rows with the largest errors", heads, rows, amounts=range(first, first + 3))
    return Part("The worst rows", sentences, view=view, wide=True)


def _numbering(source: str) -> str:
    """What the numbers of rows count."""
    if source == "frame":
        return "Row: its position in the data frame, counted from 1."
    return f"Row: its number in {Path(source).name}, counted from 1 without the header."


def _cell(value: Any) -> str:
    if pd.isna(value):
        return say(None)
    if isinstance(value, pd.Timestamp):
        return str(value)[:10]
    return fmt(value, 6, group=False) if isinstance(value, int | float | np.number) else plain(value, 24)


# Classes.


def _classes(held: HeldOut) -> list[Part]:
    parts: list[Part] = []
    if held.labels is not None:
        counts = confusion_matrix(held.y, held.labels, labels=held.classes)
        parts += attempt("Each class", lambda: _each_class(held))
        parts += attempt("Most confused", lambda: _pairs(held, counts))
        parts += attempt("Confusion table", lambda: _matrix(counts))
    assert held.classes is not None
    if held.classes.size == 2 and np.unique(held.y).size == 2:
        parts += attempt("Thresholds", lambda: _thresholds(held))
        parts += _curves(held)
    return parts


def _each_class(held: HeldOut) -> Part:
    """Of the rows of a class, how many were recognised; of the rows called so, how many were rightly."""
    accuracy, rows = get_metric("accuracy"), []
    assert held.classes is not None
    assert held.labels is not None
    for label in held.classes:
        true, predicted = np.flatnonzero(held.y == label), np.flatnonzero(held.labels == label)
        shown = [_figure(held.interval(accuracy, part)) if part.size else say(None) for part in (true, predicted)]
        rows.append((str(label), true.size, shown[0], predicted.size, shown[1]))
    level = f"({100 * held.study.plan.level:g}% interval)"
    heads = ("class", "rows", f"recognised {level}", "called so", f"rightly {level}")
    sentences = (
        "Recognised: the share of the rows of a class that are predicted to be of it (recall). Rightly: the share of "
        "the rows predicted to be of the class that are of it (precision). Intervals hold for each class alone.",
    )
    return Part("Each class", sentences, view=table_of("Classes with recall and precision", heads, rows), wide=True)


def _figure(found: Interval) -> str:
    """A share with its interval."""
    three = with_limits(found.estimate, found.lower, found.upper, percent=True)
    return f"{three[0]} ({three[1]} to {three[2]})"


def _matrix(counts: Confusion) -> Part:
    """Counts of true and predicted classes as a table that any number of classes can have."""
    table, labels = np.asarray(counts.counts), list(counts.labels)
    sentences: tuple[str, ...] = (
        "How often the rows of a true class (in rows) are predicted to be of each class (in columns); shades are "
        "shares of the true class.",
    )
    if len(labels) > MATRIX:
        wrong = table.sum(axis=0) + table.sum(axis=1) - 2 * np.diag(table)
        kept = np.sort(np.argsort(-wrong, kind="stable")[:MATRIX])
        table, labels = table[np.ix_(kept, kept)], [labels[k] for k in kept]
        sentences += (f"The {MATRIX} classes with the most errors, of {len(counts.labels)}.",)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    names = [plain(label, LETTERS) for label in labels]
    rows = [(name, *(fmt(one) if one else "" for one in row)) for name, row in zip(names, table, strict=True)]
    view = table_of(
        "Counts of rows",
        ("true", *names),
        rows,
        shades=0.9 * shares,
    )
    return Part(
        "Confusion table",
        sentences,
        view=View(**{**vars(view), "numbers": frozenset(range(1, len(names) + 1))}),
        wide=len(labels) > 8,
    )


def confused_pairs(counts: Confusion) -> list[tuple[Any, Any, int, int]]:
    """True class, predicted class, how many rows, of how many; the most frequent confusion first."""
    table = np.asarray(counts.counts)
    wrong = table - np.diag(np.diag(table))
    order = np.argsort(-wrong, axis=None, kind="stable")
    pairs = [divmod(int(at), len(table)) for at in order[:CONFUSED]]
    return [
        (counts.labels[i], counts.labels[j], int(wrong[i, j]), int(table[i].sum())) for i, j in pairs if wrong[i, j]
    ]


def _pairs(held: HeldOut, counts: Confusion) -> Part | None:
    if len(counts.labels) < 3:
        return None
    level = held.study.plan.level
    rows = []
    for true, predicted, number, of in confused_pairs(counts):
        found = proportion_interval(number, of, level=level)
        three = with_limits(found.estimate, found.lower, found.upper, percent=True)
        rows.append((str(true), str(predicted), number, three[0], f"{three[1]} to {three[2]}"))
    if not rows:
        return None
    heads = ("class", "taken for", "rows", "share of the class", f"{100 * level:g}% interval")
    sentences = ("Intervals hold for each pair alone, rows taken as independent.",)
    return Part(
        "Most confused", sentences, view=table_of("Pairs of classes, the most frequent confusion first", heads, rows)
    )


def positive_class(held: HeldOut) -> tuple[Any, Array | None]:
    """The class that thresholds are about, and its probabilities: the planned one, or the rarer of two."""
    plan, classes = held.study.plan, held.classes
    assert classes is not None
    shares = held.predictions.get("probabilities")
    second = plan.labels[1] if plan.labels is not None else classes[int((held.y == classes[1]).mean() <= 0.5)]
    at = classes.tolist().index(second if not isinstance(second, np.generic) else second.item())
    if shares is None or shares.ndim != 1:
        return classes[at], None
    return classes[at], shares if at == 1 else 1 - shares


def _thresholds(held: HeldOut) -> Part | None:
    """What a decision at other thresholds would cost: error, cost, precision and recall."""
    positive, shares = positive_class(held)
    if shares is None:
        return None
    plan, hit = held.study.plan, held.y == positive
    used = getattr(held.study.model, "threshold_", None)
    cuts = _cuts(shares, float(hit.mean()), used)
    rows: list[tuple[Any, ...]] = []
    marked: list[int] = []
    for cut in cuts:
        positive_calls = shares >= cut
        wrong = (positive_calls != hit).mean()
        cells: list[Any] = [_cut(cut), percent(float(positive_calls.mean())), percent(float(wrong))]
        if plan.cost is not None:
            cost = (
                plan.cost["missed"] * (hit & ~positive_calls).sum() + plan.cost["false"] * (positive_calls & ~hit).sum()
            )
            cells.append(fmt(cost / hit.size))
        for among in (positive_calls, hit):
            cells.append(_figure(held.share(hit & positive_calls, among)) if among.any() else say(None))
        if used is not None and cut == used:
            marked.append(len(rows))
        rows.append(tuple(cells))
    cost_head = () if plan.cost is None else ("cost per row",)
    heads = ("threshold", f"called {plain(positive, 16)}", "wrong", *cost_head, "precision", "recall")
    sentences = [
        f"A row is called {positive} where its probability reaches the threshold. Precision: the share of such calls "
        f"that are right. Recall: the share of the rows of {positive} that are called so. {100 * plan.level:g}% "
        "intervals for each threshold alone" + ("." if held.groups is None else ", with groups counted, not rows."),
        "Whoever chooses a threshold in this table should measure it on new rows; --cost or --rate let the study "
        "choose it inside the folds.",
    ]
    if used is not None:
        sentences.append(
            "The marked threshold is that of the model. Each fold decided by one of its own, chosen without its rows, "
            "so the table of each class above and the leaderboard differ from that line, and are the fairer figures."
        )
    view = table_of("Thresholds on held-out rows", heads, rows, marked)
    return Part("Thresholds", tuple(sentences), view=view, wide=True)


def _cuts(shares: Array, prevalence: float, used: float | None) -> list[float]:
    """Even thresholds, or of a rare class those that call its share, its half and its multiples."""
    if prevalence >= 0.2:
        cuts = {round(0.1 * k, 1) for k in range(1, 10)}
    else:
        parts = np.clip(prevalence * np.array([0.25, 0.5, 1, 2, 5, 10]), 0, 0.9)
        cuts = {float(np.quantile(shares, 1 - part)) for part in parts} | {0.5}
    return sorted(cuts | ({float(used)} if used is not None else set()))


def _cut(value: float) -> str:
    return fmt(value, 3) if value >= 1e-4 else f"{value:.6f}"


CAPTIONS = {
    "ROC curve": "True against false positive rate over all thresholds; the band holds for the whole curve.",
    "Precision-recall curve": "Precision against recall; the band is pointwise.",
    "Calibration curve": "Observed against predicted shares in bins of equal width; the intervals hold simultaneously.",
}
CROWDED = 1_000
"""From here on calibration bins are ten instead of five."""


def _curves(held: HeldOut) -> list[Part]:
    """ROC, precision-recall and calibration of two classes."""
    positive, shares = positive_class(held)
    if shares is None:
        return []
    options = {"pos_label": positive, "level": held.study.plan.level}
    bins = 10 if held.n >= CROWDED else 5
    makers = {
        "ROC curve": partial(roc_curve, held.y, shares, band="simultaneous", **options),
        "Precision-recall curve": partial(precision_recall_curve, held.y, shares, drop_intermediate=True, **options),
        "Calibration curve": partial(calibration_curve, held.y, shares, band="simultaneous", n_bins=bins, **options),
    }
    return [part for title, make in makers.items() for part in attempt(title, partial(_curve, title, make))]


def _curve(title: str, make: Any) -> Part:
    image = picture(make(), (5.2, 4.0), f"{title} of held-out training rows", titled=title == "Calibration curve")
    return Part(title, picture=image, caption=CAPTIONS[title])


# Subgroups and slices.


def subgroup_parts(held: HeldOut) -> list[Part]:
    """The declared subgroups, and the worst slices that a search finds."""
    parts: list[Part] = []
    for column in held.study.wishes.by:
        parts += attempt(f"By {column}", partial(_subgroups, held, column))
    return parts + attempt("The worst slices", lambda: _slices(held))


def _subgroups(held: HeldOut, column: str) -> Part:
    found, plan = held.subgroups(column), held.study.plan
    image = picture(
        _short(found),
        (WIDTH, 1.3 + 0.3 * len(found.intervals)),
        f"{called(plan.metric)} by {plain(column)}",
        titled=False,
    )
    frame = found.to_frame()
    scale, points = (100.0, " (points)") if found.slices.loss == "error rate" else (1.0, "")
    rows = []
    for name, row in frame.iterrows():
        three = [figure(plan.metric, row[one], row["lower"], row["upper"]) for one in ("estimate", "lower", "upper")]
        gap = with_limits(*(scale * row[one] for one in ("difference", "difference_lower", "difference_upper")))
        rows.append((str(name), int(row["n"]), three[0], f"{three[1]} to {three[2]}", gap[0], f"{gap[1]} to {gap[2]}"))
    level = f"{100 * plan.level:g}% interval"
    heads = (
        "subgroup",
        "rows",
        called(plan.metric, short=True),
        level,
        f"difference in {found.slices.loss}{points}",
        level,
    )
    worse = [plain(found.slices.names[int(k)], 60) for k in found.slices.worse]
    verdict = f"Shown to have a greater {found.slices.loss}: {', '.join(worse)}." if worse else ""
    if worse and not len(held.slices.worse):
        verdict += " The search below compares more slices at once, so its intervals are wider."
    sentences = (
        f"{called(plan.metric)[:1].upper()}{called(plan.metric)[1:]} in each subgroup, with an interval for each "
        f"alone. The difference compares the {found.slices.loss} with all other rows; these intervals hold together.",
        *([verdict] if verdict else []),
    )
    return Part(
        f"By {plain(column)}", sentences, image, "", table_of(f"Subgroups of {plain(column)}", heads, rows), wide=True
    )


def _short(found: Subgroups) -> Subgroups:
    return Subgroups(plain(found.column), {plain(name, 36): one for name, one in found.intervals.items()}, found.slices)


def _slices(held: HeldOut) -> Part:
    found, plan = held.slices, held.study.plan
    if not len(found):
        return Part("The worst slices", ("No column has two parts with enough rows to be compared.",))
    worse = len(found.worse)
    searched = f"{len(found)} slices (one column at a time: quartiles of numbers, levels of categories)"
    some = f" of {found.rows:,} rows" if found.rows < held.n else ""
    verdict = (
        f"{worse} {'is' if worse == 1 else 'are'} shown to have a greater {found.loss} than the other rows."
        if worse
        else f"None is shown to have a greater {found.loss} than the other rows."
    )
    sentences = [
        f"{searched}{some} were searched. {verdict}",
        f"Intervals hold for all slices together, so that with no real difference anywhere a slice is called worse in "
        f"at most {100 * (1 - plan.level):.3g}% of studies ({found.method}).",
    ]
    if plan.time is not None:
        sentences.append("Rows are taken as independent here, which rows close in time may not be.")
    scale = 100.0 if found.loss == "error rate" else 1.0
    heads = ("slice", "rows", found.loss + (" (%)" if scale > 1 else ""), "elsewhere", "difference", "from", "to", "p")
    rows = []
    frame = found.to_frame().head(SLICES)
    for name, row in frame.iterrows():
        gap = with_limits(*(scale * row[one] for one in ("difference", "lower", "upper")))
        pair = with_limits(np.nan, *sorted(scale * row[one] for one in ("mean", "rest")))
        mean, rest = (pair[2], pair[1]) if row["mean"] >= row["rest"] else (pair[1], pair[2])
        rows.append((str(name), int(row["n"]), mean, rest, *gap, p_value(row["p_value"])))
    image = picture(
        _first(found, SLICES),
        (WIDTH, 1.4 + 0.3 * len(rows)),
        "Slices with the greatest losses, and intervals",
        titled=False,
    )
    view = table_of(f"The {len(rows)} worst slices", heads, rows, found.worse[found.worse < len(rows)].tolist())
    caption = f"Difference in {found.loss} from all other rows, with simultaneous intervals."
    return Part("The worst slices", tuple(sentences), image, caption, view, folded=True, wide=True)


def _first(found: Slices, count: int) -> Slices:
    """The first slices, under short names."""
    parts = {
        name: getattr(found, name)[:count] for name in ("n", "mean", "rest", "difference", "lower", "upper", "p_value")
    }
    return Slices(
        names=tuple(plain(name, 40) for name in found.names[:count]),
        columns=found.columns[:count],
        overall=found.overall,
        rows=found.rows,
        level=found.level,
        loss=found.loss,
        method=found.method,
        **parts,
    )
