"""Support vector machines beside LIBSVM and LIBLINEAR, as scikit-learn ships them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import svm as peer
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from assay.margin import SVC, SVCCV, LinearSVC
from assay.margin.kernels import RBF
from benchmarks.case import Case

__all__ = ["CASES"]

JOBS = 2
MEGABYTES = 1000
CS, GAMMAS = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0], [0.003, 0.01, 0.03, 0.05, 0.1, 0.2]


def classes(n: int, p: int, k: int = 2, more: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clusters, a twentieth of the labels wrong, columns standardised; and further rows."""
    X, y = make_classification(
        n + more, p, n_informative=p // 2, n_classes=k, class_sep=1.0 if k == 2 else 2.0, flip_y=0.05,
        n_clusters_per_class=2 if k == 2 else 1, random_state=0,
    )  # fmt: skip
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[:n], y[:n], X[n:]


def texts(n: int, p: int, words: int = 80) -> tuple[Any, np.ndarray, None]:
    """Documents of some eighty words, drawn by Zipf's law and weighted by rarity, each of length one."""
    rng = np.random.default_rng(0)
    rank = np.minimum(rng.zipf(1.3, n * words * 2) - 1, p - 1)[: n * words]
    rows = np.repeat(np.arange(n), words)
    X = sparse.csr_matrix((np.ones(rows.size), (rows, rank)), shape=(n, p))
    X.sum_duplicates()
    X = X @ sparse.diags_array(np.log((n + 1) / (np.bincount(X.indices, minlength=p) + 1)) + 1).tocsr()
    X = sparse.csr_matrix(sparse.diags_array(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    w = rng.normal(size=p) * (rng.random(p) < 0.2)
    score = X @ w
    return X, (score + 0.3 * score.std() * rng.normal(size=n) > 0).astype(int), None


def ours(data: Any) -> Any:
    return SVC(cache_size=MEGABYTES, n_jobs=JOBS).fit(data[0], data[1])


def theirs(data: Any) -> Any:
    return peer.SVC(cache_size=MEGABYTES).fit(data[0], data[1])


def primal(model: Any, data: Any) -> float:
    """(|w|^2 / 2 + sum of slacks) / n of a machine for two classes with C = 1."""
    X, y, _ = data
    kernel = RBF(1.0 / (X.shape[1] * X.var()))
    held, coef = kernel.prepare(X[model.support_]), model.dual_coef_[0]
    f = np.concatenate([held.cross(X[at : at + 2000]) @ coef for at in range(0, len(X), 2000)])
    slack = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * (f + model.intercept_[0]))
    return float(0.5 * coef @ f[model.support_] + slack.sum()) / len(X)


def training_error(model: Any, data: Any) -> float:
    """Misclassified among the first 2,000 rows."""
    X, y, _ = data
    return float(np.mean(model.predict(X[:2000]) != y[:2000]))


def fitted() -> tuple[Any, Any, np.ndarray]:
    """Both machines, and the rows to predict."""
    X, y, new = classes(10_000, 30, more=10_000)
    return SVC().fit(X, y), peer.SVC(cache_size=MEGABYTES).fit(X, y), new


def linear(data: Any, **options: Any) -> Any:
    return LinearSVC(loss="hinge", random_state=0, **options).fit(data[0], data[1])


def linear_peer(data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it stops at 1,000 epochs
        return peer.LinearSVC(loss="hinge", random_state=0).fit(data[0], data[1])


def linear_primal(model: Any, data: Any) -> float:
    X, y, _ = data
    w, b = model.coef_.ravel(), float(model.intercept_[0])
    slack = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * (X @ w + b))
    return float(0.5 * w @ w + 0.5 * b * b + slack.sum()) / X.shape[0]


def grid(data: Any) -> float:
    model = SVCCV(Cs=CS, gammas=GAMMAS, n_jobs=JOBS).fit(data[0], data[1])
    return float(model.cv_map_.error.min())


def grid_peer(data: Any) -> float:
    search = GridSearchCV(peer.SVC(), {"C": CS, "gamma": GAMMAS}, cv=5, n_jobs=JOBS).fit(data[0], data[1])
    return float(1.0 - search.best_score_)


CASES = [
    Case(
        "SVC, 10,000 x 30",
        data=lambda: classes(10_000, 30),
        ours=ours,
        peers={"scikit-learn": theirs},
        quality=primal,
        quality_name="primal objective / n",
        goals={"scikit-learn": 4.0},
        slack=1e-4,
        repeats=5,
        cold=True,
    ),
    Case(
        "SVC, 60,000 x 50, Gram matrix too large",
        data=lambda: classes(60_000, 50),
        ours=ours,
        peers={"scikit-learn": theirs},
        quality=primal,
        quality_name="primal objective / n",
        goals={"scikit-learn": 3.0},
        slack=1e-4,
        repeats=1,
    ),
    Case(
        "SVC, 20,000 x 64, ten classes",
        data=lambda: classes(20_000, 64, 10),
        ours=ours,
        peers={"scikit-learn": theirs},
        quality=training_error,
        quality_name="training error",
        goals={"scikit-learn": 4.0},
        slack=1e-3,
        repeats=2,
    ),
    Case(
        "SVC, prediction of 10,000 rows",
        data=fitted,
        ours=lambda data: data[0].decision_function(data[2]),
        peers={"scikit-learn": lambda data: data[1].decision_function(data[2])},
        quality=lambda found, data: float(np.max(np.abs(found - data[0].decision_function(data[2])))),
        quality_name="largest difference",
        goals={"scikit-learn": 4.0},
        repeats=3,
    ),
    Case(
        "SVC, grid of 6 C x 6 gamma, 5 folds, 4,000 x 20",
        data=lambda: classes(4_000, 20),
        ours=grid,
        peers={"GridSearchCV": grid_peer},
        quality=lambda error, _: error,
        quality_name="least error",
        goals={"GridSearchCV": 8.0},
        slack=0.005,
        repeats=1,
    ),
    Case(
        "LinearSVC, hinge, 200,000 x 50",
        data=lambda: classes(200_000, 50),
        ours=linear,
        peers={"scikit-learn": linear_peer},
        quality=linear_primal,
        quality_name="primal objective / n",
        goals={"scikit-learn": 3.0},
        slack=1e-4,
        repeats=1,
        cold=True,
    ),
    Case(
        "LinearSVC, hinge, sparse texts, 50,000 x 100,000",
        data=lambda: texts(50_000, 100_000),
        ours=linear,
        peers={"scikit-learn": linear_peer},
        quality=linear_primal,
        quality_name="primal objective / n",
        goals={"scikit-learn": 1.3},
        slack=1e-4,
        repeats=3,
    ),
]
