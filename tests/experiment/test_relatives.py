"""Rows are recognised after changes of values, names and units; unrelated tables are not taken for relatives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from assay.errors import SealError
from assay.experiment import Study, run
from assay.experiment.storage import Ledger, home
from assay.experiment.test_set.alignment import align
from assay.experiment.test_set.axes import axes
from assay.experiment.test_set.looks import looks_at, opened_rows, record_look
from assay.experiment.test_set.seal import seal_rows, side
from assay.experiment.test_set.vault import Vault


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_LEDGER", raising=False)


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    frame["kind"] = rng.choice(["x", "y", "z"], n)
    return frame.assign(y=20 + 2 * frame["a"] + rng.normal(size=n))


NUMBERS = [*"abcde", "y"]
CHANGES = {
    "log of the target": lambda frame: frame.assign(y=np.log(frame["y"])),
    "target x 10": lambda frame: frame.assign(y=10 * frame["y"]),
    "one column in other units": lambda frame: frame.assign(a=1.8 * frame["a"] + 32),
    "all columns x 2.54": lambda frame: frame.assign(**(2.54 * frame[NUMBERS])),
    "noise of 1e-9": lambda frame: frame.assign(**(frame[NUMBERS] + 1e-9 * np.sin(np.arange(160))[:, None])),
    "rounded": lambda frame: frame.assign(**frame[NUMBERS].round(1)),
    "a column as text": lambda frame: frame.assign(b=frame["b"].map(lambda b: f"about {b:.3f} units")),
    "ranks": lambda frame: frame.assign(**frame[NUMBERS].rank()),
    "two dropped": lambda frame: frame.drop(columns=["d", "e"]),
    "three renamed": lambda frame: frame.rename(columns={"b": "B", "c": "C", "kind": "sort"}),
    "dropped, shuffled and one added": lambda frame: frame.drop(columns="e").sample(frac=1, random_state=1).assign(z=1),
    "the target renamed": lambda frame: frame.rename(columns={"y": "Y"}),
}


SAME_PREDICTIONS = {"noise of 1e-9", "one column in other units", "three renamed", "the target renamed"}


@pytest.mark.parametrize("change", CHANGES)
def test_a_look_is_remembered_after_changes(change):
    first = run(table(), "y", learners=["least squares"])
    test = Vault(first.name).read(first.vault)
    changed = CHANGES[change](table())
    truth = table().loc[changed.index, "a"].isin(test["a"]).to_numpy()
    seen = opened_rows(Ledger(), changed)
    assert (seen == truth).mean() > 0.98
    target = "Y" if "Y" in changed else "y"
    if change in SAME_PREDICTIONS:  # nothing new can be learned
        assert run(changed, target, learners=["least squares"]).opened.look.replay
        return
    with pytest.raises(SealError, match="look 2 at these test rows"):
        run(changed, target, learners=["least squares"])
    study = Study(changed, target, learners=["least squares"]).finish(open_test=False)
    assert study.n_test == pytest.approx(first.n_test, abs=2)  # each row on its old side
    (note,) = [note for note in study.notes if "are those of study" in note]
    assert f"160 of 160 rows are those of study {first.name}, though columns or values were changed" in note
    assert note.endswith("stay test rows; the same predictions for them are a replay, any others are look 2")
    told = study.open("to see")
    assert told.look.beyond
    assert any("recognised though columns or values were changed" in note for note in told.look.notes)
    assert not any("training rows were test rows" in note for note in told.notes)


def test_a_target_cut_into_classes_is_the_same_rows():
    first = run(table(), "y", learners=["least squares"])
    classes = table().assign(y=np.where(table()["y"] > table()["y"].median(), "high", "low"))
    with pytest.raises(SealError, match="look 2 at these test rows"):
        run(classes, "y", learners=["logistic"])
    seen = opened_rows(Ledger(), classes)
    assert seen.sum() == first.n_test


def test_followed_rows_are_shared_again_and_appended_ones_are_parted():
    run(table(), "y", learners=["least squares"])
    changed = CHANGES["all columns x 2.54"](table())
    second = Study(changed, "y", learners=["least squares"]).finish(open_test=False)
    again = Study(changed.iloc[::-1], "y", learners=["least squares"]).finish(open_test=False)
    assert second.sealed.seal.follows
    assert again.sealed.shared
    assert again.sealed.seal.id == second.sealed.seal.id
    assert again.n_test == second.n_test
    longer = pd.concat([changed, CHANGES["all columns x 2.54"](table(seed=9))])
    third = Study(longer, "y", learners=["least squares"]).finish(open_test=False)
    assert third.sealed.seal.id == second.sealed.seal.id
    assert 0.2 < (third.n_test - second.n_test) / 160 < 0.8


@pytest.mark.parametrize("change", ["all columns x 2.54", "dropped, shuffled and one added", "the target renamed"])
def test_a_look_at_changed_rows_counts_for_the_study_that_was_sealed_first(change):
    first = Study(table(), "y", learners=["least squares"]).finish(open_test=False)
    changed = CHANGES[change](table())
    second = run(changed, "Y" if "Y" in changed else "y", learners=["tree"])
    assert second.n_test == pytest.approx(first.n_test, abs=2)
    with pytest.raises(SealError, match=rf"look 2 at these test rows.*by study {second.name} saw"):
        first.open()
    assert first.open("to see").look.number == 2


def test_a_table_that_has_grown_keeps_its_seal_when_a_narrower_one_came_between():
    run(table(), "y", learners=["least squares"])
    longer = pd.concat([table(), table(seed=9)], ignore_index=True)
    grown = Study(longer, "y", learners=["least squares"]).finish(open_test=False)
    Study(table().drop(columns="e"), "y", learners=["least squares"]).finish(open_test=False)
    again = Study(longer, "y", learners=["least squares"]).finish(open_test=False)
    assert again.sealed.seal.id == grown.sealed.seal.id
    assert again.name == grown.name


def test_some_changed_rows_keep_their_sides_there_and_back():
    first = run(table(), "y", learners=["least squares"])
    changed = table().assign(b=table()["b"].where(np.arange(160) % 3 > 0))
    study = Study(changed, "y", learners=["least squares"]).finish(open_test=False)
    assert study.n_test == first.n_test
    assert not any("were training rows before" in note for note in study.notes)
    back = Study(table(), "y", learners=["least squares"]).finish(open_test=False)
    assert back.sealed.seal.id == first.sealed.seal.id
    assert back.n_test == first.n_test


def test_training_rows_of_a_table_with_other_columns_are_counted_when_they_become_test_rows():
    first = run(table(), "y", learners=["least squares"])
    changed = CHANGES["three renamed"](table())
    study = Study(changed, "y", learners=["least squares"], reseal="another idea").finish(open_test=False)
    trained = ~table()["a"].isin(Vault(first.name).read(first.vault)["a"])
    count = int(changed["a"].isin(table()["a"][trained]).loc[study.sealed.test].sum())
    assert study.sealed.entry.body["scored"] == count > 0


def test_groups_stay_whole_and_time_keeps_its_cut():
    frame = table().assign(who=np.arange(160) // 4, when=pd.date_range("2020-01-01", periods=160).astype(str))
    first = run(frame, "y", test_size=0.25, group="who", learners=["least squares"], despite=["groups"])
    changed = CHANGES["all columns x 2.54"](frame)
    with pytest.raises(SealError, match="look 2"):
        run(changed, "y", group="who", learners=["least squares"], despite=["groups"])
    study = Study(changed, "y", group="who", learners=["least squares"]).finish(open_test=False)
    assert study.n_test == first.n_test
    assert study.n_test % 4 == 0
    more = pd.concat([changed, CHANGES["all columns x 2.54"](table(seed=5)).assign(who=np.arange(160) // 2, when="")])
    sides = side(study.sealed.seal, more)
    assert (pd.Series(sides).groupby(more["who"].to_numpy()).nunique() == 1).all()
    with pytest.raises(SealError, match="in a different way"):
        run(changed, "y", time="when", learners=["least squares"])


def test_the_rows_of_a_test_file_are_recognised_when_they_are_looked_at():
    first = run(table(), "y", learners=["least squares"])
    changed = CHANGES["all columns x 2.54"](table())
    seen = table()["a"].isin(Vault(first.name).read(first.vault)["a"])
    with pytest.raises(SealError, match="look 2 at these test rows"):
        run(changed[~seen], "y", test=changed[seen], learners=["least squares"])


def test_a_new_seal_with_a_reason_still_counts_the_look():
    run(table(), "y", learners=["least squares"])
    changed = CHANGES["all columns x 2.54"](table())
    study = Study(changed, "y", learners=["least squares"], reseal="another idea").finish(open_test=False)
    assert any("are split anew" in note for note in study.notes)
    told = study.open("to see")
    assert told.look.number == 2
    assert any("training rows were test rows in an earlier look" in note for note in told.notes)


def test_columns_in_another_order_with_the_same_predictions_are_a_replay():
    run(table(), "y", learners=["least squares"])
    for changed in (table()[["y", *"edcba", "kind"]], table()[["y", *"edcba", "kind"]].rename(columns={"e": "E"})):
        again = run(changed, "y", learners=["least squares"])
        assert again.opened.look.replay
        assert again.opened.look.number == 1


def test_unrelated_tables_and_coarse_columns_are_no_relatives():
    run(table(), "y", learners=["least squares"])
    assert looks_at(Ledger(), table(seed=1).drop(columns="e")) == []  # the same columns, other rows
    coarse = pd.DataFrame(np.random.default_rng(0).integers(0, 3, size=(200, 3)), columns=list("uvw"))
    coarse["t"] = np.random.default_rng(1).integers(0, 2, 200)
    study = run(coarse, "t", learners=["least squares"], task="regression")
    assert any("if they come back with other values or columns, they cannot be recognised" in x for x in study.notes)
    assert looks_at(Ledger(), coarse.assign(t=3 + 2 * coarse["t"])) == []


def test_without_its_files_a_study_is_known_by_exact_content_alone():
    study = run(table(), "y", learners=["least squares"], test_size=0.5)
    changed = table().rename(columns={"e": "E"})
    assert len(looks_at(Ledger(), changed)) == 1
    Vault("train", home() / "studies" / study.name).remove()
    assert len(looks_at(Ledger(), changed)) == 1  # the test rows are enough
    Vault(study.name).remove()
    assert looks_at(Ledger(), changed) == []
    assert len(looks_at(Ledger(), table())) == 1


def test_a_ledger_of_an_earlier_version_is_read():
    """Entries without what recognition adds: exact content is known as ever, and the stored rows are compared."""
    made = seal_rows(Ledger(), table(), "y", "regression")
    test = table().iloc[made.test]
    old = Ledger(home() / "old.db")
    blob = made.seal.digests.astype("<u8").tobytes()
    entry = old.append("seal", {**made.seal.state(), "reason": None, "after": []}, None, blob)
    old.append("study", {"seal": made.seal.id, "seal_entry": entry.seq}, "early")
    record_look(old, made.seal, test, np.zeros(len(test)), study="early")
    again = seal_rows(old, table().iloc[::-1], "y", "regression")
    assert again.shared
    assert again.seal.id == made.seal.id
    assert looks_at(old, table())[0].shared == len(test)
    assert looks_at(old, table().rename(columns={"a": "A"})) == []


def test_nothing_was_looked_at_before_the_first_look():
    run(table(), "y", learners=["least squares"], open_test=False)
    assert not opened_rows(Ledger(), table().drop(columns="e")).any()
    assert run(table().drop(columns="e"), "y", learners=["least squares"]).opened.look.number == 1


def test_halves_of_one_population_are_not_linked():
    """60 pairs of disjoint samples, with ties, duplicates and dependent columns; false alarm below 1e-3 for each."""
    rng = np.random.default_rng(0)
    for run_ in range(60):
        n, k = int(rng.choice([60, 200])), int(rng.integers(2, 8))
        z = rng.normal(size=(2 * n, 1))
        frame = pd.DataFrame(
            [z + rng.normal(size=(2 * n, k)), np.round(z + 0.3 * rng.normal(size=(2 * n, k)), 1)][run_ % 2]
        )
        if run_ % 3 == 0:
            frame = frame.round()
        assert align(axes(frame.iloc[:n]), axes(frame.iloc[n:])) is None
