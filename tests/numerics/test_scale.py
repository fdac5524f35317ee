import numpy as np

from assay.numerics.scale import norms, power_of_two


def test_the_unit_is_a_power_of_two_next_above():
    x = np.array([0.0, 1.0, 1.5, 1e300, 1e-300])
    unit = power_of_two(x)
    assert np.all(np.frexp(unit)[0] == 0.5)
    assert np.all((x == 0) | ((x / unit >= 0.5) & (x / unit < 1)))


def test_at_the_ends_of_the_number_line_the_unit_and_its_inverse_stay_numbers():
    unit = power_of_two(np.array([5e-324, 1.7e308]))
    assert np.all(np.isfinite(1.0 / unit**0.5))
    assert unit.tolist() == [2.0**-1000, 2.0**1000]


def test_lengths_at_any_scale():
    A = np.array([[3e200, 3e-200], [4e200, 4e-200]])
    np.testing.assert_allclose(norms(A), [5e200, 5e-200])
