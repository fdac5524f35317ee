"""The planned test against the baseline: it agrees with scipy and with the slow definition, holds its level, decides.

Statistical tests have fixed seeds; a rate of false alarms at 5% is compared with the 99.9% binomial limit.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from assay.errors import DataError, SealError
from assay.experiment import Study, predict_table, run
from assay.experiment.model_file import load_model
from assay.experiment.model_file.predict import predict_rows
from assay.experiment.record import WORDS, finding, verdict
from assay.experiment.test_set import against_baseline as module
from assay.experiment.test_set.against_baseline import BETTER, UNCLEAR, WORSE, BaselineTest, against_baseline
from assay.experiment.wording import apart
from assay.metrics import get_metric


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_LEDGER", raising=False)


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(module, "RESAMPLES", 199)


def line(n=120, seed=0, slope=2.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return frame.assign(y=slope * frame["a"] + rng.normal(size=n))


def agrees(found: BaselineTest) -> bool:
    """Whether p and interval say the same."""
    return (found.p_value < 1 - found.level) == (found.code != UNCLEAR)


@pytest.mark.parametrize("level", [0.95, 0.99])
def test_row_losses_are_scipys_paired_t(level):
    rng = np.random.default_rng(1)
    y, first, second = rng.normal(size=(3, 40))
    found = against_baseline(get_metric("mae"), y, 0.5 * y + 0.3 * first, second, level=level)
    a, b = np.abs(y - 0.5 * y - 0.3 * first), np.abs(y - second)
    theirs = stats.ttest_rel(a, b)
    ends = theirs.confidence_interval(level)
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert (found.difference, found.lower, found.upper) == pytest.approx(((a - b).mean(), ends.low, ends.high))
    assert found.code == BETTER


@pytest.mark.parametrize(("b", "c"), [(0, 0), (0, 5), (0, 6), (3, 12), (4, 13), (12, 3), (30, 1)])
def test_right_or_wrong_is_the_exact_mcnemar_test(b, c):
    y = np.zeros(60, dtype=int)
    first, second = y.copy(), y.copy()
    first[:b], second[b : b + c] = 1, 1
    found = against_baseline(get_metric("error"), y, first, second)
    exact = stats.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert found.p_value == pytest.approx(exact)
    assert found.difference == pytest.approx((b - c) / 60)
    assert found.lower <= found.difference <= found.upper
    assert agrees(found)
    assert found.code == (UNCLEAR if exact >= 0.05 else BETTER if b < c else WORSE)
    turned = against_baseline(get_metric("accuracy"), y, first, second)
    assert turned.code == found.code
    assert turned.difference == -found.difference


def test_equal_groups_are_the_paired_t_of_group_means():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(12), 5)
    y = rng.normal(size=60)
    first, second = y + rng.normal(size=12)[groups], y + 1.5 * rng.normal(size=12)[groups]
    found = against_baseline(get_metric("mae"), y, first, second, groups=groups)
    means = [pd.Series(np.abs(one - y)).groupby(groups).mean() for one in (first, second)]
    theirs = stats.ttest_rel(*means)
    ends = theirs.confidence_interval(0.95)
    assert found.n == 12
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert (found.lower, found.upper) == pytest.approx((ends.low, ends.high))


@pytest.mark.parametrize(("name", "grouped"), [("rmse", False), ("r2", False), ("rmse", True)])
def test_the_bootstrap_is_that_of_a_plain_loop(name, grouped):
    """Whole groups (or rows) drawn one by one; the spread of the differences, with the factor of Bessel."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(20), 4)
    y = rng.normal(size=80)
    first, second = y + rng.normal(size=80), np.zeros(80)
    metric = get_metric(name)
    found = against_baseline(metric, y, first, second, groups=groups if grouped else None)
    units = [np.flatnonzero(groups == g) for g in range(20)] if grouped else [np.array([i]) for i in range(80)]
    draws = []
    for _ in range(1500):
        rows = np.concatenate([units[i] for i in rng.integers(0, len(units), len(units))])
        draws.append(metric(y[rows], first[rows]) - metric(y[rows], second[rows]))
    k = len(units)
    half = stats.t.ppf(0.975, k - 1) * np.std(draws, ddof=1) * np.sqrt(k / (k - 1))
    assert found.difference == pytest.approx(metric(y, first) - metric(y, second))
    assert (found.upper - found.lower) / 2 == pytest.approx(half, rel=0.15)  # five standard errors of both spreads
    assert found.n == k
    assert agrees(found)


