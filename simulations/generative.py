"""How fast naive Bayes and logistic regression learn, where independence holds and where it does not quite."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from assay.generative.naive_bayes import BernoulliNB, GaussianNB
from assay.linear.logistic import LogisticRegression

__all__ = ["SIMULATIONS"]

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "simulations" / "generative.png"
RUNS = 25
TEST = 4_000
MANY = 20_000
"""Rows of the fit that stands for infinitely many."""
SIZES = (10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
COLUMNS = (8, 32, 128)
NEAR = 0.02
"""Close to the asymptote: an error rate at most this much above it."""

TRUTHS = ("yes-no, independent", "normal, independent", "normal, common noise", "normal, noise seen elsewhere")


def draw(truth: str, n: int, p: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes, half of each; every other column knows about the class."""
    y = np.arange(n) % 2
    rng.shuffle(y)
    telling = np.arange(p) % 2 == 0
    side = np.where(telling, 1.0, 0.0) * np.where(y[:, None], 1.0, -1.0)
    # Independent columns share out a fixed amount of knowledge, or none would be left to learn with many.
    part = 1.4 / np.sqrt(p / 2)
    if truth == "yes-no, independent":
        return (rng.random((n, p)) < 0.5 + 0.5 * part / np.sqrt(1.0 + part**2) * side).astype(float), y
    X = rng.standard_normal((n, p))
    if truth == "normal, independent":
        return X + part * side, y
    # Each telling column knows as much, however many there are; a common noise keeps them from knowing all. Where the
    # other columns show a little of it, together they halve what is not known of it.
    shared = rng.standard_normal((n, 1))
    load = np.where(telling, 0.3, 1.0 / (1.0 + p / 2) if truth.endswith("elsewhere") else 0.0)
    return np.sqrt(1.0 - load) * X + np.sqrt(load) * shared + 0.7 * side, y


def learners(truth: str) -> dict[str, Any]:
    """Naive Bayes of the right kind, and logistic regression with a penalty that only keeps it finite."""
    naive = BernoulliNB() if truth.startswith("yes-no") else GaussianNB()
    return {"naive Bayes": naive, "logistic": LogisticRegression(penalty="l2", C=1000.0, inference=False)}


@cache
def errors() -> pd.DataFrame:
    """Error rates of both learners at every truth, number of columns and number of rows, run by run."""
    rows = []
    for truth in TRUTHS:
        for p in COLUMNS:
            rng = np.random.default_rng([TRUTHS.index(truth), p])
            X, y = draw(truth, TEST, p, rng)
            settled = draw(truth, MANY, p, rng)
            for name, model in learners(truth).items():
                rows.append((truth, p, name, np.inf, 0, float(np.mean(model.fit(*settled).predict(X) != y))))
            for n in SIZES:
                for run in range(RUNS):
                    some = draw(truth, n, p, rng)
                    for name, model in learners(truth).items():
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")  # early stops on separable samples
                            wrong = float(np.mean(model.fit(*some).predict(X) != y))
                        rows.append((truth, p, name, n, run, wrong))
    return pd.DataFrame(rows, columns=["truth", "p", "learner", "n", "run", "error"])


def learning_curves() -> pd.DataFrame:
    """Mean error rate over 25 samples of n rows, with the half-width of its 95% t interval; the last row of each block
    is a fit to 20,000 rows. All are judged on the same 4,000 rows. Half of the columns know about the class. Where
    columns are independent within classes, both learners end at the same error (the knowledge is shared out, so that
    it does not fall to zero with many columns), and naive Bayes is there with fewer rows; with very few, the variances
    that Gaussian naive Bayes learns for each class cost it more than they give. A noise common to the telling columns
    makes independence wrong and leaves the best rule as it is: naive Bayes settles after some forty rows, however many
    columns there are, while logistic regression first gets worse, where samples stop being separable, and needs many
    times p rows. Where the other columns show that noise, naive Bayes settles as soon, at an error that logistic
    regression, which can subtract it, leaves behind. Logistic regression pays a ridge penalty (C = 1000) that only
    keeps it finite on separable samples.

    ![Error rates against rows](generative.png)
    """
    table = errors()
    _picture(table)
    rows = []
    for (truth, p, n), part in table.groupby(["truth", "p", "n"], sort=False):
        line: dict[str, Any] = {"truth": truth, "p": p, "n": "20,000" if np.isinf(n) else int(n)}
        for name, own in part.groupby("learner", sort=False):
            line[name] = float(own["error"].mean())
            line[f"± {name}"] = _half(own["error"]) if len(own) > 1 else "-"
        rows.append(line)
    order = {truth: at for at, truth in enumerate(TRUTHS)}
    frame = pd.DataFrame(rows)
    size = frame["n"].map(lambda n: np.inf if n == "20,000" else n)
    return frame.iloc[np.lexsort((size, frame["p"], frame["truth"].map(order)))]


