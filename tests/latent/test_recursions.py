"""The recursions against the sum over all paths."""

from __future__ import annotations

import itertools
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from assay.latent import _recursions
from assay.latent._recursions import best_paths, blocks, expect, log_likelihoods
from tests.naive.latent_hmm import chain_probability, paths


def random_chain(rng: np.random.Generator, K: int, zeros: float) -> tuple[np.ndarray, np.ndarray]:
    """A start law and a transition matrix with some zeros, every row a law."""
    rows = rng.exponential(size=(K + 1, K)) * (rng.random((K + 1, K)) >= zeros)
    rows[np.arange(K + 1), rng.integers(K, size=K + 1)] += 0.1
    rows /= rows.sum(axis=1, keepdims=True)
    return rows[0], np.ascontiguousarray(rows[1:])


@given(
    seed=st.integers(0, 10**6),
    K=st.integers(1, 6),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    zeros=st.sampled_from([0.0, 0.4]),
    far=st.sampled_from([1.0, 400.0]),
)
def test_all_quantities_equal_the_sum_over_all_paths(seed, K, lengths, zeros, far):
    rng = np.random.default_rng(seed)
    start, A = random_chain(rng, K, zeros)
    first = np.concatenate([[0], np.cumsum(lengths)])
    L = far * rng.normal(size=(first[-1], K)) - 3.0
    found = expect(L, first, start, A)
    path, joint = best_paths(L, first, start, A)
    begun, pairs = np.zeros(K), np.zeros((K, K))
    for s, (a, b) in enumerate(itertools.pairwise(first)):
        top = L[a:b].max()  # any common factor will do
        if far > 1:  # products leave the range of floating point: in logarithms
            paths_ = list(product(range(K), repeat=b - a))
            with np.errstate(divide="ignore"):
                each = np.array([_joint(list(q), L[a:b], start, A) for q in paths_])
            assert_allclose(found.log_likelihood[s], logsumexp(each), rtol=1e-10)
            share = np.exp(each - logsumexp(each))
            gamma = np.array([[share[[q[t] == k for q in paths_]].sum() for k in range(K)] for t in range(b - a)])
            assert_allclose(found.gamma[a:b], gamma, atol=1e-9)
            begun += gamma[0]
            for q, weight in zip(paths_, share, strict=True):
                for i, j in itertools.pairwise(q):
                    pairs[i, j] += weight
            naive_best = _best_log(L[a:b], start, A)
            assert_allclose(joint[s], naive_best, rtol=1e-12)
            continue
        naive = paths(np.exp(L[a:b] - top), start, A)
        assert_allclose(found.log_likelihood[s], np.log(naive["total"]) + top * (b - a), rtol=1e-10)
        assert_allclose(found.gamma[a:b], naive["gamma"], atol=1e-12)
        assert_allclose(joint[s], np.log(naive["best"]) + top * (b - a), rtol=1e-10)
        assert_array_equal(_joint(path[a:b], L[a:b], start, A), pytest.approx(joint[s], rel=1e-10))
        begun += naive["gamma"][0]
        pairs += naive["pairs"]
    assert_allclose(found.begun, begun, atol=1e-9)
    assert_allclose(found.pairs, pairs, atol=1e-9)
    plain, filtered = log_likelihoods(L, first, start, A)
    assert_array_equal(plain, found.log_likelihood)
    assert_allclose(filtered[first[1:] - 1], found.gamma[first[1:] - 1], atol=1e-9)


def _joint(q, L, start, A):
    return np.log(chain_probability(q, start, A)) + L[np.arange(len(q)), q].sum()


def _best_log(L, start, A):
    with np.errstate(divide="ignore"):
        return max(_joint(list(q), L, start, A) for q in product(range(L.shape[1]), repeat=len(L)))


