"""Remedies of checks: each is a command that works when it is pasted; dropped columns are not learned from."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import assay
from assay.cli import app, live
from assay.errors import DataError
from assay.experiment.checks import check_table
from assay.experiment.plan import Plan
from assay.experiment.record import _command


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def invoke(*args):
    live.begin(args)
    return CliRunner().invoke(app, list(args))


def visits(n=240):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(n // 4), 4)
    frame = pd.DataFrame({"patient": who, "age": rng.normal(60, 9, n // 4).round(1)[who], "dose": rng.normal(size=n)})
    frame["outcome"] = (frame["age"] / 10 + frame["dose"] + rng.normal(size=n)).round(3)
    return frame


def commands(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith("assay run")]


@pytest.mark.parametrize(("flag", "column"), [("--group", "patient"), ("--drop", "refund_code")])
def test_the_command_of_a_remedy_works_when_pasted(flag, column):
    frame = visits()
    if flag == "--drop":
        frame = frame.drop(columns=["patient", "age"]).assign(refund_code=frame["outcome"] * 2 + 1)
    frame.to_csv("visits.csv", index=False)
    first = invoke("run", "visits.csv", "-t", "outcome", "--learner", "least squares", "--cv", "5")
    assert first.exit_code == 1, first.output
    (pasted,) = [line for line in commands(first.output) if flag in line]
    assert pasted == f"assay run visits.csv -t outcome --learner 'least squares' --cv 5 {flag} {column}"
    again = invoke(*shlex.split(pasted)[1:])
    assert again.exit_code == 0, again.output
    assert "serious" not in again.output
    option = {"drop": [column]} if flag == "--drop" else {"group": column}
    study = assay.Study("visits.csv", "outcome", learners=["least squares"], cv=5, **option)
    assert column not in study.plan.features
    assert study.seal().shared


def test_a_dropped_column_still_tells_rows_and_groups_apart():
    frame = visits()
    kept = assay.Study(frame, "outcome", learners=["least squares"], open_test=False)
    dropped = assay.Study(frame, "outcome", learners=["least squares"], drop=["dose", "patient"], open_test=False)
    assert kept.seal().seal.id == dropped.seal().seal.id
    assert dropped.plan.features == ["age"]
    assert Plan.from_state(dropped.plan.state()) == dropped.plan
    kinds = {"patient": "category", "age": "number", "dose": "number", "outcome": "number"}
    found = check_table(frame, kinds, "outcome", "regression", n_folds=5, drop=["patient"])
    assert found["groups"].option == ("group", ("patient",))
    assert "patient" not in found["id"].columns


def test_a_plan_without_newer_fields_is_read():
    plan = assay.Study(visits(), "outcome", learners=["least squares"]).plan
    state = plan.state()
    del state["drop"]
    assert Plan.from_state(state) == plan


@pytest.mark.parametrize(
    ("drop", "words"),
    [(["dosis"], "did you mean 'dose'"), (["outcome"], "target"), (["patient", "age", "dose"], "drop fewer columns")],
)
def test_what_cannot_be_dropped(drop, words):
    with pytest.raises(DataError, match=words):
        assay.Study(visits(), "outcome", drop=drop)


def test_the_command_that_declares_a_time_works_when_pasted():
    frame = visits().drop(columns=["patient", "age"])
    frame["date"] = pd.date_range("2024-01-01", periods=len(frame)).astype(str)
    frame.to_csv("visits.csv", index=False)
    first = invoke("run", "visits.csv", "-t", "outcome", "--learner", "least squares", "--cv", "5", "--no-open")
    assert first.exit_code == 0, first.output
    (pasted,) = [line for line in commands(first.output) if "--time" in line]
    assert pasted.endswith("--time date")
    again = invoke(*shlex.split(pasted)[1:])
    assert again.exit_code == 0, again.output
    assert "test rows were training rows before" in " ".join(again.output.split())


def test_fewer_folds_for_a_rare_class_are_a_command_to_paste():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "y": rng.choice(["a", "b"], 400)})
    frame.loc[:11, "y"] = "rare"
    frame.to_csv("kinds.csv", index=False)
    first = invoke("run", "kinds.csv", "-t", "y", "--learner", "logistic", "--no-open")
    (pasted,) = [line for line in commands(first.output) if "--cv" in line]
    again = invoke(*shlex.split(pasted)[1:])
    assert again.exit_code == 0, again.output
    assert "serious: classes too rare" not in again.output


def test_the_kind_of_a_column_can_be_set_as_advised():
    visits().assign(zip=np.arange(240) % 12 + 10001).to_csv("visits.csv", index=False)
    done = invoke(
        *["run", "visits.csv", "-t", "outcome", "--learner", "least squares", "--cv", "5", "--drop", "patient"],
        *["--drop", "age", "--kind", "zip=category", "--no-open"],
    )
    assert done.exit_code == 0, done.output
    assert "zip" in done.output


def test_numbers_that_stand_for_missing_are_read_so_when_pasted():
    rng = np.random.default_rng(0)
    size = np.where(rng.random(300) < 0.05, "-99", rng.integers(10, 90, 300).astype(str))
    size = np.where(rng.random(300) < 0.05, "n/a", size)
    frame = pd.DataFrame({"living area": size, "x": rng.normal(size=300), "y": rng.normal(size=300).round(4)})
    frame.to_csv("flats.csv", index=False)
    first = invoke("run", "flats.csv", "-t", "y", "--learner", "least squares", "--cv", "5", "--no-open")
    (pasted,) = [line for line in commands(first.output) if "--missing" in line]
    assert "--missing 'living area=n/a,-99'" in pasted
    again = invoke(*shlex.split(pasted)[1:])
    assert again.exit_code == 0, again.output
    assert "sentinel" not in again.output
    assert "'-99'" in again.output
    assert "'n/a'" in again.output


def test_the_command_in_a_report_can_be_pasted(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/assay", "run", "my houses.csv", "--learner", "least squares"])
    assert _command() == "assay run 'my houses.csv' --learner 'least squares'"


def test_remedies_keep_the_options_of_a_configuration_file_and_of_a_study_that_is_read_again():
    frame = visits().drop(columns=["patient", "age"])
    frame = frame.assign(refund=frame["outcome"] * 2 + 1, late=np.exp(frame["outcome"] / 9), x=frame["dose"].round(1))
    frame.to_csv("visits.csv", index=False)
    asked = ["--target", "outcome", "--learner", "least squares", "--cv", "5", "--missing", "x=-,unknown", "--no-open"]
    first = invoke("run", "visits.csv", *asked, "--drop", "refund", "--out", "o")
    assert any(line.endswith("--drop refund --out o --drop late") for line in commands(first.output))
    (name,) = [one.name for one in Path("home", "studies").iterdir()]
    for args in (["run", "--config", "o/assay.toml"], ["show", name]):
        (pasted,) = [line for line in commands(invoke(*args).output) if line.endswith("--drop late")]
        assert "--config" not in pasted
        done = invoke(*shlex.split(pasted)[1:])
        assert done.exit_code == 0, done.output
        assert "serious" not in done.output.replace("serious: too few", "")
        plan = assay.Study.load(max(Path("home/studies").iterdir(), key=lambda one: one.stat().st_mtime_ns).name).plan
        assert (plan.drop, plan.cv, plan.learners) == (("refund", "late"), 5, ("baseline", "least squares"))
        assert plan.gaps["x"] == ["-", "unknown"]


def test_a_long_command_is_whole():
    n, rng = 160, np.random.default_rng(0)
    x = rng.normal(size=n)
    copies = {f"a rather long name of a copied column, number {k}": x * (k + 2) for k in range(30)}
    pd.DataFrame({"x": x, **copies, "y": x + rng.normal(size=n)}).to_csv("wide.csv", index=False)
    told = invoke("run", "wide.csv", "-t", "y", "--learner", "least squares", "--cv", "5", "--no-open")
    (pasted,) = [line for line in commands(told.output) if "--drop" in line]
    assert shlex.split(pasted)[-1].endswith("number 29")
    assert len(pasted) > 1500
    live.begin(["run", "wide.csv", "--config=none.toml"])
    with pytest.raises(DataError, match=r"none\.toml"):
        live.again("drop", "x")
