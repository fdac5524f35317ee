"""Print a study: what each step found, and with `explain` why the step is there and where it comes from."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.cli import live, out
from assay.experiment.checks.finished import CODE as UNFINISHED
from assay.experiment.checks.tails import CODE as ERROR_TAIL
from assay.experiment.panel import BASELINE
from assay.experiment.protocol import left_out, number_of_splits
from assay.experiment.record import not_refitted
from assay.experiment.steps.seal import CONFIG
from assay.experiment.wording import MEANING, apart, called, figure, limits, missing_cells, roughly, threshold
from assay.metrics.tails import MILDER
from assay.numbers import fmt
from assay.results import format_n

__all__ = ["AFTER", "columns", "files", "final", "verdict"]

SHOWN = 12
"""Columns listed one by one; of a wider table only those that are not numeric."""

LEVELS_TOO = ("na", "none")
"""Texts read as missing that often are levels: North America, Namibia, no fence."""

WHY = {
    "columns": (
        "The kind of each column (number, category, date, text or id) is guessed from its cells; ids are not used. "
        "Missing values are imputed, categories encoded and numbers scaled inside each fold, from its training part "
        "only, so that no fold learns anything from the rows it is evaluated on.",
        "Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 7.10.2",
    ),
    "seal": (
        "Some rows are set aside as a test set before anything else is looked at. A hash of each row's content decides "
        "on which side it falls, so a row falls on the same side in every run, whatever the seed, and duplicates stay "
        "together. Nothing below sees those rows until the test set is opened.",
        "Hastie, Tibshirani, Friedman (2009), 7.2; Dwork et al. (2015), Science 349, 636-638",
    ),
    "outer": (
        "There is no test set, so the whole procedure (tuning, panel, selection, threshold, calibration) is repeated "
        "without the rows of each outer fold, and evaluated on that fold. The folds that selected the model are not in "
        "this figure. It is that of the procedure on a part of the rows; the model fitted to all rows is as good or a "
        "little better. The interval allows for the choice of rows and for overlapping training sets, not for several "
        "studies of the same rows: without looks their number is the only guard.",
        "Varma and Simon (2006), BMC Bioinformatics 7, 91; Nadeau and Bengio (2003), Machine Learning 52, 239-281",
    ),
    "checks": (
        "The training rows are searched for problems that spoil a study without raising an error: columns that leak "
        "the target, ids, duplicates, undeclared groups or time order, classes too rare for the folds.",
        "Kaufman, Rosset, Perlich, Stitelman (2012), ACM TKDD 6, 15",
    ),
    "leaderboard": (
        "Every learner is fitted several times, each time without one fold of the training rows, and evaluated on that "
        "fold. The interval is for the mean over training sets of this size; it allows for the folds sharing rows. "
        "Where a learner is tuned, the search runs inside each fold, so it does not bias the score.",
        "Nadeau and Bengio (2003), Machine Learning 52, 239-281; Varma and Simon (2006), BMC Bioinformatics 7, 91",
    ),
    "comparisons": (
        "Two learners are compared on the same folds, and the more pairs there are, the stronger the evidence each one "
        "needs. 'No difference shown' does not mean that they are equal: the interval says how far apart they may be.",
        "Nadeau and Bengio (2003); Hothorn, Bretz and Westfall (2008), Biometrical J. 50; Demsar (2006), JMLR 7, 1-30",
    ),
    "selection": (
        "The learner with the best figure is selected; the baseline, which uses no features, only if its own is the "
        "best. Beside it stands the best of the learners whose model can be written down and followed: a line, a "
        "discriminant, naive Bayes, one tree. --select readable takes that one if its difference from the best is at "
        "most one standard error of the difference and one of the best's own figure, so that an unstable learner "
        "gains nothing by its instability.",
        "Breiman, Friedman, Olshen, Stone (1984), Classification and Regression Trees, 3.4.3; Nadeau and Bengio (2003)",
    ),
    "test": (
        "The sealed rows are looked at once, by the selected model alone, and the look is recorded in the ledger "
        "before the score is computed. So the score is not the best of many, and its interval has the stated coverage. "
        "That coverage holds for the main figure; the others are given for information. The baseline predicts the same "
        "rows, and one test, planned beforehand, compares the two row by row: the verdict follows its interval. A look "
        "beyond the plan is answered through the Ladder: rounded to steps, only if it beats the best so far, and "
        "without an interval, so that many looks reveal little.",
        "Blum and Hardt (2015), The Ladder, ICML; Dwork et al. (2015), Science 349, 636-638",
    ),
}


def _explain(step: str, explain: bool, *more: str) -> None:
    if explain:
        words, source = WHY[step]
        out.lines([words, *(line for line in more if line), f"See {source}."], style="dim")


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def columns(table: Any, plan: Any, explain: bool = False) -> None:
    """The kind of each column, and which are not among the features."""
    target = plan.target
    role = {plan.group: "; groups the rows", plan.time: "; orders the rows", **dict.fromkeys(plan.drop, "; left out")}
    height, width = table.frame.shape
    out.heading(f"{table.name}: {out.count(height, 'row')}, {out.count(width, 'column')}, target {target!r}")
    kinds = table.kinds
    few = explain or width <= SHOWN
    shown = [name for name in kinds if few or name == target or name in role or kinds[name] != "number"][
        : 60 if explain else SHOWN
    ]
    gaps = table.missing
    titles = {"column": "left", "kind": "left", **({"missing": "right"} if gaps else {}), "reason": "left"}
    rows = [
        (name, kinds[name], *([missing_cells(gaps, name)] if gaps else []), table.reasons[name] + role.get(name, ""))
        for name in shown
    ]
    out.table(titles, rows, cut=60)
    if len(shown) < width:
        rest = Counter(kinds[name] for name in kinds if name not in set(shown))
        text = ", ".join(f"{number:,} {kind}" for kind, number in rest.most_common())
        out.lines([f"and {out.count(width - len(shown), 'more column')} ({text})"])
        others = [f"{name} {missing_cells(gaps, name)}" for name in gaps if name not in set(shown)]
        if others:
            more = "" if len(others) <= SHOWN else f" and {len(others) - SHOWN:,} more"
            out.lines([f"missing cells: {', '.join(others[:SHOWN])}{more}"])
    doubtful = {
        name: [text for text in texts if text.casefold() in LEVELS_TOO]
        for name, texts in gaps.items()
        if kinds[name] == "category" and "=" not in name and name not in (*table.gaps, *plan.drop, plan.group)
    }
    doubtful = {name: texts for name, texts in doubtful.items() if texts}
    if doubtful:
        named = "; ".join(f"{', '.join(map(repr, texts))} in {name}" for name, texts in doubtful.items())
        out.lines([f"Read as missing: {named}. Where it is a level, run instead:"])
        rules = [
            f"{name}=" + ",".join(text for text in gaps[name] if text not in ("", *texts))
            for name, texts in doubtful.items()
        ]
        out.command(live.again("missing", *rules, table=plan.source, target=target))
    _explain(
        "columns",
        explain,
        "Where a kind is wrong, set it: --kind COLUMN=category. "
        "Where a text is wrongly read as missing, or not, say which texts are: --missing COLUMN=TEXT,TEXT",
    )


def seal(study: Any, explain: bool = False) -> None:
    """Which rows were sealed, and how."""
    if not study.has_test_set:
        out.heading("No test set")
        out.lines([_sentence(study.sealed.why), "Outer folds, left out of all that is selected, give the figure."])
        out.lines(f"note: {note}" for note in study.notes)
        return
    out.heading("Test set sealed")
    seal, n = study.sealed.seal, len(study.rows) + study.n_test
    how = {
        "content": "chosen by a hash of each row's content",
        "group": f"whole groups of {seal.key!r}, chosen by a hash",
        "time": f"the latest by {seal.key!r}",
        "file": "the rows of the test file",
    }[seal.by]
    since = f", the same rows as on {study.sealed.entry.created[:10]}" if study.sealed.shared else ""
    text = f"{study.n_test:,} of {n:,} rows are sealed as test rows: {how}{since}."
    out.lines([f"{text} {len(study.rows):,} rows are left for training."])
    if study.sealed.why:
        out.lines([_sentence(study.sealed.why)])
    out.lines(f"note: {note}" for note in study.notes)
    _explain("seal", explain, f"{study.sealed}.")


def checks(study: Any, explain: bool = False) -> None:
    """What the checks found; those that passed are only counted."""
    every = [check for check in study.checks if check.code != ERROR_TAIL]  # that one is told with the selection
    found = [check for check in study.checks.found if check in every]
    rest = [check for check in every if check not in found]
    passed = sum(check.status == "passed" for check in rest)
    out.heading(f"Checks: {out.count(len(found), 'finding') if found else 'nothing found'}, {passed} passed")
    for check in found:
        _tell_check(study, check, check.option)
    others = ", ".join(f"{check.code} ({check.status})" for check in rest)
    _explain("checks", explain, f"Nothing found: {others}.")


def _tell_check(study: Any, check: Any, option: tuple[str, tuple[str, ...]] | None) -> None:
    """A finding, its remedy and, where the remedy is an option, the command to paste."""
    out.lines([f"{check.severity}: {check.title} [{check.code}]. {_sentence(check.detail)}"])
    if check.remedy:
        remedy, _, command = check.remedy.partition(": assay ")
        out.lines([f"Remedy: {remedy}{':' if command else '.'}"], indent=4)
        if command:
            out.command(f"assay {command}", indent=4)
    if option is not None:
        name, values = option
        plan, config = study.plan, study.folder / CONFIG
        out.command(live.again(name, *values, table=plan.source, target=plan.target, config=config), indent=4)


def leaderboard(study: Any, explain: bool = False) -> None:
    """Every learner with its figure and interval, the best first."""
    board, plan = study.leaderboard, study.plan
    first = board.results[board.order[0]]
    better = "greater" if first.metric.greater_is_better else "smaller"
    out.heading(f"Leaderboard: {called(plan.metric)}, {better} is better; {first.scheme}")
    frame = board.to_frame()
    rows = [
        (
            name,
            figure(plan.metric, row.estimate, row.lower, row.upper),
            limits(plan.metric, row.lower, row.upper),
            f"{row.seconds:.{0 if row.seconds >= 10 else 1}f} s",
        )
        for name, row in zip(frame.index, frame.itertuples(), strict=True)
        if row.status == "done"
    ]
    short = called(plan.metric, short=True)
    titles = {"learner": "left", short: "right", f"{100 * plan.level:g}% interval": "left", "time": "right"}
    out.table(titles, rows)
    out.lines(f"note: {note}" for note in left_out(plan, study.data.splits, number_of_splits(plan, len(study.rows))))
    for name, kinds in board.warnings.items():
        folds = max(kinds.values())
        where = f"in {out.count(folds, 'fold')}" if len(kinds) == 1 else f"in up to {out.count(folds, 'fold')}"
        hint = "" if explain else " (--explain shows them)"
        out.lines([f"{name}: {out.count(len(kinds), 'warning')} {where}{hint}"])
        if explain:
            out.lines([f"{words} ({out.count(number, 'fold')})" for words, number in kinds.items()], "dim", 4)
    out.lines(f"{name} {status}" for name, status in board.statuses.items())
    if board.unfinished:
        named = " ".join(f"--learner {shlex.quote(name)}" for name in board.finished if name != BASELINE)
        out.lines([f"The same numbers without a clock: the same command with {named} in place of --minutes."])
    about = f"Intervals: {first.interval(plan.level).method}, of {first.interval(plan.level).estimand}."
    _explain("leaderboard", explain, about)


def comparisons(study: Any, explain: bool = False) -> None:
    """The best against the others, and every learner against the baseline."""
    found = study.comparisons
    if found is None:
        return
    best = study.leaderboard.order[0]
    out.heading(
        f"Comparisons: {best} with the others, {100 * found.level:g}% confidence"
        + (f" over all {found.n_pairs} pairs" if found.n_pairs > 1 else "")
    )
    rows = []
    for row in found.to_frame().to_dict("records"):
        if best not in (row["first"], row["second"]):
            continue
        turned = row["first"] != best
        other = row["first"] if turned else row["second"]
        low, high = (-row["upper"], -row["lower"]) if turned else (row["lower"], row["upper"])
        words = f"{best} is better" if found.is_better(best, other) else row["verdict"]
        rows.append((other, -row["difference"] if turned else row["difference"], low, high, words))
    place = {name: at for at, name in enumerate(study.leaderboard.order)}
    rows.sort(key=lambda row: place[row[0]])
    name = study.plan.metric
    titles = {
        "other": "left",
        f"difference in {called(name, short=True)}": "right",
        "interval": "left",
        "verdict": "left",
    }
    shown = [(one, *apart(name, gap, low, high), words) for one, gap, low, high, words in rows]
    out.table(titles, shown, cut=60)
    beaten = [name for name in study.leaderboard.order if name != BASELINE and study.beats_baseline(name)]
    untested = {name: study.untested(name) for name in study.leaderboard.order if study.untested(name)}
    if BASELINE in found.names and (beaten or len(untested) < len(found.names) - 1):
        shown_to = "Ahead of" if study.plan.time is not None else "Shown to beat"
        out.lines([f"{shown_to} the baseline, which uses no features: {', '.join(beaten) or 'none'}."])
    out.lines(f"Not tested against the baseline ({why}): {name}." for name, why in untested.items())
    if study.plan.time is not None:
        out.lines(["In the order of time no theory gives the intervals: take them as a guide."])
    whole = (
        ""
        if study.plan.group is None
        else "Groups are never split between folds, so the test compares folds, not rows."
    )
    caveats = " ".join(f"Caveat: {words}." for words in found.caveats)
    _explain(
        "comparisons",
        explain,
        f"Test: {found.method}. {found.why} Correction: {found.correction}.",
        whole,
        caveats,
    )


def selection(study: Any, explain: bool = False) -> None:
    """Which learner was chosen, and why."""
    chosen = study.select()
    out.heading(f"Selected: {chosen.name}")
    out.lines([chosen.why])
    if study.readable is not None and chosen.rule != "readable":
        out.lines([f"Readable alternative: {study.readable}"])
    out.lines(filter(None, [threshold(study.model, study.plan), not_refitted(study.state)]))
    for check in study.checks.found:
        if check.code == ERROR_TAIL:  # of the training rows, and before the look: only now may it change the metric
            opening = study.wishes.open_test and not study.unanswered()
            milder = None if opening else MILDER.get(study.plan.metric)
            _tell_check(study, check, None if milder is None else ("metric", (milder,)))
    names = [one.name for one in study.data.learners if one.readable and one.name != BASELINE]
    order = f"Readable learners here: {', '.join(names) or 'none'}."
    warned = (f"Warning from its fit to all training rows: {words}" for words in study.warned)
    _explain("selection", explain, order, *warned)


def outer(study: Any, explain: bool = False) -> None:
    """The figures of the outer folds, where there is no test set."""
    found = None if study.has_test_set else study.outer
    if found is None:
        return
    out.heading(f"Outer folds: the whole procedure, {found.scheme}")
    _figures(found)
    if found.selected:
        out.lines([f"Selected in the outer folds: {found.chosen}."])
    out.lines(f"note: {note}" for note in found.notes)
    out.lines([found.studied])
    _explain("outer", explain, *_about(found))


def _about(found: Any) -> list[str]:
    return [
        f"{called(name, short=True)}: {MEANING.get(name, name)}. Interval: {one.method}, n = {format_n(one.n)}, "
        f"{one.estimand}."
        for name, one in found.intervals.items()
    ]


def _figures(found: Any) -> None:
    """The figures of the test set or of the outer folds, and the test against the baseline."""
    rows = [
        (
            called(name),
            figure(name, one.estimate, one.lower, one.upper),
            limits(name, one.lower, one.upper),
            f"{100 * one.level:.4g}%",
            figure(name, found.baseline.get(name), one.lower, one.upper),
            "main figure" if name == found.primary else "",
        )
        for name, one in found.intervals.items()
    ]
    if rows:
        titles = {"metric": "left", "value": "right", "interval": "left", "confidence": "right"}
        out.table({**titles, "baseline": "right", "": "left"}, rows, cut=70)
    if found.against_baseline is not None:
        out.lines([_against_baseline(found.against_baseline)])


def opened(study: Any, explain: bool = False) -> None:
    """The opened test set, or that it is still sealed."""
    if not study.has_test_set:
        return
    found = study.opened
    if found is None:
        left = study.unanswered()
        out.heading("Test set: still sealed")
        for check in left:
            out.lines(
                [f"A serious check must be resolved first: {check.title} [{check.code}]. {_sentence(check.detail)}"]
            )
            if check.code == UNFINISHED:
                out.lines(["Finish them with:"])
                out.command(f"assay resume {study.name}")
        codes = "".join(f" --despite {check.code}" for check in left)
        out.lines(["To open it anyway, run:" if left else "To open it, run:"])
        out.command(f"assay open {study.name}{codes}")
        return
    out.heading(f"Test set: {str(found.look).splitlines()[0]}")
    if found.release is not None:
        out.lines([_sentence(roughly(found.release))])
    _figures(found)
    out.lines(f"note: {note}" for note in found.notes)
    _explain("test", explain, *_about(found), "" if found.release is None else f"{found.release}.")


def _against_baseline(found: Any) -> str:
    """The planned test of the selected learner against the baseline, in a sentence."""
    gap, ends = apart(found.metric, found.difference, found.lower, found.upper)
    what = f"{found.selected} minus baseline: a difference in {called(found.metric, short=True)} of {gap}"
    return f"{what}, {100 * found.level:.4g}% interval {ends}, {found.p_text} ({found.method})."


def verdict(study: Any) -> None:
    """The conclusion in one sentence."""
    out.heading("Verdict")
    out.lines([study.verdict()], style="bold")


def _predict(model: Any, trust: Any) -> str:
    """The command that predicts with a model file."""
    trusted = [word for one in trust for word in ("--trust", one)]
    return shlex.join(["assay", "predict", str(model), "TABLE", "-o", "OUT", *trusted])


def final(made: Any, trust: Any = ()) -> None:
    """The model that was fitted to all rows: settings beside the earlier ones, and whose figure the test set's is."""
    total = made.n_train + made.n_test
    out.heading(f"Final model: {made.selected}, fitted to all {total:,} rows of study {made.study}")
    settings = made.to_frame()
    if len(settings):
        titles = {"setting": "left", f"on {made.n_fitted:,} training rows": "left", f"on all {total:,} rows": "left"}
        shown = [(name, *(_setting(value) for value in row)) for name, *row in settings.itertuples()]
        out.table(titles, shown)
    else:
        out.lines(["It has no settings to search."])
    if made.figure is not None:
        one, name = made.figure, made.metric
        text = f"{called(name)} {figure(name, one.estimate, one.lower, one.upper)}"
        text = f"{text}, {100 * one.level:.4g}% interval {limits(name, one.lower, one.upper)}"
        out.lines([f"Test figure, of the recipe fitted to the training rows: {text}."])
    out.lines([f"No row is left to score this model by; the ledger records that all {total:,} were used."])
    out.lines(f"warning: {words}" for words in made.warnings)
    out.lines([f"model   {made.path}", f"predict {_predict(made.path, trust)}"])


def _setting(value: Any) -> str:
    return fmt(value, 4) if isinstance(value, float) else "" if value is None else str(value)


def files(study: Any) -> None:
    """Where the report and the model are, and what to do next."""
    found = study.files
    if not found:
        return
    out.heading(f"Study {study.name}")
    for name in ("report", "model"):
        if name in found:
            out.lines([f"{name:<7} {Path(found[name])}"])
    if "model" in found:
        out.lines([f"predict {_predict(found['model'], study.wishes.trust)}"])
    if study.unwritten is not None:
        why, command = study.unwritten
        out.lines([why[0].upper() + why[1:]])
        out.command(command)


AFTER: dict[str, Callable[[Any, bool], None]] = {
    "seal": seal,
    "check": checks,
    "evaluate": leaderboard,
    "compare": comparisons,
    "select": selection,
    "outer": outer,
    "open": opened,
}
"""What is printed after a step of a study, by the step's name in `experiment.steps.STEPS`."""