def test_auc_of_the_baseline_is_a_half_and_its_error_that_of_ranks():
    """Against constant scores the spread of the difference is that of the AUC: DeLong's."""
    rng = np.random.default_rng(4)
    y = np.repeat([0, 1], [60, 25])
    scores = rng.normal(size=85) + 0.8 * y
    found = against_baseline(get_metric("auc"), y, scores, np.full(85, 0.3))
    wins = (scores[y == 1][:, None] > scores[y == 0]).astype(float)
    error = np.sqrt(wins.mean(axis=1).var(ddof=1) / 25 + wins.mean(axis=0).var(ddof=1) / 60)
    assert found.difference == pytest.approx(wins.mean() - 0.5)
    assert (found.upper - found.lower) / 2 == pytest.approx(2.02 * error, rel=0.15)
    assert found.code == BETTER


def test_the_same_predictions_show_nothing():
    y = np.random.default_rng(5).normal(size=30)
    same = np.full(30, 0.1)
    for name in ("mae", "rmse", "r2"):
        found = against_baseline(get_metric(name), y, same + 1e-16, same)
        assert (found.difference, found.code, found.p_value) == (0.0, UNCLEAR, 1.0)
    one_group = against_baseline(get_metric("mae"), y, y, same, groups=np.zeros(30))
    assert one_group.code == UNCLEAR
    assert np.isinf(one_group.upper)


def test_differences_without_spread_go_by_their_sign():
    y = np.zeros(10)
    found = against_baseline(get_metric("mae"), y, y + 1.0, y + 3.0)
    assert (found.lower, found.upper, found.code) == (-2.0, -2.0, BETTER)
    few = against_baseline(get_metric("mae"), y[:4], y[:4] + 1.0, y[:4] + 3.0)
    assert few.code == UNCLEAR
    assert agrees(found)
    assert agrees(few)


def test_a_figure_that_resamples_do_not_have_is_refused():
    y = np.array([1] + [0] * 40)
    metric = replace(get_metric("auc"), value=_rarely)
    with pytest.raises(DataError, match="only"):
        against_baseline(metric, y, np.arange(41.0), np.zeros(41))


def _rarely(y, scores, **options):
    raise DataError("never")


