"""The first page, for a reader who is not a statistician: how far off, what drives it, where it fails, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.errors import AssayError
from assay.evaluation import Dependence, Importance, Slices
from assay.experiment.checks.tails import tail_out_of_fold
from assay.experiment.panel import BASELINE
from assay.experiment.record import folds_outside, where
from assay.experiment.wording import MEANING, amount, called, roughly, threshold, with_unit
from assay.metrics.confusion import confusion_matrix
from assay.metrics.definition import PERCENT
from assay.metrics.tails import loss_words
from assay.numbers import fmt, with_limits
from assay.report._embed import percent, sentence
from assay.report._error_sections import confused_pairs
from assay.report._held_out import HeldOut
from assay.report._inspection_section import columns_of
from assay.report.draw_experiment import plain
from assay.results import Interval

if TYPE_CHECKING:
    from assay.experiment.study import Study

__all__ = ["Answer", "Bar", "how_far_off", "what_drives_it", "what_to_do", "where_it_fails"]

LEADERS = 5
"""How many columns the first page names."""
WEAK = 3
"""How many slices it names."""


@dataclass(frozen=True)
class Bar:
    """A figure with a bar: what it is of, its text, and its share of the width."""

    label: str
    value: str
    share: float
    muted: bool = False


@dataclass(frozen=True)
class Answer:
    """One question of the first page, answered."""

    key: str
    title: str
    lead: str = ""
    words: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    code: str = ""
    link: str = ""
    more: str = ""


# How far off.


LEADS = {
    "rmse": "Predictions are typically off by {figure} ({limits}).",
    "mae": "Predictions are off by {figure} on average ({limits}).",
    "median_absolute_error": "Half of the predictions are off by less than {figure} ({limits}).",
    "p90_absolute_error": "Nine in ten predictions are off by less than {figure} ({limits}).",
    "r2": "Predictions explain {figure} of the variance ({limits}); 1 would be perfect.",
    "error": "{figure} of the predictions are wrong ({limits}).",
    "accuracy": "{figure} of the predictions are right ({limits}).",
    "balanced_accuracy": "{figure} of the predictions are right, every class counting the same ({limits}).",
    "risk": "A decision costs {figure} on average ({limits}).",
    "auc": "Of two rows of different classes it ranks the right one first with a chance of {figure} ({limits}).",
}


OFF = ("is off by", "the model's error is {share} {smaller}")
GUESSES = {
    "rmse": OFF,
    "mae": OFF,
    "median_absolute_error": OFF,
    "p90_absolute_error": OFF,
    "error": ("is wrong in", "the model makes {share} {fewer} errors"),
    "risk": ("costs", "the model costs {share} {less}"),
}
"""What the guess does, and how the model compares with it."""


def how_far_off(study: Study) -> Answer:
    """The main figure beside that of today's guess, from the test set or, while that is sealed, from the folds."""
    opened, unit = study.opened, study.wishes.unit
    if opened is not None and opened.release is not None:
        answer = (sentence(roughly(opened.release)), "This look at the test set was not planned.")
        return Answer("far", "How far off is it?", words=answer, link="test", more="The test set")
    chosen = study.select().name
    metric, intervals, guess, source = _judged(study)
    interval = intervals[metric]
    figure, between = amount(metric, interval.estimate, interval.lower, interval.upper, unit)
    decided = _decided_by_few(study)
    if decided and all(name in intervals for name in SPREAD):
        half, most = (_lead(name, intervals[name], unit) for name in SPREAD)
        limits = f"{100 * interval.level:.4g}% interval {between}"
        main = f"The main figure, the {called(metric)}, is {figure} ({limits}). {decided}"
        lead, sentences = half, [most, f"{main} For a single row go by the two figures above."]
    else:
        lead = _lead(metric, interval, unit)
        sentences = [decided] if decided else []
        sentences += _spread(metric, intervals, unit)
    bars: tuple[Bar, ...] = ()
    if guess is not None and chosen != BASELINE:
        other, _ = amount(metric, guess, interval.lower, interval.upper, unit)
        sentences.append(_against(metric, float(interval.estimate), float(guess), other, study))
        of = f", {called(metric, short=True)}" if decided else ""
        pair = (f"{chosen}{of}", figure, float(interval.estimate)), (f"today's guess{of}", other, float(guess))
        bars = _pair(metric, *pair)
    link, more = ("test", "The test set") if study.n_test else ("outer", "The outer folds")
    return Answer("far", "How far off is it?", lead, (*sentences, source), bars, link=link, more=more)


