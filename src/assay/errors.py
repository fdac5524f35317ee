"""What can go wrong, said once: what is wrong, where (column, row) and what to do about it.

Every error assay raises on purpose is an `AssayError` and also the built-in that scikit-learn's
conventions ask for (`ValueError` or `TypeError`), so existing `except` clauses keep working.

>>> print(DataError("column 'age' holds NaN in row 3", remedy="drop or impute that row"))
column 'age' holds NaN in row 3; drop or impute that row
"""

from __future__ import annotations

__all__ = [
    "AssayError",
    "AssayWarning",
    "CollinearityWarning",
    "ConvergenceWarning",
    "DataError",
    "DataTypeError",
    "DivergenceError",
    "LearnerError",
    "LedgerError",
    "ParameterError",
    "ReportWarning",
    "SealError",
    "SeparationWarning",
    "StoreError",
    "UntrustedError",
]


class AssayError(Exception):
    """Root of all errors: one sentence made of what is wrong and the remedy.

    `option` names the parameter that the remedy asks for and an example of its value, so that the command line can
    spell the whole command.
    """

    def __init__(self, what: str, *, remedy: str | None = None, option: tuple[str, str] | None = None) -> None:
        self.what = what
        self.remedy = remedy
        self.option = option
        super().__init__(what if remedy is None else f"{what}; {remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default reduction, and errors cross process borders.
        return (_rebuild, (type(self), self.what, self.remedy, self.option))


def _rebuild(kind: type[AssayError], what: str, remedy: str | None, option: tuple[str, str] | None) -> AssayError:
    return kind(what, remedy=remedy, option=option)


class DataError(AssayError, ValueError):
    """The values of a table, a target or the weights cannot be used as they are."""


class DataTypeError(AssayError, TypeError):
    """The kind of data (text, dates, complex numbers, a sparse format) is not one the method takes."""


class ParameterError(AssayError, ValueError):
    """A constructor parameter lies outside its declared range."""


class LearnerError(AssayError, RuntimeError):
    """A learner passed in by the user raised an error of its own while it was fitted or asked for predictions."""


class LedgerError(AssayError, RuntimeError):
    """The ledger or a journal cannot be opened, read or written: locked, corrupt, read-only, or the disk is full."""


class DivergenceError(AssayError, ValueError):
    """An iterative solver ran away; the message names the step size that would have held it."""


class SealError(AssayError, ValueError):
    """A test set cannot be sealed, shared or looked at in the way that was asked for."""


class StoreError(AssayError, ValueError):
    """A model file cannot be written, is damaged, or holds something that must not be opened."""


class UntrustedError(StoreError):
    """A model holds estimators of other packages that nobody said to trust; `classes` names them."""

    classes: tuple[str, ...] = ()


class AssayWarning(UserWarning):
    """Root of all warnings."""


class ConvergenceWarning(AssayWarning):
    """A solver stopped before it reached its tolerance; the message names the knob to turn."""


class CollinearityWarning(AssayWarning):
    """Columns repeat what others already say, so their coefficients are not determined by the data."""


class ReportWarning(AssayWarning):
    """A part of a report could not be made; a sentence stands in its place."""


class SeparationWarning(AssayWarning):
    """Columns separate the classes, so that no maximum-likelihood fit exists; the message names them and the remedy."""
