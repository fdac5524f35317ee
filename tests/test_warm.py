"""Kernels compiled in advance: what families declare, what is left to do, and the processes that do it."""

from __future__ import annotations

import importlib

import pytest
from sklearn.linear_model import Ridge as ForeignRidge

from assay import warm
from assay.errors import ParameterError
from assay.experiment.panel import BASELINE, PANELS, learners
from assay.linear import Ridge
from assay.numerics import jit
from assay.numerics.warmup import Warmup
from assay.trees import RandomForestClassifier

TOYS = """
from assay.numerics.warmup import Warmup
def fails():
    raise ValueError("no such kernel")
def dies():
    import os
    os._exit(3)
nothing = lambda: None
WARMUPS = (Warmup("first", nothing), Warmup("second", fails), Warmup("third", dies), Warmup("fourth", nothing))
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """A family of toys, and a cache directory of its own; worker processes see both."""
    package = tmp_path / "assay_toys"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "warmups.py").write_text(TOYS)
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib, sys\nimport assay\n"
        "assay.__all__.append('toys')\n"
        "sys.modules['assay.toys'] = importlib.import_module('assay_toys')\n"
        "sys.modules['assay.toys.warmups'] = importlib.import_module('assay_toys.warmups')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    jit.cache_directory.cache_clear()
    yield [f"toys.{name}" for name in ("first", "second", "third", "fourth")]
    jit.cache_directory.cache_clear()


def test_every_learner_of_ours_in_the_panels_has_a_warm_up():
    for learner in learners():
        if learner.own and learner.name != BASELINE and not learner.members:  # an ensemble's are learners themselves
            for classes in (2, 3, 7) if learner.task == "classification" else (0,):
                for categories in {False, learner.encode == "native"}:
                    estimator = learner.make(0)
                    names = warm.names_for(estimator, classes=classes, categories=categories)
                    assert len(names) == 1 + categories, (learner.name, classes, categories)
    assert PANELS


def test_names_say_which_table_is_meant():
    forest = RandomForestClassifier()
    assert warm.names_for(forest, classes=2) == ["trees.RandomForestClassifier, 2 classes"]
    assert set(warm.names_for(forest, classes=5, categories=True)) == {
        "trees.RandomForestClassifier, 3 classes",
        "trees.RandomForestClassifier, 3 classes, categories",
    }
    assert warm.names_for(Ridge()) == ["linear.Ridge"]
    assert warm.names_for(ForeignRidge()) == []


def test_unknown_families_are_refused():
    with pytest.raises(ParameterError, match=r"unknown family 'oaks'; choose from .*trees"):
        warm.declared(["trees", "oaks"])


def test_every_family_with_kernels_declares_warm_ups():
    folders = {file.relative_to(jit.PACKAGE).parts[0] for file in jit._sources() if file.parent != jit.PACKAGE}
    shared = {"numerics", "resampling"}  # what they compile is compiled by those who call them
    assert folders - shared <= set(warm.families())


def test_declared_names_are_unique():
    for family in warm.families():
        names = [warmup.name for warmup in importlib.import_module(f"assay.{family}.warmups").WARMUPS]
        assert len(set(names)) == len(names)
        assert all(isinstance(warmup, Warmup) for warmup in warm.declared([family]).values())


def test_what_is_done_is_not_done_again(toys):
    assert warm.pending(toys) == toys
    outcomes = {}
    workers = warm.start(toys[:2], 1, outcomes.__setitem__)
    workers.wait()
    workers.close()
    assert outcomes == {"toys.first": None, "toys.second": "ValueError: no such kernel"}
    assert warm.pending(toys) == toys[1:]
    assert warm.start(toys[:1], 1, outcomes.__setitem__).wait() is None  # nothing to do


def test_a_worker_that_dies_keeps_nobody_waiting(toys):
    outcomes = {}
    workers = warm.start(toys, 1, outcomes.__setitem__)
    assert workers.wait_for_any([["toys.third", "toys.fourth"], ["toys.second"]]) == 1
    assert workers.wait_for_any([["toys.third", "toys.fourth"]]) == 0
    workers.close()
    assert outcomes["toys.third"] == "the worker process died"
    assert outcomes["toys.fourth"] is not None
    assert warm.pending(toys) == toys[1:]


def test_without_an_interpreter_to_start_nobody_waits(toys, monkeypatch):
    monkeypatch.setattr("sys.executable", "/no/such/python")
    outcomes = {}
    workers = warm.start(toys, 2, outcomes.__setitem__)
    workers.wait()
    workers.close()
    assert set(outcomes) == set(toys)
    assert None not in outcomes.values()


def test_closing_ends_workers_at_once(toys):
    workers = warm.start(toys, 2)
    workers.close()
    assert all(process.poll() is not None for process in workers._processes)
    assert not any(thread.is_alive() for thread in workers._threads)


def test_families_take_turns_and_estimators_stay_together():
    names = ["a.one", "a.one, 2 classes", "a.two", "b.one", "b.two"]
    assert warm._groups(names) == [["a.one", "a.one, 2 classes"], ["b.one"], ["a.two"], ["b.two"]]


def test_without_a_cache_nothing_is_pending(monkeypatch):
    monkeypatch.setattr(jit, "_writable", lambda place: False)
    jit.cache_directory.cache_clear()
    try:
        assert warm.pending(["linear.Ridge"]) == []
    finally:
        jit.cache_directory.cache_clear()
