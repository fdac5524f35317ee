"""Learners that cannot win, and a run with a clock: what is recorded, and that the numbers repeat."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

from assay.errors import SealError
from assay.evaluation import cross_validate
from assay.evaluation.compare import compare
from assay.experiment import Study, run

LEARNERS = ["least squares", "ridge", "tree"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_LEDGER", raising=False)


def line(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    return frame.assign(y=frame.sum(axis=1) + 0.3 * rng.normal(size=n))


def figures(study):
    board, pairs = study.leaderboard, study.comparisons
    return (
        {name: one.estimate for name, one in board.results.items()},
        dict(board.stopped),
        pairs.adjusted.tolist(),
        pairs.lower.tolist(),
    )


def test_a_learner_that_cannot_win_is_stopped_and_stays_in_the_table_and_the_correction(tmp_path):
    study = run(line(), "y", learners=LEARNERS, out=tmp_path / "out")
    assert set(study.leaderboard.stopped) == {"tree"}
    assert set(study.leaderboard.results) == {"baseline", "least squares", "ridge"}
    assert "on the first 3 folds" in study.leaderboard.stopped["tree"]
    assert "stopped, not compared" in str(study.leaderboard)
    assert study.comparisons.stopped == ("tree",)
    assert study.comparisons.n_pairs == 6
    assert "Counted, but not compared, as they were stopped early: tree" in str(study.comparisons)
    told = json.loads((tmp_path / "out" / "study.json").read_text())
    row = next(one for one in told["leaderboard"] if one["learner"] == "tree")
    assert row["status"].startswith("stopped, not compared")
    assert row["estimate"] is None
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<p>Tree stopped, not compared: " in page  # on paper the table is left out
    found = study.comparisons
    assert f"corrected for the number of pairs ({found.n_pairs} with those of learners that were stopped)" in page


def test_a_resumed_run_decides_the_same():
    frame = line()
    first = Study(frame, "y", learners=LEARNERS, open_test=False)
    before = figures(first)
    again = Study.load(first.name)
    assert figures(again) == before


@pytest.mark.parametrize(
    "options",
    [{"cv": 4}, {"cv": "holdout"}, {"cv": "5x2"}, {"time": "when"}, {"metric": "median_absolute_error"}],
)
def test_where_the_first_folds_do_not_speak_for_the_others_nobody_is_stopped(options):
    frame = line(200).assign(when=pd.date_range("2020-01-01", periods=200).astype(str))
    study = Study(frame, "y", learners=["least squares", "tree"], open_test=False, **options)
    assert study.leaderboard.stopped == {}


def test_the_best_readable_learner_is_never_stopped():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    frame["y"] = 3 * np.sign(frame["a"] * frame["b"]) + 0.3 * rng.normal(size=400)
    study = Study(frame, "y", learners=["least squares", "lasso", "random forest"], open_test=False)
    assert study.select().name == "random forest"
    assert study.readable is not None
    assert len(study.leaderboard.stopped) == 1


def test_stopped_pairs_only_widen():
    frame = line(120)
    X, y = frame[list("abcd")].to_numpy(), frame["y"].to_numpy()
    from sklearn.dummy import DummyRegressor
    from sklearn.linear_model import LinearRegression, Ridge

    results = [cross_validate(one, X, y) for one in (LinearRegression(), Ridge(50.0), DummyRegressor())]
    for correction in ("max-t", "bonferroni", "holm", "sidak", "bh"):
        plain = compare(results, correction=correction)
        more = compare(results, correction=correction, stopped=("tree", "forest"))
        assert more.n_pairs == 10
        assert (more.adjusted >= plain.adjusted).all()
        assert (more.upper - more.lower >= plain.upper - plain.lower - 1e-12).all()
        # An interval excludes 0 exactly where its adjusted p-value is at most 1 - level.
        assert ((more.adjusted <= 0.05) == more.rejected).all()
    bonferroni = compare(results, correction="bonferroni", stopped=("tree", "forest"))
    assert (compare(results, stopped=("tree", "forest")).adjusted <= bonferroni.adjusted + 1e-12).all()


class Clock:
    """A clock that runs out after so many looks at it."""

    def __init__(self, looks):
        self.left = looks

    def __call__(self):
        self.left -= 1
        return 0.0 if self.left >= 0 else 1e12


@pytest.fixture
def late(monkeypatch):
    """A study of which the last learners are unfinished."""
    module = import_module("assay.experiment.steps.evaluate")
    with monkeypatch.context() as patch:
        patch.setattr(module, "monotonic", Clock(32))
        return Study(line(), "y", learners=[*LEARNERS, "lasso"], minutes=1e6, n_jobs=1, open_test=True).finish()


def test_a_clock_spends_no_look_and_a_run_of_those_that_finished_gives_the_same_numbers(late, tmp_path):
    assert late.leaderboard.unfinished
    assert late.opened is None
    assert [one.code for one in late.unanswered()] == ["unfinished"]
    assert late.ledger.entries("look", late.name) == []
    assert "Warning" not in late.verdict()
    with pytest.raises(SealError, match=r"unfinished.*despite unfinished"):
        late.open()
    finished = [name for name in late.leaderboard.finished if name != "baseline"]
    assert finished
    again = Study(line(), "y", learners=finished, open_test=False)
    assert figures(again) == figures(late)
    assert late.summary()["finished"] == late.leaderboard.finished
    assert late.summary()["stopped_by"] == ["unfinished"]


def test_what_is_held_stays_and_what_is_resumed_goes_on(late):
    held = Study.load(late.name, hold=True)
    assert held.leaderboard.unfinished.keys() == late.leaderboard.unfinished.keys()
    assert figures(held) == figures(late)
    assert held.open(despite=["unfinished"]).look.number == 1
    assert Study.load(late.name).leaderboard.unfinished == {}


def test_at_half_time_a_clock_lets_what_has_begun_finish_before_the_others_begin(monkeypatch):
    module, calls, seen = import_module("assay.experiment.steps.evaluate"), iter(range(10**6)), []
    started = module.monotonic()
    # Beyond half of the time once the baseline and the forest have their first folds, and never beyond all of it.
    monkeypatch.setattr(module, "monotonic", lambda: started + (0.0 if next(calls) < 6 else 4e7))
    learners = ["least squares", "ridge", "random forest"]
    study = Study(line(60), "y", learners=learners, minutes=1e6, n_jobs=1, listener=seen.append)
    board = study.leaderboard
    assert not board.unfinished
    done = [(event.learner, event.done) for event in seen if type(event).__name__ == "FoldDone"]
    assert done.index(("random forest", 10)) < done.index(("ridge", 1))
    assert figures(study) == figures(Study(line(60), "y", learners=learners, open_test=False))


def test_a_clock_takes_the_strongest_first():
    seen = []
    study = Study(
        line(60), "y", learners=["least squares", "ridge", "random forest"], minutes=1e6, listener=seen.append
    )
    study.evaluate()
    began = [event.learner for event in seen if type(event).__name__ == "LearnerBegan"]
    assert began[:4] == ["baseline", "random forest", "ridge", "least squares"]
