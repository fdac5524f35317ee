"""Searching a space of parameters: every candidate is validated on the same folds, one is chosen by a stated rule.

    for each setting t of the space:  the metric of the out-of-fold rows of the learner with t
    choose t by a rule of `select`, and refit with it on all rows

The figure of the chosen candidate is optimistic, for it was chosen by that very figure. A nested search validates the
whole procedure (search, choice, refit) on outer folds that the search never sees:

    optimism = (nested estimate - own estimate of the chosen candidate), counted so that positive means too rosy

Cost: settings x folds fits, and one more; nested, that many times the outer folds. An estimator that offers
`predict_folds` is asked once per setting instead of fitted once per fold. With `cv="oob"` a bagged ensemble is judged
by its out-of-bag predictions, with `cv="own"` a learner that stops early by the rows it held out for that: one fit per
setting, and the chosen one is there already.
Stone (1974), JRSS B 36, 111-147; Varma and Simon (2006), BMC Bioinformatics 7:91; Cawley and Talbot (2010), JMLR 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from assay.checks import choice, number
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation import _candidates
from assay.evaluation._search_result import Search, tabulate
from assay.evaluation._trials import Trial, Trials, set_in, try_all
from assay.evaluation.figures import undefined_over
from assay.evaluation.learner import Rows, choose_metric, fit_rows, label_of
from assay.evaluation.select import RULES, Selection, choose, panel_of
from assay.evaluation.validate import cross_validate
from assay.evaluation.wrapper import Wrapper
from assay.metrics.definition import Metric
from assay.resampling import Scheme, scheme_of, splits_of, take

__all__ = ["Search", "SearchCV", "search"]

Array = np.ndarray


class SearchCV(Wrapper):
    """A learner that chooses its own parameters by cross-validation each time it is fitted.

        theta* = rule(e_tk: settings t, folds k),   model = estimator(theta*) fitted to all rows

    Because choosing is part of `fit`, `cross_validate(SearchCV(...), X, y)` is nested cross-validation, and a tuned
    learner takes its place among others. Fitted: `best_params_`, `best_estimator_`, `best_score_`, `best_index_`,
    `selection_`, `result_` (a `Search`). It passes on what its estimator is: classifier or regressor, sparse input,
    weights. `fit` also takes `groups`, rows that stay together in the folds.

    | parameter    | default | range                      | meaning                                              |
    |--------------|---------|----------------------------|------------------------------------------------------|
    | estimator    |         | fit, predict, set_params   | the learner; cloned, never changed                   |
    | space        |         | dict or list of dicts      | what to try of each parameter (below)                |
    | method       | "grid"  | "grid", "random"           | every point of the space, or draws from it           |
    | n_candidates | None    | >= 1                       | how many draws; None: 20                             |
    | cv           | 5       | number, splitter, pairs,   | the folds, the same for all candidates (below)       |
    |              |         | "oob", "own"               |                                                      |
    | metric       | None    | name or `Metric`           | None: error rate of classes, mse of numbers          |
    | rule         | "best"  | "best", "one_se", "within" | see `select`                                         |
    | percent      | 2.0     | >= 0                       | with "within": how much worse than the best          |
    | paired       | True    | True, False                | with "one_se": paired differences, or classic        |
    | simplicity   | None    | (name, "low" or "high")    | what makes a candidate simple (below)                |
    | refit        | True    | True, False                | fit the chosen candidate to all rows                 |
    | random_state | 0       | seed                       | for the draws, and for `cv` given as a number        |
    | n_jobs       | None    | None or non-zero           | workers; no result depends on it                     |

    `space` holds a list of values per parameter; a random search also takes distributions (anything with `rvs`, such
    as `scipy.stats.loguniform(1e-3, 1e3)`). `simplicity=("max_depth", "low")` calls low depths simple; several such
    pairs in a list are compared one after another; a function of the parameters gives a number that grows with
    complexity. A parameter that is None, without a limit, is the most complex. Equally good candidates: the simpler,
    then the first. A candidate that fails is listed with its reason and stops no other.

    `cv="oob"`, for forests and bagging (the estimator, or the last step of a pipeline), takes each row's prediction
    from the trees that have not seen it instead of from folds (Breiman 1996). A pipeline's earlier steps have seen
    all rows, so they should not look at the target; rows that belong together in groups need folds. `cv="own"`, for
    boosting with early stopping, takes the predictions of the rows that it held out to choose its number of trees: the
    figure is a little rosy, alike for all candidates, and groups are kept together as early stopping keeps them.

    Cawley and Talbot (2010), JMLR 11, 2079-2107.

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> space = {"n_neighbors": [5, 10, 20, 40, 80]}
    >>> tuned = SearchCV(KNeighborsRegressor(), space, rule="one_se", simplicity=("n_neighbors", "high")).fit(X, y)
    >>> tuned.best_params_, tuned.selection_.best
    ({'n_neighbors': 40}, 'n_neighbors=20')
    """

    def __init__(
        self,
        estimator: Any,
        space: Any,
        *,
        method: str = "grid",
        n_candidates: int | None = None,
        cv: Any = 5,
        metric: Any = None,
        rule: str = "best",
        percent: float = 2.0,
        paired: bool = True,
        simplicity: Any = None,
        refit: bool = True,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.space = space
        self.method = method
        self.n_candidates = n_candidates
        self.cv = cv
        self.metric = metric
        self.rule = rule
        self.percent = percent
        self.paired = paired
        self.simplicity = simplicity
        self.refit = refit
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _stored(self) -> Any:
        """A model file holds the candidate that was chosen and refitted; the search itself stays behind."""
        return getattr(self, "best_estimator_", self)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Try every candidate on the same folds, choose one, and fit it to all rows."""
        choice(self.rule, "rule", RULES)
        number(self.percent, "percent", 0)
        rows = self._validated(X, y, sample_weight, groups)
        seed = _candidates.sampler_seed(self.random_state)
        settings = _candidates.candidates(self.estimator, self.space, self.method, self.n_candidates, seed)
        order, given = _candidates.order(self.simplicity, settings, self.estimator, self.rule)
        metric = choose_metric(self.metric, rows)
        if rows.weights is not None and not metric.weighted:
            raise ParameterError(f"{metric.name} has no weighted form", remedy="leave sample_weight out")
        splits, scheme = self._splits(rows, metric, seed)
        work = Trials(self.estimator, settings, rows, splits, metric, judge=self.cv if isinstance(self.cv, str) else "")
        trials = try_all(work, scheme, self.n_jobs)
        found = self._judge(settings, trials, rows, work.splits, scheme, metric, order, given)
        if self.refit:
            there = trials[found.index].model
            model = fit_rows(set_in(self.estimator, found.best), rows) if there is None else there
            found = replace(found, model=model)
        # The one change of this object, made when nothing can fail or be interrupted any more.
        self.result_ = found
        return self

    def _inner(self) -> Any:
        return self.estimator

    def _splits(self, rows: Rows, metric: Metric, seed: int) -> tuple[Any, Scheme]:
        """The folds, or all rows on both sides where the candidates bring predictions of rows they have not seen."""
        if isinstance(self.cv, str):
            if self.cv not in ("oob", "own"):
                remedy = 'use a number, a splitter, pairs, "oob" or "own"'
                raise ParameterError(f"unknown cv = {self.cv!r}", remedy=remedy)
            if self.cv == "oob" and rows.groups is not None:
                message = "out-of-bag predictions do not keep groups together"
                raise ParameterError(message, remedy="use folds that keep groups together, such as cv=5")
            every = np.arange(rows.n)
            kind = "out-of-bag" if self.cv == "oob" else "held out by the learner"
            return [(every, every)], Scheme(kind, 1, 1, float(rows.n), float(rows.n), rows.n)
        splits = splits_of(
            self.cv, rows.X, rows.y, groups=rows.groups, classes=rows.classes is not None, random_state=seed
        )
        scheme = scheme_of(splits, rows.n)
        why = undefined_over(metric, rows, splits, scheme)
        if why is not None:
            raise DataError(f"{metric.name} has no value on the folds of the search: {why.what}", remedy=why.remedy)
        return splits, scheme

    def _judge(
        self,
        settings: Sequence[dict[str, Any]],
        trials: Sequence[Trial],
        rows: Rows,
        splits: Any,
        scheme: Scheme,
        metric: Metric,
        order: Array,
        given: str,
    ) -> Search:
        """Choose among the candidates that have a score on every fold."""
        names = _candidates.labels(settings)
        good = np.array([at for at, trial in enumerate(trials) if not trial.failed], dtype=int)
        if good.size == 0:
            first = trials[0]
            kind = DataTypeError if first.of_type else DataError
            message = f"no candidate could be fitted: {names[0]} failed in {first.failed}"
            raise kind(message, remedy=first.remedy)
        figures = [trials[at].figure for at in good]
        panel = panel_of([names[at] for at in good], figures, splits, rows.weights, scheme, metric)
        chosen = choose(panel, order[good], self.rule, self.percent, self.paired, given)
        table = tabulate(settings, names, trials, len(splits))
        shown = chosen.table.reindex(table.index)
        loss = shown["estimate"] * (-1 if metric.greater_is_better else 1)
        ranked = np.lexsort((np.arange(len(names)), order, loss.to_numpy()))[: good.size]  # NaN comes last
        table["estimate"], table["std_error"] = shown["estimate"], shown["std_error"]
        table.iloc[ranked, table.columns.get_loc("rank")] = np.arange(1, good.size + 1)
        index = names.index(chosen.name)
        return Search(
            best=dict(settings[index]),
            index=index,
            candidates=tuple(settings),
            table=table,
            selection=chosen,
            model=None,
            estimator=clone(self.estimator),
            method=self.method,
            metric=metric,
            scheme=scheme,
            splits=splits,
        )

    @property
    def best_params_(self) -> dict[str, Any]:
        """The chosen parameters."""
        check_is_fitted(self)
        return self.result_.best

    @property
    def best_index_(self) -> int:
        """The position of the chosen candidate."""
        check_is_fitted(self)
        return self.result_.index

    @property
    def best_score_(self) -> float:
        """The mean score of the chosen candidate, in the metric's own sign; optimistic."""
        check_is_fitted(self)
        return self.result_.estimate

    @property
    def selection_(self) -> Selection:
        """The rule, its table and why this candidate was chosen."""
        check_is_fitted(self)
        return self.result_.selection

    @property
    def best_estimator_(self) -> Any:
        """The chosen candidate, fitted to all rows."""
        check_is_fitted(self)
        if self.result_.model is None:
            raise AttributeError("fitted with refit=False, so there is no best_estimator_; pass refit=True")
        return self.result_.model

    @property
    def classes_(self) -> Array:
        """The labels, for a classifier."""
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """How many columns there were in `fit`."""
        return self.best_estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Array:
        """The names of the columns in `fit`, where they had any."""
        return self.best_estimator_.feature_names_in_

    def predict(self, X: Any) -> Array:
        """Predictions of the chosen candidate."""
        return self.best_estimator_.predict(X)

    @available_if(lambda self: _offers(self, "predict_proba"))
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, where the estimator has them."""
        return self.best_estimator_.predict_proba(X)

    @available_if(lambda self: _offers(self, "predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms, where the estimator has them."""
        return self.best_estimator_.predict_log_proba(X)

    @available_if(lambda self: _offers(self, "decision_function"))
    def decision_function(self, X: Any) -> Array:
        """Scores of the classes, where the estimator has them."""
        return self.best_estimator_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The metric of the predictions, losses with a minus sign; the estimator's own score with metric=None."""
        if self.metric is None:
            options = {} if sample_weight is None else {"sample_weight": sample_weight}
            return float(self.best_estimator_.score(X, y, **options))
        return self.result_.metric.scorer()(self.best_estimator_, X, y, sample_weight)


