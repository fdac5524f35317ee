"""Masking: three classes in a row, of which least squares never predicts the one in the middle.

Each class is a round cloud, and the three centres lie on a line. The indicator of the middle class is high in the
middle and low on both sides, and the best straight line through that is flat: its fit is nowhere the largest. Linear
discriminant analysis draws straight boundaries too, and finds both.

    python docs/examples/masking.py        prints both errors and writes docs/masking.png
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

from assay.generative.discriminant import LinearDiscriminantAnalysis
from assay.linear.indicator import LeastSquaresClassifier

mpl.use("Agg")

CENTRES = np.array([[-4.0, -4.0], [0.0, 0.0], [4.0, 4.0]])


def three_in_a_row(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of each class around its centre."""
    rng = np.random.default_rng(seed)
    names = np.array(["left", "middle", "right"])
    return np.repeat(CENTRES, n, axis=0) + rng.normal(size=(3 * n, 2)), np.repeat(names, n)


def main() -> None:
    """Fit both to one sample, test them on another, and draw their regions."""
    from assay.report.draw_regions import draw_regions

    X, y = three_in_a_row(200, seed=0)
    test, truth = three_in_a_row(10_000, seed=1)
    models = {
        "Least squares": LeastSquaresClassifier().fit(X, y),
        "Linear discriminant": LinearDiscriminantAnalysis().fit(X, y),
    }
    for name, model in models.items():
        answer = model.predict(test)
        share = float(np.mean(answer == "middle"))
        print(f"{name:20s} test error {np.mean(answer != truth):.4f}, predicts 'middle' for {share:.1%} of the rows")
    picture = Path(__file__).resolve().parents[1] / "masking.png"
    draw_regions(models, X, y).savefig(picture, dpi=140)


if __name__ == "__main__":
    main()
