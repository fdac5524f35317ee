"""Why a learner errs: noise, bias and variance, by refitting it to many training sets (row H5).

Squared loss at x, over training sets D and the noise of y = f(x) + e:

    E (y - F_D(x))^2 = Var e + (f(x) - E F_D(x))^2 + Var F_D(x) = noise + bias^2 + variance,

each estimated without bias (variance with divisor B - 1, bias^2 less variance / B), so that they add up to the mean
loss.
Zero-one loss (Domingos), with the main prediction M(x) = mode of F_D(x) and the best label y*(x):

    P(F_D != y) = noise effect + [M != y*] + P(F_D != M; M = y*) - P(F_D = y*; M != y*)
                = noise effect + bias + unbiased variance - biased variance.

Training sets come from a `sampler`, where the truth may be known, or are bootstrap samples of one table, judged on the
rows they leave out; noise can then not be told from bias, and the two are reported as one. Cost: B fits per learner.
Standard errors: over training sets and test rows, crossed; for one table by the influence of each row, as a row that is
judged and as one that is learnt from (`_refits`).
Geman, Bienenstock & Doursat (1992), Neural Computation 4, 1-58; Domingos (2000), ICML, 231-238;
Kohavi & Wolpert (1996), ICML, 275-283.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from assay.checks import SUM_TOLERANCE, choice, fraction, freeze, number, refuse_improbable, whole
from assay.errors import DataError, ParameterError
from assay.evaluation._decompose import indicator_parts, squared_parts, vote_parts, vote_spread
from assay.evaluation._refits import along, bootstrap_variance, crossed_variance, means_by_row
from assay.evaluation._training_sets import Sampler, TrainingSetStudy, from_sampler, from_table
from assay.evaluation.learner import label_of, rows_of
from assay.numbers import fmt
from assay.numerics.seeds import seed_sequence
from assay.results import Interval, Result

__all__ = ["BiasVariance", "bias_variance"]

Array = np.ndarray
WORDS = {
    "noise": "noise",
    "noise_effect": "noise effect",
    "bias2": "bias²",
    "bias2_and_noise": "bias² + noise",
    "bias": "bias",
    "bias_and_noise": "bias + noise",
    "variance": "variance",
    "unbiased_variance": "unbiased variance",
    "biased_variance": "biased variance",
    "net_variance": "net variance",
    "total": "total",
}
"""The components as people write them."""


@dataclass(frozen=True, eq=False, repr=False)
class BiasVariance(Result):
    """The parts of the expected loss, one entry per learner or parameter value, with standard errors.

    | field                 | meaning                                                                           |
    |-----------------------|-----------------------------------------------------------------------------------|
    | loss                  | "squared", "zero-one" (Domingos) or "kohavi-wolpert"                              |
    | values, x_name        | the parameter values or learners, and what they are                               |
    | components            | name to array; "total" is the sum of those that `adds_up` names                   |
    | std_errors            | the same names, one standard error each                                           |
    | n_datasets, n_train, n_test | training sets drawn, their rows (on average), test rows                     |
    | setting, estimand     | where the training sets come from, and what is estimated                          |
    | notes                 | what the reader must know                                                         |

    `best` is the value of least total; `interval(component, at)` gives normal limits.
    """

    loss: str
    values: tuple[Any, ...]
    x_name: str
    components: Mapping[str, Array]
    std_errors: Mapping[str, Array]
    n_datasets: int
    n_train: float
    n_test: int
    setting: str
    estimand: str
    level: float = 0.95
    notes: tuple[str, ...] = field(default=())

    @property
    def best(self) -> Any:
        """The value whose total is least."""
        return self.values[int(np.argmin(self.components["total"]))]

    @property
    def adds_up(self) -> tuple[str, ...]:
        """The components whose sum is the total."""
        parts = ("noise_effect", "bias", "bias_and_noise", "net_variance")
        if self.loss != "zero-one":
            parts = ("noise", "bias2", "bias2_and_noise", "variance")
        return tuple(name for name in parts if name in self.components)

    def interval(self, component: str = "total", at: Any = None, level: float | None = None) -> Interval:
        """Normal limits of one component, at one of `values` (the first by default)."""
        choice(component, "component", tuple(self.components))
        level = self.level if level is None else fraction(level, "level")
        place = 0 if at is None else next((k for k, v in enumerate(self.values) if v is at or v == at), None)
        if place is None:
            raise ParameterError(f"at = {at!r} was not tried", remedy=f"choose one of {list(self.values)}")
        estimate, error = self.components[component][place], self.std_errors[component][place]
        reach = float(special.ndtri(0.5 + 0.5 * level)) * error
        text = f"{WORDS[component]} of the {self.loss} loss"
        return Interval(
            float(estimate), float(estimate - reach), float(estimate + reach), level, "normal", self.n_test, text
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per value: each component and its standard error (`_se`)."""
        frame = pd.DataFrame({self.x_name: list(self.values)})
        for name, value in self.components.items():
            frame[name], frame[f"{name}_se"] = value, self.std_errors[name]
        return frame

    def __str__(self) -> str:
        title = f"Bias and variance, {self.loss} loss: {self.setting}"
        facts = f"{self.n_datasets} training sets of {fmt(self.n_train, 6)} rows, {self.n_test} test rows"
        cells = {
            WORDS[name]: [f"{fmt(v)} ± {fmt(e, 2)}" for v, e in zip(value, self.std_errors[name], strict=True)]
            for name, value in self.components.items()
        }
        index = pd.Index([_short(v) for v in self.values], name=self.x_name)
        body = pd.DataFrame(cells, index=index).reset_index().to_string(index=False).splitlines()
        sums = f"total = {' + '.join(WORDS[name] for name in self.adds_up)}; ± one standard error"
        best = [f"least total at {self.x_name} = {_short(self.best)}"] if len(self.values) > 1 else []
        rule = "-" * max(len(line) for line in [title, *body])
        return "\n".join([title, rule, facts, *body, rule, sums, *best, f"Estimates {self.estimand}.", *self.notes])


