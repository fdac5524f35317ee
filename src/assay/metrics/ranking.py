"""Area under the ROC curve, with DeLong's interval.

    AUC = share of (positive, negative) pairs that the scores put in order, a tie counting one half

DeLong: the placement of a positive row is the share of negative scores below its own, that of a negative row the share
of positive scores above it; AUC is the mean of either, and

    var AUC = var(placements of positives) / m + var(placements of negatives) / n.

Both classes are sorted and searched in order, O(N log N), never all pairs. The default interval is made on the logit
scale, which keeps it in [0, 1], with Student's t at Satterthwaite's degrees of freedom for small classes (as Brunner
& Munzel do); "delong" is the plain one with the normal quantile. AUC = 1 (or 0) leaves no variance: then min(m, n)
disjoint pairs of a positive and a negative row are independent trials that all came out in order, so the exact
binomial limit (alpha/2)^(1/min(m, n)) covers at its level.

Rows scored by different models, such as the out-of-fold rows of a cross-validation, cannot be compared. With `folds`
only pairs of the same fold count, AUC = concordant pairs / pairs, summed over folds; a fold without both classes has
none. Placements are then shares of the fold, and a row weighs as many as the pairs it is in.

More than two classes: the mean over classes against the rest ("ovr") or over pairs ("ovo", Hand & Till 2001).
DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44, 837-845; Sun & Xu (2014), IEEE Signal Processing Letters 21,
1389-1393; Brunner & Munzel (2000), Biometrical Journal 42, 17-25.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.checks import choice, fraction, row_weights
from assay.errors import DataError
from assay.metrics.classification import UNIT
from assay.metrics.definition import Rule, metric
from assay.metrics.inputs import score_matrix
from assay.metrics.limits import average as weighted_mean
from assay.metrics.limits import share_limits, smooth_limits, standard_error
from assay.results import Interval

__all__ = ["auc", "fold_codes", "over_classes", "placements", "scored", "trivial", "without_spread"]

Array = np.ndarray


def scored(
    y_true: Any, y_score: Any, labels: Any, pos_label: Any, sample_weight: Any
) -> tuple[Array, Array, Array | None, Array | None]:
    """(codes, scores, classes, weights); with one column per class, every class must have a row."""
    codes, scores, classes = score_matrix(y_true, y_score, labels, pos_label)
    weights = row_weights(sample_weight, codes.size)
    if classes is not None:
        sizes = np.bincount(codes, weights=weights, minlength=classes.size)
        if not sizes.all():
            missing = classes.tolist()[int(np.argmin(sizes))]
            raise DataError(f"no row of y_true has the class {missing!r}", remedy="pass rows of every class")
    return codes, scores, classes, weights


def placements(positive: Array, negative: Array, w_pos: Array | None, w_neg: Array | None) -> tuple[Array, Array]:
    """For each positive score the share of negative ones below it, for each negative the share of positives above.

    Returned in the order given under weights, and in ascending order of the scores without them.
    """
    if w_pos is None or w_neg is None:
        positive, negative = np.sort(positive), np.sort(negative)
        first = _below(negative, positive) / (2.0 * negative.size)
        second = 1.0 - _below(positive, negative) / (2.0 * positive.size)
        return first, second
    return _mass_below(negative, w_neg, positive), 1.0 - _mass_below(positive, w_pos, negative)


def _below(values: Array, at: Array) -> Array:
    """Twice the number of sorted values below each point, ties counting one."""
    twice = np.searchsorted(values, at, side="left")
    twice += np.searchsorted(values, at, side="right")
    return twice


def _mass_below(values: Array, mass: Array, at: Array) -> Array:
    order = np.argsort(values, kind="stable")
    values, total = values[order], np.concatenate([[0.0], np.cumsum(mass[order])])
    both = total[np.searchsorted(values, at, side="left")] + total[np.searchsorted(values, at, side="right")]
    return both / (2 * total[-1])


def fold_codes(folds: Any, rows: int) -> Array | None:
    """The fold of each row as whole numbers from 0; None where there are no folds, or one."""
    if folds is None:
        return None
    found, codes = np.unique(np.asarray(folds), return_inverse=True)
    if codes.shape != (rows,):
        raise DataError(f"folds has shape {np.shape(folds)} for {rows} rows", remedy="pass one fold per row")
    return codes if found.size > 1 else None


@dataclass(frozen=True, eq=False)
class Placed:
    """Placements of both classes in their folds, their weights (own weight times that of the other class in the fold),
    which rows they belong to, and how many pairs of rows are disjoint.
    """

    first: Array
    second: Array
    w_first: Array
    w_second: Array
    at_first: Array
    at_second: Array
    disjoint: int


def place_within(positive: Array, scores: Array, weights: Array | None, fold: Array) -> Placed:
    """Placements among the rows of the same fold; rows of folds without the other class are gone.

    Folds follow each other in one order of scores, so that a single search serves all of them.
    """
    mass = np.ones(scores.size) if weights is None else weights
    rank = np.unique(scores, return_inverse=True)[1]
    key = fold * (int(rank.max()) + 1) + rank
    count = int(fold.max()) + 1
    parts = []
    for mine in (positive, ~positive):
        rows, others = np.flatnonzero(mine & (mass > 0)), np.flatnonzero(~mine & (mass > 0))
        others = others[np.argsort(key[others], kind="stable")]
        total = np.concatenate([[0.0], np.cumsum(mass[others])])
        size = np.bincount(fold[others], weights=mass[others], minlength=count)
        rows = rows[size[fold[rows]] > 0]
        both = sum(total[np.searchsorted(key[others], key[rows], side=side)] for side in ("left", "right"))
        below = both / 2 - (np.cumsum(size) - size)[fold[rows]]
        parts.append((rows, below / size[fold[rows]], mass[rows] * size[fold[rows]]))
    (above, first, w_first), (under, second, w_second) = parts
    if above.size == 0:
        what = "no fold has rows of both classes, and scores of different models cannot be compared"
        raise DataError(what, remedy="use fewer folds, such as cv=5, or a metric such as log_loss")
    sizes = [np.bincount(fold[rows], minlength=count) for rows in (above, under)]
    return Placed(first, 1.0 - second, w_first, w_second, above, under, int(np.minimum(*sizes).sum()))


def _split(positive: Array, scores: Array, weights: Array | None) -> tuple[Array, Array, Array | None, Array | None]:
    """Scores and weights of both classes; rows of weight zero are gone."""
    if weights is not None:
        kept = weights > 0
        positive, scores, weights = positive[kept], scores[kept], weights[kept]
    above, below = scores[positive], scores[~positive]
    if above.size == 0 or below.size == 0:
        missing = "positive" if above.size == 0 else "negative"
        raise DataError(f"no row of y_true is {missing}", remedy="this metric compares two classes; pass rows of both")
    if weights is None:
        return above, below, None, None
    return above, below, weights[positive], weights[~positive]


def _binary_auc(positive: Array, scores: Array, weights: Array | None, fold: Array | None) -> float:
    if fold is not None:
        placed = place_within(positive, scores, weights, fold)
        return weighted_mean(placed.first, placed.w_first)
    above, below, w_above, w_below = _split(positive, scores, weights)
    if w_above is None or w_below is None:
        pairs = float(above.size) * below.size
        # Whole numbers up to 2^53: exact for any sample that fits in memory.
        return float(_below(np.sort(below), np.sort(above)).sum(dtype=np.int64)) / (2.0 * pairs)
    return weighted_mean(_mass_below(below, w_below, above), w_above)


def _delong(
    positive: Array, scores: Array, weights: Array | None, fold: Array | None
) -> tuple[float, float, float, int, int]:
    """AUC, its standard error, Satterthwaite's degrees of freedom, the rows compared and the disjoint pairs of them."""
    if fold is None:
        above, below, w_above, w_below = _split(positive, scores, weights)
        first, second = placements(above, below, w_above, w_below)
        disjoint = min(above.size, below.size)
    else:
        placed = place_within(positive, scores, weights, fold)
        first, second, w_above, w_below = placed.first, placed.second, placed.w_first, placed.w_second
        disjoint = placed.disjoint
    value = weighted_mean(first, w_above)
    parts = (standard_error(first - value, w_above), standard_error(second - value, w_below))
    if weights is None and fold is None:
        value = _exact_mean(first, second.size)
    error = float(np.hypot(*parts))
    sizes = (first.size, second.size)
    spread = sum(part**4 / max(1, size - 1) for part, size in zip(parts, sizes, strict=True))
    return value, error, error**4 / spread if spread > 0 else np.inf, sum(sizes), disjoint


