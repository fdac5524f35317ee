"""Settings that are checked when an object is made: layers, losses, penalties, optimizers and schedules."""

from __future__ import annotations

from collections.abc import Mapping

from assay.constraints import Constraint
from assay.errors import ParameterError
from assay.state import Stateful

__all__ = ["Declared"]


class Declared(Stateful):
    """A frozen dataclass whose `state` names the range of each of its settings."""

    def __post_init__(self) -> None:
        """Refuse settings out of range, here where they were written."""
        for base in type(self).__mro__:
            table: Mapping[str, Constraint] = base.__dict__.get("state", {})
            for name, spec in table.items():
                value = getattr(self, name)
                if not spec.accepts(value):
                    what = f"{type(self).__name__}: {name} = {value!r} is out of range"
                    raise ParameterError(what, remedy=f"it must be {spec.words}")

    def _check_state(self) -> None:
        self.__post_init__()
