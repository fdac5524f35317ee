"""Figures of rows that come in groups: the interval counts groups, covers at its level, and says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from assay.evaluation import compare, cross_validate
from assay.experiment import run
from assay.experiment.test_set.grouped import BLOCKS, grouped_interval
from assay.inference.heavy_tails import mean_limits
from assay.linear import Ridge
from assay.metrics import get_metric
from assay.resampling import Folds
from tests.tiers import slow


def draw(rng, groups, sizes=(1, 21)):
    """Rows whose errors share their group's effect: half of their variance."""
    labels = np.repeat(np.arange(groups), rng.integers(*sizes, groups))
    x = rng.normal(size=labels.size)
    return labels, x, x + rng.normal(size=groups)[labels] + rng.normal(size=labels.size)


def test_mean_losses_of_equal_groups_are_the_t_interval_of_group_means():
    """On a scale of its own the jackknife of a mean over equal groups is the textbook interval of their means."""
    rng = np.random.default_rng(0)
    y, means = np.zeros(60), rng.normal(3, 1, 12)
    metric = get_metric("mae").bind()
    object.__setattr__(metric, "range", (-np.inf, np.inf))
    found = grouped_interval(metric, y, np.repeat(means, 5), np.repeat(np.arange(12), 5))
    half = stats.t.ppf(0.975, 11) * means.std(ddof=1) / np.sqrt(12)
    assert found.estimate == pytest.approx(means.mean())
    assert (found.lower, found.upper) == pytest.approx((means.mean() - half, means.mean() + half))
    assert found.n == 12
    assert found.method == "jackknife over groups"


@pytest.mark.parametrize(
    ("name", "truth"), [("rmse", np.sqrt(2)), slow("mae", 2 / np.sqrt(np.pi)), slow("error", 0.304087)]
)
def test_covers_at_about_its_level_where_rows_do_not(name, truth):
    """25 groups of 1 to 20 rows, 400 draws: true coverage near 0.93 fails below 0.865 in 1 of 10,000 seeds; the
    interval of independent rows covers in about 0.7 of the draws."""
    rng, metric = np.random.default_rng(1), get_metric(name)
    hits = rows = 0
    for _ in range(400):
        labels, x, y = draw(rng, 25)
        if name == "error":
            x, y = (x > 0).astype(int), (y > 0).astype(int)
        found, plain = grouped_interval(metric, y, x, labels), metric.interval(y, x)
        hits += found.lower <= truth <= found.upper
        rows += plain.lower <= truth <= plain.upper
    assert hits >= 346
    assert hits - rows > (0 if name == "error" else 60)  # signs share less of their group than sizes do


@pytest.mark.parametrize(("name", "q"), [("median_absolute_error", 0.5), ("p90_absolute_error", 0.9)])
def test_quantiles_of_errors_count_groups(name, q):
    """40 groups, 200 draws: a true coverage of 0.93 fails below 0.84 once in a million; rows cover in about 0.8."""
    rng, metric = np.random.default_rng(5), get_metric(name)
    truth, hits, rows = np.sqrt(2) * stats.norm.ppf((1 + q) / 2), 0, 0
    for _ in range(200):
        labels, x, y = draw(rng, 40)
        found = grouped_interval(metric, y, x, labels)
        hits += truth in found
        rows += truth in metric.interval(y, x)
    assert found.n == 40
    assert found.estimate == metric(y, x)
    assert hits >= stats.binom.ppf(1e-6, 200, 0.93)
    assert hits > rows
    # Each row a group of its own: nearly the interval of rows.
    alone, plain = grouped_interval(metric, y, x, np.arange(y.size)), metric.interval(y, x)
    assert (alone.lower, alone.upper) == pytest.approx((plain.lower, plain.upper), rel=0.1)


