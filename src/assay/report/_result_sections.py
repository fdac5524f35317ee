"""What a study found, as sections of its report: leaderboard, comparisons, selection, the test set, limits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from assay.evaluation import Comparison
from assay.experiment.panel import BASELINE, pipeline_of
from assay.experiment.record import not_refitted, where
from assay.experiment.test_set.against_baseline import BETTER, UNCLEAR, WORSE, BaselineTest
from assay.experiment.wording import amount, apart, called, figure, roughly, threshold
from assay.numbers import with_limits
from assay.report._embed import WIDTH, Part, View, attempt, p_value, picture, say, sentence, table_of
from assay.words import plural

if TYPE_CHECKING:
    from assay.experiment.outcome import Opened, Outer
    from assay.experiment.study import Study

__all__ = ["board_part", "comparisons_part", "figures_table", "selection_part", "test_parts"]

DRAWN = 15
"""Of more pairs those of the selected learner are drawn."""
PAIRS = 120
"""How many pairs are listed, and drawn."""
GROUPED = (
    "Groups are never split between folds, and the test compares folds, not rows: it remains valid where rows of a "
    "group are alike."
)


def board_part(study: Study, board: pd.DataFrame) -> Part:
    found, plan = study.leaderboard, study.plan
    chosen = study.select().name
    first = found.results[found.order[0]]
    names = [str(name) for name in board["learner"]]
    rows = [
        (
            name,
            *_three(plan.metric, row.get("estimate"), row.get("lower"), row.get("upper")),
            row.get("seconds"),
            ("selected" if name == chosen else "") if row["status"] == "done" else row["status"],
        )
        for name, row in zip(names, board.to_dict("records"), strict=True)
    ]
    better = "greater" if first.metric.greater_is_better else "smaller"
    sentences: tuple[str, ...] = (
        f"{sentence(called(plan.metric)).rstrip('.')} by {first.scheme}; {better} is better. {100 * plan.level:g}% "
        "intervals "
        f"({first.interval(plan.level).method}) for each learner alone; the next section compares them.",
    )
    for name, kinds in found.warnings.items():
        folds = len(first.fold_scores)
        text = "; ".join(f"{one.rstrip('.')} ({number} of {folds} fits)" for one, number in kinds.items())
        sentences += (f"{name} gave {len(kinds)} {'warning' if len(kinds) == 1 else 'warnings'}: {text}.",)
    sentences += tuple(sentence(f"{name} {status}") for name, status in found.statuses.items())
    alt = f"Leaderboard, best first: {', '.join(found.order)}"
    image = picture(found, (WIDTH, 1.4 + 0.3 * len(found.results)), alt, titled=False)
    view = table_of(
        f"Leaderboard: {called(plan.metric)}, {better} is better",
        ("learner", called(plan.metric, short=True), "from", "to", "seconds", ""),
        rows,
        [names.index(chosen)],
    )
    caption = "Estimates and intervals; the dashed line is the baseline, which uses no features."
    return Part("", sentences, image, caption, view, folded=True)


def _three(metric: str, estimate: Any, lower: Any, upper: Any) -> tuple[str, str, str]:
    """Cells of a figure and its limits; empty for a learner that did not finish."""
    first, low, high = (figure(metric, one, lower, upper) for one in (estimate, lower, upper))
    return first, low, high


def comparisons_part(study: Study) -> Part:
    found = study.comparisons
    if found is None:
        return Part(words=("Only one learner finished, so there is nothing to compare.",))
    frame = found.to_frame()[:PAIRS]
    scale, unit = (100.0, " (points)") if found.metric.percent else (1.0, "")
    rows = [
        (
            row["first"],
            row["second"],
            *with_limits(*(scale * row[key] for key in ("difference", "lower", "upper"))),
            p_value(row["adjusted"]),
            row["verdict"],
        )
        for row in frame.to_dict("records")
    ]
    shown = int(found.rejected.sum())
    every = found.n_pairs
    counted = "" if every == len(found.pairs) else f" ({every} with those of learners that were stopped)"
    sentences = [
        f"{plural(len(found.pairs), 'pair')}, {shown} with a significant difference. {sentence(found.why)}",
        f"Differences are first minus second, corrected for the number of pairs{counted} by {found.correction}"
        + (f"; their intervals hold simultaneously with {100 * found.level:g}% confidence" if found.together else "")
        + ". A difference is shown where its interval excludes 0; 'no difference shown' does not prove there is none.",
    ]
    sentences += [sentence(one) for one in found.caveats]
    if study.plan.group is not None:
        sentences.append(GROUPED)
    if len(frame) < len(found.pairs):
        sentences.append(f"The first {len(frame)} pairs are listed.")
    drawn = _to_draw(found, study.select().name)
    image = picture(
        drawn,
        (WIDTH, 1.5 + 0.24 * min(60, len(drawn.pairs))),
        f"Differences between learners with intervals; {int(drawn.rejected.sum())} of {len(drawn.pairs)} exclude zero",
        titled=False,
    )
    intervals = "simultaneous intervals" if found.together else "intervals, each on its own"
    caption = f"{found.method}, {found.scheme}: differences with {intervals}."
    if len(drawn.pairs) < len(found.pairs):
        caption += f" The picture has the pairs of {study.select().name}, the table all of them."
    view = table_of(
        f"Differences in {found.metric.name} with {intervals}",
        ("first", "second", f"difference{unit}", "lower", "upper", "adjusted p", "verdict"),
        rows,
    )
    return Part("", tuple(sentences), image, caption, view, folded=True, wide=True)


def _to_draw(found: Comparison, selected: str) -> Comparison:
    """All pairs where they are few, otherwise those of the selected learner."""
    mine = [at for at, pair in enumerate(found.pairs) if selected in (found.names[pair[0]], found.names[pair[1]])]
    if len(found.pairs) <= DRAWN or not mine:
        return found
    rows = {name: getattr(found, name)[mine] for name in ("p_values", "adjusted", "lower", "upper")}
    return replace(
        found, pairs=tuple(found.pairs[at] for at in mine), tests=tuple(found.tests[at] for at in mine), **rows
    )


def selection_part(study: Study) -> Part:
    chosen = study.select()
    sentences = [f"Selected: {chosen.name}. {sentence(chosen.why)}"]
    if study.readable is not None and chosen.rule != "readable":
        sentences.append(f"Readable alternative: {study.readable}")
    sentences += filter(None, [threshold(study.model, study.plan), not_refitted(study.state)])
    place = where(study.plan).capitalize()
    planned = "the one planned test is that of the " + ("test set" if study.has_test_set else "outer folds")
    if study.beats_baseline(chosen.name) and study.plan.time is not None:
        sentences.append(
            f"{place} it did better than the baseline, which uses no features; in the order of time no "
            "theory gives the interval, so take it as a guide."
        )
    elif study.beats_baseline(chosen.name):
        sentences.append(
            f"{place} it is shown to beat the baseline, which uses no features, at a confidence level that "
            "holds over all pairs."
        )
    elif study.untested(chosen.name):
        sentences.append(
            f"{place} it could not be tested against the baseline, which uses no features "
            f"({study.untested(chosen.name)}); {planned}."
        )
    elif chosen.name != BASELINE:
        sentences.append(
            f"{place} it is not shown to beat the baseline, which uses no features, at a confidence level "
            f"that holds over all pairs; {planned}."
        )
    settings = {str(k): say(v) for k, v in _settings(study).items()}
    if settings:
        rows = "all training" if study.plan.refit else "these"
        sentences.append(
            f"Settings chosen on {rows} rows: " + ", ".join(f"{k} = {v}" for k, v in settings.items()) + "."
        )
    table = chosen.table
    keep = [name for name in ("estimate", "std_error", "difference") if name in table]
    scale, unit = (100.0, " (points)") if chosen.metric.percent else (1.0, "")
    lengths = ("std_error", "difference")
    cells = {key: [scale * value if key in lengths else value for value in table[key]] for key in keep}
    cells["estimate"] = [study.leaderboard.results[str(name)].figure() for name in table.index]
    view = table_of(
        f"Each learner's standard error and its difference from the best ({chosen.best}); readable ones first",
        ("learner", *(name.replace("_", " ") + (unit if name in lengths else "") for name in keep)),
        zip(map(str, table.index), *cells.values(), strict=True),
        [list(table.index).index(chosen.name)],
    )
    size = (WIDTH, 1.5 + 0.3 * min(30, len(table)))
    alt = f"Standard errors of the learners; the best is {chosen.best}, selected {chosen.name}"
    image = picture(chosen, size, alt, titled=False)
    caption = "Selected against best: figures with one standard error, readable learners on top."
    return Part("Selected against best", tuple(sentences), image, caption, view, folded=True)


def _settings(study: Study) -> dict[str, Any]:
    """What the search of the final fit chose."""
    kept = study.leaderboard.settings.get(study.select().name) or [{}]
    pipe = pipeline_of(study.model)
    params = {} if pipe is None else pipe.get_params()
    return {name.removeprefix("model__"): params[name] for name in kept[0] if name in params}


# The test set.


def test_parts(study: Study) -> list[Part]:
    """The figures that were planned, and the one test against the baseline; the test rows are not explored."""
    opened = study.opened
    if opened is None:
        sentences: tuple[str, ...] = (
            f"The test set is still sealed: none of its {study.n_test:,} rows has been looked at.",
            f"Once everything is decided, open it with: assay open {study.name}",
        )
        left = study.unanswered()
        if left:
            codes = " ".join(f"--despite {check.code}" for check in left)
            sentences = (
                sentences[0],
                f"It stays sealed because of a serious check ({'; '.join(check.title for check in left)}): problems "
                "of the table should be resolved before the one look, not after it.",
                f"To open it anyway, which is recorded in the ledger, run: assay open {study.name} {codes}",
            )
        return [Part(words=sentences)]
    parts = attempt("Figures", lambda: _figures(study))
    if opened.against_baseline is not None and opened.release is None:
        parts += attempt("Against the baseline", lambda: _baseline_picture(study))
    return parts


def _baseline_picture(study: Study) -> Part:
    opened = study.opened
    assert opened is not None
    assert opened.against_baseline is not None
    found = opened.against_baseline
    image = picture(found, (5.4, 1.5), f"Difference from the baseline in {found.metric} on the test rows", titled=False)
    caption = "The difference and its interval; 0 is no difference."
    return Part("Against the baseline", (_compared(found),), image, caption, wide=True)


def _figures(study: Study) -> Part:
    opened = study.opened
    assert opened is not None
    sentences = [sentence(str(opened.look).splitlines()[0]), *(sentence(note) for note in opened.notes)]
    if opened.release is not None:
        return Part("", (*sentences, sentence(roughly(opened.release))))
    view = figures_table(f"Scores on the test rows, for {study.plan.population}", opened, study.wishes.unit)
    sentences.append(
        "The main metric was fixed beforehand, and its interval has the stated confidence; the intervals of the others "
        "hold one at a time, not all at once. The baseline uses no features and was fitted to the same training rows."
    )
    return Part("", tuple(sentences), view=view, wide=True)


def figures_table(caption: str, found: Opened | Outer, unit: str | None) -> View:
    """The figures of the test set or of the outer folds, each with its interval and the baseline's."""
    rows = []
    for name, one in found.intervals.items():
        shown, between = amount(name, one.estimate, one.lower, one.upper, unit)
        guess = amount(name, found.baseline.get(name), one.lower, one.upper, unit)[0]
        role = "main" if name == found.primary else "secondary"
        kind = f"{100 * one.level:.4g}% {one.method}, n = {say(one.n)}"
        rows.append((called(name), shown, between, guess, role, kind))
    heads = ("metric", "estimate", "interval", "baseline", "role", "kind of interval")
    return table_of(caption, heads, rows, [list(found.intervals).index(found.primary)], amounts=(1, 2, 3))


def _compared(found: BaselineTest) -> str:
    """The planned test against the baseline."""
    gap, ends = apart(found.metric, found.difference, found.lower, found.upper)
    claim = {
        BETTER: f"so {found.selected} is better than the baseline on rows like these",
        WORSE: f"so {found.selected} is worse than the baseline on rows like these",
        UNCLEAR: "which includes no difference",
    }[found.code]
    return (
        f"The one planned test, {found.selected} against the baseline on the same rows: the difference in "
        f"{called(found.metric, short=True)} is {gap}, {100 * found.level:.4g}% interval {ends}, {claim} "
        f"({found.p_text}; {found.method}, n = {found.n:,})."
    )
