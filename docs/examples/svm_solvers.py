"""What each solver of a support vector machine costs: the table of docs/methods.md.

    python docs/examples/svm_solvers.py

Steps and rows of the Gram matrix are those of the fit's own trace; time is processor time of one thread.
"""

from __future__ import annotations

import warnings
from time import process_time
from typing import Any

from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from assay.errors import ConvergenceWarning
from assay.margin import SVC, LinearSVC

KERNEL = {"C": 10.0, "gamma": 0.02, "tol": 1e-3, "random_state": 0}
LINEAR = {"max_iter": 100, "random_state": 0}
SOLVERS: list[tuple[str, Any]] = [
    ('`SVC(solver="smo")`', SVC(solver="smo", **KERNEL)),
    ('`SVC(solver="working_set")`', SVC(solver="working_set", **KERNEL)),
    ('`SVC(solver="dual_ascent", bias="augmented")`', SVC(solver="dual_ascent", bias="augmented", **KERNEL)),
    ('`LinearSVC(loss="hinge", solver="dual_ascent")`', LinearSVC(loss="hinge", solver="dual_ascent", **LINEAR)),
    ('`LinearSVC(loss="hinge", solver="sgd")`', LinearSVC(loss="hinge", solver="sgd", **LINEAR)),
    ('`LinearSVC(loss="hinge", solver="interior_point")`', LinearSVC(loss="hinge", solver="interior_point", **LINEAR)),
    ('`LinearSVC(solver="newton")`', LinearSVC(solver="newton", **LINEAR)),
    ('`LinearSVC(solver="dual_ascent")`', LinearSVC(solver="dual_ascent", **LINEAR)),
]


def table(n: int) -> tuple[Any, Any]:
    """Two classes in 20 standardised columns."""
    X, y = make_classification(n, 20, n_informative=10, flip_y=0.05, random_state=0)
    return StandardScaler().fit_transform(X), y


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # a cap that is reached is a row of the table
    small, large = table(5_000), table(50_000)
    print("| solver | steps | seconds | rows of the Gram matrix | gap / objective |\n|---|---|---|---|---|")
    for name, machine in SOLVERS:
        X, y = small if isinstance(machine, SVC) else large
        machine.fit(X[:500], y[:500])  # compiled before it is timed
        start = process_time()
        machine.fit(X, y)
        seconds = process_time() - start
        trace = machine.trace_[0] if isinstance(machine.trace_, tuple | list) else machine.trace_
        rows = f"{trace.evaluations[-1] / len(y):,.0f}" if isinstance(machine, SVC) else ""
        share = trace.gap / abs(trace.objective[-1])
        print(f"| {name} | {trace.step[-1]:,.0f} | {seconds:.2f} | {rows} | {share:.1e} |")


if __name__ == "__main__":
    main()