def _exact_mean(first: Array, n: int) -> float:
    """The mean of placements, which are whole multiples of 1 / 2n."""
    return float(np.rint(first * (2.0 * n)).sum()) / (2.0 * n * first.size)


def _auc_influence(positive: Array, scores: Array, weights: Array | None, fold: Array | None) -> tuple[float, Array]:
    """AUC and the influence of every row, in the order given (for sums over classes)."""
    if fold is not None:
        return _influence_within(positive, scores, weights, fold)
    mass = np.ones(scores.size) if weights is None else weights
    above, below, w_above, w_below = _split(positive & (mass > 0), scores, mass)
    kept_pos, kept_neg = positive & (mass > 0), ~positive & (mass > 0)
    first, second = placements(above, below, w_above, w_below)
    value = weighted_mean(first, w_above)
    total = mass.sum()
    psi = np.zeros(scores.size)
    psi[kept_pos] = (first - value) * (total / mass[kept_pos].sum())
    psi[kept_neg] = (second - value) * (total / mass[kept_neg].sum())
    return value, psi


def _influence_within(positive: Array, scores: Array, weights: Array | None, fold: Array) -> tuple[float, Array]:
    placed = place_within(positive, scores, weights, fold)
    value, pairs = weighted_mean(placed.first, placed.w_first), placed.w_first.sum()
    mass = np.ones(scores.size) if weights is None else weights
    psi = np.zeros(scores.size)
    for at, place, w in (
        (placed.at_first, placed.first, placed.w_first),
        (placed.at_second, placed.second, placed.w_second),
    ):
        psi[at] = (place - value) * (w / mass[at]) * (mass.sum() / pairs)
    return value, psi


