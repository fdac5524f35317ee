"""What every naive Bayes classifier shares: Bayes' rule in logarithms, priors, partial fits and folds from summaries.

    log P(y = k, x) = log pi_k + sum_j log f_kj(x_j),      P(y = k | x) = P(k, x) / sum_l P(l, x)

Each class summarises rows per class, merges summaries and solves one: `fit` is summarise and solve, `partial_fit`
summarise, merge and solve, and a fold's training summary is the merge of the other folds (prefixes and suffixes,
never a subtraction). K-fold cross-validation therefore costs about one fit and one prediction.

The rows are cut into blocks by their number alone and merged in order, so the number of cores never changes a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone

from assay.base import Estimator
from assay.checks import choice
from assay.errors import DataError
from assay.labels import class_codes, class_labels
from assay.numerics.jit import kernel
from assay.numerics.moments import all_but_one
from assay.numerics.threads import parallel
from assay.resampling import AllButOne, Partition, partitions_of, row_numbers
from assay.state import Specs, classes

__all__ = ["NO_ROWS", "LogOdds", "NaiveBayes", "Posterior", "log0", "open_array"]

Array = np.ndarray

NO_ROWS = np.empty(0, dtype=np.int64)
"""Stands for all rows in their order."""

BLOCK = 1 << 14
"""Rows whose scores are turned into probabilities at a time."""

FEW = 1000
"""Labels that are whole numbers within so small a range are counted."""

MOST_CELLS = 1 << 25
"""No more than this many numbers (256 MiB) of fold summaries are held at a time."""


# Bayes' rule.


@kernel
def _normalise(scores: Array, log_prior: Array, start: int, stop: int, logs: int) -> None:
    """Joint logarithms to posterior ones (or probabilities) in place; the prior where no class can have made a row."""
    K = scores.shape[1]
    for i in range(start, stop):
        top = scores[i, 0]
        for k in range(1, K):
            top = max(top, scores[i, k])
        if top == -np.inf:
            for k in range(K):
                scores[i, k] = log_prior[k] if logs else np.exp(log_prior[k])
            continue
        total = 0.0
        if logs:
            for k in range(K):
                total += np.exp(scores[i, k] - top)
            shift = top + np.log(total)
            for k in range(K):
                scores[i, k] -= shift
        else:
            for k in range(K):
                scores[i, k] = np.exp(scores[i, k] - top)
                total += scores[i, k]
            for k in range(K):
                scores[i, k] /= total


@kernel
def _best(scores: Array, log_prior: Array, start: int, stop: int, out: Array) -> None:
    """The first class of the highest score; of the highest prior where no class can have made a row."""
    K = scores.shape[1]
    for i in range(start, stop):
        best, top = 0, scores[i, 0]
        for k in range(1, K):
            if scores[i, k] > top:
                best, top = k, scores[i, k]
        if top == -np.inf:
            for k in range(1, K):
                if log_prior[k] > log_prior[best]:
                    best = k
        out[i] = best


def _blocks(n: int, K: int, act: Any) -> None:
    starts = range(0, n, BLOCK)
    parallel(lambda start: act(start, min(start + BLOCK, n)), starts, n_jobs=-1, work=20.0 * n * K)


def normalise(scores: Array, log_prior: Array, *, logs: bool) -> Array:
    """Posterior probabilities, or their logarithms, in the place of the joint logarithms."""
    act = lambda start, stop: _normalise(scores, log_prior, start, stop, int(logs))  # noqa: E731
    _blocks(len(scores), scores.shape[1], act)
    return scores


def best(scores: Array, log_prior: Array) -> Array:
    """The place of each row's most probable class."""
    out = np.empty(len(scores), dtype=np.int64)
    _blocks(len(scores), scores.shape[1], lambda start, stop: _best(scores, log_prior, start, stop, out))
    return out


