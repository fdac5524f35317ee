"""The command line: what is printed where, exit codes, one JSON document, one sentence for each error, Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky import get_reusable_executor
from rich.console import Console
from typer.testing import CliRunner

import assay
from assay.cli import app, live, out
from assay.cli.options import metric_names
from assay.cli.session import _reach
from assay.errors import LedgerError, ParameterError, SealError
from assay.evaluation import cross_validate
from assay.experiment import panel
from assay.experiment.events import FoldDone, LearnerBegan
from assay.experiment.table.spreadsheet import csv_text
from assay.linear import Ridge
from assay.report.html import write_report
from tests.experiment.stored import make

COMMANDS = (
    *("run", "resume", "open", "demo", "predict", "convert", "history", "show", "report", "verify", "learners"),
    *("doctor", "finalize", "compare"),
)
OPTIONS = """target task panel learner metric cost rate cv repeats group time test-size test looks select level
correction seed n-jobs minutes no-open out kind reason despite json explain"""
COLUMNS_80 = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}


def call(*args: str, **more):
    return CliRunner().invoke(app, list(args), **more)


def houses(n: int = 160, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"size": rng.normal(100, 20, n).round(1), "town": rng.choice(["Ulm", "Bonn"], n)})
    frame["price"] = (frame["size"] * 2 + 30 * (frame["town"] == "Bonn") + rng.normal(0, 10, n)).round(2)
    return frame


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A home with one finished study, and what it printed."""
    root = tmp_path_factory.mktemp("cli")
    houses().to_csv(root / "houses.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(root / "home"))
        patch.delenv("ASSAY_DEBUG", raising=False)
        patch.chdir(root)
        args = ["run", "houses.csv", "--target", "price", "--learner", "least squares", "--learner", "tree"]
        first = call(*args, "--cv", "5", "--out", "made")
        assert first.exit_code == 0, first.output
        name = os.listdir(root / "home" / "studies")[0]
        size = (root / "made" / "report.html").stat().st_size
        # One report with its pictures is enough; later ones only have to be there.
        patch.setattr("assay.report.html.write_report", lambda study, path: path.write_text("<html>") and "0" * 64)
        yield SimpleNamespace(
            root=root, first=first, name=name, report=size, args=[*args, "--cv", "5", "--out", "made"]
        )


# Help.


@pytest.mark.parametrize("command", COMMANDS)
def test_help_reads_well_in_80_columns(command):
    done = call(command, "--help", env=COLUMNS_80)
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    assert not re.search(r"<(bool|str|int|float|list\S*)>", done.stdout)  # flags and names, not types
    assert "..." not in done.stdout.split("Options")[1]


def test_help_names_every_option_of_the_issue():
    told = call("run", "--help", env=COLUMNS_80).stdout
    assert [name for name in OPTIONS.split() if not re.search(rf"--{name}\b", told)] == []


HELP = """
import sys
from assay import cli
sys.argv = ["assay", "--help"]
try:
    cli.main()
except SystemExit as end:
    print(end.code, sorted({"numpy", "pandas", "sklearn", "numba"} & set(sys.modules)))
"""


def test_help_loads_no_heavy_room():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=600)
    assert "Commands" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 []"


def test_no_arguments_show_the_help_alone():
    done = call()
    assert "Commands" in done.output
    assert "bug" not in done.output


# A study.


def test_run_tells_every_step(world):
    told = world.first.stdout
    parts = [
        "houses.csv: 160 rows",
        "Test set sealed",
        "Checks",
        "Leaderboard",
        "Comparisons",
        "Selected",
        "Test set: ",
        "Verdict",
    ]
    places = [told.index(part) for part in parts]
    assert places == sorted(places)
    assert "category" in told
    assert "least squares" in told
    assert "made/report.html" in told
    assert "made/model.assay" in told
    assert world.first.stderr == ""
    assert "passed]" not in told


def test_files_are_left(world):
    made = world.root / "made"
    assert world.report > 50_000
    assert {"report.html", "model.assay", "study.json", "study.py"} <= set(os.listdir(made))


def test_json_is_one_document_with_the_promised_keys(world):
    done = call(*world.args, "--json")
    assert done.exit_code == 0
    assert done.stderr == ""
    found = json.loads(done.stdout)
    keys = {"study", "task", "n_train", "n_test", "selected", "leaderboard", "comparisons"}
    keys |= {"test", "look", "checks", "report", "model"}
    assert keys <= set(found)
    assert set(found["leaderboard"][0]) >= {"learner", "metric", "estimate", "lower", "upper", "seconds"}
    figure = found["test"]["rmse"]
    assert set(figure) >= {"estimate", "lower", "upper", "method", "n", "estimand"}
    assert figure["lower"] < figure["estimate"] < figure["upper"]
    assert found["study"] == world.name
    assert found["look"]["replay"]