Single = Callable[[Array, Array, "Array | None", "Array | None"], tuple[float, Array]]


def over_classes(
    codes: Array, scores: Array, weights: Array | None, fold: Array | None, average: str, single: Single
) -> tuple[float, Array]:
    """One class against the rest, averaged ("macro" or "weighted" by class size), with the influence of every row."""
    mass = np.ones(codes.size) if weights is None else weights
    k = scores.shape[1]
    parts = [single(codes == j, scores[:, j], weights, fold) for j in range(k)]
    values = np.array([value for value, _ in parts])
    psi = np.column_stack([influence for _, influence in parts])
    if average == "macro":
        return float(values.mean()), psi.mean(axis=1)
    share = np.bincount(codes, weights=mass, minlength=k) / mass.sum()
    value = float(share @ values)
    return value, psi @ share + values[codes] - value


def _over_pairs(
    codes: Array, scores: Array, weights: Array | None, fold: Array | None, average: str
) -> tuple[float, Array]:
    """Hand and Till's mean over pairs of classes of both one-sided AUCs."""
    mass = np.ones(codes.size) if weights is None else weights
    k, total = scores.shape[1], mass.sum()
    sizes = np.bincount(codes, weights=mass, minlength=k)
    value, weight, psi = 0.0, 0.0, np.zeros(codes.size)
    for a in range(k):
        for b in range(a + 1, k):
            rows = np.flatnonzero((codes == a) | (codes == b))
            own = None if weights is None else weights[rows], None if fold is None else fold[rows]
            up, psi_up = _auc_influence(codes[rows] == a, scores[rows, a], *own)
            down, psi_down = _auc_influence(codes[rows] == b, scores[rows, b], *own)
            pair = 1.0 if average == "macro" else (sizes[a] + sizes[b]) / total
            value += pair * (up + down) / 2
            weight += pair
            psi[rows] += pair * (psi_up + psi_down) / 2 * (total / (sizes[a] + sizes[b]))
            if average == "weighted":
                psi[rows] += (up + down) / 2
    value /= weight
    if average == "weighted":
        psi -= value * (k - 1)  # the weights of the pairs vary with the rows too; they sum to k - 1
    return value, psi / weight


def _many(
    codes: Array, scores: Array, weights: Array | None, fold: Array | None, average: str, multi_class: str
) -> tuple[float, Array]:
    average = choice(average, "average", ("macro", "weighted"))
    multi_class = choice(multi_class, "multi_class", ("ovr", "ovo"))
    if multi_class == "ovo":
        return _over_pairs(codes, scores, weights, fold, average)
    return over_classes(codes, scores, weights, fold, average, _auc_influence)


