"""Studies without a test set: outer folds repeat the whole procedure, and every output says so."""

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import assay
from assay.cli import app
from assay.errors import SealError
from assay.experiment.events import FoldDone, InOuterFold
from assay.experiment.model_card import model_card
from assay.experiment.model_file import load_model
from assay.experiment.protocol import outer_splits
from assay.experiment.record import finding
from assay.experiment.side_by_side import side_by_side
from assay.experiment.study import Study
from assay.resampling import Folds


def table(n=80, seed=0, signal=0.6):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)).round(6), columns=list("abc"))
    frame["y"] = (signal * frame["a"] + rng.normal(size=n)).round(6)
    return frame


def test_small_tables_have_no_test_set_and_say_why():
    study = assay.run(table(signal=1.0), "y", learners=["least squares"], cv=5)
    told = study.summary()
    assert not study.has_test_set
    assert (told["test_size"], told["n_test"], told["test"], told["look"]) == ("none", 0, None, None)
    assert "cannot hold 30 rows, so there is no test set" in told["test_size_reason"]
    assert told["finding"] == "outer-better"
    assert told["outer"]["figures"]["rmse"]["estimate"] == study.outer.intervals["rmse"].estimate
    assert told["outer"]["studies"] == [study.name]
    assert not study.ledger.entries("look")
    assert "outer folds" in study.verdict()
    assert 'test_size="none"' in study.code().replace("'", '"')


def test_one_hundred_and_fifty_rows_have_one():
    assert Study(table(150), "y").seal().seal.n_test == 37
    assert Study(table(149, 1), "y").seal().seal.by == "none"
    assert "fewer than 150 rows a test set" in Study(table(149, 1), "y").seal().why
    assert Study(table(300, 2), "y", test_size="none").seal().seal.n_test == 0


def test_the_baseline_of_groups_of_one_class_is_wrong_half_of_the_time():
    who = np.arange(60) // 6
    frame = table(60).assign(who=who, y=np.where(who % 2, "yes", "no"))
    frame["a"] += 3.0 * (who % 2)
    study = assay.run(frame, "y", learners=["logistic"], cv=5, group="who")
    assert study.outer.baseline["error"] == 0.5
    assert any(note.startswith("auc is left out of the outer folds: no fold has rows") for note in study.outer.notes)


def test_the_figure_is_that_of_the_whole_procedure_on_rows_it_never_saw():
    """The same by hand: least squares or the mean, whichever wins the inner folds, for every outer fold."""
    study = assay.run(table(seed=8, signal=0.15), "y", learners=["least squares"], cv=5, metric="mse")
    data = study.data
    X, y = data.rows.X.to_numpy(), data.rows.y

    def fitted(train, rows, linear):
        if not linear:
            return np.full(len(rows), y[train].mean())
        A = np.column_stack([np.ones(len(train)), X[train]])
        return np.column_stack([np.ones(len(rows)), X[rows]]) @ np.linalg.lstsq(A, y[train], rcond=None)[0]

    losses, base, chosen = np.zeros(80), np.zeros(80), []
    for train, test in Folds(10, random_state=0, stratify=False).split(X, y):
        errors = np.zeros(2)
        for inside, held in Folds(5, random_state=0, stratify=False).split(X[train], y[train]):
            for linear in (0, 1):
                predicted = fitted(train[inside], train[held], linear)
                errors[linear] += ((y[train[held]] - predicted) ** 2).sum()
        chosen.append("least squares" if errors[1] < errors[0] else "baseline")
        losses[test] = (y[test] - fitted(train, test, errors[1] < errors[0])) ** 2
        base[test] = (y[test] - y[train].mean()) ** 2
    assert study.outer.selected == tuple(chosen)
    assert len(set(chosen)) == 2
    np.testing.assert_allclose(study.outer.intervals["mse"].estimate, losses.mean(), rtol=1e-9)
    np.testing.assert_allclose(study.outer.baseline["mse"], base.mean(), rtol=1e-9)
    gap = study.outer.against_baseline
    np.testing.assert_allclose(gap.difference, losses.mean() - base.mean(), rtol=1e-8)
    folds = np.array([(losses - base)[test].mean() for _, test in Folds(10, random_state=0, stratify=False).split(X)])
    error = folds.std(ddof=1) * np.sqrt(1 / 10 + 8 / 72)  # Nadeau and Bengio
    np.testing.assert_allclose(gap.upper - gap.difference, 2.2621571628 * error, rtol=1e-6)


