"""An attribute of something that is not ours, replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["replaced"]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute for the length of a block; one that the owner only inherits is inherited again after it.

    >>> import math
    >>> with replaced(math, "pi", 3):
    ...     math.pi
    3
    >>> round(math.pi, 4)
    3.1416
    """
    own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
