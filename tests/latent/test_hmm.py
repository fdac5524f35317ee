"""Hidden Markov models: all quantities against the sum over all paths, EM that never falls, counting, recovery."""

from __future__ import annotations

import argparse
import decimal
import difflib
import heapq
import json
import random
import re
import statistics
import warnings
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.exceptions import NotFittedError

from assay.errors import AssayError, AssayWarning, DataError, ParameterError
from assay.latent import CategoricalHMM, GaussianHMM, MarkovChain, PoissonHMM
from tests.naive.latent_hmm import chain_probability, paths

START, MOVES, EATEN = [0.8, 0.2], [[0.6, 0.4], [0.5, 0.5]], [[0.2, 0.4, 0.4], [0.5, 0.4, 0.1]]
ICE = CategoricalHMM.from_parameters(START, MOVES, EATEN, state_names=["H", "C"], symbols=[1, 2, 3])
STAY = np.array([[0.9, 0.1], [0.2, 0.8]])
NORMAL = GaussianHMM.from_parameters([0.5, 0.5], STAY, [[0.0, 0.0], [3.0, 2.0]], [np.eye(2), [[2.0, 0.5], [0.5, 1.0]]])
COUNTED = PoissonHMM.from_parameters([0.5, 0.5], STAY, [[1.0], [6.0]])
KINDS = ["full", "tied", "diag", "spherical", "shared"]


# The ice creams.


def test_the_ice_cream_example():
    """Jurafsky, Martin, appendix A: trellis .32, .02, .0404, .069, and Viterbi .0128 along H C H."""
    assert np.exp(ICE.log_prior("HHC")) == pytest.approx(0.192)
    assert np.exp(ICE.log_conditional([3, 1, 3], "HHC")) == pytest.approx(0.4 * 0.2 * 0.1)
    assert np.exp(ICE.log_joint([3, 1, 3], "HHC")) == pytest.approx(0.192 * 0.008)
    assert np.exp(ICE.log_likelihood([3])) == pytest.approx(0.34)
    assert np.exp(ICE.log_likelihood([3, 1])) == pytest.approx(0.0404 + 0.069)
    assert np.exp(ICE.log_likelihood([3, 1, 3])) == pytest.approx(0.028562)
    found = ICE.decode([3, 1, 3])
    assert found.path.tolist() == ["H", "C", "H"]
    assert np.exp(found.log_joint[0]) == pytest.approx(0.0128)


def test_p_of_x_is_the_sum_of_joint_probabilities_over_all_paths():
    total = sum(
        np.exp(ICE.log_joint([3, 1, 3], list(q))) for q in [a + b + c for a in "HC" for b in "HC" for c in "HC"]
    )
    assert total == pytest.approx(np.exp(ICE.log_likelihood([3, 1, 3])))


# Against the sum over all paths.


def random_model(rng: np.random.Generator, K: int, kind: str) -> Any:
    start, A = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=K)
    if kind == "symbols":
        return CategoricalHMM.from_parameters(start, A, rng.dirichlet(np.ones(3), size=K))
    if kind == "counts":
        return PoissonHMM.from_parameters(start, A, rng.uniform(0.5, 6, size=(K, 2)))
    root = rng.normal(size=(K, 2, 2))
    return GaussianHMM.from_parameters(start, A, rng.normal(size=(K, 2)), root @ root.transpose(0, 2, 1) + np.eye(2))


def emissions(model: Any, X: np.ndarray) -> np.ndarray:
    """P(x_t | state), cell by cell; missing cells are left out."""
    if isinstance(model, CategoricalHMM):
        return np.array([np.ones(len(model.states_)) if x is None else model.emissionprob_[:, x] for x in X])
    out = np.ones((len(X), len(model.states_)))
    for t, x in enumerate(X):
        seen = np.flatnonzero(~np.isnan(x))
        for k in range(out.shape[1]):
            if isinstance(model, PoissonHMM):
                out[t, k] = np.prod(stats.poisson.pmf(x[seen], model.rates_[k, seen]))
            elif seen.size:
                cov = model.covariances_[k][np.ix_(seen, seen)]
                out[t, k] = stats.multivariate_normal.pdf(x[seen], model.means_[k, seen], cov)
    return out


