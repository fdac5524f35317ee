"""`parallel` gives what a loop gives: same order, same errors, same bits."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from queue import SimpleQueue

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from assay.neural import NeuralNetworkRegressor
from assay.numerics import threads
from assay.numerics.threads import SMALL_WORK, cores, halted, one_blas_thread, parallel, workers
from assay.trees import GradientBoostingRegressor

LONG = 600.0
"""Seconds after which something hangs for certain."""


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_blas_threads():
    """So that holding BLAS down to one thread is seen, also on a machine with one core."""
    parallel(abs, [1])  # loads both BLAS copies
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.parametrize(
    ("n_jobs", "expected"), [(None, 1), (1, 1), (3, 3), (-1, cores()), (-2, max(1, cores() - 1)), (-1000, 1)]
)
def test_n_jobs_means_what_it_means_elsewhere(n_jobs, expected):
    assert workers(n_jobs) == expected


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 4, -1])
def test_order_is_kept_whoever_finishes_first(n_jobs):
    later = threading.Event()

    def first_is_last(k):
        if k == 7 or workers(n_jobs) == 1:
            later.set()
        elif k == 0:
            later.wait(LONG)
        return k * k

    assert parallel(first_is_last, iter(range(8)), n_jobs=n_jobs) == [k * k for k in range(8)]
    assert later.is_set()


def test_nothing_to_do():
    assert parallel(abs, [], n_jobs=2) == []


def test_tasks_really_run_at_the_same_time():
    meet = threading.Barrier(2, timeout=LONG)
    parallel(lambda _: meet.wait(), range(2), n_jobs=2)  # a serial loop would break the barrier


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_first_error_reaches_the_caller(n_jobs):
    def fail(k):
        if k:
            raise KeyError(k)

    with pytest.raises(KeyError, match="1"):
        parallel(fail, range(4), n_jobs=n_jobs)
    assert blas_threads() == {2}
    assert parallel(abs, [-1, -2], n_jobs=n_jobs) == [1, 2]


def test_no_task_outlives_an_error():
    """A task left running would write into arrays the caller has given up, with BLAS let loose."""
    started, finished = threading.Event(), threading.Event()

    def task(k):
        if k == 0:
            started.wait(LONG)
            raise KeyError(k)
        started.set()
        sum(range(5_000_000))  # whoever did not wait would be far away
        finished.set()

    with pytest.raises(KeyError):
        parallel(task, range(2), n_jobs=2)
    assert finished.is_set()


def test_a_nested_call_runs_serially_in_its_own_thread():
    def inner(_):
        return threading.get_ident()

    def outer(_):
        both.wait()
        return threading.get_ident(), parallel(inner, range(3), n_jobs=2)

    both = threading.Barrier(2, timeout=LONG)
    found = parallel(outer, range(2), n_jobs=2)
    assert len({own for own, _ in found}) == 2
    for own, nested in found:
        assert nested == [own] * 3


def test_small_work_stays_in_the_calling_thread():
    here = threading.get_ident()
    seen = parallel(lambda _: threading.get_ident(), range(4), n_jobs=2, work=SMALL_WORK - 1)
    assert set(seen) == {here}
    both = threading.Barrier(2, timeout=LONG)
    seen = parallel(lambda _: both.wait() < 2 and threading.get_ident(), range(2), n_jobs=2, work=SMALL_WORK)
    assert len(set(seen)) == 2
    assert here in seen


@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
@pytest.mark.parametrize("work", [0, float("inf")])
def test_blas_runs_on_one_thread_inside_tasks_and_is_restored(n_jobs, work):
    assert blas_threads() == {2}
    assert parallel(lambda _: blas_threads(), range(3), n_jobs=n_jobs, work=work) == [{1}] * 3
    assert blas_threads() == {2}


def test_blas_is_restored_when_blocks_nest():
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_blas_stays_down_until_the_last_of_overlapping_threads_leaves():
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    seen = {}

    def first():
        with one_blas_thread():
            first_in.set()
            second_in.wait(LONG)
        first_out.set()

    def second():
        first_in.wait(LONG)
        with one_blas_thread():
            second_in.set()
            first_out.wait(LONG)
            seen["while one is left"] = blas_threads()

    running = [threading.Thread(target=work) for work in (first, second)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(LONG)
    assert seen == {"while one is left": {1}}
    assert blas_threads() == {2}


def test_blas_is_held_down_whichever_thread_asks():
    """threadpoolctl gives OpenBLAS to the first thread that sets it; a web server's threads must not lose."""
    with one_blas_thread():
        pass
    seen = []

    def caller():
        seen.append(parallel(lambda _: blas_threads(), range(2), n_jobs=2))
        seen.append(blas_threads())

    thread = threading.Thread(target=caller)
    thread.start()
    thread.join(LONG)
    assert seen == [[{1}, {1}], {2}]


def test_bits_do_not_depend_on_n_jobs():
    A = np.random.default_rng(0).normal(size=(6, 300, 301))

    def product(k):
        return A[k].T @ A[k]

    reference = parallel(product, range(6))
    for n_jobs in (1, 2, 3, -1):
        for a, b in zip(reference, parallel(product, range(6), n_jobs=n_jobs), strict=True):
            assert a.tobytes() == b.tobytes()


