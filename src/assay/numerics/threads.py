"""One shared thread pool for nogil kernels and one-threaded BLAS calls.

A task always runs with BLAS held to one thread, whether the pool runs it or the caller does, so
`n_jobs` changes how long the answer takes and never the answer. Work below a threshold stays in
the calling thread: waking threads costs more than a small task. A task that itself calls
`parallel` runs its parts one after another; pools never nest. The caller works as well and never
waits for a thread that has not begun, so a busy pool makes a call slower and nothing else, and no
task begins or goes on after the call has returned.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import threadpoolctl

__all__ = ["SMALL_WORK", "cores", "halted", "one_blas_thread", "one_openmp_thread", "parallel", "workers"]

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

SMALL_WORK = 200_000
"""Below this many elementary operations (about a tenth of a millisecond) a loop stays serial."""

_inside = threading.local()
_pool_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
_blas_lock = threading.Lock()
_blas_holders = 0
_blas_limit: Any = None


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def workers(n_jobs: int | None) -> int:
    """The number of threads that `n_jobs` asks for: None means one, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    return max(1, cores() + 1 + n_jobs) if n_jobs < 0 else n_jobs


def parallel(
    function: Callable[[Item], Outcome],
    items: Iterable[Item],
    *,
    n_jobs: int | None = None,
    work: float = float("inf"),
) -> list[Outcome]:
    """`[function(item) for item in items]`, over threads where `work` operations make it worth while.

    >>> parallel(lambda k: k * k, range(4), n_jobs=2)
    [0, 1, 4, 9]
    """
    tasks = list(items)
    threads = min(workers(n_jobs), len(tasks))
    with one_blas_thread():
        if threads <= 1 or work < SMALL_WORK or getattr(_inside, "task", False):
            return [function(task) for task in tasks]
        return _share(function, tasks, threads)


def halted() -> bool:
    """Whether the call of `parallel` that runs this task has failed or was interrupted: a long task ends itself then.

    >>> halted()
    False
    """
    stop = getattr(_inside, "stop", None)
    return stop is not None and stop.is_set()


def _share(function: Callable[[Item], Outcome], tasks: list[Item], threads: int) -> list[Outcome]:
    """Run the tasks in this thread and in those of the pool; each takes the next one that nobody has begun."""
    todo, stop = deque(enumerate(tasks)), threading.Event()
    outcomes: dict[int, Outcome] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        _inside.task, _inside.stop = True, stop
        try:
            while todo and not stop.is_set():
                try:
                    k, task = todo.popleft()
                except IndexError:  # another thread was quicker
                    break
                try:
                    outcomes[k] = function(task)
                except BaseException as error:  # it is raised in the caller
                    errors[k] = error
                    stop.set()
        finally:
            _inside.task, _inside.stop = False, None

    helpers = [_pool(threads - 1).submit(_with_one_blas_thread, work) for _ in range(threads - 1)]
    try:
        work()
        wait([helper for helper in helpers if not helper.cancel()])
    finally:
        # After an interrupt: a task that outlived the call would write into arrays that its caller has given up.
        stop.set()
        wait([helper for helper in helpers if not helper.cancel()])
    if errors:
        raise errors.pop(min(errors))
    return [outcomes[k] for k in range(len(tasks))]


def _with_one_blas_thread(work: Callable[[], None]) -> None:
    """Run `work` in a thread of the pool: some builds of BLAS count threads per calling thread, so each asks once."""
    if not getattr(_inside, "limited", False):
        with _blas_lock:
            _hold_blas()
        _inside.limited = True
    work()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread; blocks may nest and overlap across threads, the last one out lets go."""
    global _blas_holders, _blas_limit
    with _blas_lock:
        _blas_holders += 1
        if _blas_holders == 1:
            _blas_limit = _hold_blas()
    try:
        yield
    finally:
        with _blas_lock:
            _blas_holders -= 1
            if _blas_holders == 0:
                _as_any_thread(_blas_limit.restore_original_limits)
                _blas_limit = None


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Hold the OpenMP regions that this thread enters to one thread: on a busy machine they wait for each other."""
    with _openmp().limit(limits=1, user_api="openmp"):
        yield


@cache
def _openmp() -> Any:
    import sklearn.utils  # noqa: F401  (loaded for its OpenMP)

    return threadpoolctl.ThreadpoolController().select(user_api="openmp")


def _hold_blas() -> Any:
    return _as_any_thread(lambda: _controller().limit(limits=1, user_api="blas"))


def _as_any_thread(setting: Callable[[], Outcome]) -> Outcome:
    """Call `setting`, whichever thread asked threadpoolctl last.

    Since version 3.8 the first thread to set OpenBLAS keeps that right until it gives it back, and what
    other threads ask for is ignored without a word. We count holders across threads ourselves.
    """
    give_back = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if give_back is None:
        return setting()
    give_back(force=True)
    try:
        return setting()
    finally:
        give_back(force=True)


@cache
def _controller() -> Any:
    # Looking through the loaded libraries takes milliseconds, so it is done once. Both BLAS
    # copies (numpy's and scipy's) must be loaded before the look.
    import numpy.linalg  # noqa: F401  (loaded for its BLAS)
    import scipy.linalg  # noqa: F401  (likewise)

    return threadpoolctl.ThreadpoolController().select(user_api="blas")


def _pool(threads: int) -> ThreadPoolExecutor:
    """The pool of so many threads."""
    with _pool_lock:
        if threads not in _pools:
            _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="assay")
        return _pools[threads]


def _forget_pools() -> None:
    """A forked child inherits the pool but not its threads; it starts with none."""
    global _inside, _pool_lock, _blas_lock, _blas_holders, _blas_limit
    if _blas_limit is not None:  # held by a thread that does not exist here
        _as_any_thread(_blas_limit.restore_original_limits)
    _inside = threading.local()
    _pools.clear()
    _pool_lock, _blas_lock = threading.Lock(), threading.Lock()
    _blas_holders, _blas_limit = 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
