"""Preprocessing of columns of numbers beside scikit-learn's imputer and scaler."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from assay.experiment.columns import Columns
from benchmarks.case import Case

__all__ = ["CASES"]

PEER = "scikit-learn SimpleImputer + StandardScaler"


def numbers() -> pd.DataFrame:
    X = np.random.default_rng(0).normal(size=(50_000, 20))
    return pd.DataFrame(X, columns=[f"v{j}" for j in range(20)])


def ours(frame):
    return Columns(dict.fromkeys(frame, "number")).fit_transform(frame)


def sklearn_steps(frame):
    return make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit_transform(frame)


def distance(outcome, frame) -> float:
    """The largest distance from the columns standardised by their definition."""
    return float(np.abs(outcome - ((frame - frame.mean()) / frame.std(ddof=0)).to_numpy()).max())


CASES: list[Case] = [
    Case(
        name="columns of numbers, 50,000 x 20",
        data=numbers,
        ours=ours,
        peers={PEER: sklearn_steps},
        quality=distance,
        quality_name="distance from the definition",
        goals={PEER: 0.5},
        slack=1e-9,
    )
]
