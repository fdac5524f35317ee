"""Contributions in the report: of rows that the explaining model had not seen, adding up, and left out where dear."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

from assay.evaluation import shapley_values
from assay.experiment.study import run
from assay.report import _contributions_section as section
from assay.report._held_out import HeldOut
from assay.report._inspection_section import refits_of


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def table(classes=False, n=150, p=8):
    rng = np.random.default_rng(n + p + classes)
    frame = pd.DataFrame(rng.normal(size=(n, p)), columns=[f"x{j}" for j in range(p)])
    signal = 2 * frame.x0 - frame.x1 + rng.normal(scale=0.5, size=n)
    frame["y"] = np.where(signal > 0, "yes", "no") if classes else signal
    return frame


@pytest.fixture(scope="module")
def numbers(_home):
    study = run(table(), "y", learners=["least squares"], cv=5, open_test=False)
    return HeldOut.of(study), refits_of(study)


def test_rows_are_explained_by_refits_that_had_not_seen_them(numbers):
    held, refits = numbers
    chosen = section._chosen(held, refits, 2)
    errors = np.abs(held.y - held.values)
    assert len(chosen) == 4
    for one in chosen:
        row = held.rows[one.at]
        assert row in one.refit.outside
        assert row not in one.refit.inside
    typical, worst = [one.at for one in chosen[:2]], [one.at for one in chosen[2:]]
    assert worst == np.argsort(-errors, kind="stable")[:2].tolist()
    assert (errors[typical] <= np.median(errors)).all()
    assert held.values[typical[0]] < np.median(held.values) < held.values[typical[1]]
    assert [one.title for one in chosen[2:]] == ["The worst row", "Number 2 of the worst rows"]


def test_each_row_has_its_picture_and_its_numbers(numbers):
    held, refits = numbers
    parts = section.contributions(held, refits)
    assert [part.title for part in parts[:2]] == [section.TITLE, "A typical row"]
    assert "training rows (grey line)" in parts[0].words[0]
    assert "the worst have the largest errors in the study's folds" in parts[0].words[0]  # not in these refits
    assert not any("sampled" in words for words in parts[0].words)
    chosen = section._chosen(held, refits, 2)[0]
    frame = held.study.data.rows.X[held.study.plan.features]
    values = shapley_values(
        chosen.refit.model,
        frame.iloc[[held.rows[chosen.at]]],
        frame.iloc[chosen.refit.inside],
        random_state=held.study.plan.seed,
    )
    shown = {row[0]: float(row[2]) for row in parts[1].view.rows}
    expected = dict(zip(values.names, values.values[0], strict=True))
    assert shown == pytest.approx({name: expected[name] for name in shown}, rel=6e-3)
    assert values.base + values.values.sum() == pytest.approx(values.prediction[0])
    assert all(part.picture is not None for part in parts[1:])


def test_sampled_values_show_their_error_and_are_left_out_where_dear(monkeypatch):
    study = run(table(classes=True, n=90), "y", learners=["nearest neighbours"], cv=5, open_test=False)
    held, refits = HeldOut.of(study), refits_of(study)
    parts = section.contributions(held, refits)
    assert len(parts) == 5
    assert "Monte-Carlo" in parts[0].words[-1]
    assert parts[1].view.columns == ("column", "value", "contribution", "standard error")
    assert "with probability" in parts[-1].words[0]
    monkeypatch.setattr(section, "DEAR", 1.0)
    (part,) = section.contributions(held, refits)
    assert part.picture is None
    assert "assay predict --explain" in part.words[0]
