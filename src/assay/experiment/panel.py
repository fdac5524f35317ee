"""The panel: every learner the engine can run, its tuning space, its cost, and whether a reader can follow it.

This is the one place that knows the families by name. A learner is declared once; the protocol puts its preprocessing
in front of it and, unless it tunes itself, a search around it, so that all of it is fitted inside each fold.

A learner is readable if its fitted model can be written down and followed: a line (also shrunken or chosen), a
discriminant, naive Bayes, one tree. The others are not ranked by complexity: a forest is not simpler than boosting.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module, invalidate_caches
from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.pipeline import Pipeline

from assay.errors import ParameterError
from assay.evaluation import Ensemble, SearchCV, ThresholdClassifier
from assay.experiment.baseline import BaselineClassifier
from assay.experiment.calibrated import CalibratedIfBetter
from assay.experiment.columns import Columns
from assay.experiment.options import PANELS, TASKS
from assay.experiment.peers import PEERS, peer
from assay.resampling import Folds, TimeFolds

__all__ = [
    "BASELINE",
    "PANELS",
    "TASKS",
    "Learner",
    "assemble",
    "learners",
    "panel",
    "pipeline_of",
    "strongest_first",
    "user_learner",
    "weighs_classes",
]

BASELINE = "baseline"
INNER = 5
"""Folds of a search inside a fold."""


@dataclass(frozen=True)
class Learner:
    """One learner of the panel.

    | field     | meaning                                                                                          |
    |-----------|--------------------------------------------------------------------------------------------------|
    | make      | `make(seed)` gives the unfitted estimator with its defaults                                      |
    | space     | parameters to try, each with a few values; empty for learners that tune themselves or not at all |
    | judged    | how they are compared: "folds" inside the training rows, "oob", by out-of-bag predictions, or    |
    |           | "own", by the rows that the learner holds out to stop early                                      |
    | simple    | which parameter values are simpler, for ties: pairs (name, "low" or "high")                      |
    | order     | its place where learners are listed                                                              |
    | panels    | the panels it belongs to                                                                         |
    | cost      | multiply-adds of one fit, roughly, as a function of rows and columns, for two classes; what an   |
    |           | ensemble costs follows from its members                                                          |
    | classes   | how many times that a fit takes with so many classes                                             |
    | memory    | bytes of one fit beyond the table, by columns and classes, where they grow faster than the table |
    | own       | whether it is ours (figures repeat to the bit) or another package's                              |
    | sized     | settings that follow from the number of rows, their order ("", "group" or "time"), the classes   |
    | ordered   | the space searched, in place of its own leave-one-out, where rows are in groups or in time       |
    | members   | for an ensemble: learner -> whether its space is searched                                        |
    | readable  | whether its model can be written down and followed: a line, a discriminant, one tree             |
    | few       | rows up to which the quick panel has it as well                                                  |
    """

    name: str
    task: str
    about: str
    make: Callable[[int], Any]
    order: int
    panels: tuple[str, ...]
    cost: Callable[[int, int], float] = lambda n, p: 0.0
    space: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    simple: tuple[tuple[str, str], ...] = ()
    encode: str = "onehot"
    scale: bool = True
    own: bool = True
    judged: str = "folds"
    memory: Callable[[int, int], float] = lambda p, k: 0.0
    readable: bool = False
    sized: Callable[[int, str, int], Mapping[str, Any]] = lambda n, order, k: {}
    members: Mapping[str, bool] = field(default_factory=dict)
    few: int = 0
    ordered: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    classes: Callable[[int], float] = lambda k: 1.0

    def work(self, n: int, p: int, k: int = 2) -> float:
        """Multiply-adds of one fit to n rows, p columns and k classes; `python -m benchmarks costs` measures them."""
        if self.members:
            return sum(_inner_fits(one) * one.work(n, p, k) for one in _members(self.task, n, p, k))
        return float(self.cost(n, p) * (self.classes(k) if k > 2 else 1.0))

    @property
    def candidates(self) -> int:
        """How many settings its space holds."""
        return int(np.prod([len(values) for values in self.space.values()])) if self.space else 1

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters of its estimator that are not the class's defaults; the seed aside."""
        made = self.make(0)
        if self.members:
            return {"estimators": list(self.members)}
        usual = type(made)().get_params(deep=False)
        told = made.get_params(deep=False)
        return {name: value for name, value in told.items() if name != "random_state" and value != usual[name]}

    @property
    def call(self) -> str:
        """The estimator as one would write it.

        >>> next(one for one in learners("regression") if one.name == "lasso").call
        'LassoCV(cv=10)'
        """
        inside = ", ".join(f"{name}={value!r}" for name, value in sorted(self.settings.items()))
        return f"{type(self.make(0)).__name__}({inside})"

    def fits(self, tuned: bool, exchangeable: bool) -> int:
        """Fits that one fold takes: one, or those of its search (each candidate in `INNER` folds, and once for all)."""
        if self.ordered and not exchangeable:
            return (INNER + 1) * sum(len(values) for values in self.ordered.values())
        if not tuned or not self.space:
            return 1
        if self.judged == "own" or (self.judged == "oob" and exchangeable):
            return self.candidates
        return (INNER + 1) * self.candidates


