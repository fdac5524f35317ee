"""Protocols of resampling inside a study: folds, holdout, leave-one-out, five times two, in groups and in time."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.cli import tell
from assay.errors import DataError, ParameterError
from assay.evaluation.learner import Rows
from assay.experiment.model_file import load_model
from assay.experiment.plan import Plan
from assay.experiment.protocol import number_of_splits, splits_for


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def numbers(n=200, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc")).assign(who=np.arange(n) // 8, day=np.arange(n))
    return frame.assign(y=frame["a"] + rng.normal(size=n))


def plan_of(**more):
    return Plan("y", "regression", {}, "quick", (), "rmse", (), **more)


@pytest.mark.parametrize(
    ("options", "kind", "splits"),
    [
        ({"cv": "holdout"}, "holdout", 1),
        ({"cv": "holdout", "repeats": 4}, "repeated holdout", 4),
        ({"cv": "loo"}, "leave-one-out", 60),
        ({"cv": "5x2"}, "5x2", 10),
        ({"cv": 4, "repeats": 2}, "repeated k-fold", 8),
        ({"cv": "holdout", "time": "day"}, "holdout", 1),
        ({"cv": "holdout", "group": "who"}, "holdout", 1),
    ],
)
def test_each_protocol_goes_through_the_whole_study(options, kind, splits, tmp_path):
    frame = numbers(80).drop(columns=[name for name in ("who", "day") if name not in options.values()])
    study = assay.run(
        frame, "y", learners=["least squares"], n_jobs=1, kinds={}, out=tmp_path / "out", test_size=0.25, **options
    )
    result = study.leaderboard.results["least squares"]
    assert result.scheme.kind == kind
    assert len(result.splits) == splits == number_of_splits(study.plan, len(study.rows))
    assert np.isfinite(result.interval().lower)
    assert study.opened is not None
    again = assay.Study.load(study.name).finish()
    assert again.opened.look.replay
    assert again.leaderboard.results["least squares"].estimate == result.estimate
    assert str(result.scheme) in (tmp_path / "out" / "report.html").read_text()


def test_leave_one_group_out():
    frame = numbers(160).drop(columns="day")
    study = assay.Study(frame, "y", learners=["least squares"], n_jobs=1, cv="loo", group="who", open_test=False)
    groups = study.data.rows.groups
    assert len(study.data.splits) == np.unique(groups).size
    assert all(np.unique(groups[test]).size == 1 for _, test in study.data.splits)


@pytest.mark.parametrize("grouped", [False, True])
def test_noise_does_not_beat_the_baseline_where_folds_lack_the_class_they_are_judged_on(grouped):
    """Half of the rows are of each class, so without the rows of a fold the other class is the more frequent one."""
    for seed in range(3):
        frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(60, 3)), columns=list("abc"))
        who = np.arange(60) // 6 if grouped else np.arange(60)
        frame = frame.assign(who=who, y=np.where(who % 2, "yes", "no")) if grouped else frame.assign(y=who % 2 > 0)
        options = {"cv": "loo", "group": "who"} if grouped else {"cv": "loo"}
        study = assay.Study(frame, "y", learners=["logistic", "tree"], n_jobs=1, **options)
        assert study.leaderboard.results["baseline"].estimate == 0.5
        assert not any(study.beats_baseline(name) for name in ("logistic", "tree"))


def test_noise_does_not_cost_less_than_the_cheapest_guess():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc"))
    frame["y"] = np.where(np.arange(60) % 2, "yes", "no")
    study = assay.Study(frame, "y", learners=["logistic"], n_jobs=1, cv="loo", cost="missed=1 false=1")
    assert study.leaderboard.results["baseline"].estimate == 0.5
    assert not study.beats_baseline("logistic")
    chosen = assay.run(frame, "y", learners=["logistic"], n_jobs=1, cv=5, cost="missed=9 false=1", out="out")
    assert chosen.select().name == "baseline"  # yes for every row
    assert set(load_model("out/model.assay")["pipeline"].predict(frame[list("abc")])) == {"yes"}


@pytest.mark.parametrize(("metric", "guess"), [("f1", 2 / 3), ("mae", None)])
def test_noise_does_not_beat_the_best_of_all_guesses(metric, guess):
    """It is always-yes in F1, and the median in absolute error; noise beats always-no and the mean."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
        frame["y"] = np.exp(rng.normal(size=60)) if guess is None else np.where(np.arange(60) % 2, "yes", "no")
        learners = ["support vectors", "tree"] if guess is None else ["logistic", "naive Bayes"]
        study = assay.Study(frame, "y", learners=learners, n_jobs=1, cv=5, metric=metric)
        y, ours = frame["y"], study.leaderboard.results["baseline"].estimate
        assert ours == pytest.approx(guess) if guess else ours < (y - y.mean()).abs().mean()
        assert not any(study.beats_baseline(name) for name in learners)


