"""Do prediction sets cover a rare class as often as the others?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

from assay.evaluation import Conformal, conformal

__all__ = ["SIMULATIONS"]

RUNS, NEW, LEVEL = 200, 500, 0.9
DESIGNS: dict[str, tuple[int, tuple[float, ...], float, str]] = {
    "two classes, 10% rare": (400, (0.9, 0.1), 1.5, "normal"),
    "two classes, 5% rare": (600, (0.95, 0.05), 1.5, "normal"),
    "two classes, 5% rare, no signal": (600, (0.95, 0.05), 0.0, "normal"),
    "two classes, 5% rare, well apart": (600, (0.95, 0.05), 4.0, "normal"),
    "two classes, 3% rare, t(3) columns": (1000, (0.97, 0.03), 1.5, "t3"),
    "two classes, 15% rare": (300, (0.85, 0.15), 1.0, "normal"),
    "two classes, 25% (not rare)": (300, (0.75, 0.25), 1.0, "normal"),
    "three classes, 5% rare": (600, (0.6, 0.35, 0.05), 1.5, "normal"),
    "five classes, two of 1.2%": (900, (0.5, 0.3, 0.176, 0.012, 0.012), 1.5, "normal"),
    "two classes, 1% rare: too few rows": (400, (0.99, 0.01), 1.5, "normal"),
}


def _draw(rng: np.random.Generator, codes: np.ndarray, distance: float, law: str) -> np.ndarray:
    """Two columns around the corners of a polygon, one corner per class."""
    angle = 2.0 * np.pi * codes / (codes.max() + 1)
    noise = rng.standard_t(3, (codes.size, 2)) if law == "t3" else rng.normal(size=(codes.size, 2))
    return distance * np.column_stack([np.cos(angle), np.sin(angle)]) + noise


def _covered(made: Conformal, X: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, float]:
    """Coverage of each class, and the mean size of a set."""
    found = made.sets(X)
    hit = found.inside[np.arange(codes.size), codes]
    return np.array([hit[codes == c].mean() for c in range(found.classes.size)]), float(found.size.mean())


def coverage_of_rare_classes() -> pd.DataFrame:
    """Sets at level .9 around Gaussian naive Bayes, split in halves or from ten folds ("cv", what a model file of a
    study uses), 200 tables per row, 500 new rows of each class. "together" calibrates all classes in one, "auto" is
    the default: by class where one is rare. The coverage is the mean over tables, of all rows in the shares of the
    design and of the rarest class alone; the size is the mean number of classes in a set. "promised" is the share of
    tables where the guarantee includes the rarest class (the last row: mostly fewer than the 9 calibration rows that
    the level needs, and the guarantee says that nothing is promised for it alone).
    """
    rows = []
    for name, (n, share, distance, law) in DESIGNS.items():
        for method in ("split", "cv"):
            found: dict[str, list[tuple[float, float, float, bool]]] = {"together": [], "auto": []}
            for run in range(RUNS):
                rng = np.random.default_rng((run, n))
                codes = rng.choice(len(share), n, p=share)
                codes[: 2 * len(share)] = np.tile(np.arange(len(share)), 2)
                X, new = _draw(rng, codes, distance, law), np.repeat(np.arange(len(share)), NEW)
                Z = _draw(rng, new, distance, law)
                whole = conformal(GaussianNB(), X, codes, method=method, level=LEVEL, by_class=False, random_state=run)
                auto = conformal(GaussianNB(), X, codes, method=method, level=LEVEL, random_state=run)
                for kind, made in (("together", whole), ("auto", auto)):
                    by_class, size = _covered(made, Z, new)
                    where, never = made.scope()
                    found[kind].append((float(by_class @ share), by_class[-1], size, bool(where) and not never))
            for kind, runs in found.items():
                overall, rare, size, promised = np.mean(np.array(runs, dtype=float), axis=0)
                rows.append((name, method, kind, overall, rare, size, promised))
    names = ["design", "method", "classes", "all rows", "rarest class", "size of a set", "promised"]
    return pd.DataFrame(rows, columns=names)


SIMULATIONS = {"Coverage of rare classes": coverage_of_rare_classes}