def test_the_same_command_prints_the_same_numbers(world):
    def figures(text):
        return text.split("Leaderboard")[1].split("Verdict")[0].replace(", a replay (not counted)", "")

    def without_time(text):
        return re.sub(r" +[\d.]+ s\b", "", re.sub(r"\s+", " ", text))

    again = call(*world.args)
    assert without_time(figures(again.stdout)) == without_time(figures(world.first.stdout))


def test_explain_adds_reasons_and_references(world):
    told = call(*world.args, "--explain").stdout
    assert "Nadeau and Bengio" in told
    assert "Breiman" in told
    assert "Readable learners here: least squares, tree." in " ".join(told.split())


def test_kinds_and_wide_tables(world, tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(80, 20)), columns=[f"c{j}" for j in range(20)]).assign(
        z=1000, y=rng.random(80)
    )
    frame["z"] += rng.integers(0, 3, 80)
    frame.to_csv(tmp_path / "wide.csv", index=False)
    args = ["run", str(tmp_path / "wide.csv"), "-t", "y", "--learner", "tree", "--kind", "z=category", "--no-open"]
    told = call(*args, "--test-size", "0.25", "--cv", "3", "--out", str(tmp_path / "o")).stdout
    assert re.search(r"z +category", told)
    assert "and 20 more columns (20 number)" in told
    assert "Test set: still sealed" in told


def test_a_sealed_study_is_opened_later(world, tmp_path):
    houses(seed=5).to_csv(tmp_path / "later.csv", index=False)
    options = ["--learner", "least squares", "--cv", "3", "--no-open", "--json"]
    closed = json.loads(call("run", str(tmp_path / "later.csv"), "-t", "price", *options, "--out", "later").stdout)
    assert closed["test"] is None
    name = closed["study"]
    assert json.loads(call("resume", name, "--json").stdout)["test"] is None  # as it was begun
    assert json.loads(call("show", name, "--json").stdout)["test"] is None
    opened = json.loads(call("open", name, "--json").stdout)
    assert opened["test"]["rmse"]["n"] == closed["n_test"]
    assert opened["report"].endswith("later/report.html")
    shown = json.loads(call("show", name, "--json").stdout)
    assert shown["test"] == opened["test"]


def test_a_serious_check_keeps_the_test_set_sealed(world, tmp_path):
    frame = houses(seed=40)
    frame.assign(tax=0.19 * frame["price"]).to_csv(tmp_path / "leaky.csv", index=False)
    args = ["run", str(tmp_path / "leaky.csv"), "-t", "price", "--learner", "least squares", "--cv", "3"]
    done = call(*args, "--out", str(tmp_path / "o"))
    assert done.exit_code == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "stays sealed because of a serious check: target leakage [leak]" in done.stderr
    assert "Test set: still sealed" in done.stdout
    assert (tmp_path / "o" / "report.html").is_file()
    name = re.search(r"assay open (\S+) --despite leak", done.stderr)[1]
    assert call("open", name).exit_code == 1
    found = json.loads(call("show", name, "--json").stdout)
    assert found["test"] is None
    assert found["stopped_by"] == ["leak"]
    assert "unknown check" in call("open", name, "--despite", "leek").stderr
    opened = call("open", name, "--despite", "leak")
    assert opened.exit_code == 0, opened.output
    assert "despite a serious check" in opened.stdout
    assert call("open", name).exit_code == 0  # it is open now
    frame = houses(seed=41)
    frame.assign(tax=0.19 * frame["price"]).to_csv(tmp_path / "leaky.csv", index=False)
    assert call(*args, "--despite", "leak", "--out", str(tmp_path / "o")).exit_code == 0


def test_a_second_look_needs_a_reason(world):
    args = ["run", "houses.csv", "--target", "price", "--learner", "ridge", "--cv", "3", "--out", "second"]
    refused = call(*args)
    assert refused.exit_code == 1
    assert len(refused.stderr.strip().splitlines()) == 1
    name = re.search(r"assay open (\S+)", refused.stderr)[1]
    opened = call("open", name, "--reason", "to try the command line", "--out", "second")
    assert opened.exit_code == 0, opened.output
    assert "beyond the plan" in opened.stdout
    assert "without an interval" in opened.stdout
    assert "Ladder" not in opened.stdout  # the term is for --explain
    assert "Ladder" in call("show", name, "--explain").stdout
    for told in (opened.stdout, world.first.stdout):
        assert not re.search(r"carr(y|ies) the level|no level|secondary", told)


def test_workers_change_no_figure_and_a_spent_budget_is_told(world, tmp_path):
    houses(seed=7).to_csv(tmp_path / "t.csv", index=False)
    args = ["run", str(tmp_path / "t.csv"), "-t", "price", "--learner", "ridge", "--cv", "3", "--no-open", "--json"]
    figures = []
    for number, jobs in enumerate(("1", "2")):
        home = {"ASSAY_HOME": str(tmp_path / f"home{number}")}
        found = json.loads(call(*args, "--n-jobs", jobs, "--out", str(tmp_path / "o"), env=home).stdout)
        figures.append([(row["learner"], row["estimate"], row["lower"]) for row in found["leaderboard"]])
    assert figures[0] == figures[1]
    home = {"ASSAY_HOME": str(tmp_path / "home2")}
    late = call(*args, "--minutes", "1e-9", "--out", str(tmp_path / "o"), env=home)
    assert late.exit_code == 1
    assert "when the time ran out" in late.stderr
    remedy = re.search(r"finished folds are kept, so go on with: assay (resume \S+)\n", late.stderr)[1]
    assert call(*remedy.split(), env=home).exit_code == 0


