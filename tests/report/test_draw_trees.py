import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from assay.errors import ParameterError
from assay.report._tree_layout import across, along
from assay.report.draw_trees import draw_tree
from assay.trees.importance import ForestImportance
from assay.trees.influence import RelativeInfluence
from assay.trees.nodes import concatenate
from assay.trees.pruning import CPTable, PruningPath
from assay.trees.rules import rules
from tests.trees.test_text import HITTERS, random_tree, tree

NAMES = ["alpha", "beta", "gamma", "delta"]
WORDS = [None, ["p", "q", "r", "s", "t"], None, [f"lv{k}" for k in range(9)]]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def grown(seed, depth=5, K=1):
    """A random tree with numbers, categories, multiway and ordered splits; classes where K > 1."""
    rng = np.random.default_rng(seed)
    nodes = tree(random_tree(rng, [0, 5, 0, 9], depth, [False, False, False, True]))
    values = nodes.value if K == 1 else rng.dirichlet(np.ones(K), nodes.size)
    gain = np.where(nodes.count > 0, rng.exponential(size=nodes.size), 0.0)
    return type(nodes)(**{**vars(nodes), "value": values, "gain": gain})


def boxes(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]


def words(ax):
    return [text.get_text() for text in ax.texts]


def extents(artists, ax):
    renderer = ax.figure.canvas.get_renderer()
    return [artist.get_window_extent(renderer) for artist in artists]


def corners(boxes):
    return np.array([[box.x0, box.y0, box.x1, box.y1] for box in boxes]).reshape(-1, 4)


