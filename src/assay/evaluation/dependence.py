"""Partial dependence: what a model predicts on average when one or two columns are set to a value in every row.

    PD(v) = sum_i w_i f(v, x_i,-j) / sum_i w_i        ICE_i(v) = f(v, x_i,-j)

The standard error at a point is that of a mean over rows, s / sqrt(n): how far the average would move with other rows
of the same kind. It takes the model as fixed, so it is no interval for the truth that the model estimates, and it holds
point by point. Centred lines subtract each row's own value at the first point of the grid (c-ICE), which leaves the
effect of moving from there, and its standard error. Where two columns are set together, points outside the convex hull
of the rows (for categories: combinations that do not occur) ask about rows no one has seen: `support` marks them.

Cost: one prediction of every row for each point of the grid, in batches of bounded memory.
Friedman (2001), Annals of Statistics 29, 1189-1232; Goldstein, Kapelner, Bleich, Pitkin (2015), J. Comput. Graph.
Stat. 24, 44-65.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special
from sklearn.base import is_classifier

from assay.checks import choice, fraction, freeze, row_weights, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._dependence_grid import grids_of, support_of
from assay.evaluation._workbench import as_table, column_values, copies_for, find_column, names_of, workbench
from assay.evaluation.learner import (
    label_of,
    refuse_unfitted,
)
from assay.numbers import fmt
from assay.numerics.seeds import generator
from assay.numerics.threads import one_blas_thread
from assay.progress import track
from assay.resampling import take
from assay.results import Result

__all__ = ["Dependence", "partial_dependence"]

Array = np.ndarray
RESPONSES = ("auto", "values", "probabilities", "scores")
METHODS = {"values": "predict", "probabilities": "predict_proba", "scores": "decision_function"}
KINDS = ("average", "individual", "both")


@dataclass(frozen=True, eq=False, repr=False)
class Dependence(Result):
    """Average predictions over a grid of one or two columns, with pointwise standard errors over rows.

    | field                   | meaning                                                                           |
    |-------------------------|-----------------------------------------------------------------------------------|
    | columns, grids          | the columns that were set, and the values they were set to                        |
    | categorical             | for each column, whether its values are categories                                |
    | outputs                 | what is predicted: one name, or one per class                                     |
    | average                 | shape (outputs, grid) or (outputs, grid 1, grid 2)                                |
    | std_error, lower, upper | the same shape; pointwise, the model taken as fixed                               |
    | individual              | one line per row, shape (outputs, rows, grid), or None                            |
    | support                 | shape of the grid: False where the rows say nothing (outside their range or hull) |
    | deciles                 | for each column its deciles, or the share of rows of each category                |
    | centered                | whether each row's value at the first point was subtracted                        |
    """

    columns: tuple[str, ...]
    grids: tuple[Array, ...]
    categorical: tuple[bool, ...]
    outputs: tuple[str, ...]
    average: Array
    std_error: Array
    lower: Array
    upper: Array
    level: float
    individual: Array | None
    support: Array
    deciles: tuple[Array, ...]
    centered: bool
    n: int
    kind: str
    response: str
    method: str
    model: str

    def to_frame(self) -> pd.DataFrame:
        """One row per output and point of the grid: the columns' values, average, std_error, lower, upper, support."""
        mesh = np.meshgrid(*[np.arange(grid.size) for grid in self.grids], indexing="ij")
        points = {name: grid[at.ravel()] for name, grid, at in zip(self.columns, self.grids, mesh, strict=True)}
        parts = []
        for k, output in enumerate(self.outputs):
            figures = {name: getattr(self, name)[k].ravel() for name in ("average", "std_error", "lower", "upper")}
            part = pd.DataFrame({**points, **figures, "support": self.support.ravel()})
            if len(self.outputs) > 1:
                part.insert(0, "output", output)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    @property
    def strength(self) -> Array:
        """For each output, the largest average minus the smallest one where the rows have something to say."""
        inside = self.average[:, self.support] if self.support.any() else self.average.reshape(len(self.outputs), -1)
        return np.asarray(inside.max(axis=1) - inside.min(axis=1))

    def __str__(self) -> str:
        what = " and ".join(self.columns)
        title = f"Partial dependence of {label_of_output(self)} on {what} ({self.model})"
        size = " x ".join(str(grid.size) for grid in self.grids)
        facts = [f"{self.n} rows, {size} points, {'centred at the first point, ' * self.centered}{self.method}"]
        outside = int((~self.support).sum())
        if outside:
            facts.append(f"{outside} of {self.support.size} points lie outside the data: the model extrapolates")
        strength = ", ".join(
            fmt(s) if len(self.outputs) == 1 else f"{name} {fmt(s)}"
            for name, s in zip(self.outputs, self.strength, strict=True)
        )
        facts.append(f"largest minus smallest average: {strength}")
        rule = "-" * max(len(line) for line in [title, *facts])
        if len(self.columns) == 2:
            return "\n".join([title, rule, *facts])
        frame = self.to_frame().drop(columns="support")
        shown = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, 11).astype(int))]
        body = shown.to_string(index=False, float_format=fmt).splitlines()
        return "\n".join([title, rule, *facts, rule, *body])