@pytest.mark.parametrize(("metric", "guess"), [("top_k_accuracy", 2 / 3), ("mae", 30 / 61)])
def test_noise_does_not_beat_a_guess_that_folds_turn_against_their_rows(metric, guess):
    """Without a row its class is the rarest of equally large ones, and the median lies in the other of two heaps."""
    n, learner = (60, "discriminant") if metric == "top_k_accuracy" else (61, "least squares")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(n, 3)), columns=list("abc"))
    frame["y"] = np.array(list("rst"))[np.arange(n) % 3] if n == 60 else np.arange(n) % 2 + 1e-3 * np.arange(n) / n
    options = {"cv": "loo", "metric": metric, "test_size": "none"}
    study = assay.Study(frame, "y", learners=[learner], n_jobs=1, **options)
    assert study.leaderboard.results["baseline"].estimate == pytest.approx(guess, abs=2e-3)
    assert not study.beats_baseline(learner)


def test_errors_that_last_in_time_are_said_to_make_intervals_too_narrow():
    for lasting in (True, False):
        frame = numbers(200, seed=lasting).drop(columns="who")
        noise = np.random.default_rng(5).normal(size=200)
        frame["y"] = frame["a"] + (np.cumsum(noise) if lasting else noise)
        study = assay.Study(frame, "y", learners=["least squares"], n_jobs=1, time="day", test_size=0.3, cv=3)
        notes = " ".join(study.open().notes)
        assert ("follow each other in 'day' are alike (correlation 0." in notes) == lasting
        assert ("are too narrow" in notes) == lasting


def test_a_holdout_is_not_called_cross_validation(tmp_path):
    frame = numbers(400).drop(columns=["who", "day"])
    options = {"cv": "holdout", "refit": False, "open_test": False, "n_jobs": 1, "out": tmp_path / "out"}
    study = assay.run(frame, "y", learners=["least squares"], **options)
    assert "on the validation rows; the test set is still sealed" in study.verdict()
    for name in ("report.html", "model-card.md"):
        words = re.sub(r"<[^>]+>", " ", (tmp_path / "out" / name).read_text())
        assert not re.search(r"(in|by) cross-validation", words, re.IGNORECASE), name
        assert "It is fitted to 220 of 300 training rows, those outside the holdout." in words, name
    assert "test set" not in study.comparisons.why


def test_three_parts_by_shares_with_and_without_a_refit():
    frame = numbers(1000).drop(columns=["who", "day"])
    shares = {"test_size": 0.2, "cv": "holdout", "validation": 0.1, "open_test": False, "n_jobs": 1}
    study = assay.Study(frame, "y", learners=["least squares"], **shares)
    ((train, validation),) = study.data.splits
    assert (len(train), len(validation), study.n_test) == (700, 100, 200)
    rows = study.data.rows
    kept = assay.Study(frame, "y", learners=["least squares"], refit=False, **shares)
    for model, part in ((study.model, np.arange(800)), (kept.model, train)):
        X = np.column_stack([np.ones(len(part)), rows.X.iloc[part]])
        slopes = np.linalg.lstsq(X, rows.y[part], rcond=None)[0]
        wanted = np.column_stack([np.ones(rows.n), rows.X]) @ slopes
        assert np.allclose(model.predict(rows.X), wanted)


@given(
    st.integers(20, 120),
    st.sampled_from(["holdout", "loo", "5x2", 2, 7]),
    st.booleans(),
    st.booleans(),
    st.floats(0.1, 0.5),
)
def test_no_row_or_group_is_on_both_sides(n, cv, grouped, timed, share):
    timed = timed and cv not in ("loo", "5x2") and not grouped
    groups = np.arange(n) // 2 if grouped else None
    plan = plan_of(cv=cv, time="t" if timed else None, validation=share if cv == "holdout" else None)
    splits = splits_for(plan, Rows(np.zeros((n, 1)), np.zeros(n), None, None, groups), n)
    for train, test in splits:
        assert min(len(train), len(test)) > 0
        assert not set(train) & set(test)
        assert groups is None or not set(groups[train]) & set(groups[test])
        assert not timed or train.max() < test.min()
    if cv == "holdout" and not grouped:
        assert abs(len(splits[0][1]) - share * n) <= 1
    elif not timed and cv != "holdout":
        tested = np.concatenate([test for _, test in splits])
        assert (np.bincount(tested, minlength=n) == (5 if cv == "5x2" else 1)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cv": 1}, "at least 2, or one of holdout, loo, 5x2"),
        ({"cv": "twice"}, "at least 2, or one of holdout, loo, 5x2"),
        ({"cv": "loo", "repeats": 2}, "has no repeats"),
        ({"cv": "5x2", "time": "day"}, "ignores the order of time"),
        ({"cv": 5, "time": "day", "repeats": 2}, "folds in the order of time have no repeats"),
        ({"cv": 5, "validation": 0.1}, "share of a holdout"),
        ({"cv": 5, "refit": False}, "one holdout"),
        ({"cv": "holdout", "validation": 1.5}, "between 0 and 1"),
    ],
)
def test_protocols_that_contradict_themselves_are_refused(options, words):
    with pytest.raises(ParameterError, match=words):
        assay.Study(numbers(), "y", **options)