def _judged(study: Study) -> tuple[str, Mapping[str, Interval], float | None, str]:
    """The main metric, the figures, that of the guess, and a sentence that says which rows they are from."""
    plan, opened, outer = study.plan, study.opened, study.outer
    if opened is not None:
        source = f"Measured once, on {study.n_test:,} rows that were set aside before anything was fitted."
        return opened.primary, opened.intervals, opened.baseline.get(opened.primary), source
    if outer is not None and outer.intervals:
        source = "There is no test set: the whole procedure was repeated on outer folds of the rows and judged on them."
        return outer.primary, outer.intervals, outer.baseline.get(outer.primary), source
    results, chosen = study.leaderboard.results, study.select().name
    how = "On validation rows among" if plan.cv == "holdout" else "By cross-validation of"
    source = (
        f"{how} {len(study.rows):,} training rows; the test set has not been opened yet, so this is a little too good."
    )
    guess = results[BASELINE].estimate if BASELINE in results else None
    return plan.metric, {plan.metric: results[chosen].interval(plan.level)}, guess, source


def _lead(metric: str, interval: Interval, unit: str | None) -> str:
    """A figure with its interval as a sentence."""
    figure, between = amount(metric, interval.estimate, interval.lower, interval.upper, unit)
    level = f"{100 * interval.level:.4g}% interval {between}"
    return LEADS.get(metric, f"Its {called(metric)} is {{figure}} ({{limits}}).").format(figure=figure, limits=level)


def _decided_by_few(study: Study) -> str:
    """That a few rows decide the main figure, so that other rows may give another one; empty where they do not."""
    opened, chosen, metric = study.opened, study.select().name, study.plan.measure(study.plan.metric)
    if opened is not None and opened.tail is not None and opened.tail.heavy:
        tail, place = opened.tail, "in the test set"
    else:
        found = tail_out_of_fold(study.leaderboard.results[chosen], metric)
        agree = opened is not None and folds_outside(study.state) is None
        if found is None or not found.heavy or agree:
            return ""
        tail, place = found, where(study.plan)
    text = f"Few rows decide it: {place} {tail.carried(loss_words(metric))}, so other rows can give another figure."
    other = folds_outside(study.state)
    if other is None:
        return text
    shown = amount(metric.name, other, unit=study.wishes.unit)[0]
    return f"{text} The training rows gave {shown} {where(study.plan)}, which the interval excludes."


def _against(metric: str, value: float, guess: float, shown: str, study: Study) -> str:
    """Today's guess in words, and how much is gained on it."""
    subject = f"Today's guess, {_guess(study, metric)} for every row,"
    if metric == "auc":
        return "Today's guess, without any column, is right half of the time (0.5)."
    if metric == "r2":
        return f"{subject} explains nothing."
    if metric in ("accuracy", "balanced_accuracy"):
        return f"{subject} is right in {shown}."
    verb, gain = GUESSES.get(metric, ("has", "the model's figure is {share} {smaller}"))
    comparatives = {True: ("smaller", "fewer", "less"), False: ("larger", "more", "more")}[value < guess]
    share = percent(abs(1 - value / guess)) if guess > 0 else ""
    gained = gain.format(share=share, smaller=comparatives[0], fewer=comparatives[1], less=comparatives[2])
    return f"{subject} {verb} {shown}" + (f"; {gained}." if share else ".")


