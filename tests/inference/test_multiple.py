"""Corrections for many tests: definition, peers, ties, error rates, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from assay.errors import DataError, ParameterError
from assay.inference import _many, adjust_pvalues, family_wise_error_rate
from assay.inference.multiple import FEW, _by_definition
from tests.naive.inference import adjusted_p_by_definition

PEERS = {
    "holm": "holm",
    "bonferroni": "bonferroni",
    "sidak": "sidak",
    "hochberg": "simes-hochberg",
    "bh": "fdr_bh",
    "by": "fdr_by",
}


def data_sets():
    rng = np.random.default_rng(0)
    mixed = np.concatenate([rng.random(3000), stats.norm.sf(rng.normal(3, 1, 1000))])
    yield "mixed", rng.permutation(mixed)
    yield "null", rng.random(2000)
    yield "all signal", rng.random(500) * 1e-8
    yield "ties", rng.integers(1, 50, 4000) / 1000
    yield "round", np.round(rng.random(1000), 2)
    yield "tiny", rng.random(3000) * 10.0 ** rng.integers(-300, -10, 3000)
    yield "ends", np.array([0.0, 1.0, 0.0, 1.0, 0.5])
    yield "near ties", 0.25 + rng.integers(0, 40, 3000) * 2.0**-54
    yield "subnormal", rng.integers(0, 100, 500) * 5e-324
    yield "one", np.array([0.03])
    yield "equal", np.full(300, 0.01)


@pytest.mark.parametrize("method", list(PEERS))
def test_agrees_with_statsmodels(method):
    for name, p in data_sets():
        ours = adjust_pvalues(p, method=method)
        with np.errstate(divide="ignore"):
            rejected, adjusted, *_ = multipletests(p, method=PEERS[method])
        np.testing.assert_allclose(ours.adjusted, adjusted, rtol=1e-12, atol=1e-300, err_msg=name)
        clear = np.abs(adjusted - 0.05) > 1e-12
        np.testing.assert_array_equal(ours.rejected[clear], rejected[clear], err_msg=name)
        np.testing.assert_array_equal(ours.rejected, ours.adjusted <= 0.05)


@pytest.mark.parametrize("method", ["holm", "hochberg", "bh", "by"])
def test_the_quick_road_is_the_plain_one_to_the_bit(method):
    for name, p in data_sets():
        np.testing.assert_array_equal(_many.adjusted(p, method, 1.5), _by_definition(p, method, 1.5), err_msg=name)
    p = np.tile(np.concatenate([p for _, p in data_sets()]), 2)
    assert p.size > FEW
    expected = multipletests(p, method=PEERS[method])[1]
    np.testing.assert_allclose(adjust_pvalues(p, method=method).adjusted, expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("method", list(PEERS))
@given(p=st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.05, 0.5, 1.0])), min_size=1, max_size=60))
def test_agrees_with_the_definition(method, p):
    expected = adjusted_p_by_definition(p, method)
    np.testing.assert_allclose(adjust_pvalues(p, method=method).adjusted, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("method", list(PEERS))
def test_order_scale_and_ties(method):
    rng = np.random.default_rng(1)
    p = np.round(rng.random(500) ** 3, 3)
    result = adjust_pvalues(p, method=method)
    shuffle = rng.permutation(500)
    np.testing.assert_array_equal(adjust_pvalues(p[shuffle], method=method).adjusted, result.adjusted[shuffle])
    assert np.all(result.adjusted >= p)
    assert np.all(result.adjusted <= 1)
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(result.adjusted[order]) >= 0)
    for value in np.unique(p):
        assert np.unique(result.adjusted[p == value]).size == 1


def test_published_example():
    """Benjamini and Hochberg (1995), section 3.2: 15 p-values; Bonferroni rejects three, theirs four."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000]
    assert adjust_pvalues(p, method="bonferroni").n_rejected == 3
    assert adjust_pvalues(p, method="hochberg").n_rejected == 3
    bh = adjust_pvalues(p, method="bh")
    assert bh.n_rejected == 4
    assert bh.threshold == 0.0095
    assert bh.estimated_fdp == pytest.approx(15 * 0.0095 / 4)


def test_round_decimals_meet_alpha():
    assert adjust_pvalues([0.03, 0.01, 0.02, 0.9, 0.8], method="bh").rejected.tolist() == [
        True,
        True,
        True,
        False,
        False,
    ]
    exactly = adjust_pvalues([0.025, 0.9], method="bonferroni")
    assert exactly.adjusted[0] == exactly.alpha == 0.05
    assert exactly.rejected.tolist() == [True, False]


