"""What a logistic regression can say about its own answer.

    Wald               z = b / se, interval b +- z se, odds ratio exp(b)
    likelihood ratio   2 (l - l without the term), chi-squared
    profile            {v: 2 (l - l(b_j = v)) <= chi-squared quantile}
    deviance           D = -2 l;  AIC = D + 2 k,  BIC = D + k log n
    pseudo R2          McFadden 1 - D/D0;  Nagelkerke (1 - exp((D - D0)/n)) / (1 - exp(-D0/n))

D0 belongs to the intercept (and offset) alone. n is the sum of the weights: a row of weight w is w rows. A ridge fit
counts k = trace of (H + R)^-1 H and has the covariance (H + R)^-1 H (H + R)^-1, that of a biased estimator around its
own mean. With Firth's correction the likelihoods of the tests are penalised ones (Heinze and Schemper 2002).

Nagelkerke (1991), Biometrika 78, 691-692; Venzon and Moolgavkar (1988), Applied Statistics 37, 87-94 (profiles).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special, stats
from scipy.optimize import brentq

from assay.errors import DataError, ParameterError
from assay.linear._logistic_firth import firth
from assay.linear._logistic_fit import LikelihoodProblem, Maximum, loss_at, maximise, null_loss
from assay.linear._logistic_rows import make_rows
from assay.linear._logistic_scale import standardise
from assay.linear._model import repeats
from assay.numerics.triangle import solve, summarize
from assay.results import Summary, TestResult
from assay.state import Stateful

__all__ = [
    "Inference",
    "check_level",
    "inference_of",
    "likelihood_ratios",
    "nested_test",
    "profile_intervals",
    "refuse_changed_rows",
]

Array = np.ndarray

LIKELIHOOD = "maximum likelihood"
KINDS = {None: LIKELIHOOD, "l2": "ridge", "l1": "lasso", "elasticnet": "elastic net"}


@dataclass(frozen=True, eq=False)
class Inference(Stateful):
    """A fitted logistic regression without its rows: estimates (K - 1, 1 + p) of each class against the first.

    `value` is the (penalised, with Firth) log-likelihood that tests compare, `df` the number of parameters.
    """

    estimates: Array
    covariance: Array | None
    loss: float
    null_loss: float
    value: float
    n: float
    df: float
    null_df: int
    intercept: bool
    kind: str
    n_iter: int
    notes: tuple[str, ...]

    state_name: ClassVar[str] = "linear.LogisticInference"

    def std_errors(self) -> Array:
        """Standard errors, shaped as the estimates; NaN where there are none."""
        if self.covariance is None:
            return np.full(self.estimates.shape, np.nan)
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0)).reshape(self.estimates.shape)

    def table(self, names: Sequence[str], classes: Array, level: float) -> pd.DataFrame:
        """One row per coefficient: Wald's test, interval and the odds ratio."""
        keep = slice(0 if self.intercept else 1, None)
        estimate, error = self.estimates[:, keep].ravel(), self.std_errors()[:, keep].ravel()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            statistic = np.where(error > 0, estimate / error, np.nan)
            half = float(stats.norm.ppf(0.5 + level / 2)) * error
            columns = {
                "estimate": estimate,
                "std_error": error,
                "statistic": statistic,
                "p_value": 2.0 * special.ndtr(-np.abs(statistic)),
                "lower": estimate - half,
                "upper": estimate + half,
                "odds_ratio": np.exp(estimate),
                "odds_lower": np.exp(estimate - half),
                "odds_upper": np.exp(estimate + half),
            }
        words = [*["intercept"] * self.intercept, *names]
        if len(self.estimates) > 1:
            words = [f"{label}: {name}" for label in classes[1:] for name in words]
        return pd.DataFrame(columns, index=words)

    def facts(self) -> dict[str, Any]:
        """The heading of the summary."""
        deviance, null = 2.0 * self.loss, 2.0 * self.null_loss
        gain, k = max(null - deviance, 0.0), self.df - self.null_df
        best = -np.expm1(-null / self.n)
        return {
            "n": self.n if self.n % 1 else int(self.n),
            "parameters": self.df if self.df % 1 else int(self.df),
            "log-likelihood": -self.loss,
            "deviance": deviance,
            "null deviance": null,
            "LR p-value": float(stats.chi2.sf(gain, k)) if k > 0 and self.kind == LIKELIHOOD else np.nan,
            "McFadden R2": 1.0 - deviance / null if null > 0 else np.nan,
            "Nagelkerke R2": float(-np.expm1(-gain / self.n) / best) if best > 0 else np.nan,
            "AIC": deviance + 2.0 * self.df,
            "BIC": deviance + np.log(self.n) * self.df,
            "estimate": self.kind,
            "iterations": self.n_iter,
        }

    def summary(self, names: Sequence[str], classes: Array, level: float, extra: dict[str, Array]) -> Summary:
        """The table under its facts; `extra` columns replace or follow those of the table."""
        table = self.table(names, classes, level)
        for name, values in extra.items():
            table[name] = values
        if "lower" in extra:
            with np.errstate(over="ignore"):
                table["odds_lower"], table["odds_upper"] = np.exp(table["lower"]), np.exp(table["upper"])
        notes = list(self.notes)
        reference = f"log odds of {classes[1]!s} against {classes[0]!s}"
        if len(classes) > 2:
            reference = f"log odds of each class against {classes[0]!s}"
        notes.insert(0, f"Coefficients are {reference}; limits at {100 * level:g}%.")
        return Summary("Logistic regression", table, self.facts(), notes)