def _guess(study: Study, metric: str) -> str:
    """What the baseline says of every row."""
    if study.plan.task == "regression":
        baseline = next(one for one in study.data.learners if one.name == BASELINE).make(0)
        mean = baseline.strategy == "mean"
        value = np.mean(study.data.rows.y[study.data.fitted_to(study.plan)]) if mean else baseline.constant
        shown = with_unit(fmt(float(value)), study.wishes.unit)
        return f"the {'mean' if mean else 'median'} of the training rows ({shown})"
    if study.plan.measure(metric).needs != "labels":
        return "the shares of the classes"
    said = np.unique(np.concatenate(study.leaderboard.results[BASELINE].fold_predictions["labels"]))
    return f"the same class ({plain(said[0], 40)})" if said.size == 1 else "one class"


def _pair(metric: str, *found: tuple[str, str, float]) -> tuple[Bar, ...]:
    """Both figures as bars on one scale from 0; none for metrics without a natural zero."""
    values = [max(0.0, one[2]) for one in found]
    top = 1.0 if metric in ("auc", *PERCENT) and max(values) > 0.5 else max(values)
    if metric == "r2" or not top > 0 or not np.isfinite(top):
        return ()
    return tuple(
        Bar(name, shown, round(min(1.0, value / top), 4), muted=k > 0)
        for k, ((name, shown, _), value) in enumerate(zip(found, values, strict=True))
    )


SPREAD = ("median_absolute_error", "p90_absolute_error")
"""Metrics that say within what half, and nine tenths, of the errors lie."""


def _spread(metric: str, intervals: Mapping[str, Interval], unit: str | None) -> list[str]:
    """Within what half, and nine tenths, of the errors lie."""
    if metric in SPREAD or not all(name in intervals for name in SPREAD):
        return []
    half, most = (
        amount(name, one.estimate, one.lower, one.upper, unit)[0]
        for name, one in ((name, intervals[name]) for name in SPREAD)
    )
    return [f"Half of the predictions are within {half}, nine in ten within {most}."]


# What drives it.


def what_drives_it(study: Study, found: Importance | None, curves: list[Dependence]) -> Answer:
    """The columns that are shown to matter, and in which direction."""
    title = "What drives it?"
    if study.select().name == BASELINE:
        return Answer(
            "drives", title, words=("Nothing: the selected model is the guess itself, which uses no column.",)
        )
    if found is None:
        return Answer("drives", title, words=("The importance of the columns could not be measured.",))
    order = [int(j) for j in found.order if found.lower[j] > 0]
    if not order:
        none = "No single column is shown to matter by itself; columns that say the same can stand in for each other."
        return Answer("drives", title, words=(none,), link="model", more="What the model learned")
    top = float(found.importance[order[0]])
    ways = {one.columns[0]: _way(one) for one in curves}
    bars = tuple(
        Bar(
            plain(found.names[j], 40) + ways.get(found.names[j], ""),
            _rise(study, found, j),
            round(max(0.0, float(found.importance[j])) / top, 4),
        )
        for j in order[:LEADERS]
    )
    rest, every = len(order) - len(bars), len(columns_of(study))
    tried = f"{len(found.names)} columns" + ("" if len(found.names) == every else f" tried (there are {every})")
    sentences = (
        f"How much worse the {called(found.metric)} gets when a column's values are shuffled, on "
        f"{found.n:,} rows that the models had not seen; {len(order)} of {tried} "
        + ("is" if len(order) == 1 else "are")
        + " shown to matter"
        + (f", {rest} more than listed here." if rest > 0 else "."),
        "A column that drives the predictions need not be a cause.",
    )
    return Answer("drives", title, words=sentences, bars=bars, link="model", more="What the model learned")


def _rise(study: Study, found: Importance, j: int) -> str:
    scale, points = (100.0, " points") if found.metric in PERCENT else (1.0, "")
    shown = with_limits(*(scale * float(getattr(found, name)[j]) for name in ("importance", "lower", "upper")))[0]
    unit = study.wishes.unit if found.metric in ("rmse", "mae") else None
    return f"+{with_unit(shown, unit)}{points}"


