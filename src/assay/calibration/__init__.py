"""Calibration: scores become probabilities that mean what they say (row B10)."""

from __future__ import annotations

from assay.calibration.classifier import CalibratedClassifier
from assay.calibration.maps import IsotonicMap, LogisticMap
from assay.calibration.reliability import CalibratedScores, Reliability, calibrate

__all__ = ["CalibratedClassifier", "CalibratedScores", "IsotonicMap", "LogisticMap", "Reliability", "calibrate"]