def test_holm_keeps_the_running_maximum():
    np.testing.assert_allclose(adjust_pvalues([0.01, 0.011, 0.012]).adjusted, [0.03, 0.03, 0.03])
    np.testing.assert_allclose(adjust_pvalues([0.04, 0.045, 0.046], method="hochberg").adjusted, [0.046] * 3)


def test_family_wise_error_rate():
    assert family_wise_error_rate(0.05, 1) == pytest.approx(0.05, rel=1e-14)
    assert family_wise_error_rate(0.05, 20) == pytest.approx(1 - 0.95**20, rel=1e-14)
    assert family_wise_error_rate(1e-20, 5) == pytest.approx(5e-20, rel=1e-14)
    assert family_wise_error_rate(0.05, 10, independent=False) == 0.5
    assert family_wise_error_rate(1.0, 3) == 1.0
    assert family_wise_error_rate(1.0, 0) == 0.0
    np.testing.assert_allclose(family_wise_error_rate(0.05, [1, 100]), 1 - 0.95 ** np.array([1, 100]))
    for bad in ((1.5, 2), (0.05, -1), (0.05, 2.5), (np.nan, 1), (0.05, np.inf)):
        with pytest.raises(DataError):
            family_wise_error_rate(*bad)


@pytest.mark.parametrize("method", ["bonferroni", "sidak", "holm", "hochberg"])
def test_family_wise_error_is_held(method):
    """2,000 families of 20 true nulls; false alarm 1e-6."""
    p = np.random.default_rng(2).random((2000, 20))
    errors = sum(adjust_pvalues(row, method=method).n_rejected > 0 for row in p)
    assert errors <= stats.binom.isf(1e-6, 2000, 0.05)


def test_false_discovery_rate_is_held():
    """1,000 families, 30 of 40 null: E(FDP) = alpha m0 / m = .0375 under independence; six standard errors, 1e-9."""
    rng = np.random.default_rng(3)
    share = []
    for _ in range(1000):
        p = np.concatenate([rng.random(30), stats.norm.sf(rng.normal(3, 1, 10))])
        rejected = adjust_pvalues(p, method="bh").rejected
        share.append(rejected[:30].sum() / max(1, rejected.sum()))
    assert abs(np.mean(share) - 0.0375) < 6 * np.std(share) / np.sqrt(1000)


@pytest.mark.parametrize(
    ("p", "words"),
    [
        ([0.1, np.nan, 0.2], "NaN in position 1"),
        (np.array([0.1, np.nan]), "NaN in position 1"),
        ([0.1, 1.5], "1.5, outside"),
        (np.array([0.1, 0.2, -0.1]), "position 2"),
        ([np.inf], "position 0"),
        ([], "empty"),
        (np.array([]), "empty"),
        ([[0.1, 0.2]], "table of 2 columns"),
        (0.1, "a single number"),
    ],
)
def test_bad_p_values(p, words):
    with pytest.raises(DataError, match=words):
        adjust_pvalues(p)


def test_bad_parameters():
    for call in (
        lambda: adjust_pvalues([0.1], method="fdr"),
        lambda: adjust_pvalues([0.1], alpha=0),
        lambda: adjust_pvalues([0.1], alpha="x"),
    ):
        with pytest.raises(ParameterError):
            call()


def test_input_is_left_alone_and_may_be_of_any_kind():
    p = np.random.default_rng(4).random(200)
    keep = p.copy()
    expected = adjust_pvalues(p, method="bh").adjusted
    p.flags.writeable = False
    strided = np.repeat(p, 2)[::2]
    for form in (p, strided, p.tolist(), p.astype(object), pd.Series(p)):
        np.testing.assert_array_equal(adjust_pvalues(form, method="bh").adjusted, expected)
    np.testing.assert_array_equal(p, keep)
    assert adjust_pvalues([0, 1, 1]).adjusted.tolist() == [0.0, 1.0, 1.0]
    assert adjust_pvalues(np.array([-0.0, 0.5])).adjusted[0] == 0.0


def test_result_prints_pickles_and_tabulates():
    result = adjust_pvalues(pd.Series([0.001, 0.2, 0.03], index=["a", "b", "c"]), method="bh")
    assert list(result.to_frame().index) == ["a", "b", "c"]
    assert "false discovery rate at 0.05" in str(result)
    assert "<table" in result._repr_html_()
    copy = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(copy.adjusted, result.adjusted)
    nothing = adjust_pvalues([0.5, 0.6])
    assert (nothing.n_rejected, nothing.threshold, nothing.estimated_fdp) == (0, 0.0, 0.0)
    with pytest.raises(ValueError, match="read-only"):
        result.adjusted[0] = 0.0