@given(
    seed=st.integers(0, 10**6),
    K=st.integers(1, 3),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    kind=st.sampled_from(["symbols", "counts", "normal"]),
    missing=st.booleans(),
)
def test_every_quantity_equals_the_sum_over_all_paths(seed, K, lengths, kind, missing):
    rng = np.random.default_rng(seed)
    model = random_model(rng, K, kind)
    X = [model.sample(n, random_state=rng)[0] for n in lengths]
    if missing:
        X = [x.astype(object if kind == "symbols" else float) for x in X]
        for x in X:
            x[rng.random(x.shape) < 0.3] = None if kind == "symbols" else np.nan
    found = model.decode(X)
    ahead = model.predict_next(X)
    for s, x in enumerate(X):
        naive = paths(emissions(model, x), model.startprob_, model.transmat_)
        own = slice(found.first[s], found.first[s + 1])
        assert_allclose(found.log_likelihood[s], np.log(naive["total"]), rtol=1e-9, atol=1e-10)
        assert_allclose(found.posterior[own], naive["gamma"], atol=1e-10)
        assert_allclose(found.log_joint[s], np.log(naive["best"]), rtol=1e-9, atol=1e-10)
        assert_allclose(ahead.states[s], naive["gamma"][-1] @ model.transmat_, atol=1e-10)
        q = rng.integers(K, size=len(x))
        B = emissions(model, x)
        assert_allclose(model.log_conditional(x if kind == "symbols" else [x], q if kind == "symbols" else [q]),
                        np.log(np.prod(B[np.arange(len(q)), q])), rtol=1e-8, atol=1e-8)  # fmt: skip
        assert_allclose(model.log_prior(q), np.log(chain_probability(q, model.startprob_, model.transmat_)))


def test_the_next_symbol_is_the_ratio_of_two_likelihoods():
    X = [3, 1, 3, 2]
    law = ICE.predict_next(X).law[0]
    ratio = [np.exp(ICE.log_likelihood([*X, symbol]) - ICE.log_likelihood(X)) for symbol in (1, 2, 3)]
    assert_allclose(law, ratio)
    two = [
        sum(np.exp(ICE.log_likelihood([*X, any_, s]) - ICE.log_likelihood(X)) for any_ in (1, 2, 3)) for s in (1, 2, 3)
    ]
    assert_allclose(ICE.predict_next(X, steps=2).law[0], two)


def test_moments_of_the_next_row():
    X, _ = NORMAL.sample(50, random_state=3)
    found = NORMAL.predict_next(X)
    w = found.states[0]
    mean = w @ NORMAL.means_
    variance = sum(w[k] * (np.diag(NORMAL.covariances_[k]) + NORMAL.means_[k] ** 2) for k in range(2)) - mean**2
    assert_allclose(found.law[0], mean)
    assert_allclose(found.std[0], np.sqrt(variance))


# EM.


def fitted(model: Any, X: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssayWarning)
        return model.fit(X, **more)


def assert_rises(model: Any) -> None:
    """The objective never falls, up to rounding, from the start values on."""
    trace = np.array([model.trace_.initial, *model.trace_.objective])
    assert np.isfinite(trace).all()
    assert (np.diff(trace) >= -1e-10 * (np.abs(trace[:-1]) + 1)).all()


@given(
    seed=st.integers(0, 10**6),
    K=st.integers(1, 4),
    kind=st.sampled_from(["symbols", "counts", *KINDS]),
    missing=st.booleans(),
    labelled=st.sampled_from([0.0, 0.3]),
    smoothing=st.sampled_from([0.0, 0.5]),
)
def test_the_likelihood_never_falls(seed, K, kind, missing, labelled, smoothing):
    rng = np.random.default_rng(seed)
    common = {"n_components": K, "max_iter": 15, "tol": 0.0, "smoothing": smoothing, "random_state": seed}
    lengths = rng.integers(1, 30, size=4)
    n = int(lengths.sum())
    if kind == "symbols":
        X, model = rng.integers(4, size=n).astype(object), CategoricalHMM(**common)
    elif kind == "counts":
        X, model = rng.poisson(rng.choice([1.0, 9.0], size=(n, 1)), size=(n, 2)).astype(float), PoissonHMM(**common)
    else:
        X, model = (
            rng.normal(size=(n, 2)) + 3 * rng.integers(2, size=(n, 1)),
            GaussianHMM(covariance_type=kind, **common),
        )
    if missing and n > 12:
        X[rng.random(X.shape) < 0.15] = None if kind == "symbols" else np.nan
    states = np.where(rng.random(n) < labelled, rng.integers(K, size=n), -1) if labelled else None
    seen = X[np.array([x is not None and not np.any(pd.isna(x)) for x in X])]
    if kind != "symbols" and len(np.unique(seen.astype(float), axis=0)) < K:
        return  # fewer distinct rows than states are refused
    fitted(model, X, lengths=lengths, states=states)
    assert_rises(model)
    assert_allclose(model.transmat_.sum(axis=1), 1.0)
    assert np.isfinite(model.transmat_).all()


