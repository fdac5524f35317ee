"""What a family compiles, declared by the family: small calls that use its kernels as a study does.

A family declares its warm-ups in a module `warmups`, in the order in which they should be compiled, the longest first:

    WARMUPS = (*fits(RandomForestRegressor, native=True, n_estimators=2), Warmup("bootstrap", lambda: bootstrap(...)))

`assay.warm` finds these modules and runs what they declare in worker processes; the cache keeps what they compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["Warmup", "fits", "fits_name", "small_table"]

Array = np.ndarray


@dataclass(frozen=True)
class Warmup:
    """A call that takes next to no time once its kernels are compiled, and a name to ask for it."""

    name: str
    run: Callable[[], object]


def fits(kind: type, *, native: bool = False, sparse: bool = False, **settings: Any) -> Iterator[Warmup]:
    """A small fit and prediction of an estimator class for each sort of table that compiles other kernels.

    | parameter | default | meaning                                                                          |
    |-----------|---------|----------------------------------------------------------------------------------|
    | kind      |         | the estimator class                                                              |
    | native    | False   | whether it takes categories and missing values as they come                      |
    | sparse    | False   | whether sparse tables have kernels of their own                                  |
    | settings  |         | parameters that keep the fit short                                               |

    >>> from sklearn.linear_model import LogisticRegression
    >>> [warmup.name for warmup in fits(LogisticRegression)]
    ['LogisticRegression, 2 classes', 'LogisticRegression, 3 classes']
    """
    for classes in (2, 3) if hasattr(kind, "predict_proba") else (0,):
        for categories in (False, True) if native else (False,):
            name = fits_name(kind, classes=classes, categories=categories)
            yield Warmup(name, partial(_fit, kind, settings, partial(small_table, classes, categories)))
    if sparse:
        yield Warmup(f"{kind.__name__}, sparse", partial(_fit, kind, settings, partial(_sparse_table, kind)))


def fits_name(kind: type, *, classes: int = 0, categories: bool = False) -> str:
    """The name of the warm-up that compiles what a fit to such a table needs; `classes` is 0 for regression."""
    parts = [kind.__name__]
    if classes:
        parts.append("2 classes" if classes == 2 else "3 classes")
    if categories:
        parts.append("categories")
    return ", ".join(parts)


def small_table(classes: int = 0, categories: bool = False) -> tuple[Any, Array]:
    """Sixty rows: five columns of numbers and, if asked for, missing values and a column of categories."""
    rng = np.random.default_rng(0)
    X: Any = rng.normal(size=(60, 5))
    y = X[:, 0] + rng.normal(size=60)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    if categories:
        X[rng.random(X.shape) < 0.1] = np.nan
        X = pd.DataFrame(X, columns=list("abcde")).assign(letter=pd.Categorical(rng.choice(list("xyz"), 60)))
    return X, y


def _sparse_table(kind: type) -> tuple[Any, Array]:
    from scipy.sparse import csr_array

    X, y = small_table(2 if hasattr(kind, "predict_proba") else 0)
    return csr_array(np.where(X > 0.5, X, 0.0)), y


def _fit(kind: type, settings: dict[str, Any], table: Callable[[], tuple[Any, Array]]) -> None:
    X, y = table()
    model = kind(**settings).fit(X, y)
    for method in ("predict", "predict_proba", "transform"):
        if hasattr(model, method):
            getattr(model, method)(X)
