"""A head of the ledger that lies outside of it is looked up in its chain."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import assay
from assay.cli import app


def call(*args):
    return CliRunner().invoke(app, list(args))


def houses():
    rng = np.random.default_rng(0)
    size = rng.normal(100, 20, 80).round(1)
    return pd.DataFrame({"size": size, "price": (2 * size + rng.normal(0, 10, 80)).round(2)})


def test_a_head_outside_the_ledger_is_found_in_it_until_it_is_rewritten(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    files = assay.run(houses(), "price", learners=["least squares"], n_jobs=1, out=tmp_path / "out").files
    first = json.loads((tmp_path / "out" / "study.json").read_text())["manifest"]["ledger_head"]
    for name in ("report", "model", "study.json"):
        done = call("verify", "--report", files[name])
        assert done.exit_code == 0, done.output
        said = " ".join(done.stdout.split())
        assert re.search(r"is entry \d+ of \d+, from \d{4}-\d\d-\d\d: nothing up to it was changed", said)
    assert call("verify", "--head", first).exit_code == call("verify", "--head", first[:12]).exit_code == 0

    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "other"))  # the same study, with a chain of its own
    assay.run(houses(), "price", learners=["least squares"], n_jobs=1)
    done = call("verify", "--report", files["report"])
    assert done.exit_code == 1
    assert "is not in this ledger: the ledger was rewritten, or the head belongs" in " ".join(done.stderr.split())
    told = json.loads(call("verify", "--head", first, "--json").stdout)
    assert told["heads"] == [first]
    assert len(told["problems"]) == 1


def test_what_is_no_head_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    (tmp_path / "page.html").write_text("<p>no report</p>")
    for args, words in (
        ([], "nothing to verify"),
        (["--head", "xyz"], "'xyz' is not a ledger head"),
        (["--report", str(tmp_path / "page.html")], "records no ledger head"),
        (["--report", "gone.html"], "no such file: 'gone.html'"),
    ):
        done = call("verify", *args)
        assert done.exit_code == 2
        assert words in " ".join(done.stderr.split())
