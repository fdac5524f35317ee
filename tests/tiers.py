"""The slow tier: `make test-all` runs it, `pytest` and `make test` leave it out.

A whole test is marked with `@pytest.mark.slow`; one set of its parameters with `slow(...)` instead of the bare values.
"""

from __future__ import annotations

from functools import partial

import pytest

slow = partial(pytest.param, marks=pytest.mark.slow)