# Looking back.


def test_history_lists_the_study(world):
    told = call("history", env=COLUMNS_80)
    assert told.exit_code == 0
    line = next(one for one in told.stdout.splitlines() if world.name in one)
    assert re.search(r"\d{4}-\d\d-\d\d", line)
    assert re.search(r"\d\d:\d\d ", told.stdout)
    figure = re.search(r"typical error \(rmse\) +([\d.]+)", world.first.stdout)[1]
    assert "rmse" in told.stdout
    assert figure in told.stdout.split()  # whole, and as the study printed it
    found = json.loads(call("history", "--json").stdout)
    one = next(study for study in found["studies"] if study["study"] == world.name)
    assert one["selected"] == "least squares"
    assert one["looks"] == 1


def test_show_tells_the_study_again(world):
    told = call("show", world.name[:-3]).stdout
    assert "Selected: least squares" in told
    assert "a replay (not counted)" in " ".join(told.split())


def test_report_is_written_again(world):
    done = call("report", world.name, "--out", "again", "--unit", "bushels", "--json")
    assert json.loads(done.stdout)["report"].endswith("report.html")
    assert (world.root / "again" / "report.html").is_file()
    assert "unknown column 'nowhere' in by" in call("report", world.name, "--by", "nowhere").output


def test_verify_finds_nothing_and_then_a_changed_vault(world):
    assert call("verify", world.name).exit_code == 0
    vault = world.root / "home" / "vaults" / f"{world.name}.arrow"
    kept = vault.read_bytes()
    vault.chmod(0o600)
    vault.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    try:
        done = call("verify", world.name, "--json")
    finally:
        vault.write_bytes(kept)
    assert done.exit_code == 1
    assert len(json.loads(done.stdout)["problems"]) == 1


def test_predict_writes_limits(world, tmp_path):
    model = str(world.root / "made" / "model.assay")
    printed = call("predict", model, "houses.csv")
    assert printed.stdout.splitlines()[0] == "row,prediction,lower,upper"
    assert "90% prediction intervals" in printed.stderr
    assert len(printed.stdout.splitlines()) == 161
    for ending, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        path = tmp_path / f"p{ending}"
        assert call("predict", model, "houses.csv", "-o", str(path)).exit_code == 0
        found = read(path)
        assert (found["lower"] < found["prediction"]).all()
    assert json.loads(call("predict", model, "houses.csv", "--json").stdout)["n"] == 160


def test_predictions_find_their_rows_again_and_say_what_is_odd(world, tmp_path):
    model = str(world.root / "made" / "model.assay")
    frame = houses(60, seed=3).drop(columns="price")
    frame.insert(0, "customer", [f"C{number:05d}" for number in range(60)])
    frame["garden"] = 1.5
    frame.loc[[4, 7], "town"] = "Köln"
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "new.csv", index=False)
    done = call("predict", model, str(tmp_path / "new.csv"), "-o", str(tmp_path / "p.csv"), "--level", "0.95")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found.columns) == ["row", "customer", "prediction", "lower", "upper"]
    assert found["row"].tolist() == list(range(1, 61))
    assert found["customer"].tolist() == pd.read_csv(tmp_path / "new.csv")["customer"].tolist()
    assert "60 predictions" in done.stdout
    assert "95% prediction intervals: for about 95 of 100 new rows" in done.stderr
    assert "columns that the model does not use: 'garden'." in done.stderr
    assert "'town' has values in 2 rows that do not occur in the training rows ('Köln')" in done.stderr
    told = json.loads(call("predict", model, str(tmp_path / "new.csv"), "--json").stdout)
    assert told["rows"][0]["row"] == 1
    assert "90% prediction intervals" in told["coverage"]
    assert len(told["notes"]) == 4
    assert [alert["kind"] for alert in told["alerts"]] == ["unseen-level", "outside-range", "outside-range"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns="town"), "column 'town' is missing from new.csv; add it"),
        (lambda frame: frame.drop(columns=["town", "size"]).assign(x=1), "column 'size' and 1 more ('town') are"),
        (lambda frame: frame.rename(columns={"size": "Size"}), "rename 'Size' if it is the same"),
        (
            lambda frame: frame.assign(size=["large", *frame["size"][1:]]),
            "'large' in line 2 is not a finite number; correct",
        ),
        (lambda frame: frame.head(0), "no rows"),
    ],
    ids=["a missing column", "two missing", "renamed", "text for a number", "no rows"],
)
def test_tables_that_cannot_be_predicted_get_one_sentence(world, tmp_path, change, words):
    change(houses(30).drop(columns="price")).to_csv(tmp_path / "new.csv", index=False)
    done = call("predict", str(world.root / "made" / "model.assay"), str(tmp_path / "new.csv"))
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert words in done.stderr
    assert done.stdout == ""


