"""Preprocessing: numbers, categories, dates and words as a matrix, learned from the rows it is fitted to."""

from assay.experiment.columns.transformer import Columns

__all__ = ["Columns"]
