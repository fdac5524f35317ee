import re

import numpy as np
import pytest

from assay.errors import ParameterError
from assay.trees._predict import leaf_indices
from assay.trees.nodes import UNSEEN, Nodes, concatenate
from assay.trees.rules import export_text, leaves_below, rules


def tree(spec, *, K=1):
    """Nodes from nested tuples: ("leaf", value, rows) or (column, split, missing child, value, rows, [children]).

    split: a number (threshold), a set of codes (first child; the rest second), or a list (child of each code).
    """
    columns = {name: [] for name in ("feature", "threshold", "first", "count", "missing", "offset", "value", "rows")}
    words = []
    queue, made = [spec], 1
    while queue:
        node = queue.pop(0)
        leaf = node[0] == "leaf"
        value, rows = (node[1], node[2]) if leaf else (node[3], node[4])
        split = None if leaf else node[1]
        columns["feature"].append(-1 if leaf else node[0])
        columns["threshold"].append(float(split) if isinstance(split, int | float) else 0.0)
        columns["first"].append(0 if leaf else made)
        columns["count"].append(0 if leaf else len(node[5]))
        columns["missing"].append(0 if leaf else node[2])
        columns["offset"].append(len(words) if isinstance(split, set | list) else -1)
        if isinstance(split, set):
            bits = [0] * (max(split, default=0) // 32 + 2)
            for code in split:
                bits[code >> 5] |= 1 << (code & 31)
            words += bits
        elif isinstance(split, list):
            words += [int(UNSEEN) if child is None else child for child in split]
        columns["value"].append(np.broadcast_to(value, K).astype(float))
        columns["rows"].append(rows)
        if not leaf:
            made += len(node[5])
            queue += node[5]
    kinds = {"feature": np.int32, "first": np.int32, "count": np.int32, "missing": np.int32, "offset": np.int64}
    arrays = {name: np.array(column, dtype=kinds.get(name)) for name, column in columns.items()}
    return Nodes(
        starts=np.array([0, made]),
        words=np.array(words, dtype=np.uint32),
        weight=arrays["rows"].astype(float),
        impurity=np.linspace(1.0, 0.5, made),
        gain=np.where(arrays["count"] > 0, 10.0, 0.0),
        **arrays,
    )


HITTERS = (
    0,
    4.5,
    1,
    5.927,
    263,
    [("leaf", 5.107, 90), (1, 117.5, 0, 6.354, 173, [("leaf", 5.998, 90), ("leaf", 6.740, 83)])],
)


def test_a_small_tree_reads_as_in_the_books():
    text = export_text(tree(HITTERS), ["Years", "Hits"], [None, None])
    assert text.splitlines() == [
        "all rows: 5.93, n = 263",
        "|- Years <= 4.5: 5.11, n = 90",
        "`- Years > 4.5: 6.35, n = 173",
        "   |- Hits <= 117.5: 6.00, n = 90",
        "   `- Hits > 117.5: 6.74, n = 83",
    ]


def test_everything_that_can_be_told_is_told():
    text = export_text(tree(HITTERS), ["Years", "Hits"], [None, None], show=("value", "rows", "weight", "loss", "gain"))
    assert text.splitlines()[0] == "all rows: 5.93, n = 263, weight 263, loss 1, saves 10"
    assert text.splitlines()[1] == "|- Years <= 4.5: 5.11, n = 90, weight 90, loss 0.875"
    assert export_text(tree(HITTERS), ["Years", "Hits"], [None, None], show=()).splitlines()[1] == "|- Years <= 4.5"


def test_a_cut_tree_counts_what_is_below():
    lines = export_text(tree(HITTERS), ["Years", "Hits"], [None, None], max_depth=1).splitlines()
    assert lines[1:] == ["|- Years <= 4.5: 5.11, n = 90", "`- Years > 4.5: 6.35, n = 173 ... 2 leaves below"]
    assert export_text(tree(HITTERS), ["Years", "Hits"], [None, None], max_depth=0) == (
        "all rows: 5.93, n = 263 ... 3 leaves below"
    )


def test_categories_bear_their_names_and_classes_their_shares():
    spec = (
        0,
        {0, 2},
        0,
        (0.6, 0.4),
        400,
        [
            (0, {0}, 1, (0.7, 0.3), 315, [("leaf", (0.9, 0.1), 96), ("leaf", (0.6, 0.4), 219)]),
            ("leaf", (0.001, 0.999), 85),
        ],
    )
    nodes = tree(spec, K=2)
    shelf = [np.array(["Bad", "Good", "Medium"])]
    assert export_text(nodes, ["ShelveLoc"], shelf, ["No", "Yes"]).splitlines() == [
        "all rows: No 60%, n = 400",
        "|- ShelveLoc in {Bad, Medium}: No 70%, n = 315",
        "|  |- ShelveLoc = Bad: No 90%, n = 96",
        "|  `- ShelveLoc = Medium: No 60%, n = 219",
        "`- ShelveLoc = Good: Yes >99%, n = 85",
    ]
    assert "(No 90%, Yes 10%)" in export_text(nodes, ["ShelveLoc"], shelf, ["No", "Yes"], show="shares")
    assert [str(rule) for rule in rules(nodes, ["ShelveLoc"], shelf, ["No", "Yes"])] == [
        "if ShelveLoc = Bad then No 90% (n = 96)",
        "if ShelveLoc = Medium then No 60% (n = 219)",
        "if ShelveLoc = Good then Yes >99% (n = 85)",
    ]
    frame = rules(nodes, ["ShelveLoc"], shelf, ["No", "Yes"]).to_frame()
    assert list(frame.columns) == ["rule", "value", "share", "rows", "weight", "loss"]
    assert list(frame["value"]) == ["No", "No", "Yes"]


def test_long_sets_are_counted_or_told_by_what_is_left_out():
    many = [np.array([f"state{k:02d}" for k in range(40)])]
    spec = (
        0,
        set(range(20)),
        0,
        0.0,
        40,
        [("leaf", 1.0, 20), (0, set(range(21, 40)), 0, 2.0, 20, [("leaf", 3.0, 19), ("leaf", 4.0, 1)])],
    )
    lines = export_text(tree(spec), ["state"], many).splitlines()
    assert lines[1].startswith("|- state in {state00, state01, state02, state03, ... 16 more}: 1.00")
    assert lines[2].startswith("`- state in {state20, state21, state22, state23, ... 16 more}:")
    # Among the twenty levels that come this far only one is left out.
    assert lines[3].startswith("   |- state not in {state20}:")
    assert lines[4].startswith("   `- state = state20:")
    assert rules(tree(spec), ["state"], many)[1].premise == "state in {state21, state22, state23, state24, ... 15 more}"


def test_ordered_levels_are_split_like_numbers():
    sizes = [np.array(["S", "M", "L", "XL"])]
    spec = (0, 0.5, 0, 0.0, 10, [("leaf", 1.0, 5), (0, 2.5, 0, 1.0, 5, [("leaf", 2.0, 3), ("leaf", 3.0, 2)])])
    premises = [rule.premise for rule in rules(tree(spec), ["size"], sizes)]
    assert premises == ["size = S", "S < size <= L", "size = XL"]


def test_missing_values_are_told_where_it_matters():
    # The second node sends them to the smaller child: it has learnt that, so column b held gaps; a may not have.
    spec = (0, 1.5, 1, 0.0, 100, [("leaf", 1.0, 40), (1, 3.0, 1, 2.0, 60, [("leaf", 3.0, 50), ("leaf", 4.0, 10)])])
    nodes = tree(spec)
    heads = [line.split(":")[0] for line in export_text(nodes, ["a", "b"], [None, None]).splitlines()]
    assert heads == ["all rows", "|- a <= 1.5", "`- a > 1.5", "   |- b <= 3", "   `- b > 3 or missing"]
    every = [rule.premise for rule in rules(nodes, ["a", "b"], [None, None], missing=True)]
    assert every == ["a <= 1.5", "(a > 1.5 or missing) and b <= 3", "(a > 1.5 or missing) and (b > 3 or missing)"]
    none = export_text(nodes, ["a", "b"], [None, None], missing=False)
    assert "missing" not in none
    masked = export_text(nodes, ["a", "b"], [None, None], missing=[True, False])
    assert "a > 1.5 or missing" in masked
    assert "b > 3:" in masked


def test_a_split_by_being_there_reads_so():
    spec = (0, np.inf, 1, 0.0, 100, [("leaf", 1.0, 60), ("leaf", 2.0, 40)])
    assert [rule.premise for rule in rules(tree(spec), ["a"], [None])] == ["a known", "a missing"]
    spec = (0, {0, 1}, 1, 0.0, 100, [("leaf", 1.0, 60), ("leaf", 2.0, 40)])
    assert [rule.premise for rule in rules(tree(spec), ["a"], [["u", "v"]])] == ["a known", "a missing"]


def test_multiway_nodes_name_each_branch():
    spec = (0, [0, 1, 2, None, 1], 1, 0.0, 100, [("leaf", 1.0, 30), ("leaf", 2.0, 45), ("leaf", 3.0, 25)])
    lines = export_text(tree(spec), ["fuel"], [["coal", "gas", "oil", "sun", "wind"]]).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "all rows",
        "|- fuel = coal",
        "|- fuel in {gas, sun, wind}",
        "`- fuel = oil",
    ]


