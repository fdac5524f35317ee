"""The report: one file that stands alone, says what was found, and shows hostile names as they are written."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.neighbors import KNeighborsRegressor

mpl.use("Agg")
import matplotlib.pyplot as plt

import assay.report._inspection_section
from assay.errors import ReportWarning
from assay.evaluation import compare, cross_validate
from assay.experiment.study import run
from assay.experiment.table import read_table
from assay.numbers import with_limits
from assay.report._about_checks import ABOUT
from assay.report._embed import _write_out, csv_uri, json_block, picture
from assay.report._inspection_section import _calm
from assay.report._result_sections import _to_draw
from assay.report.draw_experiment import pictures_of, plain
from assay.report.html import _range, render, write_report

EVIL = [
    "<script>alert(1)</script>",
    "{{7*7}}",
    "javascript:alert(1)",
    "$x_1^2$",
    "lone $",
    "two\nlines",
    "long " * 60,
    "\U0001f600 smile",
    "עברית",
    '"><img src=x onerror=alert(1)>',
    "--> out",
    "</svg></style>",
    "$\\frac{$",
    "\u202eback",
]
VOID = {"meta", "br", "hr", "img", "link", "input"}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def hostile(n=160, classes=False):
    rng = np.random.default_rng(abs(n - 160))  # other numbers for each size: known rows would be recognised
    frame = pd.DataFrame(rng.normal(size=(n, len(EVIL))), columns=EVIL)
    frame["group of <b>"] = rng.choice(["<i>a</i>", "$b", "{{c}}"], n)
    signal = frame[EVIL[0]] + frame[EVIL[3]] + 0.5 * (frame["group of <b>"] == "$b")
    signal = signal + rng.normal(scale=0.3, size=n)
    frame["<u>target</u>"] = np.where(signal > 0, "<yes>", "$no") if classes else signal
    return frame


@pytest.fixture(scope="module")
def regression(_home):
    return run(hostile(), "<u>target</u>", learners=["least squares", "tree"], cv=5)


@pytest.fixture(scope="module")
def classification(_home):
    return run(hostile(260, classes=True), "<u>target</u>", learners=["logistic", "tree"], cv=5)


@pytest.fixture(scope="module")
def page(regression):
    return render(regression)


@pytest.fixture(scope="module")
def class_page(classification):
    return render(classification)


class Reader(HTMLParser):
    """Reads a page strictly: tags must close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.problems = [], [], [], []
        self.feed(text)
        self.close()
        self.problems += [f"{name} is never closed" for name in self.open]

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"{tag} closes something else, line {self.getpos()[0]}")

    def handle_data(self, data):
        self.text.append(data)

    def all(self, name):
        return [attrs for tag, attrs in self.tags if tag == name]


def test_the_page_is_well_formed_and_its_links_lead_somewhere(page):
    read = Reader(page)
    assert not read.problems
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for attrs in read.all("a"):
        assert attrs["href"].startswith(("#", "data:text/csv"))
        assert not attrs["href"].startswith("#") or attrs["href"][1:] in ids
    for attrs in read.all("use"):
        assert attrs["xlink:href"][1:] in ids
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_it_calls_and_runs_nothing(page):
    read = Reader(page)
    # The one script is that of the print button, and the policy allows it alone, by its hash.
    assert [attrs.get("type") for attrs in read.all("script")] == ["application/json", None]
    script = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "print()" in script
    assert not read.all("link")
    assert not read.all("iframe")
    assert not [attrs for _, attrs in read.tags if any(name.startswith("on") for name in attrs)]
    assert not [attrs["src"] for _, attrs in read.tags if "src" in attrs and not attrs["src"].startswith("data:")]
    calls = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert {one for one in calls if "www.w3.org" not in one} == set()
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_hostile_names_are_shown_as_they_are_written(page, class_page):
    for text in (page, class_page):
        read = Reader(text)
        assert not read.problems
        words = "".join(read.text)
        for name in ("<script>alert(1)</script>", "{{7*7}}", "$x_1^2$", '"><img src=x onerror=alert(1)>', "$\\frac{$"):
            assert name in words
        assert "49" not in re.findall(r"<bdi>([^<]*)</bdi>", text)[:3]
        assert "onerror=alert(1)>" not in text.replace("onerror=alert(1)&gt;", "")
        assert not read.all("img")
        assert 'class="failed"' not in text


def test_everything_can_be_read_without_seeing(page):
    read = Reader(page)
    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    pictures = read.all("svg")
    assert len(pictures) >= 6
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in pictures)
    assert len(read.all("caption")) == len(read.all("table"))
    assert read.all("html")[0]["lang"] == "en"


