"""Bagging: the same learner on many bootstrap samples, and the mean or the vote of what the models say.

    f(x) = (1/B) sum_b f_b(x),     Var f(x) = rho s^2 + (1 - rho) s^2 / B

with s^2 the variance of one model and rho the correlation of two. More models lower the variance down to rho s^2 and
leave the bias alone, so it helps learners that change much with their rows, such as deep trees. A classifier's models
vote (the class most of them say) or their probabilities are averaged; the two differ where a few are sure and many
lean weakly the other way. A sample of n rows leaves out a row with probability .368, and those judge the models
(`_oob`).

A learner that takes `sample_weight` sees every row, weighted by how often it was drawn; any other learner, and a
pipeline, whose early steps must not learn from rows left out, gets the drawn rows themselves. Of equally good splits a
bagged tree takes that of the column which is first in an order of its own (`_ties`). Seeds are spawned before the work
is shared out. Cost: B fits; trees share the reading and sorting of the table (`_bagged`). A forest with
max_features=None is bagged trees on binned columns, and faster still.

Breiman (1996), Machine Learning 24, 123-140.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from assay.base import (
    Constraint,
    Estimator,
    boolean,
    integer,
    jobs,
    none,
    one_of,
    real,
    seed,
    weight_name,
)
from assay.callbacks import fit_task, side_by_side
from assay.checks import refuse_vector
from assay.errors import DataError, ParameterError
from assay.labels import class_codes
from assay.numerics.threads import parallel
from assay.resampling import take
from assay.shapley import PREDICTION, PROBABILITY, ShapleyPart, ShapleyTask
from assay.state import Specs, anything, classes, ints, need, several
from assay.trees._bagged import SharedTable, leaf_values
from assay.trees._oob import (
    DRAWN,
    OOB_SCORE,
    SAMPLES,
    DrawsRows,
    OutOfBag,
    Sampler,
    entropy_of,
    tree_seeds,
    unit_of,
)
from assay.trees._shapley import shapley_part
from assay.trees._sparse import canonical
from assay.trees._target import numeric_target
from assay.trees.cart import DecisionTreeClassifier, DecisionTreeRegressor
from assay.trees.nodes import concatenate
from assay.trees.tree import Tree

__all__ = ["BaggingClassifier", "BaggingRegressor"]

Array = np.ndarray
TRIES = 1000
"""How often a sample is drawn again because it holds one class only."""

_learner = none | Constraint(lambda v: hasattr(v, "fit") and hasattr(v, "predict"), "a learner with fit and predict")
SHARED: dict[str, Constraint] = {
    "estimator": _learner,
    "n_estimators": integer(1),
    "max_samples": SAMPLES,
    "max_features": integer(1) | real(0, 1, open_low=True),
    "bootstrap": boolean,
    "oob_score": OOB_SCORE,
    "random_state": seed,
    "n_jobs": jobs,
}


class _Bagging(DrawsRows, MetaEstimatorMixin, Estimator):
    """Drawing, fitting and judging the models; a subclass says what the target is and how answers are joined."""

    state: ClassVar[Specs] = {
        **DRAWN,
        "estimators_": several(anything, "trees"),
        "estimators_features_": several(ints(None, below="p"), "trees"),
        "_reads_once": boolean,
    }

    def _check_state(self) -> None:
        need(len(self.estimators_) > 0 and all(hasattr(model, "predict") for model in self.estimators_))
        for model, columns in zip(self.estimators_, self.estimators_features_, strict=True):
            need(columns.size > 0 and getattr(model, "n_features_in_", columns.size) == columns.size)
            if hasattr(self, "classes_") and hasattr(model, "classes_"):
                need(np.array_equal(model.classes_, self.classes_), "its classes differ")
            if self._reads_once:  # all walk through the table that the first one reads
                need(SharedTable.serves(model) and columns.size == self.n_features_in_)
                model.nodes_.check_columns(self.estimators_[0].levels_)

    fit_steps = "model"
    estimator: Any
    n_estimators: int
    max_samples: Any
    max_features: Any
    bootstrap: bool
    oob_score: Any
    random_state: Any
    n_jobs: int | None
    estimators_: list[Any]
    estimators_features_: list[Array]
    seeds_: Array
    classes_: Array
    _sampler: Sampler
    _reads_once: bool

    def _base(self) -> Any:
        raise NotImplementedError

    def _answer(self, model: Any, X: Any) -> Array:
        """What one model says, rows x K."""
        raise NotImplementedError

    def _of_leaves(self, value: Array) -> Array:
        """The same from what the leaves of a tree say."""
        raise NotImplementedError

    def _fit_all(self, X: Any, y: Array, codes: Array | None, w: Array | None) -> None:
        """Fit every model to its rows and columns, then judge all by the rows they did not see."""
        n, p, base = X.shape[0], X.shape[1], self._base()
        name = weight_name(base)
        rows, size = self._row_sampler(n, w), self._columns(p)
        if w is not None and name is None and not rows.bootstrap:
            what = f"sample_weight was given, but {type(base).__name__} does not support them"
            raise DataError(what, remedy="use bootstrap=True, which draws rows by weight, or leave sample_weight out")
        kept = None if rows.bootstrap else w  # a bootstrap uses the weights up
        seeds = tree_seeds(entropy_of(self.random_state), self.n_estimators)
        self.seeds_ = _with_classes(seeds, rows, codes)
        self.estimators_features_ = [_draw_columns(int(seed), p, size) for seed in seeds]
        weighs = name == "sample_weight"  # a pipeline's first steps would still see the rows left out
        self._reads_once = size == p and SharedTable.serves(base)
        if self._reads_once:
            target = y if codes is None else codes.astype(np.int64)
            shared = SharedTable(base, X, target, None if codes is None else self.classes_)

        def one(k: int) -> Any:
            model, counts = clone(base), rows.counts(int(self.seeds_[k]))
            _seed(model, int(self.seeds_[k]))
            if self._reads_once:
                return shared.tree(model, rows.weights(counts, kept))
            part = X if size == p else _take_columns(X, self.estimators_features_[k])
            if weighs and (counts is not None or kept is not None):
                return model.fit(part, y, sample_weight=rows.weights(counts, kept))
            if counts is None:
                return model.fit(part, y) if kept is None else model.fit(part, y, **{str(name): kept})
            drawn = np.repeat(np.arange(n), counts)
            options = {} if kept is None else {str(name): kept[drawn]}
            return model.fit(take(part, drawn), y[drawn], **options)

        task = fit_task(self, seeds.size, sequential=False)
        counted = side_by_side(one, seeds.size, "models", task=task, step=self.fit_steps)
        self.estimators_ = parallel(counted, range(seeds.size), n_jobs=self.n_jobs)
        self._sampler = rows
        self._forget_out_of_bag()
        if self.oob_score is True or (self.oob_score == "auto" and rows.leaves_out):
            table = shared.table if self._reads_once else X
            self._judge(table, y if codes is None else codes, w, 0 if codes is None else self.classes_.size)

    def _columns(self, p: int) -> int:
        asked = self.max_features
        if isinstance(asked, float | np.floating):
            return max(1, int(float(asked) * p))
        if asked > p:
            what = f"max_features = {asked}, but X has {p} columns"
            raise ParameterError(what, remedy=f"use at most {p}, or a fraction such as 1.0")
        return int(asked)

    def _judge(self, X: Any, target: Array, w: Array | None, classes: int) -> None:
        found = OutOfBag(target.astype(np.float64), w, classes, unit_of(target, classes))

        def answers(k: int) -> tuple[Array, Array]:
            out = self._sampler.left_out(int(self.seeds_[k]))
            return out, self._ask(k, take(X, out)) if out.size else np.empty((0, max(1, classes)))

        for start in range(0, self.n_estimators, 32):
            part = range(start, min(start + 32, self.n_estimators))
            for out, said in parallel(answers, part, n_jobs=self.n_jobs):
                found.add(out, said)
        self._set_out_of_bag(found.figures("model"))

    def _ask(self, k: int, X: Any) -> Array:
        if self._reads_once:
            return self._of_leaves(leaf_values(self.estimators_[k], X))
        columns = self.estimators_features_[k]
        return self._answer(self.estimators_[k], X if columns.size == X.shape[1] else _take_columns(X, columns))

    def _mean(self, X: Any) -> Array:
        """Mean over models, added in their order."""
        X = self._rows(X, reset=False)
        total: Any = 0.0
        with warnings.catch_warnings():
            # The caller has been told once about names of columns; each model would say it again.
            warnings.filterwarnings("ignore", message="X (has feature names|does not have valid feature names)")
            if self._reads_once:
                X = self.estimators_[0]._table(X, reset=False)
            for start in range(0, len(self.estimators_), 32):
                part = range(start, min(start + 32, len(self.estimators_)))
                for said in parallel(lambda k: self._ask(k, X), part, n_jobs=self.n_jobs):
                    total = total + said
        return np.asarray(total / len(self.estimators_))

    def __shapley__(self, task: ShapleyTask) -> ShapleyPart | None:
        """Exact Shapley values of the mean of trees that see every column; None for other models."""
        if not self._reads_once:
            return None
        first = self.estimators_[0]
        X, background = (
            first._table(self._rows(table, reset=False), reset=False) for table in (task.X, task.background)
        )
        nodes = concatenate([model.nodes_ for model in self.estimators_])
        nodes = replace(nodes, value=self._of_leaves(nodes.value))
        scale = PROBABILITY if hasattr(self, "classes_") else PREDICTION
        return shapley_part(nodes, task, (X, background), scale, mean=True, n_jobs=self.n_jobs)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """The table as it came, known to have rows and columns; what is in it is the learner's business."""
        if reset:
            self._check_parameters()
        else:
            check_is_fitted(self, "estimators_")
        X = self._as_came(X, reset=reset)
        refuse_vector(X)
        if sparse.issparse(X) and getattr(X, "format", "") not in ("csr", "csc"):
            X = canonical(self._validate(X, reset=reset, sparse=True, dtype=None, finite=False))  # rows can be taken
        self._match_columns(X, reset=reset)
        return X

    @property
    def estimators_samples_(self) -> list[Array]:
        """For each model the rows it was fitted to, repeated ones as often as they were drawn."""
        check_is_fitted(self, "estimators_")
        every = np.arange(self._sampler.n)
        counts = (self._sampler.counts(int(seed)) for seed in self.seeds_)
        return [every if c is None else np.repeat(every, c) for c in counts]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._base()).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        tags.input_tags.categorical = inner.categorical
        tags.input_tags.string = inner.string
        return tags


