"""The number of examples of each property: few by default, many in `make test-all`."""

from __future__ import annotations

from hypothesis import settings


def test_the_profile_asked_for_is_in_force(pytestconfig):
    asked = pytestconfig.getoption("--hypothesis-profile") or "quick"
    assert settings().max_examples == settings.get_profile(asked).max_examples
    assert settings.get_profile("long").max_examples >= 10 * settings.get_profile("quick").max_examples
