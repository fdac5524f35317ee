"""Tables as they come: files and frames read, cells parsed, and for every column what it holds."""

from assay.experiment.table.table import Table, read_table

__all__ = ["Table", "read_table"]