def test_several_threads_may_call_at_once():
    answers = {}

    def caller(name):
        answers[name] = parallel(lambda k: (name, k), range(20), n_jobs=2)

    running = [threading.Thread(target=caller, args=(name,)) for name in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(LONG)
    assert answers == {name: [(name, k) for k in range(20)] for name in range(4)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own():
    assert parallel(abs, [-1, -2], n_jobs=2) == [1, 2]  # the parent's pool has threads now
    assert threads._pool
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # the child must not return into pytest, whatever happens
        try:
            good = parallel(abs, [-1, -2, -3], n_jobs=2) == [1, 2, 3]
            os.write(writing, b"y" if good else b"n")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        ready, _, _ = select.select([answer], [], [], LONG)
        said = answer.read(1) if ready else b"it hangs"
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert said == b"y"


def test_a_long_task_sees_that_nobody_waits_for_it():
    ended, started, pause = [], threading.Event(), threading.Event()

    def task(k):
        if k == 0:
            started.wait(LONG)  # a task that has not begun is not waited for
            raise ValueError("no")
        started.set()
        for _ in range(100_000):  # not for ever, if nobody tells it
            if halted():
                break
            pause.wait(0.001)
        ended.append(halted())

    with pytest.raises(ValueError, match="no"):
        parallel(task, range(2), n_jobs=2)
    assert ended == [True]
    assert not halted()
    assert parallel(lambda k: halted(), range(2), n_jobs=2) == [False, False]


@pytest.fixture
def busy_pool(monkeypatch):
    """A pool whose threads have something else to do until the function that this gives is called."""
    release, serve = threading.Event(), threads._serve

    def busy(queue):
        release.wait(LONG)
        serve(queue)

    def end():
        release.set()
        all_of_them = threading.Barrier(len(threads._pool) + 1, timeout=LONG)
        for _ in threads._pool:
            threads._queue.put(all_of_them.wait)
        all_of_them.wait()
        return len(threads._pool)

    monkeypatch.setattr(threads, "_pool", [])
    monkeypatch.setattr(threads, "_queue", SimpleQueue())
    monkeypatch.setattr(threads, "_serve", busy)
    yield end
    end()


def test_the_caller_does_what_a_busy_pool_does_not(busy_pool):
    here = threading.get_ident()
    assert parallel(lambda _: threading.get_ident(), range(5), n_jobs=3) == [here] * 5
    with pytest.raises(KeyError, match="3"):
        parallel({0: 0, 1: 1, 2: 2}.__getitem__, range(5), n_jobs=3)
    assert busy_pool() == 2
    assert blas_threads() == {2}


@pytest.mark.parametrize("family", ["trees", "neural"])
def test_a_fit_leaves_blas_as_it_was_also_where_the_pool_is_busy(busy_pool, family, monkeypatch):
    X = np.random.default_rng(0).normal(size=(600, 4))
    if family == "trees":
        monkeypatch.setattr("assay.trees._boost.SHARED_WORK", 0)
        monkeypatch.setattr("assay.trees._boost.SHARED_CELLS", 0)
        GradientBoostingRegressor(n_estimators=3, n_jobs=2).fit(X, X[:, 0])
    else:
        monkeypatch.setattr("assay.neural.training.WORTH", 0)
        NeuralNetworkRegressor((8,), max_epochs=2, random_state=0, n_jobs=2).fit(X, X[:, 0])
    assert busy_pool() > 0  # now its threads come to what the fit has asked them for
    assert blas_threads() == {2}


def test_the_lowest_of_several_errors_is_raised():
    both = threading.Barrier(2, timeout=LONG)

    def fail(k):
        both.wait()
        raise KeyError(k)

    for _ in range(20):
        with pytest.raises(KeyError, match="0"):
            parallel(fail, range(2), n_jobs=2)


def test_a_task_in_the_calling_thread_leaves_no_trace_there():
    def task(k):
        if k == 3:
            raise KeyError(k)

    with pytest.raises(KeyError):
        parallel(task, range(4), n_jobs=2)
    assert not halted()
    both = threading.Barrier(2, timeout=LONG)
    parallel(lambda _: both.wait(), range(2), n_jobs=2)  # it is not taken for a task itself


# Python drops an exception that a signal raises while it collects garbage, and pytest reports it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that interrupts")
def test_an_interrupt_at_any_moment_leaves_nothing_behind():
    armed, late, returned = False, [], False

    def interrupt(*_):
        if armed:
            raise KeyboardInterrupt

    def task(_):
        late.extend([True] * returned)
        _spin(100)

    def several():
        parallel(task, range(6), n_jobs=3)

    def blas_alone():
        with one_blas_thread():
            pass

    met, random = 0, np.random.default_rng(0)
    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(600):
            returned = False
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 5e-4))
                armed = True
                for _ in range(10_000):
                    (several if k % 2 else blas_alone)()
            except KeyboardInterrupt:
                met += 1
            finally:
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
            returned = True
            assert blas_threads() == {2}
            assert not halted()
    finally:
        signal.signal(signal.SIGALRM, usual)
    assert met > 300
    assert not late
    both = threading.Barrier(3, timeout=LONG)
    parallel(lambda _: both.wait(), range(3), n_jobs=3)  # the pool still works


def _spin(rounds):
    for _ in range(rounds):
        pass


@pytest.mark.parametrize("how", ["threading.Thread(target=call).start()", "atexit.register(call)"])
def test_the_end_of_the_interpreter_leaves_a_call_its_own_thread(how):
    lines = [
        "import atexit, threading, time",
        "from assay.numerics.threads import parallel",
        "main = threading.current_thread()",
        "def call():",
        "    while main.is_alive() and threading.current_thread() is not main: time.sleep(0.001)",
        "    print(parallel(abs, range(3), n_jobs=2))",
        how,
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=LONG)
    assert (done.stdout, done.stderr) == ("[0, 1, 2]\n", "")


def test_a_system_that_grants_no_thread_leaves_the_caller(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_pool", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert parallel(abs, range(3), n_jobs=3) == [0, 1, 2]
