"""scikit-learn's callbacks: every task that begins ends, what they are shown is true, and no result depends on them."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from assay.callbacks import SILENT
from assay.clustering import KMeans
from assay.errors import ConvergenceWarning, DataError
from assay.evaluation import cross_validate
from assay.latent import CategoricalHMM, GaussianHMM, GaussianMixture, MarkovChain
from assay.linear import LassoCV, LinearRegression
from assay.neural import NeuralNetworkClassifier, NeuralNetworkRegressor
from assay.state import from_state, to_state
from assay.trees import (
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tests.estimators import answer, classes, easy, every, wrappers

callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
pytestmark = pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")

METHODS = Path(__file__).parents[1] / "docs" / "methods.md"


class Recorder:
    """Writes down every call: the hook, the estimator, the context."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, Any]] = []

    def setup(self, estimator, context):
        self.calls.append(("setup", estimator, context))

    def teardown(self, estimator, context):
        self.calls.append(("teardown", estimator, context))

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(("begin", estimator, context))

    def on_fit_task_end(self, estimator, context):
        self.calls.append(("end", estimator, context))

    def hooks(self) -> list[str]:
        return [hook for hook, _, _ in self.calls]

    def contexts(self, hook: str) -> list[Any]:
        return [context for name, _, context in self.calls if name == hook]


class Shared(Recorder):
    """One that a pipeline or a search hands on to what is inside."""

    max_propagation_depth = None


class Watcher(Recorder):
    """Keeps the model that the end of each step offers."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[Any] = []

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        super().on_fit_task_end(estimator, context)
        self.models.append(fitted_estimator)
        self.X, self.y, self.metadata = X, y, metadata


class Saver:
    """Saves the model that the end of each step offers."""

    def __init__(self) -> None:
        self.files: list[bytes] = []
        self.states: list[Any] = []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.files.append(pickle.dumps(fitted_estimator))
        self.states.append(fields(fitted_estimator))


class StopAfter(Recorder):
    """Stops the loop after some steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def on_fit_task_end(self, estimator, context):
        super().on_fit_task_end(estimator, context)
        return context.task_id + 1 == self.steps


