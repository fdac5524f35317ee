"""Calibration: scores become probabilities that mean what they say (row B10).

A score is calibrated if among the rows it calls p, a share p are events. Most classifiers are not: margins are no
probabilities at all, naive Bayes is too sure, averaged trees not sure enough. A map fitted to scores of rows that the
classifier has not seen repairs that and keeps their order:

    fold k:   model_k trained without the rows of fold k scores them: s_i = model_{k(i)}(x_i)
    map:      g fitted to all pairs (s_i, y_i), isotonic or logistic (the mathematics is in `maps`)
    answer:   g(model(x)) with the model refitted to all rows, or with `ensemble=True` the mean over the folds of
              g_k(model_k(x)), where g_k saw only the scores of fold k

With more than two classes each class is mapped against the rest and the rows are divided by their sums. Cost: as many
fits as folds (and one more without `ensemble`), and one sort per class.

Platt (1999), Advances in Large Margin Classifiers, 61-74; Zadrozny & Elkan (2002), KDD; Niculescu-Mizil & Caruana
(2005), ICML; van der Laan, Polley & Hubbard (2007), Stat. Appl. Genet. Mol. Biol. 6 (cross-fitting).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import ClassifierMixin, clone
from sklearn.linear_model import RidgeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from assay.base import Constraint, Estimator, boolean, instance_of, jobs, none, one_of, weight_name
from assay.calibration.maps import METHODS, IsotonicMap, LogisticMap, apply_maps, fit_maps, score_table
from assay.calibration.reliability import Reliability, as_probabilities, compare, method_name
from assay.checks import row_weights
from assay.errors import AssayError, AssayWarning, DataError, ParameterError
from assay.labels import class_labels
from assay.metrics.inputs import encode, label_column, same_rows
from assay.numerics.threads import one_blas_thread
from assay.resampling import folds_constraint, splits_of, take
from assay.state import Specs, anything, classes, contrasts, need, part, several

__all__ = ["CalibratedClassifier"]

Array = np.ndarray
LEARNER = Constraint(
    lambda v: (
        hasattr(v, "fit")
        and (hasattr(v, "decision_function") or hasattr(v, "predict_proba"))
        and not isinstance(v, type)
    ),
    "a classifier with fit and decision_function or predict_proba",
)


class CalibratedClassifier(ClassifierMixin, Estimator):
    """Any classifier with probabilities that mean what they say, by a map fitted to cross-fitted scores.

        P(class | x) = g(score(x)),    g fitted to scores of rows that the scoring model had not seen

    The score is `decision_function` where the classifier has one, else `predict_proba`; with more than two classes
    `predict_proba` comes first, for margins of several classes cannot be compared between rows. Unlike scikit-learn's
    `CalibratedClassifierCV`, folds given as a number are shuffled, `ensemble` is False by default (one model on all
    rows, one map), and the default estimator is scikit-learn's RidgeClassifier, whose margins are no probabilities.

    | parameter | default    | range                         | meaning                                           |
    |-----------|------------|-------------------------------|---------------------------------------------------|
    | estimator | None       | a classifier                  | what to calibrate; None: RidgeClassifier()        |
    | method    | "logistic" | "isotonic", "logistic",       | the map; isotonic wants a thousand rows or more;  |
    |           |            | IsotonicMap(...)              | give an unfitted map to choose its settings       |
    | cv        | 5          | a number, splitter, pairs of  | folds that score the rows; "prefit": estimator is |
    |           |            | rows, or "prefit"             | fitted already and used as it is                  |
    | ensemble  | False      | True, False                   | average one calibrated model per fold, no refit   |
    | n_jobs    | None       | None or non-zero              | folds at a time; never changes the answer         |

    With "prefit" pass rows that the estimator was not fitted to. `clone` forgets a fit, so inside a search wrap the
    fitted classifier in `sklearn.frozen.FrozenEstimator` instead. For grouped rows pass the pairs of a grouped splitter
    as `cv`. Weights go to the classifier (where it takes them) and to the map. The table is handed on as it came: what
    the classifier takes (sparse, text in a pipeline, gaps), this takes. "sigmoid" is another word for "logistic".

    Fitted: `classes_`, `estimators_` (one, or one per fold), `calibrators_` (for each of them its maps: one for two
    classes, else one per class), `n_features_in_`, `feature_names_in_`. `reliability(X, y)` shows what it did.

    Platt (1999), Advances in Large Margin Classifiers, 61-74; Zadrozny & Elkan (2002), KDD.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(1000, n_redundant=10, random_state=0)
    >>> model = CalibratedClassifier(GaussianNB(), method="isotonic").fit(X[:600], y[:600])
    >>> print(model.reliability(X[600:], y[600:]).changes["brier"])
    change in brier -0.016 [-0.027, -0.006] (95% t interval, n = 400)
    """

    constraints = {
        "estimator": none | LEARNER,
        "method": one_of(*METHODS) | instance_of((IsotonicMap, LogisticMap), "a calibration map of this family"),
        "cv": folds_constraint | one_of("prefit"),
        "ensemble": boolean,
        "n_jobs": jobs,
    }
    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "estimators_": several(anything, "models"),
        "calibrators_": several(several(part((IsotonicMap, LogisticMap)), contrasts, kind=tuple), "models"),
    }

    def _check_state(self) -> None:
        need(self.classes_.size > 1 and len(self.estimators_) > 0)
        for model in self.estimators_:
            need(hasattr(model, "predict_proba") or hasattr(model, "decision_function"), "a classifier has no scores")
            need(np.array_equal(getattr(model, "classes_", self.classes_), self.classes_), "its classes differ")

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: Any = "logistic",
        cv: Any = 5,
        ensemble: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier and its map; with cv="prefit" the map alone."""
        self._check_parameters()
        X = self._table(X, reset=True)
        y = class_labels(y, X.shape[0])
        w = self._weights(sample_weight, y.size)
        given = isinstance(self.cv, str | int | np.integer) or hasattr(self.cv, "split")
        pairs = None if given else splits_of(self.cv, X)
        kept = None if w is None or w.min() > 0 else np.flatnonzero(w)
        if kept is not None and w is not None:
            X, y, w = take(X, kept), y[kept], w[kept]
        if isinstance(self.cv, str):
            return self._fit_prefit(X, y, w)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            what = f"y has only one class, {self.classes_.tolist()[0]!r}, in n_samples = {y.size} rows"
            raise DataError(what, remedy="pass rows of at least two classes")
        splits = self._splits(X, codes, pairs, kept)
        for k, (train, _) in enumerate(splits):
            self._refuse_missing(codes[train], f"the training rows of fold {k}")
        base = self._base()
        name = None if w is None else weight_name(base)
        if w is not None and name is None:
            what = f"{_label(base)} does not support sample_weight: the weights are used for the calibration map only"
            warnings.warn(what, AssayWarning, stacklevel=2)
        self._cross_fit(base, X, y, codes, w, name, splits)
        return self

    def _base(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        # Closed form: no randomness, and weights equal repetition; on sparse tables as far as the tolerance.
        return RidgeClassifier(tol=1e-12)

    def _cross_fit(
        self, base: Any, X: Any, y: Array, codes: Array, w: Array | None, name: str | None, splits: Sequence[Any]
    ) -> None:
        """Fit the folds (and all rows), collect the scores of rows left out, and fit the maps."""
        pairs = [(train, test) for train, test in splits] + ([] if self.ensemble else [(None, None)])
        n_jobs = None if self.n_jobs is None else min(self.n_jobs, len(pairs))
        with self._blame(X, reset=True):
            done = Parallel(n_jobs=n_jobs)(
                delayed(_fit_and_score)(base, X, y, w, name, train, test, bool(self.ensemble)) for train, test in pairs
            )
        classes, method = self.classes_, self.method
        tables = []
        for (_, scores, known), (train, _) in zip(done, pairs, strict=True):
            where = "all rows" if train is None else "a fold"
            if known is not None and not np.array_equal(known, classes):
                what = f"{_label(base)} fitted to {where} has the classes {known.tolist()}, not {classes.tolist()}"
                raise DataError(what, remedy="pass rows of the same classes as it was fitted to")
            if scores is not None:
                tables.append(score_table(scores, classes.size, f"the score of {_label(base)}"))
        tests = [test for _, test in splits]
        if self.ensemble:
            self.estimators_ = [model for model, _, _ in done]
            self.calibrators_ = [
                fit_maps(s, codes[rows], classes, None if w is None else w[rows], method, f" in fold {k}")
                for k, (s, rows) in enumerate(zip(tables, tests, strict=True))
            ]
        else:
            rows = np.concatenate(tests)
            part = None if w is None else w[rows]
            self.estimators_ = [done[-1][0]]
            self.calibrators_ = [fit_maps(np.concatenate(tables), codes[rows], classes, part, method)]

    def _fit_prefit(self, X: Any, y: Array, w: Array | None) -> Self:
        model = self.estimator
        if model is None or not hasattr(model, "classes_"):
            what = f"cv = 'prefit' but estimator = {_label(model)} is not fitted"
            raise ParameterError(what, remedy="fit it first, or give cv a number of folds")
        self.classes_ = np.asarray(model.classes_)
        codes, _ = encode(y, "y", self.classes_)
        self._refuse_missing(codes, "these rows")
        with self._blame(X, reset=True):
            scores = _raw_scores(model, X)
        table = score_table(scores, self.classes_.size, f"the score of {_label(model)}")
        self.estimators_ = [model]
        self.calibrators_ = [fit_maps(table, codes, self.classes_, w, self.method)]
        return self

    def _refuse_missing(self, codes: Array, where: str) -> None:
        seen = np.bincount(codes, minlength=self.classes_.size) > 0
        if not seen.all():
            missing = self.classes_.tolist()[int(np.argmin(seen))]
            what = f"class {missing!r} does not occur in {where}, so its scores cannot be calibrated"
            raise DataError(what, remedy="use fewer or stratified folds, pass more rows, or merge or drop that class")

    def _splits(self, X: Any, codes: Array, pairs: Sequence[Any] | None, kept: Array | None) -> list[Any]:
        """The folds, among the rows that have weight; given pairs name rows of the table as it came."""
        if pairs is None:
            return list(splits_of(self.cv, X, codes, classes=True))
        if kept is None:
            return list(pairs)
        place = np.full(int(kept[-1]) + 1, -1)
        place[kept] = np.arange(kept.size)
        inside = [tuple(place[part[np.isin(part, kept)]] for part in pair) for pair in pairs]
        return list(splits_of(inside, X, codes))

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, one column per class in the order of `classes_`."""
        return self._probabilities(X)[0]

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _probabilities(self, X: Any) -> tuple[Array, list[Array]]:
        """Calibrated probabilities, and the scores they come from."""
        check_is_fitted(self)
        X = self._table(X, reset=False)
        with self._blame(X, reset=False):
            raw = [_raw_scores(model, X) for model in self.estimators_]
        K = self.classes_.size
        tables = [score_table(s, K, f"the score of {_label(m)}") for s, m in zip(raw, self.estimators_, strict=True)]
        found = [apply_maps(maps, table) for maps, table in zip(self.calibrators_, tables, strict=True)]
        return np.mean(found, axis=0) if len(found) > 1 else found[0], tables

    def reliability(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        level: float = 0.95,
        pos_label: Any = None,
    ) -> Reliability:
        """Calibration error, Brier score, log loss and curves before and after, on rows that were not used to fit.

        Before are the classifier's own `predict_proba`, or the sigmoid (softmax) of its margins where it has none.
        `n_bins` and `strategy` ("uniform" or "quantile") shape the bins, `level` the intervals; `pos_label` chooses the
        class that is the event (the second of two; with more classes, that the most probable one is right).
        """
        after, scores = self._probabilities(X)
        own = [model for model in self.estimators_ if hasattr(model, "predict_proba")]
        if own:
            before, reading = np.mean([model.predict_proba(X) for model in own], axis=0), "its own predict_proba"
        else:
            read = [as_probabilities(table) for table in scores]
            before, reading = np.mean([table for table, _ in read], axis=0), read[0][1]
        codes, _ = encode(label_column(y, "y"), "y", self.classes_)
        same_rows(codes, after, "X", "y")
        weights = row_weights(sample_weight, codes.size)
        words = {"subject": _label(self.estimators_[0]), "method": method_name(self.method), "reading": reading}
        return compare(
            codes,
            self.classes_,
            before,
            after,
            weights,
            words,
            n_bins=n_bins,
            strategy=strategy,
            level=level,
            pos_label=pos_label,
        )

    def _table(self, X: Any, *, reset: bool) -> Any:
        """X as something with rows; column names and their number are noted in fit."""
        X = self._as_came(X, reset=reset)
        if reset:
            with self._blame(X, reset=True):
                validate_data(self, X, skip_check_array=True)
        return _canonical(X) if sparse.issparse(X) else X

    @contextmanager
    def _blame(self, X: Any, *, reset: bool) -> Iterator[None]:
        """Only the classifier knows what it can take; where it refuses a table, say which cell is to blame."""
        try:
            yield
        except AssayError:
            raise
        except (TypeError, ValueError) as error:
            try:
                self._validate(X, reset=reset, sparse=("csr", "csc") if get_tags(self).input_tags.sparse else False)
            except AssayError as found:
                said = " ".join(str(error).split()).split(". ")[0]
                inside = "" if said in found.what else f" (from the classifier: {said})"
                raise type(found)(f"{found.what}{inside}", remedy=found.remedy) from error
            raise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = self._base()
        if hasattr(base, "__sklearn_tags__"):
            inner = get_tags(base).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags


def _label(estimator: Any) -> str:
    """What to call a classifier: its class, or the last step of a pipeline."""
    steps = getattr(estimator, "steps", None)
    return _label(steps[-1][1]) if steps else type(estimator).__name__


def _canonical(X: Any) -> Any:
    """A sparse table as every classifier reads it: rows or columns, no entry twice, short indices where they do."""
    table = X if X.format in ("csr", "csc") else X.tocsr()
    if not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    if table.indices.dtype == np.int64 and max(*table.shape, table.nnz) < np.iinfo(np.int32).max:
        parts = (table.data, table.indices.astype(np.int32), table.indptr.astype(np.int32))
        table = type(table)(parts, shape=table.shape)
    return table


def _raw_scores(model: Any, X: Any) -> Any:
    """Margins of two classes; of more, which cannot be compared between rows, probabilities where there are any."""
    several = len(getattr(model, "classes_", ())) > 2 and hasattr(model, "predict_proba")
    return model.decision_function(X) if hasattr(model, "decision_function") and not several else model.predict_proba(X)


def _fit_and_score(
    base: Any, X: Any, y: Array, w: Array | None, name: str | None, train: Any, test: Any, keep: bool
) -> tuple[Any, Any, Array | None]:
    """One model, the scores of the rows it did not see, and the classes it knows; `train` None: all rows, no scores."""
    with one_blas_thread():
        model = clone(base, safe=False)
        rows = slice(None) if train is None else train
        weights = {} if w is None or name is None else {name: w[rows]}
        model.fit(X if train is None else take(X, train), y[rows], **weights)
        scores = None if train is None else _raw_scores(model, take(X, test))
    known = getattr(model, "classes_", None)
    return model if keep or train is None else None, scores, None if known is None else np.asarray(known)
