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


def _noise(run: int) -> tuple[str, bool, bool]:
    """One study of a target that has nothing to do with its columns: selected, claimed to beat a guess, covered."""
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
        return study.select().name, claimed, truth is None or found.lower <= truth <= found.upper


def claims_in_noise() -> pd.DataFrame:
    """500 studies with the quick panel of targets that are pure noise (coin tosses, normal numbers by turns): how often
    any learner is claimed to beat the baseline, which may happen in at most 5% of them, and how often the test
    interval of the selected learner's error rate covers one half.
    """
    found = Parallel(n_jobs=2)(delayed(_noise)(run) for run in range(NOISE_RUNS))
    claimed = sum(one[1] for one in found)
    covered = [one[2] for run, one in enumerate(found) if run % 2 == 0]
    low, high = stats.binomtest(claimed, NOISE_RUNS).proportion_ci(0.95, "exact")
    rows = [("a learner is claimed to beat the baseline", NOISE_RUNS, claimed / NOISE_RUNS, low, high, "at most .05")]
    low, high = stats.binomtest(sum(covered), len(covered)).proportion_ci(0.95, "exact")
    rows.append(("the test interval covers one half", len(covered), float(np.mean(covered)), low, high, ".95"))
    names, counts = np.unique([one[0] for one in found], return_counts=True)
    rows += [
        (f"selected: {name}", NOISE_RUNS, count / NOISE_RUNS, np.nan, np.nan, "")
        for name, count in zip(names, counts, strict=True)
    ]
    return pd.DataFrame(rows, columns=["what", "runs", "share", "lower", "upper", "claim"])


SIMULATIONS = {"Claims in pure noise": claims_in_noise}
