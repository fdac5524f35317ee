"""Type-I error of the tests that compare two learners, and of those that judge one learner, on learners really fitted.

The null is exact: two nearest-centroid rules, each on its own p features, where all features have the same
distribution given the class, so that both have the same expected error whatever the training set. Centroids are sums,
so thousands of data sets are fitted at once; training sets overlap as cross-validation makes them overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import special, stats

from assay.errors import DataError
from assay.inference import (
    binomial_test,
    bootstrap,
    corrected_t_test,
    cv_t_test,
    five_by_two_test,
    mcnemar_test,
    proportion_interval,
    t_test,
)
from assay.numerics.threads import one_blas_thread

__all__ = ["SIMULATIONS", "null_p_values"]

Array = np.ndarray
Splits = list[tuple[Array, Array]]
RUNS = 10_000
N = 300
BATCH = 500
FALSE_ALARM = 1e-6
LEARNERS = {"steady": (2, 0.92), "unsteady": (20, 0.12), "hardly learning": (20, 0.05)}
"""How many features each rule has and how far the class means lie from 0 in each; more features fit less steadily."""
COLUMNS = ["learners", "test", "runs", "level", "rejected", "lower", "upper", "verdict"]


def _verdict(count: int, runs: int, rate: float) -> str:
    low, high = stats.binom.interval(1 - FALSE_ALARM, runs, rate)
    return "conservative" if count < low else "liberal" if count > high else "as claimed"


def _rows(learners: str, p_values: dict[str, Array]) -> Iterator[tuple]:
    """Per test and level: the share rejected, its exact 95% interval and what to call the test."""
    for name, p in p_values.items():
        for level in (0.05, 0.01):
            count = int(np.sum(p <= level))
            limits = proportion_interval(count, p.size)
            verdict = _verdict(count, p.size, level)
            yield learners, name, p.size, level, count / p.size, limits.lower, limits.upper, verdict


# Splits. The rows are independent draws, so one set of splits serves every data set of a batch.


def _shuffled(n: int, rng: np.random.Generator) -> Array:
    """All rows in random order, classes taking turns: any slice of even length holds as many of each."""
    half = n // 2
    return np.stack([2 * rng.permutation(half), 2 * rng.permutation(half) + 1], axis=1).ravel()


def _folds(n: int, k: int, repeats: int, rng: np.random.Generator) -> Splits:
    splits = []
    for _ in range(repeats):
        parts = np.array_split(_shuffled(n, rng), k)
        splits += [(np.concatenate(parts[:i] + parts[i + 1 :]), parts[i]) for i in range(k)]
    return splits


def _random_splits(n: int, n_test: int, count: int, rng: np.random.Generator) -> Splits:
    orders = [_shuffled(n, rng) for _ in range(count)]
    return [(order[n_test:], order[:n_test]) for order in orders]


def _bootstraps(n: int, count: int, rng: np.random.Generator) -> Splits:
    draws = [rng.integers(0, n, n) for _ in range(count)]
    return [(rows, np.setdiff1d(np.arange(n), rows)) for rows in draws]


def _one_out(n: int) -> Splits:
    everything = np.arange(n)
    return [(np.delete(everything, i), everything[i : i + 1]) for i in range(n)]


# Learners.


def _classes(n: int) -> Array:
    return np.where(np.arange(n) % 2 == 1, 1.0, -1.0)


def _tables(n: int, features: int, shift: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """A batch of data sets for each of the two rules, shape (sets, rows, features)."""
    y = _classes(n)[:, None]
    draw = (rng.standard_normal((BATCH, n, features), dtype=np.float32) + np.float32(shift) * y for _ in range(2))
    first, second = (part.astype(np.float32) for part in draw)
    return first, second


def _centroids(X: Array, splits: Splits) -> tuple[Array, Array]:
    """Direction (sets, splits, features) and threshold (sets, splits) of the rule of each training set."""
    y = _classes(X.shape[1])
    means = []
    for label in (1.0, -1.0):
        use = np.stack([np.bincount(train, minlength=y.size) for train, _ in splits]) * (y == label)
        means.append((use / use.sum(axis=1, keepdims=True)).astype(np.float32) @ X)
    direction = means[0] - means[1]
    return direction, np.einsum("dsp,dsp->ds", direction, (means[0] + means[1]) / 2)


def _wrong(X: Array, splits: Splits) -> list[Array]:
    """For each split, which test rows the rule fitted to its training rows gets wrong: (sets, test rows)."""
    positive = _classes(X.shape[1]) > 0
    direction, threshold = _centroids(X, splits)
    # Every rule scores every row in one product, of which the test rows are kept: cheaper than a product per split.
    score = X @ direction.transpose(0, 2, 1)
    score -= threshold[:, None, :]
    wrong = (score > 0) != positive[:, None]
    return [wrong[:, test, s] for s, (_, test) in enumerate(splits)]


def _true_error(X: Array, splits: Splits, shift: float) -> Array:
    """The exact error of each fitted rule: scores of a class are normal around +- shift sum(w)."""
    direction, threshold = (part.astype(float) for part in _centroids(X, splits))
    size, mean = np.linalg.norm(direction, axis=2), shift * direction.sum(axis=2)
    return (special.ndtr((threshold - mean) / size) + special.ndtr((-mean - threshold) / size)) / 2


def _fold_rates(wrong: list[Array]) -> Array:
    """Error rates with one row per split and one column per data set."""
    return np.stack([part.mean(axis=1) for part in wrong])


# Tests of a difference under the null.


def _five_by_two(gaps: Array, statistic: str) -> float:
    """The p-value; 1 where the test refuses to give one, as halvings without any spread make it do."""
    try:
        return float(five_by_two_test(gaps.reshape(5, 2), statistic=statistic).p_value)
    except DataError:
        return 1.0


def null_p_values(features: int, shift: float, runs: int, seed: int) -> dict[str, Array]:
    """P-values of every test on `runs` data sets of 300 rows on which two rules do equally well in expectation."""
    rng = np.random.default_rng(seed)
    found: dict[str, list] = {}
    with one_blas_thread():  # thousands of small products: threads would only wait for each other
        for _ in range(runs // BATCH):
            for name, values in _batch(_tables(N, features, shift, rng), rng).items():
                found.setdefault(name, []).append(values)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _batch(tables: tuple[Array, Array], rng: np.random.Generator) -> dict[str, Array]:
    out: dict[str, Array] = {}
    one_set = _random_splits(N, 100, 1, rng)
    wrong = [_wrong(X, one_set)[0] for X in tables]
    out |= _row_tests(wrong[0], wrong[1], "one test set of 100")
    for name, splits in (
        ("10-fold", _folds(N, 10, 1, rng)),
        ("10 x 10-fold", _folds(N, 10, 10, rng)),
        ("30 random thirds", _random_splits(N, 100, 30, rng)),
        ("50 bootstrap samples", _bootstraps(N, 50, rng)),
    ):
        first, second = (_wrong(X, splits) for X in tables)
        gaps = _fold_rates(first) - _fold_rates(second)
        sizes = {
            "n_train": float(np.mean([np.unique(train).size for train, _ in splits])),
            "n_test": float(np.mean([test.size for _, test in splits])),
        }
        out[f"t over folds, {name}"] = cv_t_test(gaps).p_value
        out[f"corrected t, {name}"] = corrected_t_test(gaps, **sizes).p_value
        if name == "10-fold":
            pooled = _row_tests(np.concatenate(first, axis=1), np.concatenate(second, axis=1), "10-fold, pooled")
            out |= {test: p for test, p in pooled.items() if "exact" in test}
    halves = _folds(N, 2, 5, rng)
    gaps = _fold_rates(_wrong(tables[0], halves)) - _fold_rates(_wrong(tables[1], halves))
    out["5x2cv t"] = np.array([_five_by_two(d, "t") for d in gaps.T])
    out["5x2cv F"] = np.array([_five_by_two(d, "F") for d in gaps.T])
    out["corrected t, 5x2"] = corrected_t_test(gaps, n_train=N / 2, n_test=N / 2).p_value
    alone = _one_out(N)
    first, second = (np.concatenate(_wrong(X, alone), axis=1).astype(float) for X in tables)
    out["paired t over rows, leave-one-out"] = t_test((first - second).T).p_value
    return out


def _row_tests(first: Array, second: Array, words: str) -> dict[str, Array]:
    only_first, only_second = (first & ~second).sum(axis=1), (second & ~first).sum(axis=1)
    counts = list(zip(only_first.tolist(), only_second.tolist(), strict=True))
    n = first.shape[1]
    out = {}
    for name, how in (("exact", {}), ("corrected", {"exact": False}), ("mid-p", {"exact": "mid-p"})):
        out[f"McNemar {name}, {words}"] = np.array([mcnemar_test(b, c, n=n, **how).p_value for b, c in counts])
    out[f"paired t over rows, {words}"] = t_test((first.astype(float) - second).T).p_value
    return out


def type_one_error() -> pd.DataFrame:
    """Two learners of the same expected error (steady .10, unsteady .32, hardly learning .44) on 10,000
    data sets of 300 rows: how often each test calls them different. The t-test that takes folds for independent is
    liberal, a little with ten folds and beyond use with repeats or random splits. The corrected t-test holds its level
    unless learners hardly learn, and is conservative on a single ten folds. In 5x2 the two halves of a halving trade
    places, so their differences move together when learners are unsteady, and both tests turn liberal. Verdicts:
    binomially consistent with the level or not, false alarm one in a million; limits are exact 95% intervals.
    """
    rows = []
    for seed, (name, (features, shift)) in enumerate(LEARNERS.items()):
        rows += _rows(name, null_p_values(features, shift, RUNS, seed))
    return pd.DataFrame(rows, columns=COLUMNS)


# One learner against a stated error.


def assessment() -> pd.DataFrame:
    """One learner whose true error is the stated one, tested against it on both sides; 10,000 data sets of 300 rows.
    One test set: p0 is the exact error of the very rule that was fitted, and the binomial test never rejects too often.
    Ten folds: p0 is the mean error of rules fitted to 270 rows.
    """
    rows = []
    for seed, (name, (features, shift)) in enumerate(LEARNERS.items()):
        rng = np.random.default_rng(100 + seed)
        folds = _folds(N, 10, 1, rng)
        truth = float(np.mean([_true_error(_tables(N, features, shift, rng)[0], folds, shift) for _ in range(8)]))
        found: dict[str, list] = {}
        with one_blas_thread():
            for _ in range(RUNS // BATCH):
                X = _tables(N, features, shift, rng)[0]
                for test, p in _assessed(X, folds, truth, shift, rng).items():
                    found.setdefault(test, []).append(p)
        rows += _rows(name, {test: np.concatenate(parts) for test, parts in found.items()})
    return pd.DataFrame(rows, columns=COLUMNS)


def _assessed(X: Array, folds: Splits, truth: float, shift: float, rng: np.random.Generator) -> dict[str, Array]:
    one_set = _random_splits(N, 100, 1, rng)
    errors, own = _wrong(X, one_set)[0].sum(axis=1), _true_error(X, one_set, shift)[:, 0]
    parts = _wrong(X, folds)
    rates, pooled = _fold_rates(parts), np.concatenate(parts, axis=1).sum(axis=1)
    out = {}
    for side in ("less", "greater"):
        pairs = zip(errors.tolist(), own.tolist(), strict=True)
        exact = np.array([binomial_test(e, 100, p, alternative=side).p_value for e, p in pairs])
        out[f"binomial, one test set of 100, {side}"] = exact
        out[f"binomial, 10-fold pooled, {side}"] = binomial_test(pooled, N, truth, alternative=side).p_value
        out[f"t over folds, 10-fold, {side}"] = cv_t_test(rates, popmean=truth, alternative=side).p_value
        sizes = {"n_train": 270, "n_test": 30}
        out[f"corrected t, 10-fold, {side}"] = corrected_t_test(rates, **sizes, popmean=truth, alternative=side).p_value
    return out


# A figure of all rows at once.


def paired_bootstrap() -> pd.DataFrame:
    """The paired bootstrap of a difference in root mean squared error between two least-squares lines, each on its own
    feature of the same strength, on one test set; 2,000 data sets, 999 resamples each. It nears its level as the test
    set grows.
    """
    rng = np.random.default_rng(200)
    rows = []
    for n_test in (30, 100, 300):
        p = np.array([_bootstrap_p(n_test, rng) for _ in range(2_000)])
        rows += _rows("two lines", {f"paired bootstrap, one test set of {n_test}": p})
    return pd.DataFrame(rows, columns=COLUMNS)


def _bootstrap_p(n_test: int, rng: np.random.Generator) -> float:
    x = rng.standard_normal((200 + n_test, 2))
    y = x.sum(axis=1) + rng.standard_normal(200 + n_test)
    squares = []
    for j in range(2):
        slope, intercept = np.polyfit(x[:200, j], y[:200], 1)
        squares.append((y[200:] - intercept - slope * x[200:, j]) ** 2)

    def gap(a: Array, b: Array, axis: int = -1) -> Array:
        return np.sqrt(a.mean(axis=axis)) - np.sqrt(b.mean(axis=axis))

    drawn = bootstrap(gap, tuple(squares), n_resamples=999, paired=True, method="percentile", random_state=rng)
    below, above = np.sum(drawn.replicates <= 0), np.sum(drawn.replicates >= 0)
    return float(min(1.0, 2 * (1 + min(below, above)) / 1000))


SIMULATIONS: dict[str, Callable[[], pd.DataFrame]] = {
    "Type-I error of comparisons of two learners": type_one_error,
    "Type-I error of one learner against a stated error": assessment,
    "Type-I error of the paired bootstrap": paired_bootstrap,
}