def _auc_rule(scale: str, title: str) -> Rule:
    def rule(
        y_true: Any,
        y_pred: Any,
        *,
        sample_weight: Any,
        level: float,
        pos_label: Any = None,
        labels: Any = None,
        average: str = "macro",
        multi_class: str = "ovr",
        folds: Any = None,
    ) -> Interval:
        codes, scores, classes, weights = scored(y_true, y_pred, labels, pos_label, sample_weight)
        fold = fold_codes(folds, codes.size)
        if classes is None:
            value, error, df, rows, disjoint = _delong(codes == 1, scores, weights, fold)
        else:
            value, psi = _many(codes, scores, weights, fold, average, multi_class)
            error, df = standard_error(psi, weights), None
            rows = codes.size if weights is None else int(np.count_nonzero(weights))
            disjoint = int(np.bincount(codes).min())
        if disjoint < 2:
            return trivial(value, level, rows, "auc")
        if error <= 1e-15:
            return without_spread(value, disjoint, level, rows, "auc")
        return smooth_limits(
            value,
            error,
            level=level,
            scale=scale,
            bounds=UNIT,
            method=title,
            rows=rows,
            estimand="auc",
            df=df if scale == "logit" else None,
        )

    return rule


def trivial(value: float, level: float, rows: int, name: str) -> Interval:
    """One row of a class says nothing about the spread of its scores: the whole range is all that is sure."""
    return Interval(value, *UNIT, fraction(level, "level"), "trivial (one row in a class)", rows, name)


def without_spread(value: float, disjoint: int, level: float, rows: int, name: str) -> Interval:
    """All pairs in order (or in reverse): the exact limit after that many successes (failures) in as many trials."""
    level = fraction(level, "level")
    reach = ((1 - level) / 2) ** (1 / disjoint)
    lower, upper = reach, 1.0
    if value == 0.0:
        lower, upper = 0.0, 1.0 - reach
    elif value != 1.0:
        # Every row has the same placement (all scores equal): nothing bounds the figure but chance in so many pairs.
        half = share_limits(0.5, disjoint, level=level, method="exact", rows=rows, estimand="")
        lower, upper = min(half.lower, value), max(half.upper, value)
    return Interval(value, lower, upper, level, "exact binomial, disjoint pairs", rows, name)


@metric(
    "auc",
    better="greater",
    range=UNIT,
    needs="scores",
    rules={"delong_logit": _auc_rule("logit", "DeLong (logit scale)"), "delong": _auc_rule("plain", "DeLong")},
    over_folds="folds",
)
def auc(
    y_true: Any,
    y_pred: Any,
    *,
    pos_label: Any = None,
    labels: Any = None,
    average: str = "macro",
    multi_class: str = "ovr",
    folds: Any = None,
    sample_weight: Any = None,
) -> float:
    """Area under the ROC curve: the chance that a positive row outscores a negative one, with DeLong's interval.

    | parameter   | default | range               | meaning                                               |
    |-------------|---------|---------------------|-------------------------------------------------------|
    | y_pred      |         | numbers             | scores of the positive class, or one column per class |
    | pos_label   | None    | a class             | the positive one; None: the greater of two            |
    | labels      | None    | classes             | the classes of the columns, in their order            |
    | multi_class | "ovr"   | "ovr", "ovo"        | more than two classes: against the rest, or in pairs  |
    | average     | "macro" | "macro", "weighted" | over classes: equally, or by their size               |
    | folds       | None    | one per row         | compare only rows of the same fold                    |

    Intervals: "delong_logit" (default), "delong", "bootstrap".

    >>> print(auc.interval([0, 0, 1, 1, 0, 1], [0.1, 0.4, 0.35, 0.8, 0.2, 0.9]))
    auc 0.89 [0.09, 1.00] (95% DeLong (logit scale) interval, n = 6)
    >>> print(auc.interval([0] * 20 + [1] * 30, range(50)))
    auc 1.000 [0.832, 1.000] (95% exact binomial, disjoint pairs interval, n = 50)
    """
    codes, scores, classes, weights = scored(y_true, y_pred, labels, pos_label, sample_weight)
    fold = fold_codes(folds, codes.size)
    if classes is None:
        return _binary_auc(codes == 1, scores, weights, fold)
    return _many(codes, scores, weights, fold, average, multi_class)[0]
