"""Studies of earlier versions: stored plans with fewer fields are read, and figures on record are not scored again."""

import importlib
import json

import numpy as np
import pandas as pd
import pytest

from assay.experiment.panel import pipeline_of
from assay.experiment.plan import Plan
from assay.experiment.storage.ledger import Ledger
from assay.experiment.study import Study, run
from assay.report.draw_experiment import pictures_of
from assay.report.html import render

select_step = importlib.import_module("assay.experiment.steps.select")  # the package has a function of that name
FIRST_PLAN = """{"also":["mae","r2"],"correction":"holm","cv":10,"group":null,"kinds":[["y","number"],["a","number"],
["b","number"]],"learners":["baseline","least squares"],"level":0.95,"looks":1,"metric":"rmse","panel":"quick",
"repeats":1,"seed":0,"select":"one-se","source":"table.csv","target":"y","task":"regression","time":null}"""
"""The plan of a study as the first version wrote it."""


def test_the_first_plan_is_read():
    plan = Plan.from_state(json.loads(FIRST_PLAN))
    assert plan.features == ["a", "b"]
    assert plan.select == "readable"
    assert Plan.from_state(json.loads(json.dumps(plan.state()))) == plan


def refits_differ(monkeypatch):
    """Refits as another version would make them: near, but not the same."""
    refit = select_step.refit

    def shifted(*args):
        model = refit(*args)
        pipeline_of(model).named_steps["model"].intercept_ += 0.5
        return model

    monkeypatch.setattr(select_step, "refit", shifted)


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(160, 2)), columns=["a", "b"])
    frame["y"] = frame.a + rng.normal(size=160)
    return run(frame, "y", learners=["least squares", "tree"], cv=5)


def again(study):
    found = Study.load(study.name, hold=True)
    return found.finish(open_test=True)


def test_a_refit_that_differs_is_not_scored_and_the_record_holds(study, monkeypatch):
    refits_differ(monkeypatch)
    before = len(study.ledger.entries())
    later = again(study)
    assert len(later.ledger.entries()) == before
    assert later.opened.recorded
    assert not study.opened.recorded
    assert later.opened.look.replay
    for name, interval in study.opened.intervals.items():
        found = later.opened.intervals[name]
        assert (found.estimate, found.lower, found.upper, found.level) == (
            interval.estimate,
            interval.lower,
            interval.upper,
            interval.level,
        )
    assert later.opened.baseline == study.opened.baseline
    ours, theirs = study.opened.against_baseline, later.opened.against_baseline
    assert (ours.difference, ours.p_value, ours.code) == (theirs.difference, theirs.p_value, theirs.code)
    assert later.verdict() == study.verdict()
    assert "has not been scored" in later.opened.notes[-1]
    assert pictures_of(later.opened) == {}
    assert "has not been scored" in render(later)


def test_the_same_refit_is_read_as_before(study):
    later = again(study)
    assert not later.opened.recorded
    assert later.opened.intervals == study.opened.intervals


def test_a_record_with_fewer_fields_is_enough(study, monkeypatch):
    refits_differ(monkeypatch)
    body = dict(study.ledger.entries("result", study.name)[-1].body)
    Ledger().append("result", {name: body[name] for name in ("selected", "fitted", "test")}, study.name)
    later = again(study)
    assert later.opened.recorded
    assert later.opened.against_baseline is None
    assert later.opened.intervals["rmse"].lower == 0.0
    assert "rmse" in later.verdict()


def test_the_selection_on_record_holds(study):
    body = dict(study.ledger.entries("result", study.name)[-1].body)
    other = next(name for name in ("least squares", "tree") if name != study.select().name)
    Ledger().append("result", {**body, "selected": other}, study.name)
    later = again(study)
    assert later.select().name == other
    assert later.select().rule == "recorded"
    assert study.select().name in later.select().why
    assert later.opened.recorded
