"""Looks are counted by rows and written first; the Ladder tells no more than it should."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import DataError, LedgerError, ParameterError, SealError
from assay.experiment.storage import Ledger
from assay.experiment.test_set.ladder import Ladder, ladder_release
from assay.experiment.test_set.looks import (
    looks_at,
    opened_rows,
    opened_rows_in,
    plan_level,
    predictions_digest,
    record_look,
)
from assay.experiment.test_set.releases import release
from assay.experiment.test_set.seal import make_seal, seal_rows
from tests.naive.experiment import guarded_ladder_answers, ladder_answers

WORKERS = multiprocessing.get_context("forkserver")
WORKERS.set_forkserver_preload(["tests.experiment.test_ledger", "tests.experiment.test_ladder"])


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.standard_normal(n), "k": rng.integers(0, 5, n), "y": rng.integers(0, 2, n)})


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.db")


@pytest.fixture
def sealed(ledger):
    frame = table()
    made = seal_rows(ledger, frame, "y", "classification", share=0.5)
    return made.seal, frame.iloc[made.test], frame.iloc[made.train]


# The Ladder.


@given(st.integers(0, 10_000), st.sampled_from(["difference", 0.01, 0.1]), st.sampled_from([2, 5, 60]))
def test_the_ladder_is_what_the_definition_says(seed, step, n):
    losses = np.random.default_rng(seed).random((15, n))
    ladder = Ladder(step)
    wanted = ladder_answers(losses, None if step == "difference" else step)
    assert np.allclose([ladder.release(row).value for row in losses], wanted)


@given(st.integers(0, 10_000), st.sampled_from([2, 5, 60]))
def test_the_default_ladder_is_what_the_definition_says(seed, n):
    rng = np.random.default_rng(seed)
    losses = (rng.random((15, n)) < rng.random((15, 1))).astype(float)
    ladder = Ladder()
    assert np.allclose([ladder.release(row).value for row in losses], guarded_ladder_answers(losses))


def test_a_few_labels_at_a_time_climb_the_papers_rule_and_not_ours():
    """Accuracy shown after 400 looks at 250 coin tosses; simulated means .69 and .50, standard deviations below .03."""
    rng = np.random.default_rng(0)
    reached = {}
    for step in ("difference", "auto"):
        truth, best, ladder = rng.integers(0, 2, 250), rng.integers(0, 2, 250), Ladder(step)
        ladder.release(best != truth)
        for _ in range(400):
            trial = best.copy()
            trial[rng.choice(250, 5, replace=False)] ^= 1
            told = ladder.release(trial != truth)
            best = trial if told.improved else best
        reached[step] = 1 - told.value
    assert reached["difference"] > 0.6
    assert reached["auto"] < 0.6


def test_answers_are_multiples_of_the_step_and_only_fall():
    rng = np.random.default_rng(0)
    ladder, last = Ladder(), np.inf
    for _ in range(200):
        told = ladder.release(rng.random(50) < rng.uniform(0.2, 0.6))
        assert told.value <= last
        assert told.improved == (told.value < last)
        if told.improved:
            assert told.value / told.step == pytest.approx(round(told.value / told.step))
        last = told.value


def test_small_gains_are_not_told():
    losses = np.zeros(100)
    losses[:30] = 1
    better = losses.copy()
    better[0] = 0
    ladder = Ladder()
    first = ladder.release(losses)
    assert not ladder.release(better).improved
    assert ladder.release(better).value == first.value
    best = np.zeros(100)
    assert ladder.release(best).improved


def test_the_step_has_the_unit_of_the_losses():
    rng = np.random.default_rng(0)
    losses, best = rng.random(30), rng.random(30)
    plain, scaled = ladder_release(losses, best + 1), ladder_release(1e6 * losses, 1e6 * (best + 1))
    assert scaled.value == pytest.approx(1e6 * plain.value)
    assert scaled.step == pytest.approx(1e6 * plain.step)


@pytest.mark.parametrize("losses", [np.zeros(5), np.ones(1), np.full(4, 3.0)])
def test_constant_losses_have_an_answer(losses):
    told = ladder_release(losses)
    assert told.value == pytest.approx(losses.mean())
    assert told.step > 0
    assert not ladder_release(losses, losses, told.value).improved


def test_bad_losses():
    for bad in ([], [np.nan, 1.0], [np.inf]):
        with pytest.raises(DataError, match="losses"):
            ladder_release(bad)
    with pytest.raises(DataError, match=r"expected 2 losses.*got 3"):
        ladder_release([1, 2, 3], [1, 2])
    with pytest.raises(DataError, match="2 columns"):
        ladder_release(np.ones((3, 2)))
    with pytest.raises(ParameterError, match="step"):
        ladder_release([1.0], step=0)


def test_releases_print_and_tabulate():
    told = ladder_release([1, 0, 0, 0], [1, 1, 1, 1], loss="error")
    assert "mean error of the best submission so far" in str(told)
    assert told.to_frame().loc[told.estimand, "n"] == 4


# The plan.


def test_planned_looks_share_the_level():
    assert plan_level(0.95, 1) == 0.95
    assert plan_level(0.95, 5) == pytest.approx(0.99)
    for level, looks in ((1.0, 1), (0.95, 0), (0.95, 1.5)):
        with pytest.raises(ParameterError):
            plan_level(level, looks)


def test_looks_are_numbered_and_levelled(ledger, sealed):
    seal, test, _ = sealed
    rng = np.random.default_rng(0)
    looks = [record_look(ledger, seal, test, rng.random(len(test)), looks=3, study=f"s{i}") for i in range(3)]
    assert [look.number for look in looks] == [1, 2, 3]
    assert all(look.level == pytest.approx(1 - 0.05 / 3) and not look.beyond for look in looks)
    assert "fixed before the first look" in str(looks[0])
    with pytest.raises(SealError, match=r"look 4 at these test rows, and 3 were planned .* give a reason"):
        record_look(ledger, seal, test, rng.random(len(test)), looks=3)
    with pytest.raises(SealError, match="give a reason"):
        record_look(ledger, seal, test, rng.random(len(test)), looks=30, reason="  ")
    last = record_look(ledger, seal, test, rng.random(len(test)), looks=30, reason="the referee asked")
    assert last.beyond
    assert last.level is None
    assert (last.number, last.planned) == (4, 3)
    assert any("came after it" in note for note in last.notes)
    assert "beyond the plan (the referee asked)" in str(last)
    assert last.to_frame().loc[last.entry.seq, "reason"] == "the referee asked"
    assert len(ledger.entries("look")) == 4


def test_the_level_of_the_first_look_holds(ledger, sealed):
    seal, test, _ = sealed
    record_look(ledger, seal, test, np.zeros(len(test)), looks=2, level=0.99)
    second = record_look(ledger, seal, test, np.ones(len(test)), looks=2, level=0.5)
    assert second.level == pytest.approx(0.995)
    assert second.family == 0.99


def test_the_same_predictions_are_a_replay(ledger, sealed):
    seal, test, _ = sealed
    rng = np.random.default_rng(0)
    p = rng.random((len(test), 2))
    first = record_look(ledger, seal, test, p)
    order = rng.permutation(len(test))
    again = record_look(ledger, seal, test.iloc[order].astype(object), p[order], study="elsewhere")
    assert again.replay
    assert (again.number, again.level, again.entry.seq) == (1, 0.95, first.entry.seq)
    assert "a replay (not counted)" in str(again)
    assert len(ledger.entries("look")) == 1
    assert ledger.entries("replay")[0].body == {"look": first.entry.seq}
    p[0, 0] = np.nextafter(p[0, 0], 1)  # as another order of columns may do
    assert record_look(ledger, seal, test, p).replay
    p[0, 0] += 1e-5
    with pytest.raises(SealError, match="look 2"):
        record_look(ledger, seal, test, p)
    with pytest.raises(SealError, match="look 2"):  # fewer rows are no replay either
        record_look(ledger, seal, test.iloc[1:], p[1:])


def test_labels_can_be_replayed_and_twins_may_stand_in_either_order():
    rows = np.array([5, 5, 9], dtype=np.uint64)
    assert predictions_digest(rows, ["a", "b", "c"]) == predictions_digest(
        rows, np.array(["b", "a", "c"], dtype=object)
    )
    assert predictions_digest(rows, ["a", "b", "c"]) != predictions_digest(rows, ["a", "c", "b"])
    with pytest.raises(DataError, match="expected 3 predictions, one per test row, got 2"):
        predictions_digest(rows, [1, 2])


# Recognised by content.


def test_looks_are_recognised_across_files_columns_and_parts(ledger, sealed, tmp_path):
    seal, test, train = sealed
    record_look(ledger, seal, test, np.zeros(len(test)), study="one")
    path = tmp_path / "copy.csv"
    test.sample(frac=1, random_state=1).assign(extra=1)[["extra", "y", "x", "k"]].to_csv(path, index=False)
    (found,) = looks_at(ledger, pd.read_csv(path))
    assert (found.shared, found.rows, found.replay) == (len(test), len(test), False)
    assert "by study one saw 100 of these 100 rows" in str(found)
    assert found.to_frame().loc[found.entry.seq, "shared"] == 100
    (part,) = looks_at(ledger, pd.concat([train, test.iloc[:3]]))
    assert part.shared == 3
    assert looks_at(ledger, train) == []
    assert looks_at(ledger, table(seed=5)) == []


def test_a_new_seal_over_opened_rows_still_counts(ledger, sealed):
    seal, test, _ = sealed
    record_look(ledger, seal, test, np.zeros(len(test)))
    frame = table()
    again = seal_rows(ledger, frame.assign(more=2), "y", "classification", share=0.5, reason="a new idea")
    rows = frame.assign(more=2).iloc[again.test]
    with pytest.raises(SealError, match="look 2"):
        record_look(ledger, again.seal, rows, np.zeros(len(rows)))
    look = record_look(ledger, again.seal, rows, np.zeros(len(rows)), reason="to see")
    assert look.number == 2
    assert 0 < look.earlier[0].shared < len(rows)
    assert any("of these" in note for note in look.notes)


def test_training_on_opened_rows_shows(ledger, sealed):
    seal, test, train = sealed
    assert opened_rows_in(ledger, table()) == 0  # sealed, not opened
    record_look(ledger, seal, test, np.zeros(len(test)))
    assert opened_rows_in(ledger, train) == 0
    mixed = pd.concat([train, test.iloc[:7].assign(new=1)])
    assert opened_rows_in(ledger, mixed) == 7
    assert opened_rows(ledger, mixed)[-7:].all()
    assert opened_rows_in(ledger, train.drop(columns="x")) == 0  # what makes the rows is gone


# Written first.


def test_without_a_ledger_there_is_no_look(ledger, sealed, monkeypatch):
    seal, test, _ = sealed
    from sqlalchemy import event

    event.listen(ledger.engine, "connect", lambda c, _: c.execute("PRAGMA query_only = ON"))
    with pytest.raises(LedgerError, match="read-only"):
        record_look(ledger, seal, test, np.zeros(len(test)))
    assert ledger.entries("look") == []


def test_an_empty_test_set_is_refused(ledger, sealed):
    seal, test, _ = sealed
    with pytest.raises(SealError, match="no test rows"):
        record_look(ledger, seal, test.iloc[:0], [])


def look_at_once(path, which, told):
    ledger, frame = Ledger(path), table()
    seal, _, rows = make_seal(frame, "y", "classification")
    try:
        told.put(record_look(ledger, seal, frame.iloc[rows], np.full(len(rows), which)).number)
    except SealError as error:
        told.put(str(error))


def test_of_several_processes_one_has_the_look(tmp_path):
    path, told = tmp_path / "ledger.db", WORKERS.Queue()
    Ledger(path)
    workers = [WORKERS.Process(target=look_at_once, args=(path, which, told)) for which in range(4)]
    for worker in workers:
        worker.start()
    said = [told.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join(600)
    assert said.count(1) == 1
    assert sum("would be look 2" in str(one) for one in said) == 3
    assert len(Ledger(path).entries("look")) == 1


# Answers.


def test_a_planned_look_is_answered_exactly_and_always_the_same(ledger, sealed):
    seal, test, _ = sealed
    losses = np.random.default_rng(0).random(len(test))
    look = record_look(ledger, seal, test, losses)
    told = release(ledger, look, test, losses, loss="squared error")
    assert told.value == losses.mean()
    assert told.step == 0
    assert release(ledger, look, test, losses + 1, loss="squared error").value == told.value
    assert len(ledger.entries("release")) == 1


def test_looks_beyond_the_plan_are_answered_by_the_ladder(ledger, sealed):
    seal, test, _ = sealed
    rng = np.random.default_rng(0)
    truth = test["y"].to_numpy()
    matrix = np.array([rng.permutation(np.arange(len(test)) < wrong) for wrong in (50, 50, 49, 10, 15, 9)], dtype=float)
    told = []
    for at, losses in enumerate(matrix):
        order = rng.permutation(len(test))  # the order of the rows does not matter
        predictions = np.where(losses == 1, 1 - truth, truth)
        look = record_look(ledger, seal, test.iloc[order], predictions[order], reason="curious")
        assert look.beyond == (at > 0)
        told.append(release(ledger, look, test.iloc[order], losses[order], loss="error"))
    best, value, wanted = matrix[0], matrix[0].mean(), [matrix[0].mean()]
    for losses in matrix[1:]:
        step = max(np.std(losses - best, ddof=1), np.std(losses, ddof=1)) / np.sqrt(len(test))
        if losses.mean() < value - step:
            best, value = losses, round(losses.mean() / step) * step
        wanted.append(value)
    assert [one.value for one in told] == pytest.approx(wanted)
    kept = [entry.blob is not None for entry in ledger.entries("release")]
    assert kept == [one.improved for one in told]
    assert kept == [True, False, False, True, False, False]


def test_partial_overlap_is_judged_on_the_shared_rows(ledger, sealed):
    seal, test, train = sealed
    look = record_look(ledger, seal, test, np.zeros(len(test)))
    release(ledger, look, test, np.full(len(test), 0.5))
    mixed = pd.concat([test.iloc[:40], train.iloc[:60]])
    worse = record_look(ledger, seal, mixed, np.ones(100), reason="more rows")
    told = release(ledger, worse, mixed, np.r_[np.full(40, 0.6), np.zeros(60)])
    assert not told.improved
    assert told.value == 0.5
    better = record_look(ledger, seal, mixed, np.full(100, 2), reason="more rows")
    told = release(ledger, better, mixed, np.r_[np.full(40, 0.1), np.full(60, 0.3)])
    assert told.improved
    assert told.value == pytest.approx(0.22, abs=told.step)


def test_losses_must_belong_to_the_look(ledger, sealed):
    seal, test, _ = sealed
    look = record_look(ledger, seal, test, np.zeros(len(test)))
    with pytest.raises(DataError, match="the look saw 100"):
        release(ledger, look, test.iloc[1:], np.zeros(99))
    with pytest.raises(DataError, match="losses"):
        release(ledger, look, test, np.full(len(test), np.nan))


def test_an_adaptive_attacker_gains_little():
    """100 random votes, the good ones combined: plain answers give them away, the Ladder does not (20 runs)."""
    rng = np.random.default_rng(0)
    plain, guarded = [], []
    for _ in range(20):
        labels = rng.integers(0, 2, 500)
        votes = rng.integers(0, 2, (100, 500))
        errors = (votes != labels).astype(float)
        kept = errors.mean(axis=1) < 0.5
        plain.append(np.mean((votes[kept].mean(axis=0) > 0.5) == labels))
        ladder = Ladder()
        for loss in errors:
            value = ladder.release(loss).value
        guarded.append(1 - value)
    assert np.mean(plain) > 0.58
    assert np.mean(guarded) < 0.56
