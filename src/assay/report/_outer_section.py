"""The outer folds of a study without a test set, as a section of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.experiment.wording import apart, called
from assay.report._embed import Part, sentence
from assay.report._result_sections import figures_table

if TYPE_CHECKING:
    from assay.experiment.study import Study

__all__ = ["outer_part"]


def outer_part(study: Study) -> Part:
    """Figures with intervals, the test against the baseline, what was selected, and how many studies there were."""
    found = study.outer
    assert found is not None
    sentences = [
        f"There is no test set. The whole procedure (tuning, panel, selection, threshold, calibration, refit) was "
        f"repeated without the rows of each outer fold and evaluated on them: {found.scheme}. The folds that selected "
        "the model are not part of these figures.",
        *(sentence(note) for note in found.notes),
    ]
    if found.selected:
        sentences.append(f"Selected in the outer folds: {found.chosen}.")
    if found.against_baseline is not None:
        one = found.against_baseline
        gap, ends = apart(one.metric, one.difference, one.lower, one.upper)
        sentences.append(
            f"The one planned test, the procedure against the baseline on the same folds: the difference in "
            f"{called(one.metric, short=True)} is {gap}, {100 * one.level:.4g}% interval {ends} ({one.p_text}; "
            f"{one.method})."
        )
    if not found.intervals:
        return Part("", (*sentences, found.studied))
    caption = f"Scores of the outer folds, for {study.plan.population}; trained on the rows outside each fold"
    return Part("", (*sentences, found.studied), view=figures_table(caption, found, study.wishes.unit), wide=True)
