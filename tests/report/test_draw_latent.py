"""Pictures of mixtures show what their results hold."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

from assay.latent import EMTrace, GaussianMixture

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Ellipse


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def table(p=2):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(0, 1, (60, p)), rng.normal(6, 1, (60, p))])


def test_one_column_has_a_curve_for_each_component_and_their_sum():
    X = table(1)
    axes = GaussianMixture(2, random_state=0).fit(X).density(X=X).plot()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0] == "rows"
    assert labels[-1] == "mixture"
    assert len(labels) == 4
    parts = [line.get_ydata() for line in axes.lines]
    np.testing.assert_allclose(parts[0] + parts[1], parts[2])


def test_two_columns_have_ellipses_that_hold_their_share():
    """95% of a component's own rows lie inside the outer ellipse: 20,000 rows, 6 standard errors."""
    X = table(2)
    model = GaussianMixture(1).fit(X)
    axes = model.density(X=X).plot()
    inner, outer = (patch for patch in axes.patches if isinstance(patch, Ellipse))
    rows = model.set_params(random_state=0).sample(20_000)[0]
    for ellipse, share in ((inner, 0.5), (outer, 0.95)):
        path = ellipse.get_path().transformed(ellipse.get_patch_transform())
        assert abs(path.contains_points(rows).mean() - share) < 6 * np.sqrt(share * (1 - share) / 20_000)


def test_more_columns_are_shown_in_a_plane_and_given_axes_are_kept():
    X = table(4)
    _, given = plt.subplots()
    axes = GaussianMixture(2, random_state=0).fit(X).density().plot(ax=given)
    assert axes is given
    assert "separates the components best" in axes.get_xlabel()


@pytest.mark.filterwarnings("ignore::assay.errors.AssayWarning")
def test_many_components_are_drawn_without_names():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    axes = GaussianMixture(12, covariance_type="spherical", random_state=0, tol=1e-3).fit(rows).density(X=rows).plot()
    assert axes.get_legend() is None
    assert len(axes.patches) == 24


def test_the_choice_is_ringed_and_collapsed_fits_are_hollow():
    X = np.vstack([table(2), np.full((30, 2), 40.0)])
    found = GaussianMixture(random_state=0).select(X, (1, 2, 3), ("full", "tied"))
    axes = found.plot()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["full", "tied", "collapsed", "chosen"]
    ring = axes.lines[-1]
    assert ring.get_xdata()[0] == found.n_components
    assert ring.get_ydata()[0] == 0.0


def test_a_trace_starts_at_the_start_values_and_marks_restarts():
    axes = EMTrace(np.array([-2.0, -1.5]), True, "", initial=-3.0, restarted=(1,)).plot()
    assert axes.lines[0].get_ydata().tolist() == [-3.0, -2.0, -1.5]
    assert "restarted" in axes.get_legend().get_texts()[0].get_text()
