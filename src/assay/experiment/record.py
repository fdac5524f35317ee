"""The results of a study as text and JSON: its verdict, its numbers, their provenance, and a script to repeat it."""

from __future__ import annotations

import hashlib
import platform
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from assay import __version__
from assay.experiment.checks.finished import CODE as UNFINISHED
from assay.experiment.checks.tails import CODE as TAIL
from assay.experiment.options import declared
from assay.experiment.outcome import Alternative
from assay.experiment.panel import BASELINE
from assay.experiment.plan import Plan
from assay.experiment.state import Context, StudyState, made
from assay.experiment.test_set.against_baseline import BETTER
from assay.experiment.test_set.vault import Vault
from assay.experiment.wording import apart, called, figure, roughly, tail_notes
from assay.metrics import get_metric
from assay.metrics.definition import PERCENT
from assay.numbers import with_limits
from assay.numerics.threads import cores

__all__ = [
    "WORDS",
    "code",
    "final_summary",
    "finding",
    "folds_outside",
    "manifest",
    "not_refitted",
    "outer_figure",
    "problems",
    "summary",
    "verdict",
    "where",
]

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow")


def finding(state: StudyState) -> str:
    """What a study has found about the selected learner, as a code; `WORDS` has the sentences.

    After a planned look the one test on the test rows decides, before it (and where the Ladder answers) the folds;
    without a test set the outer folds do.

    | code            | meaning                                                                       |
    |-----------------|-------------------------------------------------------------------------------|
    | test-better     | on the test rows the interval of the difference to the baseline excludes 0     |
    | test-worse      | ... on the wrong side                                                          |
    | test-unclear    | ... it holds 0                                                                 |
    | test-baseline   | the baseline was selected, and the test rows were scored                       |
    | test-untested   | the test rows could not be used for the comparison                             |
    | outer-better, outer-worse, outer-unclear, outer-baseline, outer-untested | the same of the outer folds, on which |
    |                 | the whole procedure is compared with the baseline                              |
    | outer-ahead     | ... the interval excludes 0, in the order of time, where no theory gives it    |
    | folds-better    | in cross-validation the selected learner is shown to beat the baseline         |
    | folds-ahead     | ... it did better, in the order of time, where no theory gives the interval    |
    | folds-untested  | ... it could not be tested against the baseline                                |
    | folds-other     | ... another learner is, but not the selected one                               |
    | folds-none      | ... no learner is                                                              |
    """
    chosen, opened, timed = made(state.fitted).selection.name, state.opened, state.plan.time is not None
    if opened is not None and opened.release is None:
        if chosen == BASELINE:
            return "test-baseline"
        return "test-untested" if opened.against_baseline is None else f"test-{opened.against_baseline.code}"
    if state.outer is not None and state.outer.intervals:
        if chosen == BASELINE:
            return "outer-baseline"
        against = state.outer.against_baseline
        if against is not None and against.code == BETTER and timed:
            return "outer-ahead"
        return "outer-untested" if against is None else f"outer-{against.code}"
    if state.beats_baseline(chosen):
        return "folds-ahead" if timed else "folds-better"
    if state.untested(chosen):
        return "folds-untested"
    return "folds-other" if any(map(state.beats_baseline, made(state.leaderboard).results)) else "folds-none"


WORDS = {
    "test-better": "{chosen} beats the baseline (no features)",
    "test-worse": "{chosen} does worse than the baseline (no features)",
    "test-unclear": "{chosen} is not shown to beat the baseline (no features)",
    "test-baseline": "no learner was shown to beat the baseline (no features), which was selected",
    "test-untested": "{chosen} was selected, but could not be compared with the baseline (no features)",
    "outer-better": "{chosen} was selected, by a procedure that beats the baseline (no features)",
    "outer-worse": "{chosen} was selected, by a procedure that does worse than the baseline (no features)",
    "outer-unclear": "{chosen} was selected, by a procedure that is not shown to beat the baseline (no features)",
    "outer-baseline": "no learner was shown to beat the baseline (no features), which was selected",
    "outer-untested": "{chosen} was selected, but its procedure could not be compared with the baseline (no features)",
    "outer-ahead": "{chosen} was selected, by a procedure that did better than the baseline (no features), "
    "although in the order of time no theory gives the interval, so take it as a guide",
    "folds-better": "{chosen} beats the baseline (no features) {where}",
    "folds-ahead": "{chosen} did better than the baseline (no features) {where}, "
    "although in the order of time no theory gives the interval, so take it as a guide",
    "folds-untested": "{chosen} was selected, but could not be tested against the baseline (no features) {where} "
    "({untested})",
    "folds-other": "{chosen} was selected, but is not shown to beat the baseline (no features) {where}",
    "folds-none": "no learner is shown to beat the baseline (no features) {where} ({rows:,} training rows)",
}
"""The sentence of each code of `finding`."""