def test_the_sections_hold_what_was_found(regression, page):
    words = "".join(Reader(page).text)
    found = regression.opened.intervals["rmse"]
    assert regression.verdict() in words
    assert all(one in words for one in with_limits(found.estimate, found.lower, found.upper))
    assert regression.sealed.seal.id in words
    assert regression.hashes["test rows"] in words
    heads = {entry.digest for entry in regression.ledger.entries()}  # other studies have been recorded since
    assert re.search(r"Ledger head ([0-9a-f]{64})", words)[1] in heads
    for title in ("Coefficients", "Column importance", "Partial dependence", "Residuals", "The worst slices"):
        assert title in words
    assert "were left out of 3 refits" in words
    for question in ("How far off is it?", "What drives it?", "Where does it fail?", "What to do with it?"):
        assert question in words


def test_figures_and_years_are_written_as_elsewhere(classification, class_page):
    words = "".join(Reader(class_page).text)
    chosen = classification.selected.name
    part = words[words.index("Selected against best") :]
    assert classification.leaderboard.results[chosen].figure() in part[part.index("std error (points)") :][:600]
    assert _range(pd.Series([1987, 2015, 1999]), "number") == "1987 to 2015, median 1999"


def test_the_numbers_are_inside_as_json_and_csv(regression, page):
    block = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page, re.DOTALL)[1]
    told, ours = json.loads(block), regression.summary()
    assert told["leaderboard"] == json.loads(json.dumps(ours["leaderboard"]))
    assert told["test"]["rmse"]["estimate"] == ours["test"]["rmse"]["estimate"]
    assert "<" not in block
    address = next(a["href"] for a in Reader(page).all("a") if a["href"].startswith("data:"))
    rows = base64.b64decode(address.split("base64,")[1]).decode().splitlines()
    assert rows[0].startswith("learner,metric,estimate,lower,upper")
    assert len(rows) == 1 + len(ours["leaderboard"])


def test_the_file_is_small_whole_and_the_same_again(regression, page, tmp_path):
    path = tmp_path / "report.html"
    digest = write_report(regression, path)
    data = path.read_bytes()
    assert digest == hashlib.sha256(data).hexdigest()
    assert len(data) < 2_000_000
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    ours, theirs = (re.sub(r"[0-9a-f]{64}", "", text) for text in (data.decode(), page))  # the ledger has grown since
    assert ours == theirs


def test_a_sealed_study_says_so():
    frame = hostile(120)
    study = run(frame, "<u>target</u>", learners=["least squares"], cv=5, open_test=False, test_size=0.25)
    words = "".join(Reader(render(study)).text)
    assert "still sealed" in words
    assert f"assay open {study.name}" in words
    assert "makes no claim about the final model" in words
    assert "By cross-validation of" in words


def test_a_look_beyond_the_plan_shows_no_curve(regression, monkeypatch):
    opened = regression.opened
    look = replace(opened.look, level=None, reason="curious")
    from assay.experiment.test_set.ladder import Release

    told = replace(opened, look=look, intervals={}, release=Release(0.5, True, 0.1, 80, "mse"))
    monkeypatch.setattr(regression, "_state", replace(regression._state, opened=told))
    assert pictures_of(told) == {}
    words = "".join(Reader(render(regression)).text)
    assert "The Ladder" in words
    assert "Against the baseline" not in words
    assert told.plot().get_title(loc="left").startswith("A look beyond the plan")


def test_a_part_that_fails_is_a_sentence(regression, monkeypatch):
    def broken(*args, **more):
        raise RuntimeError("no <importance> today\nsecond line")

    monkeypatch.setattr(assay.report._inspection_section, "permutation_importance", broken)
    with pytest.warns(ReportWarning, match="the report has no section 'Column importance'.*no <importance> today"):
        text = render(regression)
    assert not Reader(text).problems
    assert "could not be produced (RuntimeError: no &lt;importance&gt; today)" in text
    assert "Coefficients" in text
    assert "Partial dependence" not in text  # nothing says which columns lead


def test_classes_get_their_curves(classification, class_page):
    shown = pictures_of(classification.opened)
    assert set(shown) == {"confusion table", "ROC curve", "precision-recall curve", "calibration curve"}
    words = "".join(Reader(class_page).text)
    assert "ROC curve" in words
    assert "Calibration curve" in words
    panels = classification.opened.plot()
    assert len(panels) == 4
    panels[0].figure.canvas.draw()  # names with dollars are no mathematics


def test_a_tree_is_drawn_and_listed():
    frame = hostile(140)
    frame["<u>target</u>"] = (frame[EVIL[3]] > 0) * 4.0 + 0.01 * frame[EVIL[0]]
    study = run(frame, "<u>target</u>", learners=["tree"], cv=5, panel="standard")
    text = render(study)
    assert not Reader(text).problems
    assert "The tree." in text
    assert "|- $x_1^2$" in text


def test_the_leaderboard_and_the_table_have_pictures(regression):
    axes = regression.leaderboard.plot()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == regression.leaderboard.order[::-1]
    assert any(
        np.allclose(line.get_xdata(), regression.leaderboard.results["baseline"].estimate) for line in axes.lines
    )
    table = read_table(hostile(30).assign(gap=[None] * 15 + [1.0] * 15))
    shown = table.plot()
    shown.figure.canvas.draw()
    widths = [bar.get_width() for bar in shown.patches]
    assert max(widths) == 0.5
    assert "scatter" not in str(regression.opened.plot())