def _lazy(module: str, name: str, **fixed: Any) -> Callable[[int], Any]:
    """An estimator imported when it is needed; `random_state` is filled in where the class has one."""

    def make(seed: int) -> Any:
        kind = getattr(import_module(module), name)
        return kind(**{**_seeded(kind, seed), **fixed})

    return make


def _seeded(kind: Any, seed: int) -> dict[str, int]:
    return {"random_state": seed} if "random_state" in inspect.signature(kind).parameters else {}


FEW_ROWS = 5_000
"""Below it boosting chooses its number of trees by folds, which cost no training row; from it on by rows held out."""


SMALL = 2_000
"""Rows below which boosting takes small trees, forests try all columns, and quick has support vectors as well: set by
`python -m benchmarks picks` on the tables marked "set"."""
TINY = 600
"""Rows below which the trees of boosting are the smallest."""


def _boosted(n: int, order: str, k: int) -> dict[str, Any]:
    """Small trees for few rows; their number is found inside the rows of a fit, by later rows or whole groups."""
    if n >= FEW_ROWS and order != "time":
        return {"early_stopping": True}
    size = {"max_leaf_nodes": 4 if n < TINY else 8, "min_samples_leaf": 10} if n < SMALL else {}
    cv = TimeFolds(3) if order == "time" else 5 if order == "group" else Folds(5)
    return {"early_stopping": "cv", "cv": cv, **size}


LARGE = 20_000
"""Rows from which a forest's leaves hold five rows, not one: no less accurate there, with a quarter of the memory. A
pruned tree then takes splits of 255 bins and five folds."""
DRAWN = 50_000
"""Rows that each tree of a forest draws at most, for its memory; of 80,000 rows that cost 0.5% of the rmse."""


def _grown(n: int, order: str, k: int) -> dict[str, Any]:
    """How a forest is grown on many rows."""
    leaf = {"min_samples_leaf": 5} if n >= LARGE else {}
    return {**leaf, "max_samples": DRAWN / n} if n > DRAWN else leaf


def _grown_regression(n: int, order: str, k: int) -> dict[str, Any]:
    """How a forest of regression trees is grown, on few rows as well."""
    return {"max_features": 1.0, "min_samples_leaf": 3} if n < SMALL else _grown(n, order, k)


def _pruned(n: int, order: str, k: int) -> dict[str, Any]:
    """How one tree is grown and cut back."""
    many = {"splitter": "hist", "cv": 5} if n >= LARGE else {}
    return {**many, **_in_order(n, order, k)}


def _in_order(n: int, order: str, k: int) -> dict[str, Any]:
    """The folds of a learner that tunes itself: later rows in the order of time; groups reach it through `fit`."""
    return {"cv": TimeFolds(INNER)} if order == "time" else {}


MANY_CLASSES = 10
"""Classes beyond which a path of penalties is coarser and has half the folds, as its coefficients are so many more; of
26 classes the held-out deviance hardly changes from one penalty to the next around its minimum."""


def _path(n: int, order: str, k: int) -> dict[str, Any]:
    """The grid and folds of a path of penalties."""
    coarser = {"alphas": 30, "cv": 5} if k > MANY_CLASSES else {}
    return {**coarser, **_in_order(n, order, k)}


