"""Intervals of the metrics: influence by definition, DeLong by definition, coverage, ends that do not collapse."""

import numpy as np
import pytest
from scipy import stats

import assay.metrics as am
from assay.inference import mean_interval, proportion_interval
from tests.naive.metrics import (
    auc_by_pairs,
    calibration_error_by_bins,
    delong_variance_by_definition,
    infinitesimal_jackknife,
)

FALSE_ALARM = 1e-6


def small(seed=0, n=40, classes=3):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    p = rng.dirichlet(np.ones(classes), n) + 0.5 * np.eye(classes)[y]
    return rng, y, p / p.sum(axis=1, keepdims=True)


def error_of(interval, low, high, scale, df=np.inf):
    """The standard error behind a two-sided interval on a logit scale of [low, high], or the plain one."""
    z = stats.t.ppf(0.5 + interval.level / 2, df)
    if scale == "plain":
        return (interval.upper - interval.lower) / 2 / z
    shares = [(end - low) / (high - low) for end in (interval.lower, interval.upper)]
    reach = (np.log(shares[1] / (1 - shares[1])) - np.log(shares[0] / (1 - shares[0]))) / 2 / z
    return reach * (interval.estimate - low) * (high - interval.estimate) / (high - low)


def jackknife_error(figure, n):
    psi = infinitesimal_jackknife(figure, n)
    return np.sqrt(((psi - psi.mean()) ** 2).sum() / (n * (n - 1)))


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (am.f_beta, {"average": "macro", "beta": 2.0}),
        (am.f1, {"average": "weighted"}),
        (am.precision, {"average": "macro"}),
        (am.recall, {"average": "weighted"}),
        (am.specificity, {"average": "micro"}),
        (am.mcc, {}),
        (am.f_beta, {"average": "binary", "beta": 0.5}),
    ],
)
def test_delta_method_of_labels_is_the_infinitesimal_jackknife(metric, options):
    _, y, p = small(classes=2 if options.get("average") == "binary" else 3)
    f = p.argmax(axis=1)
    f[:4] = (f[:4] + 1) % p.shape[1]
    interval = metric.interval(y, f, **options)
    expected = jackknife_error(lambda w: metric(y, f, sample_weight=w, **options), y.size)
    low, high = metric.range
    assert error_of(interval, low, high, "logit") == pytest.approx(expected, rel=1e-5)
    assert interval.lower < interval.estimate < interval.upper


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (am.auc, {"multi_class": "ovr", "average": "macro"}),
        (am.auc, {"multi_class": "ovr", "average": "weighted"}),
        (am.auc, {"multi_class": "ovo", "average": "macro"}),
        (am.auc, {"multi_class": "ovo", "average": "weighted"}),
        (am.average_precision, {"average": "macro"}),
        (am.average_precision, {"average": "weighted"}),
    ],
)
@pytest.mark.parametrize("digits", [1, 9])
def test_delta_method_of_scores_is_the_infinitesimal_jackknife(metric, options, digits):
    _, y, p = small(seed=2)
    p = np.round(p, digits)
    interval = metric.interval(y, p, **options)
    expected = jackknife_error(lambda w: metric(y, p, sample_weight=w, **options), y.size)
    df = np.inf if metric is am.auc else np.bincount(y).min() - 1
    assert error_of(interval, 0, 1, "logit", df) == pytest.approx(expected, rel=1e-5)


def test_average_precision_of_two_classes_by_jackknife():
    _, y, p = small(classes=2)
    s = np.round(p[:, 1], 1)
    expected = jackknife_error(lambda w: am.average_precision(y, s, sample_weight=w), y.size)
    df = np.bincount(y).min() - 1
    assert error_of(am.average_precision.interval(y, s), 0, 1, "logit", df) == pytest.approx(expected, rel=1e-5)