def test_one_step_by_hand():
    """Two E and M steps from given values equal the expected counts of the sum over all paths."""
    model = CategoricalHMM(symbols=[1, 2, 3], state_names="HC", startprob_init=START, transmat_init=MOVES,
                           emissionprob_init=EATEN, max_iter=1, keep_params=True)  # fmt: skip
    X = [[3, 1, 3], [1, 1, 2, 3]]
    fitted(model, X)
    begun, pairs, emitted = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3))
    for x in X:
        naive = paths(np.array(EATEN)[:, np.array(x) - 1].T, START, MOVES)
        begun += naive["gamma"][0]
        pairs += naive["pairs"]
        for t, symbol in enumerate(x):
            emitted[:, symbol - 1] += naive["gamma"][t]
    assert_allclose(model.startprob_, begun / 2)
    assert_allclose(model.transmat_, pairs / pairs.sum(axis=1, keepdims=True))
    assert_allclose(model.emissionprob_, emitted / emitted.sum(axis=1, keepdims=True))
    assert len(model.trace_.parameters) == 2
    assert_allclose(model.trace_.parameters[0]["startprob"], START)


@pytest.mark.parametrize("kind", KINDS)
def test_one_state_is_the_sample_itself(kind):
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1, 2, 3] + 5
    model = GaussianHMM(1, covariance_type=kind).fit(X)
    S = np.cov(X.T, bias=True)
    want = {
        "full": S[None],
        "tied": S,
        "diag": np.diag(S)[None],
        "spherical": [np.diag(S).mean()],
        "shared": [np.diag(S).mean()],
    }
    assert_allclose(model.means_[0], X.mean(axis=0))
    assert_allclose(model.covariances_, want[kind])


def test_zeros_of_the_start_values_stay_zero():
    A = np.triu(np.full((3, 3), 1.0))
    A /= A.sum(axis=1, keepdims=True)
    truth = GaussianHMM.from_parameters([1, 0, 0], A, [[0.0], [4.0], [8.0]], np.ones(3), covariance_type="spherical")
    X, states = truth.sample(30, 40, random_state=0)
    for smoothing in (0.0, 1.0):
        model = GaussianHMM(startprob_init=[1, 0, 0], transmat_init=A, means_init=[[1.0], [3.0], [7.0]],
                            smoothing=smoothing, covariance_type="spherical").fit(X)  # fmt: skip
        assert_array_equal(model.transmat_[np.tril_indices(3, -1)], 0.0)
        assert_array_equal(model.startprob_[1:], 0.0)
        assert all((np.diff(path) >= 0).all() for path in model.predict(X))
    assert_allclose(model.means_, truth.means_, atol=0.5)
    assert model.n_parameters() == 0 + 3 + 3 + 3
    counted = GaussianHMM(startprob_init=[1, 0, 0], transmat_init=A, smoothing=1.0).fit(X, states=states)
    assert_array_equal(counted.transmat_[np.tril_indices(3, -1)], 0.0)


def test_only_what_is_asked_for_is_estimated():
    X, _ = NORMAL.sample(200, random_state=0)
    start = {"startprob_init": [0.5, 0.5], "transmat_init": STAY, "means_init": NORMAL.means_ + 1}
    model = fitted(GaussianHMM(params="e", max_iter=5, **start), X)
    assert_array_equal(model.transmat_, STAY)
    assert_array_equal(model.startprob_, [0.5, 0.5])
    assert not np.allclose(model.means_, NORMAL.means_ + 1)


@pytest.mark.parametrize("params", ["s", "t", "e", "te", "ste"])
def test_what_is_not_estimated_is_no_free_parameter(params):
    model = CategoricalHMM.from_parameters(START, MOVES, EATEN, params=params)
    assert model.n_parameters() == sum({"s": 1, "t": 2, "e": 4}[letter] for letter in params)


@pytest.mark.parametrize("model", [CategoricalHMM(2), GaussianHMM(2), GaussianHMM(2, covariance_type="diag"),
                                   PoissonHMM(2)])  # fmt: skip
def test_a_trace_holds_the_parameters_as_the_attributes_show_them(model):
    X = np.random.default_rng(0).poisson(np.repeat([3000, 9000], 20))
    X = X > 6000 if isinstance(model, CategoricalHMM) else X[:, None]
    model = fitted(model.set_params(keep_params=True, random_state=0, max_iter=20), X)
    for name, value in model.trace_.parameters[-1].items():
        assert_allclose(value, getattr(model, f"{name}_"), err_msg=name)


@pytest.mark.parametrize("use", ["sample", "diagram", "stationary", "n_parameters"])
def test_a_model_that_is_not_fitted_says_so(use):
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        getattr(GaussianHMM(2), use)()
    assert not hasattr(GaussianHMM(2), "means_")


# Known states.


@pytest.mark.parametrize(
    ("states", "names"),
    [([None] * 4, [0, 1]), (["state 1", None, None, None], ["state 1", "state 2"]), ([5, None, None, None], [5, 0])],
)
def test_states_without_a_name_get_a_free_one(states, names):
    model = CategoricalHMM(2, random_state=0).fit("abab", states=states)
    assert model.states_.tolist() == names


