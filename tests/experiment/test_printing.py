"""One figure has one form, wherever a person meets it: command line, report, results, history."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.experiment.study import Study

SCIENTIFIC = re.compile(r"(?<![\w.])-?\d+(\.\d+)?e[+-]?\d+\b")


def call(*args: str):
    done = CliRunner().invoke(app, list(args), env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Incomes in the tens of thousands, and whether they are above the middle."""
    root = tmp_path_factory.mktemp("printing")
    for seed, file in enumerate(("incomes.csv", "classes.csv")):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=["age", "school", "luck"])
        income = 60_000 + 30_000 * frame["age"] + 25_000 * rng.normal(size=400)
        frame["income"] = income if seed == 0 else np.where(income > 60_000, "high", "low")
        frame.to_csv(root / file, index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(root / "home"))
        patch.chdir(root)
        yield root


@pytest.mark.parametrize(
    ("table", "target", "learners", "form"),
    [
        ("incomes.csv", "income", ("least squares", "ridge"), r"\d\d,\d{3}"),
        ("classes.csv", "income", ("discriminant", "logistic"), r"\d\d(\.\d)?%"),
    ],
)
def test_a_figure_has_one_form_everywhere(folder, table, target, learners, form):
    chosen = [part for name in learners for part in ("--learner", name)]
    told = call("run", table, "-t", target, *chosen, "--cv", "5", "--out", "made")
    name = re.search(r"Study (\S+)", told)[1]
    study = Study.load(name).finish()

    test = re.search(r"its \w+(?: rate)? is (\S+) \(", study.verdict())[1]
    assert re.fullmatch(form, test)
    page = (folder / "made" / "report.html").read_text()
    for said in (told, page, str(study.test), call("show", name), call("history")):
        assert test in said

    best = re.search(r"smallest (?:rmse|error), (\S+?), of", study.selected.why)[1]
    assert re.fullmatch(form, best)
    order = study.leaderboard.order[0]
    assert re.search(rf"{order} +{re.escape(best)} ", told)
    for said in (page, str(study.leaderboard), str(study.comparisons), str(study.leaderboard.results[order])):
        assert best in said

    readable = re.sub(r"<(script|style|svg).*?</\1>|data:text/csv[^\"]*|<[^>]*>", " ", page, flags=re.DOTALL)
    printed = [told, readable, str(study.leaderboard), str(study.test), str(study.comparisons), str(study.selected)]
    small = {one for text in printed for one in SCIENTIFIC.findall(text)}
    assert [one for text in printed for one in SCIENTIFIC.finditer(text) if abs(float(one[0])) >= 1e-4] == [], small
    assert isinstance(study.summary()["leaderboard"][0]["estimate"], float)  # JSON keeps every digit
