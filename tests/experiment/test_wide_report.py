"""The report of a wide table: the verdict first, long tables folded, a few hundred kilobytes."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from assay.experiment import run


def test_wide_tables_are_folded_and_the_verdict_stays_first(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 260)), columns=[f"sensor {j}" for j in range(260)])
    frame["y"] = 3 * frame["sensor 0"] + rng.normal(size=150)
    study = run(frame, "y", learners=["lasso"], cv=3, open_test=False)
    study.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert len(page) < 5_000_000
    assert page.index('id="verdict"') < page.index("<section")
    folded = re.findall(r"<details[^>]*>\s*<summary>(.*?)</summary>", page)
    assert "Columns of the training rows (261 rows)" in folded
    outside = re.sub(r"<details[^>]*>.*?</details>", "", page, flags=re.DOTALL)
    assert outside.count("<tr") < 200  # no long table is left open
    assert "sensor 259" in page
    small = run(frame.iloc[:, -6:], "y", learners=["lasso"], cv=3, open_test=False)
    small.report(tmp_path / "small.html")
    assert "sensor 259" in (tmp_path / "small.html").read_text()
