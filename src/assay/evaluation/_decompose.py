"""An expected loss as noise, bias and variance: predictions in, one contribution per training set and test row out.

Predictions F of shape (B, m): B models, m test rows, known where `tested`. Each component is the mean of its
contributions, and contributions add up row by row and model by model, so the identities hold to rounding.

Squared loss, target t (the truth, or the observed y). Over pairs b != c of models the products are unbiased:

    bias^2   = mean_{b != c} (t - F_b)(t - F_c) = (t - Fbar)^2 - s^2 / B,      variance = s^2 (divisor B - 1),
    bias^2 + variance = mean_b (t - F_b)^2.

The contribution of model b is the projection of the mean over pairs on b, so that its spread over b gives the standard
error of the mean over pairs (Hoeffding). Zero-one loss, main prediction M(x) = the most frequent one, y* the best label
(Domingos): bias = [M != y*]; variance = P(F != M), which costs where M is right ("unbiased") and gains where it is
wrong and F hits y* ("biased"). Kohavi and Wolpert: half the squared loss of indicator vectors.
Geman, Bienenstock & Doursat (1992), Neural Computation 4, 1-58; Domingos (2000), ICML, 231-238;
Kohavi & Wolpert (1996), ICML, 275-283.
"""

from __future__ import annotations

import numpy as np

__all__ = ["indicator_parts", "squared_parts", "vote_parts", "vote_spread"]

Array = np.ndarray
RESAMPLES = 200
"""How often the models are resampled for the spread of a majority, which has no derivative to work with."""
COLUMNS = 4_096
"""Test rows per block when votes are resampled."""


def squared_parts(F: Array, tested: Array, target: Array) -> tuple[Array, Array]:
    """Contributions (B, m) to the squared bias and to the variance; zero where not tested.

    >>> bias2, variance = squared_parts(np.array([[1.0], [3.0]]), np.ones((2, 1), bool), np.array([0.0]))
    >>> float(bias2.mean()), float(variance.mean())  # 1 * 3 and (3 - 1)^2 / 2
    (3.0, 2.0)
    """
    times = tested.sum(axis=0)
    mean = np.where(tested, F, 0.0).sum(axis=0) / times
    step = np.where(tested, mean - F, 0.0)
    # Centred twice: what rounding leaves in the sum of the steps is multiplied by the bias below.
    step = np.where(tested, step - step.sum(axis=0) / times, 0.0)
    centre = target - mean
    spread = (step**2).sum(axis=0) / (times - 1)
    # e - c with e = (t - F)^2 and c = bias2; written out, the large bias cancels on paper instead of in rounding.
    variance = step**2 * (1 + 2 / (times - 1)) + 2 * centre * step / (times - 1) - spread / times
    bias2 = centre**2 + 2 * centre * step * (1 - 1 / (times - 1)) - 2 * step**2 / (times - 1) + spread / times
    return np.where(tested, bias2, 0.0), np.where(tested, variance, 0.0)


def indicator_parts(F: Array, tested: Array, share: Array) -> tuple[Array, Array]:
    """Kohavi and Wolpert's contributions: F holds class numbers, `share` (m, K) the target's probabilities."""
    bias2, variance = np.zeros(F.shape), np.zeros(F.shape)
    for k in range(share.shape[1]):
        b, v = squared_parts(np.equal(F, k).astype(float), tested, share[:, k])
        bias2 += 0.5 * b
        variance += 0.5 * v
    return bias2, variance


def votes(F: Array, tested: Array, classes: int) -> Array:
    """How many models predict each class for each row: (m, K)."""
    return np.stack([((k == F) & tested).sum(axis=0) for k in range(classes)], axis=1)


def vote_parts(F: Array, tested: Array, best: Array, share: Array) -> dict[str, Array]:
    """Domingos' contributions (B, m): F and `best` hold class numbers, `share` (m, K) the target's probabilities.

    total = noise_effect + bias + unbiased_variance - biased_variance. Ties of votes go to the first class.
    """
    rows = np.arange(F.shape[1])
    main = votes(F, tested, share.shape[1]).argmax(axis=1)
    biased = main != best
    total = 1.0 - share[rows, np.where(tested, F, 0)]
    unbiased_variance = np.where(biased, 0.0, main != F)
    biased_variance = np.where(biased, best == F, 0.0)
    wide = np.ones(F.shape)
    parts = {
        "noise": wide * (1.0 - share[rows, best]),
        "noise_effect": total - (best != F),
        "bias": wide * biased,
        "variance": (main != F).astype(float),
        "unbiased_variance": unbiased_variance,
        "biased_variance": biased_variance,
        "net_variance": unbiased_variance - biased_variance,
        "total": total,
    }
    return {name: np.where(tested, part, 0.0) for name, part in parts.items()}


def vote_spread(F: Array, tested: Array, best: Array, share: Array, rng: np.random.Generator) -> dict[str, float]:
    """The variance of each of Domingos' components over training sets, by resampling the models."""
    B, m = F.shape
    weights = rng.multinomial(B, np.full(B, 1.0 / B), size=RESAMPLES).astype(float)
    sums: dict[str, Array] = {}
    for start in range(0, m, COLUMNS):
        block = slice(start, min(start + COLUMNS, m))
        for name, value in _weighted(weights, F[:, block], tested[:, block], best[block], share[block]).items():
            sums[name] = sums.get(name, 0.0) + value / m
    return {name: float(np.var(value, ddof=1)) for name, value in sums.items()}


def _weighted(weights: Array, F: Array, tested: Array, best: Array, share: Array) -> dict[str, Array]:
    """The components summed over some rows, for each set of weights of the models."""
    K, rows = share.shape[1], np.arange(F.shape[1])
    count = np.stack([weights @ ((k == F) & tested) for k in range(K)])  # (K, R, m)
    shares = count / np.maximum(count.sum(axis=0), 1.0)
    main = shares.argmax(axis=0)
    biased = main != best
    hit = shares[best, :, rows].T  # (R, m): how often the best label is predicted
    moved = 1.0 - shares.max(axis=0)
    total = 1.0 - np.einsum("krm,mk->rm", shares, share)
    unbiased_variance, biased_variance = np.where(biased, 0.0, moved), np.where(biased, hit, 0.0)
    parts = {
        "noise": np.zeros(biased.shape),
        "noise_effect": total - (1.0 - hit),
        "bias": biased,
        "variance": moved,
        "unbiased_variance": unbiased_variance,
        "biased_variance": biased_variance,
        "net_variance": unbiased_variance - biased_variance,
        "total": total,
    }
    return {name: part.sum(axis=1, dtype=float) for name, part in parts.items()}