def _not_one_by_one(n: int, order: str, k: int) -> dict[str, Any]:
    """Folds for a learner that would leave out one row at a time."""
    return {"cv": 10} if order == "group" else _in_order(n, order, k)


def _boosting(n: int, p: int) -> float:
    return (1200 if n < FEW_ROWS else 300) * 8.0 * n * p + 1e8


def _trees(n: int, p: int) -> float:
    return 30.0 * n * p * np.log2(max(2, n))


def _scatters(p: int, k: int) -> float:
    """Second to fourth moments of all pairs of columns, by class, and the matrices made of them."""
    return 8.0 * (3 * k + 3) * p * p


def _network(n: int, p: int) -> float:
    """A product with the weights for every row of every epoch, at BLAS speed, and what an update costs beside it."""
    updates = max(3000.0, n / 2.0)
    return updates * (0.3 * min(n, 128) * 33 * p + 3e4)


def _each(k: int) -> float:
    """The cost of a learner that does the work of two classes once for every class."""
    return float(k)


def _pairs(k: int) -> float:
    """The cost of a learner whose curvature has a block for every pair of classes; of many, blocks take less each."""
    return float(k * min(k, 10))


def _machine(n: int, p: int) -> float:
    """Rows of the Gram matrix for half of the rows, and as many steps."""
    return 1.0 * n * n * (p + 20)


_ALL, _MORE, _MOST = PANELS, PANELS[1:], PANELS[2:]


def _both(
    name: str, about: str, module: str, stem: str, fixed: Mapping[str, Any], *rest: Any, **more: Any
) -> Iterator[Learner]:
    """A learner of both tasks, whose estimators are called alike."""
    for task, ending in zip(TASKS, ("Regressor", "Classifier"), strict=True):
        yield Learner(name, task, about.format(task=task), _lazy(module, stem + ending, **fixed), *rest, **more)


_BOTH = (
    *_both(
        "tree",
        "one {task} tree, pruned by cross-validation (one-standard-error rule)",
        "assay.trees",
        "PrunedTree",
        {"min_samples_leaf": 5},
        40,
        _ALL,
        lambda n, p: 12 * _trees(n, p),
        encode="native",
        scale=False,
        readable=True,
        sized=_pruned,
    ),
    *_both(
        "nearest neighbours",
        "mean or vote of the k nearest rows, k chosen by leave-one-out",
        "assay.neighbors",
        "KNeighbors",
        {"n_neighbors": "loo"},
        50,
        _MORE,
        lambda n, p: 2.0 * n * n * p,
        ordered={"n_neighbors": [1, 3, 5, 9, 15, 25, 40]},
    ),
    *_both(
        "boosting",
        "gradient boosted trees, as many as lower the loss of rows that are held out inside the fit",
        "assay.trees",
        "GradientBoosting",
        {"early_stopping": "cv", "n_estimators": 1000, "n_iter_no_change": 20},
        70,
        _ALL,
        _boosting,
        {"max_leaf_nodes": [4, 10, 31]},
        (("max_leaf_nodes", "low"),),
        "native",
        scale=False,
        judged="own",
        sized=_boosted,
        classes=_each,
    ),
    *_both(
        "neural network",
        "one hidden layer of 32 units, ridge-penalised",
        "assay.neural",
        "NeuralNetwork",
        {"hidden": (32,)},
        80,
        _MORE,
        _network,
        {"alpha": [0.0001, 0.01, 0.1]},
        (("alpha", "high"),),
    ),
)

