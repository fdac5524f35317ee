"""Does the engine keep its word: no finding where there is none?"""

from __future__ import annotations

import os
import tempfile

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats

__all__ = ["SIMULATIONS"]

NOISE_RUNS = 500


def _noise(run: int) -> tuple[str, bool, bool, bool]:
    """One study of a target that has nothing to do with its columns: selected, claims of folds and verdict, covered."""
    import assay

    rng = np.random.default_rng(run)
    frame = pd.DataFrame(rng.normal(size=(160, 5)), columns=list("abcde"))
    classes = run % 2 == 0
    frame["y"] = rng.integers(0, 2, 160) if classes else rng.normal(size=160)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ASSAY_HOME"] = folder
        study = assay.run(frame, "y", panel="quick", cv=5, metric="error" if classes else "mse")
        claimed = any(study.beats_baseline(name) for name in study.leaderboard.results)
        assert study.opened is not None
        found = study.opened.intervals[study.plan.metric]
        truth = 0.5 if classes else None
        covered = truth is None or found.lower <= truth <= found.upper
        return study.select().name, claimed, study.summary()["finding"] == "test-better", covered


def claims_in_noise() -> pd.DataFrame:
    """500 studies with the quick panel of targets that are pure noise (coin tosses, normal numbers by turns): how often
    any learner is claimed to beat the baseline in the folds, which may happen in at most 5% of them, how often the
    verdict on the test rows says that the selected one does (at most 2.5%: the other half of the level is for worse
    ones), and how often the test interval of the selected learner's error rate covers one half.
    """
    found = Parallel(n_jobs=2)(delayed(_noise)(run) for run in range(NOISE_RUNS))
    covered = [one[3] for run, one in enumerate(found) if run % 2 == 0]
    rows = []
    for what, at, claim in (
        ("in the folds, a learner is claimed to beat the baseline", 1, "at most .05"),
        ("on the test rows, the selected learner is", 2, "at most .025"),
    ):
        claimed = sum(one[at] for one in found)
        low, high = stats.binomtest(claimed, NOISE_RUNS).proportion_ci(0.95, "exact")
        rows.append((what, NOISE_RUNS, claimed / NOISE_RUNS, low, high, claim))
    low, high = stats.binomtest(sum(covered), len(covered)).proportion_ci(0.95, "exact")
    rows.append(("the test interval covers one half", len(covered), float(np.mean(covered)), low, high, ".95"))
    names, counts = np.unique([one[0] for one in found], return_counts=True)
    rows += [
        (f"selected: {name}", NOISE_RUNS, count / NOISE_RUNS, np.nan, np.nan, "")
        for name, count in zip(names, counts, strict=True)
    ]
    return pd.DataFrame(rows, columns=["what", "runs", "share", "lower", "upper", "claim"])


SIMULATIONS = {"Claims in pure noise": claims_in_noise}