def test_one_leaf_is_a_rule_too():
    nodes = tree(("leaf", 3.25, 7))
    assert export_text(nodes, [], []) == "all rows: 3.25, n = 7"
    assert str(rules(nodes, [], [])) == "always 3.25 (n = 7)"
    assert rules(nodes, [], []).to_frame()["rule"].tolist() == ["always"]


def test_thresholds_keep_apart_with_few_digits():
    a, b = 0.123456789, 0.123456999
    spec = (0, a, 0, 0.0, 3, [("leaf", 1.0, 1), (0, b, 0, 1.0, 2, [("leaf", 2.0, 1), ("leaf", 3.0, 1)])])
    assert rules(tree(spec), ["x"], [None])[1].premise == "0.1234568 < x <= 0.123457"
    assert rules(tree(spec), ["x"], [None], decimals=2)[1].premise == "0.1234568 < x <= 0.1234570"
    big = (
        0,
        1234567.5,
        0,
        0.0,
        3,
        [("leaf", 1.0, 1), (0, 2345678.9012345, 0, 1.0, 2, [("leaf", 2.0, 1), ("leaf", 3.0, 1)])],
    )
    assert rules(tree(big), ["x"], [None])[1].premise == "1234567.5 < x <= 2345678.9"
    tiny = (0, 1.5e-9, 0, 0.0, 2, [("leaf", -0.0, 1), ("leaf", 3e-9, 1)])
    assert rules(tree(tiny), ["x"], [None])[0].premise == "x <= 1.5e-09"