class BaggingRegressor(RegressorMixin, _Bagging):
    """The mean of one learner fitted to many bootstrap samples.

    Defaults that differ from scikit-learn's: 100 models, and the out-of-bag error is always there.

        f(x) = (1/B) sum_b f_b(x)

    | parameter    | default | range               | meaning                                             |
    |--------------|---------|---------------------|-----------------------------------------------------|
    | estimator    | None    | has fit and predict | the learner; None: `DecisionTreeRegressor`          |
    | n_estimators | 100     | 1 or more           | models B; more only lower the variance              |
    | max_samples  | 1.0     | count, share, None  | rows drawn for each model                           |
    | max_features | 1.0     | count or share      | columns drawn for each model, without replacement   |
    | bootstrap    | True    | True, False         | draw rows with replacement                          |
    | oob_score    | "auto"  | "auto", True, False | out-of-bag figures; True insists on them            |
    | random_state | None    | seed                | rows and columns drawn, and the learners' own seeds |
    | n_jobs       | None    | non-zero            | models at a time; never changes the result          |

    Fitted: `estimators_`, `estimators_features_` (columns of each), `estimators_samples_` (rows of each), `seeds_`;
    out of bag `oob_error_` (mean squared error with its interval), `oob_prediction_` (NaN for rows that every model
    saw), `oob_votes_`, `oob_curve_` (error against the number of models) and `oob_score_` (R2). A
    learner that takes sparse X gets it by rows or by columns. Breiman (1996), Machine Learning 24, 123-140.

    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> bag = BaggingRegressor(KNeighborsRegressor(3), n_estimators=20, random_state=0).fit(X, y)
    >>> bag.predict([[1.5]]).round(2).tolist()
    [1.0]
    """

    constraints = SHARED

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 100,
        *,
        max_samples: Any = 1.0,
        max_features: Any = 1.0,
        bootstrap: bool = True,
        oob_score: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the models; X goes to the learner as it is."""
        X = self._rows(X, reset=True)
        w = self._weights(sample_weight, X.shape[0])
        self._fit_all(X, numeric_target(self, y, X.shape[0]), None, w)
        return self

    def predict(self, X: Any) -> Array:
        """The mean of the models."""
        return self._mean(X)[:, 0]

    def _base(self) -> Any:
        return DecisionTreeRegressor() if self.estimator is None else self.estimator

    def _answer(self, model: Any, X: Any) -> Array:
        return np.asarray(model.predict(X), dtype=np.float64).reshape(-1, 1)

    def _of_leaves(self, value: Array) -> Array:
        return value


class BaggingClassifier(ClassifierMixin, _Bagging):
    """The vote of one learner fitted to many bootstrap samples.

    Defaults that differ from scikit-learn's: 100 models, each with one vote (`vote="probability"` averages their
    probabilities, as scikit-learn does), and the out-of-bag error is always there.

        majority     the class that most models say; `predict_proba` is the share of the votes
        probability  the class with the largest mean probability (1/B) sum_b P_b(k | x)

    With P(Red) = .1 .15 .2 .2 .55 .6 .6 .65 .7 .75 from ten models, six of ten vote Red, while the mean .45 says Green.
    Between classes with equal votes the first in order wins.

    | parameter    | default    | range                     | meaning                                             |
    |--------------|------------|---------------------------|-----------------------------------------------------|
    | estimator    | None       | has fit and predict       | the learner; None: `DecisionTreeClassifier`         |
    | n_estimators | 100        | 1 or more                 | models B; more only lower the variance              |
    | max_samples  | 1.0        | count, share, None        | rows drawn for each model                           |
    | max_features | 1.0        | count or share            | columns drawn for each model, without replacement   |
    | bootstrap    | True       | True, False               | draw rows with replacement                          |
    | vote         | "majority" | "majority", "probability" | count votes, or average probabilities               |
    | oob_score    | "auto"     | "auto", True, False       | out-of-bag figures; True insists on them            |
    | random_state | None       | seed                      | rows and columns drawn, and the learners' own seeds |
    | n_jobs       | None       | non-zero                  | models at a time; never changes the result          |

    Fitted: `classes_`, `estimators_`, `estimators_features_` (columns of each), `estimators_samples_` (rows of each),
    `seeds_`; out of bag `oob_error_` (error rate with its interval), `oob_decision_function_` (NaN for rows that
    every model saw), `oob_votes_`, `oob_curve_` (error against the number of models) and `oob_score_` (accuracy). A
    sample of one class only is drawn again. A learner that takes sparse X gets it by rows or by columns. Breiman
    (1996), Machine Learning 24, 123-140.

    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> y = np.where(X[:, 0] > 0.5, "high", "low")
    >>> bag = BaggingClassifier(KNeighborsClassifier(3), n_estimators=20, random_state=0).fit(X, y)
    >>> bag.predict([[0.9], [0.1]]).tolist()
    ['high', 'low']
    """

    state: ClassVar[Specs] = {
        "classes_": classes("k"),
    }

    constraints = {**SHARED, "vote": one_of("majority", "probability")}

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 100,
        *,
        max_samples: Any = 1.0,
        max_features: Any = 1.0,
        bootstrap: bool = True,
        vote: str = "majority",
        oob_score: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.vote = vote
        self.oob_score = oob_score
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the models; X goes to the learner as it is."""
        X = self._rows(X, reset=True)
        w = self._weights(sample_weight, X.shape[0])
        base = self._base()
        if self.vote == "probability" and not hasattr(base, "predict_proba"):
            what = f"vote='probability', but {type(base).__name__} has no predict_proba"
            raise ParameterError(what, remedy="use vote='majority'")
        self.classes_, codes = class_codes(y, X.shape[0], w)
        self._fit_all(X, self.classes_[codes], codes, w)
        return self

    def predict(self, X: Any) -> Array:
        """The class with the most votes, or the largest mean probability."""
        mean = self._mean(X)
        return self.classes_[np.argmax(mean, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Shares of the votes, or mean probabilities; one column per class."""
        return self._mean(X)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`, -inf where it is zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _base(self) -> Any:
        return DecisionTreeClassifier() if self.estimator is None else self.estimator

    def _answer(self, model: Any, X: Any) -> Array:
        if self.vote == "majority":
            said = np.searchsorted(self.classes_, model.predict(X))
            return np.eye(self.classes_.size)[said]
        # A model's sample may lack a class.
        probability = np.zeros((X.shape[0], self.classes_.size))
        probability[:, np.searchsorted(self.classes_, model.classes_)] = model.predict_proba(X)
        return probability

    def _of_leaves(self, value: Array) -> Array:
        return np.eye(self.classes_.size)[np.argmax(value, axis=1)] if self.vote == "majority" else value


def _with_classes(seeds: Array, rows: Sampler, codes: Array | None) -> Array:
    """The seeds, replaced where they draw rows of one class only, from which nothing can be learnt."""
    if codes is None or not rows.leaves_out:
        return seeds
    seeds = seeds.copy()
    for k in range(seeds.size):
        fresh = np.random.default_rng((int(seeds[k]), 2))
        for _ in range(TRIES):
            counts = rows.counts(int(seeds[k]))
            drawn = codes if counts is None else codes[counts > 0]
            if drawn.min() < drawn.max():
                break
            seeds[k] = fresh.integers(0, 2**32)
        else:
            what = f"{TRIES} samples of {rows.size} rows had only one class"
            raise DataError(what, remedy="raise max_samples, or pass more rows of the rarer class")
    return seeds


def _draw_columns(seed: int, p: int, size: int) -> Array:
    if size == p:
        return np.arange(p)
    return np.sort(np.random.default_rng((seed, 1)).choice(p, size, replace=False))


def _take_columns(X: Any, columns: Array) -> Any:
    return X.iloc[:, columns] if hasattr(X, "iloc") else X[:, columns]


def _seed(model: Any, seed: int) -> None:
    """Give every `random_state` in the learner a seed of its own, and a tree its own order of columns."""
    names = sorted(name for name in model.get_params(deep=True) if name.split("__")[-1] == "random_state")
    if names:
        states = np.random.SeedSequence((seed, 3)).generate_state(len(names))
        model.set_params(**{name: int(state) for name, state in zip(names, states, strict=True)})
    if isinstance(model, Tree):
        # Small nodes have many equally good splits: always the first column would make the models alike.
        model._draws_ties = True
