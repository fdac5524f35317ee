"""Where a benchmark ran: processor, cores and versions, as far as the system tells."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["cores", "processor", "versions"]

OURS = ("numpy", "scipy", "numba", "scikit-learn", "pandas")
PEERS = ("statsmodels", "celer", "skglm", "abess")


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Versions of Python, assay, what it stands on, and the peers that are installed."""
    found = {"Python": platform.python_version()}
    for name in ("assay", *OURS, *PEERS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