def overlaps(a, b, slack=0.5):
    """For all pairs of rectangles whether they share more than a sliver."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    return (high - low > slack).all(axis=2)


def check_nothing_covers_anything(ax):
    ax.figure.draw_without_rendering()
    placed = corners(extents(boxes(ax), ax))
    texts = corners(extents([text for text in ax.texts if text.get_text()], ax))
    assert not np.triu(overlaps(placed, placed), 1).any()
    assert not np.triu(overlaps(texts, texts), 1).any()
    # A text is inside one box or outside of all of them.
    touched = overlaps(texts, placed)
    assert (touched.sum(axis=1) <= 1).all()
    text, box = np.nonzero(touched)
    assert (placed[box, :2] <= texts[text, :2] + 1).all()
    assert (placed[box, 2:] >= texts[text, 2:] - 1).all()
    # Edges pass between the boxes.
    for line in ax.lines:
        points = ax.transData.transform(line.get_xydata())
        low, high = np.minimum(points[1:], points[:-1]), np.maximum(points[1:], points[:-1])
        runs = np.hstack([low - 0.3, high + 0.3])
        assert not overlaps(runs, placed + np.array([2, 2, -2, -2]), slack=0.0).any()
    everything = np.vstack([placed, texts])
    whole = ax.figure.bbox
    assert (everything[:, :2] >= -1).all()
    assert (everything[:, 2:] <= [whole.x1 + 1, whole.y1 + 1]).all()


@pytest.mark.parametrize("branch", ["even", "loss"])
@pytest.mark.parametrize("grow", ["down", "right"])
@pytest.mark.parametrize(("seed", "K"), [(1, 1), (2, 3)])
def test_nothing_covers_anything(seed, K, grow, branch):
    nodes = grown(seed, K=K)
    classes = None if K == 1 else [f"class {k}" for k in range(K)]
    ax = draw_tree(nodes, names=NAMES, levels=WORDS, classes=classes, grow=grow, branch=branch, missing=True)
    check_nothing_covers_anything(ax)


def test_a_small_tree_shows_what_the_book_shows():
    ax = draw_tree(tree(HITTERS), names=["Years", "Hits"], levels=[None, None])
    assert len(boxes(ax)) == 5
    assert len(ax.lines) == 4
    assert ax.get_title(loc="left") == "Regression tree: 3 leaves, 263 rows"
    told = words(ax)
    assert told.count("yes") == told.count("no") == 2
    assert {"Years ≤ 4.5", "Hits ≤ 117.5", "5.11", "6.00", "6.74", "5.93    n = 263", "n = 83"} <= set(told)
    check_nothing_covers_anything(ax)


def test_classes_have_bars_and_a_key():
    spec = (0, {0}, 0, (0.6, 0.4), 400, [("leaf", (1.0, 0.0), 300), ("leaf", (0.25, 0.75), 100)])
    ax = draw_tree(tree(spec, K=2), names=["shelf"], levels=[["Bad", "Good"]], classes=["No", "Yes"])
    assert ax.get_title(loc="left") == "Classification tree: 2 leaves, 400 rows"
    assert {"shelf", "Bad", "Good", "No 100%", "Yes 75%", "No", "Yes"} <= set(words(ax))
    bars = [path.get_extents() for path in ax.collections[0].get_paths()]
    assert len(bars) == 5  # the pure leaf has one colour
    assert bars[-1].width / (bars[-1].width + bars[-2].width) == pytest.approx(0.75)
    check_nothing_covers_anything(ax)


def test_edges_name_categories_and_the_way_of_missing_values():
    many = [f"state{k}" for k in range(12)]
    spec = (0, {0, 1}, 0, 0.0, 50, [("leaf", 1.0, 10), (1, 2.5, 0, 2.0, 40, [("leaf", 2.0, 30), ("leaf", 3.0, 10)])])
    ax = draw_tree(tree(spec), names=["state", "size"], levels=[many, None])
    assert {"state0, state1 or missing", "the other 10", "size ≤ 2.5", "yes", "no"} <= set(words(ax))


def test_a_large_tree_is_opened_where_it_saves_most():
    spec = ("leaf", 0.0, 1)
    for k in range(60):
        spec = (0, float(60 - k), 0, 0.0, k + 2, [("leaf", float(k), 1), spec])
    nodes = tree(spec)
    ax = draw_tree(nodes, max_leaves=7)
    assert len(boxes(ax)) == 13
    assert "… 55 leaves below" in words(ax)
    assert ax.get_title(loc="left") == "Regression tree: 61 leaves, 61 rows, 1 branch collapsed"
    gain = nodes.gain.copy()
    deep = np.flatnonzero((nodes.depth() == 2) & (nodes.count > 0))
    gain[deep] = 0.0
    assert len(boxes(draw_tree(nodes, max_depth=3))) == 7
    assert len(boxes(draw_tree(nodes, max_depth=0))) == 1
    wide = grown(3, depth=7)
    assert wide.leaves > 60
    check_nothing_covers_anything(draw_tree(wide, names=NAMES, levels=WORDS))


def test_the_figure_grows_with_the_tree():
    areas = []
    for depth in (1, 3, 5):
        size = draw_tree(grown(4, depth=depth), names=NAMES, levels=WORDS).figure.get_size_inches()
        areas.append(size.prod())
    assert areas[0] < areas[1] < areas[2]


def test_given_axes_are_kept_and_branches_close_until_type_is_legible():
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    assert draw_tree(grown(3, depth=7), left, names=NAMES, levels=WORDS) is left
    assert plt.get_fignums() == [figure.number]
    assert min(text.get_fontsize() for text in left.texts) >= 5.5
    assert not right.texts
    check_nothing_covers_anything(left)
    _, ax = plt.subplots(figsize=(9, 6), layout="constrained")
    check_nothing_covers_anything(draw_tree(grown(1), ax, names=NAMES, levels=WORDS))


@pytest.mark.parametrize(
    "hostile", ["$x^{2", "$a$", "<b>&", "100%", r"\frac{", "naïve Größe", "漢字", "🐢", "a\nb", "_" * 90, ""]
)
def test_names_are_words_and_nothing_else(hostile):
    levels = [None, [hostile, hostile + "2", "w"]]
    spec = (
        0,
        1.5,
        1,
        (0.5, 0.5),
        9,
        [("leaf", (1, 0), 4), (1, {0}, 1, (0, 1), 5, [("leaf", (0, 1), 2), ("leaf", (0, 1), 3)])],
    )
    ax = draw_tree(tree(spec, K=2), names=[hostile, hostile + "2"], levels=levels, classes=[hostile, "other"])
    ax.figure.canvas.draw()
    check_nothing_covers_anything(ax)
    assert all(len(text) < 80 for text in words(ax))


def test_long_names_are_shortened_but_stay_apart():
    names = ["temperature_of_the_water_in_the_north_basin", "temperature_of_the_water_in_the_south_basin"]
    ax = draw_tree(tree(HITTERS), names=names, levels=[None, None])
    asked = [text.split(" ≤ ")[0] for text in words(ax) if "≤" in text]
    assert len(set(asked)) == 2
    assert all(len(name) < 35 for name in asked)


def test_one_leaf_one_tree_of_many_and_estimators():
    assert len(boxes(draw_tree(tree(("leaf", 3.25, 7))))) == 1
    both = concatenate([tree(("leaf", 1.0, 1)), tree(HITTERS)])
    assert len(boxes(draw_tree(both, index=1))) == 5

    class Fitted:
        nodes_, levels_ = tree(HITTERS), [None, None]

        def _feature_names(self):
            return ["Years", "Hits"]

    assert "Years ≤ 4.5" in words(draw_tree(Fitted()))


def test_bad_requests_say_what_to_do():
    nodes = tree(HITTERS)
    with pytest.raises(ParameterError, match="has no nodes to draw"):
        draw_tree("tree")
    with pytest.raises(ParameterError, match=r"2 trees.*index=0"):
        draw_tree(concatenate([nodes, nodes]))
    with pytest.raises(ParameterError, match="index is 2, but there are 2 trees"):
        draw_tree(concatenate([nodes, nodes]), index=2)
    with pytest.raises(ParameterError, match="max_leaves is 0"):
        draw_tree(nodes, max_leaves=0)
    with pytest.raises(ParameterError, match="max_depth is -1"):
        draw_tree(nodes, max_depth=-1)
    with pytest.raises(ParameterError, match="branch is 'long'"):
        draw_tree(nodes, branch="long")
    with pytest.raises(ParameterError, match="grow is 'up'"):
        draw_tree(nodes, grow="up")
    with pytest.raises(ParameterError, match="levels is None"):
        draw_tree(tree((0, {0}, 0, 0.0, 2, [("leaf", 1.0, 1), ("leaf", 2.0, 1)])))


def test_layout_is_tight_and_parents_stand_in_the_middle():
    children = [[1, 2], [3, 4], [], [], []]
    centre = across(children, np.full(5, 10.0), 2.0)
    np.testing.assert_allclose(centre[[3, 4]], [5.0, 17.0])
    assert centre[1] == centre[[3, 4]].mean()
    assert centre[2] - centre[1] == 12.0
    assert centre[0] == centre[[1, 2]].mean()
    # A solid subtree keeps its neighbour off its whole width.
    solid = across(children, np.full(5, 10.0), 2.0, solid=True)
    assert solid[2] - 5.0 >= solid[4] + 5.0 + 2.0
    start, end = along([-1, 0, 0], np.array([0, 1, 1]), np.array([10.0, 20.0, 30.0]), np.array([0.0, 5.0, 7.0]))
    np.testing.assert_allclose(start, [0.0, 17.0, 17.0])
    np.testing.assert_allclose(end, [10.0, 47.0, 47.0])


def test_longer_branches_save_more():
    spec = (0, 4.5, 1, 5.0, 90, [(1, 1.5, 0, 4.0, 40, [("leaf", 3.0, 20), ("leaf", 4.5, 20)]), ("leaf", 6.0, 50)])
    nodes = tree(spec)
    nodes = type(nodes)(**{**vars(nodes), "gain": np.array([90.0, 9.0, 0.0, 0.0, 0.0])})
    ax = draw_tree(nodes, branch="loss", grow="down")
    tops = {box.get_gid(): box.get_y() for box in boxes(ax)}
    first, second = tops["node1"] - tops["node0"], tops["node3"] - tops["node1"]
    assert first - second == pytest.approx(200.0 * 0.9)


# Results of trees and ensembles.


def cp_table(rows):
    leaves = np.arange(1, rows + 1) ** 2 if rows > 30 else np.arange(1, rows + 1)
    error = 1.0 / np.sqrt(leaves) + 0.01 * np.arange(rows)
    best = int(np.argmin(error))
    chosen = int(np.argmax(error <= error[best] + 0.05))
    return CPTable(
        cp=np.linspace(0.4, 0.0, rows),
        ccp_alpha=np.linspace(1.2, 0.0, rows),
        leaves=leaves,
        splits=leaves - 1,
        rel_error=1.0 / leaves,
        xerror=error,
        xstd=np.full(rows, 0.05),
        best=best,
        one_se=chosen,
        chosen=chosen,
        rule="1se",
        select="alpha",
        root_risk=3.0,
        weight=200.0,
        folds=10,
        loss="squared error",
    )


@pytest.mark.parametrize("rows", [1, 2, 9, 22, 60])
def test_the_cp_table_shows_the_choice_and_the_line_it_comes_from(rows):
    table = cp_table(rows)
    ax = table.plot()
    ax.figure.canvas.draw()
    assert any(np.allclose(line.get_ydata(), table.threshold) for line in ax.lines if len(line.get_ydata()) == 2)
    ring = next(line for line in ax.lines if line.get_label().startswith("chosen"))
    assert ring.get_ydata()[0] == table.xerror[table.chosen]
    assert ring.get_label().endswith(f"{table.leaves[table.chosen]} {'leaf' if table.chosen == 0 else 'leaves'}")
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert shown[0] == "1"
    assert shown[-1] == str(table.leaves[-1])
    assert ax.child_axes[0].get_xlabel() == "price of a leaf (cp)"


@pytest.mark.parametrize("rows", [1, 2, 8, 60])
def test_a_pruning_path_steps_at_its_prices(rows):
    alpha = np.concatenate([[0.0], np.geomspace(0.001, 0.5, rows - 1)])
    leaves = np.arange(rows, 0, -1)
    risk = np.linspace(0.3, 3.0, rows) if rows > 1 else np.array([3.0])
    ax = PruningPath(alpha, 3 * alpha, leaves, leaves - 1, risk, 3.0).plot()
    ax.figure.canvas.draw()
    assert np.allclose(ax.lines[0].get_ydata()[:-1], risk / 3.0)
    assert ax.get_xscale() == ("log" if rows > 2 else "linear")
    other = next(a for a in ax.figure.axes if a is not ax)
    assert np.allclose(other.lines[0].get_ydata()[:-1], leaves)


def test_importance_has_error_bars_and_influence_adds_up():
    names = ("age", "$cost", "a\nb")
    figures = np.array([0.2, 0.5, 0.0])
    result = ForestImportance(
        names=names,
        kind="permutation",
        importance=figures,
        std_error=np.full(3, 0.1),
        lower=figures - 0.2,
        upper=figures + 0.2,
        level=0.95,
        tree_error=np.full(3, 0.05),
        draws=np.tile(figures[:, None], 4),
        baseline=1.0,
        metric="squared error",
        n=50,
        n_repeats=1,
        method="t",
        estimand="increase",
        model="RandomForestRegressor",
    )
    ax = result.plot()
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a b", "age", "$cost"]
    assert np.allclose([bar.get_width() for bar in ax.patches], [0.0, 0.2, 0.5])
    spans = ax.collections[0].get_segments()
    assert np.allclose([[s[0, 0], s[1, 0]] for s in spans], [[-0.2, 0.2], [0.0, 0.4], [0.3, 0.7]])
    assert ax.get_xlabel() == "increase of squared error when shuffled, 95% interval"
    share = RelativeInfluence(names, np.array([30.0, 60.0, 10.0]), figures, np.arange(3), "GradientBoosting", 100)
    ax = share.plot()
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.texts] == ["10", "30", "60"]
    none = RelativeInfluence(names, np.zeros(3), np.zeros(3), np.zeros(3, int), "GradientBoosting", 1)
    none.plot().figure.canvas.draw()


def test_many_columns_leave_the_most_influential():
    values = np.arange(40.0)
    share = RelativeInfluence(tuple(f"c{k}" for k in range(40)), values, values, np.arange(40), "model", 1)
    ax = share.plot()
    assert len(ax.patches) == 30
    assert ax.get_title(loc="left").startswith("Relative influence (30 of 40)")


def test_rules_are_drawn_beside_their_words():
    ax = rules(tree(HITTERS), ["Years", "Hits"], [None, None]).plot()
    assert [label.get_text() for label in ax.get_yticklabels()][::-1] == [
        "Years <= 4.5",
        "Years > 4.5 and Hits <= 117.5",
        "Years > 4.5 and Hits > 117.5",
    ]
    assert "6.74 (n = 83)" in words(ax)
    spec = (0, {0}, 0, (0.6, 0.4), 400, [("leaf", (1.0, 0.0), 300), ("leaf", (0.25, 0.75), 100)])
    ax = rules(tree(spec, K=2), ["$x"], [["$", "%"]], ["$a$", "b"]).plot()
    ax.figure.canvas.draw()
    assert words(ax) == ["b 75% (n = 100)", "$a$ 100% (n = 300)"]
    rules(tree(("leaf", 0.0, 3)), [], []).plot().figure.canvas.draw()
