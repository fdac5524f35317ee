"""Trees, pruning, bagging, forests and boosting: tables as they come, with categories and gaps."""

from __future__ import annotations

__all__: list[str] = []