def test_names_cannot_break_the_lines():
    spec = (0, {0}, 0, 0.0, 2, [("leaf", 1.0, 1), ("leaf", 2.0, 1)])
    text = export_text(tree(spec), ["a\nb"], [np.array(["x, y", "{z}"])])
    assert text.splitlines()[1].startswith("|- a b = 'x, y':")
    assert len(text.splitlines()) == 3
    text = export_text(tree(spec), ["v"], [np.array(["w" * 80, ""])])
    assert "v = wwwwwwwwwwwwwwwwwwwww...:" in text
    assert "v = '':" in text


def test_bad_requests_say_what_to_do():
    nodes = tree(HITTERS)
    with pytest.raises(ParameterError, match=r"2 trees.*nodes\.tree\(0\)"):
        export_text(concatenate([nodes, nodes]), ["Years", "Hits"], [None, None])
    with pytest.raises(ParameterError, match="unknown item 'rowz' in show"):
        export_text(nodes, ["Years", "Hits"], [None, None], show=["rowz"])
    with pytest.raises(ParameterError, match="max_depth is -1"):
        export_text(nodes, ["Years", "Hits"], [None, None], max_depth=-1)
    with pytest.raises(ParameterError, match=r"decimals is 1\.5"):
        rules(nodes, ["Years", "Hits"], [None, None], decimals=1.5)
    with pytest.raises(ParameterError, match="names has 1 entries, but the tree uses column 1"):
        rules(nodes, ["Years"], [None, None])
    with pytest.raises(ParameterError, match="missing is not a mask"):
        rules(nodes, ["Years", "Hits"], [None, None], missing=[True])
    second = concatenate([tree(("leaf", 1.0, 1)), nodes]).tree(1)
    assert export_text(second, ["Years", "Hits"], [None, None]) == export_text(nodes, ["Years", "Hits"], [None, None])


def random_tree(rng, counts, depth, ordered):
    """A tree of random splits over columns of integers (0 levels), levels, and multiway nodes."""
    rows = int(rng.integers(1, 50))
    if depth == 0 or rng.random() < 0.15:
        return ("leaf", float(rng.integers(0, 10**6)), rows)
    j = int(rng.integers(len(counts)))
    ways = 2
    if counts[j] == 0 or ordered[j]:
        split = float(rng.integers(0, 8)) + 0.5
    elif rng.random() < 0.5:
        split = set(np.flatnonzero(rng.random(counts[j]) < 0.5).tolist())
    else:
        ways = int(rng.integers(3, 5))
        split = [None if rng.random() < 0.2 else int(rng.integers(ways)) for _ in range(counts[j])]
    below = [random_tree(rng, counts, depth - 1, ordered) for _ in range(ways)]
    return (j, split, int(rng.integers(ways)), 0.0, rows, below)


