"""Model files: what goes in comes out, and what does not belong there is refused without being run."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import pickle
import sys
import warnings
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

import assay.linear
from assay.calibration import CalibratedClassifier
from assay.errors import DataError, DataTypeError, ParameterError, StoreError, UntrustedError
from assay.evaluation import SearchCV, conformal
from assay.experiment.columns import Columns
from assay.experiment.model_file import archive as _archive
from assay.experiment.model_file import load_model, save_model
from assay.experiment.panel import learners
from assay.linear import LogisticRegression
from assay.trees import DecisionTreeRegressor, RandomForestRegressor
from assay.trees import GradientBoostingRegressor as GradientBoosting
from tests.experiment import malicious, mutants
from tests.experiment.stored import make

KINDS = {"a": "number", "b": "number", "c": "category", "d": "number"}
LINEAR = [
    name
    for name in assay.linear.__all__
    if inspect.isclass(getattr(assay.linear, name)) and issubclass(getattr(assay.linear, name), BaseEstimator)
]
PANEL = [(learner.task, learner.name) for learner in learners()]
QUICK = {"n_estimators": 10, "max_iter": 8}


@cache
def table() -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
    rng = np.random.default_rng(4)
    n = 80
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "d": rng.normal(size=n)})
    frame.insert(2, "c", pd.Series(rng.choice(["x", "ÿ", "z"], n), dtype=object))
    frame.loc[::9, "d"] = np.nan
    y = frame["a"] + 0.5 * frame["b"] + (frame["c"] == "x") + 0.3 * rng.normal(size=n)
    return frame, y, np.array(["low", "mid", "high"], dtype=object)[np.digitize(y, [0.0, 0.8])]


def piped(*steps: Any, encode: str = "treatment") -> Pipeline:
    named = [(f"step{at}", step) for at, step in enumerate(steps)]
    return Pipeline([("columns", Columns(KINDS, encode=encode)), *named])


def parts(model: Any, task: str = "regression", **more: Any) -> dict[str, Any]:
    return {"pipeline": model, "task": task, "target": "y", **more}


def again(
    model: Any, folder: Path, task: str = "regression", trust: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    checksum = save_model(folder / "model.assay", parts(model, task, **more), trust=trust)
    assert checksum == hashlib.sha256((folder / "model.assay").read_bytes()).hexdigest()
    return load_model(folder / "model.assay", trust=trust)


def fitted(model: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(table()[0], y)


# What goes in comes out.


@pytest.mark.parametrize("name", LINEAR)
def test_every_linear_estimator_round_trips(name, tmp_path):
    frame, y, labels = table()
    estimator = getattr(assay.linear, name)()
    task = "classification" if is_classifier(estimator) else "regression"
    steps = [estimator] if hasattr(estimator, "predict") else [estimator, assay.linear.Ridge()]
    model = fitted(piped(*steps), labels if task == "classification" else y)
    found = again(model, tmp_path, task)["pipeline"]
    assert np.array_equal(found.predict(frame), model.predict(frame))


@pytest.mark.parametrize("options", [{}, {"inference": False}, {"firth": True}, {"penalty": "l1"}, {"penalty": "l2"}])
@pytest.mark.parametrize("separated", [False, True])
def test_logistic_regression_round_trips_without_its_rows(options, separated, tmp_path):
    frame, y, _ = table()
    labels = np.where((frame["a"] > 0) if separated else (y > 0), "yes", "no")
    model = fitted(piped(assay.linear.LogisticRegression(**options)), labels)
    found = again(model, tmp_path, "classification")["pipeline"]
    assert np.array_equal(found.predict_proba(frame), model.predict_proba(frame))
    step, stored = model["step0"], found["step0"]
    assert str(stored.summary()) == str(step.summary(likelihood_ratio=False))  # those tests need the rows
    assert str(stored.separation_) == str(step.separation_)
    assert stored._training is None
    if options in ({}, {"firth": True}) and stored.separation_ is None:
        step.summary(likelihood_ratio=True)
        with pytest.raises(DataError, match="are not stored"):
            stored.summary(likelihood_ratio=True)


def test_a_logistic_path_chosen_by_cross_validation_round_trips(tmp_path):
    frame, _, labels = table()
    model = fitted(piped(assay.linear.LogisticRegressionCV(cv=3, alphas=10)), labels)
    found = again(model, tmp_path, "classification")["pipeline"]
    assert np.array_equal(found.predict_proba(frame), model.predict_proba(frame))
    assert str(found["step0"].path_) == str(model["step0"].path_)
    assert str(found["step0"].cv_curve_) == str(model["step0"].cv_curve_)


@pytest.mark.parametrize(("task", "name"), PANEL)
def test_every_learner_of_the_panel_round_trips(task, name, tmp_path):
    frame, y, labels = table()
    learner = next(one for one in learners(task) if one.name == name)
    made = learner.make(0)
    made.set_params(**{key: value for key, value in QUICK.items() if key in learner.space or key in made.get_params()})
    columns = Columns(KINDS, scale=learner.scale, encode=learner.encode)
    pipe = Pipeline([("columns", columns), ("model", made)])
    model = fitted(pipe, y if task == "regression" else labels)
    trust = (malicious.TRUSTED,) if isinstance(made, SVC) else ()
    found = again(model, tmp_path, task, trust)["pipeline"]
    assert np.array_equal(found.predict(frame), model.predict(frame))
    if hasattr(model, "predict_proba"):
        assert np.array_equal(found.predict_proba(frame), model.predict_proba(frame))
        assert list(found.classes_) == list(model.classes_)


def test_a_search_leaves_its_choice(tmp_path):
    frame, y, _ = table()
    tuned = SearchCV(piped(assay.linear.Ridge()), {"step0__alpha": [0.1, 1.0]}, cv=3).fit(frame, y)
    found = again(tuned, tmp_path)["pipeline"]
    assert isinstance(found, Pipeline)
    assert found["step0"].alpha == tuned.best_params_["step0__alpha"]
    assert np.array_equal(found.predict(frame), tuned.predict(frame))


def test_all_parts_come_back(tmp_path):
    _, y, _ = table()
    model = fitted(piped(assay.linear.LinearRegression()), y)
    metadata = {"study": "s1", "versions": {"assay": "1"}, "nothing": None, "score": float("nan"), "many": [1, 2.5]}
    residuals = np.linspace(-1, 1, 7)
    features = model["columns"].get_feature_names_out().tolist()
    found = again(model, tmp_path, kinds=KINDS, features=features, metadata=metadata, residuals=residuals, schema=[1])
    assert (found["task"], found["target"], found["kinds"], found["features"]) == ("regression", "y", KINDS, features)
    assert np.array_equal(found["residuals"], residuals)
    assert found["probabilities"] is None
    assert found["schema"] == [1]
    assert np.isnan(found["metadata"].pop("score"))
    assert found["metadata"] == {key: value for key, value in metadata.items() if key != "score"}
    assert len(found["checksum"]) == 64


@pytest.mark.parametrize("classes", [["no", "yes"], [0, 1], [False, True], [1.0, 2.0]])
def test_classes_keep_their_type(classes, tmp_path):
    model = fitted(piped(LogisticRegression()), np.array(classes, dtype=object)[np.arange(80) % 2].tolist())
    p = np.full((80, 2), 0.5)
    found = again(model, tmp_path, "classification", classes=model.classes_, probabilities=p)
    assert found["classes"].tolist() == classes
    assert [type(label) for label in found["classes"].tolist()] == [type(label) for label in classes]
    assert found["probabilities"].shape == (80, 2)


def test_calibrated_and_conformal_models_round_trip(tmp_path):
    frame, y, labels = table()
    for method in ("isotonic", "logistic"):
        model = CalibratedClassifier(piped(LogisticRegression(penalty="l2")), method=method, cv=3).fit(frame, labels)
        found = again(model, tmp_path, "classification")["pipeline"]
        assert np.array_equal(found.predict_proba(frame), model.predict_proba(frame))
    covered = conformal(piped(assay.linear.Ridge()), frame, y, cv=4)
    found = again(fitted(piped(assay.linear.Ridge()), y), tmp_path, conformal=covered)["conformal"]
    assert found.interval(frame).to_frame().equals(covered.interval(frame).to_frame())


def test_tables_inside_estimators_come_back_as_tables(tmp_path):
    frame, y, _ = table()
    model = assay.linear.BestSubset().fit(frame[["a", "b"]], y)
    assert again(model, tmp_path)["pipeline"].table_.equals(model.table_)


@pytest.mark.parametrize("columns", [["a"], ["a", "b"]])
@pytest.mark.parametrize("options", [{"tau": "loo"}, {"kernel": "tricube", "fraction": 0.5}])
def test_local_fits_with_weights_round_trip(columns, options, tmp_path):
    frame, y, _ = table()
    model = assay.linear.LocalRegression(**options)
    model.fit(frame[columns], y, sample_weight=np.arange(80) % 3)
    found = again(model, tmp_path)["pipeline"]
    assert np.array_equal(found.predict(frame[columns]), model.predict(frame[columns]))


def test_the_same_model_gives_the_same_bytes(tmp_path):
    _, y, _ = table()
    sums = {save_model(tmp_path / f"{at}.assay", parts(fitted(piped(assay.linear.RidgeCV()), y))) for at in range(3)}
    assert len(sums) == 1


def test_saving_leaves_the_model_alone(tmp_path):
    _, y, _ = table()
    model = fitted(piped(assay.linear.Stagewise()), y)
    before = {name: id(value) for name, value in vars(model["step0"]).items()}
    again(model, tmp_path)
    assert {name: id(value) for name, value in vars(model["step0"]).items()} == before
    assert isinstance(model["columns"], Columns)


def test_nothing_but_zeros_is_not_taken_for_a_bomb(tmp_path):
    _, y, _ = table()
    names = [f"column {k:06}" for k in range(50_000)]  # text that packs well, too
    found = again(
        fitted(piped(assay.linear.Ridge()), y), tmp_path, residuals=np.zeros(400_000), schema={"names": names}
    )
    assert found["residuals"].size == 400_000
    assert found["schema"]["names"] == names


def test_a_file_that_packs_too_well_is_opened_with_a_limit(tmp_path):
    # Files of this version were once packed as well as they can be.
    members = {**malicious.good(tmp_path), "arrays/residuals.npy": malicious.npy(np.zeros(400_000))}
    path = tmp_path / "old.assay"
    path.write_bytes(malicious.zipped(malicious.sealed(members)))
    with pytest.raises(StoreError, match=r"like a zip bomb.*assay convert .*old\.assay NEW\.assay --limit 32"):
        load_model(path)
    assert load_model(path, limit=10**7)["residuals"].size == 400_000


# What does not belong there.


@pytest.fixture(scope="module")
def harmful(tmp_path_factory):
    folder = tmp_path_factory.mktemp("harmful")
    sentinel = folder / "sentinel"
    malicious.evil_module(folder, sentinel)
    sys.path.insert(0, str(folder))
    yield malicious.files(folder, sentinel), sentinel
    sys.path.remove(str(folder))


def test_malicious_files_are_refused_and_run_nothing(harmful):
    paths, sentinel = harmful
    assert len(paths) >= 100
    for name, path in paths.items():
        with pytest.raises(StoreError) as caught:
            load_model(path, trust=[malicious.TRUSTED])
        text = str(caught.value)
        assert "\n" not in text, name
        assert len(text) < 600, name
        assert not sentinel.exists(), name
        assert malicious.EVIL_MODULE not in sys.modules, name
        assert not any(path.parent.glob("evil*")), name


def test_the_payloads_are_live(harmful):
    # Without this the test above would pass with harmless files, too.
    paths, sentinel = harmful
    pickle.loads(paths["pickle"].read_bytes())
    assert sentinel.exists()
    sentinel.unlink()
    trust = [malicious.TRUSTED, f"{malicious.EVIL_MODULE}.Evil"]
    with pytest.raises(StoreError):  # trusted by name, the module is imported, which is what trusting means
        load_model(paths["module that runs on import, as a guest"], trust=trust)
    assert sentinel.exists()
    sentinel.unlink()
    del sys.modules[malicious.EVIL_MODULE]


def test_refusals_name_the_reason(harmful):
    paths, _ = harmful
    expected = {
        "pickle": "never loaded",
        "function os.system": "os.system",
        "function os.system, as a guest": "never loaded",
        "array of pickles in the model": "pickled objects",
        "flat bomb": "zip bomb",
        "path out of the archive": "'../evil.npy'",
        "member changed, manifest not": "checksum",
        "half a file": "truncated",
        "empty": "empty",
        "tree that walks in a circle": "inconsistent",
        "module that runs on import, as a guest": f"--trust {malicious.EVIL_MODULE}.Evil",
    }
    for name, words in expected.items():
        with pytest.raises(StoreError, match=words.replace("(", r"\(")):
            load_model(paths[name], trust=[malicious.TRUSTED])


def test_python_itself_cannot_be_trusted(harmful):
    paths, sentinel = harmful
    for name in ("function os.system", "function builtins.eval", "constructor subprocess.Popen"):
        with pytest.raises(StoreError, match="never loaded"):
            load_model(paths[f"{name}, as a guest"], trust=[malicious.TRUSTED, name.split()[-1]])
    assert not sentinel.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_crafted_files_take_no_more_than_twice_the_memory_of_an_honest_one(harmful, tmp_path):
    honest = make.FOLDER / "v2" / "forest.assay"
    assert mutants.use(honest, None) == "predicted"  # loads what it needs before the others are measured
    usual = mutants.outcome(honest, None)[1]
    for name, path in harmful[0].items():
        large = path.stat().st_size > 1 << 20
        limit = mutants.outcome(malicious.large(tmp_path, path.stat().st_size), None)[1] if large else usual
        said, grown = mutants.outcome(path, None)
        assert said.startswith("refused"), name
        assert grown <= 2 * limit + (8 << 20), name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_altered_files_are_refused_or_predict(tmp_path):
    # The short form of `make attack`.
    outcomes = [(name, said) for name, said, *_ in mutants.attack(tmp_path, 80, variants=False)]
    assert [pair for pair in outcomes if not pair[1].startswith(("refused", "predicted"))] == []
    kinds = [said.split(":")[0] for _, said in outcomes]
    assert min(kinds.count("refused"), kinds.count("predicted")) > 8  # neither is everything refused nor nothing


# Files of earlier versions.


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_stored_files_predict_what_they_did(version):
    folder = make.FOLDER / version
    expected = json.loads((folder / "expected.json").read_text())
    assert {path.stem for path in folder.glob("*.assay")} == set(expected)
    rows = make.table()[0].head(make.ROWS)
    for name, values in expected.items():
        found = load_model(folder / f"{name}.assay")
        model = found["pipeline"]
        said = (model.predict if found["task"] == "regression" else model.predict_proba)(rows)
        np.testing.assert_allclose(said, values, rtol=1e-9, atol=1e-12, err_msg=name)
        assert found["metadata"] == {"study": name}
    assert load_model(folder / "search.assay")["conformal"].interval(rows).lower.shape == (make.ROWS,)


def test_foreign_estimators_of_version_1_are_refused_with_a_remedy(harmful):
    with pytest.raises(StoreError, match="fit it again"):
        load_model(harmful[0]["trusted estimator with a function"])


# Estimators of other packages.


class OwnLine(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class OtherLine(OwnLine):
    pass


def test_other_packages_are_written_and_read_by_name_only(tmp_path):
    frame, y, _ = table()
    model, path = fitted(piped(OwnLine()), y), tmp_path / "own.assay"
    name = f"{OwnLine.__module__}.OwnLine"
    with pytest.raises(UntrustedError, match=f"--trust {name}"):
        save_model(path, parts(model))
    assert not path.exists()
    save_model(path, parts(model), trust=[name])
    with pytest.raises(UntrustedError, match=f"--trust {name}"):
        load_model(path)
    with pytest.raises(UntrustedError, match=f"--trust {name}"):
        load_model(path, trust=[f"{OwnLine.__module__}.OtherLine"])
    found = load_model(path, trust=[name])["pipeline"]
    assert np.array_equal(found.predict(frame), model.predict(frame))
    with pytest.raises(ParameterError, match="is not the name of a class"):
        load_model(path, trust=["OwnLine"])


def test_several_objects_of_other_packages_keep_their_order(tmp_path):
    frame, _, labels = table()
    X = frame[["a", "b"]].to_numpy()
    model = CalibratedClassifier(SVC(), cv=3, ensemble=True).fit(X, labels)
    found = again(model, tmp_path, "classification", (malicious.TRUSTED,))["pipeline"]
    assert np.array_equal(found.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("learner", [GradientBoostingRegressor(n_estimators=2), SVC(kernel="precomputed")])
def test_learners_of_scikit_learn_do_not_open_without_a_word(learner, tmp_path):
    # Both follow numbers of their state out of their arrays: more trees than outputs, support beyond the table.
    X = np.random.default_rng(0).normal(size=(20, 20))
    model, path = learner.fit(X @ X.T, np.arange(20) % 2), tmp_path / "m.assay"
    name = f"{type(learner).__module__}.{type(learner).__name__}"
    with pytest.raises(UntrustedError, match=name) as refused:
        save_model(path, parts(model))
    trust = refused.value.classes  # what is inside as well, such as the trees: what may be written can be read
    save_model(path, parts(model), trust=trust)
    with pytest.raises(UntrustedError, match=name):
        load_model(path)
    assert type(load_model(path, trust=trust)["pipeline"]) is type(learner)


def test_trees_must_fit_the_learner_that_uses_them(tmp_path):
    frame, y, _ = table()
    X = np.column_stack([frame["a"], frame["b"]])
    wide = DecisionTreeRegressor(random_state=0).fit(np.column_stack([np.zeros((80, 30)), X]), y)
    for model in (DecisionTreeRegressor(), RandomForestRegressor(3), GradientBoosting(n_estimators=1)):
        model.fit(X, y)
        model.nodes_ = wide.nodes_
        with pytest.raises(DataTypeError, match="cannot be stored"):  # what could not be read again is not written
            save_model(tmp_path / "bad.assay", parts(model))


def test_boosting_starts_with_one_number_per_score(tmp_path):
    frame, y, _ = table()
    model = GradientBoosting(n_estimators=2).fit(frame[["a", "b"]], y)
    model.initial_ = np.zeros(3)
    with pytest.raises(DataTypeError, match="initial_"):
        save_model(tmp_path / "bad.assay", parts(model))


def test_every_truncation_and_many_flips_are_refused_or_harmless(tmp_path):
    frame, y, _ = table()
    model = fitted(piped(assay.linear.Ridge()), y)
    save_model(tmp_path / "m.assay", parts(model))
    data = (tmp_path / "m.assay").read_bytes()
    rng = np.random.default_rng(0)
    for cut in rng.integers(0, len(data), 60):
        (tmp_path / "x.assay").write_bytes(data[:cut])
        with pytest.raises(StoreError):
            load_model(tmp_path / "x.assay")
    refused = 0
    for at in rng.integers(0, len(data), 150):
        flipped = data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]
        (tmp_path / "x.assay").write_bytes(flipped)
        try:
            found = load_model(tmp_path / "x.assay")["pipeline"]
        except StoreError:
            refused += 1
        else:  # a date or an owner in the headers of the archive, which nothing uses
            assert np.array_equal(found.predict(frame), model.predict(frame))
    assert refused > 100


def test_a_size_limit_and_pipes(tmp_path):
    _, y, _ = table()
    save_model(tmp_path / "m.assay", parts(fitted(piped(assay.linear.Ridge()), y)))
    with pytest.raises(StoreError, match="more than"):
        load_model(tmp_path / "m.assay", limit=3000)
    (tmp_path / "zeros.assay").write_bytes(bytes(3001))  # too large to be read at all, whatever it holds
    with pytest.raises(StoreError, match="more than"):
        load_model(tmp_path / "zeros.assay", limit=3000)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.assay")
        with pytest.raises(StoreError, match="is not a file"):
            load_model(tmp_path / "pipe.assay")


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    _, y, _ = table()
    model = fitted(piped(assay.linear.Ridge()), y)
    save_model(tmp_path / "m.assay", parts(model))
    before = (tmp_path / "m.assay").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_archive.os, "fsync", full)
    with pytest.raises(StoreError, match="no space left"):
        save_model(tmp_path / "m.assay", parts(fitted(piped(assay.linear.Lasso()), y)))
    assert (tmp_path / "m.assay").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.assay"]
    with pytest.raises(StoreError, match="cannot write"):
        save_model(tmp_path / "nowhere" / "m.assay", parts(model))


def test_bad_parts_are_said(tmp_path):
    _, y, _ = table()
    model = fitted(piped(assay.linear.Ridge()), y)
    with pytest.raises(ParameterError, match="no part 'mdoel'"):
        save_model(tmp_path / "m.assay", {**parts(model), "mdoel": 1})
    with pytest.raises(ParameterError, match="'target' is missing"):
        save_model(tmp_path / "m.assay", {"pipeline": model, "task": "regression"})
    with pytest.raises(ParameterError, match="does not end in"):
        save_model(tmp_path / "m.pkl", parts(model))
    with pytest.raises(ParameterError, match="has no predict"):
        save_model(tmp_path / "m.assay", parts({"a": 1}))
    with pytest.raises(DataTypeError, match="is not numeric"):
        save_model(tmp_path / "m.assay", parts(model, residuals=["a"]))
    model = piped(OwnFile(tmp_path)).fit(table()[0], y)
    with pytest.raises(DataTypeError, match="cannot be saved"):
        save_model(tmp_path / "m.assay", parts(model), trust=[f"{OwnFile.__module__}.OwnFile"])
    assert not any(tmp_path.glob("*.assay"))


class OwnFile(OwnLine):
    def __init__(self, folder=None):
        self.folder = folder

    def fit(self, X, y):
        self.stream_ = (value for value in y)
        return super().fit(X, y)


def test_no_member_is_a_pickle(tmp_path):
    _, y, _ = table()
    save_model(tmp_path / "m.assay", parts(fitted(piped(assay.linear.Stepwise()), y)))
    with zipfile.ZipFile(tmp_path / "m.assay") as archive:
        names = archive.namelist()
        assert all(name.endswith((".json", ".npy")) for name in names)
        assert names[0] == "manifest.json"
