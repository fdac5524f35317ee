"""Prediction sets of a model file: which classes the sentence beside them covers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from assay.evaluation import ThresholdClassifier
from assay.experiment.columns import Columns
from assay.experiment.model_file.file import PARTS, load_model, save_model
from assay.experiment.model_file.predict import predict_rows
from assay.linear import LogisticRegression


def stored(folder, rare, n=600):
    """A model file with out-of-fold probabilities of a class of `rare` rows, and 1,000 new rows of that class."""
    rng = np.random.default_rng(0)
    codes = (np.arange(n) < rare).astype(int)
    frame = pd.DataFrame({"x": rng.normal(size=n) + 1.5 * codes})
    labels = np.array(["no", "yes"])[codes]
    pipeline = make_pipeline(Columns({"x": "number"}), LogisticRegression())
    out = np.empty((n, 2))
    for k in range(5):
        held = np.arange(n) % 5 == k
        out[held] = pipeline.fit(frame[~held], labels[~held]).predict_proba(frame[held])
    parts = {
        "pipeline": pipeline.fit(frame, labels),
        "task": "classification",
        "target": "y",
        "classes": ["no", "yes"],
        "kinds": {"x": "number"},
        "schema": {"features": ["x"], "codes": codes.tolist()},
        "probabilities": out,
    }
    save_model(folder / "model.assay", parts)
    return folder / "model.assay", pd.DataFrame({"x": rng.normal(size=1000) + 1.5})


def test_a_rare_class_is_covered_by_its_own_sets(tmp_path):
    """30 rows of 600 calibrate it: the coverage is a Beta(28, 3) around .903, above .69 but for one in a million."""
    path, new = stored(tmp_path, 30)
    found = predict_rows(path, new)
    assert "for about 90 of 100 new rows like the training rows, within each class, they contain" in found.coverage
    assert found.frame["set"].str.contains("yes").mean() > 0.69


@pytest.mark.parametrize("rare", [5, 200])
def test_the_sentence_says_what_is_not_covered(rare, tmp_path):
    path, new = stored(tmp_path, rare)
    sentence = predict_rows(path, new).coverage
    never = "nothing is promised for 'yes' alone, with 5 calibration rows where level 0.9 needs 9"
    assert (never in sentence) == (rare == 5)
    assert "within each class" not in sentence  # too few rows of it, or not rare


def test_predictions_by_a_threshold_say_so(tmp_path):
    path, new = stored(tmp_path, 100)
    assert not predict_rows(path, new).notes
    parts = {name: part for name, part in load_model(path).items() if name in PARTS}
    model = ThresholdClassifier(parts["pipeline"], threshold=0.02).fit(pd.DataFrame({"x": range(8)}), ["no", "yes"] * 4)
    model.estimator_ = parts["pipeline"]
    save_model(path, parts | {"pipeline": model})
    found = predict_rows(path, new)
    assert (found.frame["prediction"].eq("yes") & found.frame["set"].eq("no")).any()
    rule = "a row is predicted as 'yes' if its probability is at least 0.02"
    assert found.notes == (f"{rule}; the column set does not go by it",)