def test_every_check_is_explained(classification):
    codes = {check.code for check in classification.checks} | {e.code for e in classification.opened.parts.entries}
    assert codes <= set(ABOUT)


def test_small_pieces():
    assert plain("a\n b\x00c") == "a b c"
    assert len(plain("x" * 99)) == 28
    assert "<" not in json_block({"</script>": float("nan")})
    assert json.loads(json_block([float("inf"), 1.5])) == [None, 1.5]
    cells = base64.b64decode(csv_uri(pd.DataFrame({"a": ["=cmd()", -1.5]})).split("base64,")[1]).decode()
    assert cells.splitlines() == ["a", "'=cmd()", "-1.5"]
    drawn = picture(None, (2, 2), 'a "quoted" <alt>', paint=lambda axes: axes.set_title("<b>&$"))
    assert 'aria-label="a &#34;quoted&#34; &lt;alt&gt;"' in drawn
    assert "&lt;b&gt;&amp;$" in drawn


def test_wide_tables_with_missing_categories_have_importances():
    """More columns than are shuffled are screened first, and a missing category is a level of its own there."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 45)), columns=[f"x{j}" for j in range(45)])
    frame["town"] = np.where(rng.random(200) < 0.3, None, rng.choice(["Ulm", "Bonn"], 200))
    frame["y"] = 3 * frame["x44"] + 2 * (frame["town"] == "Ulm") + rng.normal(size=200)
    study = run(frame, "y", learners=["lasso"], cv=3, open_test=False)
    words = "".join(Reader(render(study)).text)  # a part that fails would warn, and a warning is an error here
    assert "Of 46 columns, the 40 most related to the predictions are shown." in words
    leading = re.search(r"Average prediction against ([^\"]*)\"", render(study))[1]
    assert leading.startswith("x44")


WHOLE = """
import warnings
import numpy as np, pandas as pd
from assay.errors import ReportWarning
from assay.experiment import run
warnings.simplefilter("error", ReportWarning)
rng = np.random.default_rng(0)
frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
run(frame.assign(y=frame["a"] + rng.normal(size=120)), "y", learners=["ridge", "lasso"], cv=3, out="out")
"""


def test_a_report_made_in_a_new_process_lacks_no_picture(tmp_path):
    # A process that has drawn before knows pictures that a new one would not find.
    done = subprocess.run([sys.executable, "-c", WHOLE], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "could not be made" not in page
    assert page.count("<svg") + page.count("data:image") >= 5


def test_pictures_fit_a_phone(page, class_page):
    """A phone leaves about 345 of its 375 points; only a drawn tree may be broader and is moved sideways."""
    for text in (page, class_page):
        drawn = [one["style"] for one in Reader(text).all("svg") if "paper" not in one["class"]]
        least = [float(found[1]) for one in drawn if (found := re.search(r"min-width:(\d+)px", one))]
        assert len(least) > 5
        assert max(least) <= 345


def test_numbers_under_a_picture_do_not_touch():
    figure = Figure(figsize=(5.5, 2.0), layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(440_000, 510_000)
    axes.set_yticks([0], ["a column with a long name = 131.7"])
    _write_out(figure)
    FigureCanvasAgg(figure).draw()
    low, high = axes.get_xlim()
    labels = [one for one in axes.get_xticklabels() if low <= one.get_position()[0] <= high]
    boxes = sorted((one.get_window_extent() for one in labels), key=lambda box: box.x0)
    assert len(boxes) >= 2
    assert all(one.x1 < two.x0 for one, two in pairwise(boxes))
    axes.set_xticks([440_000, 450_000], ["Bonn", "Ulm"])
    _write_out(figure)
    assert [one.get_text() for one in axes.get_xticklabels()] == ["Bonn", "Ulm"]


def test_of_many_pairs_those_of_the_selected_learner_are_drawn():
    X, y = np.random.default_rng(0).normal(size=(2, 60))
    learners = {str(k): KNeighborsRegressor(k) for k in range(1, 8)}
    found = compare({name: cross_validate(one, X[:, None], y, cv=5) for name, one in learners.items()})
    drawn = _to_draw(found, "3")
    assert len(drawn.pairs) == 6
    assert all("3" in label.split(" - ") for label in drawn.labels)
    kept = [found.labels.index(label) for label in drawn.labels]
    np.testing.assert_array_equal(drawn.lower, found.lower[kept])
    np.testing.assert_array_equal(drawn.differences, found.differences[kept])
    assert _to_draw(found, "stopped") is found


def test_names_of_categories_that_would_touch_are_turned():
    for names, turned in ((["Köln", "Paris", "São Paulo", "Århus"], True), (["never", "no", "yes"], False)):
        axes = Figure().subplots()
        axes.set_xticks(range(len(names)), names)
        _calm(axes, SimpleNamespace(categorical=[True], grids=[np.array(names, dtype=object)]))
        assert all((one.get_rotation() > 0) == turned for one in axes.get_xticklabels()), names