def test_a_killed_study_goes_on_to_the_same_numbers():
    frame = table()
    whole = assay.run(frame, "y", learners=["tree"], cv=4, seed=1)
    seen = []

    def stop(event):
        if isinstance(event, InOuterFold) and isinstance(event.event, FoldDone):
            seen.append(event)
            if event.fold == 4 and event.event.done == 2:
                raise KeyboardInterrupt

    study = Study(frame, "y", learners=["tree"], cv=4, seed=2, listener=stop)
    with pytest.raises(KeyboardInterrupt):
        study.finish()
    again = []
    resumed = Study.load(study.name, listener=lambda event: again.append(event))
    first = list(again)
    resumed.finish()
    inner = [one for one in again if isinstance(one, InOuterFold) and isinstance(one.event, FoldDone)]
    assert not first
    assert {one.fold for one in inner} == set(range(4, 11))
    other = assay.run(table(), "y", learners=["tree"], cv=4, seed=2)
    assert resumed.outer.intervals["rmse"].estimate == other.outer.intervals["rmse"].estimate
    assert whole.outer.scheme == other.outer.scheme
    assert resumed.summary()["outer"]["figures"] == other.summary()["outer"]["figures"]


def test_studies_of_the_same_rows_and_target_are_counted():
    frame = table()
    first = assay.run(frame, "y", learners=["least squares"], cv=4)
    assert first.outer.studied == "This is the first study of these rows and this target."
    assay.run(frame, "a", learners=["least squares"], cv=4)
    Study(frame, "y", learners=["tree"], cv=4).seal()  # nothing has been scored
    second = assay.run(frame.iloc[::-1], "y", learners=["least squares"], cv=5)
    assert second.outer.studies == (first.name, second.name)
    assert "have had 2 studies" in second.outer.studied
    assay.run(frame, "y", learners=["least squares"], cv=5)  # the same study again
    assert len(Study.load(first.name).outer.studies) == 2


def test_groups_stay_whole_and_time_runs_forward():
    frame = table(100)
    who = np.random.default_rng(1).permutation(np.repeat(np.arange(20), 5))
    study = Study(frame.assign(who=[f"g{one}" for one in who]), "y", group="who", learners=["least squares"], cv=4)
    study.finish()
    assert study.sealed.seal.by == "none"
    groups = study.data.rows.groups
    splits = outer_splits(study.plan, study.data.rows, 10)
    assert len(splits) == 10
    assert all(not set(groups[train]) & set(groups[test]) for train, test in splits)
    assert study.outer.intervals["rmse"].n == 100
    later = Study(frame.assign(day=np.arange(100)), "y", time="day", learners=["least squares"], cv=4).finish()
    assert all(train.max() < test.min() for train, test in outer_splits(later.plan, later.data.rows, 10))
    assert later.outer.against_baseline is not None


def test_in_the_order_of_time_the_verdict_claims_no_more_than_the_note():
    study = Study(table(100, signal=2.0).assign(day=np.arange(100)), "y", time="day", learners=["least squares"], cv=4)
    study.finish()
    assert any("as a guide" in note for note in study.outer.notes)
    assert study.outer.against_baseline.code == "better"
    told = study.summary()
    assert (told["finding"], told["better_than_baseline"]) == ("outer-ahead", False)
    assert "did better than the baseline" in told["verdict"]
    assert "as a guide" in told["verdict"]
    assert "beats" not in told["verdict"]
    assert finding(replace(study.state, outer=None)) == "folds-ahead"
    assert "ahead of the baseline" in str(model_card(study.state, study.wishes))


