"""The first page where a few rows decide the main figure."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from assay.evaluation import slices
from assay.experiment.study import run
from assay.report._first_page import how_far_off, what_to_do, where_it_fails
from assay.report._held_out import HeldOut


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))


def answer(train, test, **options):
    """The study of 300 training and 100 test rows with so many huge errors in each, and its first answer."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    frame["y"] = 10 * frame.a + 3 * rng.normal(size=400)
    frame.loc[[*range(train), *range(300, 300 + test)], "y"] += np.array([30.0, -80.0, 20.0, 55.0, -40.0])[
        : train + test
    ]
    study = run(frame[:300], "y", test=frame[300:], learners=["least squares"], cv=5, **options)
    return study, how_far_off(study)


def test_errors_without_a_tail_are_led_by_the_main_figure():
    study, found = answer(0, 0)
    assert found.lead.startswith("Predictions are typically off by ")
    assert "decide" not in " ".join(found.words) + study.verdict()


def test_a_few_test_rows_that_decide_are_said_beside_the_figure():
    _, found = answer(2, 3)
    assert found.lead.startswith("Half of the predictions are off by less than ")
    assert found.words[0].startswith("Nine in ten predictions are off by less than ")
    assert found.words[1].startswith("The main figure, the typical error (rmse), is ")
    assert "Few rows decide it: in the test set 1 of 100 rows makes up" in found.words[1]


def test_a_narrow_interval_far_from_cross_validation_is_not_left_alone():
    study, found = answer(5, 0)
    main, folds = study.test.intervals["rmse"], study.leaderboard.results["least squares"].estimate
    assert main.upper < 4 < folds
    text = " ".join(found.words)
    assert found.lead.startswith("Half of the predictions are off by less than ")
    assert "Few rows decide it: in cross-validation 1 of 300 rows makes up" in text
    assert f"The training rows gave {folds:.4g} in cross-validation" in text
    assert f"But few rows decide the rmse: in cross-validation it is {folds:.3g}" in study.verdict()


def test_a_sealed_study_says_it_too():
    _, found = answer(5, 0, open_test=False)
    assert found.lead.startswith("Predictions are typically off by ")
    assert found.words[0].startswith("Few rows decide it: in cross-validation")


def test_a_rare_class_that_is_never_predicted_is_said():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(700, 2)), columns=["a", "b"])
    frame["fraud"] = np.where(rng.random(700) < 1 / (1 + np.exp(4.5 - frame.a)), "yes", "no")
    for options, never in (({}, True), ({"cost": "missed=100 false=1"}, False)):
        study = run(frame, "fraud", learners=["logistic"], cv=5, test_size="none", **options)
        held = HeldOut.of(study)
        assert (held.labels == "yes").any() != never
        advice = " ".join(what_to_do(study, held, study.summary()["finding"]).words)
        assert ("It never predicts yes by itself" in advice) == never


def test_a_subgroup_that_was_asked_for_is_not_denied_by_the_search_of_all_slices():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 8)), columns=list("abcdefgh")).assign(town=["Ulm"] * 30 + ["Bonn"] * 270)
    losses = np.abs(rng.normal(size=300)) + 0.27 * (frame["town"] == "Ulm")
    study = SimpleNamespace(wishes=SimpleNamespace(unit=None, by=["town"]))
    held = SimpleNamespace(
        study=study,
        slices=slices(losses, frame, loss="absolute error"),
        subgroups=lambda _: SimpleNamespace(slices=slices(losses, frame[["town"]], loss="absolute error")),
        classes=None,
        labels=None,
        y=losses,
        values=np.zeros(300),
        n=300,
    )
    assert len(held.slices.worse) == 0
    assert held.subgroups("town").slices.worse.size == 1
    found = where_it_fails(study, held)
    assert found.lead == "It is shown to do worse than elsewhere where town = Ulm."
    assert found.words[0].endswith("a search of all columns shows none.")
    study.wishes.by = []
    assert where_it_fails(study, held).lead == "No part of the table is shown to be worse than the rest."


def test_todays_guess_is_what_the_baseline_says():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    frame["y"] = 9 * frame.a + np.exp(rng.normal(size=300))
    frame["sick"] = np.where(rng.random(300) < 1 / (1 + np.exp(2 - 2 * frame.a)), "ill", "well")
    for target, options, said in (
        ("y", {"metric": "mae"}, f"the median of the training rows ({np.median(frame.y):.4g})"),
        ("y", {"metric": "rmse"}, f"the mean of the training rows ({np.mean(frame.y):.4g})"),
        ("sick", {"cost": "missed=10 false=1"}, "the same class (ill)"),
        ("sick", {"metric": "error"}, "the same class (well)"),
        ("sick", {"metric": "log_loss"}, "the shares of the classes"),
    ):
        table = frame[["a", "b", target]]
        study = run(
            table,
            target,
            learners=["least squares" if target == "y" else "logistic"],
            cv=3,
            test_size="none",
            reseal="another question",
            **options,
        )
        assert f"Today's guess, {said} for every row," in " ".join(how_far_off(study).words), (target, options)


def test_after_a_look_beyond_the_plan_nobody_is_told_to_open_the_test_set():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    frame["y"] = 3 * frame.a + frame.b + rng.normal(size=300)
    options = {"cv": 3, "test_size": 0.25}
    for learner, reason, lead in (
        ("tree", None, "Use it for rows like these."),
        ("ridge", "a line", "Promising: new test rows are needed to confirm it."),
    ):
        study = run(frame, "y", learners=[learner], reason=reason, **options)
        assert what_to_do(study, HeldOut.of(study), study.summary()["finding"]).lead == lead