def test_sets_of_classes_say_what_they_cover(world, tmp_path):
    houses(seed=21).to_csv(tmp_path / "towns.csv", index=False)
    args = ["--learner", "logistic", "--cv", "3", "--no-open", "--out", str(tmp_path / "o")]
    told = call("run", str(tmp_path / "towns.csv"), "-t", "town", *args)
    assert told.exit_code == 0
    assert re.search(r"logistic +[\d.]+% +[\d.]+% to [\d.]+%", told.stdout)  # rates as percentages
    done = call("predict", str(tmp_path / "o" / "model.assay"), str(tmp_path / "towns.csv"))
    assert done.stdout.splitlines()[0] == "row,prediction,set,probability of Bonn,probability of Ulm"
    assert "90% prediction sets" in done.stderr


WARNS = """
import warnings
from sklearn.linear_model import LinearRegression
class Warns(LinearRegression):
    def fit(self, X, y):
        warnings.warn(f"no convergence after {len(y)} steps; lower eps")
        warnings.warn("use another name", FutureWarning)
        return super().fit(X, y)
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_warnings_stay_with_their_learner(world, tmp_path, monkeypatch, jobs):
    """They do not run over the console; the leaderboard counts them, `--explain` and the report print them."""
    monkeypatch.setattr("assay.report.html.write_report", write_report)
    houses(seed=int(jobs) + 30).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "warner.py").write_text(WARNS)
    monkeypatch.syspath_prepend(tmp_path)
    get_reusable_executor().shutdown(wait=True)  # workers of earlier tests do not know where the learner is
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    args = ["run", str(tmp_path / "t.csv"), "-t", "price", "--learner", "warner:Warns", "--cv", "3", "--n-jobs", jobs]
    done = call(*args, "--out", str(tmp_path / "o"))
    assert done.exit_code == 0, done.output
    assert "convergence" not in done.output
    assert "warning" not in done.stderr
    assert "warner:Warns: 1 warning in 3 folds (--explain shows them)" in done.stdout
    assert "no convergence after" in call(*args, "--explain", "--out", str(tmp_path / "o")).stdout
    told = json.loads(call(*args, "--json", "--out", str(tmp_path / "o")).stdout)
    assert [row["warnings"] for row in told["leaderboard"] if row["learner"] == "warner:Warns"] == [1]
    kinds = told["warnings"]["warner:Warns"]
    assert [one.get("folds") for one in kinds] == [3, None]
    assert "another name" not in str(kinds)
    assert "no convergence after" in (tmp_path / "o" / "report.html").read_text()


def test_a_part_that_the_report_lacks_is_said(world, tmp_path, monkeypatch):
    monkeypatch.setattr("assay.report.html.write_report", write_report)

    def broken(*args):
        raise RuntimeError("no importance today")

    monkeypatch.setattr("assay.report._model_section.importance", broken)
    done = call("report", world.name, "--out", str(tmp_path))
    assert done.exit_code == 0
    assert "warning: the report has no section 'Column importance'" in done.stderr
    assert "(RuntimeError: no importance today)" in done.stderr


def test_a_learner_of_the_current_folder_is_found(world, tmp_path, monkeypatch):
    """Also by the console script, which does not look there by itself, and by its workers."""
    (tmp_path / "mine.py").write_text(WARNS.replace("Warns", "Mine").replace("warnings.warn", "print"))
    houses(seed=3).to_csv(tmp_path / "t.csv", index=False)
    script = "import sys; sys.path = [p for p in sys.path if p]; from assay.cli import main; main()"
    for jobs in ("1", "2"):
        args = ["run", "t.csv", "-t", "price", "--learner", "mine:Mine", "--cv", "3", "--no-open", "--n-jobs", jobs]
        env = {**os.environ, "ASSAY_HOME": str(tmp_path / f"home{jobs}"), "PYTHONPATH": ""}
        done = subprocess.run(
            [sys.executable, "-P", "-c", script, *args],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=env,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "mine:Mine" in done.stdout.split("Leaderboard")[1].split("Selected")[0]
        assert "failed" not in done.stdout


def test_show_explain_counts_the_test_rows(world):
    told = " ".join(call("show", world.name, "--explain").stdout.split())
    sealed = re.search(r"(\d+) of 160 rows are sealed as test rows", told)[1]
    assert f"{160 - int(sealed)} training and {sealed} test rows" in told


def test_a_metric_that_cannot_judge_the_target_is_refused_with_those_that_can(world):
    numbers = call("run", "houses.csv", "-t", "price", "--metric", "auc").stderr
    assert "choose one of deviance, gamma_deviance, mae, median_absolute_error, mse, " in numbers
    assert "log_loss" not in numbers
    classes = call("run", "houses.csv", "-t", "town", "--metric", "rmse").stderr
    assert "balanced_accuracy" in classes
    assert "silhouette" not in classes
    assert "mae" not in classes
    unknown = call("run", "houses.csv", "-t", "price", "--metric", "magic").stderr
    assert "unknown metric 'magic'; choose one of deviance, " in unknown


def test_a_metric_that_a_constant_wins_is_refused_with_a_command_to_paste(world, tmp_path):
    houses().assign(dear=lambda t: np.where(t["price"] > t["price"].median(), "yes", "no")).to_csv("dear.csv")
    refused = call("run", "dear.csv", "-t", "dear", "--metric", "sensitivity")
    assert refused.exit_code == 2
    assert "predicting 'yes' for every row reaches its best value, 1" in refused.stderr
    assert "assay run dear.csv -t dear --metric balanced_accuracy" in refused.stderr


@pytest.mark.parametrize(("task", "there", "absent"), [("regression", "mae", "auc"), ("classification", "auc", "mae")])
def test_metrics_of_the_task_complete(task, there, absent):
    found = metric_names(SimpleNamespace(params={"task": task}))
    assert there in found
    assert absent not in found
    assert {there, absent} <= set(metric_names(SimpleNamespace(params={"task": "auto"})))


def test_remedies_spell_the_whole_command(world, tmp_path, monkeypatch):
    frame = houses(seed=11)
    frame.assign(visit=np.arange(160) // 4, when=pd.date_range("2024-01-01", periods=160).astype(str)).to_csv(
        tmp_path / "visits.csv", index=False
    )
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    args = ["run", "visits.csv", "-t", "price", "--learner", "least squares", "--cv", "3", "--no-open"]
    told = [line.strip() for line in call(*args, env=COLUMNS_80).stdout.splitlines()]
    assert "assay run visits.csv -t price --learner 'least squares' --cv 3 --no-open --time when" in told
    other = call(*args, "--test-size", "0.3")
    assert other.exit_code == 2
    assert other.stderr.strip().endswith("--no-open --test-size 0.3 --reseal 'the reason'")
    sealed = call(*args, "--test-size", "0.3", "--reseal", "the reason")
    assert sealed.exit_code == 0, sealed.output
    name = os.listdir(tmp_path / "home" / "studies")[0]
    asked = "visits.csv --target price --learner 'least squares' --cv 3 --test-size 0.3 --no-open --time when"
    assert asked in " ".join(call("show", name).stdout.split())
    again = call("run", "--config", str(tmp_path / "out" / name / "assay.toml"), "--json")
    assert json.loads(again.stdout)["study"] == name  # a new seal is not made anew


def test_a_learner_of_another_package_finishes_and_is_written_on_demand(world, tmp_path):
    """The study, its report and its verdict are there; the model file waits for a word of trust, twice."""
    houses(seed=77).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "model.assay").write_bytes(b"of an earlier study")
    args = ["run", str(tmp_path / "t.csv"), "-t", "price", "--learner", "sklearn.linear_model:HuberRegressor"]
    done = call(*args, "--cv", "3", "--out", str(tmp_path / "o"))
    assert done.exit_code == 0, done.output
    kind = "sklearn.linear_model._huber.HuberRegressor"
    said = " ".join(done.stdout.split())
    assert "The model file was not written: the model contains" in said
    assert (tmp_path / "o" / "report.html").exists()
    assert not (tmp_path / "o" / "model.assay").exists()
    command = re.search(r"assay (report \S+ --out \S+ --trust \S+)", said)
    assert command is not None
    assert command[1].endswith(kind)
    written = call(*command[1].split())
    assert written.exit_code == 0, written.output
    refused = call("predict", str(tmp_path / "o" / "model.assay"), str(tmp_path / "t.csv"))
    assert refused.exit_code == 1
    assert f"--trust {kind}" in " ".join(refused.stderr.split())
    trusted = call("predict", str(tmp_path / "o" / "model.assay"), str(tmp_path / "t.csv"), "--trust", kind)
    assert trusted.exit_code == 0, trusted.output
    assert len(trusted.stdout.splitlines()) == 161


def test_trust_given_to_run_writes_the_model_at_once_and_is_remembered_by_open(world, tmp_path):
    houses(seed=78).to_csv(tmp_path / "t.csv", index=False)
    kind = "sklearn.linear_model._huber.HuberRegressor"
    args = ["run", str(tmp_path / "t.csv"), "-t", "price", "--learner", "sklearn.linear_model:HuberRegressor"]
    done = call(*args, "--cv", "3", "--no-open", "--out", str(tmp_path / "o"), "--trust", kind)
    assert done.exit_code == 0, done.output
    model = tmp_path / "o" / "model.assay"
    assert model.exists()
    model.unlink()
    name = re.search(r"assay open (\S+)", done.stdout)
    assert name is not None, done.stdout
    opened = call("open", name[1])
    assert opened.exit_code == 0, opened.output
    assert model.exists()


def test_a_baseline_is_saved_without_trust(world, tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame({"x": rng.normal(size=80), "y": rng.normal(size=80)}).to_csv(tmp_path / "t.csv", index=False)
    done = call(
        "run", str(tmp_path / "t.csv"), "-t", "y", "--learner", "tree", "--cv", "3", "--out", str(tmp_path / "o")
    )
    assert done.exit_code == 0, done.output
    model = assay.experiment.load_model(tmp_path / "o" / "model.assay")["pipeline"]
    assert type(model["model"]).__name__ == "DummyRegressor"


def test_a_model_file_of_an_earlier_version_is_written_anew(tmp_path):
    old, new = make.FOLDER / "v1" / "tree.assay", tmp_path / "new.assay"
    done = call("convert", str(old), str(new))
    assert done.exit_code == 0, done.output
    rows = make.table()[0]
    found = [assay.experiment.load_model(path)["pipeline"].predict(rows) for path in (old, new)]
    assert np.array_equal(*found)
    assert call("convert", str(new), str(tmp_path / "again.assay")).exit_code == 0
    assert (tmp_path / "again.assay").read_bytes() == new.read_bytes()
    assert call("convert", str(old), str(tmp_path / "wrong.pkl")).exit_code == 2


def test_learners_are_in_the_order_of_listing():
    found = json.loads(call("learners", "--json", "--task", "regression").stdout)
    assert [one["order"] for one in found] == sorted(one["order"] for one in found)
    assert found[0]["learner"] == "baseline"
    assert {one["cost_of"]["classes"] for one in found} == {None}
    told = call("learners", env=COLUMNS_80).stdout
    assert "two classes" in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 80
    assert "max_leaf_nodes" in told


def test_doctor_says_what_it_found(world, monkeypatch):
    done = call("doctor")
    assert done.exit_code == 0, done.output
    assert f"assay {assay.__version__}" in done.stdout
    assert "no problems" in " ".join(done.stdout.split())
    found = json.loads(call("doctor", "--json").stdout)
    assert found["problems"] == []
    assert found["kernels"]["directory"]
    assert found["free"] > 0


def test_doctor_fails_on_a_corrupt_ledger(tmp_path, monkeypatch):
    (tmp_path / "ledger.db").write_bytes(b"this is no database, but it is long enough to be taken for one" * 40)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    done = call("doctor")
    assert done.exit_code == 1
    assert "Traceback" not in done.output


def test_demo_leaves_table_report_and_model(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    few = [one for one in panel.learners("classification") if one.name in ("baseline", "discriminant", "logistic")]
    monkeypatch.setattr(panel, "_CLASSIFICATION", tuple(few))
    done = call("demo", "--out", str(tmp_path / "demo"), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["n_train"] + found["n_test"] == 569
    assert found["better_than_baseline"]
    assert {"breast_cancer.csv", "report.html", "model.assay"} <= set(os.listdir(tmp_path / "demo"))
    assert not (tmp_path / "home").exists()  # a ledger of its own, thrown away


# Errors.


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["run", "nowhere.csv", "-t", "y"], 2, "nowhere.csv"),
        (["run", "houses.csv"], 2, "--target"),
        (["run", "houses.csv", "-t", "prize"], 2, "'prize'"),
        (["run", "houses.csv", "-t", "price", "--panel", "huge"], 2, "huge"),
        (["run", "houses.csv", "-t", "price", "--learner", "magic"], 2, "magic"),
        (["run", "houses.csv", "-t", "price", "--learner", "no.such:Thing"], 2, "no.such:Thing"),
        (["run", "houses.csv", "-t", "price", "--cv", "1"], 2, "cv"),
        (["run", "houses.csv", "-t", "price", "--cv", "many"], 2, "holdout, loo, 5x2"),
        (["run", "houses.csv", "-t", "price", "--metric", "auc"], 2, "auc"),
        (["run", "houses.csv", "-t", "price", "--level", "95"], 2, "level"),
        (["run", "houses.csv", "-t", "price", "--minutes", "soon"], 2, "--minutes"),
        (["run", "houses.csv", "-t", "price", "--test-size", "half"], 2, "half"),
        (["run", "houses.csv", "-t", "price", "--kind", "town"], 2, "COL=KIND"),
        (["run", "houses.csv", "-t", "price", "--kind", "town=number"], 2, "town"),
        (["run", "houses.csv", "-t", "price", "--group", "street"], 2, "street"),
        (["run", "houses.csv", "-t", "price", "--out", "houses.csv"], 2, "houses.csv"),
        (["show", "nobody"], 2, "nobody"),
        (["predict", "nowhere.assay", "houses.csv"], 2, "nowhere.assay"),
        (["predict", "houses.csv", "houses.csv"], 1, "houses.csv"),
        (["predict", "made/model.assay", "houses.csv", "-o", "p.xls"], 2, "unknown output format '.xls'"),
        (["learners", "--task", "guessing"], 2, "guessing"),
        (["ran"], 2, "ran"),
        (["--nonsense"], 2, "nonsense"),
    ],
    ids=lambda value: " ".join(value[:6]) if isinstance(value, list) else None,
)
def test_errors_are_one_sentence(world, args, code, words):
    done = call(*args)
    assert done.exit_code == code
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("assay: ")
    assert words in done.stderr
    assert "bug" not in done.stderr
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (LedgerError("the ledger is locked", remedy="wait"), 1, "the ledger is locked; wait"),
        (ParameterError("cv = 1 is out of range"), 2, "cv = 1"),
        (OSError(28, "No space left on device", "/full"), 1, "/full: no space left"),
        (MemoryError(), 1, "memory"),
        (BrokenProcessPool("gone"), 1, "a worker process died"),
        (ZeroDivisionError("by zero"), 1, "bug in assay"),
    ],
)
def test_exit_codes_by_error(monkeypatch, error, code, words):
    def fail(*args, **more):
        raise error

    monkeypatch.setattr("assay.experiment.storage.ledger.Ledger.__init__", fail)
    monkeypatch.delenv("ASSAY_DEBUG", raising=False)
    done = call("history", "--json")
    assert done.exit_code == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["exit"] == code
    monkeypatch.setenv("ASSAY_DEBUG", "1")
    assert "Traceback" in call("history").stderr


def test_a_failing_learner_is_shown_and_stops_nobody(world, tmp_path):
    houses(seed=9).to_csv(tmp_path / "t.csv", index=False)
    args = ["--learner", "least squares", "--learner", "sklearn.ensemble:GradientBoostingClassifier", "--cv", "3"]
    done = call("run", str(tmp_path / "t.csv"), "-t", "price", *args, "--no-open", "--out", str(tmp_path / "o"))
    assert done.exit_code == 0, done.output
    assert "GradientBoostingClassifier failed" in " ".join(done.stdout.split())


# Live.


def test_live_shows_learner_fold_best_and_time_left():
    console = Console(force_terminal=True, width=120, file=open(os.devnull, "w"))  # noqa: SIM115
    shown = live.Live(console=console)
    shown.work = {"lasso": 1e9, "ridge": 2e9}
    with shown:
        shown.hears(LearnerBegan("lasso", 1, 2))
        shown.hears(FoldDone("lasso", 0, 4))
        before = shown.left(4)
        shown.hears(FoldDone("lasso", 1, 4))
        assert "fold 2 of 4" in shown._bar.tasks[0].description
        assert shown._bar.tasks[0].completed == 1
        assert "left" in shown._bar.tasks[0].fields["left"]
        best = cross_validate(Ridge(), [[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 2.5, 3.0], cv=2, metric="rmse")
        shown.hears(LearnerBegan("ridge", 2, 2, replace(best, name="lasso")))
        assert "best so far lasso (rmse " in shown._bar.tasks[0].description
        assert shown.left(4) < before
    console.file.close()


def test_live_is_silent_where_there_is_no_terminal(capsys):
    with live.Live() as shown:
        shown.hears(LearnerBegan("lasso", 1, 2))
        shown.hears(FoldDone("lasso", 1, 4))
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A kernel cache of this test's own."""
    from assay.numerics import jit

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    jit.cache_directory.cache_clear()
    yield
    jit.cache_directory.cache_clear()


