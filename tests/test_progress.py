"""Silent until somebody listens, and then complete."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from assay import progress
from assay.numerics import jit
from assay.numerics.threads import parallel
from assay.progress import Notice, listen, track, watched


def test_yields_everything_and_prints_nothing(capsys):
    assert list(track(range(4), "work")) == [0, 1, 2, 3]
    assert capsys.readouterr() == ("", "")


def test_every_listener_hears_every_step():
    one, two = [], []
    with listen(lambda *told: one.append(told)), listen(lambda *told: two.append(told)):
        list(track("ab", "letters"))
    assert one == two == [("letters", 0, 2), ("letters", 1, 2), ("letters", 2, 2)]


def test_an_iterator_has_no_total_unless_told():
    heard = []
    with listen(lambda *told: heard.append(told)):
        list(track(iter("a"), "unknown"))
        list(track(iter("a"), "known", total=1))
    assert heard == [("unknown", 0, None), ("unknown", 1, None), ("known", 0, 1), ("known", 1, 1)]


def test_a_step_is_told_after_its_work_is_done():
    events = []
    with listen(lambda label, done, total: events.append(done)):
        for item in track("ab", "letters"):
            events.append(item)
    assert events == [0, "a", 1, "b", 2]


def test_listening_ends_with_its_block_also_after_an_error():
    heard = []
    with pytest.raises(KeyError), listen(lambda *told: heard.append(told)):
        raise KeyError
    list(track("ab", "letters"))
    assert heard == []


def test_pool_threads_older_than_the_listener_reach_it():
    parallel(abs, [1, 2], n_jobs=2)
    heard = []
    with listen(lambda label, done, total: heard.append(label)):
        parallel(lambda k: list(track("a", str(k))), range(2), n_jobs=2)
    assert sorted(heard) == ["0", "0", "1", "1"]


# A notice to whoever waits.


class Clock:
    """Time that passes only when a test says so; it stands in for `time` and for the timers of `threading`."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def monotonic(self):
        return self.now

    def Timer(self, after, call):  # noqa: N802  (the name it has in threading)
        timer = SimpleNamespace(due=self.now + after, call=call)
        timer.start = lambda: self.timers.append(timer)
        timer.cancel = lambda: timer in self.timers and self.timers.remove(timer)
        return timer

    def passes(self, seconds):
        self.now += seconds
        for timer in [timer for timer in self.timers if timer.due <= self.now]:
            self.timers.remove(timer)
            timer.call()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(progress, "threading", clock)
    return clock


def test_a_notice_is_written_once_and_only_after_a_while(clock, capsys):
    notice = Notice("a moment", after=2.0, watched=lambda: True)
    for k in range(3):
        notice.begin()
        notice.begin()  # a piece within the piece
        clock.passes(1.9)
        assert capsys.readouterr() == ("", "" if k == 0 else "a moment\n" if k == 1 else "")
        clock.passes(0.05)
        notice.end()
        notice.end()
    assert capsys.readouterr() == ("", "")


def test_short_pieces_add_up_to_a_while(clock, capsys):
    notice = Notice("a moment", after=5.0, watched=lambda: True)
    for seconds, heard in ((3.0, ""), (1.9, ""), (0.2, "a moment\n"), (9.0, "")):
        notice.begin()
        clock.passes(seconds)
        notice.end()
        clock.passes(100.0)  # between the pieces nobody waits
        assert capsys.readouterr().err == heard


def test_a_notice_is_not_written_where_nobody_watches(capsys, monkeypatch):
    notice = Notice("a moment", after=0.0)
    threads = threading.active_count()
    notice.begin()
    assert threading.active_count() == threads
    notice.end()
    assert capsys.readouterr() == ("", "")
    assert not watched()  # this is a test
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.delitem(sys.modules, "assay.cli", raising=False)
    assert not watched()  # and this a file
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert watched()
    monkeypatch.setitem(sys.modules, "assay.cli", object())
    assert not watched()


def test_the_compiler_is_waited_for_when_it_compiles_our_kernels(monkeypatch):
    events = []
    for name in ("begin", "end"):
        monkeypatch.setattr(jit.Notice, name, lambda self, name=name: events.append(name))

    for module, heard in (("elsewhere", []), ("assay.somewhere", ["begin", "end"])):
        space = {"__name__": module}
        exec("def double(x): return 2.0 * x", space)  # without a file, so never from the cache
        jit.kernel(space["double"])(1.0)
        assert events == heard
