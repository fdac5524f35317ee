"""Options are declared once: for Python's signature, the command line, the configuration file and the plan."""

from __future__ import annotations

import gc
import inspect
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import assay
from assay.cli import app
from assay.errors import DataError, ParameterError
from assay.evaluation.compare import CORRECTIONS as COMPARED
from assay.experiment import Study, events
from assay.experiment.options import CORRECTIONS, Options, config_text, declared, read_config
from assay.experiment.plan import Plan


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 2)), columns=list("ab"))
    frame.assign(y=frame["a"] + rng.normal(size=120)).to_csv("numbers.csv", index=False)
    return "numbers.csv"


def test_python_and_the_command_line_take_what_is_declared():
    names = {one.name for one in fields(Options)}
    for taker in (assay.run, Study):
        signature = inspect.signature(taker)
        assert names <= set(signature.parameters)
        assert all(signature.parameters[one.name].default == one.default for one in fields(Options))
        assert all(f"| {name} |" in taker.__doc__ for name in names)
    help_text = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    flags = [about.flag or f"--{name.replace('_', '-')}" for name, about in declared().items()]
    assert [flag for flag in flags if flag not in help_text] == []


def test_choices_are_those_of_what_they_choose_among():
    assert CORRECTIONS == COMPARED
    assert declared()["select"].choices == ("best", "readable")
    assert {"cv", "level", "seed", "panel"} <= set(Plan.asked())


@pytest.mark.parametrize(
    "wrong",
    [{"cv": 1}, {"cv": 2.5}, {"looks": True}, {"level": 1.0}, {"panel": "slow"}, {"n_jobs": 0}, {"n_jobs": "two"}],
)
def test_a_value_out_of_range_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ParameterError, match=name):
        Options(**wrong)


def test_a_configuration_repeats_the_options(tmp_path):
    given = {"cv": 5, "kinds": {'a "quoted" \\ name': "category"}, "learners": ("lasso",), "level": 0.9}
    made = Options(open_test=False, out=tmp_path / "größe", **given)
    (tmp_path / "assay.toml").write_text(config_text("t.csv", "y", made), encoding="utf-8")
    read = read_config(tmp_path / "assay.toml")
    assert (read.pop("table"), read.pop("target")) == ("t.csv", "y")
    again = Options(**{name: tuple(value) if isinstance(value, list) else value for name, value in read.items()})
    assert again == Options(**{**given, "open_test": False, "out": str(tmp_path / "größe")})


def test_a_configuration_that_cannot_be_read_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("cv = ")
    with pytest.raises(DataError, match="not valid TOML"):
        read_config(tmp_path / "bad.toml")
    (tmp_path / "odd.toml").write_text("folds = 5")
    with pytest.raises(ParameterError, match="unknown option 'folds'"):
        read_config(tmp_path / "odd.toml")


def test_a_run_leaves_the_configuration_that_repeats_it(table, monkeypatch):
    call = CliRunner().invoke
    asked = [
        "run",
        table,
        "--target",
        "y",
        "--learner",
        "ridge",
        "--cv",
        "4",
        "--out",
        "first",
        "--json",
        "--test-size",
        "0.25",
    ]
    first = call(app, asked)
    assert first.exit_code == 0, first.output
    Path("first", "elsewhere").mkdir()
    monkeypatch.chdir("first/elsewhere")  # the file says where the table is, wherever it is read from
    again = call(app, ["run", "--config", "../assay.toml", "--out", "second", "--json"])
    monkeypatch.chdir("../..")
    assert again.exit_code == 0, again.output
    one, two = json.loads(first.stdout), json.loads(again.stdout)
    assert one["study"] == two["study"]
    assert two["look"]["replay"]  # the same predictions are no new look
    other = call(app, ["run", "--config", "first/assay.toml", "--cv", "10", "--no-open", "--json"])
    assert json.loads(other.stdout)["manifest"]["plan"]["cv"] == 10  # the command line comes first, its default too


def test_what_is_missing_is_named(table):
    for args, name in ((["run", "--target", "y"], "TABLE"), (["run", table], "--target")):
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 2
        assert f"missing {name}" in done.stderr


