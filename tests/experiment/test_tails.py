"""A study whose errors have a long tail: training rows propose another metric, the test figure has a warning."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from assay.experiment import Study, run
from assay.experiment.checks import tails
from assay.experiment.checks.tails import error_tail
from assay.experiment.wording import called
from assay.inference import diagnose_tail
from assay.metrics import get_metric


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))


def table(n=400, df=2.1, seed=3):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame["y"] = 5 * frame["a"] + (rng.standard_t(df, n) if df else rng.normal(size=n))
    return frame


def test_a_few_rows_are_told_before_the_look_and_beside_the_figure(tmp_path):
    study = run(table(), "y", learners=["least squares"], out=tmp_path / "out")
    check = study.checks["error-tail"]
    losses, _ = study.leaderboard.results[study.select().name].row_losses("mse")
    expected = diagnose_tail(losses)
    assert expected.heavy
    assert (check.status, check.severity) == ("found", "warning")
    assert expected.carried("squared error") in check.detail
    assert "--metric mae" in check.remedy
    opened = study.opened
    errors = (opened.y - opened.predictions["values"]) ** 2
    assert opened.tail.rows == diagnose_tail(errors).rows
    assert opened.tail.heavy
    carried = opened.tail.carried("squared error")
    assert any(note.startswith(carried) for note in opened.notes)
    assert f"But {carried}, so the upper limit of the rmse may be too low." in study.verdict()
    told = json.loads((tmp_path / "out" / "study.json").read_text())
    assert told["test"]["rmse"]["tail"]["rows"] == opened.tail.rows
    assert told["test"]["rmse"]["tail"]["heavy"] is True
    for name, q in (("median_absolute_error", 0.5), ("p90_absolute_error", 0.9)):
        found = told["test"][name]
        assert found["role"] == "secondary"
        assert found["method"] == "order statistics"
        assert found["lower"] <= np.quantile(np.sqrt(errors), q, method="averaged_inverted_cdf") <= found["upper"]
    assert carried in (tmp_path / "out" / "report.html").read_text()


def test_where_a_serious_check_keeps_the_set_sealed_another_metric_may_still_be_chosen():
    frame = table()
    frame["copy"] = frame["y"].rank()
    study = run(frame, "y", learners=["least squares"])
    assert study.opened is None
    assert "decide before the test set is opened" in study.checks["error-tail"].remedy


def test_the_proposal_does_not_depend_on_test_rows(monkeypatch):
    """It is there while the set is sealed, and made from out-of-fold losses alone."""
    seen = []
    monkeypatch.setattr(tails, "diagnose_tail", lambda losses, weights: seen.append(losses) or diagnose_tail(losses))
    study = Study(table(), "y", learners=["least squares"], open_test=False)
    study.select()
    assert study.opened is None
    assert study.checks["error-tail"].status == "found"
    assert [losses.size for losses in seen] == [len(study.rows)]


def test_light_tails_are_not_warned_of():
    study = run(table(df=None), "y", learners=["least squares"])
    assert study.checks["error-tail"].status == "passed"
    assert not study.opened.tail.heavy
    assert len([note for note in study.opened.notes if "larger errors than those seen" in note]) == 1
    assert "But" not in study.verdict()


def test_few_rows_are_said_to_show_no_tail():
    study = run(table(n=100, df=None), "y", learners=["least squares"], test_size=0.4)
    assert any("too few to show the tail of the errors" in note for note in study.opened.notes)


def test_metrics_without_a_tail_have_no_such_check():
    study = run(table(df=None), "y", metric="median_absolute_error", learners=["least squares"])
    assert study.checks["error-tail"].status == "not applicable"
    assert study.opened.tail is None
    heavy = diagnose_tail(np.r_[np.zeros(99), 1.0])
    assert "--metric median_absolute_error" in error_tail(get_metric("mae"), "ridge", heavy).remedy
    assert "before the test set is opened" in error_tail(get_metric("mae"), "ridge", heavy, "sealed").remedy
    for test_set in ("opening", "none"):  # too late, or nothing to open
        assert "before the test set is opened" not in error_tail(get_metric("mae"), "ridge", heavy, test_set).remedy
    assert "--metric" not in error_tail(get_metric("poisson_deviance"), "ridge", heavy).remedy


def test_secondary_figures_with_a_few_dominant_rows_are_warned_of_too():
    study = run(table(), "y", metric="median_absolute_error", learners=["least squares"])
    errors = study.opened.y - study.opened.predictions["values"]
    assert diagnose_tail(errors**2).heavy
    carried = diagnose_tail(errors**2).carried("squared error")
    assert any(note.startswith(carried) for note in study.opened.notes)
    small = {"metric": "median_absolute_error", "learners": ["least squares"], "test_size": 0.25}
    few = run(table(n=100, df=None, seed=4), "y", **small)
    assert any("too few to show the tail of the errors" in note for note in few.opened.notes)


def test_r2_has_the_warning_and_a_lower_limit_that_allows_for_the_tail():
    study = run(table(), "y", metric="r2", learners=["least squares"])
    interval = study.opened.intervals["r2"]
    assert interval.method == "tail-corrected t"
    assert (
        interval.lower
        < get_metric("r2")
        .interval(study.opened.y, study.opened.predictions["values"], method="delta", level=interval.level)
        .lower
    )
    carried = study.opened.tail.carried("squared error")
    warning = f"{carried}, so the lower limit of the {called('r2', short=True)} may be too high"
    assert any(note.startswith(warning) for note in study.opened.notes)