def test_r2_and_rmse_by_jackknife():
    rng = np.random.default_rng(1)
    y = rng.normal(size=50)
    f = y + rng.normal(0, 0.5, 50)
    t = stats.t.ppf(0.975, 49)
    fit = am.r2.interval(y, f)
    expected = jackknife_error(lambda w: am.r2(y, f, sample_weight=w), 50)
    reach = np.log((1 - fit.lower) / (1 - fit.upper)) / 2 / t * (1 - fit.estimate)
    assert reach == pytest.approx(expected, rel=1e-6)
    root = am.rmse.interval(y, f, method="delta")
    expected = jackknife_error(lambda w: am.rmse(y, f, sample_weight=w), 50)
    assert np.log(root.upper / root.lower) / 2 / t * root.estimate == pytest.approx(expected, rel=1e-6)


def test_silhouette_and_adjusted_rand_by_jackknife():
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1, 2], 12)
    X = rng.normal(size=(36, 2)) + labels[:, None] * 1.5

    def weighted_silhouette(w):
        # A row of weight w is w rows in the same place: its own weight counts in sizes but not in its own distance.
        d = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
        total = 0.0
        for i in range(36):
            mass = np.array([w[labels == k].sum() for k in range(3)])
            sums = np.array([(w * d[i])[labels == k].sum() for k in range(3)])
            own = labels[i]
            a = sums[own] / (mass[own] - 1)
            b = min(sums[k] / mass[k] for k in range(3) if k != own)
            total += w[i] * (b - a) / max(a, b)
        return total / w.sum()

    interval = am.silhouette.interval(X, labels)
    assert interval.estimate == pytest.approx(weighted_silhouette(np.ones(36)), rel=1e-12)
    assert error_of(interval, 0, 1, "plain") == pytest.approx(jackknife_error(weighted_silhouette, 36), rel=1e-4)

    other = np.where(rng.random(36) < 0.7, labels, rng.integers(0, 4, 36))

    def weighted_rand(w):
        def pairs(groups):
            return sum(s * (s - 1) / 2 for s in groups)

        joint = [w[(labels == a) & (other == b)].sum() for a in range(3) for b in range(4)]
        a, b, c = (
            pairs(joint),
            pairs([w[labels == k].sum() for k in range(3)]),
            pairs([w[other == k].sum() for k in range(4)]),
        )
        expected = b * c / pairs([w.sum()])
        return (a - expected) / ((b + c) / 2 - expected)

    interval = am.adjusted_rand.interval(labels, other)
    assert error_of(interval, -0.5, 1, "logit") == pytest.approx(jackknife_error(weighted_rand, 36), rel=1e-4)


@pytest.mark.parametrize("digits", [0, 1, 8])
def test_delong_is_its_definition(digits):
    rng = np.random.default_rng(digits)
    y = np.concatenate([[0, 1], rng.integers(0, 2, 58)])
    s = np.round(rng.normal(size=60) + y, digits)
    plain = am.auc.interval(y, s, method="delong", level=0.5)
    assert plain.estimate == pytest.approx(auc_by_pairs(y == 1, s), abs=1e-15)
    assert error_of(plain, 0, 1, "plain") == pytest.approx(np.sqrt(delong_variance_by_definition(y == 1, s)), rel=1e-12)
    weighted = am.auc.interval(y, s, sample_weight=np.full(60, 3.0))
    assert weighted.lower == pytest.approx(am.auc.interval(y, s).lower, rel=1e-12)
    flipped = am.auc.interval(1 - y, -s)
    assert (flipped.lower, flipped.upper) == pytest.approx((am.auc.interval(y, s).lower, am.auc.interval(y, s).upper))


