"""The arithmetic of conformal prediction: ranks, scores of classes, and limits from several models.

    rank(n, level) = ceil(level (n + 1)): a new score is at most the rank-th smallest of n old ones with chance level

Everything here takes and gives arrays. `fold[i]` is the model that did not see calibration row i, 0 if there is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.checks import refuse_improbable
from assay.errors import DataError, DataTypeError
from assay.numerics.jit import kernel

__all__ = [
    "aps",
    "calibrators",
    "codes_of",
    "lac",
    "least_rows",
    "limits",
    "members",
    "probabilities",
    "rank",
    "scope",
    "select",
    "shortfall",
]

Array = np.ndarray
KERNEL_WORK = 4_000_000
"""Below this many pairs of new and old rows numpy is done before a kernel is loaded."""
CELLS = 1 << 20
"""How many numbers one block of new rows times calibration rows may hold."""
EVERY = -1
"""The group of classes that are judged by the calibration rows of every class."""
NAMED = 3
"""So many classes are named in a sentence."""


def rank(n: int, level: float) -> int:
    """ceil(level (n + 1)); more than n where n rows are too few for the level.

    >>> rank(19, 0.9), rank(9, 0.9), rank(8, 0.9)
    (18, 9, 9)
    """
    # 0.9 * 10 may come out a hair above 9, which must not cost a rank.
    return max(1, int(np.ceil(np.round(level * (n + 1), 9))))


def least_rows(level: float) -> int:
    """The smallest number of scores with a finite quantile at the level: n >= level / (1 - level).

    >>> least_rows(0.9), least_rows(0.95)
    (9, 19)
    """
    return int(np.ceil(np.round(level / (1 - level), 9)))


def shortfall(n: int, folds: int) -> float:
    """What K folds may cost CV+ below 1 - 2 alpha (nothing for the jackknife+): Barber et al., theorem 4."""
    return min(2 * (1 - 1 / folds) / (n / folds + 1), (1 - folds / n) / (folds + 1))


def calibrators(counts: Array, level: float, by_class: bool | str) -> Array:
    """The group of each class, whose calibration rows judge it; `EVERY` stands for all rows.

    `True`: each class alone. `"auto"`: all together, unless a class is rare. It is where it has less than half of an
    equal share of the rows and less than 2 (1 - level) of them, so that the level alone could leave half of it
    uncovered. Then each class with enough rows for the level is judged alone and the others together; where even these
    are too few, they join the largest class: the level holds over all rows, but no promise is made for each of these.

    >>> counts = np.array([300, 60, 6, 5])
    >>> calibrators(counts, 0.9, "auto"), calibrators(counts[:3], 0.9, "auto"), calibrators(counts[:2], 0.9, "auto")
    (array([0, 1, 4, 4]), array([0, 1, 0]), array([0, 1]))
    """
    own = np.arange(counts.size)
    if by_class != "auto":
        return own if by_class else np.full(counts.size, EVERY)
    need = least_rows(level)
    if counts.min() >= counts.sum() * min(2 * (1 - level), 0.5 / counts.size) or counts.sum() < need:
        return np.full(counts.size, EVERY)
    few = counts < need
    return np.where(few, counts.size if counts[few].sum() >= need else int(np.argmax(counts)), own)


def scope(groups: Array, counts: Array, classes: Array, level: float) -> tuple[str, str]:
    """Within which classes the level holds ("": all of them together), and which have no promise of their own."""
    guests = (groups != EVERY) & (groups < counts.size) & (groups != np.arange(counts.size))
    never = ""
    if guests.any():
        rows = int(counts[guests].sum())
        has = f"{rows} calibration row{'' if rows == 1 else 's'}{' together' if guests.sum() > 1 else ''}"
        never = f"nothing is promised for {_named(classes[guests])} alone, with {has} where level {level:g} needs "
        never += str(least_rows(level))
    if np.unique(groups).size == 1:
        return "", never
    rarer = groups == counts.size
    where = "within each class"
    if rarer.any():
        least = least_rows(level)
        where += f" of at least {least} calibration rows and within the rarer ones together ({_named(classes[rarer])})"
    host = classes[[groups[guests][0]]] if guests.any() else classes[:0]
    return where + (f" ({_named(host)} together with {_named(classes[guests])})" if guests.any() else ""), never


def _named(classes: Array) -> str:
    names = [repr(label) for label in classes.tolist()[:NAMED]]
    return ", ".join(names) + (f" and {classes.size - NAMED} more" if classes.size > NAMED else "")


def limits(centre: Array, spread: Array, fold: Array, scores: Array, level: float) -> tuple[Array, Array]:
    """Lower and upper limits of new rows: `centre` and `spread` have one column per model, `scores` one per old row.

    upper = the rank-th smallest of centre_{fold(i)} + spread_{fold(i)} score_i,   lower = the rank-th largest of
    centre_{fold(i)} - spread_{fold(i)} score_i.
    """
    m, n, k = centre.shape[0], scores.size, rank(scores.size, level)
    if k > n:
        return np.full(m, -np.inf), np.full(m, np.inf)
    if centre.shape[1] == 1:
        half = spread[:, 0] * np.partition(scores, k - 1)[k - 1]
        return centre[:, 0] - half, centre[:, 0] + half
    lower, upper = np.empty(m), np.empty(m)
    if m * n > KERNEL_WORK and n > 8 * centre.shape[1]:
        order = np.lexsort((scores, fold))
        starts = np.searchsorted(fold[order], np.arange(centre.shape[1] + 1))
        ranked = np.ascontiguousarray(scores[order])
        select(centre, spread, ranked, starts, k, upper)
        select(-centre, spread, ranked, starts, k, lower)
        return -lower, upper
    height = max(1, CELLS // n)
    for start in range(0, m, height):
        rows = slice(start, start + height)
        reach = spread[rows][:, fold] * scores
        middle = centre[rows][:, fold]
        upper[rows] = np.partition(middle + reach, k - 1, axis=1)[:, k - 1]
        lower[rows] = np.partition(middle - reach, n - k, axis=1)[:, n - k]
    return lower, upper


@kernel(exact=True)
def select(centre: Array, spread: Array, scores: Array, starts: Array, k: int, out: Array) -> None:
    """Fill `out` with the k-th smallest of centre + spread * score over sorted lists, one list of scores per model.

    Each round asks the middle of the longest list left how many values lie below it, and keeps the side with the k-th.
    """
    models = starts.size - 1
    low, high = np.empty(models, np.int64), np.empty(models, np.int64)
    below, upto = np.empty(models, np.int64), np.empty(models, np.int64)
    for row in range(out.size):
        for j in range(models):
            low[j], high[j] = starts[j], starts[j + 1]
        left = k  # the rank still sought among what is left
        while True:
            pick = 0
            for j in range(1, models):
                if high[j] - low[j] > high[pick] - low[pick]:
                    pick = j
            middle = (low[pick] + high[pick]) // 2
            pivot = centre[row, pick] + spread[row, pick] * scores[middle]
            smaller, equal = 0, 0
            for j in range(models):
                for strict in range(2):
                    a, b = low[j], high[j]
                    while a < b:
                        at = (a + b) // 2
                        value = centre[row, j] + spread[row, j] * scores[at]
                        if value < pivot or (strict == 1 and value == pivot):
                            a = at + 1
                        else:
                            b = at
                    if strict == 0:
                        below[j] = a
                    else:
                        upto[j] = a
                smaller += below[j] - low[j]
                equal += upto[j] - below[j]
            if smaller < left <= smaller + equal:
                out[row] = pivot
                break
            lower = left <= smaller
            if not lower:
                left -= smaller + equal
            for j in range(models):  # an assignment of slices takes a second to compile
                if lower:
                    high[j] = below[j]
                else:
                    low[j] = upto[j]


def members(new: Array, fold: Array, scores: Array, codes: Array, level: float, groups: Array) -> Array:
    """Which classes belong to the set of each new row; `new` has shape (models, rows, classes).

    A class belongs when fewer than rank(n, level) old scores lie below its own, each old one beside the model that did
    not see it. Only old rows of the class's group count (see `calibrators`).
    """
    models, m, classes = new.shape
    inside = np.zeros((m, classes), dtype=bool)
    for c in range(classes):
        below, n = np.zeros(m, dtype=np.intp), 0
        for k in range(models):
            chosen = (fold == k) & ((groups[c] == EVERY) | (groups[codes] == groups[c]))
            known = np.sort(scores[chosen])
            below += np.searchsorted(known, new[k, :, c], side="left")
            n += known.size
        inside[:, c] = below < rank(n, level)
    return inside


def lac(p: Array) -> Array:
    """Least ambiguous sets: 1 - p, for each class."""
    return 1.0 - p


def aps(p: Array, u: Array | float) -> Array:
    """Adaptive sets: the probability of all likelier classes, and the share u of the class's own.

    >>> aps(np.array([[0.5, 0.2, 0.3]]), 1.0).round(12).tolist()
    [[0.5, 1.0, 0.8]]
    """
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    above = np.cumsum(ranked, axis=1) - ranked
    share = ranked * (u if np.isscalar(u) else np.asarray(u)[:, None])
    found = np.empty_like(p)
    np.put_along_axis(found, order, above + share, axis=1)
    return found


def probabilities(model: Any, X: Any, classes: Array) -> Array:
    """One column of probabilities per class, zero for a class the model never saw."""
    if not hasattr(model, "predict_proba"):
        message = f"{type(model).__name__} has no predict_proba, which prediction sets need"
        raise DataTypeError(message, remedy="pass a classifier with predict_proba, or calibrate it first")
    found = np.asarray(model.predict_proba(X), dtype=float)
    own = np.asarray(getattr(model, "classes_", classes))
    if found.ndim != 2 or found.shape[1] != own.size:
        raise DataError(f"predict_proba gave shape {found.shape} for {own.size} classes", remedy="check the model")
    return check_probabilities(align(found, own, classes))


def align(found: Array, own: Array, classes: Array) -> Array:
    """Columns in the order of `classes`."""
    if own.shape == classes.shape and (own == classes).all():
        return found
    aligned = np.zeros((found.shape[0], classes.size))
    known = np.isin(own, classes)
    aligned[:, np.searchsorted(classes, own[known])] = found[:, known]
    return aligned


def check_probabilities(p: Array) -> Array:
    """The same, if all of it lies in [0, 1] but for rounding."""
    remedy = "check the model, or calibrate it"
    refuse_improbable(p, "the table of probabilities", least=-1e-9, most=1 + 1e-9, tolerance=None, remedy=remedy)
    return p


def codes_of(y: Array, classes: Array) -> Array:
    """Positions of labels among the sorted classes; a label that is none of them is refused."""
    at = np.clip(np.searchsorted(classes, y), 0, classes.size - 1)
    wrong = classes[at] != y
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"y contains {y[row].item()!r} in row {row}, a class that does not occur in the training rows",
            remedy="drop that row",
        )
    return at