def label_of_output(result: Dependence) -> str:
    """What the vertical axis shows, in words."""
    words = {"values": "prediction", "probabilities": "probability", "scores": "score"}[result.response]
    return f"{words} of {result.outputs[0]}" if len(result.outputs) == 1 and result.outputs[0] else words


def partial_dependence(
    model: Any,
    X: Any,
    columns: Any,
    *,
    grid: Any = 50,
    kind: str = "average",
    response: str = "auto",
    centered: bool = False,
    sample_weight: Any = None,
    max_rows: int | None = None,
    level: float = 0.95,
    random_state: Any = 0,
) -> Dependence:
    """Average predictions of a fitted model with one or two columns set to each value of a grid in every row.

        PD(v) = mean_i f(v, the rest of row i),      se(v) = standard deviation over rows / sqrt(n)

    | parameter     | default   | range                           | meaning                                        |
    |---------------|-----------|---------------------------------|------------------------------------------------|
    | model         |           | fitted, with predict            | any model; classifiers give probabilities      |
    | X             |           | array, frame, sparse            | the rows to average over                       |
    | columns       |           | a name, a position, or two      | what to set                                    |
    | grid          | 50        | a number, an array, two of them | points at quantiles, or themselves             |
    | kind          | "average" | "average", "individual", "both" | "individual", "both": keep the rows' own lines |
    | response      | "auto"    | "auto", or one of the below     | what the model is asked for                    |
    | centered      | False     | True, False                     | subtract each row's value at the first point   |
    | sample_weight | None      | one per row, 0 or more          | weights of the rows in the average             |
    | max_rows      | None      | 2 or more                       | average over so many, drawn at random          |
    | level         | 0.95      | (0, 1)                          | of the pointwise band                          |
    | random_state  | 0         | seed, generator or None         | which rows `max_rows` draws                    |

    A grid given as a number holds quantiles of a numeric column (all its values if they are fewer) and every level of a
    category. `response` is "values", "probabilities" or "scores" (decision_function); "auto" asks classifiers for
    probabilities, or else scores.

    The band takes the model as fixed: it is about the rows, not about what another training set would have given.
    Friedman (2001), Annals of Statistics 29, 1189-1232.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> found = partial_dependence(LinearRegression().fit(X, 3 * X[:, 0] + X[:, 1]), X, 0, grid=[0.0, 1.0])
    >>> (found.average[0, 1] - found.average[0, 0]).round(6)
    np.float64(3.0)
    """
    kind, response = choice(kind, "kind", KINDS), choice(response, "response", RESPONSES)
    level, X = fraction(level, "level"), as_table(X)
    if not isinstance(centered, bool | np.bool_):
        raise ParameterError(f"centered = {centered!r} is not a boolean", remedy="pass True or False")
    weights = row_weights(sample_weight, X.shape[0])
    ask, response, outputs = _question(model, response)
    names = names_of(X, model)
    at = _positions(columns, X, names)
    if kind != "average" and len(at) == 2:
        raise ParameterError("lines per row need one column", remedy='pass one column, or kind="average"')
    if X.shape[0] < 2:
        raise DataError(f"X has {X.shape[0]} rows, which have no spread", remedy="pass at least two rows")
    grids, deciles, categorical = zip(*grids_of(X, at, names, grid), strict=True)
    if max_rows is not None and whole(max_rows, "max_rows", 2) < X.shape[0]:
        chosen = np.sort(generator(random_state).choice(X.shape[0], int(max_rows), replace=False))
        X, weights = take(X, chosen), None if weights is None else weights[chosen]
    shape = tuple(g.size for g in grids)
    support = support_of([column_values(X, j) for j in at], grids, categorical)
    lines = _Lines(shape, X.shape[0], weights, keep=kind != "average", centered=bool(centered))
    with one_blas_thread():
        for start, predicted in track(_predict(ask, X, at, grids), "grid"):
            lines.add(start, predicted)
    average, error = lines.figures()
    half = error * float(special.stdtrit(lines.rows - 1, (1 + level) / 2))
    figures = (freeze(average), freeze(error), freeze(average - half), freeze(average + half))
    if outputs is None:
        outputs = ("",) if average.shape[0] == 1 else tuple(f"output {k}" for k in range(average.shape[0]))
    return Dependence(
        tuple(names[j] for j in at),
        grids,
        categorical,
        outputs,
        *figures,
        level,
        lines.individual(),
        freeze(support),
        deciles,
        bool(centered),
        X.shape[0],
        kind,
        response,
        f"{100 * level:g}% pointwise t band over rows, model treated as fixed",
        label_of(model),
    )