def satisfied(text, row, names, words):
    """Read a premise word by word and judge a row by it, knowing nothing of the tree."""
    if not text:
        return True
    return all(clause_holds(part.strip("()"), row, names, words) for part in text.split(" and "))


def clause_holds(clause, row, names, words):
    name = next(n for n in names if re.search(rf"\b{n}\b", clause))
    j = names.index(name)
    gone = np.isnan(row[j])
    if clause == f"{name} missing":
        return gone
    if clause == f"{name} known":
        return not gone
    if gone:
        return clause.endswith(" or missing")
    clause = clause.removesuffix(" or missing")

    def number(text):
        return float(words[j].index(text)) if words[j] else float(text)

    if " in {" in clause:
        inside = words[j][int(row[j])] in clause[clause.index("{") + 1 : -1].split(", ")
        return inside != (" not in {" in clause)
    if " = " in clause:
        return words[j][int(row[j])] == clause.split(" = ")[1]
    if " > " in clause:
        return row[j] > number(clause.split(" > ")[1])
    *low, high = re.split(r" <=? ", clause.replace(name, "", 1).strip())
    low = [part for part in low if part]
    return row[j] <= number(high.removeprefix("<= ")) and all(row[j] > number(part) for part in low)


@pytest.mark.parametrize("seed", range(12))
def test_every_row_satisfies_exactly_one_rule_and_gets_its_value(seed):
    rng = np.random.default_rng(seed)
    names = ["alpha", "beta", "gamma", "delta"]
    words = [None, ["p", "q", "r", "s", "t"], None, [f"lv{k}" for k in range(9)]]
    counts, ordered = [0, 5, 0, 9], [False, False, False, True]
    nodes = tree(random_tree(rng, counts, 6, ordered))
    X = np.column_stack([rng.integers(0, 10 if c == 0 else c, 300) for c in counts]).astype(float)
    X[rng.random(X.shape) < 0.15] = np.nan
    predicted = nodes.value[leaf_indices(nodes, X)[:, 0], 0]
    found = rules(nodes, names, words, missing=True)
    assert len(found) == nodes.leaves == leaves_below(nodes)[0]
    hits = np.array([[bool(satisfied(rule.premise, row, names, words)) for rule in found] for row in X])
    # A leaf that nothing can reach may read like anything.
    reachable = np.array([possible(rule) for rule in found])
    assert (hits[:, reachable].sum(axis=1) == 1).all()
    values = np.array([rule.value for rule in found])[reachable]
    np.testing.assert_array_equal(values[hits[:, reachable].argmax(axis=1)], predicted)


def possible(rule):
    return all(
        c.missing or (c.levels.any() if c.levels is not None else np.floor(c.upper) > np.floor(c.lower))
        for c in rule.conditions
    )


def test_conditions_as_sets_agree_with_the_tree_when_lists_are_long():
    rng = np.random.default_rng(5)
    counts = [0, 70]
    nodes = tree(random_tree(rng, counts, 7, [False, False]))
    X = np.column_stack([rng.integers(0, 10, 500), rng.integers(0, 70, 500)]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    leaves = leaf_indices(nodes, X)[:, 0]
    taken = np.full(500, -1)
    for rule in rules(nodes, ["a", "b"], [None, np.arange(70)]):
        inside = np.ones(500, dtype=bool)
        for c in rule.conditions:
            x = X[:, c.column]
            gone = np.isnan(x)
            code = np.where(gone, 0, x).astype(int)
            known = c.levels[code] if c.levels is not None else (x > c.lower) & (x <= c.upper)
            inside &= np.where(gone, c.missing, known)
        assert (taken[inside] == -1).all()
        taken[inside] = rule.leaf
    np.testing.assert_array_equal(taken, leaves)


def test_very_deep_trees_do_not_exhaust_the_stack():
    spec = ("leaf", 1.0, 1)
    for k in range(2000):
        spec = (0, float(2000 - k), 0, 0.0, k + 2, [("leaf", float(k), 1), spec])
    assert len(export_text(tree(spec), ["x"], [None]).splitlines()) == 4001
    assert len(rules(tree(spec), ["x"], [None])) == 2001
