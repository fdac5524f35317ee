"""Dropped and renamed columns do not hide that rows were looked at; unrelated tables are not taken for relatives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from assay.errors import SealError
from assay.experiment import Study, run
from assay.experiment.storage import Ledger
from assay.experiment.test_set.looks import looks_at, opened_rows
from assay.experiment.test_set.vault import Vault


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_LEDGER", raising=False)


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    frame["kind"] = rng.choice(["x", "y", "z"], n)
    return frame.assign(y=2 * frame["a"] + rng.normal(size=n))


CHANGES = {
    "dropped": lambda frame: frame.drop(columns="e"),
    "two dropped": lambda frame: frame.drop(columns=["d", "e"]),
    "renamed": lambda frame: frame.rename(columns={"b": "B", "kind": "sort"}),
    "dropped, shuffled and one added": lambda frame: frame.drop(columns="e").sample(frac=1, random_state=1).assign(z=1),
    "the target renamed": lambda frame: frame.rename(columns={"y": "Y"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_look_is_remembered_under_other_columns(change):
    first = run(table(), "y", learners=["least squares"])
    test = Vault(first.name).read(first.vault)
    changed = CHANGES[change](table())
    seen = opened_rows(Ledger(), changed)
    assert seen.sum() == first.n_test
    truth = pd.Series(changed["a"]).isin(test["a"]).to_numpy()
    assert (seen == truth).all()
    target = "Y" if "Y" in changed else "y"
    with pytest.raises(SealError, match="look 2 at these test rows") as caught:
        run(changed, target, learners=["least squares"])
    assert "recognised by the columns in common" in str(caught.value)
    told = Study(changed, target, learners=["least squares"]).finish(open_test=False).open("to see")
    assert told.look.beyond
    assert any("were test rows in an earlier look" in note for note in told.notes)


def test_unrelated_tables_and_coarse_columns_are_no_relatives():
    run(table(), "y", learners=["least squares"])
    assert looks_at(Ledger(), table(seed=1).drop(columns="e")) == []  # the same columns, other rows
    assert looks_at(Ledger(), table().loc[:, ["a", "kind"]]) == []  # too few columns in common: nothing is claimed
    coarse = pd.DataFrame(np.random.default_rng(0).integers(0, 3, size=(200, 6)), columns=list("uvwxyz"))
    coarse["t"] = np.random.default_rng(1).normal(size=200)
    study = run(coarse, "t", learners=["least squares"])
    assert looks_at(Ledger(), coarse.drop(columns="t")) == []  # what is left cannot tell rows apart
    Vault(study.name).remove()
    assert looks_at(Ledger(), coarse.drop(columns="z")) == []  # without its vault a look cannot be compared


def test_a_sealed_study_is_not_read():
    """Only looks are compared: the vault of a set that nobody has opened stays closed."""
    run(table(), "y", learners=["least squares"], open_test=False)
    assert not opened_rows(Ledger(), table().drop(columns="e")).any()
