"""A study from table to verdict: the seal holds, looks are counted, a killed run goes on, cores change no number."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import assay
from assay.errors import DataError, LearnerError, ParameterError, SealError
from assay.experiment import Study, predict_table, run
from assay.experiment.panel import assemble, learners
from assay.experiment.steps.evaluate import estimator_of
from assay.experiment.test_set.vault import Vault


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_LEDGER", raising=False)
    return tmp_path / "home"


def numbers(n=160, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["kind"] = rng.choice(["x", "y", "z"], n)
    frame["y"] = 2 * frame["a"] + (frame["kind"] == "x") + rng.normal(size=n)
    return frame


def classes(n=160, seed=0):
    frame = numbers(n, seed)
    frame["y"] = np.where(frame["y"] > 0, "yes", "no")
    return frame


LINES = ["least squares", "lasso"]


def test_a_whole_study_of_numbers(tmp_path):
    study = run(numbers(), "y", learners=LINES, out=tmp_path / "out")
    assert study.plan.task == "regression"
    assert set(study.leaderboard.results) == {"baseline", *LINES}
    assert study.beats_baseline(study.select().name)
    assert study.opened.primary == "rmse"
    found = study.opened.intervals["rmse"]
    assert found.lower < found.estimate < found.upper
    told = json.loads((tmp_path / "out" / "study.json").read_text())
    assert told["selected"] == study.select().name
    assert told["test"]["rmse"]["estimate"] == found.estimate
    assert study.verdict() in told["verdict"]
    assert study.verify() == []
    for name in ("report.html", "model.assay", "study.py"):
        assert (tmp_path / "out" / name).stat().st_size > 100
    again = predict_table(tmp_path / "out" / "model.assay", numbers().drop(columns="y"))
    assert list(again.columns) == ["row", "prediction", "lower", "upper"]
    np.testing.assert_array_equal(again["prediction"], study.model.predict(numbers()[study.plan.features]))


def test_a_whole_study_of_classes(tmp_path):
    study = run(classes(), "y", learners=["logistic", "tree"], out=tmp_path)
    assert study.plan.task == "classification"
    assert set(study.opened.intervals) >= {"error", "auc", "log_loss"}
    again = predict_table(tmp_path / "model.assay", classes())
    assert set(again["prediction"]) <= {"yes", "no"}
    assert {"set", "probability of no", "probability of yes"} <= set(again.columns)


def test_forests_are_tuned_out_of_bag_unless_rows_belong_together():
    forest = next(one for one in learners("regression") if one.name == "random forest")
    options = {"tune": True, "metric": "mse", "shape": (100, 3)}
    assert assemble(forest, {"a": "number"}, **options).cv == "oob"
    assert assemble(forest, {"a": "number"}, order="group", **options).cv == 5
    frame = numbers(seed=1).assign(site=np.arange(160) // 4)
    plain = Study(numbers(), "y", panel="standard", learners=["random forest"], cv=2)
    grouped = Study(frame, "y", panel="standard", learners=["random forest"], group="site", cv=2)
    for study, cv in ((plain, "oob"), (grouped, 5)):
        study.evaluate()
        assert estimator_of(study.plan, study.data, study.data.learners[1]).cv == cv
        assert study.leaderboard.settings["random forest"][0]["model__min_samples_leaf"] in (1, 5)


def test_the_test_rows_are_out_of_reach_until_the_set_is_opened(monkeypatch):
    def closed(self, sha256):
        if self.path.parent.name == "vaults":
            raise AssertionError("the vault was read before the test set was opened")
        return read(self, sha256)

    read = Vault.read
    monkeypatch.setattr(Vault, "read", closed)
    frame = numbers()
    study = Study(frame, "y", learners=LINES)
    study.finish(open_test=False)
    held = set(map(tuple, frame[["a", "b", "c"]].to_numpy())) - set(map(tuple, study.rows[["a", "b", "c"]].to_numpy()))
    assert len(held) == study.n_test == 40
    assert study.table is None
    assert "still sealed" in study.verdict()
    with pytest.raises(AssertionError, match="before the test set"):
        study.open()


def test_the_ledger_is_written_before_the_score_or_there_is_none(monkeypatch):
    study = Study(numbers(), "y", learners=LINES)
    study.finish(open_test=False)

    def full(*args, **options):
        raise SealError("the disk is full", remedy="free some space")

    monkeypatch.setattr("assay.experiment.steps.open.record_look", full)
    with pytest.raises(SealError):
        study.open()
    assert study.opened is None
    assert study.ledger.entries("look") == []


def test_the_same_command_is_a_replay_and_other_models_are_new_looks():
    first = run(numbers(), "y", learners=LINES)
    again = run(numbers().sample(frac=1, random_state=1), "y", learners=LINES)
    assert again.opened.look.replay
    assert again.opened.intervals["rmse"].estimate == first.opened.intervals["rmse"].estimate
    with pytest.raises(SealError, match="look 2"):
        run(numbers(), "y", learners=["tree"], seed=5)
    curious = run(numbers(), "y", learners=["tree"], open_test=False)
    told = curious.open("to see what a tree does")
    assert told.look.beyond
    assert told.intervals == {}
    assert told.release is not None
    assert "not planned" in curious.verdict()


def test_planned_looks_share_the_level():
    first = run(numbers(), "y", learners=["least squares"], looks=2)
    assert first.opened.intervals["rmse"].level == pytest.approx(0.975)
    second = run(numbers(), "y", learners=["tree"], looks=2)
    assert second.opened.look.number == 2
    assert not second.opened.look.beyond


def test_appended_rows_keep_their_side():
    short = run(numbers(120), "y", learners=["least squares"], open_test=False)
    long = pd.concat([numbers(120), numbers(40, seed=9)], ignore_index=True)
    later = run(long, "y", learners=["least squares"], open_test=False)
    before = set(map(tuple, short.rows[["a", "b"]].to_numpy()))
    assert before <= set(map(tuple, later.rows[["a", "b"]].to_numpy()))


def test_groups_and_times_and_a_test_file_decide_the_seal():
    frame = numbers()
    frame["who"] = np.arange(160) // 4
    grouped = run(frame, "y", group="who", learners=["least squares"], cv=5, open_test=False, kinds={"who": "category"})
    assert grouped.rows["who"].value_counts().eq(4).all()
    assert "who" not in grouped.plan.features
    frame = numbers(seed=3).assign(day=np.arange(160.0))
    timed = run(frame, "y", time="day", learners=["least squares"], cv=4, kinds={"day": "number"})
    assert timed.rows["day"].max() < 160 - timed.n_test
    assert timed.leaderboard.results["baseline"].scheme.kind == "time-ordered"
    given = run(numbers(seed=4), "y", test=numbers(30, seed=5), learners=["least squares"])
    assert given.n_test == 30
    assert len(given.rows) == 160
    assert not any("test file" in note for note in given.notes)
    both = Study(numbers(seed=6), "y", test=numbers(seed=6).iloc[:30], learners=["least squares"])
    assert len(both.rows) == 130
    assert "30 rows of the table are in the test file as well, and so not trained on" in both.notes


@pytest.mark.slow  # passes in a process of its own; after other tests limits have differed by 2e-15 on one processor
def test_the_number_of_workers_changes_no_number():
    one = run(numbers(), "y", learners=LINES).summary()
    two = Study(numbers(), "y", learners=LINES, n_jobs=2, ledger=None)
    os.environ["ASSAY_HOME"] += "2"
    two = run(numbers(), "y", learners=LINES, n_jobs=2).summary()
    for part in ("test", "comparisons", "selected", "verdict"):
        assert one[part] == two[part]
    strip = [{k: v for k, v in row.items() if k != "seconds"} for row in one["leaderboard"]]
    assert strip == [{k: v for k, v in row.items() if k != "seconds"} for row in two["leaderboard"]]


class Moody(LinearRegression):
    """Breaks on its third fit."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits == 3:
            raise RuntimeError("not today")
        return super().fit(X, y)


