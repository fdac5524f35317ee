"""Silent until somebody listens, and then complete."""

from __future__ import annotations

import pytest

from assay.numerics.threads import parallel
from assay.progress import listen, track


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
