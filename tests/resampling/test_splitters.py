"""What each splitter promises about sizes, classes, groups and order; ours in scikit-learn and the other way round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    LeavePOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_score,
)
from sklearn.model_selection import LeaveOneOut as SklearnLeaveOneOut

from assay.errors import AssayError, DataError, ParameterError
from assay.resampling import (
    AllButOne,
    Bootstrap,
    FiveByTwo,
    Folds,
    Holdout,
    LeaveOneOut,
    TimeFolds,
    corrected_variance_factor,
    is_partition,
    nested,
    scheme_of,
    splits_of,
)

X = np.arange(60.0).reshape(30, 2)
LABELS = np.array(["a"] * 17 + ["b"] * 9 + ["c"] * 4)


@given(
    counts=st.lists(st.integers(1, 25), min_size=1, max_size=5),
    K=st.integers(2, 6),
    seed=st.integers(0, 2**31),
)
def test_folds_differ_by_one_row_at_most_in_total_and_in_every_class(counts, K, seed):
    y = np.repeat(np.arange(len(counts)), counts)
    if y.size < K:
        return
    splits = list(Folds(K, stratify=True, random_state=seed).split(y[:, None], y))
    assert is_partition(splits, y.size)
    sizes = [test.size for _, test in splits]
    assert max(sizes) - min(sizes) <= 1
    for label in range(len(counts)):
        inside = [np.count_nonzero(y[test] == label) for _, test in splits]
        assert max(inside) - min(inside) <= 1


@given(
    counts=st.lists(st.integers(3, 40), min_size=1, max_size=4),
    share=st.floats(0.2, 0.6),
    seed=st.integers(0, 2**31),
)
def test_a_holdout_keeps_the_share_in_total_and_in_every_class(counts, share, seed):
    y = np.repeat(np.arange(len(counts)), counts)
    train, test = next(Holdout(share, stratify=True, random_state=seed).split(y[:, None], y))
    assert sorted([*train, *test]) == list(range(y.size))
    assert abs(test.size - share * y.size) <= 1
    for label, count in enumerate(counts):
        assert abs(np.count_nonzero(y[test] == label) - share * count) <= 1


@pytest.mark.parametrize(("n", "share"), [(999, 0.5), (1_000, 0.2), (99_999, 0.2), (100_000, 0.1)])
def test_the_rules_of_thumb_for_the_size_of_a_test_set(n, share):
    _, test = next(Holdout().split(np.empty((n, 1))))
    assert abs(test.size - share * n) <= 1


@pytest.mark.parametrize("splitter", [Folds(3), Folds(3, repeats=2), Holdout(), Bootstrap(5)])
def test_groups_stay_whole(splitter):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 8, 30).astype(str)
    for train, test in splitter.split(X, LABELS, groups):
        assert not set(groups[train]) & set(groups[test])


@pytest.mark.parametrize("share", [0.5, 0.2, 0.1, 0.05])
def test_a_holdout_of_groups_keeps_the_share(share):
    groups = np.repeat(np.arange(20), 10)
    _, test = next(Holdout(share).split(groups[:, None], None, groups))
    assert abs(test.size - 200 * share) <= 10
    uneven = np.repeat(np.arange(40), [1] * 30 + [7] * 10)
    _, test = next(Holdout(share).split(uneven[:, None], None, uneven))
    assert abs(test.size - 100 * share) <= 7


def test_the_rarest_class_is_in_every_fold_alike():
    """300 seeds, 5 folds: a share of one fifth within binomial bounds of false-alarm rate 1e-6."""
    y = np.array([0] + [1] * 29)
    first = sum(0 in next(Folds(5, stratify=True, random_state=seed).split(y[:, None], y))[1] for seed in range(300))
    low, high = stats.binom.interval(1 - 1e-6, 300, 0.2)
    assert low <= first <= high


def test_groups_are_dealt_so_that_classes_stay_even():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), rng.integers(1, 9, 60))
    y = (rng.random(groups.size) < 0.2).astype(int)
    shares = [y[test].mean() for _, test in Folds(5).split(y[:, None], y, groups)]
    sizes = [test.size for _, test in Folds(5).split(y[:, None], y, groups)]
    assert np.ptp(shares) < 0.05
    assert max(sizes) / min(sizes) < 1.15


@pytest.mark.parametrize("splitter", [Folds(3), Folds(3, repeats=3), FiveByTwo(), Holdout(), Bootstrap(4)])
def test_a_seed_gives_the_same_rows_and_another_seed_others(splitter):
    def rows(which):
        return [test.tolist() for _, test in which.split(X, LABELS)]

    assert rows(splitter) == rows(splitter)
    splitter_two = type(splitter)(**{**vars(splitter), "random_state": 7}) if type(splitter) is not FiveByTwo else None
    if splitter_two is not None:
        assert rows(splitter) != rows(splitter_two)


def test_repeats_are_dealt_anew():
    first, second = np.array_split([test.tolist() for _, test in Folds(3, repeats=2).split(X)], 2)
    assert first.tolist() != second.tolist()


def test_bootstrap_leaves_a_row_out_with_probability_one_in_e():
    """S4: (1 - 1/n)^n; 200 resamples of 500 rows, bound at a false-alarm rate of 1e-6."""
    left = np.array([test.size for _, test in Bootstrap(200).split(np.empty((500, 1)))])
    p = (1 - 1 / 500) ** 500
    assert abs(p - 0.368) < 5e-4
    error = left.std(ddof=1) / np.sqrt(left.size)
    assert abs(left.mean() - 500 * p) < stats.norm.isf(0.5e-6) * error


def test_stratified_bootstrap_keeps_every_class():
    y = np.array([0] * 50 + [1] * 3)
    for train, _ in Bootstrap(50, stratify=True).split(y[:, None], y):
        assert np.count_nonzero(y[train] == 1) == 3


def test_time_folds_never_look_ahead():
    for train, test in TimeFolds(4, gap=2, window=8).split(X):
        assert train.max() + 2 < test.min()
        assert train.size <= 8
    parts = [test for _, test in TimeFolds(4).split(X)]
    assert np.concatenate(parts).tolist() == list(range(6, 30))


def test_scikit_learn_takes_our_splitters():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 3))
    y = Z @ [1.0, 2.0, 0.0] + rng.normal(size=60)
    for cv in (Folds(4), Folds(3, repeats=2), LeaveOneOut(), FiveByTwo(), Holdout(), TimeFolds(3), Bootstrap(5)):
        scores = cross_val_score(Ridge(), Z, y, cv=cv, scoring="neg_mean_squared_error")
        by_hand = [np.mean((y[b] - Ridge().fit(Z[a], y[a]).predict(Z[b])) ** 2) for a, b in cv.split(Z, y)]
        np.testing.assert_allclose(-scores, by_hand, rtol=1e-12)
        assert scores.size == cv.get_n_splits(Z)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=Folds(3)).fit(Z, y > 0)
    (train, test) = list(Folds(3).split(Z, y > 0))[2]
    by_hand = [LogisticRegression(C=C).fit(Z[train], y[train] > 0).score(Z[test], y[test] > 0) for C in (0.1, 1.0)]
    assert search.cv_results_["split2_test_score"].tolist() == by_hand


@pytest.mark.parametrize(
    ("cv", "kind"),
    [
        (5, "k-fold"),
        (KFold(5), "k-fold"),
        (KFold(30), "leave-one-out"),
        (SklearnLeaveOneOut(), "leave-one-out"),
        (LeaveOneOut(), "leave-one-out"),
        (RepeatedKFold(n_splits=5, n_repeats=3), "repeated k-fold"),
        (RepeatedKFold(n_splits=2, n_repeats=5), "5x2"),
        (FiveByTwo(), "5x2"),
        (ShuffleSplit(7, test_size=0.2), "repeated holdout"),
        (Holdout(), "holdout"),
        (TimeSeriesSplit(4), "time-ordered"),
        (TimeFolds(4), "time-ordered"),
        (Bootstrap(6), "bootstrap"),
        (LeavePOut(2), "repeated holdout"),
        ([(np.arange(10), np.arange(10, 20)), (np.arange(20, 30), np.arange(5))], "other"),
    ],
)
def test_the_scheme_is_read_off_the_rows(cv, kind):
    scheme = scheme_of(splits_of(cv, X, None), 30)
    assert scheme.kind == kind
    assert "30" in str(scheme)


def test_scikit_learns_group_splitters_get_their_groups():
    groups = np.repeat(["u", "v", "w"], 10)
    splits = splits_of(LeaveOneGroupOut(), X, None, groups=groups)
    assert [set(groups[test]) for _, test in splits] == [{"u"}, {"v"}, {"w"}]


def test_the_factor_of_nadeau_and_bengio():
    assert corrected_variance_factor(scheme_of(splits_of(10, np.empty((100, 1))), 100)) == pytest.approx(1 / 10 + 1 / 9)
    repeated = scheme_of(splits_of(Folds(10, repeats=10), np.empty((100, 1))), 100)
    assert corrected_variance_factor(repeated) == pytest.approx(1 / 100 + 1 / 9)


def test_all_but_one_is_made_when_asked_for():
    splits = AllButOne(5)
    assert len(splits) == 5
    assert is_partition(splits[:], 5)
    assert splits[-1][1].tolist() == [4]
    with pytest.raises(IndexError):
        splits[5]


def test_nested_splits_stay_inside_their_training_rows():
    for train, test, inside in nested(3, 4, X, LABELS, classes=True):
        assert len(inside) == 4
        for a, b in inside:
            assert sorted([*a, *b]) == train.tolist()
            assert not set(b) & set(test)


@pytest.mark.parametrize(
    ("cv", "error"),
    [
        (Folds(31), DataError),
        (Folds(1), ParameterError),
        (Folds(3, repeats=0), ParameterError),
        (Folds(3, stratify="yes"), ParameterError),
        (Holdout(1.5), ParameterError),
        (TimeFolds(40), DataError),
        (Bootstrap(0), ParameterError),
        (31, DataError),
        ([(np.arange(20), np.arange(15, 30))], DataError),
        ([(np.arange(20), np.arange(25, 35))], DataError),
        (Folds(3, random_state=-1), ParameterError),
    ],
)
def test_what_cannot_be_split_is_said_in_one_sentence(cv, error):
    with pytest.raises(error) as caught:
        splits_of(cv, X, LABELS)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("splitter", [Folds(4), Holdout(), Bootstrap(3)])
def test_one_group_cannot_be_split(splitter):
    with pytest.raises(AssayError):
        splits_of(splitter, X, LABELS, groups=np.ones(30))


def test_missing_groups_are_named():
    groups = np.repeat(["u", "v", "w"], 10).astype(object)
    groups[4] = None
    with pytest.raises(DataError, match="row 4"):
        splits_of(Folds(3), X, LABELS, groups=groups)
