"""Shapley values: what each column adds to one prediction, relative to the mean prediction of a background.

    v(S) = (1/m) sum_z f(x_S, z_-S),     phi_j = sum over S without j of  |S|! (p - |S| - 1)! / p!  (v(S + j) - v(S))
    sum_j phi_j = f(x) - (1/m) sum_z f(z)

f is the margin: the prediction of a regression, the log-odds or score of a classifier that has one, otherwise its
probability; `scale` says which. Exact for trees and tree ensembles (walking every tree once for each pair of a row and
a background row) and for lines, of which one-hot columns of one category are summed; every other model is asked for
mixed rows along random permutations, and its values carry their Monte-Carlo standard error.

The values describe the model, not the world: a column that is correlated with another one may carry its effect.

Shapley (1953), Contributions to the Theory of Games II; Janzing, Minorics & Bloebaum (2020), AISTATS; Lundberg et al.
(2020), Nature Machine Intelligence 2, 56-67.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from assay.checks import freeze, whole
from assay.errors import DataError, DataTypeError, ParameterError
from assay.evaluation._shapley_methods import explain
from assay.evaluation._workbench import as_table, column_values, names_of
from assay.evaluation.learner import label_of, refuse_unfitted
from assay.numbers import fmt
from assay.numerics.seeds import seed_sequence
from assay.numerics.threads import one_blas_thread
from assay.resampling import take
from assay.results import Result
from assay.shapley import ShapleyTask

__all__ = ["BACKGROUND", "ShapleyValues", "shapley_values"]

Array = np.ndarray
BACKGROUND = 100
"""Rows of the background, drawn where more are given."""
SHOWN = 10
"""How many columns of a row are printed; the frame holds all."""


@dataclass(frozen=True, eq=False, repr=False)
class ShapleyValues(Result):
    """What each column adds to the predictions of some rows.

    | field      | shape                        | meaning                                                          |
    |------------|------------------------------|------------------------------------------------------------------|
    | values     | rows, columns [, outputs]    | contributions; they add up to prediction - base                  |
    | base       | number [outputs]             | the mean prediction of the background                            |
    | prediction | rows [, outputs]             | on the same scale                                                |
    | std_error  | as `values`, or None         | Monte-Carlo standard error; None: exact                          |
    | names      | columns                      | the columns of the table                                         |
    | cells      | rows, columns                | what the columns held                                            |
    | outputs    |                              | the classes; with two classes the second one alone               |
    | scale      |                              | "prediction", "log prediction", "log-odds", "score", "probability" |
    | index      | rows                         | labels of the rows                                               |
    """

    values: Array
    base: Any
    prediction: Array
    std_error: Array | None
    names: tuple[str, ...]
    cells: Array
    outputs: tuple[str, ...]
    scale: str
    index: Array
    n_background: int
    method: str
    model: str

    @property
    def importance(self) -> Array:
        """The mean absolute contribution of each column over rows (and the sum over outputs)."""
        size = np.abs(self.values).mean(axis=0)
        return size if size.ndim == 1 else size.sum(axis=1)

    def row(self, i: int) -> ShapleyValues:
        """The values of the row at position i alone."""
        n = self.values.shape[0]
        if not -n <= i < n:
            raise ParameterError(f"row {i} is out of range", remedy=f"pass a position from 0 to {n - 1}")
        at = slice(i % n, i % n + 1)
        error = None if self.std_error is None else self.std_error[at]
        parts = {name: getattr(self, name)[at] for name in ("values", "prediction", "cells", "index")}
        return replace(self, **parts, std_error=error)

    def leading(self, i: int, most: int = 3, output: int = 0) -> list[tuple[str, Any, float]]:
        """The columns that matter most in row i: (name, cell, contribution), the largest first; zeros are left out."""
        values = self.values[i] if self.values.ndim == 2 else self.values[i, :, output]
        order = np.argsort(-np.abs(values), kind="stable")[:most]
        return [(self.names[j], self.cells[i, j], float(values[j])) for j in order if values[j] != 0]

    def to_frame(self) -> pd.DataFrame:
        """One row per row, output and column: row, [output,] column, cell, contribution[, std_error]."""
        n, p = self.cells.shape
        K = len(self.outputs)
        shape = (n, p, K)
        columns: dict[str, Any] = {
            "row": np.repeat(self.index, p * K),
            "column": np.tile(np.repeat(np.array(self.names, dtype=object), K), n),
            "cell": np.repeat(self.cells.reshape(-1), K),
            "contribution": self.values.reshape(shape).ravel(),
        }
        if self.std_error is not None:
            columns["std_error"] = self.std_error.reshape(shape).ravel()
        if K > 1:
            columns["output"] = np.tile(np.array(self.outputs, dtype=object), n * p)
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        n, p = self.cells.shape
        title = f"Shapley values of {n} row{'s' * (n != 1)}, {p} columns ({self.model})"
        facts = [f"scale: {self.scale}{self._of_class()}; {self.method}"]
        if n != 1 or len(self.outputs) > 1:
            order = np.argsort(-self.importance, kind="stable")[:SHOWN]
            shown = [(self.names[j], fmt(self.importance[j])) for j in order]
            facts.append("mean absolute contribution:")
        else:
            facts.append(f"base {fmt(float(self.base))}, prediction {fmt(float(self.prediction[0]))}")
            shown = [(f"{name} = {cell}", f"{value:+.4g}") for name, cell, value in self.leading(0, SHOWN)]
        rule = "-" * max(len(line) for line in [title, *facts])
        width = max((len(name) for name, _ in shown), default=0)
        return "\n".join([title, rule, *facts, *(f"  {name:<{width}}  {value}" for name, value in shown)])

    def _of_class(self) -> str:
        return f" of {self.outputs[0]}" if len(self.outputs) == 1 and self.outputs[0] else ""


def shapley_values(
    model: Any,
    X: Any,
    background: Any,
    *,
    response: str = "margin",
    permutations: int = 2,
    random_state: Any = 0,
) -> ShapleyValues:
    """What each column adds to each prediction, relative to the mean prediction of a background.

        sum_j phi_j = f(x) - mean_z f(z),     phi_j interventional, as defined at the top of this module

    | parameter    | default  | range                     | meaning                                                    |
    |--------------|----------|---------------------------|------------------------------------------------------------|
    | model        |          | fitted, with predict      | any model                                                  |
    | X            |          | array, frame, sparse      | the rows to explain                                        |
    | background   |          | the same columns          | rows to compare with; 100 are drawn where there are more   |
    | response     | "margin" | "margin", "prediction"    | log-odds or scores where a classifier has them, or never   |
    | permutations | 2        | 2 or more                 | antithetic pairs per background row, where sampled         |
    | random_state | 0        | seed, generator or None   | the background rows and permutations drawn                 |

    Cost: exact trees O(rows x background x trees x leaves reached), lines O(rows x columns); sampled
    2 x permutations x background x columns predictions per row.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = LinearRegression().fit(X, 3 * X[:, 0] + X[:, 1])
    >>> shapley_values(model, np.array([[1.0, 1.0]]), X - X.mean(axis=0)).values.round(6).tolist()
    [[3.0, 1.0]]
    """
    if not hasattr(model, "predict") or isinstance(model, type):
        raise DataTypeError(f"{label_of(model)} is not a model", remedy="pass a fitted object with predict")
    refuse_unfitted(model)
    if response not in ("margin", "prediction"):
        raise ParameterError(f"unknown response {response!r}", remedy='use "margin" or "prediction"')
    X, background = as_table(X), as_table(background)
    _same_columns(X, background)
    permutations = whole(permutations, "permutations", 2)
    seeds = seed_sequence(random_state)
    if background.shape[0] > BACKGROUND:
        drawn = np.random.default_rng(seeds).choice(background.shape[0], BACKGROUND, replace=False)
        background = take(background, np.sort(drawn))
    entropy = tuple(int(word) for word in seeds.generate_state(4))
    p = X.shape[1]
    task = ShapleyTask(X, background, np.arange(p), p, response == "prediction", entropy, permutations, explain)
    with one_blas_thread():
        part = task.explain(model)
    one = part.values.shape[2] == 1
    error = None if part.variance is None else np.sqrt(part.variance)
    m = background.shape[0]
    method = f"interventional, {m} background row{'s' * (m != 1)}, "
    method += "exact" if error is None else f"sampled, {permutations} antithetic pairs of permutations per row of it"
    cells = np.empty(X.shape, dtype=object)
    for j in range(p):
        cells[:, j] = np.asarray(column_values(X, j), dtype=object)
    return ShapleyValues(
        freeze(part.values[:, :, 0] if one else part.values),
        float(part.base[0]) if one else freeze(part.base),
        freeze(part.prediction[:, 0] if one else part.prediction),
        None if error is None else freeze(error[:, :, 0] if one else error),
        names_of(X, model),
        cells,
        _outputs(model, part.values.shape[2]),
        part.scale,
        np.asarray(X.index) if isinstance(X, pd.DataFrame) else np.arange(X.shape[0]),
        m,
        method,
        label_of(model),
    )


def _same_columns(X: Any, background: Any) -> None:
    if X.shape[0] == 0 or background.shape[0] == 0:
        which = "X" if X.shape[0] == 0 else "background"
        raise DataError(f"{which} has no rows", remedy="pass at least one row")
    if isinstance(X, pd.DataFrame) != isinstance(background, pd.DataFrame) or X.shape[1] != background.shape[1]:
        message = f"X has {X.shape[1]} columns and background {background.shape[1]}, or one of them is not a data frame"
        raise DataError(message, remedy="pass tables with the same columns")
    if isinstance(X, pd.DataFrame) and list(X.columns) != list(background.columns):
        other = next(a for a, b in zip(X.columns, background.columns, strict=True) if a != b)
        raise DataError(
            f"column {other!r} of X is not at the same position in background", remedy="pass background[X.columns]"
        )


def _outputs(model: Any, K: int) -> tuple[str, ...]:
    classes = getattr(model, "classes_", None)
    if classes is None:
        return ("",) if K == 1 else tuple(f"output {k}" for k in range(K))
    return (str(classes[-1]),) if K == 1 else tuple(str(label) for label in classes)
