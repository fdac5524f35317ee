"""A full regression study on real data: which measurements foretell the progression of diabetes?

442 patients, ten measurements at the start, disease progression one year later (Efron et al., 2004, Annals of
Statistics 32, 407-499; the data ship with scikit-learn). Run it with `make demo`, or

    python examples/regression_study.py --out out/demo
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # pictures go to files; no screen is needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from assay.linear import (
    SIS,
    BestSubset,
    Lars,
    Lasso,
    LassoCV,
    LinearRegression,
    LocalRegression,
    RidgeCV,
    SplineBasis,
    Stepwise,
)
from assay.results import Result


def main() -> None:
    """Parse the two options and run the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="where the pictures go")
    parser.add_argument("--quiet", action="store_true", help="write the pictures, print only the last line")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    say = (lambda *_, **__: None) if options.quiet else print
    start = time.perf_counter()
    pictures = study(options.out, say)
    print(f"{len(pictures)} pictures in {options.out}: {', '.join(pictures)} ({time.perf_counter() - start:.1f} s)")


def study(out: Path, say) -> list[str]:
    """The study itself, section by section."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    folds = KFold(10, shuffle=True, random_state=0)
    pictures: list[str] = []

    def keep(name: str, result: Result) -> None:
        result.plot()
        plt.savefig(out / f"{name}.png")
        plt.close()
        pictures.append(f"{name}.png")

    def heading(text: str) -> None:
        say(f"\n{text}\n{'=' * len(text)}")

    heading("1. Least squares, with everything a reader will ask for")
    ols = LinearRegression().fit(X, y)
    say(ols.summary())
    say(ols.diagnostics())
    keep("coefficients", ols.summary())
    keep("diagnostics", ols.diagnostics())
    say("\nTen-fold cross-validation from merged fold summaries, and what robust standard errors would say:")
    say(ols.cv_error(X, y, cv=folds))
    robust = LinearRegression(covariance="HC3").fit(X, y).summary().to_frame()
    say(ols.summary().to_frame()[["estimate", "std_error"]].assign(hc3=robust["std_error"]).round(3).to_string())
    say("\nPrediction for the first three patients, with 95% prediction intervals:")
    say(ols.predict(X.iloc[:3], interval="prediction"))

    heading("2. How many measurements are needed? Best subset, proven optimal")
    best = BestSubset(criterion="cv", cv=folds, rule="1se").fit(X, y)
    say(best.table_.to_string(index=False, float_format=lambda value: f"{value:.5g}"))
    say(f"Smallest model within one standard error of the best: {', '.join(X.columns[best.support_])}")
    keep("best_subset", best.criterion_curve_)
    for direction in ("forward", "backward"):
        step = Stepwise(direction=direction, criterion="bic").fit(X, y)
        say(f"{direction.capitalize()} stepwise with BIC: {', '.join(X.columns[step.support_])}")

    heading("3. Shrinkage: ridge and lasso, chosen by cross-validation")
    scaled = (X - X.mean()) / X.std()
    ridge = RidgeCV(cv=folds, rule="1se").fit(scaled, y)
    lasso = LassoCV(cv=folds, rule="1se").fit(scaled, y)
    say(f"Ridge: alpha_min {ridge.alpha_min_:.4g}, alpha_1se {ridge.alpha_1se_:.4g}")
    say(f"Lasso: alpha_min {lasso.alpha_min_:.4g}, alpha_1se {lasso.alpha_1se_:.4g}, duality gap {lasso.dual_gap_:.2g}")
    say(f"Lasso keeps: {', '.join(X.columns[lasso.coef_ != 0])} (budget {lasso.budget_:.4g})")
    same = Lasso(budget=lasso.budget_).fit(scaled, y)
    say(f"The constrained form with that budget gives alpha {same.alpha_:.4g} back")
    keep("lasso_cv", lasso.cv_curve_)
    keep("lasso_path", lasso.path_)
    keep("ridge_cv", ridge.cv_curve_)
    keep("lars_path", Lars(method="lar").fit(scaled, y).path_)

    heading("4. Is the effect of body mass a straight line?")
    local = LocalRegression(tau="loo").fit(X[["bmi"]], y)
    say(f"Leave-one-out chooses tau = {local.tau_:.3g} (effective degrees of freedom {local.effective_df_:.3g})")
    keep("bmi_local", local.curve())
    spline = make_pipeline(SplineBasis(n_knots=4), LinearRegression()).fit(X[["bmi"]], y)
    line = LinearRegression().fit(X[["bmi"]], y)
    say(f"R2 of a line {line.score(X[['bmi']], y):.3f}, of a cubic spline {spline.score(X[['bmi']], y):.3f}")

    heading("5. Ten measurements hidden among 5,000 columns of noise: screen, then lasso")
    rng = np.random.default_rng(0)
    wide = np.hstack([scaled.to_numpy(), rng.standard_normal((len(y), 5_000))])
    # The search screens anew in every fold. Screening all rows first and cross-validating the lasso afterwards would
    # let the test rows choose the columns, and noise would look like signal.
    search = GridSearchCV(SIS(estimator=Lasso()), {"estimator__alpha": lasso.alphas_[::10]}, cv=folds).fit(wide, y)
    sis = search.best_estimator_
    kept = np.flatnonzero(sis.coef_)
    real = kept[kept < X.shape[1]]
    say(f"SIS keeps {sis.get_support().sum()} of {wide.shape[1]} columns, the lasso then {kept.size} of those;")
    say(f"{real.size} of them are real: {', '.join(X.columns[real])}")
    return pictures


if __name__ == "__main__":
    main()
