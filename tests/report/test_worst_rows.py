"""The worst rows of a report bear the numbers they have in the user's file."""

import re
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from assay.experiment.storage.ledger import Ledger
from assay.experiment.study import Study, run
from assay.experiment.test_set.vault import Vault
from assay.report.draw import draw
from assay.report.draw_experiment import PredictedAgainstTrue
from assay.report.html import render


@pytest.fixture
def frame(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(5)
    made = pd.DataFrame(rng.normal(size=(220, 2)), columns=["a", "b"])
    made["y"] = made.a + rng.standard_t(3, size=220)
    made.loc[rng.choice(220, 20, replace=False), "y"] = np.nan  # these rows are left out, and still counted
    return made


def worst(page):
    """Number and observed value of each listed row."""
    table = re.search(r"<caption>Rows with the largest errors</caption>(.*?)</table>", page, re.DOTALL)[1]
    rows = [re.findall(r"<bdi>(.*?)</bdi>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)]
    assert rows[0][:3] == ["", "row", "observed"]
    return [(int(row[1]), float(row[2])) for row in rows[1:]]


@pytest.mark.parametrize("options", [{}, {"test_size": "none"}, {"time": "b"}])
def test_a_row_has_its_number_in_the_file(frame, tmp_path, options):
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    study = run(path, "y", learners=["least squares"], cv=5, **options)
    page = render(study)
    found = worst(page)
    assert len(found) == 8
    for number, observed in found:
        assert observed == pytest.approx(frame.y[number - 1], rel=1e-3)
    assert "Row: its number in table.csv, counted from 1 without the header." in page
    explained = re.findall(r"<p>Row (\d+) of the table\. Observed (-?[\d.]+),", page)
    assert len(explained) == 4
    for number, observed in explained:
        assert float(observed) == pytest.approx(frame.y[int(number) - 1], rel=1e-3)
    assert worst(render(Study.load(study.name).finish())) == found


def test_a_study_that_did_not_store_them_has_no_numbers(frame):
    study = run(frame, "y", learners=["least squares"], cv=5)
    assert "Row: its position in the data frame, counted from 1." in render(study)
    ledger = Ledger()
    body = dict(ledger.entries("study", study.name)[-1].body)
    del body["test_groups"]
    body["train"] = Vault("train", study.folder).write(study.rows)  # as earlier versions wrote it
    ledger.append("study", body, study.name)
    page = render(Study.load(study.name).finish())
    assert "Rows with the largest errors" in page
    assert "Row: its" not in page


def test_numbers_of_crowded_rows_do_not_overlap():
    rng = np.random.default_rng(1)
    for _ in range(20):
        predicted = np.concatenate([rng.normal(size=200), 1 + 0.15 * rng.normal(size=8)])
        y = np.concatenate([predicted[:200] + 0.1 * rng.normal(size=200), 4 + 0.3 * rng.normal(size=8)])
        result = PredictedAgainstTrue(y, predicted, "rows", np.arange(200, 208))
        figure = Figure(figsize=(5.4, 4.2))
        FigureCanvasAgg(figure)
        axes = draw(result, ax=figure.subplots())
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == 8
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
