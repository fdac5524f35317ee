"""The whole command beside a bare script of scikit-learn's (`_by_hand`), each a process of its own, imports and all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from benchmarks.case import Case

__all__ = ["CASES"]

SCRIPT = Path(__file__).with_name("_by_hand.py")
PEER = "scikit-learn script, the same learners and folds"


def cancer() -> tuple[tempfile.TemporaryDirectory, Path]:
    """A folder that lives as long as the data, and the table in it."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "cancer.csv"
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X.assign(target=np.where(y == 1, "benign", "malignant")).to_csv(path, index=False)
    return folder, path


def _printed(command: list[str], **env: str) -> str:
    return subprocess.run(command, env={**os.environ, **env}, check=True, capture_output=True, text=True).stdout


def ours(data) -> float:
    _, path = data
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "assay", "run", str(path), "--target", "target", "--json"]
        found = json.loads(_printed([*command, "--out", f"{folder}/out"], ASSAY_HOME=f"{folder}/home"))
    return min(one["estimate"] for one in found["leaderboard"] if one["status"] == "done")


def by_hand(data) -> float:
    _, path = data
    return float(_printed([sys.executable, str(SCRIPT), str(path), "target"], OMP_NUM_THREADS="2").split()[0])


CASES: list[Case] = [
    Case(
        name="the command, a whole quick study, breast cancer 569 x 30",
        data=cancer,
        ours=ours,
        peers={PEER: by_hand},
        quality=lambda outcome, data: outcome,
        quality_name="cross-validated error of the best",
        goals={PEER: 1.0},
        slack=0.02,
        repeats=5,
    )
]
