"""Progress in a notebook: shown there and nowhere else, updated in place, removed at the end."""

import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from assay.errors import SealError
from assay.experiment.events import FoldDone, LearnerBegan, LearnerStopped, StepBegan, silent
from assay.experiment.notebook import NotebookProgress, usual_listener
from assay.experiment.study import run
from assay.numbers import with_limits
from assay.progress import audience


class ZMQInteractiveShell:
    """Stands for the shell of a kernel, which is known by its name."""


class TerminalInteractiveShell:
    pass


class Shell(ZMQInteractiveShell):
    """A vendor's own kernel."""


@pytest.fixture
def kernel(monkeypatch):
    """A function that pretends to run in IPython with a shell; what is displayed is listed."""
    displays: list[list[dict[str, str]]] = []

    def display(shown, *, raw, display_id):
        assert raw
        assert display_id is True
        displays.append([shown])
        return SimpleNamespace(update=lambda shown, raw: displays[-1].append(shown))

    def begin(shell):
        fake = ModuleType("IPython")
        fake.get_ipython = lambda: shell
        fake.display = SimpleNamespace(display=display)
        monkeypatch.setitem(sys.modules, "IPython", fake)
        monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
        monkeypatch.delitem(sys.modules, "assay.cli", raising=False)
        return displays

    return begin


@pytest.mark.parametrize(
    ("shell", "who"),
    [
        (ZMQInteractiveShell(), "notebook"),
        (Shell(), "notebook"),
        (TerminalInteractiveShell(), "silent"),  # the standard error of a test is a file
        (None, "silent"),
    ],
)
def test_one_place_decides(kernel, shell, who):
    kernel(shell)
    assert audience() == who
    assert isinstance(usual_listener(), NotebookProgress) == (who == "notebook")


def test_a_terminal_is_a_console_but_has_no_listener_of_its_own(kernel, monkeypatch):
    kernel(TerminalInteractiveShell())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert audience() == "console"
    assert usual_listener() is silent


def test_a_study_shows_one_line_that_grows_and_goes(kernel, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    displays = kernel(ZMQInteractiveShell())
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60.0) * 2 + np.tile([0.5, -0.5], 30)})
    run(frame, "y", learners=["least squares"], cv=5, test_size=0.25)
    assert len(displays) == 1
    shown = displays[0]
    shares = [float(value) for one in shown for value in re.findall(r'value="([\d.]+)"', one["text/html"])]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert any("least squares" in one["text/plain"] for one in shown)
    assert shown[-1] == {"text/html": "", "text/plain": ""}
    assert capsys.readouterr() == ("", "")


def test_the_line_goes_after_an_error_and_after_a_final_fit(kernel, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    displays = kernel(ZMQInteractiveShell())
    x, noise = np.random.default_rng(0).normal(size=(2, 60))
    frame = pd.DataFrame({"x": x, "y": x + noise})
    study = run(frame, "y", learners=["least squares"], cv=5, test_size=0.5, despite=["sample-size"])
    final = study.finalize(tmp_path)
    assert str(final).count("of the recipe fitted to the training rows") == 1
    with pytest.raises(SealError):
        run(frame, "y", learners=["least squares"], cv=5, test_size="none")
    assert [shown[-1] for shown in displays] == 3 * [{"text/html": "", "text/plain": ""}]


def test_a_given_listener_is_the_only_one(kernel, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    displays = kernel(ZMQInteractiveShell())
    heard = []
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60.0) * 2 + np.tile([0.5, -0.5], 30)})
    run(frame, "y", learners=["least squares"], cv=5, listener=heard.append)
    assert heard
    assert displays == []


def test_names_are_escaped_and_stopped_learners_count_as_done(kernel):
    displays = kernel(ZMQInteractiveShell())
    hears = NotebookProgress()
    hears(StepBegan("seal", "sealing"))
    hears(LearnerBegan("<b>", 1, 2))
    hears(FoldDone("<b>", 1, 4))
    hears(LearnerStopped("<b>", "too far behind"))
    hears(LearnerBegan("tree", 2, 2))
    texts = [one["text/plain"] for one in displays[0]]
    assert texts == [
        "sealing",
        "0% <b> (1 of 2)",
        "12% <b> (1 of 2), fold 1 of 4",
        "50% <b> stopped: too far behind",
        "50% tree (2 of 2)",
    ]
    assert "&lt;b&gt;" in displays[0][1]["text/html"]
    assert "<b>" not in displays[0][1]["text/html"]


def test_a_study_displays_figures_to_the_precision_of_their_intervals(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300)})
    frame["y"] = 5 * frame.x + rng.normal(size=300)
    study = run(frame, "y", learners=["least squares", "tree"], cv=5)
    page = study._repr_html_()
    assert "NaN" not in page
    assert study.leaderboard.stopped or "tree" in study.leaderboard.results
    for result in (study.leaderboard.results["least squares"].interval(0.95), study.test.intervals["rmse"]):
        shown = with_limits(result.estimate, result.lower, result.upper)
        assert f"<td>{shown[0]}</td>" in page
        assert f"<td>{shown[1]} to {shown[2]}" in page
    assert all(f"{note[1:].rstrip('.')}." in page for note in study.test.notes)
