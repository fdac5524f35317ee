"""Reports of ten kinds of table: no part is missing, numbers are written out, and they are those of `--json`."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from assay.errors import ReportWarning
from assay.experiment import run
from assay.experiment.wording import amount
from tests.tiers import slow


def tables():
    rng = np.random.default_rng(7)
    out = {}
    n = 320
    f = pd.DataFrame(
        {
            "size": rng.gamma(4, 30, n),
            "rooms": rng.integers(1, 7, n).astype(float),
            "age": rng.uniform(0, 90, n),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], n),
        }
    )
    f["price"] = (
        3000 * f["size"]
        + 20000 * f.rooms
        - 800 * f.age
        + 40000 * (f.town == "Bonn")
        + rng.normal(size=n) * (20000 + 30000 * (f.town == "Kiel"))
    )
    out["regression"] = (f, "price", {"learners": ["least squares", "tree"], "unit": "$", "by": ["town"]})
    f = pd.DataFrame(rng.normal(size=(n, 4)), columns=["glucose", "age", "bmi", "pressure"])
    f["sex"] = rng.choice(["f", "m"], n)
    f["ill"] = np.where(f.glucose + 0.5 * f.bmi + rng.normal(size=n) > 0, "yes", "no")
    out["two classes"] = (f, "ill", {"learners": ["logistic"], "by": ["sex"], "cost": "missed=5 false=1"})
    n = 1300
    k = rng.integers(0, 26, n)
    centre = rng.normal(size=(26, 6)) * 2
    f = pd.DataFrame(centre[k] + rng.normal(size=(n, 6)), columns=[f"m{j}" for j in range(6)])
    f["letter"] = [chr(65 + i) for i in k]
    out["26 classes"] = (f, "letter", {"learners": ["discriminant"]})
    n = 3000
    f = pd.DataFrame(rng.normal(size=(n, 3)), columns=["amount", "hour", "distance"])
    p = 1 / (1 + np.exp(-(-6 + 1.8 * f.amount)))
    f["fraud"] = np.where(rng.random(n) < p, "fraud", "fine")
    out["rare"] = (f, "fraud", {"learners": ["logistic"]})
    g = np.repeat(np.arange(60), 6)
    u = rng.normal(size=60)
    f = pd.DataFrame(
        {"patient": [f"p{i:03d}" for i in g], "dose": rng.uniform(0, 10, g.size), "weight": rng.normal(70, 9, g.size)}
    )
    f["response"] = 0.5 * f.dose + u[g] + rng.normal(size=g.size)
    out["groups"] = (f, "response", {"learners": ["least squares"], "group": "patient"})
    n = 400
    day = pd.date_range("2021-01-01", periods=n, freq="D")
    f = pd.DataFrame(
        {
            "day": day,
            "temperature": 10 + 10 * np.sin(np.arange(n) / 58) + rng.normal(size=n),
            "holiday": rng.choice(["no", "no", "no", "yes"], n),
        }
    )
    f["sales"] = 200 + 5 * f.temperature + 30 * (f.holiday == "yes") + rng.normal(size=n) * 9
    out["time"] = (f, "sales", {"learners": ["least squares"], "time": "day"})
    n = 400
    X = rng.normal(size=(n, 70))
    X[rng.random(X.shape) < 0.08] = np.nan
    f = pd.DataFrame(X, columns=[f"sensor {j}" for j in range(70)])
    f["yield"] = 2 * np.nan_to_num(X[:, 0]) - np.nan_to_num(X[:, 5]) + rng.normal(size=n) * 0.5
    out["wide"] = (f, "yield", {"learners": ["lasso"]})
    n = 300
    words = ["fast", "slow", "broken", "great", "late", "cheap", "kind", "rude"]
    txt = [" ".join(rng.choice(words, 6)) for _ in range(n)]
    f = pd.DataFrame(
        {
            "review": txt,
            "sent": pd.date_range("2020-03-01", periods=n, freq="7h").strftime("%Y-%m-%d"),
            "stars": rng.integers(1, 6, n),
        }
    )
    f["refund"] = np.where(
        [("broken" in t) + 0.4 * ("late" in t) + 0.3 * rng.random() > 0.6 for t in txt], "refund", "kept"
    )
    out["text and dates"] = (f, "refund", {"learners": ["logistic"], "kinds": {"review": "text"}})
    n = 60
    f = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    f["y"] = f.a + rng.normal(size=n)
    out["60 rows"] = (f, "y", {"learners": ["least squares"], "test_size": 0.25})
    n = 400
    f = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    f["loss"] = np.exp(1.5 * rng.normal(size=n) + f.a) * 1e-6
    out["heavy tails"] = (f, "loss", {"learners": ["least squares", "tree"]})
    return out


TABLES = tables()
SECTIONS = (
    "leaderboard",
    "comparisons",
    "errors",
    "subgroups",
    "model",
    "limits",
    "checks",
    "data",
    "protocol",
)
QUICK = ("regression", "two classes")
NAMES = [name if name in QUICK else slow(name) for name in TABLES]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_whole(name, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    frame, target, options = TABLES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReportWarning)
        study = run(frame, target, cv=5, out=tmp_path / "out", **options)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert len(page) < 3_000_000
    assert 'class="failed"' not in page
    judged = "test" if study.has_test_set else "outer"
    for key in (*SECTIONS, judged, "card", "manifest", "answer-far", "answer-drives", "answer-fails", "answer-do"):
        assert f'id="{key}"' in page, key
    assert page.index('id="manifest"') < page.index('id="card"')  # paper leaves the card out
    shown = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", shown)
    assert not re.findall(r"(?<![\w.])\d(?:\.\d+)?e[+-]\d+", text)
    assert {one for one in re.findall(r"https?://[^\s\"'<]+", page) if "www.w3.org" not in one} == set()
    told = json.loads(re.search(r'id="numbers">(.*?)</script>', page, re.DOTALL)[1])
    ours = json.loads((tmp_path / "out" / "study.json").read_text())
    for key in ("leaderboard", "test", "comparisons", "selected", "verdict"):
        assert told[key] == ours[key], key
    from assay.report._embed import decimal

    figures = ours["test"] if study.has_test_set else ours["outer"]["figures"]
    assert figures
    for metric, row in figures.items():
        upper = np.inf if row["upper"] is None else row["upper"]  # too few rows for a limit of a quantile
        figure, between = amount(metric, row["estimate"], row["lower"], upper, options.get("unit"))
        assert decimal(figure) in text, metric
        assert decimal(between) in text, metric
    card = (tmp_path / "out" / "model-card.md").read_text(encoding="utf-8")
    assert card.startswith(f"# Model card: {target}")
    assert study.sealed.seal.id in card
    for column in options.get("by", ()):
        assert f"By {column}" in text