def test_outer_folds_that_cannot_be_made_leave_the_study_without_a_figure(tmp_path):
    """New groups appear early on, and none in the later half, which the outer folds are of."""
    who = np.where(np.arange(100) < 50, np.arange(100), np.arange(100) % 50)
    frame = table(100, signal=2.0).assign(who=who, day=np.arange(100))
    study = assay.run(frame, "y", group="who", time="day", learners=["least squares"], cv=4, out=tmp_path / "out")
    told = study.summary()
    assert told["against_baseline"] is None
    assert "cannot be split into outer folds" in told["verdict"]
    assert "--known-groups" in told["outer"]["notes"][0]
    assert (tmp_path / "out" / "report.html").exists()


def test_thresholds_and_calibration_are_part_of_the_procedure():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 2)).round(6), columns=list("ab"))
    frame["y"] = np.where(frame["a"] + rng.normal(size=100) > 1.2, "yes", "no")
    study = assay.run(frame, "y", learners=["discriminant"], cv=4, cost="missed=5 false=1")
    assert study.outer.primary == "risk"
    assert set(study.outer.intervals) >= {"risk", "auc", "log_loss"}
    assert study.summary()["finding"].startswith("outer-")


def test_a_time_limit_leaves_outer_folds_for_later(monkeypatch):
    step = sys.modules["assay.experiment.steps.outer"]  # the package has the function of that name
    study = Study(table(), "y", learners=["least squares"], cv=4, minutes=1e4)
    study.select()
    with monkeypatch.context() as patch:
        patch.setattr(step, "monotonic", lambda: np.inf)
        assert study.outer.unfinished == 10
    assert study.outer.intervals == {}
    assert "the time ran out" in study.verdict()
    assert Study.load(study.name).outer.unfinished == 0


def test_there_is_nothing_to_open_or_to_finalize(tmp_path):
    study = assay.run(table(), "y", learners=["least squares"], cv=4, out=tmp_path)
    with pytest.raises(SealError, match="no test set to open"):
        study.open()
    with pytest.raises(SealError, match="fitted to all rows already"):
        study.finalize(tmp_path)
    assert study.verify() == []
    told = load_model(tmp_path / "model.assay")["metadata"]
    assert told["test_set"] == "none"
    assert told["outer"]["estimate"] == study.outer.intervals["rmse"].estimate
    page = (tmp_path / "report.html").read_text()
    assert "There is no test set." in page
    assert "This is the first study of these rows and this target." in page
    assert "could not be" not in page.split("<script")[0]


def test_outer_figures_stand_side_by_side(tmp_path):
    first, other = (Study(table(seed=seed), "y", learners=["least squares"], cv=4).finish() for seed in (0, 1))
    for study in (first, other):
        study.publish(tmp_path)
    found = side_by_side(first.ledger, [first.name, other.name])
    one = first.outer.intervals["rmse"]
    assert found.outer["rmse"][0] == (one.estimate, one.lower, one.upper)
    assert found.figures == {}
    frame = found.to_frame()
    assert "outer folds rmse" in frame.index
    assert frame.loc["looks"].tolist() == ["none", "none"]


def test_a_test_file_excludes_none(tmp_path):
    with pytest.raises(SealError, match="a test file was passed"):
        Study(table(), "y", test=table(seed=1), test_size="none").seal()


def test_the_command_line_says_it(tmp_path):
    def call(*args):
        return CliRunner().invoke(app, list(args))

    path = tmp_path / "small.csv"
    table().to_csv(path, index=False)
    options = ["--learner", "least squares", "--cv", "4", "--out", str(tmp_path / "out")]
    done = call("run", str(path), "-t", "y", *options)
    assert done.exit_code == 0, done.output
    shown = " ".join(done.stdout.split())
    assert "No test set" in shown
    assert "Outer folds: the whole procedure, 10-fold cross-validation of 80 rows" in shown
    assert "This is the first study of these rows and this target." in shown
    (one,) = json.loads(call("history", "--json").stdout)["studies"]
    assert one["outer"]["rmse"] > 0
    assert "(outer" in call("history").stdout
    for command in ("open", "finalize"):
        done = call(command, one["study"])
        assert done.exit_code != 0
        assert "no test set" in " ".join(done.output.split())
    assert json.loads(call("show", one["study"], "--json").stdout)["test_size"] == "none"
    assert call("verify", one["study"]).exit_code == 0
    assert call("resume", one["study"], "--out", str(tmp_path / "out")).exit_code == 0
