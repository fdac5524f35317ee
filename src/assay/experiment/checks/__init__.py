"""Checks of the rows: what would make a result say more than it may."""

from assay.experiment.checks.checklist import Check, Checks, check_table

__all__ = ["Check", "Checks", "check_table"]