def _question(model: Any, response: str) -> tuple[Any, str, tuple[str, ...] | None]:
    """How to ask the model, what it answers with, and the names of its answers (None: not known before it answers)."""
    if not hasattr(model, "predict") or isinstance(model, type):
        raise DataTypeError(f"{label_of(model)} is not a model", remedy="pass a fitted object with predict")
    refuse_unfitted(model)
    classes = getattr(model, "classes_", None)
    if response == "auto":
        classifies = _is_classifier(model) or hasattr(model, "predict_proba")
        ways = ("probabilities", "scores") if classifies else ("values",)
        response = next((way for way in ways if hasattr(model, METHODS[way])), "values")
    if not hasattr(model, METHODS[response]):
        message = f"{label_of(model)} has no {METHODS[response]}, which response={response!r} needs"
        raise DataTypeError(message, remedy="choose another response")
    if response == "values" and _is_classifier(model) and np.asarray(classes).dtype.kind not in "biuf":
        raise DataTypeError("labels have no average", remedy='choose response="probabilities" or "scores"')
    method = getattr(model, METHODS[response])
    if response == "values" or classes is None:
        return method, response, None
    labels = tuple(str(label) for label in np.asarray(classes).tolist())
    if len(labels) != 2:
        return method, response, labels

    def positive(table: Any) -> Array:
        found = np.asarray(method(table))
        return found[:, 1] if found.ndim == 2 and found.shape[1] == 2 else found

    return positive, response, labels[1:]


def _positions(columns: Any, X: Any, names: tuple[str, ...]) -> tuple[int, ...]:
    several = isinstance(columns, list | tuple | np.ndarray | pd.Index)
    listed = list(columns) if several else [columns]
    at = tuple(find_column(column, X, names) for column in listed)
    if len(at) not in (1, 2) or len(set(at)) < len(at):
        raise ParameterError(f"{len(at)} columns were named", remedy="name one column, or two different ones")
    return at


