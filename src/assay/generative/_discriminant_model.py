"""What both discriminants share: rows to moments, moments to a rule, a rule to posteriors; batches and folds."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin, clone

from assay.base import Estimator
from assay.errors import AssayError, CollinearityWarning, DataError, ParameterError
from assay.generative._discriminant import LinearFit, QuadraticFit, Whitening, name_columns
from assay.generative._discriminant_rules import DiagonalRule, LinearRule, QuadraticRule, evaluate
from assay.generative._gaussian_summary import ClassMoments, frame_of, merge, summarize, training_moments
from assay.labels import class_codes, class_labels, class_priors
from assay.state import Specs, classes, facts, floats, need, part

__all__ = ["Discriminant"]

Array = np.ndarray
DiscriminantFit = LinearFit | QuadraticFit


class Discriminant(ClassifierMixin, Estimator):
    """What both share: moments in, posteriors out."""

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
        "_moments": part(ClassMoments, "p", "k"),
        "_rule": part((LinearRule, QuadraticRule, DiagonalRule), "p", "k"),
        "priors_": floats("k", low=0, high=1),
        **facts("means_", "covariance_"),
    }

    def _check_state(self) -> None:
        offset = self._rule.offset
        need(not np.isnan(offset).any() and np.isfinite(offset).any() and not np.isposinf(offset).any())

    priors: Any
    shrinkage: Any
    covariance: str
    estimate: str
    tol: float
    n_jobs: int | None

    # What each kind says for itself.

    def _kind(self) -> str:
        """Which scatters the fit needs."""
        raise NotImplementedError

    def _solve(
        self, m: ClassMoments, priors: Array, names: list[str], classes: list[Any], rows: Array | None = None
    ) -> DiscriminantFit:
        raise NotImplementedError

    def _keep(self, fit: Any) -> None:
        raise NotImplementedError

    # Fitting.

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_parameters()
        self._refuse_contradictions()
        X, codes, w = self._rows(X, y, sample_weight)
        self._forget()
        frame, K = frame_of(X, w), len(self.classes_)
        m = summarize(X, codes, K, frame, w, **self._wanted(), n_jobs=self.n_jobs)
        rows = None
        if m.kind == "pooled" and m.rows.sum() < X.shape[1] and not self.shrinkage:
            rows = _centred(X, codes, w, m)
        self._warn(self._settle(m, rows))
        return self

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array | None]:
        """The gate."""
        X = self._validate(X, order="C")
        w = self._weights(sample_weight, len(X))
        self.classes_, codes = class_codes(y, len(X), w)
        return X, codes, w

    def _wanted(self) -> dict[str, Any]:
        return {"kind": self._kind(), "fourth": isinstance(self.shrinkage, str)}

    def _refuse_contradictions(self) -> None:
        if isinstance(self.shrinkage, str) and self.covariance == "diagonal":
            what = f"{type(self).__name__}: shrinkage='auto' shrinks correlations, and a diagonal matrix has none"
            raise ParameterError(what, remedy="use a number, or leave covariance at its default")

    def _settle(self, m: ClassMoments, rows: Array | None = None) -> Whitening:
        """Fitted attributes from moments (and from few rows); returns what is known of the spread of the columns."""
        self._moments = m
        priors = self._class_priors(m)
        fit = self._solve(m, priors, self._feature_names(), self.classes_.tolist(), rows)
        self.priors_, self.means_ = priors, m.means
        self._rule = fit.rule
        self._keep(fit)
        return fit.whitening

    def _warn(self, found: Whitening) -> None:
        names = self._feature_names()
        said = []
        if found.constant.size:
            verb = "does" if found.constant.size == 1 else "do"
            apart = found.constant[np.ptp(self._moments.mean[self._moments.weight > 0][:, found.constant], axis=0) > 0]
            split = "separates" if apart.size == 1 else "separate"
            more = f" (though {name_columns(names, apart)} alone {split} the classes)" if apart.size else ""
            said.append(f"{name_columns(names, found.constant)} {verb} not vary within the classes{more}")
        rows, K, p = int(self._moments.rows.sum()), int((self._moments.weight > 0).sum()), len(names)
        if found.repeated.size and rows - K < p - found.constant.size:
            said.append(f"{rows} rows of {K} classes are too few for the covariance of {p} columns")
        elif found.repeated.size:
            verb = "repeats" if found.repeated.size == 1 else "repeat"
            said.append(f"{name_columns(names, found.repeated)} {verb} other columns within the classes")
        if said:
            remedy = "directions without variance are left out: drop columns, or set shrinkage above 0"
            warnings.warn(f"{' and '.join(said)}; {remedy}", CollinearityWarning, stacklevel=4)

    def _class_priors(self, m: ClassMoments) -> Array:
        if self.priors is None:
            return m.weight / m.weight.sum()
        priors = class_priors(self.priors, self.classes_)
        priors /= priors.sum()
        unseen = np.flatnonzero((priors > 0) & (m.weight == 0))
        if unseen.size:
            what = f"class {self.classes_.tolist()[unseen[0]]!r} has a prior above 0 but no rows"
            raise DataError(what, remedy="pass rows of every class, or set its prior to 0")
        return priors

    def _forget(self) -> None:
        """Drop what an earlier fit left behind."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            if name not in ("classes_", "n_features_in_", "feature_names_in_"):
                delattr(self, name)
        for name in ("_moments", "_rule", "_unsolved"):
            self.__dict__.pop(name, None)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows: their moments are merged with those of all rows seen before, and the answer is that of one `fit`.

        The first call names all `classes`; until one of them has rows its prior is 0. Rows too few to fit are kept
        and complained about by the first prediction.
        """
        self._check_parameters()
        self._refuse_contradictions()
        first = not hasattr(self, "_moments")
        X = self._validate(X, reset=first, order="C")
        w = self._weights(sample_weight, len(X))
        self._name_classes(classes, first)
        codes = self._known_codes(class_labels(y, len(X)), w)
        wanted, before = self._wanted(), getattr(self, "_moments", None)
        if before is not None and (before.kind != wanted["kind"] or (before.fourth is not None) != wanted["fourth"]):
            what = "the parameters need moments that were not computed for the earlier rows"
            raise ParameterError(what, remedy="start a new model after changing covariance or shrinkage")
        frame = frame_of(X, w) if before is None else before.frame
        m = summarize(X, codes, len(self.classes_), frame, w, **wanted, n_jobs=self.n_jobs)
        self._forget()
        try:
            self._settle(m if before is None else merge(before, m))
        except DataError as error:
            # More rows may mend it, so they are kept; `_settle` has stored the moments already.
            self._unsolved = (error.what, error.remedy)
        return self

    def _name_classes(self, classes: Any, first: bool) -> None:
        if first:
            if classes is None:
                what = "classes must be passed on the first call to partial_fit"
                raise DataError(what, remedy="pass all classes that will occur in y")
            named = class_labels(classes, len(np.ravel(np.asarray(classes))))
            self.classes_ = np.unique(named)
            if self.classes_.size < 2:
                raise DataError(f"classes has only one class, {named.tolist()[0]!r}", remedy="pass two or more")
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            what = f"classes = {classes!r} are not those of the first call, {self.classes_.tolist()}"
            raise DataError(what, remedy="pass the same classes, or none")

    def _known_codes(self, labels: Array, w: Array | None) -> Array:
        codes = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        strange = self.classes_[codes] != labels
        if w is not None:
            strange &= w > 0
        if strange.any():
            row = int(np.argmax(strange))
            what = f"y contains {labels.tolist()[row]!r} in row {row}, which is not one of the classes"
            raise DataError(what, remedy=f"the classes are {self.classes_.tolist()}")
        return codes

    # Answers.

    def _answer(self, X: Any, what: str) -> Array:
        X = self._validate(X, reset=False, order="C")
        if hasattr(self, "_unsolved"):
            raise DataError(self._unsolved[0] + " so far", remedy=self._unsolved[1])
        return evaluate(self._rule, X, what, n_jobs=self.n_jobs)

    def decision_function(self, X: Any) -> Array:
        """The discriminant functions (n, K); for two classes their difference (n,), the log odds of the second."""
        scores = self._answer(X, "scores")
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> Array:
        """The most probable class of each row; ties go to the first."""
        codes = self._answer(X, "codes")
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> Array:
        """Posterior probabilities, one column per class in the order of `classes_`."""
        return self._answer(X, "proba")

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the posterior probabilities, exact where the probabilities themselves would vanish."""
        return self._answer(X, "log_proba")

    def predict_folds(
        self, X: Any, y: Any, splits: Any, *, sample_weight: Any = None, method: str = "predict"
    ) -> list[Array] | None:
        """Answers for the test rows of every (train, test) pair of `splits`, without a fit per pair.

        `method` is "predict" or "predict_proba". The answers are those of a clone fitted to the training rows, to
        rounding; None where merged moments cannot give them (splits that are no partitions, a class or a spread that
        a training set does not hold), and this model stays as it is.

        >>> from assay.generative.discriminant import LinearDiscriminantAnalysis
        >>> X, y = np.array([[1.0], [2.0], [4.0], [5.0], [1.5], [6.0]]), np.array([0, 0, 1, 1, 0, 1])
        >>> splits = [([0, 1, 2, 3], [4, 5]), ([4, 5], [0, 1, 2, 3])]
        >>> LinearDiscriminantAnalysis().predict_folds(X, y, splits) is None  # nothing varies in the second
        True
        >>> splits = [([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1]), ([4, 5, 0, 1], [2, 3])]
        >>> [fold.tolist() for fold in LinearDiscriminantAnalysis().predict_folds(X, y, splits)]
        [[0, 1], [0, 0], [1, 1]]
        """
        if method not in ("predict", "predict_proba"):
            raise ParameterError(f"method = {method!r}", remedy="it must be 'predict' or 'predict_proba'")
        ours = all(getattr(type(self), name).__module__.startswith("assay.generative.") for name in ("fit", method))
        if not ours or sparse.issparse(X):
            return None
        model = clone(self)
        model._check_parameters()
        model._refuse_contradictions()
        X, codes, w = model._rows(X, y, sample_weight)
        trains = training_moments(X, codes, len(model.classes_), w, splits, **model._wanted(), n_jobs=self.n_jobs)
        if trains is None or any((m.weight == 0).any() for m in trains):
            return None
        answers = []
        for m, (_, test) in zip(trains, splits, strict=True):
            try:
                fit = model._solve(m, model._class_priors(m), model._feature_names(), model.classes_.tolist())
            except AssayError:
                return None  # the fit itself will say why
            if not fit.whitening.full:  # the fit itself will warn
                return None
            rows = np.asarray(test)
            rows = np.flatnonzero(rows) if rows.dtype == bool else rows
            found = evaluate(fit.rule, X, "codes" if method == "predict" else "proba", rows=rows, n_jobs=self.n_jobs)
            answers.append(model.classes_[found] if method == "predict" else found)
        return answers


def _centred(X: Array, codes: Array, w: Array | None, m: ClassMoments) -> Array:
    """Rows minus the mean of their class, in the frame, times the roots of their weights."""
    Z = (X - m.frame.centre) / m.frame.unit - m.mean[codes]
    if w is None:
        return Z
    counted = np.flatnonzero(w)
    return Z[counted] * np.sqrt(w[counted])[:, None]
