"""Model files: a fitted pipeline as JSON and plain arrays, and predictions from it."""

from assay.experiment.model_file.file import load_model, save_model
from assay.experiment.model_file.predict import predict_table

__all__ = ["load_model", "predict_table", "save_model"]
