"""Model files of what has no target: clusterings, components, mixtures and Markov models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline

from assay.clustering import HierarchicalClustering, KMeans, PrincipalComponents
from assay.errors import ParameterError, StoreError
from assay.experiment.columns import Columns
from assay.experiment.model_file import load_model, save_model
from assay.experiment.model_file.archive import write_archive
from assay.experiment.model_file.predict import predict_rows
from assay.latent import CategoricalHMM, GaussianHMM, GaussianMixture, MarkovChain, PoissonHMM
from assay.linear import Ridge
from assay.margin import OneClassSVM
from tests.experiment.mutants import members_of

X = np.vstack([np.random.default_rng(0).normal(size=(30, 3)), 6 + np.random.default_rng(1).normal(size=(30, 3))])
WORDS = [list("abab"), list("aabb"), list("babba")]
MODELS = {
    "kmeans": (KMeans(2, random_state=0), X, lambda model: model.predict(X)),
    "tree": (HierarchicalClustering(3), X, lambda model: model.cut(4)),
    "components": (PrincipalComponents(2), X, lambda model: model.transform(X)),
    "mixture": (GaussianMixture(2, random_state=0), X, lambda model: model.predict_proba(X)),
    "chain": (MarkovChain(smoothing=1.0), WORDS, lambda model: model.log_probability(WORDS)),
    "symbols": (CategoricalHMM(2, random_state=0), WORDS, lambda model: model.log_likelihood(WORDS)),
    "normals": (GaussianHMM(2, covariance_type="diag", random_state=0), X, lambda model: model.predict(X)),
    "counts": (PoissonHMM(2, random_state=0), np.round(np.abs(X)), lambda model: model.rates_),
    "region": (OneClassSVM(), X, lambda model: model.decision_function(X)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_without_a_target_come_back(name, tmp_path):
    model, rows, answer = MODELS[name]
    model.fit(rows)
    checksum = save_model(tmp_path / "m.assay", {"pipeline": model})
    parts = load_model(tmp_path / "m.assay")
    assert (parts["task"], parts["target"], parts["checksum"]) == (None, None, checksum)
    assert_array_equal(answer(parts["pipeline"]), answer(model))


def test_a_pipeline_that_ends_in_clusters(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = make_pipeline(Columns(dict.fromkeys("abc", "number")), KMeans(2, random_state=0)).fit(frame)
    save_model(tmp_path / "m.assay", {"pipeline": model})
    assert_array_equal(load_model(tmp_path / "m.assay")["pipeline"].predict(frame), model.predict(frame))
    with pytest.raises(StoreError, match="does not say which columns and classes it was fitted to"):
        predict_rows(tmp_path / "m.assay", frame)


def test_what_has_a_target_must_name_it(tmp_path):
    model = Ridge().fit(X[:, 1:], X[:, 0])
    with pytest.raises(ParameterError, match="the part 'task' is missing; a model with a target needs it"):
        save_model(tmp_path / "m.assay", {"pipeline": model})
    with pytest.raises(ParameterError, match="the part 'pipeline' is missing"):
        save_model(tmp_path / "m.assay", {"task": "regression", "target": "y"})
    tree = HierarchicalClustering(2).fit(X)
    with pytest.raises(ParameterError, match=r"has no predict; .*leave 'task' and 'target' out"):
        save_model(tmp_path / "m.assay", {"pipeline": tree, "task": "regression", "target": "y"})


def test_a_file_that_hides_its_target_is_refused(tmp_path):
    """Task and target cut out of the file of a regression, with digests that fit."""
    save_model(tmp_path / "m.assay", {"pipeline": Ridge().fit(X[:, 1:], X[:, 0]), "task": "regression", "target": "y"})
    members = {name: one for name, one in members_of(tmp_path / "m.assay").items() if name != "manifest.json"}
    write_archive(tmp_path / "cut.assay", {**members, "about.json": b"{}"})
    with pytest.raises(StoreError, match="its pipeline does not predict"):
        load_model(tmp_path / "cut.assay")
    write_archive(tmp_path / "half.assay", {**members, "about.json": b'{"task":"regression"}'})
    with pytest.raises(StoreError, match="does not say what it predicts"):
        load_model(tmp_path / "half.assay")