def _short(value: Any) -> str:
    return fmt(value, 6) if isinstance(value, float | np.floating) else str(value)


def bias_variance(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    sampler: Sampler | None = None,
    truth: Callable[[Any], Any] | None = None,
    loss: str | None = None,
    n_datasets: int = 200,
    test: Any = 1_000,
    noise: float | None = None,
    parameter: str | None = None,
    values: Sequence[Any] | None = None,
    level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> BiasVariance:
    """Noise, bias and variance of a learner, of several, or along a parameter, with standard errors.

        squared: total = noise + bias^2 + variance;   zero-one: total = noise effect + bias + net variance

    | parameter    | default | range                        | meaning                                                 |
    |--------------|---------|------------------------------|---------------------------------------------------------|
    | estimator    |         | learner, list or dict of them | what is judged; cloned, never changed                  |
    | X, y         | None    | a table and its target       | bootstrap samples of it train, rows left out test       |
    | sampler      | None    | rng -> (X, y)                | instead: draws a fresh training set at each call        |
    | truth        | None    | X -> values, labels or class | f(x), the best label, or the probabilities of the       |
    |              |         | probabilities (m, K)         | sorted classes: tells noise from bias (sampler only)    |
    | loss         | by task | "squared", "zero-one",       | squared for numbers, Domingos' zero-one for classes,    |
    |              |         | "kohavi-wolpert"             | or Kohavi and Wolpert's                                 |
    | n_datasets   | 200     | at least 4                   | training sets                                           |
    | test         | 1000    | a number, (X, y), or X       | test rows drawn from the sampler, or rows held fixed    |
    | noise        | None    | at least 0                   | Var e where it is known (squared loss)                  |
    | parameter    | None    | a parameter of the estimator | what is varied, over the same training sets             |
    | values       | None    | a list                       | its values, in the order of complexity                  |
    | level        | 0.95    | in (0, 1)                    | of intervals                                            |
    | random_state | 0       | seed                         | training sets, test rows, unset seeds of the learner    |
    | n_jobs       | None    | None or non-zero             | workers; never changes a result                         |

    With fixed test rows the standard errors are over training sets alone. Bootstrap samples hold .632 n distinct rows,
    so bias and variance from X, y are those of a somewhat smaller table. Domingos' main prediction is the mode of
    `n_datasets` votes; where two classes are almost tied, its bias is noisy.

    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> f = lambda X: np.sin(X[:, 0])
    >>> def sampler(rng):
    ...     X = rng.uniform(0, 6, (50, 1))
    ...     return X, f(X) + rng.normal(0, 0.5, 50)
    >>> found = bias_variance(KNeighborsRegressor(), sampler=sampler, truth=f, n_datasets=40, test=100,
    ...                       parameter="n_neighbors", values=[1, 5, 25])
    >>> found.best
    5
    """
    models, positions, x_name = _learners(estimator, parameter, values)
    whole(n_datasets, "n_datasets", 4)
    level = fraction(level, "level")
    own, for_test = seed_sequence(random_state).spawn(2)
    if (sampler is None) == (X is None):
        raise ParameterError("there are no training sets", remedy="pass either X and y, or a sampler")
    if sampler is None:
        if truth is not None:
            raise ParameterError("truth requires a sampler", remedy="leave truth out, or pass a sampler")
        study = from_table(models, rows_of(models[0], X, y), n_datasets, own, n_jobs)
    else:
        study = from_sampler(models, sampler, test, n_datasets, own, for_test, n_jobs)
    loss = study.loss(loss)
    reference = _reference(study, truth, noise, loss)
    rng = np.random.default_rng(for_test.spawn(1)[0])
    found = [_decompose(study, study.predicted(k), reference, loss, rng) for k in range(len(models))]
    names = list(found[0])
    return BiasVariance(
        loss,
        tuple(positions),
        x_name,
        {name: freeze(np.array([one[name][0] for one in found])) for name in names},
        {name: freeze(np.sqrt([one[name][1] for one in found])) for name in names},
        n_datasets,
        study.n_train,
        int(study.known.sum()),
        study.setting,
        study.estimand,
        level,
        (*study.notes, *reference.notes),
    )


def _learners(estimator: Any, parameter: str | None, values: Sequence[Any] | None) -> tuple[list[Any], list[Any], str]:
    """The learners to compare, where they stand, and what that is."""
    if (parameter is None) != (values is None):
        raise ParameterError("parameter and values must be passed together", remedy="pass both, or neither")
    if parameter is not None and values is not None:
        return along(estimator, parameter, values), list(values), parameter
    if isinstance(estimator, Mapping):
        models, names = list(estimator.values()), list(estimator)
    elif isinstance(estimator, list | tuple):
        models, names = list(estimator), [label_of(model) for model in estimator]
    else:
        return [estimator], [label_of(estimator)], "learner"
    if not models:
        raise ParameterError("no learner was passed", remedy="pass at least one")
    return models, names, "learner"


@dataclass(frozen=True, eq=False)
class _Reference:
    """What predictions are held against: the target of the bias, and the noise of each test row (None: unknown)."""

    target: Array  # values for squared loss; class probabilities (m, K) otherwise
    best: Array | None  # the best label of each row, as a class number
    noise: Array | None
    classes: Array | None
    subtract: float = 0.0  # known noise that the observed target still holds
    notes: tuple[str, ...] = ()


MERGED = ("Noise cannot be separated from bias here: the observed target is used in place of the truth.",)


def _reference(
    study: TrainingSetStudy, truth: Callable[[Any], Any] | None, noise: float | None, loss: str
) -> _Reference:
    rows = study.rows
    if noise is not None:
        if loss != "squared":
            message = f"noise is a variance, which is not defined for the {loss} loss"
            raise ParameterError(message, remedy="pass truth, the best label or the class probabilities")
        noise = number(noise, "noise", 0.0)
    truths = None if truth is None else np.asarray(truth(rows.X))
    if not study.has_target:
        # Without targets only a truth that includes the noise gives the expected loss.
        enough = truths is not None and (noise is not None if loss == "squared" else truths.ndim == 2)
        if not enough:
            remedy = "pass truth and noise" if loss == "squared" else "pass truth, giving class probabilities"
            raise ParameterError("the test rows have no target", remedy=remedy)
    if truths is not None and truths.shape[0] != rows.n:
        raise DataError(f"truth returned {truths.shape[0]} values for {rows.n} rows", remedy="return one value per row")
    if loss == "squared":
        if truths is None:
            known = None if noise is None else np.full(rows.n, noise)
            return _Reference(rows.y, None, known, None, noise or 0.0, MERGED if noise is None else ())
        truths = truths.astype(float).reshape(rows.n)
        return _Reference(truths, None, (rows.y - truths) ** 2 if noise is None else np.full(rows.n, noise), None)
    return _class_reference(study, truths, loss)


def _class_reference(study: TrainingSetStudy, told: Array | None, loss: str) -> _Reference:
    rows = study.rows
    labels = [np.unique(part) for one in study.outcomes for part in one if part.size]
    labels += [np.unique(rows.y)] if study.has_target else []
    if told is not None and told.ndim == 1:
        labels.append(np.unique(told))
    classes = np.unique(np.concatenate([np.asarray(rows.classes), *labels]))
    seen = (rows.y[:, None] == classes).astype(float)
    if told is None:
        return _Reference(seen, seen.argmax(axis=1), None, classes, 0.0, MERGED)
    if told.ndim == 1:
        best = np.searchsorted(classes, told)
        if loss == "kohavi-wolpert":
            raise ParameterError(
                "truth returned labels", remedy="return class probabilities for Kohavi and Wolpert's loss"
            )
        return _Reference(seen, best, np.zeros(rows.n), classes)
    if told.shape[1] != classes.size:
        message = f"truth returned {told.shape[1]} probabilities per row for {classes.size} classes"
        raise DataError(message, remedy=f"return one column for each of {classes.tolist()}")
    refuse_improbable(told, "truth", most=1 + SUM_TOLERANCE, remedy="return probabilities in [0, 1]")
    noise = 0.5 * (1.0 - (told**2).sum(axis=1)) if loss == "kohavi-wolpert" else 1.0 - told.max(axis=1)
    return _Reference(told, told.argmax(axis=1), noise, classes)


def _decompose(
    study: TrainingSetStudy, F: Array, reference: _Reference, loss: str, rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Each component and the variance of its estimate."""
    keep = study.known
    tested, target = study.tested[:, keep], reference.target[keep]
    counts = None if study.counts is None else study.counts[:, keep]
    F = F[:, keep]
    noise = None if reference.noise is None else reference.noise[keep]
    draws: dict[str, float] = {}
    if loss == "zero-one":
        assert reference.best is not None
        assert reference.classes is not None
        codes, best = np.searchsorted(reference.classes, F), reference.best[keep]
        parts = vote_parts(codes, tested, best, target)
        draws = vote_spread(codes, tested, best, target, rng)
        if noise is None:
            parts = {n: p for n, p in parts.items() if not n.startswith("noise")}
            parts = {"bias_and_noise" if n == "bias" else n: p for n, p in parts.items()}
            draws["bias_and_noise"] = draws["bias"]
    else:
        if loss == "squared":
            bias2, variance = squared_parts(F.astype(float), tested, target)
        else:
            assert reference.classes is not None
            bias2, variance = indicator_parts(np.searchsorted(reference.classes, F), tested, target)
        bias2 = bias2 - reference.subtract * tested
        parts = {"bias2_and_noise" if noise is None else "bias2": bias2, "variance": variance}
        if noise is not None:
            parts = {"noise": np.where(tested, noise, 0.0), **parts}
        parts["total"] = np.sum(list(parts.values()), axis=0)
    return {name: _figure(part, tested, counts, draws.get(name), study.rows_vary) for name, part in parts.items()}


def _figure(
    part: Array, tested: Array, counts: Array | None, draws: float | None, rows_vary: bool
) -> tuple[float, float]:
    """The mean of the contributions, and its variance; `draws` is that over training sets where it is known better."""
    estimate = float(means_by_row(part, tested)[0].mean())
    if counts is not None:
        return estimate, bootstrap_variance(part, tested, counts, draws=draws)
    return estimate, crossed_variance(part, tested, rows_vary=rows_vary, draws=draws)
