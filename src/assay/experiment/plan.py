"""The plan of a study: everything that decides its numbers, fixed before a row is evaluated.

Two runs with the same plan, the same training rows and the same seal give the same numbers; so the plan, with the
digest of the rows, names the study. What only decides how long it takes (workers, a time budget) is not in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from assay import __version__
from assay.errors import DataError, DataTypeError, ParameterError
from assay.experiment.options import Options
from assay.experiment.panel import panel
from assay.experiment.storage.canonical_json import encode
from assay.experiment.wording import called
from assay.metrics import SAME, get_metric, load_all
from assay.metrics.constant import constant_wins
from assay.metrics.definition import METRICS, Metric
from assay.metrics.scorer import class_options

__all__ = [
    "FEW_CLASSES",
    "Plan",
    "infer_task",
    "is_rare",
    "labels_of",
    "learners_of",
    "metrics_for",
    "name_of",
    "rare_note",
    "usable_metrics",
]

RENAMED = {"one-se": "readable"}
"""Rules of selection in plans of earlier versions, and what they are now."""
DECIDING = ("cost", "rate", "labels", "calibrate", "learn_group", "units", "commas")
"""Fields that plans without a decision threshold, a rare class, a group to learn from or units do not have."""
FEW_CLASSES = 20
"""A target of whole numbers with at most this many values is taken for classes."""
RARE = 0.2
"""Below this share of the rarer of two classes the error rate says little, and the area under the ROC curve is used."""


@dataclass(frozen=True)
class Plan:
    """What a study does, in JSON types.

    | field              | meaning                                                                                  |
    |--------------------|------------------------------------------------------------------------------------------|
    | target, task       | what is predicted, "regression" or "classification"                                      |
    | kinds              | the kind of every column                                                                 |
    | drop               | columns that are not learned from                                                        |
    | gaps               | by column, where they are not the usual ones: the texts that are read as missing         |
    | units              | by column where every cell has one: the unit beside the number, as "$" or "kg"           |
    | commas             | of each of these columns: whether the comma is its decimal separator                     |
    | panel, learners    | the panel, and the names of its learners                                                 |
    | metric             | the primary metric, which carries the level and decides                                  |
    | also               | secondary metrics                                                                        |
    | cv, repeats        | folds, or another protocol, and how often they are dealt                                 |
    | validation, refit  | a holdout's share of all rows, and whether the model is fitted to these rows as well     |
    | group, time        | columns whose rows stay together, or whose order is kept                                 |
    | known_groups       | with both: whether later rows of groups seen before are predicted as well                |
    | learn_group        | with known_groups: whether the group is a feature as well; a new one is an unseen level  |
    | looks, level       | planned looks at the test set, and the level they share                                  |
    | select, correction | the rule of selection, the correction for the number of pairs                            |
    | seed               | of folds and learners                                                                    |
    | cost, rate         | what errors cost, or the rate to keep: how each classifier's threshold is chosen         |
    | calibrate          | whether probabilities are calibrated where that lowers their log loss: with a rare class |
    | labels             | with them: the other class and the rarer one, which is missed or falsely alarmed of      |
    """

    target: str
    task: str
    kinds: Mapping[str, str]
    panel: str
    learners: tuple[str, ...]
    metric: str
    also: tuple[str, ...]
    drop: tuple[str, ...] = ()
    gaps: Mapping[str, list[str]] = field(default_factory=dict)
    cv: int | str = 10
    repeats: int = 1
    validation: float | None = None
    refit: bool = True
    group: str | None = None
    time: str | None = None
    known_groups: bool = False
    looks: int = 1
    level: float = 0.95
    select: str = "best"
    correction: str = "max-t"
    seed: int = 0
    cost: Mapping[str, float] | None = None
    rate: tuple[str, float] | None = None
    labels: tuple[Any, Any] | None = None
    calibrate: bool | None = None
    learn_group: bool | None = None
    units: Mapping[str, str] | None = None
    commas: Mapping[str, bool] | None = None
    source: str = field(default="frame", compare=False)

    @property
    def exchangeable(self) -> bool:
        """Whether rows stand for themselves, neither in groups nor in the order of time."""
        return self.group is None and self.time is None

    @property
    def population(self) -> str:
        """The rows that the figure of the test set, or of the outer folds, is about: its estimand.

        >>> Plan("y", "regression", {}, "quick", (), "rmse", (), group="patient", time="day").population
        "later rows (by 'day') of new groups (by 'patient')"
        """
        if self.group is None:
            return "new rows like these" if self.time is None else f"later rows (by {self.time!r})"
        if self.time is None:
            return f"rows of new groups (by {self.group!r}) like these"
        which = "known and new groups" if self.known_groups else "new groups"
        return f"later rows (by {self.time!r}) of {which} (by {self.group!r})"

    @property
    def order(self) -> str:
        """What keeps rows from being left out one by one: "time", "group" or nothing."""
        return "time" if self.time is not None else "" if self.group is None else "group"

    @property
    def threshold(self) -> dict[str, Any]:
        """How each classifier's decision threshold is chosen, as `ThresholdClassifier` takes it; empty if it is not."""
        if self.labels is None:
            return {}
        return {"cost": self.cost, "rate": self.rate, "pos_label": self.labels[1]}

    def measure(self, name: str) -> Metric:
        """A metric by its name; the risk with the costs of the plan."""
        if name != "risk" or self.cost is None or self.labels is None:
            return get_metric(name)
        table = [[0.0, self.cost["false"]], [self.cost["missed"], 0.0]]
        return get_metric(name).bind(cost=table, labels=list(self.labels))

    @property
    def tuned(self) -> bool:
        """Whether learners search their spaces: `quick` takes defaults and what learners tune by themselves."""
        return self.panel != "quick"

    @property
    def features(self) -> list[str]:
        """The columns that may be used: all but the target, those left out and, unless asked for, the groups."""
        apart = None if self.learn_group else self.group
        return [name for name in self.kinds if name not in (self.target, apart, *self.drop)]

    @classmethod
    def asked(cls) -> list[str]:
        """The fields that are options of the user's, as they are."""
        own = {one.name for one in fields(Options)} - {"task", "kinds", "learners", "metric", "drop"}
        return [one.name for one in fields(cls) if one.name in own]

    def state(self) -> dict[str, Any]:
        """The plan in JSON types; kinds as pairs, for their order is the order of the columns and JSON has none."""
        values = {name: value for name, value in asdict(self).items() if name not in DECIDING or value is not None}
        values |= {name: list(values[name]) for name in ("rate", "labels") if name in values}
        pairs = [[name, kind] for name, kind in self.kinds.items()]
        return {
            **values,
            "kinds": pairs,
            "learners": list(self.learners),
            "also": list(self.also),
            "drop": list(self.drop),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Plan:
        """The plan that `state` describes."""
        values = {item.name: state[item.name] for item in fields(cls) if item.name in state}  # older ones have fewer
        lists = ("learners", "also", "drop", "rate", "labels")
        values |= {name: tuple(values[name]) for name in lists if values.get(name) is not None}
        values["select"] = RENAMED.get(values["select"], values["select"])
        return cls(**{**values, "kinds": dict(values["kinds"])})


def name_of(plan: Plan, seal: str, rows: str) -> str:
    """The study's name: the table's, and eight digits of what decides its numbers."""
    deciding = {name: value for name, value in plan.state().items() if name != "source"}
    digest = hashlib.sha256(
        encode({**deciding, "seal": seal, "rows": rows, "version": __version__}).encode()
    ).hexdigest()
    table = Path(plan.source).name.split(".")[0]
    stem = "".join(c if c.isalnum() else "-" for c in table)[:24].strip("-").lower() or "table"
    return f"{stem}-{digest[:8]}"


def infer_task(target: pd.Series, kind: str) -> str:
    """Classes for text, booleans and whole numbers with few values; numbers otherwise.

    >>> infer_task(pd.Series([0, 1, 1, 0]), "number"), infer_task(pd.Series([0.5, 1.25, 7.0]), "number")
    ('classification', 'regression')
    """
    if kind in ("category", "text", "id") and target.dtype == object:
        return "classification"
    if kind == "date":
        raise DataError("the target contains dates", remedy="convert it to numbers, such as days since a fixed date")
    values = target.dropna().to_numpy()
    few = np.unique(values).size <= FEW_CLASSES
    return "classification" if few and bool(np.all(values == np.round(values))) else "regression"


def labels_of(target: Any) -> tuple[Any, Any]:
    """The more frequent of two classes and the rarer one; of classes equally frequent the greater counts as rarer.

    >>> labels_of(["ok", "fraud", "ok"])
    ('ok', 'fraud')
    """
    values = pd.Series(np.asarray(target)).dropna()
    counts = values.value_counts().sort_index(ascending=False).sort_values(ascending=False, kind="stable")
    if counts.size != 2:
        message = f"cost and rate choose the threshold between two classes, but the target has {counts.size} values"
        raise ParameterError(message, remedy="leave them out")
    first, second = counts.index.tolist()
    return (min(first, second), max(first, second)) if counts.iloc[0] == counts.iloc[1] else (first, second)


def is_rare(target: Any) -> bool:
    """Whether there are two classes, one of them rare.

    >>> is_rare([0, 0, 0, 0, 0, 0, 1]), is_rare([0, 1, 1])
    (True, False)
    """
    shares = pd.Series(np.asarray(target)).value_counts(normalize=True)
    return bool(shares.size == 2 and shares.min() < RARE)


def rare_note(target: Any, metric: str) -> str:
    """How a rare one of two classes is taken account of, in a sentence."""
    shares = pd.Series(np.asarray(target)).value_counts(normalize=True)
    share = f"{100 * shares.min():.2g}%"
    rare, other = (getattr(label, "item", lambda label=label: label)() for label in (shares.idxmin(), shares.idxmax()))
    return (
        f"only {share} of the rows are {rare!r}, so folds keep that share, and learners are judged by "
        f"{called(metric, short=True)}, not by the error rate, which is {share} for a model that always predicts "
        f"{other!r}; probabilities are calibrated where that lowers their log loss on inner folds"
    )


def metrics_for(task: str, target: Any, asked: str | None) -> tuple[str, tuple[str, ...]]:
    """The primary metric (the one asked for, if it can judge the target, or one that fits it) and the secondary ones.

    >>> metrics_for("regression", [1.0, 2.5], None)
    ('rmse', ('mae', 'r2', 'median_absolute_error', 'p90_absolute_error'))
    """
    if asked is not None:
        asked = _usable(task, target, asked)
    if task == "regression":
        primary = "rmse" if asked is None else asked
        names = ("rmse", "mae", "r2", "median_absolute_error", "p90_absolute_error")
        return primary, tuple(name for name in names if name != primary)
    shares = pd.Series(np.asarray(target)).value_counts(normalize=True)
    binary = shares.size == 2
    usual = "auc" if binary and shares.min() < RARE else "error"
    primary = usual if asked is None else asked
    names = ("error", *(("auc",) if binary else ()), "balanced_accuracy", "log_loss", "brier")
    return primary, tuple(name for name in names if name != primary)


def _usable(task: str, target: Any, asked: str) -> str:
    """The name of the metric asked for; an error with the usable names where it does not fit the target."""
    usable = usable_metrics(task, target)
    name = SAME.get(asked, asked)
    if name not in usable:
        message = (
            f"unknown metric {asked!r}" if name not in METRICS else f"metric {name} does not fit this target ({task})"
        )
        raise ParameterError(message, remedy=f"choose one of {', '.join(usable)}")
    if task == "classification":
        _refuse_constant(name, target)
    return name


def _refuse_constant(name: str, target: Any) -> None:
    """A metric that a constant prediction brings to its best cannot be the one that decides."""
    wins = constant_wins(METRICS[name], np.unique(pd.Series(np.asarray(target)).dropna().to_numpy()))
    if wins is None:
        return
    labels = METRICS[name].needs == "labels"
    best = METRICS[name].range[int(METRICS[name].greater_is_better)]
    constant = f"predicting {wins!r} for every row" if labels else "giving every row the same probabilities"
    message = f"{name} cannot be the main metric: {constant} reaches its best value, {best:g}"
    better = "balanced_accuracy" if labels else "log_loss"
    also = f'metric="{better}"' + (' or metric="f1"' if labels else "")
    raise ParameterError(message, remedy=f"pass {also}", option=("metric", better))


def usable_metrics(task: str, target: Any = None) -> list[str]:
    """The names of the metrics that can judge a task or, with a target, those that work on its values or classes.

    >>> usable_metrics("regression", [-1.0, 2.5])[:3], "sensitivity" in usable_metrics("classification", list("abc"))
    (['deviance', 'mae', 'median_absolute_error'], False)
    """
    load_all()
    names = [name for name, one in METRICS.items() if one.first == "y_true" and name not in ("adjusted_rand", "risk")]
    names = sorted(name for name in names if (METRICS[name].needs == "values") == (task == "regression"))
    return names if target is None else [name for name in names if _works(METRICS[name], task, target)]


def _works(metric: Any, task: str, target: Any) -> bool:
    """Whether a metric takes the target with some predictions: several need two classes, or no negative numbers."""
    values = pd.Series(np.asarray(target)).dropna().to_numpy()
    try:
        if task == "regression":
            y = values.astype(float)
            metric(y, np.full(y.size, y.mean()))
            return True
        classes, codes = np.unique(values, return_inverse=True)
        first = np.unique(codes, return_index=True)[1]  # one row of each class
        shares = np.full((classes.size, classes.size), 1 / classes.size)
        said = values[first] if metric.needs == "labels" else shares[:, 1] if classes.size == 2 else shares
        metric(values[first], said, **class_options(metric, classes))
    except (DataError, DataTypeError, ParameterError):
        return False
    return True


def learners_of(task: str, name: str, chosen: tuple[str, ...], rows: int | None = None) -> tuple[str, ...]:
    """The names of the panel's learners for a table of so many rows, in the order of listing."""
    return tuple(learner.name for learner in panel(task, name, chosen, rows))