def rows_needed() -> pd.DataFrame:
    """The least n of the grid from which on the mean error stays within .02 of the learner's own asymptote. Naive Bayes
    is said to need of the order of log p rows and logistic regression of the order of p (Ng and Jordan 2002): from 8 to
    128 columns p grows sixteenfold and log p about twofold. Logistic regression does need rows in proportion
    to p. The law for naive Bayes supposes that every telling column keeps telling as much, as in the last two truths,
    where it holds with room to spare; where more columns share out the same knowledge, as in the first two, naive Bayes
    too needs rows in proportion to p, a fraction of what logistic regression needs.
    """
    table = errors()
    rows = []
    for truth in TRUTHS:
        for name in ("naive Bayes", "logistic"):
            line: dict[str, Any] = {"truth": truth, "learner": name}
            for p in COLUMNS:
                part = table[(table["truth"] == truth) & (table["p"] == p) & (table["learner"] == name)]
                mean = part.groupby("n")["error"].mean()
                far = [n for n in SIZES if mean[n] - mean[np.inf] > NEAR]
                near = [n for n in SIZES if n > max(far, default=0)]
                line[f"p = {p}"] = min(near) if near else f"more than {SIZES[-1]}"
                line[f"asymptote, p = {p}"] = float(mean[np.inf])
            rows.append(line)
    return pd.DataFrame(rows)


def _half(values: pd.Series) -> float:
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def _picture(table: pd.DataFrame) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from assay.report.draw import ACCENT, STYLE, WARM

    colours = {"naive Bayes": ACCENT, "logistic": WARM}
    with plt.rc_context(STYLE):
        size = (3.4 * len(COLUMNS), 2.5 * len(TRUTHS))
        figure, grid = plt.subplots(
            len(TRUTHS), len(COLUMNS), figsize=size, sharex=True, sharey="row", layout="constrained"
        )
        for row, truth in enumerate(TRUTHS):
            for column, p in enumerate(COLUMNS):
                axes = grid[row, column]
                for name, colour in colours.items():
                    part = table[(table["truth"] == truth) & (table["p"] == p) & (table["learner"] == name)]
                    by_size = part[np.isfinite(part["n"])].groupby("n")["error"]
                    mean, half = by_size.mean(), by_size.apply(_half)
                    axes.plot(mean.index, mean, color=colour, linewidth=1.8, marker="o", markersize=3, label=name)
                    axes.fill_between(mean.index, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
                    end = float(part[np.isinf(part["n"])]["error"].iloc[0])
                    axes.axhline(end, color=colour, linewidth=0.9, linestyle="--")
                axes.set_xscale("log")
                axes.set_title(f"{truth}, p = {p}", fontsize=9)
                if column == 0:
                    axes.set_ylabel("error rate")
                if row == len(TRUTHS) - 1:
                    axes.set_xlabel("training rows")
        grid[0, 0].legend(loc="best", title="dashed: 20,000 rows", title_fontsize=8)
        figure.savefig(PICTURE, dpi=110)
        plt.close(figure)


SIMULATIONS: dict[str, Callable[[], pd.DataFrame]] = {
    "Error of naive Bayes and logistic regression against the number of rows": learning_curves,
    "Rows needed to come near the asymptote": rows_needed,
}
