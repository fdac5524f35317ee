"""What lies on disk: the ledger and its chain, the journal of folds, files written whole or not at all."""

from assay.experiment.storage.ledger import Ledger, home

__all__ = ["Ledger", "home"]