def test_a_study_that_was_to_stay_sealed_is_not_opened_when_it_is_resumed(table):
    study = Study(table, "y", test_size=0.25, learners=["ridge"], cv=3, open_test=False).finish()
    assert not Study.load(study.name).wishes.open_test
    (study.folder / "assay.toml").unlink()
    (study.folder / "command.json").write_text('{"open": false}')  # as an earlier version left it
    assert not Study.load(study.name).wishes.open_test
    assert Study.load(study.name, open_test=True).wishes.open_test


def test_no_table_with_test_rows_is_in_memory_while_learners_are_fitted(table):
    def frames():
        return [one for one in gc.get_objects() if type(one) is pd.DataFrame and set(one.columns) == set("aby")]

    others, sizes = frames(), []

    def listen(event):
        if isinstance(event, events.FoldDone):
            sizes.append({len(frame) for frame in frames() if not any(frame is other for other in others)})

    Study(table, "y", test_size=0.25, learners=["ridge"], cv=3, listener=listen).finish()
    assert sizes == [{90}] * 8  # of 120 rows


def test_a_study_reports_events_to_its_listener(table):
    heard: list[events.Event] = []
    Study(table, "y", test_size=0.25, learners=["ridge"], cv=3, listener=heard.append).finish()
    steps = [event.step for event in heard if isinstance(event, events.StepBegan)]
    assert steps == ["read", "seal", "check", "compare", "select", "select", "open"]
    folds = [(event.done, event.total) for event in heard if isinstance(event, events.FoldDone)]
    assert folds == [(0, 3), (1, 3), (2, 3), (3, 3)] * 2  # the baseline and ridge
    looks = [event.look.number for event in heard if isinstance(event, events.LookRecorded)]
    assert looks == [1]
    assert all(str(event) for event in heard)


def test_a_learner_that_fails_is_reported(table):
    heard: list[events.Event] = []
    study = Study(table, "y", learners=["sklearn.linear_model:LogisticRegression"], cv=3, listener=heard.append)
    assert list(study.evaluate().results) == ["baseline"]
    failed = [event for event in heard if isinstance(event, events.LearnerFailed)]
    assert [event.learner for event in failed] == ["sklearn.linear_model:LogisticRegression"]
    assert failed[0].reason


def test_protocols_drops_and_missing_texts_survive_a_configuration_file(tmp_path):
    more = {"margin": 0.1, "known_groups": True, "refit": False}
    asked = Options(cv="loo", drop=("a", "b c"), missing={"*": ["-"], "x": []}, **more)
    path = tmp_path / "assay.toml"
    path.write_text(config_text("t.csv", "y", asked))
    read = read_config(path)
    assert (read.pop("table"), read.pop("target")) == ("t.csv", "y")
    assert Options(**{**read, "drop": tuple(read["drop"])}) == asked


@pytest.mark.parametrize(
    "line",
    [
        'open_test = "false"',  # true, so that the test set would be opened
        'refit = "no"',
        'despite = "leak"',
        'drop = "zip"',
        'by = "zip"',
        "learners = 3",
        'kinds = "zip=category"',
        'missing = ["region="]',
        'missing = {region = "NA"}',
        "out = 3",
        "unit = 3",
        'group = ["a"]',
        "time = true",
        "drop = [3]",
        "test = 3",
    ],
)
def test_a_value_of_another_type_in_a_file_is_one_sentence(line, table):
    path = Path("bad.toml")
    path.write_text(f'table = "{table}"\ntarget = "y"\n{line}\n')
    with pytest.raises(ParameterError, match=f"{line.split()[0]} = .* is not (valid|text)"):
        Options(**{key: value for key, value in read_config(path).items() if key not in ("table", "target")})


def test_a_target_of_another_type_in_a_file_is_one_sentence(table):
    Path("bad.toml").write_text('table = "numbers.csv"\ntarget = ["y"]\n')
    found = CliRunner().invoke(app, ["run", "--config", "bad.toml"])
    assert found.exit_code == 2
    assert "target = ['y'] in bad.toml is not text" in found.output


def test_a_misspelt_option_in_a_file_has_a_guess(table):
    path = Path("bad.toml")
    path.write_text('learner = ["tree"]\n')
    with pytest.raises(ParameterError, match="did you mean 'learners'"):
        read_config(path)