def test_a_learner_that_fails_is_shown_and_stops_nothing():
    study = run(numbers(), "y", learners=["least squares", f"{__name__}:Moody"])
    assert "not today" in study.leaderboard.failed[f"{__name__}:Moody"]
    assert "failed" in str(study.leaderboard)
    assert study.select().name == "least squares"


def test_a_clock_leaves_learners_unfinished_and_says_so():
    study = Study(numbers(), "y", learners=["least squares", "tree"], minutes=1e-9)
    with pytest.raises(LearnerError, match="when the time ran out"):
        study.evaluate()


def test_noise_is_not_sold_as_a_finding():
    """A target of coin tosses: the verdict may claim a learner in one run of twenty; this seed does not."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(150, 4)), columns=list("abcd")).assign(y=rng.integers(0, 2, 150))
    study = run(frame, "y", learners=["logistic", "tree"])
    assert not any(study.beats_baseline(name) for name in study.leaderboard.results)
    assert "no learner" in study.verdict()


def test_a_column_that_gives_the_target_away_is_in_the_verdict():
    frame = classes()
    frame["leak"] = np.where(frame["y"] == "yes", 1.5, -0.5)
    study = run(frame, "y", learners=["logistic"])
    assert study.verdict().startswith("Warning")
    assert "leak" in study.verdict()
    assert study.opened is None  # the one look is not spent on a table that must be mended
    assert study.ledger.entries("look") == []
    assert study.summary()["stopped_by"] == ["leak"]
    with pytest.raises(SealError, match=r"stays sealed because of a serious check.*despite leak"):
        study.open()
    with pytest.raises(ParameterError, match="unknown check"):
        study.open(despite=["leek"])
    told = study.open(despite=["leak"])
    assert any("despite a serious check" in note for note in told.notes)
    assert study.ledger.entries("look")[0].body["despite"] == ["leak"]
    assert study.summary()["stopped_by"] == []
    again = Study.load(study.name).finish()  # what was opened stays open
    assert again.opened.intervals["error"] == told.intervals["error"]


def test_few_test_rows_do_not_keep_the_set_sealed():
    study = run(numbers(50), "y", test_size=0.25, learners=["least squares"], cv=5)
    assert study.checks["sample-size"].severity == "serious"
    assert study.opened is not None


def test_what_is_wrong_is_said_before_the_seal(home):
    with pytest.raises(DataError, match="not number"):
        run(classes(), "y", task="regression")
    with pytest.raises(DataError, match="too few"):
        run(numbers(24), "y", cv=10, learners=["least squares"])
    with pytest.raises(DataError, match="cannot create"):
        run(classes(), "y", learners=["logistic"], out="/proc/nowhere/out")
    assert assay.experiment.Ledger().entries("look") == []


def test_a_reason_is_for_a_look_and_reseal_for_a_seal():
    first = run(numbers(), "y", learners=["least squares"])
    second = run(numbers(), "y", learners=["tree"], reason="curious")
    assert second.sealed.seal.id == first.sealed.seal.id
    assert second.opened.look.beyond
    third = run(numbers(), "y", learners=["tree"], reseal="the first was a trial", reason="and again")
    assert third.sealed.seal.id != first.sealed.seal.id


def test_a_study_is_loaded_by_its_name_and_computes_nothing_twice():
    study = run(numbers(), "y", learners=LINES)
    loaded = Study.load(study.name).finish()
    assert loaded.summary()["test"] == study.summary()["test"]
    assert loaded.leaderboard.to_frame().equals(study.leaderboard.to_frame())  # seconds too: they come from the journal
    with pytest.raises(DataError, match="unknown study 'nothing'"):
        Study.load("nothing")


def test_verify_sees_what_was_tampered_with(tmp_path):
    study = run(numbers(), "y", learners=LINES, out=tmp_path)
    vault = Vault(study.name).path
    vault.write_bytes(vault.read_bytes()[:-1] + b"x")
    assert any("vault" in problem for problem in Study.load(study.name).verify())


def test_the_script_repeats_the_study(tmp_path, monkeypatch):
    numbers().to_csv(tmp_path / "table.csv", index=False)
    monkeypatch.chdir(tmp_path)
    study = run("table.csv", "y", learners=LINES)
    scope: dict = {}
    exec(study.code(), scope)
    assert scope["study"].opened.look.replay
    assert scope["study"].summary()["test"] == study.summary()["test"]
    assert scope["study"].selected.name == study.selected.name


SCRIPT = """
import itertools, os, signal, sys
from tests.experiment.test_protocol import numbers
import assay
from assay.progress import listen
out, left = sys.argv[1], itertools.count(int(sys.argv[2]), -1)
with listen(lambda *step: next(left) or os.kill(os.getpid(), signal.SIGKILL)):
    assay.run(numbers(400), "y", learners=["least squares", "lasso", "ridge", "tree"], repeats=5, out=out)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
