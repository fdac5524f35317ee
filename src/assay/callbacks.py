"""scikit-learn's callbacks (1.9 and later): progress bars, scores after every round, early stops by one's own rule.

    model.set_callbacks(ProgressBar(), ScoringMonitor(scoring="r2")).fit(X, y)

A fit is a task, and the steps of its loop are its subtasks; callbacks are called where each begins and ends. Where
steps follow each other, the end of one offers a `fitted_estimator`, the model as if the fit had stopped there, which is
made only for callbacks that ask for it; and if `on_fit_task_end` returns True, the loop stops. Steps in threads, side
by side, offer no such model and cannot be stopped. Which estimator has which steps is a table in `docs/methods.md`.

Callbacks see a fit and, unless they stop it, never change its result. A `fit` whose loop runs in Python says

    task = fit_task(self, steps=B, attributes=lambda trees: {"nodes_": concatenate(trees)})
    for b in range(B):
        with task.step("round", lambda: trees) as step:
            ...
        if step.stop:
            break

and hands `task` down to where the loop is; without callbacks it does nothing. Every other `fit` is one task.

>>> import numpy as np
>>> from assay.trees import GradientBoostingRegressor
>>> class UntilGood:
...     def setup(self, estimator, context): ...
...     def teardown(self, estimator, context): ...
...     def on_fit_task_begin(self, estimator, context): ...
...     def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
...         return fitted_estimator.score(X, y) > 0.9
>>> X = np.random.default_rng(0).normal(size=(200, 3))
>>> model = GradientBoostingRegressor()
>>> if hasattr(model, "set_callbacks"):  # scikit-learn 1.9
...     model = model.set_callbacks(UntilGood())
>>> model.fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9
True
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import sklearn

from assay.progress import track

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # the one place that knows of versions without callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """What stands for scikit-learn's mixin."""

        @property
        def set_callbacks(self) -> Any:
            """Callbacks came with scikit-learn 1.9."""
            what = f"set_callbacks needs scikit-learn 1.9 or later, and {sklearn.__version__} is installed"
            raise AttributeError(f"{what}; upgrade scikit-learn")

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


__all__ = ["SILENT", "SupportsCallbacks", "Task", "fit_task", "side_by_side"]

Made = TypeVar("Made")


class Task:
    """A fit, or a step of one of its loops; without a context it is silent."""

    def __init__(self, estimator: Any = None, context: Any = None, data: Mapping[str, Any] | None = None) -> None:
        self.stop = False
        self._estimator, self._context, self._data = estimator, context, data or {}
        self._attributes: Callable[[Any], dict[str, Any]] | None = None
        self._begun = False

    def of(self, estimator: Any) -> bool:
        """Whether this is a task of that very object; a copy made during a fit has fits of its own."""
        return self._estimator is estimator

    def __reduce__(self) -> Any:
        return Task, ()  # a model that a callback saves takes no fit along

    def begin(self) -> None:
        """Tell the callbacks that it begins."""
        self._begun = True
        self._context.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def begin_loop(self, steps: int, attributes: Callable[[Any], dict[str, Any]] | None, sequential: bool) -> None:
        """Begin the fit, now that it is known what its steps are."""
        if self._context is not None:
            self._context.max_subtasks, self._context.sequential_subtasks = steps, sequential
            self._attributes = attributes
            self.begin()

    def end(self, attributes: Callable[[], dict[str, Any]] | None = None) -> None:
        """Tell the callbacks that it has ended, and remember whether one of them says stop."""
        if not self._begun:  # a fit that has turned out to need no loop
            self._context.max_subtasks = 0
            self.begin()
        given = {**self._data, "reconstruction_attributes": attributes}
        self.stop = bool(self._context.call_on_fit_task_end(estimator=self._estimator, **given))

    @contextmanager
    def step(
        self, name: str, state: Callable[[], Any] | None = None, *, number: int | None = None, steps: int = 0
    ) -> Iterator[Task]:
        """A subtask around a block; it ends unless the block raises.

        | parameter | default | meaning                                                                             |
        |-----------|---------|-------------------------------------------------------------------------------------|
        | name      |         | what callbacks show                                                                 |
        | state     | None    | what `attributes` of `fit_task` makes the model of at the end; None: there is none  |
        | number    | None    | its number among steps that run side by side                                        |
        | steps     | 0       | how many steps it has itself                                                        |
        """
        if self._context is None:
            yield self
            return
        context = self._context.subcontext(task_name=name, task_id=number, max_subtasks=steps)
        task = Task(self._estimator, context, self._data)
        make = task._attributes = self._attributes
        task.begin()
        yield task
        task.end(None if make is None or state is None else lambda: make(state()))