def inference_of(model: Any, problem: LikelihoodProblem, found: Maximum) -> Inference:
    """What a fit of the given settings can say of itself."""
    estimates = np.hstack([found.intercept[:, None], found.coef])
    kind = "Firth" if model.firth else KINDS[model.penalty]
    return Inference(
        estimates=estimates if problem.K == 2 else estimates[1:] - estimates[0],
        covariance=found.covariance,
        loss=found.loss,
        null_loss=null_loss(problem),
        value=found.value,
        n=float(problem.w.sum()),
        df=found.effective_df,
        null_df=(problem.K - 1) * int(problem.intercept),
        intercept=problem.intercept,
        kind=kind if found.separation is None else "penalised, no maximum",
        n_iter=found.n_iter,
        notes=_notes(model, found),
    )


def _notes(model: Any, found: Maximum) -> tuple[str, ...]:
    notes = []
    if found.separation is not None:
        notes.append(f"No maximum exists: {found.separation}; so there are no standard errors.")
    elif model.penalty in ("l1", "elasticnet"):
        notes.append("The usual standard errors do not apply to a lasso.")
    elif found.covariance is None:
        why = "fit with inference=True" if not model.inference else "there are too many coefficients"
        notes.append(f"The covariance matrix was not computed; {why}.")
    elif model.penalty == "l2":
        notes.append("Standard errors are those of a biased estimate around its own mean; df is effective.")
    if found.aliased:
        notes.append(f"Not determined by the data: {repeats(found.aliased)} others.")
    if model.class_weight is not None:
        notes.append("Class weights count as repetitions in standard errors and tests.")
    return tuple(notes)