_REGRESSION = (
    Learner(
        BASELINE,
        "regression",
        "predicts the mean, uses no features",
        lambda seed: DummyRegressor(),
        0,
        _ALL,
        lambda n, p: n,
        readable=True,
    ),
    Learner(
        "least squares",
        "regression",
        "least squares on all columns",
        _lazy("assay.linear", "LinearRegression"),
        10,
        _ALL,
        lambda n, p: 4.0 * n * p * p,
        encode="treatment",
        readable=True,
    ),
    Learner(
        "lasso",
        "regression",
        "lasso, penalty chosen by cross-validation",
        _lazy("assay.linear", "LassoCV", cv=10),
        20,
        _ALL,
        lambda n, p: 6.0 * n * p * p,
        readable=True,
        sized=_in_order,
    ),
    Learner(
        "ridge",
        "regression",
        "ridge, penalty chosen by leave-one-out",
        _lazy("assay.linear", "RidgeCV"),
        30,
        _ALL,
        lambda n, p: 6.0 * n * p * p,
        readable=True,
        sized=_not_one_by_one,
    ),
    Learner(
        "elastic net",
        "regression",
        "elastic net, mixing and penalty chosen by cross-validation",
        _lazy("assay.linear", "ElasticNetCV", l1_ratio=[0.1, 0.5, 0.9], cv=10),
        35,
        _MORE,
        lambda n, p: 20.0 * n * p * p + 3e7,
        readable=True,
        sized=_in_order,
    ),
    Learner(
        "random forest",
        "regression",
        "200 trees, a third of the columns tried at each split (of few rows, all columns)",
        _lazy("assay.trees", "RandomForestRegressor", n_estimators=200),
        60,
        _ALL,
        lambda n, p: 200 * _trees(n, p if n < SMALL else max(1, p // 3)),
        {"max_features": [1 / 3, 1.0], "min_samples_leaf": [1, 5]},
        (("min_samples_leaf", "high"),),
        "native",
        scale=False,
        judged="oob",
        sized=_grown_regression,
    ),
    Learner(
        "support vectors",
        "regression",
        "support vector regression with a Gaussian kernel, C and epsilon in standard deviations of the target",
        _lazy("assay.margin", "SVR", standardize_target=True),
        65,
        _MORE,
        _machine,
        {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.01, "scale"]},
        (("C", "low"),),
        few=SMALL,
    ),
)

_CLASSIFICATION = (
    Learner(
        BASELINE,
        "classification",
        "predicts the class frequencies and one class, uses no features",
        lambda seed: BaselineClassifier(),
        0,
        _ALL,
        lambda n, p: n,
        readable=True,
    ),
    Learner(
        "naive Bayes",
        "classification",
        "columns independent within each class: numbers normal, categories by frequency",
        _lazy("assay.generative", "MixedNB"),
        10,
        _MORE,
        lambda n, p: 4.0 * n * p + 3e5 * p,
        encode="native",
        scale=False,
        readable=True,
    ),
    Learner(
        "discriminant",
        "classification",
        "linear discriminant analysis, covariance shrunk as in Ledoit and Wolf",
        _lazy("assay.generative", "LinearDiscriminantAnalysis", shrinkage="auto"),
        15,
        _ALL,
        lambda n, p: 4.0 * n * p * p,
        memory=_scatters,
        readable=True,
    ),
    Learner(
        "logistic",
        "classification",
        "ridge-penalised logistic regression",
        _lazy("assay.linear", "LogisticRegression", penalty="l2", inference=False),
        20,
        _ALL,
        lambda n, p: 200.0 * n * p + 1e7,
        {"C": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]},
        (("C", "low"),),
        readable=True,
        classes=_pairs,
    ),
    Learner(
        "sparse logistic",
        "classification",
        "lasso-penalised logistic regression, penalty chosen by cross-validation",
        _lazy("assay.linear", "LogisticRegressionCV", alphas=50),
        22,
        _MORE,
        lambda n, p: 2e4 * n * p + 4e8,
        readable=True,
        sized=_path,
        classes=_each,
    ),
    Learner(
        "quadratic discriminant",
        "classification",
        "quadratic discriminant analysis, covariances shrunk as in Ledoit and Wolf and a tenth pooled",
        _lazy("assay.generative", "QuadraticDiscriminantAnalysis", shrinkage="auto", pooling=0.1),
        25,
        _MOST,
        lambda n, p: 4.0 * n * p * p,
        memory=_scatters,
        readable=True,
    ),
    Learner(
        "random forest",
        "classification",
        "200 trees, the square root of the number of columns tried at each split",
        _lazy("assay.trees", "RandomForestClassifier", n_estimators=200),
        60,
        _ALL,
        lambda n, p: 200 * _trees(n, int(np.sqrt(p)) + 1),
        {"min_samples_leaf": [1, 5]},
        (("min_samples_leaf", "high"),),
        "native",
        scale=False,
        judged="oob",
        sized=_grown,
    ),
    Learner(
        "support vectors",
        "classification",
        "support vector machine, Gaussian kernel, C and gamma chosen by cross-validation, calibrated probabilities",
        _lazy("assay.margin", "SVCCV", Cs=[0.1, 1.0, 10.0, 100.0], probability=True),
        65,
        _MORE,
        lambda n, p: 30 * _machine(n, p),
        few=SMALL,
        sized=_in_order,
    ),
)


