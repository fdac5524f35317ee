"""What the panels run: best defaults where nothing is tuned, all cores, and the same numbers whatever their count."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from typer.testing import CliRunner

from assay.base import groups_name
from assay.cli import app
from assay.errors import ParameterError
from assay.experiment.calibrated import CalibratedIfBetter
from assay.experiment.model_file import load_model, predict_table, save_model
from assay.experiment.panel import assemble, learners, panel
from assay.experiment.peers import Coded
from assay.experiment.steps.evaluate import estimator_of, shares_of, training_data
from assay.experiment.study import Study
from assay.linear import LogisticRegression
from assay.metrics import get_metric
from assay.numerics.threads import cores
from assay.resampling import TimeFolds
from assay.trees import RandomForestClassifier


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))


def numbers(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    return frame.assign(y=frame["a"] + rng.normal(size=n))


def folds_of(study):
    """What folds are made of, without fitting any learner."""
    return training_data(study.plan, study._parted())


def test_a_study_uses_all_cores_unless_told_otherwise():
    study = Study(numbers(), "y", cv=10)
    shares = partial(shares_of, study.plan, folds_of(study))
    assert shares(None) == (1, cores())  # a small study: threads of the learners, no worker processes
    assert shares(1) == (1, 1)
    assert shares(4) == (4, 1)
    assert shares(30) == (10, 3)  # no more processes than folds, their threads share the rest
    large = Study(numbers(20_000), "y", learners=["nearest neighbours"], repeats=20)
    assert shares_of(large.plan, folds_of(large), None) == (min(cores(), 200), 1)
    with pytest.raises(ParameterError, match="n_jobs = 0"):
        Study(numbers(), "y", n_jobs=0)


def test_a_large_table_gets_fewer_worker_processes():
    data = folds_of(Study(numbers(), "y", cv=10))

    def shares(columns):
        return shares_of(SimpleNamespace(features=range(columns), tuned=False, exchangeable=True), data, 12)

    assert shares(3) == (10, 1)
    assert shares(2**29 // 5 // 4 // data.rows.n) == (4, 3)  # each holds its rows five times, all of them 4 GiB
    assert shares(2**29) == (1, 12)


def test_many_rows_are_left_to_the_threads_of_our_learners():
    plan = SimpleNamespace(features=range(3), tuned=False, exchangeable=True)

    def shares(n, own=True):
        learner = SimpleNamespace(own=own, fits=lambda *_: 1, work=lambda *_: 1.0)
        data = SimpleNamespace(rows=SimpleNamespace(n=n, classes=None), splits=range(10), learners=[learner])
        return shares_of(plan, data, 4)

    assert shares(49_999) == (4, 1)
    assert shares(50_000) == (1, 4)
    assert shares(50_000, own=False) == (4, 1)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_forest_on_many_rows_has_larger_leaves_and_draws_a_part_of_them(task):
    forest = next(one for one in learners(task) if one.name == "random forest")
    assert forest.sized(19_999, "", 2) == {}
    assert forest.sized(20_000, "", 2) == forest.sized(50_000, "", 2) == {"min_samples_leaf": 5}
    assert forest.sized(1_000_000, "", 2) == {"min_samples_leaf": 5, "max_samples": 0.05}


def test_a_learner_whose_matrices_would_not_fit_is_left_out_with_a_reason():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 8_000))).add_prefix("x").assign(y=["a", "b"] * 20)
    board = Study(frame, "y", cv=2, learners=["discriminant"]).leaderboard
    assert list(board.results) == ["baseline"]
    assert "8,000 columns would need 4.29 GiB of memory, more than the limit of 4" in board.failed["discriminant"]


def test_threads_reach_our_learners_and_leave_no_trace_in_the_model():
    study = Study(numbers(), "y", learners=["random forest"], panel="standard", cv=3, test_size=0.25)
    learner = study.data.learners[-1]
    made = estimator_of(study.plan, study.data, learner, 3)
    assert made.get_params()["estimator__model__n_jobs"] == 3
    study.finish(open_test=False)
    assert study.model.get_params()["model__n_jobs"] is None


def test_threads_change_no_number(tmp_path, monkeypatch):
    found = []
    for jobs in (None, 1):
        monkeypatch.setenv("ASSAY_HOME", str(tmp_path / str(jobs)))
        options = {"learners": ["random forest", "boosting", "lasso"], "cv": 3, "test_size": 0.25}
        study = Study(numbers(), "y", n_jobs=jobs, **options).finish()
        board = study.leaderboard.to_frame()[["estimate", "lower", "upper"]]
        found.append((board.to_numpy().tolist(), study.model.predict(study.data.rows.X).tolist()))
    assert found[0] == found[1]


def test_the_quick_forest_is_as_good_as_the_default_one():
    X, y = load_digits(return_X_y=True)
    quick = next(one for one in panel("classification", "quick") if one.name == "random forest").make(0)
    same = RandomForestClassifier(n_estimators=quick.n_estimators, random_state=0)
    wrong = [np.mean(cross_val_predict(model, X, y, cv=3) != y) for model in (quick, same)]
    assert wrong[0] <= wrong[1]


def test_learners_say_exactly_what_a_panel_runs():
    for learner in learners():
        made = learner.make(0)
        if learner.members:
            continue
        assert learner.settings == {
            name: value
            for name, value in made.get_params(deep=False).items()
            if name != "random_state" and repr(value) != repr(type(made)().get_params(deep=False)[name])
        }
        assert set(learner.space) <= set(made.get_params())
    told = " ".join(
        CliRunner().invoke(app, ["learners", "--task", "classification"], env={"COLUMNS": "200"}).stdout.split()
    )
    forest = "quick: RandomForestClassifier(n_estimators=200). standard, thorough: the same, tuned by out-of-bag"
    assert f"{forest} predictions: min_samples_leaf [1, 5]" in told
    assert "quick: LogisticRegression(inference=False, penalty='l2'). standard, thorough: the same, tuned: C [" in told
    assert "standard, thorough: SVCCV(Cs=[0.1, 1.0, 10.0, 100.0], probability=True)" in told


def test_the_best_is_selected_and_the_readable_alternative_stands_beside_it():
    lines = ["least squares", "lasso", "tree"]
    study = Study(numbers(), "y", learners=lines, cv=4)
    chosen = study.select()
    assert chosen.name == chosen.best == study.leaderboard.order[0]
    assert study.readable.is_best
    assert study.readable.within
    assert study.summary()["readable"]["name"] == chosen.name
    assert "Readable alternative" in str(study)


def _curved(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=list("ab"))
    days = pd.date_range("2020-01-01", periods=n)
    return frame.assign(t=days[rng.permutation(n)], y=frame["a"] ** 2 + rng.normal(size=n) / 9)


@pytest.mark.parametrize("time", [None, "t"])
def test_the_readable_one_is_taken_only_within_both_standard_errors(time):
    options = {"learners": ["least squares", "nearest neighbours"], "cv": 4, "select": "readable", "time": time}
    study = Study(_curved(), "y", **options)
    chosen, found = study.select(), study.readable
    assert (chosen.name, found.name, found.best) == ("nearest neighbours", "least squares", "nearest neighbours")
    assert found.within is (None if time else False)
    assert found.difference > min(found.std_error, found.best_error)
    best, other = (study.leaderboard.results[name] for name in (found.best, found.name))
    factor = 1 / 4 + best.scheme.ratio
    gaps = other.pseudo_values - best.pseudo_values
    assert found.difference == pytest.approx(gaps.mean())
    assert found.std_error == pytest.approx(np.sqrt(factor * gaps.var(ddof=1)))
    assert found.best_error == pytest.approx(np.sqrt(factor * best.pseudo_values.var(ddof=1)))
    assert ("nothing is claimed" if time else "more than one standard error worse") in str(found)


def test_a_plan_with_the_old_rule_is_read_as_readable():
    plan = Study(numbers(), "y", learners=["lasso"]).plan
    assert plan.select == "best"
    assert type(plan).from_state({**plan.state(), "select": "one-se"}).select == "readable"


def test_what_is_readable():
    found = {one.name for task in ("regression", "classification") for one in learners(task) if one.readable}
    lines = {"least squares", "lasso", "ridge", "elastic net", "logistic", "sparse logistic"}
    assert found == {"baseline", "tree", "naive Bayes", "discriminant", "quadratic discriminant", *lines}


@pytest.mark.parametrize("order", ["", "group", "time"])
def test_what_is_held_out_inside_a_fit_respects_groups_and_time(order):
    every = {one.name: one for one in learners("regression")}
    options = {"tune": False, "metric": "mse", "shape": (300, 2), "order": order}
    stopping = assemble(every["boosting"], {"a": "number"}, **options).named_steps["model"]
    assert stopping.early_stopping == "cv"
    assert isinstance(stopping.cv, TimeFolds) == (order == "time")
    made = assemble(every["ensemble"], {"a": "number"}, **options)
    assert [name for name, _ in made.estimators] == ["ridge", "random forest", "boosting", "support vectors"]
    assert isinstance(made.cv, TimeFolds) == (order == "time")
    assert groups_name(made) == "groups"
    assert groups_name(assemble(every["boosting"], {"a": "number"}, **options)) == "model__groups"
    tuned = assemble(every["boosting"], {"a": "number"}, **{**options, "tune": True})
    assert tuned.cv == "own"  # by the rows of that early stopping
    large = assemble(every["boosting"], {"a": "number"}, **{**options, "shape": (9_000, 2)}).named_steps["model"]
    assert large.early_stopping == ("cv" if order == "time" else True)


def test_a_dear_member_is_left_out_of_the_ensemble():
    ensemble = next(one for one in learners("classification") if one.name == "ensemble")
    made = assemble(ensemble, {"a": "number"}, tune=True, metric="error", shape=(20_000, 20))
    assert "support vectors" not in [name for name, _ in made.estimators]


def test_the_cost_of_an_ensemble_follows_from_its_members_and_their_classes():
    every = {one.name: one for one in learners("classification")}

    def expected(shape, *names):  # six settings of logistic regression in five folds and once more; then inner folds
        return sum((41 if name == "logistic" else 6) * every[name].work(*shape) for name in names)

    few, many = (500, 10, 2), (3_600, 16, 26)
    names = ["logistic", "random forest", "boosting", "support vectors"]
    assert every["ensemble"].work(*few) == pytest.approx(expected(few, *names))
    made = assemble(every["ensemble"], {"a": "number"}, tune=True, metric="error", shape=many)
    assert every["ensemble"].work(*many) == pytest.approx(expected(many, *[name for name, _ in made.estimators]))


@pytest.mark.parametrize(("classes", "grid", "folds"), [(2, 50, 10), (10, 50, 10), (11, 30, 5), (26, 30, 5)])
def test_the_path_of_sparse_logistic_regression_is_coarser_with_many_classes(classes, grid, folds):
    sparse = next(one for one in learners("classification") if one.name == "sparse logistic")
    made = assemble(sparse, {"a": "number"}, tune=True, metric="log_loss", shape=(900, 1, classes))
    assert (made.named_steps["model"].alphas, made.named_steps["model"].cv) == (grid, folds)
    later = assemble(sparse, {"a": "number"}, tune=True, metric="log_loss", shape=(900, 1, classes), order="time")
    assert isinstance(later.named_steps["model"].cv, TimeFolds)


def test_an_ensemble_is_saved_and_says_its_weights(tmp_path):
    frame = numbers().assign(y=lambda one: np.where(one["a"] > 0, "yes", "no"))
    study = Study(frame, "y", learners=["ensemble"], cv=2, n_jobs=2, test_size=0.25).finish(open_test=False)
    assert study.select().name == "ensemble"
    files = study.publish(tmp_path)
    model = load_model(files["model"])["pipeline"]
    features = frame[study.plan.features]
    assert np.array_equal(model.predict_proba(features), study.model.predict_proba(features))
    assert model.weights_.sum() == pytest.approx(1)
    assert "Weights of the ensemble" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_boosting_of_other_packages_by_name(name):
    if find_spec(name) is None:
        with pytest.raises(ParameterError, match=f"is not installed; install it: pip install {name}"):
            panel("regression", chosen=[name])
        return
    frame = numbers().assign(y=lambda one: np.where(one["a"] > 0, "yes", "no"))
    board = Study(frame, "y", learners=[name], cv=2).leaderboard
    assert board.results[name].estimate < board.results["baseline"].estimate


def _rare(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=list("ab"))
    return frame.assign(y=np.where(frame["a"] + rng.normal(size=n) > 1.8, "fraud", "ok"))


@pytest.mark.parametrize("wrapper", ["CalibratedIfBetter", "Coded"])
def test_what_stands_around_a_learner_is_read_by_a_process_that_has_run_no_study(tmp_path, wrapper):
    frame = _rare()
    if wrapper == "Coded":
        model = Coded(LogisticRegression()).fit(frame[["a", "b"]], frame["y"])
        save_model(tmp_path / "model.assay", {"pipeline": model, "task": "classification", "target": "y"})
    else:
        study = Study(frame, "y", learners=["logistic"], cv=3, test_size=0.25)
        assert isinstance(study.model, CalibratedIfBetter)
        study.save(tmp_path / "model.assay")
    script = "from assay.experiment import load_model; print(type(load_model('model.assay')['pipeline']).__name__)"
    args = [sys.executable, "-c", script]
    done = subprocess.run(args, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.stdout.strip(), done.returncode) == (wrapper, 0), done.stderr


def test_a_rare_class_is_said_with_what_follows_from_it():
    study = Study(_rare(), "y", learners=["logistic"])
    assert study.plan.metric == "auc"
    coded = Study(_rare().assign(y=lambda one: (one["y"] == "fraud").astype(int)), "y", learners=["logistic"])
    assert any("are 1, so folds" in one and "predicts 0;" in one for one in coded.notes)
    assert any("are 'fraud', so folds keep that share, and learners are judged by auc" in one for one in study.notes)


def test_costs_choose_the_threshold_inside_every_fold_and_in_the_model_file(tmp_path):
    asked = {"learners": ["logistic"], "cv": 3, "panel": "standard", "cost": "missed=10 false=1", "test_size": 0.25}
    study = Study(_rare(), "y", **asked)
    assert (study.plan.metric, study.plan.labels) == ("risk", ("ok", "fraud"))
    assert type(study.plan).from_state(study.plan.state()) == study.plan
    found = study.leaderboard.results["logistic"]
    said, y = found.out_of_fold("labels"), found.y
    missed, false = ((y == "fraud") & (said == "ok")).sum(), ((y == "ok") & (said == "fraud")).sum()
    assert found.estimate == pytest.approx((10 * missed + false) / y.size)
    assert found.estimate < study.leaderboard.results["baseline"].estimate
    study.finish()
    assert study.opened.primary == "risk"
    assert study.model.threshold_ < 0.5
    assert study.summary()["threshold"] == study.model.threshold_
    files = study.publish(tmp_path)
    page = (tmp_path / "report.html").read_text().replace("&#39;", "&#x27;")
    assert "A row is predicted as &#x27;fraud&#x27; if" in page
    rows = _rare().drop(columns="y")
    told = predict_table(files["model"], rows)
    called = told["probability of fraud"].to_numpy() >= study.model.threshold_
    assert np.array_equal(told["prediction"] == "fraud", called)
    assert study.finalize(tmp_path).model.threshold_ == study.model.threshold_


def test_a_stated_rate_is_kept_and_asked_metrics_decide():
    options = {"learners": ["logistic"], "cv": 3, "metric": "log_loss"}
    study = Study(_rare(), "y", rate=("sensitivity", 0.9), **options)
    model = study.finish(open_test=False).model
    assert study.plan.metric == "log_loss"
    assert (model.rate, model.positive_) == (("sensitivity", 0.9), "fraud")
    assert Study(_rare(), "y", cost={"missed": 3, "false": 1}, **options).plan.metric == "log_loss"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cost": "missed=10"}, 'write it as "missed=10 false=1"'),
        ({"cost": "missed=0 false=1"}, "both above 0"),
        ({"rate": "sensitivity=2"}, "a share between 0 and 1"),
        ({"rate": "recall"}, "with one of sensitivity"),
        ({"cost": "missed=2 false=1", "rate": "sensitivity=0.9"}, "both cost and rate"),
    ],
)
def test_costs_and_rates_that_cannot_be(options, words):
    with pytest.raises(ParameterError, match=words):
        Study(_rare(), "y", **options)


def test_numbers_and_several_classes_have_no_threshold():
    with pytest.raises(ParameterError, match="for classes"):
        Study(numbers(), "y", cost="missed=2 false=1")
    with pytest.raises(ParameterError, match="the target has 3 values"):
        Study(numbers().assign(y=list("abc") * 40), "y", rate="precision=0.5")


def test_probabilities_of_a_rare_class_are_calibrated_where_that_helps(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(800, 1))
    y = np.where(a[:, 0] + rng.normal(size=800) > 1.8, "fraud", "ok")
    copies = pd.DataFrame(a + 0.01 * rng.normal(size=(800, 6))).add_prefix("x").assign(y=y)
    study = Study(copies, "y", learners=["naive Bayes", "logistic"], cv=3, metric="log_loss")
    assert study.plan.calibrate
    assert type(study.plan).from_state(study.plan.state()) == study.plan
    naive = study.leaderboard.results["naive Bayes"]
    plain = cross_val_predict(
        naive.estimator.estimator, copies.drop(columns="y").loc[:399], y[:400], method="predict_proba"
    )
    assert naive.estimate < 0.8 * float(get_metric("log_loss")(y[:400], plain[:, 1]))
    study.finish(open_test=False)
    model = load_model(study.publish(tmp_path)["model"])["pipeline"]
    features = copies[study.plan.features]
    assert np.array_equal(model.predict_proba(features), study.model.predict_proba(features))
    assert not Study(numbers().assign(y=["a", "b"] * 60), "y", learners=["logistic"]).plan.calibrate


def test_class_weights_are_searched_where_the_metric_weighs_classes():
    """Quick and rare: with balanced accuracy the logistic regression takes weights, with the error rate it does not."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    y = np.where(X["a"] + rng.normal(size=300) > 2.2, "rare", "usual")
    logistic = next(one for one in learners("classification") if one.name == "logistic")
    kinds = {"a": "number", "b": "number"}
    found = {}
    for name in ("balanced_accuracy", "error"):
        made = assemble(logistic, kinds, tune=False, metric=get_metric(name), shape=X.shape)
        found[name] = made.fit(X, y)
    assert found["balanced_accuracy"].best_params_ == {"model__class_weight": "balanced"}
    assert (found["balanced_accuracy"].predict(X) == "rare").sum() > 2 * (found["error"].predict(X) == "rare").sum()
    assert not hasattr(found["error"], "best_params_")