def verdict(state: StudyState) -> str:
    """The conclusion, for readers who know no statistics; serious checks come first."""
    # How few rows there are, the interval says; that learners are unfinished says nothing about the rows.
    serious = [check for check in made(state.checks).stops if check.code != UNFINISHED]
    warning = (
        f"Warning: {serious[0].title}{_where(serious[0].columns)}, so these results may not hold on new data. "
        if serious
        else ""
    )
    chosen, rows = made(state.fitted).selection.name, len(made(state.parted).train)
    words = {"chosen": chosen, "rows": rows, "untested": state.untested(chosen), "where": where(state.plan)}
    found = WORDS[finding(state)].format(**words)
    return f"{warning}For {state.plan.target}, {found}{_evidence(state)}"


def where(plan: Plan) -> str:
    """Where the figures of the leaderboard were found, in words."""
    return "on the validation rows" if plan.cv == "holdout" else "in cross-validation"


def not_refitted(state: StudyState) -> str:
    """Which rows the model is fitted to where these are not all training rows, in a sentence; empty where they are."""
    if state.plan.refit:
        return ""
    data = made(state.training)
    fitted = len(data.fitted_to(state.plan))
    return f"It is fitted to {fitted:,} of {data.rows.n:,} training rows, those outside the holdout."


def _evidence(state: StudyState) -> str:
    """The figures behind the finding."""
    opened = state.opened
    if not made(state.parted).has_test_set:
        return _outer_evidence(state)
    if opened is None:
        return "; the test set is still sealed."
    if opened.release is not None:
        told = "this look at the test set was not planned, so only a rounded answer is given"
        return f"; {told}: {roughly(opened.release)}."
    metric, test = opened.primary, opened.intervals[opened.primary]
    level = f"{100 * test.level:g}% confidence interval"
    held = f"{made(state.parted).n_test:,} rows" + ("" if state.plan.group is None else f" of {test.n:,} groups")
    name = called(metric, short=True)
    shown = with_limits(test.estimate, test.lower, test.upper, percent=metric in PERCENT)
    text = f": on {held} held out, its {name} is {shown[0]} ({level} {shown[1]} to {shown[2]})"
    if opened.against_baseline is not None:
        found = opened.against_baseline
        gap, ends = apart(metric, found.difference, found.lower, found.upper)
        guess = figure(metric, opened.baseline[metric], test.lower, test.upper)
        text += f" and that of the baseline {guess}, a difference of {gap} ({ends})"
    text += f", for {state.plan.population}."
    if opened.tail is not None and opened.tail.heavy:
        text += f" But {tail_notes(get_metric(metric), opened.tail)[0].split(';')[0]}."
    elif (other := folds_outside(state)) is not None:
        text += f" But few rows decide the {name}: {where(state.plan)} it is {figure(metric, other)}."
    return text


def folds_outside(state: StudyState) -> float | None:
    """The cross-validated figure where a few training rows decide it and the interval of the test set excludes it.

    The test rows then hold fewer such rows than their share, or more, and their interval does not know it.
    """
    opened = state.opened
    if opened is None or opened.release is not None or made(state.checks)[TAIL].status != "found":
        return None
    other = float(made(state.leaderboard).results[made(state.fitted).selection.name].estimate)
    found = opened.intervals[opened.primary]
    return None if found.lower <= other <= found.upper else other


def _outer_evidence(state: StudyState) -> str:
    """The figures of the outer folds, where there is no test set."""
    outer = state.outer
    if outer is None:
        return "; there is no test set, and the outer folds are not done yet."
    if not outer.intervals:
        return f"; there is no test set, and {outer.notes[0]}."
    metric, found = outer.primary, outer.intervals[outer.primary]
    shown = with_limits(found.estimate, found.lower, found.upper, percent=metric in PERCENT)
    level = f"{100 * found.level:g}% confidence interval"
    text = f": on {len(outer.selected)} outer folds, each left out of all that was selected for it, the "
    text += f"{called(metric, short=True)} is {shown[0]} ({level} {shown[1]} to {shown[2]})"
    if outer.against_baseline is not None:
        one = outer.against_baseline
        gap, ends = apart(metric, one.difference, one.lower, one.upper)
        guess = figure(metric, outer.baseline[metric], found.lower, found.upper)
        text += f" and that of the baseline {guess}, a difference of {gap} ({ends})"
    return f"{text}, for {state.plan.population}."