_MEMBERS = {
    "regression": {"ridge": False, "random forest": False, "boosting": False, "support vectors": False},
    "classification": {"logistic": True, "random forest": False, "boosting": False, "support vectors": False},
}
_ALONE = {(one.task, one.name): one for one in (*_REGRESSION, *_CLASSIFICATION, *_BOTH)}
AFFORDABLE = 5e10
"""Multiply-adds that the inner fits of an ensemble's member, or of a calibration, may cost; else it is left out."""


def _inner_fits(member: Learner) -> int:
    """Fits of an ensemble's member: its search on all rows once, and one in every inner fold."""
    return member.fits(_MEMBERS[member.task][member.name], False) + INNER


def _members(task: str, *shape: int) -> list[Learner]:
    """The members that are not too dear for such a table; where hardly one is left, all but the last."""
    found = [_ALONE[task, name] for name in _MEMBERS[task]]
    cheap = [one for one in found if _inner_fits(one) * one.work(*shape) <= AFFORDABLE]
    return cheap if len(cheap) > 1 else found[:3]


def _together(task: str) -> Learner:
    def make(seed: int) -> Any:
        return Ensemble([(name, _ALONE[task, name].make(seed)) for name in _MEMBERS[task]], random_state=seed)

    about = "weighted mean of " + ", ".join(_MEMBERS[task]) + ", the weights fitted on inner folds"
    return Learner("ensemble", task, about, make, 85, _MORE, members=_MEMBERS[task])


_ENSEMBLES = tuple(_together(task) for task in TASKS)


def learners(task: str | None = None) -> list[Learner]:
    """All learners of a task (or of both), in the order of listing.

    >>> [learner.name for learner in learners("regression")][:3]
    ['baseline', 'least squares', 'lasso']
    """
    every = sorted([*_REGRESSION, *_CLASSIFICATION, *_BOTH, *_ENSEMBLES], key=lambda learner: learner.order)
    return [learner for learner in every if task is None or learner.task == task]


def panel(task: str, name: str = "quick", chosen: Sequence[str] = (), rows: int | None = None) -> list[Learner]:
    """The learners of a panel, or the chosen ones; the baseline is always among them, and first.

    | parameter | default | range                                | meaning                                    |
    |-----------|---------|--------------------------------------|--------------------------------------------|
    | task      |         | "regression", "classification"       | what is predicted                          |
    | name      | "quick" | "quick", "standard", "thorough"      | which panel                                |
    | chosen    | ()      | names, or module:Class of your own   | these learners instead of a panel          |
    | rows      | None    | a whole number                       | of the table: with few, quick has more     |

    >>> [learner.name for learner in panel("regression", chosen=["ridge"])]
    ['baseline', 'ridge']
    >>> [len(panel("classification", rows=rows)) for rows in (500, 5_000)]
    [7, 6]
    """
    if task not in TASKS:
        raise ParameterError(f"unknown task {task!r}", remedy=f"choose one of {', '.join(TASKS)}")
    if name not in PANELS:
        raise ParameterError(f"unknown panel {name!r}", remedy=f"choose one of {', '.join(PANELS)}")
    every = {learner.name: learner for learner in learners(task)}
    if not chosen:
        small = rows if name == PANELS[0] and rows is not None else SMALL + 1
        return [one for one in every.values() if name in one.panels or small <= one.few]
    wanted = [every[BASELINE]]
    for one in chosen:
        if ":" in one:
            wanted.append(user_learner(one, task))
        elif one in every:
            wanted.append(every[one])
        elif one in PEERS:
            wanted.append(_peer(one, task))
        else:
            known = ", ".join(repr(known) for known in (*every, *PEERS))
            raise ParameterError(f"unknown learner {one!r} for {task}", remedy=f"choose among {known}")
    unique = {learner.name: learner for learner in wanted}
    return sorted(unique.values(), key=lambda learner: learner.order)


