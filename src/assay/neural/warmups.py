"""What this family compiles."""

from __future__ import annotations

from assay.numerics.warmup import Warmup

__all__ = ["WARMUPS"]

WARMUPS: tuple[Warmup, ...] = ()
