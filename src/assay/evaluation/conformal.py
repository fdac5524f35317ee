"""Conformal prediction: intervals and sets of classes that cover a new target with a stated chance, for any learner.

Scores s(x, y) say how badly y fits the prediction at x: |y - f(x)| / sigma(x) for numbers, 1 - p_y(x) ("lac") or the
probability of the likelier classes ("aps") for labels. With n scores of rows that the model has not seen and

    q = the ceil(level (n + 1))-th smallest score          (infinite when that is more than n)

the set {y : s(x, y) <= q} covers a new row with probability at least `level`, if old and new rows are exchangeable.

    split   one part of the rows fits, the other scores:               coverage >= level
    prefit  the model came fitted, all rows given score:               coverage >= level
    cv+     K models; each row is scored by the one that did not see it, and new rows by all of them:
            coverage >= 1 - 2 alpha - a little, in practice close to level = 1 - alpha (K = n: jackknife+)
    cv      the same scores around one model refitted to all rows:     no guarantee; close to level for stable learners

The chance is over old and new rows together, not for each x. Over all classes together a rare one may be left out
almost whole and the level still be kept, so sets are calibrated class by class (Mondrian) where a class is rare, or by
`by_class=True`: the chance then holds within each class. What too few rows leave uncovered is said in the guarantee.
Cost: one fit (split), K fits (cv+), K + 1 fits (cv). CV+ intervals compare each new row with all n scores.
Barber, Candes, Ramdas, Tibshirani (2021), Annals of Statistics 49, 486-507; Romano, Sesia, Candes (2020), NeurIPS 33;
Sadinle, Lei, Wasserman (2019), JASA 114, 223-234; Vovk, Gammerman, Shafer (2005).
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from assay.checks import choice, fraction, freeze
from assay.constraints import boolean, none, one_of, real
from assay.errors import AssayWarning, DataError, DataTypeError, ParameterError
from assay.evaluation import _conformal as rules
from assay.evaluation._conformal_fits import ConformalFit, finite_scores, fit_all, fit_one, residuals
from assay.evaluation.conformal_results import Coverage, PredictionIntervals, PredictionSets, measure
from assay.evaluation.learner import (
    Rows,
    label_of,
    refuse_unfitted,
    rows_of,
)
from assay.numbers import fmt
from assay.numerics.seeds import seed_sequence
from assay.resampling import take
from assay.results import Result
from assay.state import Specs, array, floats, labels, need, optional, part, several

__all__ = ["Conformal", "conformal"]

Array = np.ndarray
ALL = "all"
METHODS = ("cv+", "cv", "split", "prefit")
SCORES = ("auto", "residual", "lac", "aps")
BY_CLASS = ("auto", True, False)
TIED = 0.05
"""With more than this share of equal scores at the quantile, sets and intervals cover visibly more than the level."""


@dataclass(frozen=True, eq=False, repr=False)
class Conformal(Result):
    """A fitted predictor of intervals (for numbers) or sets (for classes) that cover a new target at a chosen level.

    | field          | meaning                                                                              |
    |----------------|--------------------------------------------------------------------------------------|
    | method, score  | how it was calibrated ("split", "prefit", "cv+", "cv"), and by which scores          |
    | level          | the level used unless another is given                                               |
    | scores         | the score of each calibration row                                                    |
    | fits, fold     | the models, and which of them did not see each calibration row                       |
    | classes, codes | the labels (None for numbers), and the position of each calibration row's among them |
    | by_class       | whether coverage is meant within each class: True, False, or "auto": if one is rare  |
    | randomized     | whether "aps" draws at the border of the set, which makes the level exact            |
    | grouped        | whether rows came in groups, for whose new members nothing is proved                 |
    """

    name: str
    method: str
    score: str
    level: float
    scores: Array
    fits: tuple[Any, ...]
    fold: Array
    classes: Array | None = None
    codes: Array | None = None
    by_class: bool | str = False
    randomized: bool = False
    grouped: bool = False

    state: ClassVar[Specs] = {
        "fits": several(part(ConformalFit), "models", kind=tuple),
        "level": real(0, 1, open_low=True, open_high=True),
        "method": one_of(*METHODS),
        "by_class": one_of(*BY_CLASS),
        "scores": floats("n"),
        "fold": array(np.intp, "n", low=0, below="models"),
        "classes": labels("k") | none,
        "codes": array(np.intp, "n", low=0, below="k") | none,
        "grouped": optional(boolean),
    }

    def _check_state(self) -> None:
        need(self.scores.size > 0 and (self.classes is None) == (self.codes is None))

    @property
    def n(self) -> int:
        """How many rows calibrate it."""
        return int(self.scores.size)

    def guarantee(self, level: float | None = None) -> str:
        """What is proved about its coverage, and of which classes, in a sentence."""
        level = self._level(level)
        where, never = ("", "") if self.classes is None else self.scope(level)
        return self._proved(level, where) + (f"; {never}" if never else "")

    def scope(self, level: float | None = None) -> tuple[str, str]:
        """Within which classes the level holds ("": all of them together), and which have no promise of their own."""
        if self.classes is None:
            raise DataTypeError("numbers have no classes", remedy="call .guarantee()")
        level = self._level(level)
        return rules.scope(self._groups(level), self._counts(), self.classes, level)

    def _proved(self, level: float, where: str) -> str:
        place = f"{where} " if where else ""
        near = f"near {level:g}, or above it because scores tie," if self._tied(level) else f"near {level:g}"
        if self.grouped:
            return f"no guarantee: rows of a group are alike; {near} {place}for rows of new groups if groups are many"
        if self.method in ("split", "prefit"):
            sure = f"covers a new row {place}with probability at least {level:g}, if old and new rows are exchangeable"
            return sure + (" and the model has not seen the old ones" if self.method == "prefit" else "")
        if self.method == "cv":
            return (
                f"no guarantee: scores of held-out rows around a model refitted to all rows; {near} {place}"
                "if leaving rows out changes the model little"
            )
        models = len(self.fits)
        name = "jackknife+" if models == self.n else f"CV+ with {models} folds"
        if where:
            return f"{name} by class: typically {near} {where}; no bound is claimed"
        least = 2 * level - 1 - rules.shortfall(self.n, models)
        proved = f"at least {fmt(max(0.0, least), 3)}" if least > 0 else "no bound at this level"
        return f"{name}: proved {proved}, typically {near.rstrip(',')}, if old and new rows are exchangeable"

    def _tied(self, level: float) -> bool:
        """Whether a twentieth of the scores or more, among those compared with, is their quantile, as of a tree."""
        for scores in self._parts(level).values():
            at = rules.rank(scores.size, level)
            if at <= scores.size and np.mean(scores == np.partition(scores, at - 1)[at - 1]) > max(
                TIED, 1 / scores.size
            ):
                return True
        return False

    def _counts(self) -> Array:
        """How many calibration rows each class has."""
        assert self.classes is not None
        assert self.codes is not None
        return np.bincount(self.codes, minlength=self.classes.size)

    def _groups(self, level: float) -> Array:
        return rules.calibrators(self._counts(), level, self.by_class)

    def interval(self, X: Any, level: float | None = None) -> PredictionIntervals:
        """Lower and upper limits for the target of each row of X."""
        if self.classes is not None:
            raise DataTypeError("a classifier has prediction sets, not intervals", remedy="call .sets(X)")
        level, X = self._level(level), _table(X)
        self._warn(level)
        centre = np.column_stack([fit.centre(X) for fit in self.fits])
        width = np.column_stack([fit.width(X) for fit in self.fits])
        lower, upper = rules.limits(centre, width, self.fold, self.scores, level)
        facts = (level, self.method, self.n, self.guarantee(level), _index(X))
        return PredictionIntervals(freeze(centre.mean(axis=1)), freeze(lower), freeze(upper), *facts)

    def sets(self, X: Any, level: float | None = None, random_state: Any = 0) -> PredictionSets:
        """The classes that belong to the set of each row of X; `random_state` draws for randomised "aps" sets."""
        if self.classes is None:
            raise DataTypeError("a regressor has prediction intervals, not sets", remedy="call .interval(X)")
        level, X = self._level(level), _table(X)
        self._warn(level)
        p = np.array([rules.probabilities(fit.model, X, self.classes) for fit in self.fits])
        u = _uniform(p, X.shape[0], random_state) if self.randomized else 1.0
        new = np.array([rules.aps(one, u) if self.score == "aps" else rules.lac(one) for one in p])
        assert self.codes is not None
        inside = rules.members(new, self.fold, self.scores, self.codes, level, self._groups(level))
        facts = (level, self.method, self.n, self.guarantee(level), _index(X))
        return PredictionSets(freeze(inside), self.classes, freeze(p.mean(axis=0)), *facts)

    def coverage(
        self, X: Any, y: Any, level: float | None = None, *, confidence: float = 0.95, random_state: Any = 0
    ) -> Coverage:
        """How often new rows are covered, with an exact binomial interval, and how wide the intervals or sets are."""
        confidence = fraction(confidence, "confidence")
        level = self._level(level)
        rows = rows_of(self.fits[0].model, _table(X), y)
        if self.classes is None:
            return measure(self.interval(rows.X, level), rows.y, confidence)
        codes = rules.codes_of(rows.y, self.classes)
        return measure(self.sets(rows.X, level, random_state), codes, confidence)

    def to_frame(self) -> pd.DataFrame:
        """The quantile of the scores at common levels: one row per level, by class where coverage is."""
        table = []
        for level in sorted({0.5, 0.8, 0.9, 0.95, 0.99, self.level}):
            for name, scores in self._parts(level).items():
                at = rules.rank(scores.size, level)
                value = np.inf if at > scores.size else float(np.partition(scores, at - 1)[at - 1])
                table.append({"level": level, "rows": scores.size, "rank": at, "quantile": value, "class": name})
        frame = pd.DataFrame(table)
        return frame.drop(columns="class") if (frame["class"] == ALL).all() else frame

    def _parts(self, level: float) -> dict[str, Array]:
        """The scores that are compared with at a level, by class where they differ."""
        if self.classes is None or self.codes is None:
            return {ALL: self.scores}
        groups, parts = self._groups(level), {}
        for group in dict.fromkeys(groups.tolist()):
            chosen = groups == group
            name = ALL if chosen.all() else " or ".join(map(str, self.classes[chosen].tolist()))
            parts[name] = self.scores[chosen[self.codes]]
        return parts

    def __str__(self) -> str:
        kind = "intervals" if self.classes is None else f"sets of {self.classes.size} classes"
        title = f"Conformal prediction {kind} around {self.name}"
        words = {"residual": "|y - prediction|", "normalised": "|y - prediction| / spread"}.get(self.score, self.score)
        facts = [
            f"method {self.method}, level {self.level:g}, {self.n} calibration scores: {words}",
            f"Guarantee: {self.guarantee()}.",
        ]
        body = self.to_frame().to_string(index=False, float_format=lambda v: fmt(v, 5)).splitlines()
        rule = "-" * max(len(line) for line in [title, *facts])
        return "\n".join([title, rule, *facts, rule, *body])

    def _level(self, level: float | None) -> float:
        return self.level if level is None else fraction(level, "level")

    def _warn(self, level: float) -> None:
        """Say so when no finite limit has the level."""
        strict = self.by_class is True and self.classes is not None
        fewest = int(self._counts().min()) if strict else self.n
        need = rules.least_rows(level)
        if fewest >= need:
            return
        rarest = " of the rarest class" if strict else ""
        outcome = "every interval is infinite" if self.classes is None else "every set contains every class"
        outcome = "every set contains that class" if strict else outcome
        what = f"level {level:g} needs {need} calibration rows{rarest}, but there are {fewest}: {outcome}"
        warnings.warn(AssayWarning(f"{what}; calibrate on more rows, or lower the level"), stacklevel=3)

    @classmethod
    def from_residuals(
        cls, model: Any, residuals: Any, *, level: float = 0.9, held_out: bool = False, name: str | None = None
    ) -> Conformal:
        """Intervals from a fitted model and stored residuals of rows it, or models like it, had not seen.

        | parameter | default | range       | meaning                                                            |
        |-----------|---------|-------------|--------------------------------------------------------------------|
        | model     |         | fitted      | what predicts                                                      |
        | residuals |         | numbers     | y - prediction, each from a model that did not see the row         |
        | level     | 0.9     | (0, 1)      | the level used unless another is given                             |
        | held_out  | False   | True, False | True: this very model never saw those rows ("prefit", guaranteed); |
        |           |         |             | False: they are out-of-fold and the model is a refit ("cv", not)   |
        | name      | None    | text        | what to call the model                                             |

        >>> from sklearn.dummy import DummyRegressor
        >>> model = DummyRegressor().fit([[0]] * 3, [1.0, 2.0, 3.0])
        >>> made = Conformal.from_residuals(model, [-1.0, 0.5, 0.2, 2.0, -0.1, 0.3, 1.5, -0.7, 0.9])
        >>> made.interval([[0]]).upper
        array([4.])
        """
        scores = np.abs(finite_scores(residuals, "residuals"))
        method = "prefit" if held_out else "cv"
        fold = np.zeros(scores.size, dtype=np.intp)
        label = label_of(model) if name is None else name
        return cls(
            label, method, "residual", fraction(level, "level"), freeze(scores), (ConformalFit(model),), freeze(fold)
        )

    @classmethod
    def from_probabilities(
        cls,
        model: Any,
        probabilities: Any,
        y: Any,
        *,
        classes: Any = None,
        score: str = "lac",
        level: float = 0.9,
        by_class: bool | str = "auto",
        randomized: bool = True,
        held_out: bool = False,
        random_state: Any = 0,
        name: str | None = None,
    ) -> Conformal:
        """Sets of classes from a fitted model and stored probabilities of rows it, or models like it, had not seen.

        `probabilities` has one column per class, in the order of `classes` (those of the model by default); `y` holds
        the labels; `score`, `by_class`, `randomized` and `random_state` are as in `conformal`, the rest as in
        `from_residuals`.
        """
        found = np.asarray(model.classes_ if classes is None else classes)
        p = np.asarray(probabilities, dtype=float)
        if p.ndim == 1 and found.size == 2:
            p = np.column_stack([1 - p, p])
        labels = np.asarray(y)
        if p.shape != (labels.size, found.size):
            message = f"probabilities have shape {p.shape} for {labels.size} rows and {found.size} classes"
            raise DataError(message, remedy="pass one column per class and one row per label")
        score = choice(score, "score", ("lac", "aps"))
        order = np.argsort(found)
        classes, p = found[order], rules.check_probabilities(p[:, order])
        codes = rules.codes_of(labels, classes)
        randomized = bool(randomized) and score == "aps"
        scores = _class_scores(p, codes, score, randomized, random_state)
        method = "prefit" if held_out else "cv"
        label = label_of(model) if name is None else name
        fold = freeze(np.zeros(codes.size, dtype=np.intp))
        facts = (label, method, score, fraction(level, "level"), freeze(scores), (ConformalFit(model),), fold)
        return cls(*facts, classes, freeze(codes), _by_class(by_class), randomized)


def conformal(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    method: str = "cv+",
    cv: Any = None,
    level: float = 0.9,
    score: str = "auto",
    scale: Any = None,
    by_class: bool | str = "auto",
    randomized: bool = True,
    groups: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Conformal:
    """Prediction intervals or sets for any learner, that cover a new target at a stated level.

        interval(x) = f(x) -+ q,     q = the ceil(level (n + 1))-th smallest |y_i - f(x_i)| of rows f has not seen

    | parameter    | default | range                            | meaning                                           |
    |--------------|---------|----------------------------------|---------------------------------------------------|
    | estimator    |         | has fit and predict              | a learner, cloned; for "prefit" a fitted model    |
    | X, y         |         | a table and its target           | rows to fit and calibrate, or calibrate alone     |
    | method       | "cv+"   | "cv+", "cv", "split", "prefit"   | see the module: what is proved differs            |
    | cv           | None    | folds, a splitter, pairs         | None: 10 folds, or `Holdout()` for "split"        |
    | level        | 0.9     | (0, 1)                           | coverage; others can be asked for later           |
    | score        | "auto"  | "auto", "residual", "lac", "aps" | "lac": small sets; "aps": larger where it is hard |
    | scale        | None    | a regressor                      | learns the size of residuals: widths that vary    |
    | by_class     | "auto"  | "auto", True, False              | coverage within each class (Mondrian), for sets;  |
    |              |         |                                  | "auto": where one is rare and has enough rows     |
    | randomized   | True    | True, False                      | "aps" draws at the border of the set              |
    | groups       | None    | one label per row                | rows that stay together in the folds              |
    | random_state | 0       | seed, generator or None          | folds of a number, and the draws of "aps"         |
    | n_jobs       | None    | None or non-zero                 | fits at a time; never changes the result          |

    Give the answer's `.coverage(X_new, y_new)` rows that it has not seen. A set may be empty: no class fits as well as
    the level asks. Time-ordered rows are not exchangeable, nor are rows in groups: nothing is proved for rows of new
    groups. Folds of whole groups, by `groups`, come near the level if groups are many.
    Barber, Candes, Ramdas, Tibshirani (2021), Annals of Statistics 49, 486-507.

    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = X[:, 0] + rng.normal(size=300)
    >>> made = conformal(LinearRegression(), X[:100], y[:100])
    >>> print(made.coverage(X[100:], y[100:]).coverage)
    coverage 0.920 [0.873, 0.954] (95% Clopper-Pearson interval, n = 200)
    """
    method, level = choice(method, "method", METHODS), fraction(level, "level")
    rows = rows_of(estimator, _table(X), y, groups=groups)
    score = _score_for(choice(score, "score", SCORES), rows, scale, _by_class(by_class))
    _check_scale(scale, method, rows)
    fitting, drawing = seed_sequence(random_state).spawn(2)
    if method == "prefit":
        refuse_unfitted(estimator)
        fits: tuple[ConformalFit, ...] = (ConformalFit(estimator),)
        fold, held = np.zeros(rows.n, dtype=np.intp), np.arange(rows.n)
    else:
        fits, fold, held = fit_all(estimator, rows, method, cv, scale, fitting, n_jobs)
    made = Conformal(
        label_of(estimator), method, score, level, np.empty(0), fits, freeze(fold), grouped=groups is not None
    )
    if rows.classes is None:
        made = replace(made, scores=freeze(residuals(fits, fold, held, rows)))
    else:
        made = _calibrate_classes(made, held, rows, by_class, bool(randomized) and score == "aps", drawing)
    if method == "cv":  # the scores are those of the folds; what predicts is a refit
        made = replace(made, fits=(fit_one(estimator, rows, None, scale, fitting),), fold=freeze(np.zeros_like(fold)))
    return made


def _by_class(by_class: Any) -> bool | str:
    if isinstance(by_class, str):
        return choice(by_class, "by_class", ("auto",))
    return bool(by_class)


def _score_for(score: str, rows: Rows, scale: Any, by_class: bool | str) -> str:
    """Which score fits the target."""
    numbers = rows.classes is None
    if numbers and by_class is True:
        raise ParameterError("by_class needs classes, but y is numeric", remedy="leave by_class out")
    if (numbers and score in ("lac", "aps")) or (not numbers and score == "residual"):
        kind, known = ("numbers", "'residual'") if numbers else ("classes", "'lac' or 'aps'")
        raise ParameterError(f"score = {score!r} does not fit {kind}", remedy=f"choose {known}")
    if numbers:
        return "residual" if scale is None else "normalised"
    return "lac" if score == "auto" else score


def _check_scale(scale: Any, method: str, rows: Rows) -> None:
    if scale is None:
        return
    if rows.classes is not None:
        raise ParameterError("scale needs a numeric target, but y has classes", remedy='use score="aps"')
    if method == "prefit":
        message = "scale must be estimated from the training rows, which a fitted model no longer has"
        raise ParameterError(message, remedy='use method="split"')
    rows_of(scale, rows.X, rows.y)


def _calibrate_classes(
    made: Conformal, held: Array, rows: Rows, by_class: bool | str, randomized: bool, seeds: np.random.SeedSequence
) -> Conformal:
    """The same predictor with the scores of its calibration rows."""
    classes = rows.classes
    if made.method == "prefit":
        classes = np.unique(np.asarray(getattr(made.fits[0].model, "classes_", classes)))
    if classes is None or classes.size < 2:
        raise DataError("y has only one class", remedy="pass rows of at least two classes")
    p = np.empty((held.size, classes.size))
    for k, fit in enumerate(made.fits):
        here = made.fold == k
        p[here] = rules.probabilities(fit.model, take(rows.X, held[here]), classes)
    codes = rules.codes_of(rows.y[held], classes)
    scores = _class_scores(p, codes, made.score, randomized, seeds)
    made = replace(made, scores=freeze(scores), classes=classes, codes=freeze(codes))
    return replace(made, by_class=_by_class(by_class), randomized=randomized)


def _class_scores(p: Array, codes: Array, score: str, randomized: bool, random_state: Any) -> Array:
    u = _uniform(p, len(p), random_state) if randomized else 1.0
    every = rules.aps(p, u) if score == "aps" else rules.lac(p)
    return np.ascontiguousarray(every[np.arange(len(p)), codes])


def _table(X: Any) -> Any:
    return np.asarray(X) if isinstance(X, list | tuple) else X


def _index(X: Any) -> Any:
    return X.index if isinstance(X, pd.DataFrame) else None


def _uniform(p: Array, n: int, random_state: Any) -> Array:
    """A number between 0 and 1 for each of n rows, of the seed and of the probabilities.

    Of the seed alone, all tables of one size would share their draws, and coverage would be off for all of them alike.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state.random(n)
    seeds = random_state if isinstance(random_state, np.random.SeedSequence) else seed_sequence(random_state)
    digest = hashlib.blake2b(np.round(p, 9).tobytes(), digest_size=16).digest()
    mixed = [*seeds.generate_state(4).tolist(), *np.frombuffer(digest, np.uint32).tolist()]
    return np.random.default_rng(np.random.SeedSequence(mixed)).random(n)