def _where(columns: tuple[str, ...]) -> str:
    return f" ({', '.join(columns[:5])}{' and others' if len(columns) > 5 else ''})" if columns else ""


def summary(state: StudyState, context: Context) -> dict[str, Any]:
    """The study in JSON types."""
    plan, fitted = state.plan, made(state.fitted)
    chosen = fitted.selection
    board = made(state.leaderboard).to_frame().reset_index()
    pairs = state.comparisons
    opened = state.opened
    return {
        "study": made(state.parted).name,
        "task": plan.task,
        "target": plan.target,
        "n_train": len(made(state.parted).train),
        "n_test": made(state.parted).n_test,
        "test_size": made(state.parted).sealed.seal.share if made(state.parted).has_test_set else "none",
        "test_size_reason": made(state.parted).sealed.why,
        "selected": chosen.name,
        "why": chosen.why,
        "readable": None if fitted.readable is None else _readable(fitted.readable),
        "threshold": getattr(fitted.model, "threshold_", None),
        "better_than_baseline": finding(state) in ("test-better", "outer-better", "folds-better"),
        "finding": finding(state),
        "verdict": verdict(state),
        "finished": made(state.leaderboard).finished,
        "leaderboard": [_row(row) for row in board.to_dict("records")],
        "warnings": _warnings(state),
        "comparisons": [] if pairs is None else [_row(row) for row in pairs.to_frame().to_dict("records")],
        "test": None if opened is None else _test(opened),
        "outer": None if state.outer is None else _outer(state.outer),
        "against_baseline": _against_baseline(opened or state.outer),
        "look": None if opened is None else _look(opened),
        "stopped_by": [check.code for check in state.unanswered(context)],
        "checks": [_row(row) for row in made(state.checks).to_frame().reset_index().to_dict("records")],
        "missing": {name: dict(texts) for name, texts in state.missing.items()},
        "notes": [*state.notes, *([] if state.published.unwritten is None else [" ".join(state.published.unwritten)])],
        "manifest": manifest(state, context),
        "report": state.published.files.get("report"),
        "model": state.published.files.get("model"),
    }


def final_summary(made: Any) -> dict[str, Any]:
    """A finalized study in JSON types."""
    values = {name: getattr(made, name) for name in ("study", "selected", "n_train", "n_test", "metric")}
    test = None if made.figure is None else _row(made.figure.to_frame().iloc[0].to_dict())
    return {
        **values,
        "settings": {str(name): _row(row) for name, row in made.to_frame().to_dict("index").items()},
        "test": None if test is None or made.figure is None else test | {"estimand": made.figure.estimand},
        "warnings": list(made.warnings),
        "model": made.path,
        "sha256": made.checksum,
    }


def _readable(found: Alternative) -> dict[str, Any]:
    """The readable alternative; `within` is null where nothing is claimed."""
    row = found.to_frame().iloc[0].to_dict()
    return {"name": found.name, **_row(row), "words": str(found)}


def _warnings(state: StudyState) -> dict[str, list[dict[str, Any]]]:
    """The warnings of each learner in the folds, and of the selected one in its final fit."""
    told = {
        name: [{"words": words, "folds": folds} for words, folds in kinds.items()]
        for name, kinds in made(state.leaderboard).warnings.items()
    }
    fitted = made(state.fitted)
    last = [{"words": words, "fit": "all training rows"} for words in fitted.warnings]
    return told | ({fitted.selection.name: [*told.get(fitted.selection.name, []), *last]} if last else {})


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def _test(opened: Any) -> dict[str, Any]:
    frame = opened.to_frame() if opened.intervals else None
    if frame is None:
        release = opened.release
        return {
            release.loss: {"estimate": release.value, "step": release.step, "method": release.method, "n": release.n}
        }
    rows = {}
    for name, found in opened.intervals.items():
        rows[name] = _row(frame.loc[name].to_dict()) | {"estimand": found.estimand}
    if opened.tail is not None:
        rows[opened.primary]["tail"] = _row(opened.tail.to_frame().iloc[0].to_dict())
    return rows