def nested_test(one: Inference, other: Inference, columns: tuple[set[str], set[str]]) -> TestResult:
    """The likelihood ratio test of two maximum-likelihood fits to the same rows, whichever is the larger."""
    if one.kind != LIKELIHOOD or other.kind != LIKELIHOOD:
        what = "the likelihood ratio test compares maximum-likelihood fits"
        raise ParameterError(what, remedy="fit both with penalty=None and firth=False on data that are not separable")
    if not np.isclose(one.n, other.n) or not np.isclose(one.null_loss, other.null_loss, rtol=1e-8):
        raise DataError("the two fits use different rows", remedy="fit both to the same rows, weights and offsets")
    large, small = (one, other) if one.df >= other.df else (other, one)
    df = large.df - small.df
    if df <= 0 or not (columns[0] <= columns[1] or columns[1] <= columns[0]):
        raise DataError(
            "neither fit is nested in the other", remedy="the columns of one must be a subset of the other's"
        )
    statistic = 2.0 * (small.loss - large.loss)
    if statistic < -1e-6 * max(1.0, small.loss):
        raise DataError("the larger fit is worse, so the two are not nested", remedy="use columns of the larger")
    statistic = max(statistic, 0.0)
    return TestResult(statistic, float(stats.chi2.sf(statistic, df)), df, "Likelihood ratio test", n=large.n)


def likelihood_ratios(problem: LikelihoodProblem, full: Inference, firth_correction: bool) -> Array:
    """The p-value of each term's likelihood ratio test: intercept (if fitted), then every column.

    Each is a refit without the term; with K classes the term is a row of K - 1 coefficients.
    """
    p, K = problem.X.shape[1], problem.K
    if firth_correction:
        return _penalised_ratios(problem, full)
    values = []
    for j in range(-int(problem.intercept), p):
        without = replace(problem, intercept=False) if j < 0 else _without(problem, j)
        if without.X.shape[1] == 0 and not without.intercept:
            loss = _empty_loss(without)
        else:
            loss = maximise(without, inference=False, rival=True).loss
        values.append(stats.chi2.sf(max(2.0 * (loss - full.loss), 0.0), K - 1))
    return np.array(values)


def _penalised_ratios(problem: LikelihoodProblem, full: Inference) -> Array:
    """Firth's tests: the term is held at zero, the information is that of the whole design."""
    falls = _penalised_falls(problem, full)
    return np.array([stats.chi2.sf(max(2.0 * fall(0.0), 0.0), 1) if fall else np.nan for fall in falls])


def _penalised_falls(
    problem: LikelihoodProblem, full: Inference, drop: float = 0.0
) -> list[Callable[[float], float] | None]:
    """For each coefficient, how far Firth's likelihood has fallen with it held at a value, less what is allowed.

    Columns that repeat others are left out, which moves no coefficient that the data determine; None for the others.
    """
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    first = int(problem.intercept)
    mean, scale, _ = standardise(X, problem.w, problem.intercept, problem.n_jobs)
    repeated = solve(summarize(X, np.zeros(len(X)), problem.w, intercept=problem.intercept)).aliased
    kept = np.delete(np.arange(X.shape[1]), np.asarray(repeated, dtype=np.int64))
    ones, units = np.ones((len(X), 1)), np.concatenate([np.ones(first), scale])
    known = np.isfinite(full.std_errors()[0, 1 - first :]) if full.covariance is not None else np.ones(units.size, bool)

    def of(at: int) -> Callable[[float], float] | None:
        others = kept[kept != at - first]
        if not known[at] or (at >= first and others.size == kept.size):
            return None
        # The intercept is that of the columns as they are; slopes are the same for centred ones, which keep digits.
        Z = (X if at < first else X - mean) / scale
        Z = np.hstack([Z[:, others], ones] if at < first else [ones[:, :first], Z[:, others], Z[:, [at - first]]])
        return _fall_of_last(problem, Z, float(units[at]), drop)

    return [of(at) for at in range(units.size)]


def _fall_of_last(problem: LikelihoodProblem, Z: Array, unit: float, drop: float) -> Callable[[float], float]:
    """The fall for the last column, in `unit`s: the last of orthonormal columns stands for it alone."""
    root = np.sqrt(problem.w)[:, None]
    Q, R = np.linalg.qr(root * Z)
    rows = make_rows(np.ascontiguousarray(Q / root), problem.codes, 2, problem.w, problem.offset, False, problem.n_jobs)
    free = np.arange(rows.m) < rows.m - 1
    unit *= float(R[-1, -1] / rows.inverse[-1])
    top = firth(rows, problem.tol, problem.max_iter).value

    def fall(value: float) -> float:
        return top - firth(rows, problem.tol, problem.max_iter, free, value * unit).value - drop

    return fall