def _predict(ask: Any, X: Any, at: tuple[int, ...], grids: tuple[Array, ...]) -> Iterator[tuple[int, Array]]:
    """(first point, predictions of shape (points, rows, outputs)) for one batch of grid points after another."""
    mesh = np.meshgrid(*[np.arange(grid.size) for grid in grids], indexing="ij")
    points = np.column_stack([part.ravel() for part in mesh])
    table = _room_for(X, at, grids)
    n, copies = int(X.shape[0]), copies_for(X, len(points))
    bench = workbench(table, copies)
    for start in range(0, len(points), copies):
        batch = points[start : start + copies]
        for k, j in enumerate(at):
            bench.put(j, _typed(X, j, grids[k][batch[:, k]].repeat(n)))
        found = np.asarray(ask(bench.table(len(batch))))
        if found.shape[:1] != (len(batch) * n,):
            message = f"the model returned predictions of shape {found.shape} for {len(batch) * n} rows"
            raise DataError(message, remedy="return one prediction per row")
        yield start, found.reshape(len(batch), n, -1).astype(float, copy=False)


def _is_classifier(model: Any) -> bool:
    """As scikit-learn tells it; learners without tags are known by their classes."""
    return is_classifier(model) if hasattr(model, "__sklearn_tags__") else hasattr(model, "classes_")


def _room_for(X: Any, at: tuple[int, ...], grids: tuple[Array, ...]) -> Any:
    """The same table, in which columns of whole numbers or booleans can hold every value of a grid."""
    framed = isinstance(X, pd.DataFrame)
    narrow = [
        j
        for j, grid in zip(at, grids, strict=True)
        if grid.dtype.kind == "f" and not _holds(X.dtypes.iloc[j] if framed else X.dtype, grid)
    ]
    if not narrow:
        return X
    if framed:
        X = X.copy(deep=False)
        for j in narrow:
            X.isetitem(j, X.iloc[:, j].astype(float))
        return X
    return X.astype(float)


def _holds(dtype: Any, grid: Array) -> bool:
    """Whether a column of this type can hold the values as they are."""
    kind = getattr(dtype, "kind", "O")
    if kind not in "iub" or not isinstance(dtype, np.dtype):
        return True
    low, high = (0, 1) if kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return bool(np.array_equal(grid, grid.round()) and grid.min() >= low and grid.max() <= high)


def _typed(X: Any, j: int, values: Array) -> Any:
    """Values for a column in the type of that column, so that categories stay categories."""
    if not isinstance(X, pd.DataFrame) or values.dtype.kind == "f":
        return values
    dtype = X.dtypes.iloc[j]
    return values.astype(dtype) if isinstance(dtype, np.dtype) else pd.array(values, dtype=dtype)


class _Lines:
    """Averages and their errors over rows, point by point as they come; the rows' own lines only where asked for."""

    def __init__(self, shape: tuple[int, ...], n: int, weights: Array | None, *, keep: bool, centered: bool) -> None:
        self.shape, self.keep, self.centered = shape, keep, centered
        self.weights = np.ones(n) if weights is None else weights / weights.mean()
        self.rows = int(np.count_nonzero(self.weights))
        self.first: Array | None = None
        self.means: list[Array] = []
        self.errors: list[Array] = []
        self.lines: list[Array] = []

    def add(self, start: int, predicted: Array) -> None:
        """Predictions of shape (points, rows, outputs) from the point `start` on."""
        if self.centered:
            if self.first is None:
                self.first = predicted[0].copy()
            predicted = predicted - self.first
        w, total = self.weights[:, None], self.weights.sum()
        means = (predicted * w).sum(axis=1) / total
        apart = (predicted - means[:, None]) * w
        self.means.append(means)
        # A weighted mean's error, n/(n-1) sum w^2 (f - mean)^2 / (sum w)^2: the usual one where weights are equal.
        top = float(np.abs(apart).max()) or 1.0
        squares = ((apart / top) ** 2).sum(axis=1) * self.rows / max(1, self.rows - 1)
        self.errors.append(top * np.sqrt(squares) / total)
        if self.keep:
            self.lines.append(predicted.copy())

    def figures(self) -> tuple[Array, Array]:
        """Averages and standard errors, outputs first."""
        both = (np.concatenate(part).T for part in (self.means, self.errors))
        average, error = (np.ascontiguousarray(part.reshape(-1, *self.shape)) for part in both)
        return average, error

    def individual(self) -> Array | None:
        """One line per row: shape (outputs, rows, points)."""
        return freeze(np.ascontiguousarray(np.concatenate(self.lines).transpose(2, 1, 0))) if self.keep else None