def _way(curve: Dependence) -> str:
    """Whether the average prediction mostly rises or falls with a number."""
    if curve.categorical[0] or len(curve.outputs) != 1:
        return ""
    line = curve.average[0][curve.support] if curve.support.any() else curve.average[0]
    moved, reach = float(line[-1] - line[0]), float(np.ptp(line))
    if reach == 0 or abs(moved) < 0.7 * reach:
        return ""
    what = plain(curve.outputs[0], 20) if curve.outputs[0] else ""
    return (
        f": more, {'higher' if moved > 0 else 'lower'}"
        if not what
        else f": more, {what} {'likelier' if moved > 0 else 'less likely'}"
    )


# Where it fails.


def where_it_fails(study: Study, held: HeldOut) -> Answer:
    """Slices shown to be worse, the commonest confusion, and how the largest errors weigh."""
    found, unit = held.slices, study.wishes.unit
    sentences: list[str] = []
    lead = ""
    bars: tuple[Bar, ...] = ()
    worse = [int(k) for k in found.worse[:WEAK]]
    if worse:
        count = len(found.worse)
        lead = f"In {count} of {len(found)} slices of the table it is shown to do worse than elsewhere."
        bars = _weak(found, worse, unit)
        sentences.append(
            f"Slices are by one column at a time and overlap; in all rows: {_one(found, found.overall, unit)}."
            + (f" The Brier score is the {MEANING['brier']}." if found.loss == "Brier score" else "")
        )
    elif len(found):
        asked = _asked_for(held)
        lead = "No part of the table is shown to be worse than the rest."
        if asked:
            lead = f"It is shown to do worse than elsewhere where {listed_plainly(asked)}."
            sentences.append("That is among the subgroups that were asked for; a search of all columns shows none.")
        sentences.append(f"{len(found)} slices were searched, one column at a time, with a correction for the search.")
    else:
        lead = "No column has two parts with enough rows to be compared."
    if held.classes is not None and held.labels is not None:
        pairs = confused_pairs(confusion_matrix(held.y, held.labels, labels=held.classes))
        told = [f"{number:,} of {of:,} rows of {true} are taken for {said}" for true, said, number, of in pairs[:2]]
        if told:
            sentences.append(f"{'Errors' if held.classes.size == 2 else 'Commonest confusions'}: {', '.join(told)}.")
    if held.classes is None:
        off = np.sort(np.abs(held.y - held.values))[::-1]
        share = off[: max(1, off.size // 20)].sum() / max(off.sum(), np.finfo(float).tiny)
        sentences.append(f"The worst 5% of rows make up {percent(float(share))} of all error.")
    sentences.append(f"From {held.n:,} training rows, each predicted by a model that had not seen it.")
    return Answer("fails", "Where does it fail?", lead, tuple(sentences), bars, link="errors", more="Errors in detail")


def _asked_for(held: HeldOut) -> list[str]:
    """Subgroups of the columns that were asked for that are shown to do worse, compared with each other alone."""
    found: list[str] = []
    for column in held.study.wishes.by:
        try:
            compared = held.subgroups(column).slices
        except AssayError:  # too few rows: its own section says so
            continue
        found += [plain(compared.names[int(k)], 60) for k in compared.worse]
    return found


def listed_plainly(names: list[str]) -> str:
    """A few names in a sentence.

    >>> listed_plainly(["a"]), listed_plainly(["a", "b", "c"])
    ('a', 'a, b or c')
    """
    return ", ".join(names[:-1]) + (" or " if len(names) > 1 else "") + names[-1]


def _weak(found: Slices, worse: list[int], unit: str | None) -> tuple[Bar, ...]:
    """The worst slices, their mean loss as bars."""
    top = max(float(found.mean[k]) for k in worse)
    return tuple(
        Bar(
            f"{plain(found.names[k], 60)} ({found.n[k]:,} rows)",
            _one(found, float(found.mean[k]), unit),
            round(float(found.mean[k]) / top, 4),
        )
        for k in worse
    )


def _one(found: Slices, value: float, unit: str | None) -> str:
    """A mean loss in words."""
    if found.loss == "error rate":
        return f"{percent(value)} wrong"
    if found.loss == "absolute error":
        return f"off by {with_unit(fmt(value, 3), unit)}"
    return f"{found.loss} {fmt(value, 3)}"


# What to do with it.


ADVICE = {
    "test-better": "Use it for rows like these.",
    "test-worse": "Do not use it: the guess is better.",
    "test-unclear": "Do not rely on it yet: it is not shown to beat the guess.",
    "test-baseline": "Keep the guess: no learner did better.",
    "test-untested": "Do not rely on it yet: it could not be compared with the guess.",
    "outer-better": "Use it for rows like these; no test set confirms it.",
    "outer-worse": "Do not use it: the guess is better.",
    "outer-unclear": "Do not rely on it yet: it is not shown to beat the guess.",
    "outer-baseline": "Keep the guess: no learner did better.",
    "outer-untested": "Do not rely on it yet: it could not be compared with the guess.",
    "outer-ahead": "Promising, but only a guide: score it on later rows before you rely on it.",
    "folds-better": "Promising: decide all that is open, then open the test set once.",
    "folds-ahead": "Promising: decide all that is open, then open the test set once.",
    "folds-untested": "Do not rely on it yet: it could not be compared with the guess.",
    "folds-other": "Do not rely on it yet: it is not shown to beat the guess.",
    "folds-none": "Do not rely on it yet: it is not shown to beat the guess.",
}


def what_to_do(study: Study, held: HeldOut, finding: str) -> Answer:
    """The advice that follows from the finding, the checks, the plan and the classes it predicts."""
    stops = study.checks.stops
    lead, sentences = ADVICE[finding], []
    if study.opened is not None and finding in ("folds-better", "folds-ahead"):  # a look beyond the plan
        lead = "Promising: new test rows are needed to confirm it."
    if stops:
        lead = f"First resolve a serious check: {stops[0].title}."
        sentences.append(sentence(stops[0].remedy))
    elif finding in ("test-unclear", "outer-unclear", "folds-none", "folds-other", "test-untested"):
        sentences.append("More rows, or columns that say more about the target, would help.")
    if finding in ("test-better", "outer-better") and not stops:
        population = study.plan.population
        sentences.append(f"The figures hold for {population}; for other places, times or people, measure again.")
    other = study.readable
    if other is not None and not other.is_best and other.within and study.select().name != other.name:
        sentences.append(f"If it must be explained, {other.name} is about as good and can be read.")
    sentences += filter(None, [threshold(study.model, study.plan), _never(held)])
    warned = [one for one in study.checks if one.status == "found" and one.severity != "info"]
    if warned:
        some = "; ".join(one.title for one in warned[:3]) + ("; and more" if len(warned) > 3 else "")
        sentences.append(f"{len(warned)} {'check' if len(warned) == 1 else 'checks'} to read first: {some}.")
    code = ""
    if study.opened is None and study.n_test:
        code = f"assay open {study.name}"
    elif finding in ("test-better", "outer-better") and not stops:
        code = "assay predict model.assay TABLE -o predictions.csv"
    return Answer("do", "What to do with it?", lead, tuple(sentences), code=code, link="limits", more="Limits")


def _never(held: HeldOut) -> str:
    """What to do where the rarer of two classes is never predicted, although rows can be ranked by its probability."""
    if held.classes is None or held.labels is None or held.classes.size != 2 or held.study.select().name == BASELINE:
        return ""
    never = [label for label in held.classes if not (held.labels == label).any()]
    if not never:
        return ""
    return (
        f"It never predicts {plain(never[0], 40)} by itself: rank rows by its probability, or run the study again with "
        "--cost or --rate, which choose from which probability on a row is called so."
    )