def test_shares_that_leave_nothing_are_refused():
    study = assay.Study(numbers(), "y", cv="holdout", validation=0.6, test_size=0.5, learners=["least squares"])
    with pytest.raises(DataError, match="smaller share for validation"):
        study.leaderboard  # noqa: B018


# Groups in the order of time.


def visits(n=240):
    """Groups of six rows that start one after the other and overlap in time."""
    rng = np.random.default_rng(1)
    who = np.arange(n) // 6
    day = who * 2.0 + np.tile(np.arange(6), n // 6) * 3
    frame = pd.DataFrame({"who": who, "day": day, "a": rng.normal(size=n)})
    return frame.assign(y=frame["a"] + rng.normal(size=n))


@pytest.mark.parametrize("known", [False, True])
def test_new_groups_in_the_future_unless_known_ones_are_asked_for(known, tmp_path):
    frame = visits()
    options = {
        "group": "who",
        "time": "day",
        "cv": 4,
        "n_jobs": 1,
        "known_groups": known,
        "out": tmp_path / "out",
        "test_size": 0.25,
    }
    study = assay.run(frame, "y", learners=["least squares"], kinds={"who": "category"}, **options)
    cut = study.sealed.seal.cut
    later = frame[frame["day"] > cut]
    fresh = ~later["who"].isin(frame.loc[frame["day"] <= cut, "who"])
    assert study.rows["day"].max() <= cut
    assert len(study.rows) == (frame["day"] <= cut).sum()
    assert study.n_test == (len(later) if known else fresh.sum()) < len(frame)
    told = [note for note in study.notes if "left out" in note]
    assert told == [] if known else told[0].startswith(f"{(~fresh).sum()} later rows of ")
    groups = study.data.rows.groups
    shared = [set(groups[train]) & set(groups[test]) for train, test in study.data.splits]
    assert any(shared) == known
    which = "known and new groups" if known else "new groups"
    estimand = f"later rows (by 'day') of {which} (by 'who')"
    assert study.opened.intervals["rmse"].estimand == f"rmse of least squares on {estimand}"
    assert which in (tmp_path / "out" / "report.html").read_text()
    limits = (tmp_path / "out" / "model-card.md").read_text()
    assert "takes the test set, the latest " in limits
    assert "random choice" not in limits


def test_folds_without_new_groups_are_counted_in_a_note(capsys):
    frame = visits().assign(who=lambda t: np.where(t["day"] < 50, t["who"] % 6, t["who"] + 100))
    study = assay.Study(frame, "y", test_size=0.2, group="who", time="day", learners=["least squares"], cv=6)
    left = 6 - len(study.data.splits)
    assert left > 0
    notes = [note for note in study.notes if "of 6 folds" in note]
    assert len(notes) == 1
    assert notes[0].startswith(f"{left} of 6 folds")
    assert "--known-groups" in notes[0]
    tell.leaderboard(study)
    assert f"note: {left} of 6 folds" in capsys.readouterr().out


@pytest.mark.parametrize("learned", [False, True])
def test_known_groups_are_a_feature_where_their_kind_is_set(learned):
    frame = visits().assign(y=lambda t: t["y"] + 5.0 * (t["who"] % 2))
    options = {"group": "who", "time": "day", "known_groups": True, "learners": ["tree"], "cv": 4, "test_size": 0.25}
    study = assay.Study(frame, "y", kinds={"who": "category"} if learned else None, **options)
    assert ("who" in study.plan.features) == learned
    told = [note for note in study.notes if "--kind who=category" in note]
    assert len(told) == (not learned)
    assert Plan.from_state(study.plan.state()) == study.plan
    study.seal()
    assert ("'who': 'category'" in study.code()) == learned
    unseen = frame.head(2).assign(who=[999, 998])
    assert len(study.predict(unseen).frame) == 2


def test_a_margin_without_a_size_to_choose_is_refused():
    for more in ({"test_size": 0.2}, {"test": visits()}):
        with pytest.raises(ParameterError, match="margin sets the size"):
            assay.Study(visits(), "y", margin=0.2, **more)


def test_known_groups_alone_say_nothing():
    with pytest.raises(ParameterError, match="needs a group and a time"):
        assay.Study(visits(), "y", known_groups=True, group="who")


def test_later_rows_of_known_groups_only():
    frame = visits().assign(who=lambda t: t["a"].rank().astype(int) % 4)
    study = assay.Study(frame, "y", test_size=0.25, group="who", time="day", learners=["least squares"])
    with pytest.raises(DataError, match="--known-groups"):
        study.seal()