def test_shares_and_means_are_those_of_inference():
    y, f = np.repeat([0, 1], [30, 20]), np.repeat([0, 1, 0, 1], [25, 5, 4, 16])
    for method in ("wilson", "exact", "agresti_coull", "wald", "hoeffding"):
        ours = am.accuracy.interval(y, f, method=method, level=0.9)
        theirs = proportion_interval(41, 50, method=method, level=0.9)
        np.testing.assert_allclose([ours.lower, ours.upper], [theirs.lower, theirs.upper], rtol=1e-12)
        assert (ours.method, ours.n, ours.estimand) == (theirs.method, 50, "accuracy")
    for metric, k, n in (
        (am.sensitivity, 16, 20),
        (am.specificity, 25, 30),
        (am.precision, 16, 21),
        (am.type_one_error, 5, 30),
        (am.type_two_error, 4, 20),
    ):
        ours, theirs = metric.interval(y, f), proportion_interval(k, n, method="wilson")
        np.testing.assert_allclose([ours.lower, ours.upper], [theirs.lower, theirs.upper], rtol=1e-12)
        assert (ours.estimate, ours.n, ours.estimand) == (k / n, n, metric.name)
    each = am.recall.interval(y, f, average=None)
    assert each.names == ("0", "1")
    np.testing.assert_allclose(each.upper, proportion_interval([25, 16], [30, 20], method="wilson").upper)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=30), rng.normal(size=30)
    ours, theirs = am.mse.interval(a, b, method="t"), mean_interval((a - b) ** 2)
    np.testing.assert_allclose([ours.lower, ours.upper], [theirs.lower, theirs.upper], rtol=1e-12)


def test_equal_weights_change_nothing_and_zero_weights_drop_rows():
    rng = np.random.default_rng(3)
    y, f = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    s, v = rng.normal(size=60), rng.normal(size=60)
    half = (np.arange(60) < 40).astype(float)
    cases = [(m, y, f) for m in (am.accuracy, am.f1, am.f_beta.bind(beta=2.0), am.mcc, am.balanced_accuracy, am.risk)]
    cases += [(m, y, s) for m in (am.auc, am.average_precision, am.precision_at_k)]
    cases += [(m, v, s) for m in (am.mse, am.rmse, am.r2, am.median_absolute_error, am.quantile_loss)]
    p = 1 / (1 + np.exp(-s))
    cases += [(m, y, p) for m in (am.log_loss, am.brier, am.expected_calibration_error)]
    for metric, a, b in cases:
        plain = metric.interval(a, b)
        same = metric.interval(a, b, sample_weight=np.full(60, 0.3))
        np.testing.assert_allclose([plain.lower, plain.upper], [same.lower, same.upper], rtol=1e-9, err_msg=metric.name)
        dropped, fewer = metric.interval(a, b, sample_weight=half), metric.interval(a[:40], b[:40])
        np.testing.assert_allclose([dropped.lower, dropped.upper], [fewer.lower, fewer.upper], rtol=1e-9)
        assert dropped.n == fewer.n


def test_perfect_predictions_still_leave_doubt():
    y = np.repeat(["a", "b", "c"], [20, 15, 5])
    for metric, options in (
        (am.accuracy, {}),
        (am.balanced_accuracy, {}),
        (am.mcc, {}),
        (am.f1, {"average": "macro"}),
        (am.precision, {"average": "weighted"}),
        (am.recall, {"average": "micro"}),
    ):
        interval = metric.interval(y, y, **options)
        assert interval.estimate == pytest.approx(1.0)
        assert interval.upper == pytest.approx(1.0)
        assert 0.5 < interval.lower < 0.97, metric.name
    binary = np.repeat([0, 1], 20)
    for metric in (am.f1, am.f_beta.bind(beta=2.0), am.mcc, am.auc, am.average_precision, am.precision_at_k):
        interval = metric.interval(binary, binary)
        assert 0.5 < interval.lower < 0.98, metric.name
        assert interval.upper == 1
    worst = am.auc.interval(binary, -binary)
    assert (worst.lower, worst.estimate) == (0.0, 0.0)
    assert worst.upper == pytest.approx(1 - 0.025 ** (1 / 20))
    assert am.f1.interval(binary, 1 - binary).upper > 0.05
    assert am.mcc.interval(binary, 1 - binary).upper > -0.95
    assert am.risk.interval(binary, binary, cost=[[0, 5], [1, 0]]).upper > 0.2
    assert am.adjusted_rand.interval(y, y).lower < 0.97
    lonely = am.auc.interval([0, 0, 0, 1], [0.1, 0.6, 0.2, 0.5])
    assert (lonely.lower, lonely.upper) == (0.0, 1.0)
    assert am.roc_curve([0, 0, 1], [0.1, 0.6, 0.5]).auc.upper == 1.0
    flat = am.auc.interval(binary, np.zeros(40))
    assert flat.lower < 0.5 < flat.upper