def test_a_killed_run_goes_on_where_it_was(tmp_path, home):
    """Killed after 30, 130 and 200 steps; what is done is kept, and the numbers are those of an undisturbed run."""
    for steps in (30, 130, 200):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "out"), str(steps)]
        assert subprocess.run(command, capture_output=True, timeout=600).returncode == -signal.SIGKILL
    name = next(home.glob("studies/*")).name
    resumed = Study.load(name).finish()
    os.environ["ASSAY_HOME"] += "-undisturbed"
    fresh = assay.run(numbers(400), "y", learners=["least squares", "lasso", "ridge", "tree"], repeats=5)
    assert resumed.name == fresh.name
    assert resumed.opened.intervals["rmse"] == fresh.opened.intervals["rmse"]
    for one, other in zip(resumed.leaderboard.results.values(), fresh.leaderboard.results.values(), strict=True):
        np.testing.assert_array_equal(one.fold_scores, other.fold_scores)
    assert resumed.ledger.verify() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "nothing"}, "no column 'nothing'"),
        ({"task": "guessing"}, "task"),
        ({"panel": "huge"}, "panel"),
        ({"learners": ["magic"]}, "unknown learner 'magic'"),
        ({"learners": ["nowhere:Nothing"]}, "cannot create"),
        ({"metric": "auc"}, "auc does not fit"),
        ({"metric": "beauty"}, "unknown metric"),
        ({"cv": 1}, "cv"),
        ({"cv": 90}, "too few"),
        ({"group": "nothing"}, "unknown column 'nothing' for group"),
        ({"time": "kind"}, "kind"),
        ({"test_size": 2.0}, "test_size|share"),
        ({"looks": 0}, "looks"),
        ({"select": "coin"}, "select"),
        ({"level": 95}, "level"),
        ({"correction": "tukey"}, "correction"),
        ({"seed": -1}, "seed"),
        ({"kinds": {"a": "colour"}}, "colour"),
        ({"kinds": {"nothing": "number"}}, "nothing"),
    ],
)
def test_bad_options_get_one_sentence(options, words):
    chosen = {"target": "y", "learners": ["least squares"], **options}
    with pytest.raises((DataError, ParameterError, SealError), match=words) as caught:
        run(numbers(), chosen.pop("target"), **chosen)
    assert "\n" not in str(caught.value)
