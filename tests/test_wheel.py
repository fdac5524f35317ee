"""The wheel, installed into an environment outside the clone: everything is in it, and it works from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.estimators import QUICK

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FIT = """
import importlib, json, sys
import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.datasets import load_breast_cancer

X, labels = load_breast_cancer(return_X_y=True)
X, labels = X[:200, :4] - X[:200, :4].mean(axis=0), labels[:200]
right = {}
for name in json.loads(sys.argv[1]):
    module, _, kind = name.rpartition(".")
    model = getattr(importlib.import_module(module), kind)()
    y = labels if is_classifier(model) else X[:, 0] + X[:, 1]
    assert len(model.fit(X, y).predict(X)) == len(X), name
    if is_classifier(model) or is_regressor(model):
        right[name] = model.score(X, y)
import assay
print(json.dumps({"file": assay.__file__, "right": right}))
"""


def run(*command: str | Path, **options) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900, **options)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (made,) = folder.glob("assay-*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """A new environment with the wheel; the dependencies are those of the tests, without the editable install."""
    folder = tmp_path_factory.mktemp("outside") / "env"
    venv.create(folder, symlinks=os.name != "nt")
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", packages, wheel)
    return folder


def python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def test_every_file_of_the_package_is_in_the_wheel_and_nothing_else(wheel):
    source = ROOT / "src"
    files = (file for file in (source / "assay").rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == {file.relative_to(source).as_posix() for file in files}
    assert any(name.startswith("assay/report/templates/") for name in packed)
    assert "assay/py.typed" in packed


def test_one_estimator_of_each_family_fits(environment, tmp_path):
    families = {type(one).__module__.split(".")[1]: type(one) for one in reversed(QUICK) if hasattr(one, "predict")}
    expected = {"bayes", "clustering", "generative", "latent", "linear", "margin", "neighbors", "neural", "trees"}
    assert set(families) == expected
    names = [f"assay.{family}.{kind.__name__}" for family, kind in families.items()]
    made = json.loads(run(python(environment), "-c", FIT, json.dumps(names), cwd=tmp_path))
    assert Path(made["file"]).is_relative_to(environment)
    assert len(made["right"]) == len(expected) - 2  # clusters and hidden states have no target
    assert all(score > 0.6 for score in made["right"].values()), made["right"]


def test_the_demo_leaves_report_and_model(environment, tmp_path):
    run(python(environment), "-m", "assay", "demo", "--out", "demo", cwd=tmp_path)
    assert {"breast_cancer.csv", "report.html", "model.assay"} <= set(os.listdir(tmp_path / "demo"))
    command = ("-m", "assay", "predict", "demo/model.assay", "demo/breast_cancer.csv", "-o", "predictions.csv")
    run(python(environment), *command, cwd=tmp_path)
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 570