STRONGEST = ("boosting", "random forest", "support vectors", "ridge", "logistic", "ensemble")
"""The learners that most often win, for a run that may not finish."""


def strongest_first(chosen: Sequence[Learner]) -> list[Learner]:
    """Learners in the order in which a run with a clock takes them: the baseline, what the user named, the strongest.

    >>> [one.name for one in strongest_first(panel("regression"))][:3]
    ['baseline', 'boosting', 'random forest']
    """

    def place(learner: Learner) -> tuple[int, int]:
        if learner.name == BASELINE or not learner.own:
            return (0, learner.order)
        return (1, STRONGEST.index(learner.name)) if learner.name in STRONGEST else (2, learner.order)

    return sorted(chosen, key=place)


def _peer(name: str, task: str) -> Learner:
    """Boosting of another package, if it is installed."""
    peer(name, task, 0)
    about = f"gradient boosted trees of {PEERS[name][0]}, with its defaults"
    order = 75 + list(PEERS).index(name)
    return Learner(name, task, about, partial(peer, name, task), order, (), _boosting, scale=False, own=False)


def user_learner(path: str, task: str) -> Learner:
    """Your own learner by `module:Class`; it gets the same preprocessing, no search, and the last place in the list.

    | parameter | range                          | meaning                                     |
    |-----------|--------------------------------|---------------------------------------------|
    | path      | module:Class                   | an estimator that needs no arguments        |
    | task      | "regression", "classification" | what it predicts                            |

    >>> user_learner("sklearn.linear_model:HuberRegressor", "regression").own
    False
    """
    module, _, name = path.partition(":")
    try:
        kind = getattr(_module(module), name)
        kind()
    except Exception as error:
        message = f"cannot create {path} ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
        remedy = "pass module:Class, importable from here, with a constructor that needs no arguments"
        raise ParameterError(message, remedy=remedy) from error
    if not (hasattr(kind, "fit") and hasattr(kind, "predict")):
        raise ParameterError(f"{path} does not have fit and predict", remedy="pass an estimator class")

    def make(seed: int) -> Any:
        return kind(**_seeded(kind, seed))

    return Learner(path, task, "user-defined learner", make, 90, PANELS, lambda n, p: 100.0 * n * p, own=False)


