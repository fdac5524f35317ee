"""Naive Bayes beside scikit-learn's: a million rows, ten folds of them, sparse counts, and real text.

The text is what installed packages say of their own functions: which of them does a docstring come from? It is at hand
without a download, and it is real; the packages' names are taken out of it.
"""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import scipy
from scipy import sparse
from sklearn import naive_bayes as peers
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from assay.generative.mixed import MixedNB
from assay.generative.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
from assay.generative.text import TextNB
from benchmarks.case import Case

__all__ = ["CASES"]

NAMES = re.compile(r"\b(numpy|np|scipy|pandas|pd|sklearn|scikit)\b", re.IGNORECASE)


def numbers(n: int = 1_000_000, p: int = 20, K: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    return rng.standard_normal((n, p)) + 0.3 * rng.standard_normal((K, p))[y], y


def words(n: int = 100_000, p: int = 50_000, each: int = 100, K: int = 5) -> tuple[Any, np.ndarray]:
    """Documents of about a hundred words, whose frequencies fall as in real text and differ between classes."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, K, n)
    rank = np.minimum((p * rng.random(n * each) ** 3).astype(np.int64), p - 1)
    column = (rank + 7 * np.repeat(y, each) * (rank % 5 == 0)) % p
    row = np.repeat(np.arange(n), each)
    return sparse.csr_matrix(sparse.coo_matrix((np.ones(n * each), (row, column)), shape=(n, p))), y


def categories(n: int = 500_000, p: int = 20, K: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    y = rng.integers(0, K, n)
    return (rng.integers(0, 8, (n, p)) + y[:, None] * (rng.random((n, p)) < 0.1)) % 8, y


def documents() -> tuple[list[str], np.ndarray]:
    """Docstrings of three packages in a fixed order, every other one of all longer than 300 letters."""
    places = {
        "numpy": (np, np.linalg, np.fft, np.ma),
        "pandas": (pd, pd.DataFrame, pd.Series, pd.Index),
        "scipy": (scipy.stats, scipy.signal, scipy.linalg, scipy.special, scipy.optimize, scipy.sparse, scipy.ndimage),
    }
    texts: dict[str, str] = {}
    for package, homes in places.items():
        for home in homes:
            for name in sorted(dir(home)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    text = None if name.startswith("_") else inspect.getdoc(getattr(home, name, None))
                if text and len(text) > 300:
                    texts.setdefault(NAMES.sub(" ", text), package)
    some = sorted(texts)
    return some, np.array([texts[text] for text in some])


def mixed(n: int = 100_000) -> tuple[np.ndarray, np.ndarray]:
    X, y = numbers(n)
    X[np.random.default_rng(3).random(X.shape) < 0.1] = np.nan
    return X, y


def fitted(model: Any) -> Any:
    return lambda data: clone(model).fit(*data)


def both(model: Any) -> Any:
    return lambda data: clone(model).fit(*data).predict_proba(data[0])


def folds(data: Any) -> Any:
    return list(KFold(10, shuffle=True, random_state=0).split(data[1]))


def ours_by_fold(model: Any) -> Any:
    return lambda data: np.concatenate(model.predict_folds(*data, folds(data)))


def peer_by_fold(model: Any) -> Any:
    def run(data: Any) -> np.ndarray:
        X, y = data
        return np.concatenate([clone(model).fit(X[a], y[a]).predict(X[b]) for a, b in folds(data)])

    return run


def loss(model: Any, data: Any) -> float:
    """Mean log loss on the first rows: equal fits have equal losses."""
    X, y = data[0][:2_000], data[1][:2_000]
    return log_loss(model.predict_proba(X), (X, y), model.classes_)


def log_loss(chance: np.ndarray, data: Any, classes: Any = None) -> float:
    y = data[1]
    place = np.searchsorted(np.unique(y) if classes is None else classes, y)
    return -float(np.mean(np.log(np.maximum(chance[np.arange(len(y)), place], 1e-300))))


def wrong(labels: np.ndarray, data: Any) -> float:
    y = np.concatenate([data[1][b] for _, b in folds(data)])
    return float(np.mean(labels != y))


def ours_text(data: Any) -> np.ndarray:
    texts, y = data
    return TextNB(max_share=1.0).fit(texts, y).predict_proba(texts)


def peer_text(data: Any) -> np.ndarray:
    texts, y = data
    return make_pipeline(CountVectorizer(), peers.MultinomialNB()).fit(texts, y).predict_proba(texts)


def beside(title: str, data: Any, ours: Any, peer: Any, fit: float, use: float, repeats: int = 5) -> list[Case]:
    """A case of the fit and one of fit and prediction."""
    shared = {"data": data, "slack": 1e-8, "repeats": repeats}
    return [
        Case(
            f"{title}, fit",
            ours=fitted(ours),
            peers={"scikit-learn": fitted(peer)},
            quality=loss,
            quality_name="log loss",
            goals={"scikit-learn": fit},
            **shared,
        ),
        Case(
            f"{title}, fit and probabilities",
            ours=both(ours),
            peers={"scikit-learn": both(peer)},
            quality=log_loss,
            quality_name="log loss",
            goals={"scikit-learn": use},
            **shared,
        ),
    ]


CASES = [
    *beside("GaussianNB, 1,000,000 x 20, 5 classes", numbers, GaussianNB(), peers.GaussianNB(), 3.0, 3.0),
    Case(
        "GaussianNB, 10-fold cross-validation, 1,000,000 x 20",
        data=numbers,
        ours=ours_by_fold(GaussianNB()),
        peers={"scikit-learn": peer_by_fold(peers.GaussianNB())},
        quality=wrong,
        quality_name="error rate",
        goals={"scikit-learn": 10.0},
        slack=1e-9,
        repeats=2,
        cold=True,
    ),
    *beside("MultinomialNB, sparse 100,000 x 50,000", words, MultinomialNB(), peers.MultinomialNB(), 1.2, 1.2),
    *beside("BernoulliNB, sparse 100,000 x 50,000", words, BernoulliNB(), peers.BernoulliNB(), 1.2, 1.2, 3),
    *beside("CategoricalNB, 500,000 x 20", categories, CategoricalNB(), peers.CategoricalNB(), 3.0, 3.0, 3),
    Case(
        "MixedNB, 100,000 x 20 with gaps, fit and probabilities",
        data=mixed,
        ours=both(MixedNB()),
        peers={"GaussianNB on filled gaps": lambda data: both(peers.GaussianNB())((np.nan_to_num(data[0]), data[1]))},
        quality=log_loss,
        quality_name="log loss",
        repeats=3,
    ),
    Case(
        "TextNB, docstrings of three packages",
        data=documents,
        ours=ours_text,
        peers={"scikit-learn pipeline": peer_text},
        quality=log_loss,
        quality_name="log loss",
        slack=1e-8,
        repeats=3,
    ),
]