def _outer(outer: Any) -> dict[str, Any]:
    """The figures of the outer folds, what they selected, and the studies of these rows and this target."""
    frame = outer.to_frame() if outer.intervals else None
    figures = {
        name: _row({} if frame is None else frame.loc[name].to_dict()) | {"estimand": one.estimand}
        for name, one in outer.intervals.items()
    }
    values = {
        "figures": figures,
        "folds": outer.scheme,
        "selected": list(outer.selected),
        "studies": list(outer.studies),
    }
    return {**values, "unfinished": outer.unfinished, "notes": list(outer.notes)}


def outer_figure(state: StudyState) -> dict[str, Any] | None:
    """The main figure of the outer folds, for the metadata of a model that no test set judges."""
    if state.outer is None or not state.outer.intervals:
        return None
    one = state.outer.intervals[state.outer.primary]
    limits = {"estimate": one.estimate, "lower": one.lower, "upper": one.upper, "level": one.level}
    return _row({"metric": state.outer.primary, **limits, "estimand": one.estimand, "folds": state.outer.scheme})


def _against_baseline(opened: Any) -> dict[str, Any] | None:
    found = None if opened is None else opened.against_baseline
    return None if found is None else {"metric": found.metric, **_row(found.to_frame().iloc[0].to_dict())}


def _look(opened: Any) -> dict[str, Any]:
    look = opened.look
    values = {name: getattr(look, name) for name in ("number", "planned", "level", "replay", "reason")}
    return {**values, "notes": list(opened.notes)}


def manifest(state: StudyState, context: Context) -> dict[str, Any]:
    """Versions, seed, machine, command and hashes: what somebody else needs to get the same numbers."""
    versions = {"assay": __version__, "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in PACKAGES}
    return {
        "versions": versions,
        "seed": state.plan.seed,
        "machine": f"{platform.system()} {platform.machine()}, {cores()} cores",
        "command": _command(),
        "seal": made(state.parted).sealed.seal.id,
        "hashes": dict(made(state.parted).hashes),
        "ledger_head": context.ledger.head(),
        "seconds": round(state.seconds, 3),
        "plan": state.plan.state(),
    }


def _command() -> str:
    """The command line, to be pasted, with the program by its name."""
    program = Path(sys.argv[0])
    return shlex.join(["assay" if program.name == "__main__.py" else program.name, *sys.argv[1:]])


def code(state: StudyState) -> str:
    """A plain script that repeats the study."""
    plan, name = state.plan, made(state.parted).name
    apart = plan.group if plan.known_groups and not plan.learn_group else None  # its kind would make it a feature
    kinds = {name: kind for name, kind in plan.kinds.items() if name != apart}
    shown = {**plan.state(), "kinds": kinds, "missing": dict(plan.gaps) or None}
    if state.leaderboard is not None and state.leaderboard.unfinished:
        shown["learners"] = state.leaderboard.finished
    shown |= {} if made(state.parted).has_test_set else {"test_size": "none"}
    given = [one for one in declared() if shown.get(one) is not None]
    lines = [f"    {one}={shown[one]!r}," for one in given]
    return "\n".join(
        [
            f'"""Repeats study {name}: the same rows, the same seal, the same predictions, no new look."""',
            "",
            "import assay",
            "",
            *([] if plan.source != "frame" else ["frame = ...  # the data frame that the study was run on", ""]),
            "study = assay.run(",
            "    frame," if plan.source == "frame" else f"    {plan.source!r},",
            f"    {plan.target!r},",
            *lines,
            ")",
            "print(study)",
            "",
        ]
    )


def problems(state: StudyState, context: Context) -> list[str]:
    """Problems found in the ledger's chain, the hashes of the rows, or a refit of the model."""
    parted, chosen = made(state.parted), made(state.fitted).selection.name
    found = list(context.ledger.verify())
    vault = Vault(parted.name).path
    if not vault.exists():
        found.append(f"the test rows are missing: {vault}")
    elif hashlib.sha256(vault.read_bytes()).hexdigest() != parted.vault:
        found.append("the test rows in the vault differ from those that were sealed")
    results = context.ledger.entries("result", parted.name)
    if not results:
        return [*found, "the study has no recorded result yet"]
    recorded = results[-1].body
    if chosen != recorded["selected"]:
        found.append(f"the selection is {chosen} now, but {recorded['selected']} was recorded")
    elif made(state.fitted).digest(made(state.training).rows.X) != recorded["fitted"]:
        found.append(f"a refit of {recorded['selected']} to the training rows gives different predictions")
    return found
