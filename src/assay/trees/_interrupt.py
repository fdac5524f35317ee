"""An interrupt that arrives while a compiled kernel runs is passed on as what it is.

Python runs its signal handlers when the kernel hands its arrays back, and Numba then reports the KeyboardInterrupt as
a SystemError ("returned a result with an exception set") whose cause it is. Nobody who pressed Ctrl-C expects that, and
`except KeyboardInterrupt` would not catch it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interrupts"]


@contextmanager
def interrupts() -> Iterator[None]:
    """Around calls of kernels that return arrays: let an interrupt be a KeyboardInterrupt.

    >>> try:
    ...     with interrupts():
    ...         raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
    ... except KeyboardInterrupt:
    ...     print("stopped")
    stopped
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