def log0(values: Array) -> Array:
    """Logarithms with log 0 = -inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def open_array(values: Array, dtype: Any = np.float64) -> Array:
    """Contiguous and open to writing: a closed array is another type to the compiler, and compiles all again."""
    return np.require(values, dtype=dtype, requirements=("C", "W"))


class Posterior(ClassifierMixin, Estimator):
    """The answers of a classifier that knows `_scores(X)`, joint logarithms (n, K), and `_log_prior()`."""

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
    }

    classes_: Array

    def _asked(self, X: Any) -> Array:
        """X as the user passed it to joint logarithms of his rows, in an array that may be overwritten."""
        raise NotImplementedError

    def _log_prior(self) -> Array:
        raise NotImplementedError

    def predict_joint_log_proba(self, X: Any) -> Array:
        """log P(y = k, x) for every row and class, up to a factor that no class depends on; (n, K)."""
        return self._asked(X)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities, exact where the probabilities themselves would vanish; (n, K)."""
        return normalise(self._asked(X), self._log_prior(), logs=True)

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities in the order of `classes_`; (n, K)."""
        return normalise(self._asked(X), self._log_prior(), logs=False)

    def predict(self, X: Any) -> Array:
        """The most probable class of each row; of equal ones the first."""
        scores = self._asked(X)  # first: it says if nothing was fitted yet
        return self.classes_[best(scores, self._log_prior())]


class LogOdds(Posterior):
    """A decision function beside the probabilities.

    Classifiers of counts have none, as in scikit-learn, whose checks would feed it negative counts.
    """

    def decision_function(self, X: Any) -> Array:
        """Log odds of the second class (n,), or the log probabilities (n, K) of more than two."""
        logs = self.predict_log_proba(X)
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs


class NaiveBayes(Posterior):
    """A classifier made of three functions: summarise rows by group, merge two summaries, solve one.

    A summary has `weight` (K,) and `merged(other)`.
    """

    # What a class supplies.

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Validated X."""
        raise NotImplementedError

    def _summaries(self, X: Any, codes: Array, w: Array | None, K: int, fold: Array | None, F: int) -> list[Any]:
        """A summary of K classes for each of F folds."""
        raise NotImplementedError

    def _solve(self, summary: Any) -> None:
        """Set the fitted attributes from a summary."""
        raise NotImplementedError

    def _summary(self) -> Any:
        """The summary that the fitted attributes came from."""
        raise NotImplementedError

    def _scores(self, X: Any, rows: Array) -> Array:
        """Joint logarithms of some rows (`NO_ROWS`: all) of a validated table."""
        raise NotImplementedError

    def _cells(self, X: Any) -> int:
        """How many numbers a summary of one class holds."""
        return int(X.shape[1])

    # What follows from it.

    def _asked(self, X: Any) -> Array:
        return self._scores(self._table(X, reset=False), NO_ROWS)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to classes y; a row of weight w counts as w rows."""
        table = self._table(X, reset=True)
        n = table.shape[0]
        w = self._weights(sample_weight, n)
        self.classes_, codes = class_codes(y, n, w)
        self._solve(self._summaries(table, codes, w, len(self.classes_), None, 1)[0])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to what is known; `classes` names all classes there will be, at the first call.

        In any number of parts, in any order, the fit is that of all rows at once, to rounding.
        """
        first = not hasattr(self, "classes_")
        table = self._table(X, reset=first)
        n = table.shape[0]
        w = self._weights(sample_weight, n)
        known = self._known(classes, first)
        codes = _places(class_labels(y, n), known, w)
        added = self._summaries(table, codes, w, len(known), None, 1)[0]
        total = added if first else self._summary().merged(added)
        before = getattr(self, "classes_", None)
        self.classes_ = known
        try:
            self._solve(total)
        except Exception:
            if before is None:
                del self.classes_
            raise
        return self

    def _known(self, classes: Any, first: bool) -> Array:
        if first and classes is None:
            what = "the first call of partial_fit needs all classes"
            raise DataError(what, remedy="pass classes= with every class that will occur")
        if classes is None:
            return self.classes_
        given = np.unique(class_labels(classes, len(classes)))
        if first and given.size < 2:
            raise DataError(
                f"classes has only one class, {given.tolist()[0]!r}",
                remedy="pass every class that will occur",
            )
        if not first and not np.array_equal(given, self.classes_):
            what = f"classes = {given.tolist()} differs from the first call's {self.classes_.tolist()}"
            raise DataError(what, remedy="pass the same classes, or leave them out")
        return given

    def predict_folds(
        self, X: Any, y: Any, splits: Any, *, sample_weight: Any = None, method: str = "predict"
    ) -> list[Array] | None:
        """Answers for the test rows of every (train, test) pair of `splits`, without a fit per pair.

        They are those of a clone fitted to the training rows, to rounding: labels (`method="predict"`), or
        probabilities (`method="predict_proba"`), with one column for each class in y. None where summaries
        cannot give them (splits that are no partitions; a class without training rows); this model stays as it is.
        """
        choice(method, "method", ("predict", "predict_proba"))
        ours = ("fit", "predict", "predict_proba")
        if isinstance(splits, AllButOne) or not all(_is_ours(type(self), name) for name in ours):
            return None
        model = clone(self)
        table = model._table(X, reset=True)
        n = table.shape[0]
        w = model._weights(sample_weight, n)
        model.classes_, codes = class_codes(y, n, w)
        pairs = [(row_numbers(train), row_numbers(test)) for train, test in splits]
        partitions = partitions_of(pairs, n)
        if partitions is None:
            return None
        if max(part.size for part in partitions) * len(model.classes_) * model._cells(table) > MOST_CELLS:
            return None
        found: list[Array] = []
        for part in partitions:
            tests = [test for _, test in pairs[len(found) : len(found) + part.size]]
            some = model._fold_answers(table, codes, w, part, tests, method)
            if some is None:
                return None
            found += some
        return found

    def _fold_answers(
        self, table: Any, codes: Array, w: Array | None, part: Partition, tests: Sequence[Array], method: str
    ) -> list[Array] | None:
        """The answers of one partition of the rows."""
        parts = self._summaries(table, codes, w, len(self.classes_), part.fold, part.size)
        answers = []
        for rest, test in zip(all_but_one(parts, lambda a, b: a.merged(b)), tests, strict=True):
            if not (rest.weight > 0).all():
                return None
            try:
                self._solve(rest)
            except DataError:  # the fit to the rows will say it better
                return None
            scores = self._scores(table, test)
            if method == "predict":
                answers.append(self.classes_[best(scores, self._log_prior())])
            else:
                answers.append(normalise(scores, self._log_prior(), logs=False))
        return answers


def _is_ours(kind: type, name: str) -> bool:
    """Whether a method is this package's own, and no subclass's."""
    return bool(getattr(kind, name).__module__.startswith("assay.generative."))


def _places(labels: Array, classes: Array, w: Array | None) -> Array:
    """Each label's place among the classes; one that is not there is told, unless its row has no weight."""
    try:
        place = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
        strange = classes[place] != labels
    except (TypeError, ValueError):  # text beside numbers
        place, strange = np.zeros(labels.size, dtype=np.int64), np.ones(labels.size, dtype=bool)
    if w is not None:
        strange = strange & (w > 0)
    if np.any(strange):
        row = int(np.argmax(strange))
        what = (
            f"y contains class {labels.tolist()[row]!r} in row {row}, which is not among the classes {classes.tolist()}"
        )
        raise DataError(what, remedy="pass every class in the first call of partial_fit")
    return place
