"""What this family compiles."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import csr_array

from assay.errors import ConvergenceWarning
from assay.margin.kernels import RBF, EditDistance, Laplacian
from assay.margin.linear_svm import LinearSVC
from assay.margin.perceptron import Perceptron
from assay.margin.svc import SVC
from assay.margin.svc_cv import SVCCV
from assay.margin.svr import SVR
from assay.margin.units import DeltaRule, SigmoidUnit
from assay.numerics.warmup import Warmup, fits, small_table

__all__ = ["WARMUPS"]


def _gram() -> None:
    """Both precisions, and more rows than one tile so that tiles are mirrored."""
    X, _ = small_table()
    for dtype in (np.float32, np.float64):
        wide = np.tile(X, (10, 1)).astype(dtype)
        RBF(0.1)(wide)
        Laplacian(0.1)(wide[:4])


def _perceptron() -> None:
    X, y = small_table(2)
    for table in (X, csr_array(X)):
        Perceptron("pocket", max_iter=3).fit(table, y).predict(table)
    Perceptron("pocket", kernel="linear", max_iter=3).fit(X, y).predict(X)


def _machines() -> None:
    """Working sets with a bias and without; pairs and coordinates are compiled on the way."""
    X, y = small_table(2)
    SVC(solver="working_set").fit(X, y).predict(X)
    SVC(solver="working_set", bias="none").fit(X, y)
    SVC(solver="dual_ascent", bias="none").fit(X, y)


def _linear_machines() -> None:
    """Epochs of dense and of compressed rows."""
    X, y = small_table(2)
    for table in (X, csr_array(X)):
        for solver in ("dual_ascent", "sgd"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                LinearSVC(loss="hinge", solver=solver, max_iter=2, random_state=0).fit(table, y)


WARMUPS: tuple[Warmup, ...] = (
    Warmup("support vector machines", _machines),
    Warmup("linear support vector machines", _linear_machines),
    *fits(SVCCV, Cs=[1.0], gammas=[0.1], probability=True),
    *fits(SVR),
    Warmup("Gram matrices", _gram),
    Warmup("edit distances", lambda: EditDistance()(["a", "b"])),
    Warmup("Perceptron", _perceptron),
    *fits(DeltaRule, max_iter=2, tol=0),
    Warmup("DeltaRule, rows", lambda: DeltaRule(solver="sgd", max_iter=2).fit(*small_table())),
    *fits(SigmoidUnit, max_iter=2, tol=0),
)