@pytest.mark.usefixtures("empty_cache")
def test_compiling_is_announced_once_per_machine(capsys):
    from assay.numerics.jit import kernel

    def compile_one():
        space = {"__name__": "assay.somewhere"}
        exec("def double(x): return 2.0 * x", space)  # without a file, so never from the cache
        kernel(space["double"])(1.0)

    with live.compiling(out.notices(), quiet=True):
        compile_one()
    assert capsys.readouterr().err == ""
    for expected in (1, 0):  # the second block stands for a later run
        with live.compiling(out.notices()):
            compile_one()
            compile_one()
        assert capsys.readouterr().err.count("Compiling kernels") == expected


def test_control_letters_never_reach_the_terminal():
    assert out.clean("a\x1b[2Jb\nc\x07") == "a?[2Jb c?"


SLOW = """
import threading
from sklearn.base import BaseEstimator, RegressorMixin
class Slow(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        print("fitting", flush=True)
        threading.Event().wait()
        return self
    def predict(self, X):
        return [0.0] * len(X)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a console differ there")
def test_interrupt_stops_a_fit_that_never_ends_and_says_how_to_go_on(tmp_path):
    houses().to_csv(tmp_path / "houses.csv", index=False)
    (tmp_path / "slow.py").write_text(SLOW)
    environment = {**os.environ, "ASSAY_HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path)}
    args = ["run", "houses.csv", "-t", "price", "--learner", "slow:Slow", "--cv", "3", "--no-open"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "assay", *args],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        for line in process.stdout:
            if line.startswith("fitting"):
                break
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130
    name = os.listdir(tmp_path / "home" / "studies")[0]
    assert f"assay resume {name}" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("ending", ["csv", "tsv", None])
def test_predictions_hold_nothing_that_a_spreadsheet_would_run(tmp_path, monkeypatch, ending):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    frame = houses()
    dear = frame["price"] > frame["price"].median()
    frame = frame.drop(columns="price").assign(y=np.where(dear, '=HYPERLINK("http://x")', "@no\x1b[2J\x9b31m"))
    frame["+id"] = [f"-{k:03}a" for k in range(len(frame))]
    frame["y"] = frame.pop("y")
    study = assay.run(frame, "y", learners=["logistic"], n_jobs=1, kinds={"+id": "id"}, open_test=False)
    study.save(tmp_path / "model.assay")
    frame.to_csv(tmp_path / "new.csv", index=False)
    args = ["predict", str(tmp_path / "model.assay"), str(tmp_path / "new.csv")]
    done = call(*args, *(["-o", str(tmp_path / f"out.{ending}")] if ending else []))
    assert done.exit_code == 0, done.output
    text = (tmp_path / f"out.{ending}").read_text() if ending else done.stdout
    rows = list(csv.reader(text.splitlines(), delimiter="\t" if ending == "tsv" else ","))
    assert set(rows[1][rows[0].index("prediction")][:2]) <= set("'=@")
    for cell in (cell for row in rows for cell in row):
        assert not cell.startswith(("=", "@", "\t", "\r")), cell
        assert not cell.startswith(("+", "-")) or float(cell) is not None
    assert not any(control in done.output + text for control in "\x1b\x9b")
    told = call(*args, "--json").stdout
    assert json.loads(told)["rows"]
    assert not any(control in told for control in "\x1b\x9b")


def test_one_function_writes_csv():
    source = Path(assay.__file__).parent
    writers = [path.name for path in source.rglob("*.py") if re.search(r"\.to_csv\(|csv\.writer", path.read_text())]
    assert writers == ["spreadsheet.py"]


def test_what_a_spreadsheet_or_a_terminal_would_obey_is_inert():
    run = ["=1+1", "+1+1", "-1+1", "@x", "\t=1", "\n=1", "\uff1d1"]
    cells = [*run, "\r=1", "\x1b[2J", "-1.5", "+1e6", "a=b", "two\nlines"]
    frame = pd.DataFrame({"=head": cells, "@n": np.arange(len(cells)) - 5.0})
    rows = list(csv.reader(io.StringIO(csv_text(frame), newline="")))
    assert rows[0] == ["'=head", "'@n"]
    assert [row[0] for row in rows[1:]] == [*(f"'{cell}" for cell in run), "'?=1", "?[2J", *cells[-4:]]
    assert [float(row[1]) for row in rows[1:]] == frame["@n"].tolist()
    kinds = frame.astype({"=head": "category"}).assign(text=frame["=head"].astype("string"))
    assert [row[0] for row in csv.reader(io.StringIO(csv_text(kinds), newline=""))] == [row[0] for row in rows]


def test_tables_too_small_for_test_rows_are_refused_in_plain_words(tmp_path):
    houses(1).to_csv(tmp_path / "one.csv", index=False)
    done = call("run", str(tmp_path / "one.csv"), "-t", "price", env={"ASSAY_HOME": str(tmp_path / "home")})
    assert done.exit_code == 2
    assert "one.csv has 1 row with a target, too few to set test rows aside; add rows" in done.output


# Finalizing.


def test_finalize_follows_the_look(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    houses(seed=8).to_csv("houses.csv", index=False)
    monkeypatch.setattr("assay.report.html.write_report", lambda study, path: path.write_text("<html>") and "0" * 64)
    args = ("run", "houses.csv", "-t", "price", "--learner", "ridge", "--cv", "5", "--out", "made")
    assert call(*args, "--no-open").exit_code == 0
    name = os.listdir(tmp_path / "home" / "studies")[0]
    early = call("finalize", name)
    assert early.exit_code == 1
    assert f"assay open {name}" in early.stderr
    opened = call("open", name)
    assert "beats the baseline (no features)" in " ".join(opened.stdout.split())
    assert "ridge minus baseline" in opened.stdout
    told = call("finalize", name)
    assert told.exit_code == 0, told.output
    assert "of the recipe fitted to the training rows" in " ".join(told.stdout.split())
    assert "on all 160 rows" in told.stdout
    assert (tmp_path / "made" / "model-final.assay").exists()
    document = json.loads(call("finalize", name, "--json").stdout)
    assert document["settings"]["alpha_"].keys() == {"training rows", "all rows"}
    assert document["n_train"] + document["n_test"] == 160
    assert call("predict", "made/model-final.assay", "houses.csv", "-o", "out.csv").exit_code == 0
    assert call("verify", name).exit_code == 0
    again = call(*args)
    assert again.exit_code == 2
    assert "cannot be test rows again" in again.stderr


def test_the_reason_that_is_asked_for_keeps_the_codes_that_were_given():
    def reach(step):
        raise SealError("this would be look 2", remedy="give a reason", option=("reason", "why"))

    study = SimpleNamespace(name="houses-1", reach=reach, wishes=SimpleNamespace(despite=("leak", "time")))
    with pytest.raises(SealError) as error:
        _reach(study, "open")
    assert error.value.remedy.endswith('assay open houses-1 --despite leak --despite time --reason "why"')
