"""Summaries beside R's own numbers: tests/reference/make.R wrote them, with the versions it names."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from assay.linear import LinearRegression, LogisticRegression

FOLDER = Path(__file__).parents[1] / "reference"
R = pd.read_csv(FOLDER / "r.csv", keep_default_na=False).set_index(["case", "figure"]).sort_index()


def of(case, figure):
    """One figure of every term, R's intercept under our name."""
    found = R.loc[[(case, figure)]]
    return found["value"].set_axis(found["term"].replace("(Intercept)", "intercept"))


@pytest.fixture(scope="module")
def cars():
    return pd.read_csv(FOLDER / "mtcars.csv")


def test_likelihood_ratios_are_those_of_drop1(cars):
    columns = ["mpg", "am", "drat"]
    model = LogisticRegression().fit(cars[columns], cars["vs"])
    table = model.summary().to_frame()
    np.testing.assert_allclose(table["estimate"], of("glm", "coef")[table.index], rtol=1e-8)
    np.testing.assert_allclose(table["p_value"], of("glm", "wald p")[table.index], rtol=1e-6)
    np.testing.assert_allclose(table.loc[columns, "lr_p_value"], of("glm", "p")[columns], rtol=1e-8)
    assert model.aic_ == pytest.approx(of("glm", "aic").item(), rel=1e-10)
    assert model.bic_ == pytest.approx(of("glm", "bic").item(), rel=1e-10)
    # R interpolates its profile between points, here 1/20 of a standard error apart.
    limits = model.summary(intervals="profile").to_frame()
    for side in ("lower", "upper"):
        np.testing.assert_allclose(limits[side], of("glm", side)[limits.index], rtol=1e-4)


def test_firth_tests_and_limits_are_as_logistf_defines_them():
    """logistf was not at hand: make.R maximises the penalised likelihood as logistf defines its tests and limits,
    by optim, around the estimates of brglm2."""
    rows = pd.read_csv(FOLDER / "endometrial.csv")
    model = LogisticRegression(firth=True, tol=1e-12).fit(rows[["NV", "PI", "EH"]], rows["HG"])
    table = model.summary(intervals="profile").to_frame()
    np.testing.assert_allclose(table["estimate"], of("firth", "coef")[table.index], rtol=1e-7)
    np.testing.assert_allclose(table["lr_p_value"], of("firth", "p")[table.index], rtol=1e-5)
    for side in ("lower", "upper"):
        np.testing.assert_allclose(table[side], of("firth", side)[table.index], rtol=1e-5)


def test_likelihood_ratios_stand_in_the_summary_unless_refused(cars):
    model = LogisticRegression().fit(cars[["mpg", "am"]], cars["vs"])
    assert "lr_p_value" in model.summary().to_frame()
    assert "lr_p_value" not in model.summary(likelihood_ratio=False).to_frame()
    for how in ({"penalty": "l2"}, {"inference": False}):
        bare = LogisticRegression(**how).fit(cars[["mpg", "am"]], cars["vs"])
        assert "lr_p_value" not in bare.summary().to_frame()


@pytest.mark.parametrize("case", ["lm", "weighted lm"])
def test_aic_and_bic_are_given_with_and_without_sigma(case, cars):
    weights = cars["qsec"] if case == "weighted lm" else None
    facts = LinearRegression().fit(cars[["wt", "hp"]], cars["mpg"], weights).summary().facts
    assert facts["log-likelihood"] == pytest.approx(of(case, "loglik").item(), rel=1e-11)
    for name in ("AIC", "BIC"):
        theirs = of(case, name.lower()).item()
        price = 2.0 if name == "AIC" else np.log(32)
        assert facts[f"{name}, sigma counted (R)"] == pytest.approx(theirs, rel=1e-11)
        assert facts[f"{name}, sigma not counted"] == pytest.approx(theirs - price, rel=1e-11)