def test_known_states_are_counted():
    X, states = [[3, 3, 2], [1, 1, 2], [1, 2, 3]], [list("HHC"), list("CCC"), list("CHH")]
    model = CategoricalHMM().fit(X, states=states)
    chain = MarkovChain().fit(states)
    assert_allclose(model.startprob_, [2 / 3, 1 / 3])  # by the number of sequences, not of observations
    assert_allclose(model.startprob_, chain.startprob_)
    assert_allclose(model.transmat_, chain.transmat_)
    assert_allclose(model.emissionprob_, [[3 / 5, 2 / 5, 0], [0, 1 / 4, 3 / 4]])
    smooth = CategoricalHMM(smoothing=1.0).fit(X, states=states)
    assert_allclose(smooth.emissionprob_, [[4 / 8, 3 / 8, 1 / 8], [1 / 7, 2 / 7, 4 / 7]])
    assert_allclose(smooth.startprob_, [3 / 5, 2 / 5])
    assert "counted" in str(model.trace_)


@pytest.mark.parametrize("kind", KINDS)
def test_known_states_of_rows_give_means_and_covariances(kind):
    X, states = NORMAL.sample(300, random_state=1)
    model = GaussianHMM(covariance_type=kind).fit(X + 1e6, states=states)
    assert_allclose(model.means_, [X[states == k].mean(axis=0) + 1e6 for k in range(2)])
    if kind == "full":
        assert_allclose(model.covariances_, [np.cov(X[states == k].T, bias=True) for k in range(2)], rtol=1e-6)


def test_known_states_of_counts_give_means():
    X, states = COUNTED.sample(300, random_state=1)
    model = PoissonHMM().fit(X, states=states)
    assert_allclose(model.rates_[:, 0], [X[states == k].mean() for k in range(2)])


def test_em_with_all_states_known_is_counting():
    X, states = ICE.sample(200, random_state=0)
    counted = CategoricalHMM().fit(X, states=states)
    almost = np.array(states, dtype=object)
    almost[-1] = None  # one unknown state: EM runs
    em = CategoricalHMM(random_state=0).fit(X, states=almost)
    assert em.n_iter_ > 1
    assert_allclose(em.transmat_, counted.transmat_, atol=0.02)
    assert_allclose(em.emissionprob_, counted.emissionprob_, atol=0.02)


def test_some_known_states_name_the_others_and_are_kept():
    X, states = NORMAL.sample(400, random_state=2)
    names = np.array(["calm", "wild"], dtype=object)[states]
    known = names.copy()
    known[np.random.default_rng(0).random(400) < 0.9] = None
    model = GaussianHMM(random_state=0).fit(X, states=known)
    assert model.states_.tolist() == ["calm", "wild"]
    assert_allclose(model.means_, NORMAL.means_, atol=0.4)
    assert (model.predict(X) == names).mean() > 0.9
    assert_rises(model)


def test_known_states_with_missing_cells_reach_the_maximum():
    X, states = NORMAL.sample(300, random_state=3)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = GaussianHMM(tol=1e-10).fit(X, states=states)
    assert_rises(model)
    assert model.n_iter_ > 1


# Recovery.


def closest(found: np.ndarray, truth: np.ndarray) -> list[int]:
    """The order of the found states that is nearest to the truth."""
    orders = [list(p) for p in permutations(range(len(truth)))]
    return min(orders, key=lambda p: float(np.abs(found[p] - truth).sum()))


