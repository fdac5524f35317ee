"""Folds as scikit-learn makes them; the mean and its error as cv.glmnet defines them; the one-SE rule."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedKFold

from assay.errors import DataError
from assay.resampling import cv_mean_and_error, folds, folds_constraint, one_standard_error

X, y = np.arange(20.0).reshape(10, 2), np.linspace(0, 1, 10)


@pytest.mark.parametrize(
    "cv", [2, np.int64(3), KFold(4, shuffle=True, random_state=0), LeaveOneOut(), list(KFold(3).split(X))]
)
def test_every_row_is_tested_once(cv):
    assert folds_constraint.accepts(cv)
    splits = folds(cv, X, y)
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(10))
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(10))


def test_a_generator_of_splits_will_do():
    assert folds_constraint.accepts(KFold(2).split(X))
    assert len(folds(KFold(2).split(X), X, y)) == 2


@pytest.mark.parametrize("cv", [0, 1, -3, 2.5, "5", None, True, object(), KFold])
def test_what_cv_may_not_be(cv):
    assert not folds_constraint.accepts(cv)


@pytest.mark.parametrize("cv", [11, KFold(11), StratifiedKFold(2), GroupKFold(2)])
def test_impossible_folds_say_what_to_do(cv):
    with pytest.raises(DataError) as caught:
        folds(cv, X, y)
    assert caught.value.remedy is not None


@pytest.mark.parametrize(
    "cv", [[], [(np.arange(5), np.array([], dtype=int))], [(np.array([], dtype=int), np.arange(5))]]
)
def test_empty_folds_say_what_to_do(cv):
    with pytest.raises(DataError, match="fold") as caught:
        folds(cv, X, y)
    assert caught.value.remedy is not None


def test_masks_are_turned_into_row_numbers():
    mask = np.arange(10) < 4
    ((train, test),) = folds([(~mask, mask)], X, y)
    assert train.tolist() == [4, 5, 6, 7, 8, 9]
    assert test.tolist() == [0, 1, 2, 3]


def test_mean_and_error_are_those_of_cv_glmnet():
    errors = np.array([[1.0, 5.0], [2.0, 1.0], [4.0, 3.0]])
    weights = np.array([10.0, 10.0, 5.0])
    mean, error = cv_mean_and_error(errors, weights)
    for j in range(2):
        m = sum(w * e for w, e in zip(weights, errors[:, j], strict=True)) / 25
        v = sum(w * (e - m) ** 2 for w, e in zip(weights, errors[:, j], strict=True)) / 25
        assert_allclose([mean[j], error[j]], [m, (v / 2) ** 0.5], rtol=1e-14)


def test_equal_folds_give_the_textbook_standard_error():
    errors = np.random.default_rng(0).normal(size=(7, 3))
    mean, error = cv_mean_and_error(errors, np.ones(7))
    assert_allclose(mean, errors.mean(axis=0))
    assert_allclose(error, errors.std(axis=0, ddof=1) / np.sqrt(7))


@pytest.mark.parametrize("factor", [2.0**1000, 2.0**-1000])
def test_the_standard_error_scales_with_the_errors(factor):
    errors = np.random.default_rng(0).uniform(1, 2, size=(5, 3))
    mean, error = cv_mean_and_error(errors, np.ones(5))
    assert_allclose(cv_mean_and_error(errors * factor, np.ones(5)), (mean * factor, error * factor), rtol=1e-12)


def test_errors_of_zero_have_no_spread():
    assert [a.tolist() for a in cv_mean_and_error(np.zeros((3, 2)), np.ones(3))] == [[0, 0], [0, 0]]


def test_one_fold_has_no_standard_error_and_picks_the_best():
    mean, error = cv_mean_and_error(np.array([[3.0, 1.0, 2.0]]), np.ones(1))
    assert mean.tolist() == [3.0, 1.0, 2.0]
    assert np.isnan(error).all()
    assert one_standard_error(mean, error) == (1, 1)


def test_one_standard_error_takes_the_simplest_side():
    mean = np.array([9.0, 5.2, 5.0, 4.0, 4.9, 5.0])
    assert one_standard_error(mean, np.full(6, 1.0)) == (3, 2)
    assert one_standard_error(mean, np.zeros(6)) == (3, 3)
    assert one_standard_error(mean, np.full(6, 100.0)) == (3, 0)
