"""The model card: what a study's model is, what it is for, how good it is and where that is recorded, on one page.

Every line comes from the plan, the results and the ledger of the study; nothing is written by hand.
Mitchell et al. (2019), Model Cards for Model Reporting, FAT*, 220-229.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay import __version__
from assay.experiment.panel import BASELINE
from assay.experiment.record import finding, not_refitted, verdict
from assay.experiment.state import Context, StudyState, made
from assay.experiment.wording import amount, called, threshold
from assay.words import plural

__all__ = ["ModelCard", "limitations", "model_card"]


@dataclass(frozen=True)
class ModelCard:
    """A title, and sections of a heading and its sentences."""

    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]

    def to_markdown(self) -> str:
        """The card as a Markdown file.

        >>> print(ModelCard("Model card", (("Use", ("for rows like these",)),)).to_markdown())
        # Model card
        <BLANKLINE>
        ## Use
        <BLANKLINE>
        - for rows like these
        <BLANKLINE>
        """
        lines = [f"# {self.title}", ""]
        for heading, sentences in self.sections:
            lines += [f"## {heading}", "", *(f"- {_escaped(one)}" for one in sentences), ""]
        return "\n".join(lines)


def _escaped(text: str) -> str:
    """Text of a table as it is written: on one line, without marks of Markdown or HTML."""
    plain = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in "\\`*_<>[]#|" else sign for sign in plain)


def model_card(state: StudyState, context: Context) -> ModelCard:
    """The card of a study whose model is fitted; its test set may still be sealed."""
    plan = state.plan
    return ModelCard(
        f"Model card: {plan.target}",
        (
            ("Model", tuple(_model(state))),
            ("Use", tuple(_use(state))),
            ("Data", tuple(_data(state))),
            ("Figures", tuple(_figures(state, context.unit))),
            ("Checks", tuple(_checks(state))),
            ("Limits", limitations(state)),
            ("Record", tuple(_record(state, context))),
        ),
    )


def _model(state: StudyState) -> Iterator[str]:
    plan, fitted = state.plan, made(state.fitted)
    about = next(one.about for one in made(state.training).learners if one.name == fitted.selection.name)
    yield f"{fitted.selection.name}: {about}"
    yield f"{plan.task} of {plan.target} from {plural(len(plan.features), 'column')}"
    yield f"selected from {', '.join(plan.learners)}. {fitted.selection.why}"
    yield from filter(None, [threshold(fitted.model, plan), not_refitted(state)])


def _use(state: StudyState) -> Iterator[str]:
    plan = state.plan
    yield f"predictions for {plan.population}, recorded in the same way"
    yield "not for other places, times or people without measuring again, nor to predict the effect of a change"
    if finding(state) in ("outer-ahead", "folds-ahead"):
        yield "ahead of the baseline, which uses no column, but no theory gives the interval in the order of time"
    elif finding(state) in ("folds-untested", "outer-untested", "test-untested"):
        yield "not tested against the baseline, which uses no column: not for use as it stands"
    elif finding(state) not in ("test-better", "outer-better", "folds-better"):
        yield "not shown to beat the baseline, which uses no column: not for use as it stands"


def _data(state: StudyState) -> Iterator[str]:
    plan, parted = state.plan, made(state.parted)
    total = sum(sum(texts.values()) for texts in state.missing.values())
    yield f"{plan.source}: {len(parted.train):,} training rows and {parted.n_test:,} test rows"
    kinds = [plan.kinds[name] for name in plan.features]
    yield "columns: " + ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    yield f"missing cells of the table: {total:,}"
    if plan.drop:
        yield f"left out: {', '.join(plan.drop)}"
    if plan.group is not None:
        yield f"rows of one {plan.group} are never split between training and test"
    if plan.time is not None:
        yield f"test rows are later than training rows, by {plan.time}"


def _figures(state: StudyState, unit: str | None) -> Iterator[str]:
    yield verdict(state)
    plan, opened, results = state.plan, state.opened, made(state.leaderboard).results
    for name in dict.fromkeys([made(state.fitted).selection.name, BASELINE]):
        if name in results:
            found = results[name].interval(plan.level)
            value, ends = amount(plan.metric, found.estimate, found.lower, found.upper, unit)
            level = f"{100 * plan.level:g}% interval {ends}"
            yield f"{called(plan.metric)} of {name} by {results[name].scheme}: {value} ({level})"
    if opened is None:
        yield "the test set is sealed and has not been scored"
        return
    for metric, one in opened.intervals.items():
        value, ends = amount(metric, one.estimate, one.lower, one.upper, unit)
        beside = ""
        if metric in opened.baseline:
            beside = f", baseline {amount(metric, opened.baseline[metric], one.lower, one.upper, unit)[0]}"
        yield f"{called(metric)} on the test rows: {value} ({100 * one.level:.4g}% interval {ends}{beside})"


def _checks(state: StudyState) -> Iterator[str]:
    found = [one for one in made(state.checks) if one.status == "found"]
    yield f"{plural(len(list(made(state.checks))), 'check')} of the training rows, {len(found)} with findings"
    for one in found:
        yield f"{one.severity}: {one.title} ({one.detail})"


def _record(state: StudyState, context: Context) -> Iterator[str]:
    parted = made(state.parted)
    yield f"study {parted.name}, assay {__version__}, seed {state.plan.seed}"
    yield f"seal {parted.sealed.seal.id}, made {parted.sealed.entry.created[:19]}"
    for entry in [*context.ledger.entries("look", parted.name), *context.ledger.entries("replay", parted.name)]:
        yield f"{entry.kind} at the test set: {entry.created[:19]}, entry {entry.seq} of the ledger"
    yield from (f"hash of {name}: {value}" for name, value in parted.hashes.items())
    yield f"ledger head {context.ledger.head()}"
    yield f"to check all of it: assay verify {parted.name}"


def limitations(state: StudyState) -> tuple[str, ...]:
    """What the intervals cover, and what they do not."""
    plan, opened, n_test = state.plan, state.opened, made(state.parted).n_test
    sentences = [
        "All results are for rows like these: drawn from the same population and recorded in the same way. For other "
        "places, times or people the scores may be worse, and nothing in this report can say by how much."
    ]
    if plan.time is not None and made(state.parted).has_test_set:
        sentences.append(
            "The test rows are later than the training rows; the results hold for about that span of time ahead."
        )
    elif plan.group is None:
        sentences.append(
            "Rows are assumed to be independent. If some belong together (one person, one place, one day), declare "
            "that column with --group: otherwise scores are too optimistic and intervals too narrow."
        )
    sentences.append(
        "The leaderboard's intervals are for the average over training sets of this size, not for this one model; the "
        "selected learner's score there is slightly optimistic, because it was selected by that score."
    )
    if not made(state.parted).has_test_set:
        sentences += _outer_limits(state)
    elif opened is None:
        sentences.append("The test set has not been scored yet, so this report makes no claim about the final model.")
    elif opened.release is not None:
        sentences.append(
            "This look at the test set was not planned. Its score is reported only in steps, and only if it beats the "
            "best so far (The Ladder: Blum and Hardt, 2015). That limits what many looks can reveal about the same "
            "rows, but there is no confidence interval."
        )
    else:
        found = opened.intervals[opened.primary]
        rows = f"{n_test:,} rows" if plan.group is None else f"{found.n:,} groups ({n_test:,} rows)"
        drawn = f"accounts for the random choice of {rows} as test set"
        if plan.time is not None:
            drawn = f"takes the test set, the latest {rows}, for a random sample of rows like them"
        sentences.append(
            f"The interval of {opened.primary} {drawn}, for this one fitted model. It does not account for "
            + ("change over time, nor for " if plan.time is not None else "")
            + "how another training set would have changed the model."
        )
        planned = "the one planned look" if plan.looks == 1 else f"the {plan.looks} planned looks together"
        sentences.append(
            f"Its confidence level holds for {planned}, with models fixed before the first look. To change a model "
            "after seeing these scores, new test rows are needed."
        )
    sentences.append(
        "Importances and partial dependence describe the model, not what would happen if a column were changed."
    )
    results = made(state.leaderboard).results
    if any(learner.name in results and not learner.own for learner in made(state.training).learners):
        sentences.append("Results of learners from other packages are as reproducible as those packages.")
    return tuple(sentences)


def _outer_limits(state: StudyState) -> tuple[str, ...]:
    """What the figures of the outer folds cover, and what they do not."""
    found = state.outer
    if found is None or not found.intervals:
        return ("There is no test set and no figure of outer folds, so this report makes no claim about the model.",)
    return (
        f"The interval of {found.primary} is for the procedure trained on a part of the rows: it allows for the random "
        "choice of rows and for training sets that overlap. The model that is delivered was fitted to all rows, and "
        "is as good or a little better.",
        "Without a test set no look is spent, and nothing limits how often the same rows are studied. " + found.studied,
    )
