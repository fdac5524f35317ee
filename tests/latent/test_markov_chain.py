"""Markov chains: the notes' example, counting, stationary laws, intervals, simulation, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from assay.errors import AssayWarning, DataError, ParameterError
from assay.latent import MarkovChain
from tests.naive.latent_hmm import chain_probability

WEATHER = MarkovChain.from_parameters([0.8, 0.2], [[0.6, 0.4], [0.5, 0.5]], state_names=["H", "C"])


def test_the_notes_example():
    assert WEATHER.probability("HHC") == pytest.approx(0.192)
    assert_allclose(WEATHER.probability([list("HHC"), ["C"]]), [0.192, 0.2])


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 6))
def test_probabilities_are_products(seed, K, T):
    rng = np.random.default_rng(seed)
    start, A = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=K)
    q = rng.integers(K, size=T)
    chain = MarkovChain.from_parameters(start, A)
    assert chain.probability(q) == pytest.approx(chain_probability(q, start, A))
    assert chain.score(q) == pytest.approx(np.log(chain_probability(q, start, A)))


def test_counting_divides_first_states_by_sequences_and_pairs_by_departures():
    chain = MarkovChain().fit([list("aab"), list("ba"), list("bbb")])
    assert chain.states_.tolist() == ["a", "b"]
    assert_allclose(chain.startprob_, [1 / 3, 2 / 3])
    assert_allclose(chain.transition_counts_, [[1, 1], [1, 2]])
    assert_allclose(chain.transmat_, [[1 / 2, 1 / 2], [1 / 3, 2 / 3]])
    smooth = MarkovChain(smoothing=1.0).fit([list("aab"), list("ba"), list("bbb")])
    assert_allclose(smooth.startprob_, [2 / 5, 3 / 5])
    assert_allclose(smooth.transmat_, [[2 / 4, 2 / 4], [2 / 5, 3 / 5]])


def test_every_way_to_pass_sequences_gives_the_same():
    listed = MarkovChain().fit([[3, 1, 1], [1, 3, 3, 1]])
    flat = np.array([3, 1, 1, 1, 3, 3, 1])
    ways = [flat, flat[:, None], flat.tolist(), pd.Series(flat), pd.DataFrame({"s": flat}), flat.astype(float)]
    for way in ways:
        same = MarkovChain().fit(way, lengths=[3, 4])
        assert_array_equal(same.transition_counts_, listed.transition_counts_)
        assert_array_equal(same.start_counts_, listed.start_counts_)
        assert same.states_.tolist() == [1, 3]


def test_parts_add_up_to_the_whole():
    rng = np.random.default_rng(0)
    sequences = [rng.integers(3, size=n) for n in (5, 1, 8, 2)]
    whole = MarkovChain(0.5).fit([*sequences, [0, 1, 2]])
    parts = MarkovChain(0.5, state_names=[0, 1, 2])
    for one in (*sequences, [0, 1, 2]):
        parts.partial_fit([one])
    assert_allclose(parts.transmat_, whole.transmat_)
    assert_allclose(parts.startprob_, whole.startprob_)


def test_a_missing_state_is_in_no_pair():
    chain = MarkovChain(smoothing=1.0).fit([["a", None, "b", "b"], [np.nan, "a"]])
    assert_allclose(chain.start_counts_, [1, 0])
    assert_allclose(chain.transition_counts_, [[0, 0], [0, 1]])


def test_a_state_that_nobody_leaves_keeps_a_proper_row():
    with pytest.warns(AssayWarning, match="no sequence continues after 'end'"):
        chain = MarkovChain().fit([["a", "a", "end"], ["a", "end"]])
    assert_allclose(chain.transmat_.sum(axis=1), 1.0)


def test_n_steps_ahead():
    A = WEATHER.transmat_
    assert_allclose(WEATHER.distribution(0), [0.8, 0.2])
    assert_allclose(WEATHER.distribution(2), [0.8, 0.2] @ A @ A)
    assert_allclose(WEATHER.distribution(3, "C"), np.linalg.matrix_power(A, 3)[1])
    assert_allclose(WEATHER.predict_proba("CH", steps=2), (A @ A)[:1])
    assert WEATHER.predict(["H", "C", "H"]).tolist() == ["H"]


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_stationary_laws_stay(seed, K):
    rng = np.random.default_rng(seed)
    A = rng.exponential(size=(K, K)) * (rng.random((K, K)) < 0.4)
    A[np.arange(K), rng.integers(K, size=K)] += 0.1
    A /= A.sum(axis=1, keepdims=True)
    found = MarkovChain.from_parameters(np.full(K, 1 / K), A).stationary()
    assert_allclose(found.laws @ A, found.laws, atol=1e-12)
    assert_allclose(found.laws.sum(axis=1), 1.0)
    # As many as eigenvalues one: the dimension of the solutions of pi (A - I) = 0.
    assert len(found.laws) == K - np.linalg.matrix_rank(A - np.eye(K), tol=1e-9)
    assert not found.laws[:, found.transient].any()


def test_reducible_and_periodic_chains_are_told():
    A = [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0.25, 0.75, 0], [0.5, 0, 0.5, 0, 0]]
    found = MarkovChain.from_parameters(np.full(5, 0.2), A, state_names=list("abcde")).stationary()
    assert_allclose(found.laws, [[0.5, 0.5, 0, 0, 0], [0, 0, 1 / 3, 2 / 3, 0]])
    assert found.periods == (2, 1)
    assert not found.unique
    assert "transient: e" in str(found)
    with pytest.raises(AttributeError, match="2 closed classes"):
        _ = found.law


def test_intervals_are_those_of_proportions():
    chain = MarkovChain().fit("HHHCHHCCHHHHCCCHHH")
    table = chain.intervals().to_frame()
    n = chain.transition_counts_
    low, high = stats.binomtest(int(n[1, 1]), int(n[1].sum())).proportion_ci(method="exact")
    row = table[(table["from"] == "H") & (table["to"] == "H")].iloc[0]
    assert_allclose([row["lower"], row["upper"]], [low, high])
    assert row["std_error"] == pytest.approx(np.sqrt(row["estimate"] * (1 - row["estimate"]) / row["n"]))
    assert "Wilson" in str(chain.intervals(method="wilson"))


def test_independence_is_the_likelihood_ratio_test_of_the_table():
    chain = MarkovChain().fit("HHHCHHCCHHHHCCCHHHCHCHHC")
    found = chain.independence_test()
    G, p, df, _ = stats.chi2_contingency(chain.transition_counts_, correction=False, lambda_="log-likelihood")
    assert_allclose([found.statistic, found.p_value, found.df], [G, p, df])


def test_the_test_of_independence_keeps_its_level():
    # 400 chains of 300 independent states: at level 5% between 5 and 40 rejections (false alarm below 1e-5).
    rng = np.random.default_rng(0)
    rejected = sum(
        MarkovChain().fit(rng.choice(3, 300, p=[0.5, 0.3, 0.2])).independence_test().p_value < 0.05 for _ in range(400)
    )
    assert 5 <= rejected <= 40


def test_simulation_has_the_law_of_the_chain():
    draws = WEATHER.sample(2, 40_000, random_state=0)
    first = np.array([one[0] == "H" for one in draws])
    both = np.array([one[0] == "H" and one[1] == "H" for one in draws])
    # Five standard errors of 40,000 draws.
    assert abs(first.mean() - 0.8) < 5 * np.sqrt(0.16 / 40_000)
    assert abs(both.mean() - 0.48) < 5 * np.sqrt(0.25 / 40_000)
    assert_array_equal(WEATHER.sample(50, random_state=1), WEATHER.sample(50, random_state=1))
    long = MarkovChain().fit(WEATHER.sample(50_000, random_state=2))
    assert_allclose(long.transmat_, WEATHER.transmat_[::-1, ::-1], atol=0.02)


def test_a_state_of_probability_zero_is_never_drawn():
    chain = MarkovChain.from_parameters([0.0, 1.0, 0.0], [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
    path = chain.sample(10_000, random_state=0)
    assert path[0] == 1
    assert (chain.transmat_[path[:-1], path[1:]] > 0).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: MarkovChain().fit([]), "empty"),
        (lambda: MarkovChain().fit([["a"], []]), "sequence 1 of X is empty"),
        (lambda: MarkovChain().fit(None), "X is missing"),
        (lambda: MarkovChain().fit([["a"], "b"]), "entry 1 is 'b'"),
        (lambda: MarkovChain().fit([[["a"]], ["b"]]), "list at position 0"),
        (lambda: MarkovChain().fit(np.zeros((3, 2))), "(3, 2)"),
        (lambda: MarkovChain().fit("abc", lengths=[2, 2]), "sum to 4, but there are 3"),
        (lambda: MarkovChain().fit("abc", lengths=[3, 0]), "lengths[1] = 0"),
        (lambda: MarkovChain().fit("abc", lengths=[1.5, 1.5]), "whole numbers"),
        (lambda: MarkovChain().fit([["a"]], lengths=[1]), "leave lengths out"),
        (lambda: MarkovChain().fit([None, None]), "every state of X is missing"),
        (lambda: MarkovChain(state_names=["a"]).fit("ab"), "'b' at position 1"),
        (lambda: WEATHER.probability("HX"), "'X' at position 1"),
        (lambda: WEATHER.probability([list("HC"), list("HX")]), "position 1 of sequence 1"),
        (lambda: WEATHER.probability(["H", None]), "position 1 is missing"),
        (lambda: WEATHER.intervals(), "no transition was counted"),
        (lambda: WEATHER.distribution(-1), "steps"),
        (lambda: MarkovChain().fit([["a"], ["b"]]).independence_test(), "nothing to test"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises((DataError, ParameterError, TypeError, ValueError)) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("start", "A", "words"),
    [
        ([0.5, 0.4], np.eye(2), "startprob sums to 0.9"),
        ([0.5, 0.5], [[1, 0], [0.5, 0.4]], "row 1 of transmat sums to 0.9"),
        ([0.5, 0.5], np.eye(3), "(3, 3), expected (2, 2)"),
        ([1.5, -0.5], np.eye(2), "startprob[0] = 1.5, which is not a probability"),
        ([0.5, "x"], np.eye(2), "non-numeric value"),
    ],
)
def test_parameters_that_are_no_laws_are_refused(start, A, words):
    with pytest.raises(ParameterError) as caught:
        MarkovChain.from_parameters(start, A)
    assert words in str(caught.value)


def test_intervals_cover_at_their_level():
    # 300 chains of 60 steps, four probabilities each; exact limits at 95% cover at least that. Even if the four counted
    # as one trial, less than 90% would have a chance of about 1e-4.
    covered = []
    for seed in range(300):
        table = MarkovChain().fit(WEATHER.sample(60, random_state=seed)).intervals().to_frame()
        truth = [
            WEATHER.transmat_["HC".index(a), "HC".index(b)] for a, b in zip(table["from"], table["to"], strict=True)
        ]
        covered += list((table["lower"] <= truth) & (truth <= table["upper"]))
    assert np.mean(covered) > 0.90


@pytest.mark.parametrize(
    ("low", "high", "dtype"), [(-100, 100, np.int8), (0, 255, np.uint8), (2**63 + 1, 2**63 + 7, np.uint64)]
)
def test_narrow_and_wide_integers_are_states_like_others(low, high, dtype):
    chain = MarkovChain(smoothing=1.0).fit(np.array([low, high, low, low], dtype=dtype))
    assert chain.states_.tolist() == [low, high]
    assert chain.transition_counts_.tolist() == [[1, 1], [1, 0]]
    assert chain.predict(np.array([high, low], dtype=dtype)).tolist() == [low]


def test_unsigned_states_among_negative_names():
    chain = MarkovChain(1.0, state_names=[-1, 0, 1]).fit(np.array([0, 1, 1], dtype=np.uint8))
    assert chain.transition_counts_.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 1]]


def test_a_flat_list_of_texts_is_told_how_to_be_several_sequences():
    chain = MarkovChain.from_parameters([0.8, 0.2], [[0.6, 0.4], [0.5, 0.5]], state_names=["H", "C"])
    with pytest.raises(DataError, match=r"'HHC' at position 0 is unknown.*pass \[list\(text\) for text in X\]"):
        chain.probability(["HHC", "CCC"])
    assert_allclose(chain.probability([list("HHC"), list("CCC")]), [0.192, 0.05])