def covered(truth, draw, runs, level, metric, seed, **options):
    rng = np.random.default_rng(seed)
    return sum(truth in metric.interval(*draw(rng), level=level, **options) for _ in range(runs))


def test_coverage_of_smooth_intervals():
    """400 samples each at nominal 90%: above .85 with room for the approximation, false alarm 1e-6 below that."""
    shift = 1.2
    area = stats.norm.cdf(shift / np.sqrt(2))

    def scores(rng):
        y = np.repeat([0, 1], [50, 40])
        return y, rng.normal(size=90) + shift * y

    def numbers(rng):
        y = rng.normal(size=80)
        return y, y + rng.normal(0, 0.5, 80)

    def labels(rng):
        y = (rng.random(150) < 0.4).astype(int)
        return y, np.where(rng.random(150) < 0.85, y, 1 - y)

    # y ~ B(.4), right with probability .85: TP .34, FP .09, FN .06, TN .51.
    f_one = 2 * 0.34 / (2 * 0.34 + 0.15)
    f_two = 5 * 0.34 / (5 * 0.34 + 4 * 0.06 + 0.09)
    correlation = (0.34 * 0.51 - 0.09 * 0.06) / np.sqrt(0.43 * 0.40 * 0.60 * 0.57)
    least = stats.binom.ppf(FALSE_ALARM, 400, 0.88)
    for metric, truth, draw in (
        (am.auc, area, scores),
        (am.rmse, 0.5, numbers),
        (am.r2, 0.75, numbers),
        (am.median_absolute_error, 0.5 * stats.norm.ppf(0.75), numbers),
        (am.f1, f_one, labels),
        (am.f_beta.bind(beta=2.0), f_two, labels),
        (am.mcc, correlation, labels),
        (am.balanced_accuracy, 0.85, labels),
    ):
        assert covered(truth, draw, 400, 0.9, metric, 11) >= least, metric.name


def test_coverage_of_average_precision_and_of_the_top():
    """AP against its value in a million rows; precision at K against that above the sample's own K-th score."""
    rng = np.random.default_rng(0)

    def draw(rng, n=300):
        y = (rng.random(n) < 0.3).astype(int)
        return y, rng.normal(size=n) + 1.5 * y

    truth = am.average_precision(*draw(rng, 1_000_000))
    least = stats.binom.ppf(FALSE_ALARM, 300, 0.88)
    assert covered(truth, draw, 300, 0.9, am.average_precision, 5) >= least
    inside = 0
    for _ in range(300):
        y, s = draw(rng)
        cut = np.sort(s)[-40]
        up, down = 0.3 * stats.norm.sf(cut - 1.5), 0.7 * stats.norm.sf(cut)
        inside += up / (up + down) in am.precision_at_k.interval(y, s, k=40, level=0.9)
    assert inside >= least


def test_calibration_error_covers_for_a_calibrated_model():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(200):
        p = rng.random(200)
        y = (rng.random(200) < p).astype(int)
        interval = am.expected_calibration_error.interval(y, p, level=0.9)
        inside += interval.lower == 0
    assert inside >= stats.binom.ppf(FALSE_ALARM, 200, 0.9)
    assert am.expected_calibration_error(y, p) == pytest.approx(calibration_error_by_bins(y, p, 10), rel=1e-12)


def test_bootstrap_is_near_the_delta_method_and_repeats():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    s = rng.normal(size=300) + y
    once, again = (am.auc.interval(y, s, method="bootstrap", n_resamples=200) for _ in range(2))
    assert once == again
    exact = am.auc.interval(y, s)
    assert once.lower == pytest.approx(exact.lower, abs=0.02)
    assert once.upper == pytest.approx(exact.upper, abs=0.02)
    assert "bootstrap" in once.method