def test_parameters_are_recovered():
    X, _ = NORMAL.sample(4000, random_state=0)
    model = GaussianHMM(2, random_state=0, n_init=2).fit(X)
    order = closest(model.means_, NORMAL.means_)
    assert_allclose(model.means_[order], NORMAL.means_, atol=0.15)
    assert_allclose(model.covariances_[order], NORMAL.covariances_, atol=0.25)
    assert_allclose(model.transmat_[np.ix_(order, order)], STAY, atol=0.05)
    X, _ = COUNTED.sample(400, 5, random_state=0)
    model = PoissonHMM(2, random_state=0).fit(X)
    order = closest(model.rates_, COUNTED.rates_)
    assert_allclose(model.rates_[order], COUNTED.rates_, atol=0.3)
    truth = CategoricalHMM.from_parameters([1, 0], STAY, [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    X, _ = truth.sample(6000, random_state=0)
    model = CategoricalHMM(2, random_state=0, n_init=3).fit(X)
    order = closest(model.emissionprob_, truth.emissionprob_)
    assert_allclose(model.emissionprob_[order], truth.emissionprob_, atol=0.06)
    assert_allclose(model.transmat_[np.ix_(order, order)], STAY, atol=0.06)
    assert len(model.starts_) == 3
    assert max(model.starts_) == pytest.approx(model.trace_.objective[-1] * 6000)


def test_the_truth_is_no_better_than_the_maximum():
    for truth, kind in ((NORMAL, GaussianHMM), (COUNTED, PoissonHMM)):
        X, _ = truth.sample(500, random_state=5)
        model = kind(2, random_state=0, n_init=3).fit(X)
        assert model.score(X) >= truth.score(X)


def test_criteria_find_the_number_of_states():
    X, _ = NORMAL.sample(1500, random_state=0)
    found = GaussianHMM(random_state=0).select(X, range(1, 4))
    assert found.n_components == 2
    model = found.best_model
    assert model.n_parameters() == 1 + 2 + 4 + 6
    assert found.table["bic"][1] == pytest.approx(-2 * model.score(X) + 13 * np.log(1500))
    assert found.table["aic"][1] == pytest.approx(-2 * model.score(X) + 26)
    assert "2 states have the least BIC" in str(found)


def test_samples_have_the_law_of_the_model():
    X, states = NORMAL.sample(20_000, random_state=1)
    for k in range(2):
        own = X[states == k]
        # Six standard errors.
        assert (
            np.abs(own.mean(axis=0) - NORMAL.means_[k]) < 6 * np.sqrt(np.diag(NORMAL.covariances_[k]) / len(own))
        ).all()
        assert_allclose(np.cov(own.T), NORMAL.covariances_[k], atol=0.2)
    symbols, hidden = ICE.sample(20_000, random_state=1)
    share = np.mean(symbols[hidden == "C"] == 1)
    assert abs(share - 0.5) < 6 * np.sqrt(0.25 / np.sum(hidden == "C"))
    counts, hidden = COUNTED.sample(20_000, random_state=1)
    assert abs(counts[hidden == 1].mean() - 6.0) < 0.2


def test_vowels_and_consonants_are_found_in_the_letters_of_a_text():
    """Two states, no labels: the classical experiment, on the documentation of the standard library."""
    modules = (argparse, decimal, difflib, heapq, json, random, statistics)
    letters = re.sub("[^a-z]", "", " ".join(module.__doc__ for module in modules).lower())
    model = CategoricalHMM(2, n_init=8, tol=1e-5, random_state=0).fit(letters)
    state = dict(zip(model.symbols_, model.emissionprob_.argmax(axis=0), strict=True))
    assert {state[letter] for letter in "aeio"} == {state["e"]}
    assert {state[letter] for letter in "tnsrldcm"} == {1 - state["e"]}


# Summaries that add.


def test_batches_of_labelled_sequences_are_one_fit():
    X, states = ICE.sample(20, 9, random_state=0)
    whole = CategoricalHMM(smoothing=0.5, symbols=[1, 2, 3], state_names=["H", "C"]).fit(X, states=states)
    parts = CategoricalHMM(smoothing=0.5, symbols=[1, 2, 3], state_names=["H", "C"])
    for at in range(0, 9, 2):
        parts.partial_fit(X[at : at + 2], states=states[at : at + 2])
    for name in ("startprob_", "transmat_", "emissionprob_"):
        assert_allclose(getattr(parts, name), getattr(whole, name))
    rows, paths_ = NORMAL.sample(40, 4, random_state=0)
    whole = GaussianHMM().fit(rows, states=paths_)
    parts = GaussianHMM()
    for one, path in zip(rows, paths_, strict=True):
        parts.partial_fit([one], states=[path])
    assert_allclose(parts.means_, whole.means_)
    assert_allclose(parts.covariances_, whole.covariances_, rtol=1e-5)


@pytest.mark.parametrize("model", [ICE, NORMAL, COUNTED])
def test_a_stream_of_summaries_is_one_iteration(model):
    import copy

    X, _ = model.sample(30, 6, random_state=0)
    streamed = copy.deepcopy(model)
    streamed.update(sum(streamed.summarize([one]) for one in X))
    whole = fitted(copy.deepcopy(model).set_params(max_iter=1), X)
    assert_allclose(streamed.transmat_, whole.transmat_)
    assert_allclose(streamed.startprob_, whole.startprob_)
    for name in ("emissionprob_", "means_", "covariances_", "rates_"):
        if hasattr(model, name):
            assert_allclose(getattr(streamed, name), getattr(whole, name), rtol=1e-6)


def test_online_em_finds_the_parameters():
    model = CategoricalHMM(2, random_state=0)
    truth = CategoricalHMM.from_parameters([0.5, 0.5], STAY, [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    X, _ = truth.sample(300, 30, random_state=0)
    model.partial_fit(X[:1])
    first = model.score(X)
    for one in X[1:]:
        model.partial_fit([one])
    assert model.score(X) > first
    assert model.score(X) > truth.score(X) - 30


# Sequences in any form.


def test_every_way_to_pass_sequences_gives_the_same():
    X, _ = NORMAL.sample(25, 3, random_state=0)
    flat = np.concatenate(X)
    frames = [pd.DataFrame(x, columns=["a", "b"]) for x in X]
    one = GaussianHMM(2, random_state=0).fit(X)
    for way, lengths in ((flat, [25] * 3), (flat.tolist(), [25] * 3), ([x.tolist() for x in X], None), (frames, None)):
        same = GaussianHMM(2, random_state=0).fit(way, lengths=lengths)
        assert_array_equal(same.means_, one.means_)
        assert_array_equal(np.ravel(same.predict(way, lengths=lengths)), np.concatenate(one.predict(X)))
    assert len(one.predict(X)) == 3
    assert one.predict_proba(X)[0].shape == (25, 2)
    assert one.predict(flat, lengths=[25] * 3).shape == (75,)
    assert_allclose(one.log_likelihood(flat, lengths=[25] * 3), one.log_likelihood(X))
    assert GaussianHMM(2, random_state=0).fit(frames).feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize("kind", ["symbols", "normal", "counts"])
def test_threads_change_no_bit(kind, monkeypatch):
    from assay.latent import _recursions

    monkeypatch.setattr("assay.numerics.threads.SMALL_WORK", 0)
    monkeypatch.setattr(_recursions, "STEPS", 50)
    truth = {"symbols": ICE, "normal": NORMAL, "counts": COUNTED}[kind]
    X, _ = truth.sample(20, 15, random_state=0)
    model = {"symbols": CategoricalHMM, "normal": GaussianHMM, "counts": PoissonHMM}[kind]
    one, two = (fitted(model(3, random_state=0, max_iter=5, n_jobs=n), X) for n in (1, 3))
    assert_array_equal(one.transmat_, two.transmat_)
    assert_array_equal(np.concatenate(one.predict_proba(X)), np.concatenate(two.predict_proba(X)))


def test_names_are_kept():
    model = CategoricalHMM(state_names=["vowel", "consonant"], random_state=0).fit(list("banana"))
    assert model.symbols_.tolist() == ["a", "b", "n"]
    assert set(model.predict(list("banana"))) <= {"vowel", "consonant"}
    assert model.predict_next(list("banana")).columns == ("a", "b", "n")
    assert "vowel" in str(model.diagram())


def test_a_missing_symbol_says_nothing():
    assert ICE.log_likelihood([3, None, None]) == pytest.approx(ICE.log_likelihood([3]))
    assert_allclose(ICE.predict_proba([None]), [START])


def test_smoothing_gives_symbols_that_training_did_not_show_a_chance():
    model = CategoricalHMM(symbols=[1, 2, 3], smoothing=0.5).fit([1, 1, 2], states=["H", "H", "C"])
    assert np.isfinite(model.log_likelihood([3]))
    none = CategoricalHMM(symbols=[1, 2, 3]).fit([1, 1, 2, 1], states=["H", "H", "C", "H"])
    assert none.log_likelihood([3]) == -np.inf
    with pytest.raises(DataError, match="probability zero"):
        none.predict([3])


# Degenerate and bad input.


def test_sequences_of_one_step_leave_transitions_as_they_were():
    with pytest.warns(AssayWarning, match="no sequence goes on from states 0, 1"):
        model = CategoricalHMM(random_state=0).fit([["a"], ["b"], ["a"]])
    assert_allclose(model.transmat_, 0.5)
    model = fitted(GaussianHMM(2, random_state=0), [[[0.0]], [[1.0]], [[5.0]], [[6.0]]])
    assert np.isfinite(model.means_).all()
    assert model.predict([[0.5]]).shape == (1,)


def test_more_states_than_the_data_need_leave_no_nan_and_no_row_of_zeros():
    X = np.tile([[0.0], [10.0]], (30, 1)) + 1e-3 * np.random.default_rng(0).normal(size=(60, 1))
    for model in (GaussianHMM(5, random_state=0), PoissonHMM(5, random_state=0)):
        fitted(model, np.abs(X))
        assert np.isfinite(model.transmat_).all()
        assert_allclose(model.transmat_.sum(axis=1), 1.0)
        assert np.isfinite(model.predict_proba(np.abs(X))).all()


def test_a_singular_covariance_is_held_and_said():
    X = np.random.default_rng(0).normal(size=(50, 1)) * [[1.0, 2.0]]
    words = r"states 0, 1 collapsed onto rows that do not vary in every direction: variances are held at reg_covar"
    with pytest.warns(AssayWarning, match=words) as caught:
        model = GaussianHMM(2, random_state=0).fit(X)
    assert caught[0].filename == __file__
    assert np.isfinite(model.score(X))


def test_a_state_that_explains_nothing_is_named():
    X = np.random.default_rng(0).normal(size=(60, 1))
    given = {"startprob_init": [1.0, 0.0], "transmat_init": [[1.0, 0.0], [0.5, 0.5]], "means_init": [[0.0], [50.0]]}
    with pytest.warns(AssayWarning, match="state 1 explained no step of the training sequences") as caught:
        model = GaussianHMM(2, random_state=0, **given).fit(X)
    assert caught[0].filename == __file__
    assert model.means_[1, 0] == pytest.approx(50.0)
    with pytest.warns(AssayWarning, match="state 'C' explained no step"):
        CategoricalHMM(state_names="HC").fit([3, 1, 3], states="HHH")
    CategoricalHMM(state_names="HC", smoothing=1.0).fit([3, 1, 3], states="HHH")  # on purpose


def test_a_known_state_that_is_never_left_is_named():
    """Its row of the transition matrix is uniform, which no sequence says."""
    with pytest.warns(AssayWarning, match="no sequence goes on from state 'C'") as caught:
        model = CategoricalHMM().fit([[3, 1], [2, 2, 1]], states=[list("HC"), list("HHC")])
    assert caught[0].filename == __file__
    assert_allclose(model.transmat_, [[0.5, 0.5], [2 / 3, 1 / 3]])
    CategoricalHMM(smoothing=0.5).fit([[3, 1], [2, 2, 1]], states=[list("HC"), list("HHC")])
    CategoricalHMM(transmat_init=[[0.5, 0.5], [0.5, 0.5]]).fit([[3, 1], [2, 2, 1]], states=[list("HC"), list("HHC")])


@pytest.mark.parametrize(
    ("model", "X", "fails"),
    [
        (CategoricalHMM(2, random_state=0), [1, 2, 1, 1, 2, 3], lambda m: m.set_params(startprob_init=[1.0]).fit("ab")),
        (GaussianHMM(2, random_state=0), np.arange(8.0)[:, None] ** 2, lambda m: m.fit(np.full((5, 2), np.nan))),
        (
            GaussianHMM(2, random_state=0),
            np.arange(8.0)[:, None] ** 2,
            lambda m: m.set_params(means_init=[[0.0]] * 2, startprob_init=[0.5, 0.4]).fit(np.ones((5, 1))),
        ),
    ],
)
def test_a_fit_that_fails_leaves_the_one_before(model, X, fails):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssayWarning)
        model.fit(X)
    before = {name: value for name, value in vars(model).items() if name.endswith("_") or name.startswith("_")}
    score = model.score(X)
    with pytest.raises(AssayError):
        fails(model)
    after = vars(model)
    assert all(after[name] is value for name, value in before.items())
    model.set_params(startprob_init=None)
    assert model.score(X) == score


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ICE.predict([3, 4]), "symbol 4 at position 1 is unknown"),
        (lambda: ICE.predict([[3], [1, 9]]), "symbol 9 at position 1 of sequence 1"),
        (lambda: ICE.log_joint([3, 1], "H"), "states has 1 entries"),
        (lambda: ICE.log_joint([3, 1], "HX"), "state 'X' at position 1"),
        (lambda: ICE.log_joint([3, 1], ["H", None]), "state at position 1 is missing"),
        (lambda: CategoricalHMM().fit([]), "empty"),
        (lambda: CategoricalHMM().fit([[1], []]), "sequence 1 of X is empty"),
        (lambda: CategoricalHMM().fit([None]), "every symbol of X is missing"),
        (lambda: CategoricalHMM(symbols=[1]).fit([1, 2]), "symbol 2 at position 1"),
        (lambda: CategoricalHMM(2).fit([1, 2, 3], states=list("abc")), "3 states are named"),
        (lambda: CategoricalHMM(3, state_names="ab").fit([1, 2, 3]), "2 states are named"),
        (lambda: CategoricalHMM(state_names="aa").fit([1, 2, 3]), "distinct names"),
        (lambda: CategoricalHMM(transmat_init=[[1, 0], [0.5, 0.4]]).fit([1, 2]), "row 1 of transmat_init sums"),
        (lambda: CategoricalHMM(2, emissionprob_init=[[1.0], [1.0]]).fit([1, 2]), "emissionprob_init"),
        (lambda: CategoricalHMM(params="x").fit([1, 2]), "letters"),
        (lambda: CategoricalHMM(transmat_init=np.eye(2), emissionprob_init=np.eye(2)).fit([1, 2]), "sequence 0 has"),
        (lambda: CategoricalHMM(transmat_init=np.eye(2)).fit([1, 2], states=[0, 1]), "known states probability zero"),
        (lambda: GaussianHMM().fit(np.zeros((3, 1)), lengths=[2, 2]), "sum to 4, but there are 3"),
        (lambda: GaussianHMM().fit([np.zeros((3, 1)), np.zeros((3, 2))]), "sequence 1 has 2 columns"),
        (lambda: GaussianHMM().fit([np.zeros((3, 1)), np.zeros((0, 1))]), "sequence 1 of X is empty"),
        (lambda: GaussianHMM().fit([[1.0, np.nan], [2.0, np.nan]]), "has no value in any row"),
        (lambda: PoissonHMM().fit([[1.0], [-2.0]]), "column 0 contains -2 in row 1"),
        (lambda: PoissonHMM(rates_init=[[0.0], [1.0]]).fit([[1.0], [2.0]]), "positive"),
        (lambda: GaussianHMM.from_parameters([1.0], [[1.0]], [[0.0]], [[[0.0]]]), "positive definite"),
        (lambda: GaussianHMM(means_init=[[0.0], [1.0]]).select(np.zeros((5, 1))), "leave them out"),
        (lambda: GaussianHMM().predict([[1.0]]), "not fitted"),
        (lambda: NORMAL.partial_fit(np.zeros((3, 2)), forgetting=0.2), "(0.5, 1]"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises((AssayError, ValueError, AttributeError)) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_parameter_error_says_what_to_do():
    with pytest.raises(ParameterError) as caught:
        CategoricalHMM(2).fit([1, 2, 3], states=list("abc"))
    assert caught.value.remedy


def test_states_and_symbols_of_one_name_are_told_apart_in_the_next_step():
    model = CategoricalHMM.from_parameters([0.5, 0.5], np.eye(2), [[0.9, 0.1], [0.2, 0.8]])
    frame = model.predict_next([0, 0]).to_frame()
    assert frame.columns.tolist() == ["P(state 0)", "P(state 1)", "P(symbol 0)", "P(symbol 1)"]


@pytest.mark.parametrize("counts", [
    5, sum([]), PoissonHMM.from_parameters([1, 0], np.eye(2), [[1.0], [2.0]]).summarize([[1.0]]),
    GaussianHMM.from_parameters([1.0], [[1.0]], [[0.0]], [[[1.0]]]).summarize([[1.0]]),
    GaussianHMM.from_parameters([1, 0], np.eye(2), np.eye(2), [np.eye(2)] * 2).summarize([[1.0, 2.0]]),
])  # fmt: skip
def test_an_update_by_the_counts_of_another_model_is_refused(counts):
    model = GaussianHMM.from_parameters([1, 0], np.eye(2), [[0.0], [1.0]], [[[1.0]]] * 2)
    with pytest.raises(DataError, match="pass the output of summarize of this model"):
        model.update(counts)


@pytest.mark.parametrize("change", [{"n_components": 3}, {"covariance_type": "diag"}])
def test_batches_do_not_go_on_from_a_model_of_another_kind(change):
    X = np.random.default_rng(0).normal(size=(30, 1))
    model = GaussianHMM(2, random_state=0).fit(X).set_params(**change)
    last = "the last fit had 2 states, covariance_type = 'full'; start from a new model"
    with pytest.raises(ParameterError, match=last):
        model.partial_fit(X)


def test_given_emissions_keep_their_columns_where_a_symbol_does_not_occur():
    B = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]
    for X in ([0, 2, 2, 0], [0.0, np.nan, 2.0]):  # no 1 in it
        model = CategoricalHMM.from_parameters([0.5, 0.5], STAY, B, max_iter=20, tol=1e-3).fit(X)
        assert model.symbols_.tolist() == [0, 1, 2]
        assert model.emissionprob_.shape == (2, 3)
        assert_allclose(model.emissionprob_[:, 1], 0.0)
    model = CategoricalHMM.from_parameters([0.5, 0.5], STAY, B, tol=1e-3).fit(list("abca"))
    assert model.symbols_.tolist() == ["a", "b", "c"]
    with pytest.raises(ParameterError, match="3 columns, but 2 symbols occur: 'a', 'b'; name the symbol of each"):
        CategoricalHMM.from_parameters([0.5, 0.5], STAY, B).fit(list("ab"))


def test_sequences_of_other_packages_are_sequences():
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(30, 2)), rng.normal(size=(20, 2))]
    model = GaussianHMM(1).fit([pl.DataFrame(part, schema=["a", "b"]) for part in rows])
    assert_allclose(model.means_, GaussianHMM(1).fit(rows).means_)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert GaussianHMM(1).fit([pl.Series(part[:, 0]) for part in rows]).n_features_in_ == 1  # no table of two rows
    codes = [pl.Series([0, 1, 0]), pl.Series([1])]
    assert [len(path) for path in CategoricalHMM(1).fit(codes).predict(codes)] == [3, 1]


def test_symbols_beyond_the_digits_of_a_float_stay_apart():
    many = [2**63 + 1, 2**63 + 2, 2**63 + 1]
    assert MarkovChain(smoothing=1.0).fit(many).states_.tolist() == [2**63 + 1, 2**63 + 2]
    assert MarkovChain(smoothing=1.0).fit([2**53 + 1, 2**53, 1.5]).states_.size == 3