def test_what_is_printed_never_contradicts_the_words():
    """A limit beyond zero is not printed as zero."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        low, width = rng.normal(), 10.0 ** rng.uniform(-3, 3)
        found = BaselineTest("rmse", "line", low + width / 2, low, low + width, 0.5, 0.95, "t", 30, False)
        ends = [
            float(one.replace(",", ""))
            for one in apart("rmse", found.difference, found.lower, found.upper)[1].split(" to ")
        ]
        printed = UNCLEAR if ends[0] <= 0 <= ends[1] else WORSE if ends[0] > 0 else BETTER
        assert printed == found.code or (found.code == UNCLEAR and 0.0 in ends)


def false_alarms(name, draw, reps):
    hits = 0
    for seed in range(reps):
        found = against_baseline(get_metric(name), *draw(np.random.default_rng(seed)), random_state=seed)
        assert agrees(found)
        hits += found.code != UNCLEAR
    return hits


def equal_errors(rng, n=30):
    """Two models with the same risk: one adds noise of variance 0.04, the other is off by 0.2."""
    y = rng.normal(size=n)
    return y, 0.2 * rng.normal(size=n), np.full(n, 0.2)


def coins(rng, n=50):
    return rng.integers(0, 2, n), rng.integers(0, 2, n), rng.integers(0, 2, n)


def rare(rng, n=60, m=6):
    return np.repeat([1, 0], [m, n - m]), rng.uniform(size=n), np.full(n, 0.1)


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(
    ("name", "draw", "reps"),
    [("mse", equal_errors, 1000), ("error", coins, 500), ("rmse", equal_errors, 200), ("auc", rare, 150)],
)
def test_false_alarms_are_as_rare_as_stated(name, draw, reps):
    """Models of equal risk: at most 5%, and with these seeds below the 99.9% limit of so many trials."""
    assert false_alarms(name, draw, reps) <= stats.binom.ppf(0.999, reps, 0.05)


# In a study.


@pytest.mark.usefixtures("few_resamples")
def test_a_study_tests_its_selection_once_and_says_what_the_interval_says(tmp_path):
    study = run(line(), "y", test_size=0.25, learners=["least squares"], out=tmp_path / "out")
    opened = study.opened
    found = opened.against_baseline
    assert found.code == BETTER
    assert found.level == opened.look.level
    assert found.difference == pytest.approx(opened.intervals["rmse"].estimate - opened.baseline["rmse"])
    assert set(opened.baseline) == set(opened.intervals)
    assert opened.baseline["rmse"] == pytest.approx(np.sqrt(np.mean((opened.y - study.rows["y"].mean()) ** 2)))
    told = json.loads((tmp_path / "out" / "study.json").read_text())
    assert told["finding"] == "test-better"
    assert told["better_than_baseline"] is True
    assert told["against_baseline"]["difference"] == found.difference
    assert told["test"]["rmse"]["baseline"] == opened.baseline["rmse"]
    assert "beats the baseline" in study.verdict()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The one planned test" in page
    again = Study.load(study.name).finish()
    assert again.opened.against_baseline.to_frame().equals(found.to_frame())


@pytest.mark.usefixtures("few_resamples")
def test_the_test_rows_decide_whatever_the_folds_say():
    """Each code has its sentence; folds that show nothing do not silence a test that does."""
    study = run(line(), "y", test_size=0.25, learners=["least squares"])
    state = study._state
    assert finding(replace(state, comparisons=None)) == "test-better"
    assert "not shown" not in verdict(replace(state, comparisons=None))
    found = state.opened.against_baseline
    for lower, upper, code in ((-1.0, 1.0, "test-unclear"), (0.5, 1.0, "test-worse"), (-1.0, -0.5, "test-better")):
        other = replace(state, opened=replace(state.opened, against_baseline=replace(found, lower=lower, upper=upper)))
        assert finding(other) == code
        assert WORDS[code].format(chosen="least squares") in verdict(other)
    assert finding(replace(state, opened=None)) == "folds-better"
    assert finding(replace(state, opened=None, comparisons=None)) == "folds-none"


@pytest.mark.usefixtures("few_resamples")
def test_no_test_with_the_baseline_selected_or_beyond_the_plan():
    noise = run(line(slope=0.0, seed=3), "y", test_size=0.25, learners=["tree"])
    assert noise.select().name == "baseline"
    assert noise.opened.against_baseline is None
    assert noise.summary()["finding"] == "test-baseline"
    first = run(line(), "y", test_size=0.25, learners=["least squares"])
    second = run(line(), "y", test_size=0.25, learners=["lasso"], reason="a second opinion")
    assert second.opened.release is not None
    assert second.opened.against_baseline is None
    assert second.opened.baseline == {}
    assert second.summary()["finding"] == "folds-better"
    assert first.opened.against_baseline is not None


@pytest.mark.usefixtures("few_resamples")
def test_the_order_of_rows_in_the_file_changes_nothing(monkeypatch, tmp_path):
    found = []
    for at, frame in enumerate((line(), line().iloc[::-1])):
        monkeypatch.setenv("ASSAY_HOME", str(tmp_path / f"home{at}"))
        found.append(run(frame, "y", test_size=0.25, learners=["least squares"]).opened.against_baseline)
    assert found[0].lower == pytest.approx(found[1].lower, rel=1e-12)


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("metric", ["rmse", "r2"])
def test_a_rescaled_column_changes_neither_the_resamples_nor_the_words(metric):
    """The same predictions for recognised rows: a replay from the first note to the last, with the same limits."""
    frame = line()
    asked = {"metric": metric, "test_size": 0.25, "learners": ["least squares"]}
    first = run(frame, "y", **asked)
    again = run(frame.assign(a=2.54 * frame["a"])[["c", "a", "b", "y"]], "y", **asked)
    assert again.opened.look.replay
    (note,) = (note for note in again.notes if "rows are those of study" in note)
    assert note.endswith("the same predictions for them are a replay, any others are look 2")
    assert any("with the same predictions, recognised" in note for note in again.opened.notes)
    one, other = first.opened.against_baseline, again.opened.against_baseline
    assert (one.lower, one.upper, one.p_value) == pytest.approx((other.lower, other.upper, other.p_value), rel=1e-9)


# Finalizing.


@pytest.mark.usefixtures("few_resamples")
def test_finalize_fits_all_rows_and_takes_them_out_of_the_game(tmp_path):
    frame = line()
    study = Study(frame, "y", test_size=0.25, learners=["ridge"])
    with pytest.raises(SealError, match="open the test set first"):
        study.finalize(tmp_path)
    study.open()
    Study(frame, "y", learners=["baseline"], test_size=0.25).seal()  # the same rows again, now the latest study of them
    made = Study.load(study.name).finalize(tmp_path)
    assert (made.n_train, made.n_test) == (len(study.rows), study.n_test)
    assert set(made.before) == set(made.after) == {"alpha_"}
    assert made.before != made.after
    assert made.figure.estimate == study.opened.intervals["rmse"].estimate
    assert made.figure.estimand.endswith("of the recipe fitted to the training rows")
    by_hand = predict_table(tmp_path / "model-final.assay", frame)
    np.testing.assert_allclose(by_hand["prediction"], made.model.predict(frame[["a", "b", "c"]]))
    assert not np.allclose(by_hand["prediction"], study.model.predict(frame[["a", "b", "c"]]), rtol=1e-6)
    assert Study.load(study.name).verify() == []
    entries = study.ledger.entries("final")
    study.finalize(tmp_path)
    assert len(study.ledger.entries("final")) == len(entries) == 1  # the same rows are recorded once

    for other in (frame, frame.iloc[::-1], frame.assign(d=1.0), frame * 3.0, frame.iloc[:80]):
        with pytest.raises(SealError, match="cannot be test rows again"):
            run(other, "y", test_size=0.25, learners=["ridge"], reseal="another try")
    changed = frame.assign(a=frame["a"].where(np.arange(len(frame)) % 9 > 0, -99.0))
    with pytest.raises(SealError, match="rows of this table were used"):
        Study(changed, "y", learners=["ridge"], test_size=0.25).seal()
    longer = pd.concat([frame, line(80, seed=9)], ignore_index=True)
    again = Study(longer, "y", learners=["ridge"])
    again.seal()
    test = again.open().y
    assert 0 < again.n_test < 80
    assert not np.isin(test, frame["y"]).any()
    with pytest.raises(SealError, match="rows of the test file"):
        Study(line(60, seed=11), "y", learners=["ridge"], test=frame.iloc[:30]).seal()


@pytest.mark.parametrize("kind", ["value", "class", "group"])
def test_a_holdout_without_refit_is_finalized_with_all_rows_and_limits(tmp_path, kind):
    frame = line(150).assign(g=np.arange(150) // 5)
    if kind == "class":  # three rows of one class: no more than three folds
        frame["y"] = np.where(np.arange(150) % 50 == 0, "c", np.where(frame["y"] > 0, "a", "b"))
    learner = "logistic" if kind == "class" else "ridge"
    options = {"group": "g"} if kind == "group" else {"drop": ["g"]}
    plan = {"cv": "holdout", "validation": 0.2, "refit": False, "test_size": 0.2, **options}
    study = Study(frame, "y", learners=[learner], despite=["rare-class"] if kind == "class" else [], **plan)
    study.open()
    assert Study.load(study.name).verify() == []
    made = study.finalize(tmp_path)
    assert (made.n_train, made.n_fitted) == (len(study.rows), len(study.data.splits[0][0]))
    parts = load_model(tmp_path / "model-final.assay")
    assert len(parts["schema"]["codes"] if kind == "class" else parts["residuals"]) == made.n_train + made.n_test == 150
    found = predict_rows(tmp_path / "model-final.assay", frame.drop(columns="y"))
    assert "calibrated on 150 out-of-fold predictions" in found.coverage
    np.testing.assert_array_equal(found.frame["prediction"], made.model.predict(frame[["a", "b", "c"]]))


def test_finalize_leaves_used_groups_and_times_in_training(tmp_path):
    rng = np.random.default_rng(0)
    for key in ("group", "time"):
        frame = line(seed=20 if key == "group" else 21).assign(k=np.repeat(np.arange(40.0), 3))
        study = Study(frame, "y", test_size=0.25, learners=["least squares"], **{key: "k"}, metric="mae")
        study.open()
        study.finalize(tmp_path / key)
        new = line(60, seed=22 if key == "group" else 23).assign(k=rng.integers(30, 60, 60).astype(float))
        longer = Study(
            pd.concat([frame, new], ignore_index=True), "y", learners=["least squares"], metric="mae", **{key: "k"}
        )
        longer.seal()
        assert longer.n_test > 0
        assert longer.rows["k"].isin(frame["k"]).sum() >= 120
        seen = longer.open()
        assert not np.isin(seen.y, frame["y"]).any()


def risk(missed=10.0, false=1.0):
    return get_metric("risk").bind(cost=[[0.0, false], [missed, 0.0]], labels=[0, 1])


def test_costs_decide_even_where_only_one_kind_of_error_was_drawn():
    """False alarms alone cost 1 each, like errors; the test is still that of costs, and the unit of costs is free."""
    y = np.repeat([0, 1], [40, 10])
    first, second = y.copy(), y.copy()
    first[:3], second[:12] = 1, 1
    found = against_baseline(risk(), y, first, second)
    assert found.method.startswith("Wilson limits")
    tenfold = against_baseline(risk(100.0, 10.0), y, first, second)
    assert (tenfold.difference, tenfold.lower, tenfold.upper) == pytest.approx(
        (10 * found.difference, 10 * found.lower, 10 * found.upper)
    )
    assert tenfold.p_value == pytest.approx(found.p_value)
    first[-1] = 0  # one missed row costs more than the nine false alarms it saves
    missed = against_baseline(risk(), y, first, second)
    assert missed.difference == pytest.approx((3 + 10 - 12) / 50)
    assert missed.code == UNCLEAR
    assert against_baseline(get_metric("error"), y, first, second).method.startswith("exact McNemar")


def test_two_shares_of_errors_have_the_limits_of_newcombe():
    """A constant baseline misses every positive row; the other model has false alarms. Two kinds: Wilson by hand."""
    y = np.repeat([0, 1], [60, 20])
    first = np.where(np.arange(80) < 9, 1, y)
    first[-5:] = 0
    found = against_baseline(risk(4.0, 1.0), y, first, np.zeros(80, dtype=int))
    saved, alarms = (stats.binomtest(k, 80).proportion_ci(0.95, "wilson") for k in (15, 9))
    assert found.difference == pytest.approx((9 - 4 * 15) / 80)
    down = np.hypot(4 * (saved.high - 15 / 80), 9 / 80 - alarms.low)
    up = np.hypot(4 * (15 / 80 - saved.low), alarms.high - 9 / 80)
    assert (found.lower, found.upper) == pytest.approx((found.difference - down, found.difference + up))
    assert agrees(found)
    touching = against_baseline(risk(4.0, 1.0), y, first, np.zeros(80, dtype=int), level=1 - found.p_value)
    assert touching.upper == pytest.approx(0.0, abs=1e-9)


def test_one_decisive_row_shows_nothing_though_every_resample_agrees():
    y = np.r_[1, np.zeros(60, dtype=int)]
    found = against_baseline(get_metric("auc"), y, y.astype(float), 1.0 - y)
    assert (found.difference, found.p_value, found.code) == (1.0, 1.0, UNCLEAR)
    assert (found.lower, found.upper) == (-np.inf, np.inf) or (found.lower, found.upper) == (-1.0, 1.0)


@pytest.mark.usefixtures("few_resamples")
def test_words_p_values_and_intervals_agree_over_many_tables():
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n, level = int(rng.integers(4, 40)), float(rng.choice([0.5, 0.8, 0.9, 0.95, 0.99]))
        y = (rng.random(n) < rng.choice([0.1, 0.5])).astype(int)
        first, second = (np.where(rng.random(n) < wrong, 1 - y, y) for wrong in rng.choice([0, 0.05, 0.3, 0.6], 2))
        groups = rng.integers(0, 5, n) if rng.random() < 0.3 else None
        for metric in (
            get_metric("error"),
            risk(),
            get_metric("f1"),
            get_metric("balanced_accuracy"),
            get_metric("mae"),
        ):
            try:
                found = against_baseline(metric, y, first, second, level=level, groups=groups)
            except DataError:  # one class alone has no balanced accuracy
                continue
            assert agrees(found), (seed, str(found))
            assert found.lower <= found.difference <= found.upper
            assert max(abs(found.lower), abs(found.upper)) <= np.ptp(metric.range)


def expensive(rng, n=60, m=12):
    """Two learners whose errors cost the same on average: ten false alarms to one missed row."""
    y = np.r_[np.ones(m, dtype=int), np.zeros(n - m, dtype=int)]
    share = np.where(y == 1, 0.05, 0.05 * 10 * m / (n - m))
    return y, np.where((rng.random(n) < share) & (y == 1), 0, y), np.where((rng.random(n) < share) & (y == 0), 1, y)


def test_costs_hold_their_level_with_rare_errors():
    """500 tables each, nominal .05 (Student's t: .05 to .33); a false alarm of this test is rarer than 1e-3."""
    for n, m in ((30, 6), (60, 12), (200, 20)):
        rng = np.random.default_rng(12)
        wrong = sum(against_baseline(risk(), *expensive(rng, n, m)).code != UNCLEAR for _ in range(500))
        assert wrong <= stats.binom.ppf(0.999, 500, 0.05)