def profile_intervals(
    problem: LikelihoodProblem, full: Inference, level: float, firth_correction: bool
) -> tuple[Array, Array]:
    """Limits of each coefficient where the profile (penalised) likelihood has fallen by half a chi-squared quantile."""
    drop = 0.5 * float(stats.chi2.ppf(level, 1))
    quantile = np.sqrt(2.0 * drop)
    errors = full.std_errors()[0]
    penalised = _penalised_falls(problem, full, drop) if firth_correction else []
    lower, upper = [], []
    for j in range(-int(problem.intercept), problem.X.shape[1]):
        estimate, error = float(full.estimates[0, 1 + j]), float(errors[1 + j])
        fall = penalised[j + int(problem.intercept)] if firth_correction else _fall(problem, full, j, drop)
        if fall is None or not np.isfinite(error) or error <= 0:
            lower.append(np.nan)
            upper.append(np.nan)
            continue
        lower.append(_crossing(fall, estimate, -quantile * error))
        upper.append(_crossing(fall, estimate, quantile * error))
    return np.array(lower), np.array(upper)


def _fall(problem: LikelihoodProblem, full: Inference, j: int, drop: float) -> Any:
    """How far the profile likelihood of coefficient j has fallen at a value, less the fall that is allowed."""
    rest = replace(problem, intercept=False) if j < 0 else _without(problem, j)
    if j < 0:
        column = np.ones(problem.X.shape[0])
    else:
        part = problem.X[:, [j]]
        column = (part if isinstance(part, np.ndarray) else part.toarray()).ravel()
    base = np.zeros(column.size) if problem.offset is None else problem.offset

    def fall(value: float) -> float:
        held = replace(rest, offset=base + value * column)
        if held.X.shape[1] == 0 and not held.intercept:
            return _empty_loss(held) - full.loss - drop
        return maximise(held, inference=False, rival=True).loss - full.loss - drop

    return fall


def _crossing(fall: Any, estimate: float, step: float) -> float:
    """Where the fall reaches its limit on one side; infinite where it never does."""
    inside, reach = estimate, step
    for _ in range(12):
        outside = estimate + reach
        if fall(outside) > 0:
            return float(brentq(fall, inside, outside, xtol=1e-8 * abs(step), rtol=1e-10))
        inside, reach = outside, 2.0 * reach
    return float(np.copysign(np.inf, step))


def _without(problem: LikelihoodProblem, j: int) -> LikelihoodProblem:
    keep = np.arange(problem.X.shape[1]) != j
    X = problem.X[:, np.flatnonzero(keep)]
    X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X.tocsr()
    names = [name for name, yes in zip(problem.names, keep, strict=True) if yes]
    return replace(problem, X=X, names=names)


def _empty_loss(problem: LikelihoodProblem) -> float:
    rows = make_rows(problem.X, problem.codes, problem.K, problem.w, problem.offset, False, problem.n_jobs)
    return rows.evaluate(np.zeros(rows.size), False).loss


def refuse_changed_rows(problem: LikelihoodProblem, full: Inference, coef: Array, intercept: Array) -> None:
    """A refit on rows that are not those of `fit` any more would compare two different things."""
    if not np.isclose(loss_at(problem, coef, intercept), full.loss, rtol=1e-6):
        raise DataError("the training rows have changed since fit", remedy="fit again first")


def check_level(level: Any) -> float:
    """A confidence level inside (0, 1)."""
    if isinstance(level, bool) or not isinstance(level, float | int | np.floating) or not 0 < level < 1:
        raise ParameterError(f"level = {level!r} is out of range", remedy="it must be a number in (0, 1)")
    return float(level)
