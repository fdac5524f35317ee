"""Slow, obvious versions of everything fast: the definitions, no cleverness."""

from __future__ import annotations

import numpy as np
