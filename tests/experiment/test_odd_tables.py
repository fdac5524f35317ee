"""Small and odd tables: a study of any of them ends in a report, or is refused before a fold was computed."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from typer.testing import CliRunner

from assay.cli import app, tell
from assay.errors import DataError, SealError
from assay.evaluation import compare, cross_validate
from assay.experiment import Study, run
from assay.experiment.storage import Ledger, home
from tests.tiers import slow


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_LEDGER", raising=False)


class Picky:
    """A learner that never fits; a study must do without it."""

    def get_params(self, deep=True):
        return {}

    def set_params(self, **params):
        return self

    def fit(self, X, y):
        raise ValueError("this learner never fits")

    def predict(self, X):
        raise AssertionError("it was never fitted")


def noise(n, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, columns)), columns=[f"x{k}" for k in range(columns)])


def numeric(n, columns=3, seed=0):
    frame = noise(n, columns, seed)
    return frame.assign(y=frame["x0"] + np.random.default_rng(seed + 1).normal(size=n))


def positives(n, k, seed=0, columns=3):
    """`n` rows of two classes, `k` of them positive and somewhat shifted."""
    frame = noise(n, columns, seed)
    y = np.arange(n) < k
    frame["x0"] += 1.5 * y
    return frame.assign(y=np.where(y, "yes", "no")).sample(frac=1, random_state=seed, ignore_index=True)


def equal_classes(n, classes=2, seed=0):
    frame = noise(n, 3, seed)
    code = np.arange(n) % classes
    frame["x0"] += code
    return frame.assign(y=[f"class {k}" for k in code])


def column_is_target(n, text=True):
    frame = noise(n)
    y = np.arange(n) % 2
    return frame.assign(flag=y, y=np.where(y, "yes", "no") if text else y)


def doubled(frame, times=2):
    return pd.concat([frame] * times, ignore_index=True)


def small_grid(n):
    return pd.DataFrame({"a": np.arange(n) % 2, "b": np.arange(n) % 3, "y": np.arange(n) % 5 % 2})


FEW = ["least squares", "tree"]
TWO = ["logistic", "tree"]
CASES = {
    # name: (table, options)
    "two perfect learners": (lambda: column_is_target(120), {"cv": 3, "learners": TWO}),
    "a perfect ranking in three folds": (lambda: column_is_target(120), {"cv": 3, "learners": TWO, "metric": "auc"}),
    "nine positives": (lambda: positives(120, 18), {"cv": 10, "learners": TWO}),
    "a fold without a positive": (lambda: positives(200, 12), {"cv": 10, "learners": TWO, "metric": "auc"}),
    "one learner left": (
        lambda: numeric(60),
        {"cv": 3, "learners": ["tests.experiment.test_odd_tables:Picky", "least squares"]},
    ),
    "only the baseline left": (
        lambda: numeric(60),
        {"cv": 3, "learners": ["tests.experiment.test_odd_tables:Picky"]},
    ),
    "constant target": (lambda: noise(60).assign(y=1.0), {"cv": 3, "learners": FEW, "task": "regression"}),
    "one class": (lambda: noise(60).assign(y="yes"), {"cv": 3, "learners": TWO}),
    "no column varies": (
        lambda: pd.DataFrame({"a": 1.0, "y": np.random.default_rng(0).normal(size=60)}),
        {"cv": 3, "learners": FEW},
    ),
    "constant columns besides": (lambda: numeric(60).assign(a=1.0, b="same"), {"cv": 3, "learners": FEW}),
    "a copy of the target": (
        lambda: (frame := numeric(60)).assign(copy=frame["y"]),
        {"cv": 3, "learners": FEW},
    ),
    "a column of few values": (lambda: small_grid(60), {"cv": 3, "learners": TWO}),
    "every row twice": (lambda: doubled(numeric(40)), {"cv": 3, "learners": FEW}),
    "every row ten times": (lambda: doubled(numeric(12), 10), {"cv": 3, "learners": FEW}),
    "one row a hundred times": (lambda: doubled(numeric(1), 100), {"cv": 3, "learners": FEW}),
    "eight rows": (lambda: numeric(8), {"cv": 2, "learners": FEW}),
    "ten rows, ten folds": (lambda: numeric(10), {"cv": 10, "learners": FEW}),
    "twenty rows": (lambda: numeric(20), {"cv": 2, "learners": FEW}),
    "two rows per class": (lambda: equal_classes(40, 20), {"cv": 2, "learners": TWO}),
    "four rows, two classes": (lambda: equal_classes(4), {"cv": 2, "learners": TWO}),
    "sixteen rows, two classes": (lambda: equal_classes(16), {"cv": 2, "learners": TWO}),
    "one positive": (lambda: positives(100, 1), {"cv": 3, "learners": TWO}),
    "two positives": (lambda: positives(100, 2), {"cv": 3, "learners": TWO}),
    "three positives": (lambda: positives(100, 3), {"cv": 5, "learners": TWO}),
    "five positives": (lambda: positives(150, 5), {"cv": 5, "learners": TWO}),
    "a class in the test rows only": (
        lambda: equal_classes(80).assign(y=lambda t: ["odd" if k == 7 else v for k, v in enumerate(t["y"])]),
        {"cv": 3, "learners": TWO},
    ),
    "three classes, one rare": (
        lambda: equal_classes(90).assign(y=lambda t: ["rare" if k < 6 else v for k, v in enumerate(t["y"])]),
        {"cv": 5, "learners": TWO},
    ),
    "target of zeros and one other": (
        lambda: noise(80).assign(y=[0.0] * 79 + [3.5]),
        {"cv": 3, "learners": FEW, "task": "regression"},
    ),
    "r2 of a fold without spread": (
        lambda: noise(80).assign(y=[0.0] * 70 + [3.5] * 10),
        {"cv": 10, "learners": FEW, "task": "regression", "metric": "r2"},
    ),
    "all errors equal": (
        lambda: pd.DataFrame({"x": np.tile([0.0, 1.0], 40), "y": np.tile([0.5, -0.5], 40)}),
        {"cv": 4, "learners": FEW, "task": "regression"},
    ),
    "huge numbers": (lambda: numeric(60) * 1e150, {"cv": 3, "learners": FEW}),
    "tiny numbers": (lambda: numeric(60) * 1e-150, {"cv": 3, "learners": FEW}),
    "more columns than rows": (lambda: numeric(24, 60), {"cv": 3, "learners": FEW}),
    "one column of gaps": (lambda: numeric(60).assign(a=np.nan), {"cv": 3, "learners": FEW}),
    "half the cells missing": (
        lambda: numeric(80).mask(np.random.default_rng(0).random((80, 4)) < 0.5),
        {"cv": 3, "learners": FEW},
    ),
    "a level per row": (lambda: numeric(60).assign(a=[f"name {k}" for k in range(60)]), {"cv": 3, "learners": FEW}),
    "names only": (
        lambda: pd.DataFrame({"a": [f"name {k}" for k in range(60)], "y": np.random.default_rng(0).normal(size=60)}),
        {"cv": 3, "learners": FEW},
    ),
    "rows in groups of one class": (
        lambda: equal_classes(80).assign(who=lambda t: [f"{v} {k % 5}" for k, v in enumerate(t["y"])]),
        {"cv": 4, "learners": TWO, "group": "who"},
    ),
    "two groups": (lambda: numeric(60).assign(who=np.arange(60) % 2), {"cv": 2, "learners": FEW, "group": "who"}),
    "few groups for the folds": (
        lambda: numeric(60).assign(who=np.arange(60) % 5),
        {"cv": 10, "learners": FEW, "group": "who"},
    ),
    "positives late in time": (
        lambda: equal_classes(120).assign(
            y=lambda t: np.where(np.arange(120) > 50, t["y"], "class 0"), when=np.arange(120)
        ),
        {"cv": 4, "learners": TWO, "time": "when", "metric": "auc"},
    ),
    "one moment": (lambda: numeric(60).assign(when=1), {"cv": 3, "learners": FEW, "time": "when"}),
    "the quick panel on three folds": (lambda: positives(120, 60), {"cv": 3}),
    "the quick panel on a perfect column": (lambda: column_is_target(120), {"cv": 3}),
    "the quick panel of numbers": (lambda: numeric(40), {"cv": 3}),
    "auc without ties": (lambda: positives(120, 60), {"cv": 3, "metric": "auc", "learners": TWO}),
    "precision without positives said": (lambda: positives(120, 20), {"cv": 5, "metric": "precision", "learners": TWO}),
    "mcc": (lambda: positives(120, 20), {"cv": 5, "metric": "mcc", "learners": TWO}),
    "repeated folds": (lambda: positives(100, 14), {"cv": 7, "repeats": 2, "metric": "auc", "learners": TWO}),
}
QUICK = {
    "a perfect ranking in three folds",
    "nine positives",
    "a fold without a positive",
    "one learner left",
    "one class",
}


@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in CASES])
def test_a_report_is_written_or_the_table_refused_before_any_fold(name, tmp_path):
    make, options = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is odd about the table is in the report
        try:
            study = Study(make(), "y", n_jobs=1, **options).finish()
        except (DataError, SealError):
            assert not list((home() / "studies").glob("*/journal.db"))
            return
        study.publish(tmp_path / "out")
    assert "<h2" in (tmp_path / "out" / "report.html").read_text()
    assert study.select().name in study.leaderboard.results
    assert study.verify() == []


def test_a_constant_difference_is_a_row_with_a_reason_and_the_study_goes_on():
    study = run(column_is_target(120), "y", cv=3, learners=["logistic"], metric="auc", n_jobs=1, open_test=False)
    pair = study.comparisons.to_frame().iloc[0]
    assert pair["verdict"] == "not testable: no variance between folds"
    assert pair["difference"] == -0.5
    assert np.isnan([pair["p_value"], pair["adjusted"], pair["lower"], pair["upper"]]).all()
    assert not study.beats_baseline("logistic")
    assert study.summary()["comparisons"][0]["p_value"] is None


def test_a_pair_that_cannot_be_tested_is_not_said_to_show_nothing(capsys):
    options = {"learners": ["logistic"], "metric": "auc", "n_jobs": 1, "open_test": False, "test_size": 0.25}
    study = run(column_is_target(120), "y", cv=3, **options)
    told = study.summary()
    assert told["finding"] == "folds-untested"
    assert "could not be tested against the baseline" in told["verdict"]
    assert "no variance between folds" in told["verdict"]
    tell.comparisons(study)
    printed = capsys.readouterr().out
    assert "Not tested against the baseline (no variance between folds): logistic." in printed
    assert "Shown to beat" not in printed
    assert "- to -" not in printed


def test_folds_without_a_positive_row_weigh_nothing_and_are_counted():
    study = run(positives(120, 18), "y", learners=["logistic"], n_jobs=1, open_test=False, test_size=0.5)
    found = study.leaderboard.results["logistic"]
    gone = np.isnan(found.fold_scores)
    assert gone.any()
    sizes = [(found.y[test] == found.classes[1]).sum() for _, test in found.splits]
    pairs = np.array([size * (len(test) - size) for size, (_, test) in zip(sizes, found.splits, strict=True)])
    assert found.estimate == pytest.approx(np.average(found.fold_scores[~gone], weights=pairs[~gone]))
    assert f"not defined on {int(gone.sum())} of 10" in str(found)
    assert any(f"on {int(gone.sum())} of 10 folds" in words for words in study.comparisons.caveats)


class FailsOnAll(LinearRegression):
    """A learner that fits folds, but not all rows at once."""

    def fit(self, X, y):
        if len(y) >= 30:
            raise ValueError("too many rows")
        return super().fit(X, y)


def test_a_learner_that_cannot_be_refitted_gives_way_to_the_next():
    table = numeric(60).assign(y=lambda t: 3 * t["x0"] + t["y"])
    name = "tests.experiment.test_odd_tables:FailsOnAll"
    study = run(table, "y", test_size=0.25, cv=3, learners=[name], n_jobs=1)
    assert study.select().name == "baseline"
    assert "too many rows" in study.leaderboard.failed["tests.experiment.test_odd_tables:FailsOnAll"]
    assert study.opened is not None


SERIOUS = {
    "rare-class": (lambda: positives(120, 18), ["--learner", "logistic", "--test-size", "0.5"]),
    "leak": (lambda: column_is_target(120), ["--learner", "logistic", "--cv", "3", "--test-size", "0.25"]),
    "target-values": (
        lambda: noise(60).assign(y=1.5),
        ["--learner", "least squares", "--task", "regression", "--test-size", "0.25"],
    ),
}


@pytest.mark.parametrize("code", ["rare-class", *map(slow, ("leak", "target-values"))])
def test_a_serious_check_leaves_the_report_and_exit_code_1(code, tmp_path):
    make, options = SERIOUS[code]
    make().to_csv(tmp_path / "table.csv", index=False)
    where = str(tmp_path / "out")
    done = CliRunner().invoke(app, ["run", str(tmp_path / "table.csv"), "-t", "y", "--out", where, *options])
    assert done.exit_code == 1, done.output
    assert f"--despite {code}" in " ".join(done.stderr.split())
    assert {"report.html", "model.assay"} <= set(os.listdir(where))


def test_a_class_that_only_test_rows_have_is_refused_before_any_fold():
    late = equal_classes(60).assign(when=np.arange(60))
    late.loc[55:, "y"] = "new"
    study = Study(late, "y", test_size=0.25, time="when", cv=3, learners=["logistic"])
    with pytest.raises(DataError, match="class 'new' occurs only in the test rows"):
        study.finish()
    assert not list((home() / "studies").glob("*"))


def test_pairs_that_cannot_be_tested_count_as_ones_that_show_nothing():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = X[:, 0] + np.random.default_rng(1).normal(size=90)
    tried = [cross_validate(model, X, y, cv=3, metric="rmse") for model in (LinearRegression(), DummyRegressor())]
    moved = {name: getattr(tried[1], name) + 0.25 for name in ("value", "fold_scores", "pseudo_values")}
    shifted = replace(tried[1], name="shifted", **moved)
    alone, together = compare(tried), compare([*tried, shifted], correction="bonferroni")
    assert together.reasons == ("", "", "not testable: no variance between folds")
    assert together.p_values[0] == alone.p_values[0]
    assert together.adjusted[0] == pytest.approx(min(1.0, 3 * alone.p_values[0]))
    assert not together.rejected[2]
    assert "not testable" in str(together)
    together.plot()


def test_the_only_column_is_used_although_it_counts_the_rows():
    y = np.arange(60) * 0.5 + np.random.default_rng(0).normal(size=60)
    study = run(pd.DataFrame({"x": np.arange(60), "y": y}), "y", learners=["least squares"], n_jobs=1, open_test=False)
    assert study.plan.kinds["x"] == "number"
    assert study.select().name == "least squares"
    note = "'x' looks like a row number, but no other column varies, so it is used as a number"
    assert note in study.notes


def test_a_table_of_identifiers_alone_is_refused_with_the_command_that_uses_them(tmp_path):
    table = pd.DataFrame({"patient_id": np.arange(60), "y": np.random.default_rng(0).normal(size=60)})
    table.to_csv(tmp_path / "table.csv", index=False)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "table.csv"), "-t", "y"])
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "no columns are left to learn from: 'patient_id' looks like an identifier" in said
    assert said.endswith("-t y --kind patient_id=number")


def test_a_missing_file_is_called_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numeric(60).to_csv("houses.csv", index=False)
    assert "no such file: 'housse.csv'; did you mean 'houses.csv'?" in refused("run", "housse.csv", "-t", "y")
    assert "no such file: 'x.csv'; tables here: houses.csv" in refused("run", "x.csv", "-t", "y")
    assert "its directory 'nowhere' does not exist either" in refused("run", "nowhere/x.csv", "-t", "y")
    study = run("houses.csv", "y", learners=["least squares"], n_jobs=1, open_test=False)
    rows = study.folder / "train.arrow"
    rows.rename(tmp_path / "elsewhere")
    assert f"the file of the training rows is missing: {rows}" in refused("open", study.name)


def refused(*args):
    done = CliRunner().invoke(app, list(args))
    assert done.exit_code in (1, 2)
    return " ".join(done.stderr.split())


def test_a_damaged_journal_is_computed_again(tmp_path):
    study = run(numeric(60), "y", learners=["least squares"], cv=3, n_jobs=1, open_test=False)
    before, path = study.leaderboard.to_frame(), study.folder / "journal.db"
    path.write_bytes(b"no database" * 500)
    done = CliRunner().invoke(app, ["resume", study.name, "--no-open", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "is damaged, so its folds are computed again" in " ".join(done.stderr.split())
    again = Study.load(study.name).leaderboard.to_frame()
    pd.testing.assert_frame_equal(before.drop(columns="seconds"), again.drop(columns="seconds"))


def test_a_relative_home_is_one_of_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", "kept/here")
    assert home() == tmp_path / "kept" / "here"
    assert Ledger().where == str(tmp_path / "kept" / "here" / "ledger.db")
    monkeypatch.setenv("ASSAY_LEDGER", "mine.db")
    assert Ledger().where == str(tmp_path / "mine.db")
