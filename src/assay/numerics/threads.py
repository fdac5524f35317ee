"""One shared thread pool for nogil kernels and one-threaded BLAS calls.

A task always runs with BLAS held to one thread, whether the pool runs it or the caller does, so
`n_jobs` changes how long the answer takes and never the answer. Work below a threshold stays in
the calling thread: waking threads costs more than a small task. A task that itself calls
`parallel` runs its parts one after another; pools never nest. The caller works as well and never
waits for a thread that has not begun, so a busy pool, or none at the end of the interpreter, makes a
call slower and nothing else, and no task begins or goes on after the call has returned.

Ctrl-C may come at any moment. Conditions, events and executors take their locks in Python code and keep
them for ever if it comes there, so threads meet only at locks and queues that are written in C.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

import threadpoolctl

__all__ = ["SMALL_WORK", "cores", "halted", "one_blas_thread", "one_openmp_thread", "parallel", "workers"]

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

SMALL_WORK = 200_000
"""Below this many elementary operations (about a tenth of a millisecond) a loop stays serial."""

_inside = threading.local()
_pool_lock = threading.Lock()
_pool: list[threading.Thread] = []
_queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
_blas_lock = threading.Lock()
_blas_holders: set[object] = set()
_blas_before: list[int] | None = None


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
    return bool(stop)


def _share(function: Callable[[Item], Outcome], tasks: list[Item], threads: int) -> list[Outcome]:
    """Run the tasks in this thread and in those of the pool; each takes the next one that nobody has begun."""
    todo, stop = deque(enumerate(tasks)), list[bool]()
    outcomes: dict[int, Outcome] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        _inside.task, _inside.stop = True, stop
        try:
            while todo and not stop:
                try:
                    k, task = todo.popleft()
                except IndexError:  # another thread was quicker
                    break
                try:
                    outcomes[k] = function(task)
                except BaseException as error:  # it is raised in the caller
                    errors[k] = error
                    stop.append(True)
        finally:
            _inside.task, _inside.stop = False, None

    def help_out(helper: Any) -> None:
        with helper:
            if todo and not stop:  # or the call may have returned already
                _keep_to_one_blas_thread()
                work()

    helpers = [threading.Lock() for _ in range(threads - 1)]  # each is held while a thread of the pool works
    try:
        for helper in helpers:
            _submit(partial(help_out, helper), threads - 1)
        work()
        _wait(helpers)
    finally:
        # After an interrupt: a task that outlived the call would write into arrays that its caller has given up.
        stop.append(True)
        _wait(helpers)
    if errors:
        raise errors.pop(min(errors))
    return [outcomes[k] for k in range(len(tasks))]


def _submit(work: Callable[[], None], threads: int) -> None:
    """Let one of so many threads of the pool call `work`, or nobody where there are none to be had."""
    with _pool_lock:
        while len(_pool) < threads:
            thread = threading.Thread(target=_serve, args=(_queue,), name=f"assay_{len(_pool)}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends, or the system grants no more
                break
            _pool.append(thread)
        if _pool:
            _queue.put(work)


def _serve(queue: SimpleQueue[Callable[[], None]]) -> None:
    """What a thread of the pool does all its life."""
    while True:
        queue.get()()


def _keep_to_one_blas_thread() -> None:
    """In a thread of the pool: some builds of BLAS count threads per calling thread, so each asks once."""
    if not getattr(_inside, "limited", False):
        with _blas_lock:
            _set_blas([1] * len(_blas()))
        _inside.limited = True


def _wait(helpers: list[Any]) -> None:
    for helper in helpers:
        with helper:
            pass


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread; blocks may nest and overlap across threads, the last one out lets go."""
    holder = object()
    try:
        _hold_blas(holder)
        yield
    finally:
        try:
            _release_blas(holder)
        except BaseException:  # an interrupt: what it left undone is done now
            _release_blas(holder)
            raise


def _hold_blas(holder: object) -> None:
    global _blas_before
    with _blas_lock:
        _blas_holders.add(holder)
        if _blas_before is None:
            _blas_before = [library.num_threads for library in _blas()]
            _set_blas([1] * len(_blas_before))


def _release_blas(holder: object) -> None:
    global _blas_before
    with _blas_lock:
        _blas_holders.discard(holder)
        if not _blas_holders and _blas_before is not None:
            _set_blas(_blas_before)
            _blas_before = None


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Hold the OpenMP regions that this thread enters to one thread: on a busy machine they wait for each other."""
    with _openmp().limit(limits=1, user_api="openmp"):
        yield


@cache
def _openmp() -> Any:
    import sklearn.utils  # noqa: F401  (loaded for its OpenMP)

    return threadpoolctl.ThreadpoolController().select(user_api="openmp")


def _set_blas(threads: list[int]) -> None:
    """Set the threads of each copy of BLAS, whichever thread asked threadpoolctl last.

    Since version 3.8 the first thread to set OpenBLAS keeps that right until it gives it back, and what
    other threads ask for is ignored without a word. We count holders across threads ourselves.
    """
    controller = getattr(threadpoolctl, "OpenBLASController", None)
    give_back = getattr(controller, "clear_controlling_thread", lambda force: None)
    give_back(force=True)
    try:
        for library, count in zip(_blas(), threads, strict=True):
            library.set_num_threads(count)
    finally:
        give_back(force=True)


@cache
def _blas() -> list[Any]:
    # Looking through the loaded libraries takes milliseconds, so it is done once. Both BLAS
    # copies (numpy's and scipy's) must be loaded before the look.
    import numpy.linalg  # noqa: F401  (loaded for its BLAS)
    import scipy.linalg  # noqa: F401  (likewise)

    return list(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


def _forget_pool() -> None:
    """A forked child inherits the pool but not its threads; it starts with none."""
    global _inside, _pool_lock, _queue, _blas_lock, _blas_before
    if _blas_before is not None:  # held by a thread that does not exist here
        _set_blas(_blas_before)
    _inside, _queue = threading.local(), SimpleQueue()
    _pool.clear()
    _blas_holders.clear()
    _pool_lock, _blas_lock, _blas_before = threading.Lock(), threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