class Failing(Recorder):
    """Raises when the third task begins."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def on_fit_task_begin(self, estimator, context):
        super().on_fit_task_begin(estimator, context)
        if self.hooks().count("begin") == 3:
            raise self.error


def check_calls(calls: list[tuple[str, Any, Any]]) -> Any:
    """One fit, set up and torn down once, whose tasks begin once and end once, inside the task above; its root."""
    assert [hook for hook, _, _ in calls][:2] == ["setup", "begin"]
    assert [hook for hook, _, _ in calls][-2:] == ["end", "teardown"]
    assert {hook for hook, _, _ in calls[2:-2]} <= {"begin", "end"}
    open_tasks: list[Any] = []
    for hook, _, context in calls[1:-1]:
        if hook == "begin":
            assert context.parent is None or context.parent in open_tasks
            open_tasks.append(context)
        else:
            open_tasks.remove(context)  # raises where it was not begun
            assert not any(task.parent is context for task in open_tasks)
    assert open_tasks == []
    return calls[1][2]


def fields(estimator: Any) -> tuple[Any, list[np.ndarray]]:
    """The parameters and the state, as a model file holds them; estimators of scikit-learn by what they print."""
    return to_state(estimator, repr)


def assert_same_fit(one: Any, other: Any) -> None:
    (tree, arrays), (tree_too, arrays_too) = fields(one), fields(other)
    assert tree == tree_too
    for array, array_too in zip(arrays, arrays_too, strict=True):
        assert_array_equal(array, array_too)


def left_over(estimator: Any) -> list[str]:
    """What a fit with callbacks must not leave behind."""
    return [name for name in vars(estimator) if name == "_fit_task" or name.startswith("_callback")]


def table() -> dict[str, tuple[str, str]]:
    """Of docs/methods.md: the step of each estimator whose fit has steps, and how they run."""
    text = METHODS.read_text(encoding="utf-8").split("## Callbacks")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {name: (step.strip(), how.strip()) for names, step, how in rows for name in re.findall(r"`(\w+)`", names)}


# What is called, and in which order.


@every()
def test_every_task_that_begins_ends_and_nothing_of_the_fit_changes(estimator, monkeypatch):
    monkeypatch.setattr("assay.margin._dual.perf_counter", lambda: 0.0)  # traces of support vectors hold seconds
    X, y = easy(estimator)
    recorder = Recorder()
    watched = clone(estimator).set_callbacks(recorder).fit(X, y)
    root = check_calls(recorder.calls)
    assert {id(one) for _, one, _ in recorder.calls} == {id(watched)}
    assert_same_fit(clone(estimator).fit(X, y), watched)
    assert left_over(watched) == []
    steps = [context for context in recorder.contexts("begin") if context.parent is root]
    if not watched.fit_steps:
        assert root.max_subtasks == 0
        assert steps == []
        return
    assert 0 < len(steps) <= root.max_subtasks
    assert {context.task_name for context in steps} == {watched.fit_steps}
    assert sorted(context.task_id for context in steps) == list(range(len(steps)))
    assert root.sequential_subtasks == (table()[type(estimator).__name__][1] == "one after another")


def test_the_table_in_the_documentation_is_complete():
    assert {name: step for name, (step, _) in table().items()} == {
        kind.__name__: kind.fit_steps for kind in classes() if kind.fit_steps
    }


@pytest.mark.parametrize("estimator", wrappers(), ids=lambda one: type(one).__name__)
def test_estimators_around_others_are_one_task(estimator):
    X, y = easy(estimator)
    recorder = Recorder()
    watched = clone(estimator).set_callbacks(recorder).fit(X, y)
    assert check_calls(recorder.calls).max_subtasks == 0
    assert_array_equal(answer(watched, X), answer(clone(estimator).fit(X, y), X))


def test_a_wrapper_takes_estimators_with_callbacks_of_their_own():
    X, y = easy(LinearRegression())
    recorder = Recorder()
    inside = GradientBoostingRegressor(n_estimators=3).set_callbacks(recorder)
    bag = BaggingRegressor(inside, n_estimators=2, random_state=0).fit(X, y)
    plain = BaggingRegressor(clone(inside).set_callbacks(), n_estimators=2, random_state=0).fit(X, y)
    assert recorder.hooks().count("setup") == recorder.hooks().count("teardown") == 2
    assert recorder.hooks().count("end") == 2 * (1 + 3)
    assert_array_equal(bag.predict(X), plain.predict(X))


def test_several_starts_are_tasks_around_their_iterations():
    X, y = easy(LinearRegression())
    for model, step in (
        (GaussianMixture(2, n_init=3, max_iter=4, tol=0, random_state=0), "EM iteration"),
        (NeuralNetworkRegressor((4,), n_starts=3, max_epochs=4, random_state=0), "epoch"),
    ):
        watcher = Watcher()
        model.set_callbacks(watcher).fit(X, y)
        root = check_calls(watcher.calls)
        starts = [context for context in watcher.contexts("begin") if context.parent is root]
        assert [context.task_name for context in starts] == ["start"] * 3
        assert root.max_subtasks == 3
        for start in starts:
            inside = [context for context in watcher.contexts("begin") if context.parent is start]
            assert [context.task_name for context in inside] == [step] * 4
            assert start.max_subtasks == 4
        # The end of the last start offers the best of all, which is what the fit keeps.
        assert_array_equal(answer(watcher.models[-2], X), answer(model, X))
        assert_array_equal(answer(watcher.models[-1], X), answer(model, X))


def test_rounds_chosen_by_folds_are_the_second_task():
    X, y = easy(LinearRegression())
    watcher = Watcher()
    model = GradientBoostingRegressor(n_estimators=10, early_stopping="cv", cv=2, min_samples_leaf=2)
    model.set_callbacks(watcher).fit(X, y)
    root = check_calls(watcher.calls)
    inner = [context for context in watcher.contexts("begin") if context.parent is root]
    assert [context.task_name for context in inner] == ["cross-validation", "rounds"]
    assert inner[1].max_subtasks == model.n_estimators_ == watcher.hooks().count("begin") - 3
    assert_array_equal(watcher.models[-2].predict(X), model.predict(X))


def test_a_warm_start_has_the_rounds_that_are_still_to_come():
    X, y = easy(LinearRegression())
    model = GradientBoostingRegressor(n_estimators=3, warm_start=True).fit(X, y)
    watcher = Watcher()
    model.set_params(n_estimators=5).set_callbacks(watcher).fit(X, y)
    assert check_calls(watcher.calls).max_subtasks == watcher.hooks().count("end") - 1 == 2
    whole = GradientBoostingRegressor(n_estimators=5).fit(X, y)
    assert_array_equal(model.predict(X), whole.predict(X))
    assert_array_equal(watcher.models[0].predict(X), GradientBoostingRegressor(n_estimators=4).fit(X, y).predict(X))


def test_sequences_have_iterations_or_none():
    recorder = Recorder()
    CategoricalHMM(2, random_state=0, max_iter=3, tol=0).set_callbacks(recorder).fit([list("aabbabab")])
    assert check_calls(recorder.calls).max_subtasks == recorder.hooks().count("end") - 1 == 3
    recorder = Recorder()
    CategoricalHMM(2).set_callbacks(recorder).fit([list("aabb")], states=[list("xxyy")])
    assert check_calls(recorder.calls).max_subtasks == 0  # nothing is hidden
    recorder = Recorder()
    MarkovChain().set_callbacks(recorder).fit([list("aabb")])
    assert check_calls(recorder.calls).max_subtasks == 0


def test_fit_and_predict_in_one_is_one_fit():
    X, _ = easy(LinearRegression())
    for model in (GaussianMixture(2, random_state=0), KMeans(2, random_state=0)):
        recorder = Recorder()
        labels = clone(model).set_callbacks(recorder).fit_predict(X)
        check_calls(recorder.calls)
        assert_array_equal(labels, model.fit_predict(X))


def test_a_subclass_that_fits_by_its_parent_is_one_fit():
    class Mine(GradientBoostingRegressor):
        def fit(self, X, y, sample_weight=None, groups=None):
            """Fit."""
            return super().fit(X, y, sample_weight, groups)

    X, y = easy(LinearRegression())
    recorder = Recorder()
    Mine(n_estimators=3).set_callbacks(recorder).fit(X, y)
    assert check_calls(recorder.calls).max_subtasks == 3


# What is offered, and when it stops.

SEQUENTIAL = [
    (GradientBoostingRegressor(loss="huber", subsample=0.7, random_state=0, min_samples_leaf=3), "n_estimators", 8),
    (GradientBoostingClassifier(random_state=0, min_samples_leaf=3), "n_estimators", 8),
    (GradientBoostingRegressor(early_stopping=True, min_samples_leaf=3, random_state=0), "n_estimators", 8),
    (NeuralNetworkRegressor((4,), random_state=0, batch_size=8), "max_epochs", 5),
    (NeuralNetworkClassifier((4,), early_stopping=True, random_state=0, learning_rate=0.1), "max_epochs", 5),
    (NeuralNetworkRegressor((4,), optimizer="gradient_descent", learning_rate=0.1, random_state=0), "max_epochs", 5),
    (GaussianMixture(2, random_state=0, tol=0), "max_iter", 5),
    (GaussianHMM(2, random_state=0, tol=0), "max_iter", 5),
]
sequential = pytest.mark.parametrize(("model", "steps", "most"), SEQUENTIAL, ids=lambda v: type(v).__name__[:30])


@sequential
def test_each_step_offers_the_model_of_so_many_steps(model, steps, most):
    X, y = easy(model)
    watcher = Watcher()
    fitted = clone(model).set_params(**{steps: most}).set_callbacks(watcher).fit(X, y)
    assert len(watcher.models) == most + 1
    for t, offered in enumerate(watcher.models[:-1], start=1):  # after the fit: they must not change any more
        alone = clone(model).set_params(**{steps: t}).fit(X, y)
        assert_array_equal(answer(offered, X), answer(alone, X), err_msg=f"{t} steps")
    assert_array_equal(answer(watcher.models[-1], X), answer(fitted, X))
    assert watcher.X is X
    assert watcher.y is y
    assert watcher.metadata is None


@sequential
def test_a_callback_stops_the_loop(model, steps, most, recwarn):
    X, y = easy(model)
    stop = StopAfter(3)
    stopped = clone(model).set_params(**{steps: most}).set_callbacks(stop).fit(X, y)
    check_calls(stop.calls)
    assert stop.hooks().count("end") == 3 + 1
    assert not [one for one in recwarn if issubclass(one.category, ConvergenceWarning)]
    alone = clone(model).set_params(**{steps: 3}).fit(X, y)
    assert_array_equal(answer(stopped, X), answer(alone, X))
    trace = getattr(stopped, "trace_", None)
    assert trace is None or (trace.message == "stopped by a callback" and not trace.converged)
    from_state(*fields(stopped), lambda *_: None)  # as sound as any other model


def test_a_stop_ends_a_start_or_all_of_them():
    X, y = easy(LinearRegression())

    class Stop(Recorder):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def on_fit_task_end(self, estimator, context):
            super().on_fit_task_end(estimator, context)
            return context.task_name == self.name

    for model, step in (
        (GaussianMixture(2, n_init=3, max_iter=4, tol=0, random_state=0), "EM iteration"),
        (NeuralNetworkRegressor((4,), n_starts=3, max_epochs=4, random_state=0), "epoch"),
    ):
        for name, starts, inner in (("start", 1, 4), (step, 3, 1)):
            stop = Stop(name)
            fitted = clone(model).set_callbacks(stop).fit(X, y)
            names = [context.task_name for context in stop.contexts("end")]
            assert (names.count("start"), names.count(step)) == (starts, starts * inner)
            assert len(fitted.starts_) == starts


def test_trees_side_by_side_cannot_be_stopped_and_offer_no_model():
    X, y = easy(LinearRegression())
    for n_jobs in (1, 2):
        stop, watcher = StopAfter(1), Watcher()
        forest = RandomForestRegressor(6, random_state=0, n_jobs=n_jobs).set_callbacks(stop, watcher).fit(X, y)
        check_calls(stop.calls)
        assert forest.nodes_.trees == 6
        assert watcher.models[:-1] == [None] * 6
        assert watcher.models[-1].predict(X) is not None


def test_a_model_that_nobody_asks_for_is_not_made(monkeypatch):
    X, y = easy(LinearRegression())
    asked = []
    make = GradientBoostingRegressor._attributes

    def counted(self, *args, **options):
        asked.append(1)
        return make(self, *args, **options)

    monkeypatch.setattr(GradientBoostingRegressor, "_attributes", counted)
    GradientBoostingRegressor(n_estimators=4).set_callbacks(Recorder()).fit(X, y)
    assert len(asked) == 1  # by the fit itself
    GradientBoostingRegressor(n_estimators=4).set_callbacks(Watcher()).fit(X, y)
    assert len(asked) == 1 + 1 + 4


def test_scores_after_every_round():
    X, y = easy(LinearRegression())
    w = np.linspace(1.0, 2.0, len(y))
    monitor = callback.ScoringMonitor(scoring="r2")
    model = GradientBoostingRegressor(n_estimators=4, min_samples_leaf=3)
    model.set_callbacks(monitor).fit(X, y, sample_weight=w)
    scores = {row["task_id_path"]: row["r2"] for row in monitor.get_logs().data}
    assert sorted(scores) == [(0,), (0, 0), (0, 1), (0, 2), (0, 3)]
    for t in range(4):
        alone = clone(model).set_callbacks().set_params(n_estimators=t + 1).fit(X, y, sample_weight=w)
        assert scores[0, t] == alone.score(X, y, sample_weight=w)
    assert scores[0,] == scores[0, 3]


# Errors and interrupts.


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingRegressor(n_estimators=5),
        NeuralNetworkRegressor((4,), max_epochs=5),
        GaussianMixture(2, tol=0, max_iter=5),
        RandomForestRegressor(5),
        RandomForestRegressor(5, n_jobs=2),
        LassoCV(alphas=5),
        KMeans(2, n_init=5),
    ],
    ids=lambda one: type(one).__name__,
)
def test_callbacks_are_torn_down_whatever_happens(model, error):
    X, y = easy(model)
    model = clone(model)
    failing = Failing(error)
    with pytest.raises(type(error)):
        model.set_callbacks(failing).fit(X, y)
    assert (failing.hooks().count("setup"), failing.hooks()[-1]) == (1, "teardown")
    assert failing.hooks().count("teardown") == 1
    assert left_over(model) == []
    recorder = Recorder()
    model.set_callbacks(recorder).fit(X, y)
    check_calls(recorder.calls)


def test_a_fit_that_is_refused_is_torn_down_too():
    recorder = Recorder()
    for model in (GradientBoostingRegressor(), LinearRegression(), GaussianMixture()):
        with pytest.raises(DataError):
            model.set_callbacks(recorder).fit([[np.inf], [1.0]], [1.0, 2.0])
        assert left_over(model) == []
    assert recorder.hooks().count("setup") == recorder.hooks().count("teardown") == 3


def test_a_failed_fit_leaves_an_earlier_one_whole():
    X, _ = easy(LinearRegression())
    model = GaussianMixture(2, random_state=0).fit(X)
    before = answer(model, X)
    with pytest.raises(ValueError, match="mine"):
        model.set_callbacks(Failing(ValueError("mine"))).fit(X[:20] + 1.0)
    assert_array_equal(answer(model, X), before)


def test_warnings_point_at_the_caller_without_callbacks():
    """No frame is added between the caller and `fit`."""
    X, _ = easy(LinearRegression())
    with pytest.warns(ConvergenceWarning) as caught:
        GaussianMixture(2, max_iter=1, tol=0, random_state=0).fit(X)
    assert caught[0].filename == __file__


# In company.


def test_two_fits_in_two_threads_do_not_see_each_other():
    X, y = easy(LinearRegression())
    both = threading.Barrier(2, timeout=60)

    class Meeting(Recorder):
        def on_fit_task_begin(self, estimator, context):
            super().on_fit_task_begin(estimator, context)
            if context.parent is None:
                both.wait()  # both fits are under way

    recorders = [Meeting(), Meeting()]
    models = [GradientBoostingRegressor(n_estimators=k) for k in (20, 30)]
    threads = [
        threading.Thread(target=model.set_callbacks(recorder).fit, args=(X, y))
        for model, recorder in zip(models, recorders, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model, recorder, rounds in zip(models, recorders, (20, 30), strict=True):
        assert check_calls(recorder.calls).max_subtasks == rounds
        assert recorder.hooks().count("begin") == rounds + 1
        assert all(one is model for _, one, _ in recorder.calls)


def test_a_pipeline_hands_its_callbacks_on():
    X, y = easy(LinearRegression())
    shared = Shared()
    pipe = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=3)).set_callbacks(shared)
    pipe.fit(X, y)
    root = check_calls(shared.calls)
    assert [context.estimator_name for context in shared.contexts("begin")] == (
        ["Pipeline", "StandardScaler"] + ["GradientBoostingRegressor"] * 4
    )
    inner = next(context for context in shared.contexts("end") if context.task_name == "round").parent
    assert inner.parent is root
    assert inner.source_estimator_name == "Pipeline"
    assert inner.max_subtasks == 3
    assert "_skl_callbacks" not in vars(pipe[-1])
    assert left_over(pipe[-1]) == []


def test_a_search_hands_its_callbacks_on_to_every_fit():
    X, y = easy(LinearRegression())
    shared = Shared()
    search = GridSearchCV(GradientBoostingRegressor(), {"n_estimators": [2, 3]}, cv=2).set_callbacks(shared)
    search.fit(X, y)
    check_calls(shared.calls)
    rounds = [context for context in shared.contexts("end") if context.task_name == "round"]
    assert len(rounds) == 2 * (2 + 3) + search.best_params_["n_estimators"]
    plain = GridSearchCV(GradientBoostingRegressor(), {"n_estimators": [2, 3]}, cv=2).fit(X, y)
    assert_array_equal(search.predict(X), plain.predict(X))


def test_a_progress_bar_shows_the_fits_inside(capsys):
    pytest.importorskip("rich")
    X, y = easy(LinearRegression())
    bar = callback.ProgressBar(max_propagation_depth=None)
    make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=3)).set_callbacks(bar).fit(X, y)
    shown = capsys.readouterr().out
    assert "Pipeline - fit-final-estimator | GradientBoostingRegressor - fit #1" in shown
    search = GridSearchCV(LassoCV(alphas=5), {"cv": [2, 3]}, cv=2)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X, y)
    shown = capsys.readouterr().out
    assert shown.count("LassoCV - fit") == 2 * 2 + 1
    assert "GridSearchCV - fit" in shown
    RandomForestClassifier(8, n_jobs=2).set_callbacks(callback.ProgressBar()).fit(X, y > 1)
    assert re.search(r"RandomForestClassifier - fit.*100%", capsys.readouterr().out)


def test_every_estimator_may_stand_in_a_pipeline_with_a_progress_bar():
    """scikit-learn warns of those that do not support callbacks, and warnings are errors here."""
    assert all(hasattr(kind, "set_callbacks") for kind in classes())


def test_our_own_validation_fits_clones_with_callbacks():
    X, y = easy(LinearRegression())
    recorder = Recorder()
    model = GradientBoostingRegressor(n_estimators=3)
    with_them = cross_validate(clone(model).set_callbacks(recorder), X, y, cv=2)
    plain = cross_validate(model, X, y, cv=2)
    assert recorder.hooks().count("setup") == recorder.hooks().count("teardown") >= 2
    assert_array_equal(with_them.fold_scores, plain.fold_scores)


# What is kept of a model.


def test_model_files_and_pickles_hold_the_model_alone():
    X, y = easy(LinearRegression())
    for model in (
        GradientBoostingRegressor(n_estimators=3, random_state=0),
        RandomForestRegressor(3, random_state=0),
    ):
        plain = clone(model).fit(X, y)
        watched = clone(model).set_callbacks(callback.ScoringMonitor(scoring="r2")).fit(X, y)
        assert_same_fit(plain, watched)
        again = from_state(*fields(watched), lambda *_: None)
        assert "_skl_callbacks" not in vars(again)
        assert_array_equal(again.predict(X), plain.predict(X))
        assert_array_equal(pickle.loads(pickle.dumps(watched)).predict(X), plain.predict(X))


def test_a_callback_may_save_the_model_it_is_offered():
    X, y = easy(LinearRegression())
    for model, steps in (
        (GradientBoostingRegressor(), "n_estimators"),
        (GaussianMixture(2, tol=0, random_state=0), "max_iter"),
        (NeuralNetworkRegressor((4,), random_state=0), "max_epochs"),
    ):
        saver = Saver()
        clone(model).set_params(**{steps: 3}).set_callbacks(saver).fit(X, y)
        again, alone = pickle.loads(saver.files[1]), clone(model).set_params(**{steps: 2}).fit(X, y)
        assert_array_equal(answer(again, X), answer(alone, X))
        assert_array_equal(answer(from_state(*saver.states[1], lambda *_: None), X), answer(alone, X))
        again.set_callbacks(recorder := Recorder()).fit(X, y)  # a model like any other
        check_calls(recorder.calls)


def test_callbacks_can_be_taken_away():
    X, y = easy(LinearRegression())
    recorder = Recorder()
    GradientBoostingRegressor(n_estimators=2).set_callbacks(recorder).set_callbacks().fit(X, y)
    assert recorder.calls == []
    assert not SILENT.stop


OLD = """
import builtins, sys
ordinary = builtins.__import__
def without(name, globals=None, locals=None, fromlist=(), level=0):
    if name == "sklearn.callback" and (globals or {}).get("__name__") == "assay.callbacks":
        raise ImportError(name)
    return ordinary(name, globals, locals, fromlist, level)
builtins.__import__ = without

import numpy as np
from sklearn.pipeline import make_pipeline
from assay.latent import GaussianMixture
from assay.linear import LassoCV, PolynomialBasis
from assay.evaluation import Ensemble
X = np.random.default_rng(0).normal(size=(40, 3))
model = LassoCV(alphas=5)
assert make_pipeline(PolynomialBasis(), model).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9
GaussianMixture(2, random_state=0, max_iter=500).fit(X)
Ensemble([LassoCV(alphas=5)]).fit(X, X[:, 0])
assert not hasattr(model, "set_callbacks") and not hasattr(GaussianMixture(), "set_callbacks")
try:
    model.set_callbacks()
except AttributeError as error:
    print(error)
"""


def test_everything_else_works_without_scikit_learn_s_callbacks():
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", OLD], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"set_callbacks needs scikit-learn 1\.9 or later, and \S+ is installed; .*\n", ran.stdout)
