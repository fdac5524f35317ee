"""The kernels of a study's learners, compiled in worker processes while the study seals and fits what is ready."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from assay import warm
from assay.experiment.panel import Learner, panel
from assay.experiment.plan import Plan

__all__ = ["Compiling"]


class Compiling:
    """What the learners of a plan compile for a table like `frame`; nothing where all of it is in the cache."""

    def __init__(self, plan: Plan, frame: pd.DataFrame) -> None:
        features = frame[plan.features]
        mixed = any(plan.kinds[name] != "number" for name in plan.features) or bool(features.isna().to_numpy().any())
        classes = frame[plan.target].nunique() if plan.task == "classification" else 0
        self._names = {
            learner.name: warm.names_for(
                learner.make(plan.seed), classes=classes, categories=mixed and learner.encode == "native"
            )
            for learner in panel(plan.task, plan.panel, plan.learners)
        }
        names = warm.pending(name for names in self._names.values() for name in names)
        self.busy = bool(names)
        self._workers = warm.start(names)

    def next_ready(self, learners: Sequence[Learner]) -> int:
        """The place of the first learner whose kernels are compiled, as soon as there is one."""
        return self._workers.wait_for_any([self._names[learner.name] for learner in learners])