def test_probabilities_and_their_logarithms_give_the_same():
    rng = np.random.default_rng(0)
    start, A = random_chain(rng, 5, 0.2)
    B, first = rng.random((300, 5)), np.array([0, 100, 101, 300])
    one, two = expect(B, first, start, A, plain=True), expect(np.log(B), first, start, A)
    for name in ("log_likelihood", "gamma", "begun", "pairs"):
        assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("K", [2, 4, 7])
def test_a_state_far_better_than_the_one_the_chain_must_be_in(K):
    """Left to right: at each step the likeliest state by far cannot be reached."""
    A = np.triu(np.full((K, K), 0.5))
    A /= A.sum(axis=1, keepdims=True)
    start = np.eye(K)[-1]  # only the last state, from which nothing leads back
    L = np.tile(-1000.0 * np.arange(1, K + 1), (50, 1))
    found = expect(L, np.array([0, 50]), start, A)
    assert_allclose(found.log_likelihood, 50 * L[0, -1])
    assert_allclose(found.gamma, np.tile(start, (50, 1)))
    path, joint = best_paths(L, np.array([0, 50]), start, A)
    assert_array_equal(path, K - 1)
    assert_allclose(joint, found.log_likelihood)


def test_an_outlier_in_a_long_sequence_leaves_no_infinity():
    rng = np.random.default_rng(1)
    start, A = random_chain(rng, 3, 0.0)
    L = 50.0 * rng.normal(size=(2000, 3))
    L[::100] = [-1e5, -2e5, -3e5]
    L[1::100] = [-3e5, -2e5, -1e5]
    A = np.full((3, 3), 1e-12) + (1 - 3e-12) * np.eye(3)
    found = expect(L, np.array([0, 2000]), start, A)
    assert np.isfinite(found.gamma).all()
    assert_allclose(found.gamma.sum(axis=1), 1.0, rtol=1e-6)
    assert np.isfinite(found.pairs).all()
    assert_allclose(found.pairs.sum(), 1999.0, rtol=1e-6)


def test_sequences_that_cannot_occur_have_probability_zero_and_count_for_nothing():
    start, A = np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]])
    B = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])  # state 0 twice in a row
    first = np.array([0, 2, 4])
    found = expect(B, first, start, A, plain=True)
    assert_allclose(np.exp(found.log_likelihood), [0.0, 0.25])
    assert_allclose(found.begun, [1.0, 0.0])
    assert_allclose(found.pairs, [[0.0, 1.0], [0.0, 0.0]])
    with np.errstate(divide="ignore"):
        assert best_paths(np.log(B), first, start, A)[1][0] == -np.inf


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5])
def test_threads_change_no_bit(K, monkeypatch):
    monkeypatch.setattr("assay.numerics.threads.SMALL_WORK", 0)
    monkeypatch.setattr(_recursions, "STEPS", 64)
    rng = np.random.default_rng(K)
    start, A = random_chain(rng, K, 0.2)
    first = np.concatenate([[0], np.cumsum(rng.integers(1, 40, size=30))])
    L = rng.normal(size=(first[-1], K))
    assert len(blocks(first)) > 3
    one, two = (expect(L, first, start, A, n_jobs=n_jobs) for n_jobs in (1, 3))
    for name in ("log_likelihood", "gamma", "begun", "pairs"):
        assert_array_equal(getattr(one, name), getattr(two, name))
    for a, b in zip(*(best_paths(L, first, start, A, n_jobs=n) for n in (1, 3)), strict=True):
        assert_array_equal(a, b)
    assert_array_equal(log_likelihoods(L, first, start, A)[0], one.log_likelihood)


def test_blocks_hold_every_sequence_once():
    rng = np.random.default_rng(2)
    for high in (3, 5000, 40000):
        first = np.concatenate([[0], np.cumsum(rng.integers(1, high, size=200))])
        found = blocks(first)
        assert found[0].start == 0
        assert found[-1].stop == 200
        assert all(a.stop == b.start for a, b in itertools.pairwise(found))
        steps = [first[b.stop] - first[b.start] for b in found]
        assert min(steps[:-1], default=_recursions.STEPS) >= _recursions.STEPS