def test_long_tails_of_groups_raise_the_upper_limit():
    rng, metric = np.random.default_rng(6), get_metric("mse")
    labels = np.repeat(np.arange(60), 2)
    losses = rng.standard_t(3, 120)
    found = grouped_interval(metric, np.zeros(120), losses, labels)
    means = (losses**2).reshape(60, 2).mean(axis=1)
    assert found.upper == pytest.approx(mean_limits(means, level=0.95)[1], rel=1e-6)


def test_many_groups_are_dealt_to_blocks():
    rng = np.random.default_rng(2)
    labels, x, y = draw(rng, 1500)
    found = grouped_interval(get_metric("rmse"), y, x, labels)
    assert found.n == 1500
    assert found.method == f"jackknife over {BLOCKS} blocks of groups"
    exact = draw(rng, BLOCKS)
    assert grouped_interval(get_metric("rmse"), exact[2], exact[1], exact[0]).method == "jackknife over groups"
    every = grouped_interval(get_metric("rmse"), y, x, labels, most=2000)  # each group a block of its own
    assert 0.8 < (found.upper - found.lower) / (every.upper - every.lower) < 1.25


def test_edges():
    error, auc = get_metric("error"), get_metric("auc")
    labels = np.repeat(np.arange(20), 5)
    y = np.tile([0, 1, 0, 1, 1], 20)
    right = grouped_interval(error, y, y, labels)
    assert right.estimate == right.lower == 0
    assert right.upper > error.interval(y, y).upper  # as if there were 20 rows, not 100
    assert right.n == 20
    assert "each group as one row" in right.method
    one = grouped_interval(error, y, 1 - y, np.zeros(100))
    assert (one.lower, one.upper) == (0, 1)
    # One group holds the only rows of a class: without it there is no figure.
    y = np.r_[np.zeros(95), np.ones(5)]
    scores = np.random.default_rng(0).random(100)
    found = grouped_interval(auc, y, scores, labels)
    assert "each group as one row" in found.method
    assert found.upper - found.lower > auc.interval(y, scores).upper - auc.interval(y, scores).lower
    gaps = np.array([None, "a", None, "b"] * 25, dtype=object)
    assert grouped_interval(error, y, y, gaps).n == 3  # rows without a label are a group


def test_a_study_by_group_counts_groups(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    labels, x, y = draw(np.random.default_rng(3), 60)
    frame = pd.DataFrame({"x": x, "who": [f"p{label:03d}" for label in labels], "y": y})
    study = run(frame, "y", test_size=0.25, group="who", learners=["least squares"], cv=5, kinds={"who": "category"})
    found = study.opened.intervals["rmse"]
    test = frame[~frame["who"].isin(study.rows["who"])]
    assert found.n == test["who"].nunique() < study.n_test
    assert "jackknife over groups" in found.method
    assert "groups" in found.estimand
    assert f"{study.n_test} rows of {found.n} groups" in study.verdict()
    assert any("based on groups, not rows" in note for note in study.opened.notes)
    assert study.opened.parts.n_test == found.n


def test_comparisons_on_folds_of_whole_groups_keep_their_level():
    """Two learners that are equally good by symmetry, errors shared within groups: 5% of 60 draws may differ, and
    more than 11 would have a chance of 1 in 50,000."""
    rng, alarms = np.random.default_rng(4), 0
    for _ in range(60):
        labels = np.repeat(np.arange(30), 6)
        shared = rng.normal(size=(30, 2))[labels]  # each learner sees a column that is alike within groups
        X = shared + 0.3 * rng.normal(size=(180, 2))
        y = X.sum(axis=1) + rng.normal(size=30)[labels] + rng.normal(size=180)
        results = {
            name: cross_validate(Ridge(), part, y, cv=Folds(10, random_state=0), groups=labels, metric="mse")
            for name, part in (("first", X[:, :1]), ("second", X[:, 1:]))
        }
        found = compare(results, level=0.95)
        assert found.why.startswith("Folds")
        alarms += bool(found.rejected.any())
    assert alarms <= 11