def _module(name: str) -> Any:
    """A module, also of the current folder, where a console script does not look by itself."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last, so that no file here stands in for an installed package; workers inherit it
        invalidate_caches()
    return import_module(name)


BUDGET = 4e11
"""Multiply-adds that the inner search of one outer fold may cost; beyond it, fewer candidates are tried."""


def assemble(
    learner: Learner,
    kinds: Mapping[str, str],
    *,
    tune: bool,
    metric: Any,
    shape: tuple[int, ...],
    seed: int = 0,
    inner: int = INNER,
    order: str = "",
    threshold: Mapping[str, Any] | None = None,
    calibrate: bool = False,
    weigh: bool = True,
) -> Any:
    """The learner as it enters a fold: preprocessing, the model, and around both a search where it has a space.

    The number of candidates is capped by the declared cost of a fit, never by a clock, so that the same command tries
    the same candidates on every machine.

    | parameter    | default | meaning                                                                       |
    |--------------|---------|-------------------------------------------------------------------------------|
    | learner      |         | from `panel`                                                                  |
    | kinds        |         | the kind of every column                                                      |
    | tune         |         | whether to search its space                                                   |
    | metric       |         | what the search minimises or maximises                                        |
    | shape        |         | rows and columns of the table, and classes where there are more than two      |
    | seed         | 0       | for learners that draw numbers, and for the inner folds                       |
    | inner        | 5       | inner folds                                                                   |
    | order        | ""      | "group" or "time" for rows that cannot be left out one by one                 |
    | threshold    | None    | how a classifier's threshold is chosen, for `ThresholdClassifier` around it   |
    | calibrate    | False   | whether its probabilities are calibrated where that lowers their log loss     |
    | weigh        | True    | whether class weights are tried where the metric does not count rows alike    |

    >>> assemble(learners("regression")[0], {"x": "number"}, tune=True, metric="mse", shape=(10, 1)).steps[0][0]
    'columns'
    """
    if threshold or calibrate:
        made = assemble(learner, kinds, tune=tune, metric=metric, shape=shape, seed=seed, inner=inner, order=order)
        fits = learner.fits(tune, not order) + inner
        if calibrate and learner.name != BASELINE and fits * learner.work(*shape) <= AFFORDABLE:
            made = CalibratedIfBetter(made, cv=_inner(inner, order), random_state=seed)
        if not threshold:
            return made
        return ThresholdClassifier(made, cv=_inner(inner, order), tuning="once", random_state=seed, **threshold)
    if learner.members:
        return _ensemble(learner, kinds, metric=metric, shape=shape, seed=seed, inner=inner, order=order)
    native = learner.encode == "native"  # such a learner sends missing values down its own branch
    columns = Columns(dict(kinds), scale=learner.scale, encode=learner.encode, impute=not native)
    model = learner.make(seed)
    sized = learner.sized(shape[0], order, shape[2] if len(shape) > 2 else 2)
    pipe = Pipeline([("columns", columns), ("model", model.set_params(**sized) if sized else model)])
    if order and learner.ordered:
        most = max(1, shape[0] // 10)  # the first of the folds in the order of time have few training rows
        grid = {f"model__{name}": [one for one in values if one <= most] for name, values in learner.ordered.items()}
        return SearchCV(pipe, grid, cv=_inner(inner, order), metric=metric, random_state=seed)
    space = {f"model__{name}": list(values) for name, values in learner.space.items()} if tune else {}
    if weigh and weighs_classes(metric) and "class_weight" in model.get_params(deep=False):
        space["model__class_weight"] = [None, "balanced"]
    if not space:
        if learner.judged == "oob" and shape[0] > DRAWN:
            model.set_params(oob_score=False)  # each tree leaves most rows out, and nobody asks for their predictions
        return pipe
    alone = learner.judged == "own" or (learner.judged == "oob" and not order)
    allowed = int(max(2.0, BUDGET / ((1 if alone else inner) * learner.work(*shape))))
    simple = [(f"model__{name}", way) for name, way in learner.simple if f"model__{name}" in space]
    few = allowed < int(np.prod([len(values) for values in space.values()]))
    return SearchCV(
        pipe,
        space,
        method="random" if few else "grid",
        n_candidates=allowed if few else None,
        cv=learner.judged if alone else _inner(inner, order),
        metric=metric,
        simplicity=simple or None,
        random_state=seed,
    )


def weighs_classes(metric: Any) -> bool:
    """Whether a metric judges labels otherwise than row by row, so that weights of classes can raise it.

    Balanced accuracy and F1 profit from weights where a class is rare; the error rate, the log loss and the area under
    the ROC curve do not, and weights would spoil the probabilities.

    >>> from assay.metrics import get_metric
    >>> [weighs_classes(get_metric(name)) for name in ("f1", "balanced_accuracy", "error", "log_loss", "auc")]
    [True, True, False, False, False]
    """
    return getattr(metric, "needs", None) == "labels" and metric.losses is None


def pipeline_of(model: Any) -> Pipeline | None:
    """The preprocessing and the model inside what a study fitted; None for an ensemble, which has several.

    >>> pipeline_of(Ensemble([Pipeline([("model", DummyRegressor())])])) is None
    True
    """
    while hasattr(model, "estimator_"):
        model = model.estimator_
    return model if isinstance(model, Pipeline) else None


def _inner(inner: int, order: str) -> Any:
    """The folds inside a fold; groups reach them through `fit`."""
    return TimeFolds(inner) if order == "time" else inner


def _ensemble(
    learner: Learner,
    kinds: Mapping[str, str],
    *,
    shape: tuple[int, ...],
    seed: int,
    inner: int,
    order: str,
    metric: Any,
) -> Any:
    """Every affordable member with a preprocessing of its own, weighted on inner folds."""
    members = [
        (
            one.name,
            assemble(
                one,
                kinds,
                tune=learner.members[one.name],
                metric=metric,
                shape=shape,
                seed=seed,
                inner=inner,
                order=order,
                weigh=False,  # probabilities are averaged
            ),
        )
        for one in _members(learner.task, *shape)
    ]
    return Ensemble(members, cv=_inner(inner, order), tuning="once", random_state=seed)