def _offers(searcher: SearchCV, name: str) -> bool:
    model = searcher.result_.model if hasattr(searcher, "result_") else None
    # Raises the estimator's own AttributeError, which says more than False.
    getattr(searcher.estimator if model is None else model, name)
    return True


def search(
    estimator: Any,
    X: Any,
    y: Any,
    space: Any,
    *,
    method: str = "grid",
    n_candidates: int | None = None,
    cv: Any = 5,
    metric: Any = None,
    rule: str = "best",
    percent: float = 2.0,
    paired: bool = True,
    simplicity: Any = None,
    nested: Any = None,
    refit: bool = True,
    groups: Any = None,
    sample_weight: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Search:
    """Search a space of parameters, choose by a stated rule, refit, and say what the choice is worth.

        theta* = rule(e_tk: settings t, folds k),   model = estimator(theta*) fitted to all rows

    | parameter    | default | range                      | meaning                                              |
    |--------------|---------|----------------------------|------------------------------------------------------|
    | estimator    |         | fit, predict, set_params   | the learner; cloned, never changed                   |
    | space        |         | dict or list of dicts      | what to try of each parameter, as in `SearchCV`      |
    | method       | "grid"  | "grid", "random"           | every point of the space, or draws from it           |
    | n_candidates | None    | >= 1                       | how many draws; None: 20                             |
    | cv           | 5       | number, splitter, pairs,   | the folds, as in `SearchCV`                          |
    |              |         | "oob", "own"               |                                                      |
    | metric       | None    | name or `Metric`           | None: error rate of classes, mse of numbers          |
    | rule         | "best"  | "best", "one_se", "within" | see `select`                                         |
    | percent      | 2.0     | >= 0                       | with "within": how much worse than the best          |
    | paired       | True    | True, False                | with "one_se": paired differences, or classic        |
    | simplicity   | None    | (name, "low" or "high")    | what makes a candidate simple, as in `SearchCV`      |
    | nested       | None    | a number, splitter, pairs  | outer folds that validate the whole procedure        |
    | refit        | True    | True, False                | fit the chosen candidate to all rows                 |
    | groups       | None    | one label per row          | rows that stay together, in inner and outer folds    |
    | random_state | 0       | seed                       | for the draws, and for folds given as a number       |
    | n_jobs       | None    | None or non-zero           | workers; no result depends on it                     |

    Varma and Simon (2006), BMC Bioinformatics 7:91.

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tree = DecisionTreeRegressor(random_state=0)
    >>> found = search(tree, X, y, {"max_depth": [1, 2, 3, 4, 5, None]}, nested=5)
    >>> found.best, round(found.estimate), round(found.nested.estimate), round(found.optimism)
    ({'max_depth': 3}, 3832, 3938, 105)
    >>> simple = search(tree, X, y, {"max_depth": [1, 2, 3, 4]}, rule="one_se", simplicity=("max_depth", "low"))
    >>> simple.best
    {'max_depth': 3}
    """
    if nested is not None and not refit:
        raise ParameterError("a nested search needs refit=True", remedy="pass refit=True")
    seed = _candidates.sampler_seed(random_state)
    tuned = SearchCV(
        estimator,
        space,
        method=method,
        n_candidates=n_candidates,
        cv=cv,
        metric=metric,
        rule=rule,
        percent=percent,
        paired=paired,
        simplicity=simplicity,
        refit=refit,
        random_state=seed,
        n_jobs=n_jobs,
    )
    found = clone(tuned).fit(X, y, sample_weight=sample_weight, groups=groups).result_
    if nested is None:
        return found
    # The outer folds are shared out among the workers, so the searches inside run on one.
    tuned.set_params(n_jobs=None)
    learner, table = (tuned, X) if groups is None else _by_number(tuned, X, groups)
    outer = cross_validate(
        learner,
        table,
        y,
        cv=nested,
        metric=metric,
        groups=groups,
        sample_weight=sample_weight,
        name=f"searched {label_of(estimator)}",
        n_jobs=n_jobs,
        random_state=seed,
    )
    return replace(found, nested=replace(outer, estimator=clone(tuned)))


class _ByNumber(MetaEstimatorMixin, BaseEstimator):
    """A search whose table is a column of row numbers, so that the rows it is given bring their groups along."""

    def __init__(self, estimator: SearchCV, source: _Source) -> None:
        self.estimator = estimator
        self.source = source

    def fit(self, X: Array, y: Array, sample_weight: Any = None) -> Self:
        rows = X[:, 0]
        self.model_ = clone(self.estimator).fit(
            take(self.source.X, rows), y, sample_weight=sample_weight, groups=self.source.groups[rows]
        )
        return self

    @property
    def classes_(self) -> Array:
        return self.model_.classes_

    def __getattr__(self, name: str) -> Any:
        if name not in ("predict", "predict_proba", "decision_function") or "estimator" not in vars(self):
            raise AttributeError(name)
        method = getattr(vars(self).get("model_", self.estimator), name)
        return lambda X: method(take(self.source.X, X[:, 0]))

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)


@dataclass(frozen=True, eq=False)
class _Source:
    """A table and its groups, which clones share instead of copying."""

    X: Any
    groups: Array

    def __deepcopy__(self, memo: Any) -> _Source:
        return self


def _by_number(tuned: SearchCV, X: Any, groups: Any) -> tuple[_ByNumber, Array]:
    table = np.asarray(X) if isinstance(X, list | tuple) else X
    return _ByNumber(tuned, _Source(table, np.asarray(groups))), np.arange(table.shape[0])[:, None]
