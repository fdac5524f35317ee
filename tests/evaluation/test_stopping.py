"""Stopping learners that cannot win: against a slow version, and what must never be stopped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from assay.errors import DataError
from assay.evaluation.stopping import settle


def naive_behind(one, leader, groups=None):
    """The rule of the module, row by row."""
    d = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(one, leader, strict=True)]
    if groups is None:
        units = d
    else:
        units = [
            [sum(v for v, h in zip(gap, g, strict=True) if h == name) for name in sorted(set(g))]
            for gap, g in zip(d, groups, strict=True)
        ]
    flat = [v for part in units for v in part]
    rows = [v for part in d for v in part]
    least = np.mean([v for part in leader for v in part])
    means = [np.mean(part) for part in d]
    m = len(flat)
    return (
        m >= 20
        and np.mean(rows) > 0.05 * abs(least)
        and all(sum(sorted(part)[:-1]) > 0 if max(part) > 0 else sum(part) > 0 for part in units)
        and np.mean(means) > 3 * np.std(means, ddof=1) / np.sqrt(3)
        and np.mean(flat) > stats.t.ppf(0.999, m - 1) * np.std(flat, ddof=1) / np.sqrt(m)
    )


def panel(seed, n=40, shift=(0.0, 0.05, 0.4, 1.5)):
    rng = np.random.default_rng(seed)
    return {f"l{j}": [rng.normal(size=n) ** 2 + s for _ in range(3)] for j, s in enumerate(shift)}


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=40)
def test_as_the_slow_version(seed, grouped):
    losses = panel(seed)
    groups = [np.arange(40) // 2 for _ in range(3)] if grouped else None
    stopped, needed = settle(losses, 10, groups)
    leader = min(losses, key=lambda name: np.mean(np.concatenate(losses[name])))
    assert {name for name in losses if naive_behind(losses[name], losses[leader], groups) and name != leader} == set(
        stopped
    )
    assert needed == [name for name in losses if name not in stopped]
    assert all(one.leader == leader for one in stopped.values())


def test_a_leader_that_only_began_well_takes_no_other_with_it():
    rng = np.random.default_rng(0)
    good = [rng.normal(size=50) ** 2 + 1 for _ in range(10)]
    other = [x + 0.01 for x in good]
    star = [x - 0.9 for x in good[:3]] + [x + 9.0 for x in good[3:]]
    stopped, needed = settle({"star": star[:3], "good": good[:3], "other": other[:3]}, 10)
    assert set(stopped) == {"good", "other"}
    assert needed == ["star"]
    stopped, needed = settle({"star": star, "good": good[:3], "other": other[:3]}, 10)
    assert stopped == {}
    assert needed == ["good", "other"]


def test_one_bad_fold_or_row_stops_nobody():
    rng = np.random.default_rng(1)
    good = [rng.normal(size=50) ** 2 for _ in range(3)]
    fold = [good[0] + 30.0, good[1], good[2]]
    row = [x + np.eye(50)[0] * 400.0 for x in good]
    assert settle({"good": good, "fold": fold, "row": row}, 5)[0] == {}


def test_few_rows_small_gaps_and_spared_learners_are_never_stopped():
    losses = panel(3, n=6, shift=(0.0, 5.0))
    assert settle(losses, 10)[0] == {}
    flat = {"a": [np.full(50, 1.0)] * 3, "b": [np.full(50, 1.04)] * 3, "c": [np.full(50, 1.06)] * 3}
    assert set(settle(flat, 10)[0]) == {"c"}
    assert settle(flat, 10, spared=["c"])[0] == {}


def test_other_rows_and_nothing_at_all_are_refused():
    with pytest.raises(DataError, match="same first 3 folds"):
        settle({"a": [np.ones(3)] * 3, "b": [np.ones(4)] * 3}, 10)
    with pytest.raises(DataError, match="same first 3 folds"):
        settle({"a": [np.ones(3)] * 2}, 10)
    with pytest.raises(DataError, match="no losses"):
        settle({}, 10)
