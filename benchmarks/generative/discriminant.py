"""Linear and quadratic discriminant analysis beside scikit-learn: fits, posteriors, and ten folds from one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import Case

__all__ = ["CASES"]

Data = tuple[np.ndarray, np.ndarray]


def five_classes(n: int = 1_000_000, p: int = 20) -> Data:
    """Correlated columns, and classes that overlap and have spreads of their own."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p)))
    X *= 0.8 + 0.1 * y[:, None]
    X += 0.4 * rng.normal(size=(5, p))[y]
    return X, y


def ours(kind: str, then: str | None) -> Any:
    def run(data: Data) -> Any:
        from assay.generative import discriminant

        model = getattr(discriminant, kind)(estimate="ml", n_jobs=-1).fit(*data)
        return model if then is None else (model, getattr(model, then)(data[0]))

    return run


def scikit_learn(kind: str, then: str | None) -> Any:
    def run(data: Data) -> Any:
        from sklearn import discriminant_analysis

        model = getattr(discriminant_analysis, kind)().fit(*data)
        return model if then is None else (model, getattr(model, then)(data[0]))

    return run


def ten_folds(data: Data) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import KFold

    return list(KFold(10, shuffle=True, random_state=0).split(data[0]))


def our_folds(kind: str) -> Any:
    def run(data: Data) -> Any:
        from assay.generative import discriminant

        splits = ten_folds(data)
        found = getattr(discriminant, kind)(estimate="ml", n_jobs=-1).predict_folds(*data, splits)
        return splits, found

    return run


def their_folds(kind: str) -> Any:
    def run(data: Data) -> Any:
        from sklearn import discriminant_analysis
        from sklearn.base import clone

        X, y = data
        splits, model = ten_folds(data), getattr(discriminant_analysis, kind)()
        return splits, [clone(model).fit(X[train], y[train]).predict(X[test]) for train, test in splits]

    return run


def loss(outcome: Any, data: Data) -> float:
    """Mean log loss of the training rows, by the model or by the posteriors it gave."""
    X, y = data
    some = slice(None, 100_000)
    proba = outcome[1][some] if isinstance(outcome, tuple) else outcome.predict_proba(X[some])
    return float(-np.log(np.take_along_axis(proba, y[some, None], axis=1)).mean())


def error(outcome: Any, data: Data) -> float:
    """Share of rows that a fit of the other folds gets wrong."""
    splits, answers = outcome
    return float(np.mean(np.concatenate([a != data[1][test] for a, (_, test) in zip(answers, splits, strict=True)])))


LINEAR, QUADRATIC = "LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"


def fitting(name: str, kind: str, cold: bool = False) -> Case:
    return Case(
        f"{name}, fit, 1,000,000 x 20, 5 classes",
        data=five_classes,
        ours=ours(kind, None),
        peers={"scikit-learn": scikit_learn(kind, None)},
        quality=loss,
        quality_name="log loss",
        goals={"scikit-learn": 3.0},
        slack=1e-9,
        cold=cold,
    )


def answering(name: str, kind: str) -> Case:
    return Case(
        f"{name}, fit and posteriors, 1,000,000 x 20, 5 classes",
        data=five_classes,
        ours=ours(kind, "predict_proba"),
        peers={"scikit-learn": scikit_learn(kind, "predict_proba")},
        quality=loss,
        quality_name="log loss",
        goals={"scikit-learn": 3.0},
        slack=1e-9,
    )


def folding(name: str, kind: str) -> Case:
    return Case(
        f"{name}, 10-fold cross-validation, 1,000,000 x 20, 5 classes",
        data=five_classes,
        ours=our_folds(kind),
        peers={"scikit-learn": their_folds(kind)},
        quality=error,
        quality_name="error",
        goals={"scikit-learn": 10.0},
        slack=1e-5,
        repeats=3,
    )


CASES = [
    fitting("LDA", LINEAR, cold=True),
    fitting("QDA", QUADRATIC),
    answering("LDA", LINEAR),
    answering("QDA", QUADRATIC),
    folding("LDA", LINEAR),
    folding("QDA", QUADRATIC),
]
