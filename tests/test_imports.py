"""What a command imports: those that only read the ledger load neither learners nor pictures, others no pictures."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from assay.experiment.study import run

pytestmark = pytest.mark.slow
PICTURES = {"matplotlib", "jinja2"}
UNUSED = {"assay.neural", "assay.latent", "assay.bayes", "assay.clustering", "assay.margin", "assay.trees"}
COUNT = """
import json, sys
from assay.cli import app
try:
    app(json.loads(sys.argv[1]), prog_name="assay")
except SystemExit as stop:
    assert not stop.code, stop.code
print("MODULES" + json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(home))
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
        frame["y"] = frame.a + rng.normal(size=80)
        frame.to_csv(home / "table.csv", index=False)
        study = run(frame, "y", learners=["least squares"], cv=5, test_size=0.25, out=home / "out")
        other = run(frame, "y", learners=["least squares"], cv=4, test_size=0.25, open_test=False)
    return home, study.name, other.name


def modules(home, *args):
    done = subprocess.run(
        [sys.executable, "-c", COUNT, json.dumps(args)],
        env={**os.environ, "ASSAY_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        cwd=home,
    )
    return set(json.loads(done.stdout.split("MODULES")[1]))


@pytest.mark.parametrize("command", ["history", "compare"])
def test_commands_that_read_the_ledger_load_no_learners(finished, command):
    home, *names = finished
    loaded = modules(home, command, *(names if command == "compare" else ()))
    assert loaded.isdisjoint(PICTURES | UNUSED | {"sklearn", "scipy.stats", "numba", "assay.linear"})


@pytest.mark.parametrize("command", ["show", "predict", "learners"])
def test_other_commands_load_no_pictures(finished, command):
    """scikit-learn itself loads scipy.stats, so these cannot do without."""
    home, name, _ = finished
    asked = {"show": (name,), "predict": ("out/model.assay", "table.csv", "-o", "said.csv"), "learners": ()}
    loaded = modules(home, command, *asked[command])
    assert loaded.isdisjoint(PICTURES)
    if command == "predict":
        assert loaded.isdisjoint(UNUSED)
