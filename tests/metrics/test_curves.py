"""Curves: bands by definition and by simulation, tables, pictures."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

import assay.metrics as am
from assay.inference import proportion_interval

FALSE_ALARM = 1e-6


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def draw(rng, m=60, n=80, shift=1.5):
    y = np.repeat([1, 0], [m, n])
    return y, rng.normal(size=m + n) + shift * y


def test_pointwise_limits_are_wilsons():
    y, s = draw(np.random.default_rng(0))
    curve = am.roc_curve(y, s, level=0.9)
    hits = np.round(curve.tpr * 60)
    expected = proportion_interval(hits, 60, level=0.9, method="wilson")
    np.testing.assert_allclose(curve.tpr_lower, expected.lower, atol=1e-12)
    np.testing.assert_allclose(curve.tpr_upper, expected.upper, atol=1e-12)
    assert curve.auc == am.auc.interval(y, s, level=0.9)
    table = am.threshold_table(y, s, thresholds=[0.0, 1.0], level=0.9)
    called = s >= 1.0
    expected = proportion_interval(int(y[called].sum()), int(called.sum()), level=0.9, method="wilson")
    frame = table.to_frame()
    assert frame["precision_lower"][1] == pytest.approx(expected.lower)
    assert frame["specificity"][1] == am.specificity(y, called.astype(int))
    assert frame["sensitivity"][1] == am.sensitivity(y, called.astype(int))
    calibrated = am.calibration_curve([0, 1, 1, 0], [0.1, 0.2, 0.9, 0.8], n_bins=2)
    assert calibrated.upper[0] == pytest.approx(proportion_interval(1, 2, method="wilson").upper)


def test_simultaneous_bands_hold_for_all_thresholds_at_once():
    """400 samples at nominal 90%: the true rates lie in both bands, and precision in its own, at every threshold."""
    rng = np.random.default_rng(1)
    rates = precisions = points = 0
    for _ in range(400):
        y = (rng.random(150) < 0.4).astype(int)
        s = rng.normal(size=150) + 1.5 * y
        table = am.threshold_table(y, s, thresholds=np.linspace(-1.5, 3, 40), level=0.9, band="simultaneous")
        tpr, fpr = stats.norm.sf(table.thresholds - 1.5), stats.norm.sf(table.thresholds)
        inside = [
            np.all((low <= truth) & (truth <= high))
            for (low, high), truth in ((table.limits["sensitivity"], tpr), (table.limits["specificity"], 1 - fpr))
        ]
        rates += all(inside)
        truth = 0.4 * tpr / (0.4 * tpr + 0.6 * fpr)
        low, high = table.limits["precision"]
        precisions += np.all((low <= truth) & (truth <= high))
        narrow = am.threshold_table(y, s, thresholds=[0.7], level=0.9).limits["sensitivity"]
        points += narrow[0][0] <= stats.norm.sf(-0.8) <= narrow[1][0]
    assert rates >= stats.binom.ppf(FALSE_ALARM, 400, 0.9)
    assert precisions >= stats.binom.ppf(FALSE_ALARM, 400, 0.9)
    assert points >= stats.binom.ppf(FALSE_ALARM, 400, 0.88)


def test_simultaneous_is_wider_and_bands_hold_the_curve():
    y, s = draw(np.random.default_rng(2))
    p = 1 / (1 + np.exp(-s))
    for make, low, at, high in (
        (lambda **o: am.roc_curve(y, s, **o), "tpr_lower", "tpr", "tpr_upper"),
        (lambda **o: am.roc_curve(y, s, **o), "fpr_lower", "fpr", "fpr_upper"),
        (lambda **o: am.precision_recall_curve(y, s, **o), "precision_lower", "precision", "precision_upper"),
        (lambda **o: am.precision_recall_curve(y, s, **o), "recall_lower", "recall", "recall_upper"),
        (lambda **o: am.calibration_curve(y, p, **o), "lower", "prob_true", "upper"),
    ):
        one, all_ = make(), make(band="simultaneous")
        for curve in (one, all_):
            assert np.all(getattr(curve, low) <= getattr(curve, at))
            assert np.all(getattr(curve, at) <= getattr(curve, high))
            assert getattr(curve, low).min() >= 0
            assert getattr(curve, high).max() <= 1
        wide, narrow = (np.mean(getattr(c, high) - getattr(c, low)) for c in (all_, one))
        assert wide > narrow


def test_curves_are_frozen_print_and_tabulate():
    y, s = draw(np.random.default_rng(3))
    p = 1 / (1 + np.exp(-s))
    for curve, rows in (
        (am.roc_curve(y, s), am.roc_curve(y, s).tpr.size),
        (am.precision_recall_curve(y, s), am.precision_recall_curve(y, s).recall.size),
        (am.calibration_curve(y, p), 5),
        (am.threshold_table(y, p), 19),
        (am.threshold_table(y, s), 19),
    ):
        frame = curve.to_frame()
        assert len(frame) == rows
        assert "95%" in str(curve)
        assert curve._repr_html_()
        with pytest.raises(AttributeError):
            curve.level = 0.5
    with pytest.raises(ValueError, match="read-only"):
        am.roc_curve(y, s).tpr[0] = 1
    table = am.threshold_table(y, s, thresholds=[99.0])
    assert np.isnan(table.precision[0])
    assert (table.limits["precision"][0][0], table.limits["precision"][1][0]) == (0.0, 1.0)
    assert table.sensitivity[0] == 0


def test_pictures():
    y, s = draw(np.random.default_rng(4))
    p = 1 / (1 + np.exp(-s))
    for band in ("pointwise", "simultaneous"):
        assert "AUC" in am.roc_curve(y, s, band=band).plot().get_legend_handles_labels()[1][1]
        assert am.precision_recall_curve(y, s, band=band).plot().get_xlabel() == "recall"
        assert "Calibration error" in am.calibration_curve(y, p, band=band).plot().get_title(loc="left")
        assert am.threshold_table(y, p, band=band).plot().get_xlabel() == "threshold"
    axes = am.confusion_matrix(["a", "b", "b"], ["a", "b", "a"]).plot()
    assert [text.get_text() for text in axes.texts] == ["1", "0", "1", "1"]
    am.confusion_matrix(np.arange(40), np.arange(40)).plot()
    am.auc.interval(y, s).plot()