SILENT = Task()


def fit_task(
    estimator: Any,
    steps: int,
    attributes: Callable[[Any], dict[str, Any]] | None = None,
    *,
    sequential: bool = True,
) -> Task:
    """The fit that is under way, which is about to begin a loop; silent where the estimator has no callbacks.

    | parameter  | default | meaning                                                                           |
    |------------|---------|-----------------------------------------------------------------------------------|
    | estimator  |         | the estimator that is fitted                                                      |
    | steps      |         | how many steps there are at most                                                  |
    | attributes | None    | from the state at the end of a step, the fitted attributes as if the fit ended there |
    | sequential | True    | False: steps run side by side                                                     |
    """
    task: Task = _under_way(estimator) or SILENT
    task.begin_loop(steps, attributes, sequential)
    return task


def side_by_side(
    function: Callable[[int], Made], total: int, label: str, *, task: Task = SILENT, step: str = ""
) -> Callable[[int], Made]:
    """A function of 0, ..., total - 1 that tells progress and callbacks of each call, in whichever thread.

    >>> double = side_by_side(lambda k: 2 * k, 3, "numbers")
    >>> [double(k) for k in range(3)]
    [0, 2, 4]
    """
    ticks, lock = track(range(total), label), threading.Lock()
    next(ticks, None)

    def run(k: int) -> Made:
        with task.step(step, number=k):
            made = function(k)
        with lock:
            next(ticks, None)
        return made

    return run


class SupportsCallbacks(CallbackSupportMixin):
    """Mixin of estimators: their `fit` is a task. `fit_steps` is what a step of its loop is called, "" for none."""

    fit_steps: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("fit", "fit_predict"):
            if name in vars(cls):
                setattr(cls, name, _FitMethod(vars(cls)[name]))


class _FitMethod:
    """A method that is a task where callbacks are set, and the plain method where not.

    A descriptor and no decorator, so that without callbacks no frame is added: warnings point at the caller.
    """

    def __init__(self, method: Any) -> None:
        self._method = method
        functools.update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        method = self._method.__get__(estimator, owner)
        if estimator is None or "_skl_callbacks" not in vars(estimator) or _under_way(estimator) is not None:
            return method

        @functools.wraps(method)
        def fit(*args: Any, **options: Any) -> Any:
            return _fit_as_task(estimator, method, args, options)

        return fit


def _under_way(estimator: Any) -> Task | None:
    """The fit of this estimator that has not ended, if callbacks follow it."""
    task: Task | None = vars(estimator).get("_fit_task")
    return task if task is not None and task.of(estimator) else None


@with_callbacks  # which tears them down, whatever happens
def _fit_as_task(estimator: Any, method: Any, args: Any, options: Any) -> Any:
    given = inspect.signature(method).bind(*args, **options).arguments
    weights = given.get("sample_weight")
    data = {"X": given.get("X"), "y": given.get("y"), "metadata": None}
    if weights is not None:
        data["metadata"] = {"sample_weight": weights}
    loops = bool(estimator.fit_steps)
    context = estimator._init_callback_context(max_subtasks=None if loops else 0)
    estimator._fit_task = task = Task(estimator, context, data)
    try:
        if not loops:
            task.begin()
        made = method(*args, **options)
        task.end(dict)
    finally:
        del estimator._fit_task
    return made
